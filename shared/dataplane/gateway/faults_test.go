package gateway_test

import (
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/base/telemetry"
	"github.com/gatewright/gatewright/shared/base/telemetry/telemetrytest"
	"github.com/gatewright/gatewright/shared/dataplane/gateway"
	"github.com/gatewright/gatewright/shared/dataplane/gateway/upstream"
)

// TestLogAttributesOf5xxNameTheFault checks that the log of a 5xx response distinguishes faults of the gateway from
// faults of the upstream. An installation's alarms are only for faults of the gateway, because its operator can't fix
// an upstream. The log line has a metric only if FaultsTable is set.
func TestLogAttributesOf5xxNameTheFault(t *testing.T) {
	backend := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/half" {
			w.Header().Set("Content-Length", "100000")
			writef(w, "%s", strings.Repeat("x", 1000))
			return
		}
		w.WriteHeader(http.StatusNotImplemented)
	})
	a := artifact(
		route("GET /failing", forward(backend.URL)), route("GET /half", forward(backend.URL)),
		route("GET /unreachable", forward("http://127.0.0.1:1")),
		route("GET /panics", forward(backend.URL), "limit"))
	declare(a, "limit", "rate-limit-inbound", map[string]any{
		"rateLimitBy": "all", "requestsAllowed": 1,
		"timeWindowMinutes": 1,
	})
	for name, test := range map[string]struct {
		host, path string
		status     float64
		fault      string // the attribute for the fault, "" for none
	}{
		"a 5xx of the upstream":        {"shop.test", "/failing", 501, telemetry.UpstreamFaults},
		"a response that breaks off":   {"shop.test", "/half", 502, telemetry.UpstreamFaults},
		"an unreachable upstream":      {"shop.test", "/unreachable", 502, telemetry.UpstreamFaults},
		"a panic of the gateway":       {"shop.test", "/panics", 500, telemetry.GatewayFaults},
		"a failed look-up of the host": {"broken.test", "/failing", 503, telemetry.GatewayFaults},
		"a path without a route (404)": {"shop.test", "/nowhere", 404, ""},
	} {
		for _, table := range []string{"", "the-table"} {
			t.Run(name+", FaultsTable "+strconv.Quote(table), func(t *testing.T) {
				lines := &syncBuffer{}
				h := newFixture(t, a, withTelemetry(lines, nil, false), func(config *gateway.Config, _ *upstream.Options) {
					config.Telemetry.FaultsTable = table
				})
				h.allowances.used = nil // so that Take panics
				reply, _ := sendRaw(t, h.URL, "GET "+test.path+" HTTP/1.1\r\nHost: "+test.host+"\r\nConnection: close\r\n\r\n")
				_, _ = reply.WriteTo(io.Discard)
				h.Close()
				line := telemetrytest.Line(t, []byte(lines.String()), "request")
				if line["status"] != test.status {
					t.Errorf("log line: status = %v, want %v", line["status"], test.status)
				}
				for _, fault := range []string{telemetry.GatewayFaults, telemetry.UpstreamFaults} {
					if (line[fault] == 1.0) != (fault == test.fault) {
						t.Errorf("log line: %s = %v, want 1 only for the fault %q", fault, line[fault], test.fault)
					}
				}
				wantMetric := test.fault != "" && table != ""
				if (line["_aws"] != nil) != wantMetric || wantMetric && line["table"] != table {
					t.Errorf("log line: metric = %v, table = %v, want a metric: %t, table %q",
						line["_aws"], line["table"], wantMetric, table)
				}
			})
		}
	}
	names := []string{telemetry.GatewayFaults, telemetry.UpstreamFaults, "table", "_aws"}
	for _, diff := range telemetrytest.Undocumented(t, observabilityDocs, "## Whose fault a 5xx is", names...) {
		t.Errorf("documentation of the attributes of faults: %s, want the same names", diff)
	}
}

// TestSpansContainNoClientData checks that a span contains no path, query, host, header, client
// address or user agent. It also checks that a span has only attributes that are known to have no client data.
func TestSpansContainNoClientData(t *testing.T) {
	backend := serve(t, echo)
	c := telemetrytest.New(t)
	h := newFixture(t, artifact(route("GET /todos/{id}", forward(backend.URL))),
		func(config *gateway.Config, _ *upstream.Options) { config.Telemetry.Tracer = c.Tracer })
	for _, path := range []string{
		"/todos/hidden", "/todos/hidden?hidden=hidden", "/hidden",
		"/todos/hidden%2Fhidden;hidden", "/__gatewright/hidden",
	} {
		_ = body(t, h.do(t, "GET", path, header("User-Agent", "hidden"), header("Referer", "https://hidden.test/hidden"),
			header("Cookie", "hidden"),
			header("X-Forwarded-For", "203.0.113.77"), header("Forwarded", "for=203.0.113.77"), header("Tracestate", "a=1")))
	}
	h.Close()
	spans, sent := c.Spans(t)
	if len(spans) != 5 {
		t.Fatalf("spans = %d, want 5", len(spans))
	}
	allowed := []string{
		"http.response.status_code", "http.request.method", "http.route", "gatewright.request_id", "gatewright.cut",
		"gatewright.cold_start",
		"gatewright.deployment", "gatewright.operation", "gatewright.upstream_ms",
	}
	for _, s := range spans {
		for name := range telemetrytest.Attributes(s) {
			if !slices.Contains(allowed, name) {
				t.Errorf("span %s has the attribute %s, want only those of %v", s.GetName(), name, allowed)
			}
		}
		if len(s.GetEvents())+len(s.GetLinks()) > 0 {
			t.Errorf("span %s: events = %v, links = %v, want none", s.GetName(), s.GetEvents(), s.GetLinks())
		}
	}
	for _, text := range []string{"hidden", "203.0.113.77", "127.0.0.1", "Go-http-client", "shop.test"} {
		if strings.Contains(string(sent), text) {
			t.Errorf("exported spans contain %q, want no client data", text)
		}
	}
}
