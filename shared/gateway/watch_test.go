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

	"github.com/gatewright/gatewright/shared/gateway"
	"github.com/gatewright/gatewright/shared/gateway/policy"
	"github.com/gatewright/gatewright/shared/gateway/upstream"
	"github.com/gatewright/gatewright/shared/telemetry"
	"github.com/gatewright/gatewright/shared/telemetry/telemetrytest"
)

// watching has a house write a line for each request into lines, and spans to c.
func watching(lines *syncBuffer, c *telemetrytest.Collector, paths bool) setting {
	return func(config *gateway.Config, _ *upstream.Options) {
		config.Access = slog.New(slog.NewJSONHandler(lines, nil))
		config.Telemetry.Paths = paths
		if c != nil {
			config.Telemetry.Tracer = c.Tracer
		}
	}
}

const documentation = "../../docs/observability.md"

func TestTheLineOfARequestIsAsDocumented(t *testing.T) {
	up := serve(t, func(w http.ResponseWriter, _ *http.Request) { say(w, "hidden-answer") })
	a := artifact(route("GET /todos/{id}", forward(up.URL), "key"))
	declare(a, "key", "api-key-inbound", map[string]any{"bucketName": "b"})
	c, lines := telemetrytest.New(t), &syncBuffer{}
	h := newHouse(t, a, watching(lines, c, true))
	h.keys.known = map[string]policy.Identity{"b hidden-key": {Sub: "hidden-consumer"}}
	got := body(t, h.do(t, "GET", "/todos/a%2Fb?q=hidden-query", header("Authorization", "Bearer hidden-key"), header("Cookie", "hidden-cookie")))
	if got != "hidden-answer" {
		t.Fatalf("answered %q", got)
	}
	h.Close() // a line is written after its answer
	line := telemetrytest.Line(t, []byte(lines.String()), "request")
	for name, want := range map[string]any{
		"deployment": "shop-main-1234567", "operation": "GET /todos/{id}", "route": "/todos/{id}", "method": "GET",
		"status": 200.0, "coldStart": true, "host": "shop.test", "path": "/todos/a%2Fb", "level": "INFO",
	} {
		if line[name] != want {
			t.Errorf("%s is %v, not %v", name, line[name], want)
		}
	}
	latency, upstreamLatency := line["latency"].(float64), line["upstreamLatency"].(float64)
	if upstreamLatency <= 0 || latency < upstreamLatency {
		t.Errorf("%v ms, of which the upstream's %v", latency, upstreamLatency)
	}
	documentedLine(t, line, "## The line of a gateway request")
	if _, raw := c.Spans(t); strings.Contains(lines.String()+string(raw), "hidden") {
		t.Errorf("a secret is told: %s\n%q", lines, raw)
	}
}

// TestTheLineSaysWhichPolicyRefused, by the name that the project gave it, and names none where the handler has answered.
func TestTheLineSaysWhichPolicyRefused(t *testing.T) {
	up := serve(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) })
	a := artifact(route("GET /a", forward(up.URL), "first", "who"), route("GET /b", forward(up.URL)))
	declare(a, "first", "rate-limit-inbound", map[string]any{"rateLimitBy": "all", "requestsAllowed": 100, "timeWindowMinutes": 1})
	declare(a, "who", "api-key-inbound", map[string]any{"bucketName": "b"})
	for path, want := range map[string]any{"/a": "who", "/b": "", "/c": ""} {
		lines, counted := &syncBuffer{}, &calls{}
		h := newHouse(t, a, watching(lines, nil, true), func(c *gateway.Config, _ *upstream.Options) { c.Calls = counted })
		_ = body(t, h.do(t, "GET", path))
		h.Close() // a line is written after its answer
		if len(counted.all) != 1 || counted.all[0].Policy != want {
			t.Errorf("%s is counted as %+v, not as refused by %q", path, counted.all, want)
		}
		line := telemetrytest.Line(t, []byte(lines.String()), "request")
		if line["policy"] != want {
			t.Errorf("%s was refused by %v, not %v: %v", path, line["policy"], want, line)
		}
	}
}

// documentedLine compares the fields of a line with those that the documentation has.
func documentedLine(t *testing.T, line map[string]any, heading string) {
	t.Helper()
	for _, name := range []string{slog.TimeKey, slog.LevelKey, slog.MessageKey} {
		delete(line, name)
	}
	for _, wrong := range telemetrytest.Undocumented(t, documentation, heading, slices.Collect(maps.Keys(line))...) {
		t.Error(wrong)
	}
}

func TestEachRequestHasALineHoweverItEnds(t *testing.T) {
	up := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/socket" {
			c, err := websocket.Accept(w, r, nil)
			if err == nil {
				_ = c.Close(websocket.StatusNormalClosure, "")
			}
			return
		}
		w.Header().Set("Content-Length", "100000")
		say(w, "%s", strings.Repeat("x", map[string]int{"/half": 50_000, "/begun": 1000}[r.URL.Path]))
	})
	lines := &syncBuffer{}
	h := newHouse(t, artifact(route("GET /socket", forward(up.URL)), route("GET /half", forward(up.URL)), route("GET /begun", forward(up.URL)), route("GET /gone", forward("http://127.0.0.1:1"))),
		watching(lines, nil, false))
	for i, test := range []struct {
		host, path, operation string
		status                float64
	}{
		{"shop.test", "/socket", "GET /socket", 101},
		{"shop.test", "/half", "GET /half", 200},
		{"shop.test", "/begun", "GET /begun", 502},
		{"shop.test", "/gone", "GET /gone", 502},
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
			// Bytes: an answer may break off before a client has its header.
			answer, _ := raw(t, h.URL, "GET "+test.path+" HTTP/1.1\r\nHost: "+test.host+"\r\nConnection: close\r\n\r\n")
			_, _ = answer.WriteTo(io.Discard)
		}
		var line map[string]any
		for ; line == nil; time.Sleep(time.Millisecond) { // it comes after the answer
			if text := lines.String()[before:]; strings.HasSuffix(text, "\n") {
				line = telemetrytest.Line(t, []byte(text), "request")
			}
		}
		if line["status"] != test.status || line["operation"] != test.operation || line["coldStart"] != (i == 0) || line["cut"] != (test.path == "/half") {
			t.Errorf("%s at %s: %v", test.path, test.host, line)
		}
	}
	if strings.Contains(lines.String(), "hidden") {
		t.Errorf("paths are told: %s", lines)
	}
}

