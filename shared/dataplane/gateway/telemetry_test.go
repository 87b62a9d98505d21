package gateway_test

import (
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/gatewright/gatewright/shared/base/telemetry"
	"github.com/gatewright/gatewright/shared/base/telemetry/telemetrytest"
	"github.com/gatewright/gatewright/shared/dataplane/gateway"
	"github.com/gatewright/gatewright/shared/dataplane/gateway/policy"
	"github.com/gatewright/gatewright/shared/dataplane/gateway/upstream"
)

// withTelemetry makes a fixture write the log line of each request into
// lines and, unless c is nil, send spans to c. logPaths is Telemetry.LogPaths.
func withTelemetry(lines *syncBuffer, c *telemetrytest.Collector, logPaths bool) setting {
	return func(config *gateway.Config, _ *upstream.Options) {
		config.Access = slog.New(slog.NewJSONHandler(lines, nil))
		config.Telemetry.LogPaths = logPaths
		if c != nil {
			config.Telemetry.Tracer = c.Tracer
		}
	}
}

// observabilityDocs is the page that documents log lines.
const observabilityDocs = "../../../docs/observability.md"

// TestRequestLogLineMatchesDocs checks the log line of a request with a key. It also checks that neither the line nor
// the span contains the key, the query, a cookie, the consumer or the body.
func TestRequestLogLineMatchesDocs(t *testing.T) {
	backend := serve(t, func(w http.ResponseWriter, _ *http.Request) { writef(w, "hidden-answer") })
	a := artifact(route("GET /todos/{id}", forward(backend.URL), "key"))
	declare(a, "key", "api-key-inbound", map[string]any{"bucketName": "b"})
	c, lines := telemetrytest.New(t), &syncBuffer{}
	h := newFixture(t, a, withTelemetry(lines, c, true))
	h.keys.known = map[string]policy.KeyOwner{"b hidden-key": {Sub: "hidden-consumer"}}
	got := body(t, h.do(t, "GET", "/todos/a%2Fb?q=hidden-query", header("Authorization", "Bearer hidden-key"),
		header("Cookie", "hidden-cookie")))
	if got != "hidden-answer" {
		t.Fatalf("GET /todos: body = %q, want hidden-answer", got)
	}
	h.Close() // the line is written after the response
	line := telemetrytest.Line(t, []byte(lines.String()), "request")
	for name, want := range map[string]any{
		"deployment": "shop-main-1234567", "operation": "GET /todos/{id}", "route": "/todos/{id}", "method": "GET",
		"status": 200.0, "coldStart": true, "host": "shop.test", "path": "/todos/a%2Fb", "level": "INFO",
	} {
		if line[name] != want {
			t.Errorf("log line: %s = %v, want %v", name, line[name], want)
		}
	}
	latency, upstreamLatency := line["latency"].(float64), line["upstreamLatency"].(float64)
	if upstreamLatency <= 0 || latency < upstreamLatency {
		t.Errorf("latency = %v ms, upstream latency = %v ms, want more than 0 for the upstream and at least that in total",
			latency, upstreamLatency)
	}
	checkDocumented(t, line, "## The line of a gateway request")
	if _, raw := c.Spans(t); strings.Contains(lines.String()+string(raw), "hidden") {
		t.Errorf("GET /todos: log or spans contain a secret, want none: %s\n%q", lines, raw)
	}
}

// TestRequestLogNamesTheRefusingPolicy checks that the log line and the counted call have the
// project's name of the policy that has refused the request. They must have no name if the handler has
// responded, or if no route matches.
func TestRequestLogNamesTheRefusingPolicy(t *testing.T) {
	backend := serve(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) })
	a := artifact(route("GET /a", forward(backend.URL), "first", "who"), route("GET /b", forward(backend.URL)))
	declare(a, "first", "rate-limit-inbound", map[string]any{
		"rateLimitBy": "all", "requestsAllowed": 100,
		"timeWindowMinutes": 1,
	})
	declare(a, "who", "api-key-inbound", map[string]any{"bucketName": "b"})
	for path, want := range map[string]any{"/a": "who", "/b": "", "/c": ""} {
		lines, counted := &syncBuffer{}, &callRecorder{}
		h := newFixture(t, a, withTelemetry(lines, nil, true), func(c *gateway.Config, _ *upstream.Options) {
			c.Calls = counted
		})
		_ = body(t, h.do(t, "GET", path))
		h.Close() // the line is written after the response
		if len(counted.recorded) != 1 || counted.recorded[0].Policy != want {
			t.Errorf("GET %s: counted calls = %+v, want one refused by %q", path, counted.recorded, want)
		}
		line := telemetrytest.Line(t, []byte(lines.String()), "request")
		if line["policy"] != want {
			t.Errorf("GET %s: policy of the log line = %v, want %v: %v", path, line["policy"], want, line)
		}
	}
}

