package telemetry_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/base/telemetry"
	"github.com/gatewright/gatewright/shared/base/telemetry/telemetrytest"
)

const (
	trace  = "0af7651916cd43dd8448eb211c80319c"
	parent = "b7ad6b7169203331"
)

func TestSpansArriveByOTLPWithTheirParents(t *testing.T) {
	c := telemetrytest.New(t)
	ctx, span := c.Start(t.Context(), "unrouted", http.Header{"Traceparent": {"00-" + trace + "-" + parent + "-01"}})
	_, child := telemetry.Child(ctx, "store.Read")
	child.End(false)
	span.Name("Things_read")
	span.End(true)
	spans, _ := c.Spans(t)
	if len(spans) != 2 {
		t.Fatalf("exported spans = %d, want 2", len(spans))
	}
	request, read := spans[0], spans[1]
	if request.GetName() != "Things_read" || read.GetName() != "store.Read" {
		t.Errorf("span names = %q, %q, want Things_read, store.Read", request.GetName(), read.GetName())
	}
	if got := hex(request.GetTraceId()) + hex(request.GetParentSpanId()); got != trace+parent {
		t.Errorf("trace and parent of the request's span = %s, want %s", got, trace+parent)
	}
	if hex(read.GetTraceId()) != trace || !bytes.Equal(read.GetParentSpanId(), request.GetSpanId()) {
		t.Errorf("read span: trace %s, parent %s, want trace %s, parent %s",
			hex(read.GetTraceId()), hex(read.GetParentSpanId()), trace, hex(request.GetSpanId()))
	}
	if request.GetStatus().GetCode().String() != "STATUS_CODE_ERROR" ||
		read.GetStatus().GetCode().String() != "STATUS_CODE_UNSET" {
		t.Errorf("span statuses = %v, %v, want STATUS_CODE_ERROR, STATUS_CODE_UNSET", request.GetStatus(), read.GetStatus())
	}
	if got := span.Traceparent(); got != "00-"+trace+"-"+hex(request.GetSpanId())+"-01" {
		t.Errorf("Traceparent() = %s, want that of the request's span in trace %s", got, trace)
	}
	r := c.Requests()[0]
	if r.Method != http.MethodPost || r.URL.Path != "/v1/traces" ||
		r.Header.Get("Content-Type") != "application/x-protobuf" || r.Header.Get("X-Token") != "a b" {
		t.Errorf("export request = %s %s with %v, want POST /v1/traces with application/x-protobuf and X-Token \"a b\"",
			r.Method, r.URL, r.Header)
	}
}

func TestUnsampledTraceIsPropagatedAndNotSent(t *testing.T) {
	c := telemetrytest.New(t)
	ctx, span := c.Start(t.Context(), "x", http.Header{"Traceparent": {"00-" + trace + "-" + parent + "-00"}})
	if _, child := telemetry.Child(ctx, "y"); child.Enabled() {
		t.Error("Enabled() of a child of an unsampled span = true, want false")
	}
	span.End(false)
	if spans, _ := c.Spans(t); len(spans) != 0 {
		t.Errorf("exported spans of an unsampled trace = %d, want 0", len(spans))
	}
	if got := span.Traceparent(); !strings.HasPrefix(got, "00-"+trace+"-") || !strings.HasSuffix(got, "-00") ||
		strings.Contains(got, parent) {
		t.Errorf("Traceparent() = %s, want an unsampled span of trace %s and not its parent %s", got, trace, parent)
	}
}

func TestTwoTraceparentsStartNewTrace(t *testing.T) {
	c := telemetrytest.New(t)
	text := "00-" + trace + "-" + parent + "-01"
	_, span := c.Start(t.Context(), "x", http.Header{"Traceparent": {text, text}})
	if span.TraceID() == trace || len(span.TraceID()) != len(trace) {
		t.Errorf("TraceID() with two traceparent headers = %s, want a new one other than %s", span.TraceID(), trace)
	}
	span.End(false)
}

