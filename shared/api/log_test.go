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

	"github.com/gatewright/gatewright/shared/api"
	"github.com/gatewright/gatewright/shared/audit"
	"github.com/gatewright/gatewright/shared/ids"
	"github.com/gatewright/gatewright/shared/installation"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/storetest"
	"github.com/gatewright/gatewright/shared/telemetry"
	"github.com/gatewright/gatewright/shared/telemetry/telemetrytest"
)

// watchedServer has an operation that reads and commits, and fails for the
// thing called broken.
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
		changeThing.To(func(ctx context.Context, in *changeIn) (*changeOut, error) {
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

func change(server *api.Server, name string) { changeWithin(context.Background(), server, name) }

func changeWithin(ctx context.Context, server *api.Server, name string) {
	r := httptest.NewRequestWithContext(ctx, http.MethodPatch, "/v1/accounts/acme/things/"+name+"?q=hidden-query", strings.NewReader(`{"secret":"hiddenbody"}`))
	r.Header.Set("Authorization", "Bearer "+goodKey)
	r.Header.Set("Traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	r.Header.Set("X-Other", "hidden-header")
	server.ServeHTTP(httptest.NewRecorder(), r)
}

const documentation = "../../docs/observability.md"

func TestTheLineOfARequestIsAsDocumented(t *testing.T) {
	c := telemetrytest.New(t)
	server, log := watchedServer(t, telemetry.Options{Tracer: c.Tracer, Metrics: true})
	changeWithin(api.Within(t.Context(), api.Call{Source: "mcp"}), server, "broken")
	line := telemetrytest.Line(t, log.Bytes(), "request")
	for name, want := range map[string]any{
		"source": "mcp", "within": "", "dryRun": false,
		"operation": "Things_change", "method": "PATCH", "path": "/v1/accounts/acme/things/broken", "status": 500.0,
		"coldStart": true, "account": "acme", "key": "akey_1", "level": "ERROR", "errors": 1.0, "error": "the cause",
		"traceId": "0af7651916cd43dd8448eb211c80319c",
	} {
		if line[name] != want {
			t.Errorf("%s is %v, not %v", name, line[name], want)
		}
	}
	for _, name := range []string{"latency", "readUnits"} {
		if n, ok := line[name].(float64); !ok || n <= 0 {
			t.Errorf("%s is %v", name, line[name])
		}
	}
	for _, name := range []string{slog.TimeKey, slog.LevelKey, slog.MessageKey} {
		delete(line, name)
	}
	for _, wrong := range telemetrytest.Undocumented(t, documentation, "## The line of a management request", slices.Collect(maps.Keys(line))...) {
		t.Error(wrong)
	}
	if strings.Contains(log.String(), "hidden") || strings.Contains(log.String(), goodKey) {
		t.Errorf("the log tells a secret: %s", log)
	}
}

// TestAKeyInThePathIsNotLogged: who takes it for its id sends it there.
func TestAKeyInThePathIsNotLogged(t *testing.T) {
	const key = "gwk_0123456789ABCDEFGHIJKLMNOPQRSTUV_c598f4cb"
	for _, written := range []string{key, "%67" + key[1:], strings.ReplaceAll(key, "_", "%5F")} {
		server, log := watchedServer(t, telemetry.Options{})
		change(server, written)
		if line := log.String(); strings.Contains(line, key[4:20]) || !strings.Contains(line, "/v1/accounts/acme/things/") {
			t.Errorf("%s: the log says %s", written, line)
		}
	}
}

func TestOnlyTheFirstRequestOfAProcessIsAColdStart(t *testing.T) {
	server, log := watchedServer(t, telemetry.Options{})
	change(server, "one")
	log.Reset()
	change(server, "two")
	line := telemetrytest.Line(t, log.Bytes(), "request")
	if line["coldStart"] != false || line["writeUnits"].(float64) <= 0 {
		t.Errorf("the second line: %s", log)
	}
	for _, name := range []string{"_aws", "errors", "traceId", "error", "source", "within", "dryRun"} {
		if _, there := line[name]; there {
			t.Errorf("%s is there, which is for others", name)
		}
	}
}

// meter keeps what it is told.
type meter []telemetry.Request

func (m *meter) Request(r telemetry.Request) { *m = append(*m, r) }

// TestMeterIsToldWhatLinesSay of each request to the management API, those that no operation answers too.
func TestMeterIsToldWhatLinesSay(t *testing.T) {
	told, gateway := meter{}, meter{}
	server, log := watchedServer(t, telemetry.Options{Management: &told, Meter: &gateway})
	for i, ask := range []func(){
		func() { change(server, "one") },
		func() { change(server, "broken") },
		func() { server.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/nowhere", nil)) },
	} {
		log.Reset()
		ask()
		if len(told) != i+1 {
			t.Fatalf("after %d requests it is told of %d", i+1, len(told))
		}
		line, r := telemetrytest.Line(t, log.Bytes(), "request"), told[i]
		if line["status"] != float64(r.Status) || line["latency"] != telemetry.Milliseconds(r.Latency) || r.Latency <= 0 {
			t.Errorf("it is told %+v, and the line says %s", r, log)
		}
	}
	if len(gateway) > 0 {
		t.Error("they are told as requests to deployments")
	}
}

func TestMetricsAreOfOperationsAlone(t *testing.T) {
	server, log := watchedServer(t, telemetry.Options{Metrics: true})
	server.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/nowhere", nil))
	if _, there := telemetrytest.Line(t, log.Bytes(), "request")["_aws"]; there {
		t.Error("a request without an operation is a metric of the operation \"\"")
	}
	log.Reset()
	change(server, "one")
	line := telemetrytest.Line(t, log.Bytes(), "request")
	if _, there := line["_aws"]; !there || line["errors"] != 0.0 {
		t.Errorf("no metrics in %s", log)
	}
}

func TestARequestIsATraceOfWhatItAsksOfTheTable(t *testing.T) {
	c := telemetrytest.New(t)
	server, _ := watchedServer(t, telemetry.Options{Tracer: c.Tracer})
	change(server, "one")
	server.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/hidden-path", nil))
	spans, raw := c.Spans(t)
	if len(spans) != 4 {
		t.Fatalf("%d spans: %v", len(spans), spans)
	}
	request, read, commit, unrouted := spans[0], spans[1], spans[2], spans[3]
	for i, want := range []string{"Things_change", "store.Read", "store.Commit", "unrouted"} {
		if spans[i].GetName() != want {
			t.Errorf("span %d is %s, not %s", i, spans[i].GetName(), want)
		}
	}
	if !bytes.Equal(read.GetParentSpanId(), request.GetSpanId()) || !bytes.Equal(commit.GetParentSpanId(), request.GetSpanId()) {
		t.Error("the calls of the table are no children of the request")
	}
	if len(unrouted.GetParentSpanId()) != 0 || bytes.Equal(unrouted.GetTraceId(), request.GetTraceId()) {
		t.Error("the second request is in the first one's trace")
	}
	attributes := telemetrytest.Attributes(request)
	for name, want := range map[string]string{
		"http.response.status_code": "200", "http.request.method": "PATCH", "http.route": "/v1/accounts/{accountName}/things/{name}",
		"gatewright.account": "a-1", "gatewright.cold_start": "true",
	} {
		if attributes[name] != want {
			t.Errorf("%s is %q, not %q", name, attributes[name], want)
		}
	}
	if got := telemetrytest.Attributes(read)["gatewright.attempts"]; got != "1" {
		t.Errorf("the read took %q attempts", got)
	}
	if bytes.Contains(raw, []byte("hidden")) || bytes.Contains(raw, []byte(goodKey)) {
		t.Errorf("the spans tell a secret: %q", raw)
	}
}