// checkDocumented checks that the documentation below heading lists the fields of a log line, except time, level and
// msg. It removes these three from line.
func checkDocumented(t *testing.T, line map[string]any, heading string) {
	t.Helper()
	for _, name := range []string{slog.TimeKey, slog.LevelKey, slog.MessageKey} {
		delete(line, name)
	}
	for _, diff := range telemetrytest.Undocumented(t, observabilityDocs, heading, slices.Collect(maps.Keys(line))...) {
		t.Errorf("documentation below %q: %s, want the same names", heading, diff)
	}
}

// TestEachRequestIsLogged checks the log line of each request: the status, the operation, whether it is the first
// request of the process, and whether the response broke off after a part of it was forwarded. Without LogPaths, no
// line must contain a path.
func TestEachRequestIsLogged(t *testing.T) {
	backend := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/socket" {
			c, err := websocket.Accept(w, r, nil)
			if err == nil {
				_ = c.Close(websocket.StatusNormalClosure, "")
			}
			return
		}
		w.Header().Set("Content-Length", "100000")
		writef(w, "%s", strings.Repeat("x", map[string]int{"/half": 50_000, "/broken-off": 1000}[r.URL.Path]))
	})
	lines := &syncBuffer{}
	h := newFixture(t, artifact(route("GET /socket", forward(backend.URL)), route("GET /half", forward(backend.URL)),
		route("GET /broken-off", forward(backend.URL)), route("GET /unreachable", forward("http://127.0.0.1:1"))),
		withTelemetry(lines, nil, false))
	for i, test := range []struct {
		host, path, operation string
		status                float64
	}{
		{"shop.test", "/socket", "GET /socket", 101},
		{"shop.test", "/half", "GET /half", 200},
		{"shop.test", "/broken-off", "GET /broken-off", 502},
		{"shop.test", "/unreachable", "GET /unreachable", 502},
		{"shop.test", "/hidden", "", 404},
		{"other.test", "/hidden", "", 404},
		{"broken.test", "/hidden", "", 503},
		{"shop.test", "/__gatewright/ping", "", 200},
	} {
		before := len(lines.String())
		if test.path == "/socket" {
			c, _, err := websocket.Dial(t.Context(), h.URL+test.path, &websocket.DialOptions{Host: test.host})
			if err != nil {
				t.Fatal(err)
			}
			_, _, _ = c.Read(t.Context())
			_ = c.CloseNow()
		} else {
			// Use a raw connection, because some responses break off, and body would fail the test.
			reply, _ := sendRaw(t, h.URL, "GET "+test.path+" HTTP/1.1\r\nHost: "+test.host+"\r\nConnection: close\r\n\r\n")
			_, _ = reply.WriteTo(io.Discard)
		}
		var line map[string]any
		for ; line == nil; time.Sleep(time.Millisecond) { // the line is written after the response
			if text := lines.String()[before:]; strings.HasSuffix(text, "\n") {
				line = telemetrytest.Line(t, []byte(text), "request")
			}
		}
		if line["status"] != test.status || line["operation"] != test.operation || line["coldStart"] != (i == 0) ||
			line["cut"] != (test.path == "/half") {
			t.Errorf("%s at %s: log line = %v, want status %v, operation %v, cold start: %t, cut: %t",
				test.path, test.host, line, test.status, test.operation, i == 0, test.path == "/half")
		}
	}
	if strings.Contains(lines.String(), "hidden") {
		t.Errorf("log contains a path, want none: %s", lines)
	}
}