// TestDisabledTracerAllocatesNothing checks that a nil Tracer and its spans do nothing
// and allocate nothing, so that disabled tracing does not slow down the gateway.
func TestDisabledTracerAllocatesNothing(t *testing.T) {
	var disabled *telemetry.Tracer
	ctx, header := t.Context(), http.Header{"Traceparent": {"00-" + trace + "-" + parent + "-01"}}
	allocations := testing.AllocsPerRun(100, func() {
		spanCtx, span := disabled.Start(ctx, "x", header)
		_, child := telemetry.Child(spanCtx, "y")
		child.End(false)
		span.Name("z")
		if span.Enabled() || span.Traceparent() != "" || span.TraceID() != "" || spanCtx != ctx {
			t.Errorf("disabled span: Enabled() = %t, Traceparent() = %q, TraceID() = %q, same context: %t, "+
				"want false, empty, empty and true",
				span.Enabled(), span.Traceparent(), span.TraceID(), spanCtx == ctx)
		}
		span.End(false)
		disabled.Flush(spanCtx)
		disabled.Close(spanCtx)
	})
	if allocations != 0 {
		t.Errorf("allocations of a disabled tracer = %v, want 0", allocations)
	}
}

// TestMetricsAreInTheEmbeddedFormat checks a line with the rules of the format's specification:
// the place of the metadata, the names in it, and the types of the named values.
func TestMetricsAreInTheEmbeddedFormat(t *testing.T) {
	at := time.Date(2026, time.March, 14, 9, 26, 53, 589_000_000, time.UTC)
	var log bytes.Buffer
	slog.New(slog.NewJSONHandler(&log, nil)).Info("request", slog.String("operation", "Things_read"),
		slog.Float64("latency", 1.5),
		slog.Int("errors", 0), slog.Float64("readUnits", 0.5), slog.Float64("writeUnits", 0), telemetry.RequestMetrics(at))
	checkEmbeddedMetrics(t, log.Bytes(), at)
}

// checkEmbeddedMetrics checks that CloudWatch would create the metrics of an operation from a line.
func checkEmbeddedMetrics(t *testing.T, line []byte, at time.Time) {
	t.Helper()
	var root map[string]any
	var typed struct {
		AWS struct {
			Timestamp         int64
			CloudWatchMetrics []struct {
				Namespace  string
				Dimensions [][]string
				Metrics    []struct{ Name, Unit string }
			}
		} `json:"_aws"`
	}
	if err := json.Unmarshal(line, &root); err != nil {
		t.Fatalf("line = %s (%v), want a JSON object", line, err)
	}
	if err := json.Unmarshal(line, &typed); err != nil {
		t.Fatalf("line = %s (%v), want metadata with the types of the format", line, err)
	}
	if typed.AWS.Timestamp != at.UnixMilli() {
		t.Errorf("timestamp = %d, want %d", typed.AWS.Timestamp, at.UnixMilli())
	}
	if len(typed.AWS.CloudWatchMetrics) != 1 {
		t.Fatalf("metric directives = %d, want 1", len(typed.AWS.CloudWatchMetrics))
	}
	d := typed.AWS.CloudWatchMetrics[0]
	if d.Namespace != "Gatewright" || len(d.Dimensions) != 1 || len(d.Dimensions[0]) != 1 ||
		d.Dimensions[0][0] != "operation" {
		t.Errorf("namespace %q, dimensions %v, want \"Gatewright\", [[operation]]", d.Namespace, d.Dimensions)
	}
	if value, ok := root["operation"].(string); !ok || value == "" || len(value) > 1024 {
		t.Errorf("dimension operation = %v, want a string of 1 to 1024 bytes", root["operation"])
	}
	units := map[string]string{"latency": "Milliseconds", "errors": "Count", "readUnits": "Count", "writeUnits": "Count"}
	if len(d.Metrics) != len(units) {
		t.Errorf("metrics = %d, want %d", len(d.Metrics), len(units))
	}
	for _, m := range d.Metrics {
		if _, number := root[m.Name].(float64); !number || units[m.Name] != m.Unit {
			t.Errorf("metric %s = %v %s, want a number of %s", m.Name, root[m.Name], m.Unit, units[m.Name])
		}
	}
}

func hex(b []byte) string { return fmt.Sprintf("%x", b) }
