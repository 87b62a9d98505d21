package api_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/base/ids"
	"github.com/gatewright/gatewright/shared/base/telemetry"
	"github.com/gatewright/gatewright/shared/base/telemetry/telemetrytest"
	"github.com/gatewright/gatewright/shared/core/audit"
	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/storetest"
	"github.com/gatewright/gatewright/shared/management/api"
)

// watchedServer returns a server and its log. The server has an operation
// that reads and commits, and that fails for the thing called broken.
func watchedServer(t *testing.T, o telemetry.Options) (*api.Server, *bytes.Buffer) {
	t.Helper()
	log := &bytes.Buffer{}
	table := storetest.New(t)
	step := storetest.Epoch
	now := func() time.Time {
		step = step.Add(1500 * time.Microsecond)
		return step
	}
	server := api.Open(installation.Parts{
		Table: table, Log: slog.New(slog.NewJSONHandler(log, nil)),
		IDs: ids.NewSource(storetest.Random(t), now), Now: now, Telemetry: o,
	}, callers{}, []api.Route{
		changeThing.HandledBy(func(ctx context.Context, in *changeIn) (*changeOut, error) {
			err := table.Get(ctx, store.Key{PK: "thing", SK: in.Name}, &struct{}{})
			if !errors.Is(err, store.ErrNotFound) {
				return nil, err
			}
			if in.Name == "broken" {
				return nil, errors.New("the cause")
			}
			return &changeOut{}, table.Commit(ctx, audit.Record(ctx, audit.Resource{Type: "thing", ID: in.Name}))
		}),
	})
	return server, log
}

func change(server *api.Server, name string) { changeWithContext(context.Background(), server, name) }

