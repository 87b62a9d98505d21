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

	"github.com/gatewright/gatewright/shared/telemetry"
	"github.com/gatewright/gatewright/shared/telemetry/telemetrytest"
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
		t.Fatalf("%d spans", len(spans))
	}
	request, read := spans[0], spans[1]
	if request.GetName() != "Things_read" || read.GetName() != "store.Read" {
		t.Errorf("names %q and %q", request.GetName(), read.GetName())
	}
	if got := hex(request.GetTraceId()) + hex(request.GetParentSpanId()); got != trace+parent {
		t.Errorf("the request's span is in %s", got)
	}
	if hex(read.GetTraceId()) != trace || !bytes.Equal(read.GetParentSpanId(), request.GetSpanId()) {
		t.Errorf("the read is no child of the request")
	}
	if request.GetStatus().GetCode().String() != "STATUS_CODE_ERROR" || read.GetStatus().GetCode().String() != "STATUS_CODE_UNSET" {
		t.Errorf("statuses %v and %v", request.GetStatus(), read.GetStatus())
	}
	if got := span.Parent(); got != "00-"+trace+"-"+hex(request.GetSpanId())+"-01" {
		t.Errorf("upstream gets %s", got)
	}
	r := c.Requests()[0]
	if r.Method != http.MethodPost || r.URL.Path != "/v1/traces" || r.Header.Get("Content-Type") != "application/x-protobuf" || r.Header.Get("X-Token") != "a b" {
		t.Errorf("%s %s with %v", r.Method, r.URL, r.Header)
	}
}

func TestASampledOutTraceIsPassedOnAndNotSent(t *testing.T) {
	c := telemetrytest.New(t)
	ctx, span := c.Start(t.Context(), "x", http.Header{"Traceparent": {"00-" + trace + "-" + parent + "-00"}})
	if _, child := telemetry.Child(ctx, "y"); child.On() {
		t.Error("a child of what nobody records is recorded")
	}
	span.End(false)
	if spans, _ := c.Spans(t); len(spans) != 0 {
		t.Errorf("%d spans were sent", len(spans))
	}
	if got := span.Parent(); !strings.HasPrefix(got, "00-"+trace+"-") || !strings.HasSuffix(got, "-00") || strings.Contains(got, parent) {
		t.Errorf("upstream gets %s", got)
	}
}

func TestTwoTraceParentsBeginANewTrace(t *testing.T) {
	c := telemetrytest.New(t)
	text := "00-" + trace + "-" + parent + "-01"
	_, span := c.Start(t.Context(), "x", http.Header{"Traceparent": {text, text}})
	if span.TraceID() == trace || len(span.TraceID()) != len(trace) {
		t.Errorf("the trace is %s", span.TraceID())
	}
	span.End(false)
}

// TestWhatIsOffCostsNothing is what keeps tracing out of the gateway's figures.
func TestWhatIsOffCostsNothing(t *testing.T) {
	var off *telemetry.Tracer
	ctx, header := t.Context(), http.Header{"Traceparent": {"00-" + trace + "-" + parent + "-01"}}
	allocations := testing.AllocsPerRun(100, func() {
		within, span := off.Start(ctx, "x", header)
		_, child := telemetry.Child(within, "y")
		child.End(false)
		span.Name("z")
		if span.On() || span.Parent() != "" || span.TraceID() != "" || within != ctx {
			t.Error("it is on")
		}
		span.End(false)
		off.Flush(within)
		off.Close(within)
	})
	if allocations != 0 {
		t.Errorf("%v allocations", allocations)
	}
}

// TestMetricsAreInTheEmbeddedFormat holds a line to the rules of the format's
// specification: where the metadata is, what it names, and what that is.
func TestMetricsAreInTheEmbeddedFormat(t *testing.T) {
	at := time.Date(2026, time.March, 14, 9, 26, 53, 589_000_000, time.UTC)
	var log bytes.Buffer
	slog.New(slog.NewJSONHandler(&log, nil)).Info("request", slog.String("operation", "Things_read"), slog.Float64("latency", 1.5),
		slog.Int("errors", 0), slog.Float64("readUnits", 0.5), slog.Float64("writeUnits", 0), telemetry.Metrics(at))
	checkEmbeddedMetrics(t, log.Bytes(), at)
}

// checkEmbeddedMetrics fails for a line that CloudWatch makes no metrics of.
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
	decoder := json.NewDecoder(bytes.NewReader(line))
	if err := decoder.Decode(&root); err != nil || json.Unmarshal(line, &typed) != nil {
		t.Fatalf("no object in %s", line)
	}
	if typed.AWS.Timestamp != at.UnixMilli() {
		t.Errorf("the timestamp is %d", typed.AWS.Timestamp)
	}
	if len(typed.AWS.CloudWatchMetrics) != 1 {
		t.Fatalf("%d directives", len(typed.AWS.CloudWatchMetrics))
	}
	d := typed.AWS.CloudWatchMetrics[0]
	if d.Namespace != "Gatewright" || len(d.Dimensions) != 1 || len(d.Dimensions[0]) != 1 || d.Dimensions[0][0] != "operation" {
		t.Errorf("namespace %q, dimensions %v", d.Namespace, d.Dimensions)
	}
	if value, ok := root["operation"].(string); !ok || value == "" || len(value) > 1024 {
		t.Errorf("the dimension is %v", root["operation"])
	}
	units := map[string]string{"latency": "Milliseconds", "errors": "Count", "readUnits": "Count", "writeUnits": "Count"}
	if len(d.Metrics) != len(units) {
		t.Errorf("%d metrics", len(d.Metrics))
	}
	for _, m := range d.Metrics {
		if _, number := root[m.Name].(float64); !number || units[m.Name] != m.Unit {
			t.Errorf("%s in %s is %v", m.Name, m.Unit, root[m.Name])
		}
	}
}

func hex(b []byte) string { return fmt.Sprintf("%x", b) }