// TestRequestSpanIsTheUpstreamsParent checks the Traceparent and Tracestate that the upstream gets, and the span of the
// request. The span belongs to the client's trace only if the client has sent one valid Traceparent.
func TestRequestSpanIsTheUpstreamsParent(t *testing.T) {
	backend := serve(t, func(w http.ResponseWriter, r *http.Request) {
		writef(w, "%s", strings.Join(r.Header["Traceparent"], ",")+"|"+strings.Join(r.Header["Tracestate"], ","))
	})
	const trace, span = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
	for name, test := range map[string]struct {
		parents   []string
		want      string // TRACE and SPAN are replaced with the IDs of the received span
		continued bool   // whether the span belongs to the client's trace
	}{
		"a client's trace": {[]string{"00-" + trace + "-" + span + "-01"}, "00-" + trace + "-SPAN-01|a=1", true},
		"a trace of a later version": {
			[]string{"01-" + trace + "-" + span + "-01-more"}, "00-" + trace + "-SPAN-01|a=1", true,
		},
		"no trace":          {nil, "00-TRACE-SPAN-01|", false},
		"a malformed trace": {[]string{"00-" + trace + "-" + span}, "00-TRACE-SPAN-01|", false},
		"two traces": {
			[]string{"00-" + trace + "-" + span + "-01", "00-" + trace + "-" + span + "-01"}, "00-TRACE-SPAN-01|", false,
		},
		"a trace with the span ID 0":    {[]string{"00-" + trace + "-0000000000000000-01"}, "00-TRACE-SPAN-01|", false},
		"a trace of an invalid version": {[]string{"ff-" + trace + "-" + span + "-01"}, "00-TRACE-SPAN-01|", false},
		"a trace in capitals": {
			[]string{"00-" + strings.ToUpper(trace) + "-" + span + "-01"}, "00-TRACE-SPAN-01|", false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := telemetrytest.New(t)
			h := newFixture(t, artifact(route("GET /x/{id}", forward(backend.URL))),
				func(config *gateway.Config, _ *upstream.Options) {
					config.Telemetry.Tracer = c.Tracer
				})
			modifiers := []func(*http.Request){header("Tracestate", "a=1")}
			for _, p := range test.parents {
				modifiers = append(modifiers, header("Traceparent", p))
			}
			got := body(t, h.do(t, "GET", "/x/hidden?q=hidden", modifiers...))
			h.Close()
			spans, raw := c.Spans(t)
			if len(spans) != 1 {
				t.Fatalf("GET /x: spans = %d, want 1", len(spans))
			}
			s := spans[0]
			id, traceID := fmt.Sprintf("%x", s.GetSpanId()), fmt.Sprintf("%x", s.GetTraceId())
			if want := strings.NewReplacer("TRACE", traceID, "SPAN", id).Replace(test.want); got != want {
				t.Errorf("GET /x: Traceparent at the upstream = %s, want %s", got, want)
			}
			if continued := fmt.Sprintf("%x", s.GetParentSpanId()) == span && traceID == trace; continued != test.continued {
				t.Errorf("span of trace %s below %x, want the client's trace and span: %t",
					traceID, s.GetParentSpanId(), test.continued)
			}
			if s.GetName() != "GET /x/{id}" || strings.Contains(string(raw), "hidden") {
				t.Errorf("span = %v, want the name GET /x/{id} and no path", s)
			}
			attributes := telemetrytest.Attributes(s)
			for key, want := range map[string]string{
				"http.response.status_code": "^200$", "http.request.method": "^GET$", "http.route": `^/x/\{id\}$`,
				"gatewright.deployment": "^shop-main-1234567$",
				"gatewright.request_id": "^[0-9a-f-]{36}$", "gatewright.cold_start": "^true$", "gatewright.cut": "^false$",
				"gatewright.upstream_ms": `^\d`,
			} {
				if !regexp.MustCompile(want).MatchString(attributes[key]) {
					t.Errorf("span attribute %s = %q, want a match of %s", key, attributes[key], want)
				}
			}
		})
	}
}

func TestSpanNameAndStatus(t *testing.T) {
	c := telemetrytest.New(t)
	h := newFixture(t, artifact(route("GET /x", forward("http://127.0.0.1:1"))),
		func(config *gateway.Config, _ *upstream.Options) {
			config.Telemetry = telemetry.Options{Tracer: c.Tracer}
		})
	h.do(t, "GET", "/hidden")
	h.do(t, "GET", "/x")
	h.Close()
	spans, raw := c.Spans(t)
	if len(spans) != 2 || spans[0].GetName() != "unrouted" || spans[1].GetName() != "GET /x" {
		t.Fatalf("two requests: spans = %v, want unrouted and GET /x", spans)
	}
	if spans[0].GetStatus().GetCode() != 0 || spans[1].GetStatus().GetCode() != 2 {
		t.Errorf("span statuses = %v and %v, want the codes 0 (unset) and 2 (error)",
			spans[0].GetStatus(), spans[1].GetStatus())
	}
	if strings.Contains(string(raw), "hidden") {
		t.Errorf("spans contain a path, want none: %q", raw)
	}
}
