package metrics_test

import (
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/gatewright/gatewright/shared/metrics"
	"github.com/gatewright/gatewright/shared/telemetry"
)

// TestMetricsAreWhatLinesSay, read by the format's own parser: each number of a request, and
// labels of few values.
func TestMetricsAreWhatLinesSay(t *testing.T) {
	m := metrics.New(func() int { return 7 })
	for _, status := range []int{0, 101, 200, 204, 404, 503, 999, -1} {
		m.Request(telemetry.Request{Status: status, Cut: status == 503, Latency: 30 * time.Millisecond, Upstream: 20 * time.Millisecond})
	}
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(w.Body)
	if err != nil {
		t.Fatal(err)
	}
	var own []string
	for name, f := range families {
		if !strings.HasPrefix(name, "gatewright_") {
			continue
		}
		own = append(own, name)
		for _, one := range f.GetMetric() {
			for _, l := range one.GetLabel() {
				name += " " + l.GetName() + "=" + l.GetValue() + ":" + strconv.FormatFloat(one.GetCounter().GetValue(), 'g', -1, 64)
			}
		}
		switch one := f.GetMetric()[0]; {
		case strings.HasPrefix(name, "gatewright_requests_total"):
			if name != "gatewright_requests_total class=1xx:1 class=2xx:2 class=3xx:0 class=4xx:1 class=5xx:1 class=none:3" {
				t.Error(name)
			}
		case name == "gatewright_requests_cut_total":
			if got := one.GetCounter().GetValue(); got != 1 {
				t.Errorf("%g are cut", got)
			}
		case name == "gatewright_connections":
			if got := one.GetGauge().GetValue(); got != 7 {
				t.Errorf("%g connections", got)
			}
		case name == "gatewright_request_duration_seconds", name == "gatewright_upstream_duration_seconds":
			want := map[bool]float64{true: .24, false: .16}[strings.Contains(name, "request")]
			if h := one.GetHistogram(); h.GetSampleCount() != 8 || math.Abs(h.GetSampleSum()-want) > 1e-9 {
				t.Errorf("%s: %v", name, h)
			}
		default:
			t.Errorf("there is the metric %s, which nothing here asks for", name)
		}
	}
	if len(own) != 5 || families["go_goroutines"] == nil {
		t.Errorf("there are %v, and the process's own: %t", own, families["go_goroutines"] != nil)
	}
	page, err := os.ReadFile("../../docs/gateway-process.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range own {
		if !strings.Contains(string(page), "| `"+name+"` |") {
			t.Errorf("docs/gateway-process.md has no %s", name)
		}
	}
}