// changeWithContext sends a request that changes the thing called name. The query, a header and the body contain
// "hidden".
func changeWithContext(ctx context.Context, server *api.Server, name string) {
	r := httptest.NewRequestWithContext(ctx, http.MethodPatch, "/v1/accounts/acme/things/"+name+"?q=hidden-query",
		strings.NewReader(`{"secret":"hiddenbody"}`))
	r.Header.Set("Authorization", "Bearer "+goodKey)
	r.Header.Set("Traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	r.Header.Set("X-Other", "hidden-header")
	server.ServeHTTP(httptest.NewRecorder(), r)
}

const documentation = "../../../docs/observability.md"

// TestRequestLogLineIsDocumented checks the attributes of the log line of a failed request. All of them must be in the
// documentation. The log must not contain the key, or the marked texts of the query, of a header and of the body.
func TestRequestLogLineIsDocumented(t *testing.T) {
	c := telemetrytest.New(t)
	server, log := watchedServer(t, telemetry.Options{Tracer: c.Tracer, Metrics: true})
	changeWithContext(api.WithCall(t.Context(), api.Call{Source: "mcp"}), server, "broken")
	line := telemetrytest.Line(t, log.Bytes(), "request")
	for name, want := range map[string]any{
		"source": "mcp", "within": "", "dryRun": false,
		"operation": "Things_change", "method": "PATCH", "path": "/v1/accounts/acme/things/broken", "status": 500.0,
		"coldStart": true, "account": "acme", "key": "akey_1", "level": "ERROR", "errors": 1.0, "error": "the cause",
		"traceId": "0af7651916cd43dd8448eb211c80319c",
	} {
		if line[name] != want {
			t.Errorf("%s in the log line = %v, want %v", name, line[name], want)
		}
	}
	for _, name := range []string{"latency", "readUnits"} {
		if n, ok := line[name].(float64); !ok || n <= 0 {
			t.Errorf("%s in the log line = %v, want a number above 0", name, line[name])
		}
	}
	for _, name := range []string{slog.TimeKey, slog.LevelKey, slog.MessageKey} {
		delete(line, name)
	}
	for _, problem := range telemetrytest.Undocumented(t, documentation, "## The line of a management request",
		slices.Collect(maps.Keys(line))...) {
		t.Error(problem)
	}
	if strings.Contains(log.String(), "hidden") || strings.Contains(log.String(), goodKey) {
		t.Errorf("log = %s, want no secret", log)
	}
}

// TestAKeyInThePathIsNotLogged checks that a key in the path is not
// logged: clients that mistake a key for the key's id send it there.
func TestAKeyInThePathIsNotLogged(t *testing.T) {
	const key = "gwk_0123456789ABCDEFGHIJKLMNOPQRSTUV_c598f4cb"
	for _, encoded := range []string{key, "%67" + key[1:], strings.ReplaceAll(key, "_", "%5F")} {
		server, log := watchedServer(t, telemetry.Options{})
		change(server, encoded)
		if line := log.String(); strings.Contains(line, key[4:20]) || !strings.Contains(line, "/v1/accounts/acme/things/") {
			t.Errorf("log of a request with %s in its path = %s, want the path without the key", encoded, line)
		}
	}
}

// TestFirstRequestIsColdStart checks that coldStart is true for the first request only. It also checks the units and
// the absent attributes of the second request.
func TestFirstRequestIsColdStart(t *testing.T) {
	server, log := watchedServer(t, telemetry.Options{})
	change(server, "one")
	if line := telemetrytest.Line(t, log.Bytes(), "request"); line["coldStart"] != true {
		t.Errorf("first line = %s, want coldStart true", log)
	}
	log.Reset()
	change(server, "two")
	line := telemetrytest.Line(t, log.Bytes(), "request")
	if line["coldStart"] != false || line["writeUnits"].(float64) <= 0 {
		t.Errorf("second line = %s, want coldStart false and writeUnits above 0", log)
	}
	for _, name := range []string{"_aws", "errors", "traceId", "error", "source", "within", "dryRun"} {
		if _, exists := line[name]; exists {
			t.Errorf("%s in the second log line = %v, want none", name, line[name])
		}
	}
}

// meter stores the requests that it receives.
type meter []telemetry.Request

func (m *meter) Request(r telemetry.Request) { *m = append(*m, r) }

// TestMeterMatchesLog checks that the meter receives the same status and latency as the log for
// each request to the management API, even for requests without an operation.
func TestMeterMatchesLog(t *testing.T) {
	management, gateway := meter{}, meter{}
	server, log := watchedServer(t, telemetry.Options{Management: &management, Meter: &gateway})
	for i, send := range []func(){
		func() { change(server, "one") },
		func() { change(server, "broken") },
		func() { server.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/nowhere", nil)) },
	} {
		log.Reset()
		send()
		if len(management) != i+1 {
			t.Fatalf("metered requests after %d requests = %d, want %d", i+1, len(management), i+1)
		}
		line, r := telemetrytest.Line(t, log.Bytes(), "request"), management[i]
		if line["status"] != float64(r.Status) || line["latency"] != telemetry.Milliseconds(r.Latency) || r.Latency <= 0 {
			t.Errorf("metered request = %+v, want the status and latency of the log line %s", r, log)
		}
	}
	if len(gateway) > 0 {
		t.Errorf("metered gateway requests = %d, want 0", len(gateway))
	}
}

func TestMetricsOnlyForOperations(t *testing.T) {
	server, log := watchedServer(t, telemetry.Options{Metrics: true})
	server.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/nowhere", nil))
	if _, exists := telemetrytest.Line(t, log.Bytes(), "request")["_aws"]; exists {
		t.Error("log line of a request without an operation has _aws, want no metrics")
	}
	log.Reset()
	change(server, "one")
	line := telemetrytest.Line(t, log.Bytes(), "request")
	if _, exists := line["_aws"]; !exists || line["errors"] != 0.0 {
		t.Errorf("log = %s, want metrics with 0 errors", log)
	}
}

func TestRequestTraceHasTableSpans(t *testing.T) {
	c := telemetrytest.New(t)
	server, _ := watchedServer(t, telemetry.Options{Tracer: c.Tracer})
	change(server, "one")
	server.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/hidden-path", nil))
	spans, raw := c.Spans(t)
	if len(spans) != 4 {
		t.Fatalf("spans = %d, want 4: %v", len(spans), spans)
	}
	request, read, commit, unrouted := spans[0], spans[1], spans[2], spans[3]
	for i, want := range []string{"Things_change", "store.Read", "store.Commit", "unrouted"} {
		if spans[i].GetName() != want {
			t.Errorf("name of span %d = %s, want %s", i, spans[i].GetName(), want)
		}
	}
	if !bytes.Equal(read.GetParentSpanId(), request.GetSpanId()) ||
		!bytes.Equal(commit.GetParentSpanId(), request.GetSpanId()) {
		t.Errorf("parents of the table spans = %x, %x, want the request's span %x",
			read.GetParentSpanId(), commit.GetParentSpanId(), request.GetSpanId())
	}
	if len(unrouted.GetParentSpanId()) != 0 || bytes.Equal(unrouted.GetTraceId(), request.GetTraceId()) {
		t.Errorf("second request: parent %x, trace %x, want no parent and not the trace of the first request",
			unrouted.GetParentSpanId(), unrouted.GetTraceId())
	}
	attributes := telemetrytest.Attributes(request)
	for name, want := range map[string]string{
		"http.response.status_code": "200", "http.request.method": "PATCH",
		"http.route":         "/v1/accounts/{accountName}/things/{name}",
		"gatewright.account": "a-1", "gatewright.cold_start": "true",
	} {
		if attributes[name] != want {
			t.Errorf("attribute %s = %q, want %q", name, attributes[name], want)
		}
	}
	if got := telemetrytest.Attributes(read)["gatewright.attempts"]; got != "1" {
		t.Errorf("attempts of the read = %q, want \"1\"", got)
	}
	if bytes.Contains(raw, []byte("hidden")) || bytes.Contains(raw, []byte(goodKey)) {
		t.Errorf("spans = %q, want no secret", raw)
	}
}
