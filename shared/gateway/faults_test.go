package gateway_test

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/gateway"
	"github.com/gatewright/gatewright/shared/gateway/upstream"
	"github.com/gatewright/gatewright/shared/telemetry"
	"github.com/gatewright/gatewright/shared/telemetry/telemetrytest"
)

// TestTheLineOfA5xxTellsWhoseFaultItIs: alarms ring for the gateway's own, and nobody who runs an installation can mend an upstream.
func TestTheLineOfA5xxTellsWhoseFaultItIs(t *testing.T) {
	up := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/half" {
			w.Header().Set("Content-Length", "100000")
			say(w, "%s", strings.Repeat("x", 1000))
			return
		}
		w.WriteHeader(http.StatusNotImplemented)
	})
	a := artifact(
		route("GET /theirs", forward(up.URL)), route("GET /half", forward(up.URL)), route("GET /unreachable", forward("http://127.0.0.1:1")),
		route("GET /panics", forward(up.URL), "limit"))
	declare(a, "limit", "rate-limit-inbound", map[string]any{"rateLimitBy": "all", "requestsAllowed": 1, "timeWindowMinutes": 1})
	for name, test := range map[string]struct {
		host, path string
		status     float64
		fault      string // "" for none
	}{
		"an upstream's answer":           {"shop.test", "/theirs", 501, telemetry.UpstreamFaults},
		"an answer that breaks off":      {"shop.test", "/half", 502, telemetry.UpstreamFaults},
		"no upstream":                    {"shop.test", "/unreachable", 502, telemetry.UpstreamFaults},
		"a panic of ours":                {"shop.test", "/panics", 500, telemetry.GatewayFaults},
		"a table that does not answer":   {"broken.test", "/theirs", 503, telemetry.GatewayFaults},
		"a client's mistake is nobody's": {"shop.test", "/nowhere", 404, ""},
	} {
		for _, table := range []string{"", "the-table"} {
			t.Run(name+" "+table, func(t *testing.T) {
				lines := &syncBuffer{}
				h := newHouse(t, a, watching(lines, nil, false), func(config *gateway.Config, _ *upstream.Options) { config.Telemetry.Faults = table })
				h.allowances.left = nil // writing to it panics
				answer, _ := raw(t, h.URL, "GET "+test.path+" HTTP/1.1\r\nHost: "+test.host+"\r\nConnection: close\r\n\r\n")
				_, _ = answer.WriteTo(io.Discard)
				h.Close()
				line := telemetrytest.Line(t, []byte(lines.String()), "request")
				if line["status"] != test.status {
					t.Errorf("answered %v", line["status"])
				}
				for _, fault := range []string{telemetry.GatewayFaults, telemetry.UpstreamFaults} {
					if (line[fault] == 1.0) != (fault == test.fault) {
						t.Errorf("%s is %v", fault, line[fault])
					}
				}
				metric := test.fault != "" && table != ""
				if (line["_aws"] != nil) != metric || metric && line["table"] != table {
					t.Errorf("the metric is %v of the table %v", line["_aws"], line["table"])
				}
			})
		}
	}
	names := []string{telemetry.GatewayFaults, telemetry.UpstreamFaults, "table", "_aws"}
	for _, wrong := range telemetrytest.Undocumented(t, documentation, "## Whose fault a 5xx is", names...) {
		t.Error(wrong)
	}
}

// TestSpansHoldNothingThatAClientWrote: no address, no query, no host, no header, and of the client neither address nor user
// agent, whatever it sends. All attributes that a span has stand in the documentation's list.
func TestSpansHoldNothingThatAClientWrote(t *testing.T) {
	up := serve(t, echo)
	c := telemetrytest.New(t)
	h := newHouse(t, artifact(route("GET /todos/{id}", forward(up.URL))), func(config *gateway.Config, _ *upstream.Options) { config.Telemetry.Tracer = c.Tracer })
	for _, path := range []string{"/todos/hidden", "/todos/hidden?hidden=hidden", "/hidden", "/todos/hidden%2Fhidden;hidden", "/__gatewright/hidden"} {
		_ = body(t, h.do(t, "GET", path, header("User-Agent", "hidden"), header("Referer", "https://hidden.test/hidden"), header("Cookie", "hidden"),
			header("X-Forwarded-For", "203.0.113.77"), header("Forwarded", "for=203.0.113.77"), header("Tracestate", "a=1")))
	}
	h.Close()
	spans, sent := c.Spans(t)
	if len(spans) != 5 {
		t.Fatalf("%d spans", len(spans))
	}
	known := []string{
		"http.response.status_code", "http.request.method", "http.route", "gatewright.request_id", "gatewright.cut", "gatewright.cold_start",
		"gatewright.deployment", "gatewright.operation", "gatewright.upstream_ms",
	}
	for _, s := range spans {
		for name := range telemetrytest.Attributes(s) {
			if !slices.Contains(known, name) {
				t.Errorf("the span %s has the attribute %s, which nobody has decided on", s.GetName(), name)
			}
		}
		if len(s.GetEvents())+len(s.GetLinks()) > 0 {
			t.Errorf("the span %s has events %v and links %v", s.GetName(), s.GetEvents(), s.GetLinks())
		}
	}
	for _, text := range []string{"hidden", "203.0.113.77", "127.0.0.1", "Go-http-client", "shop.test"} {
		if strings.Contains(string(sent), text) {
			t.Errorf("spans hold %q", text)
		}
	}
}
