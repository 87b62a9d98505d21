package gateway_test

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/dataplane/gateway"
	"github.com/gatewright/gatewright/shared/dataplane/gateway/upstream"
)

// serveDirectly calls the gateway's handler as in a Lambda, where no listener of Gatewright has checked the request's
// head.
func (fx *fixture) serveDirectly(
	t *testing.T, method, target string, modifiers ...func(*http.Request),
) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, target, http.NoBody)
	r.Method, r.Host = method, "shop.test"
	for _, modify := range modifiers {
		modify(r)
	}
	w := httptest.NewRecorder()
	fx.gateway.ServeHTTP(w, r)
	return w
}

// TestLogLinesAreBounded checks that each log line of a request with long values
// has at most 2 KiB, for served, failed and refused requests.
func TestLogLinesAreBounded(t *testing.T) {
	const maxLineBytes = 2 << 10
	backend := serve(t, func(http.ResponseWriter, *http.Request) {})
	a := artifact(route("GET /open", forward(backend.URL)), route("GET /open/{rest}", forward(backend.URL)),
		route("GET /failing", forward("http://127.0.0.1:1")), route("GET /failing/{rest}", forward("http://127.0.0.1:1")))
	long := strings.Repeat("x", 7500)
	large := []func(*http.Request){
		header("User-Agent", long), header("Referer", long), header(long, long), header("Traceparent", long),
		header("X-Request-Id", long), header("Origin", long),
	}
	for name, c := range map[string]struct {
		method, target string
		modifiers      []func(*http.Request)
	}{
		"a path":                        {"GET", "/open/" + long, large},
		"a path of no route":            {"GET", "/" + long, large},
		"a path with a broken escape":   {"GET", "/open/%2f/../%00" + long, large},
		"a path beyond the limit":       {"GET", "/open/" + long + long, large},
		"a path of a failing upstream":  {"GET", "/failing/" + long, large},
		"a query":                       {"GET", "/open?" + long + "=" + long, large},
		"a query of a failing upstream": {"GET", "/failing?" + long + "=" + long, large},
		"a method":                      {long, "/open", large},
		"a host":                        {"GET", "/open", append(large, host(long))},
	} {
		lines, otherLines := &syncBuffer{}, &syncBuffer{}
		h := newFixture(t, a, withTelemetry(lines, nil, true), func(c *gateway.Config, _ *upstream.Options) {
			c.Log = slog.New(slog.NewJSONHandler(otherLines, nil))
		})
		status := h.serveDirectly(t, c.method, c.target, c.modifiers...).Code
		if !strings.Contains(lines.String(), `"msg":"request"`) {
			t.Errorf("%s: status = %d, and the request has no line, want one", name, status)
		}
		for _, line := range strings.SplitAfter(lines.String()+otherLines.String(), "\n") {
			if len(line) > maxLineBytes {
				t.Errorf("%s: a log line has %d bytes, want at most %d: %.300s", name, len(line), maxLineBytes, line)
			}
		}
	}
}

// TestHandlerRefusesLongPaths checks that the gateway's handler refuses a path of more than 8 KiB, but not a path of 8
// KiB. In a Lambda, only the handler has this limit: API Gateway accepts requests whose path and header together have
// up to 10,240 bytes.
func TestHandlerRefusesLongPaths(t *testing.T) {
	h := newFixture(t, artifact())
	for bytes, want := range map[int]int{
		8 << 10: http.StatusNotFound, 8<<10 + 1: http.StatusRequestURITooLong,
		10_000: http.StatusRequestURITooLong,
	} {
		response := h.serveDirectly(t, "GET", "/"+strings.Repeat("x", bytes-1)+"?query").Result()
		if p := problemOf(t, response); p.Status != want {
			t.Errorf("GET of a path of %d bytes: status = %d, want %d", bytes, p.Status, want)
		}
	}
}