func TestTheSpanOfARequestIsTheUpstreamsParent(t *testing.T) {
	up := serve(t, func(w http.ResponseWriter, r *http.Request) {
		say(w, "%s", strings.Join(r.Header["Traceparent"], ",")+"|"+strings.Join(r.Header["Tracestate"], ","))
	})
	const trace, span = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
	for name, test := range map[string]struct {
		parents []string
		want    string // TRACE and SPAN are those of the span that arrived
		in      string
	}{
		"a client's trace":         {[]string{"00-" + trace + "-" + span + "-01"}, "00-" + trace + "-SPAN-01|a=1", trace},
		"of a later version":       {[]string{"01-" + trace + "-" + span + "-01-more"}, "00-" + trace + "-SPAN-01|a=1", trace},
		"no trace":                 {nil, "00-TRACE-SPAN-01|", ""},
		"a malformed one":          {[]string{"00-" + trace + "-" + span}, "00-TRACE-SPAN-01|", ""},
		"two of them":              {[]string{"00-" + trace + "-" + span + "-01", "00-" + trace + "-" + span + "-01"}, "00-TRACE-SPAN-01|", ""},
		"one that has no span":     {[]string{"00-" + trace + "-0000000000000000-01"}, "00-TRACE-SPAN-01|", ""},
		"one of no known version":  {[]string{"ff-" + trace + "-" + span + "-01"}, "00-TRACE-SPAN-01|", ""},
		"capitals, which are none": {[]string{"00-" + strings.ToUpper(trace) + "-" + span + "-01"}, "00-TRACE-SPAN-01|", ""},
	} {
		t.Run(name, func(t *testing.T) {
			c := telemetrytest.New(t)
			h := newHouse(t, artifact(route("GET /x/{id}", forward(up.URL))), func(config *gateway.Config, _ *upstream.Options) {
				config.Telemetry.Tracer = c.Tracer
			})
			set := []func(*http.Request){header("Tracestate", "a=1")}
			for _, p := range test.parents {
				set = append(set, header("Traceparent", p))
			}
			got := body(t, h.do(t, "GET", "/x/hidden?q=hidden", set...))
			h.Close()
			spans, raw := c.Spans(t)
			if len(spans) != 1 {
				t.Fatalf("%d spans", len(spans))
			}
			s := spans[0]
			id, within := fmt.Sprintf("%x", s.GetSpanId()), fmt.Sprintf("%x", s.GetTraceId())
			if want := strings.NewReplacer("TRACE", within, "SPAN", id).Replace(test.want); got != want {
				t.Errorf("upstream got %s, not %s", got, want)
			}
			if continued := fmt.Sprintf("%x", s.GetParentSpanId()) == span && within == trace; continued != (test.in != "") {
				t.Errorf("the span is in %s below %x", within, s.GetParentSpanId())
			}
			if s.GetName() != "GET /x/{id}" || strings.Contains(string(raw), "hidden") {
				t.Errorf("the span is %v", s)
			}
			attributes := telemetrytest.Attributes(s)
			for key, want := range map[string]string{
				"http.response.status_code": "^200$", "http.request.method": "^GET$", "http.route": `^/x/\{id\}$`, "gatewright.deployment": "^shop-main-1234567$",
				"gatewright.request_id": "^[0-9a-f-]{36}$", "gatewright.cold_start": "^true$", "gatewright.cut": "^false$", "gatewright.upstream_ms": `^\d`,
			} {
				if !regexp.MustCompile(want).MatchString(attributes[key]) {
					t.Errorf("%s is %q", key, attributes[key])
				}
			}
		})
	}
}

func TestASpanIsNamedByItsRouteAndFailsWithUs(t *testing.T) {
	c := telemetrytest.New(t)
	h := newHouse(t, artifact(route("GET /x", forward("http://127.0.0.1:1"))), func(config *gateway.Config, _ *upstream.Options) {
		config.Telemetry = telemetry.Options{Tracer: c.Tracer}
	})
	h.do(t, "GET", "/hidden")
	h.do(t, "GET", "/x")
	h.Close()
	spans, raw := c.Spans(t)
	if len(spans) != 2 || spans[0].GetName() != "unrouted" || spans[1].GetName() != "GET /x" {
		t.Fatalf("the spans are %v", spans)
	}
	if spans[0].GetStatus().GetCode() != 0 || spans[1].GetStatus().GetCode() != 2 {
		t.Errorf("statuses %v and %v", spans[0].GetStatus(), spans[1].GetStatus())
	}
	if strings.Contains(string(raw), "hidden") {
		t.Errorf("a path is told: %q", raw)
	}
}
