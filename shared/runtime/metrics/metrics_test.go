package metrics_test

import (
	"fmt"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/gatewright/gatewright/shared/base/release"
	"github.com/gatewright/gatewright/shared/base/telemetry"
	"github.com/gatewright/gatewright/shared/runtime/metrics"
)

// TestMetricsMatchRequests checks the value of every metric of the gateway after some requests, and that the metrics
// are documented. A metric of the gateway that the test does not know fails it.
func TestMetricsMatchRequests(t *testing.T) {
	m := metrics.New(func() int { return 7 })
	for _, status := range []int{0, 101, 200, 204, 404, 503, 999, -1} {
		m.Request(telemetry.Request{
			Status: status, Aborted: status == 503, Latency: 30 * time.Millisecond,
			UpstreamLatency: 20 * time.Millisecond,
		})
	}
	families := scrape(t, m)
	var names []string
	for name, f := range families {
		if !strings.HasPrefix(name, "gatewright_") {
			continue
		}
		names = append(names, name)
		for _, metric := range f.GetMetric() {
			for _, l := range metric.GetLabel() {
				value := strconv.FormatFloat(metric.GetCounter().GetValue(), 'g', -1, 64)
				name += " " + l.GetName() + "=" + l.GetValue() + ":" + value
			}
		}
		switch metric := f.GetMetric()[0]; {
		case strings.HasPrefix(name, "gatewright_requests_total"):
			if name != "gatewright_requests_total class=1xx:1 class=2xx:2 class=3xx:0 class=4xx:1 class=5xx:1 class=none:3" {
				t.Errorf("metric = %s, want 1 in 1xx, 4xx and 5xx, 2 in 2xx, 0 in 3xx, 3 in none", name)
			}
		case name == "gatewright_requests_cut_total":
			if got := metric.GetCounter().GetValue(); got != 1 {
				t.Errorf("%s = %g, want 1", name, got)
			}
		case strings.HasPrefix(name, "gatewright_build_info"):
			want := fmt.Sprintf("gatewright_build_info goarch=%s:0 goos=%s:0 goversion=%s:0 version=%s:0",
				runtime.GOARCH, runtime.GOOS, runtime.Version(), release.Version())
			if name != want || metric.GetGauge().GetValue() != 1 {
				t.Errorf("metric = %s with the value %g, want %s with 1", name, metric.GetGauge().GetValue(), want)
			}
		case name == "gatewright_connections":
			if got := metric.GetGauge().GetValue(); got != 7 {
				t.Errorf("%s = %g, want 7", name, got)
			}
		case name == "gatewright_request_duration_seconds", name == "gatewright_upstream_duration_seconds":
			want := map[bool]float64{true: .24, false: .16}[strings.Contains(name, "request")]
			if h := metric.GetHistogram(); h.GetSampleCount() != 8 || math.Abs(h.GetSampleSum()-want) > 1e-9 {
				t.Errorf("%s = %v, want 8 samples with the sum %g", name, h, want)
			}
		default:
			t.Errorf("metric %s is unknown here, want a check of it in this test", name)
		}
	}
	if len(names) != 6 || families["go_goroutines"] == nil {
		t.Errorf("metrics = %v, go_goroutines: %t, want 6 and the metrics of the process",
			names, families["go_goroutines"] != nil)
	}
	checkDocumented(t, "../../../docs/gateway-process.md", names)
}

// scrape returns the served metrics, parsed with the parser of Prometheus.
func scrape(t *testing.T, m *metrics.Metrics) map[string]*dto.MetricFamily {
	t.Helper()
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(w.Body)
	if err != nil {
		t.Fatal(err)
	}
	return families
}

// gauge returns the value of a gauge without labels.
func gauge(families map[string]*dto.MetricFamily, name string) float64 {
	return families[name].GetMetric()[0].GetGauge().GetValue()
}

// checkDocumented checks that the page at path has a table row for each of the metrics.
func checkDocumented(t *testing.T, path string, names []string) {
	t.Helper()
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if !strings.Contains(string(page), "| `"+name+"` |") {
			t.Errorf("%s does not describe the metric %s, want a row in its table", path, name)
		}
	}
}

// TestServerMetricsMatchEvents checks that the metrics of `gatewright
// serve` have the recorded values, and that they are documented.
func TestServerMetricsMatchEvents(t *testing.T) {
	m := metrics.New(func() int { return 0 })
	s := metrics.NewServer(m)
	before := scrape(t, m)
	for _, name := range []string{
		"gatewright_store_bytes", "gatewright_certificate_expiry_timestamp_seconds",
		"gatewright_check_damaged", "gatewright_check_end_timestamp_seconds",
	} {
		if before[name] != nil {
			t.Errorf("%s exists before it is registered, want no such metric", name)
		}
	}
	for _, status := range []int{200, 204, 404, 503, 0} {
		s.Management().Request(telemetry.Request{Status: status, Latency: 20 * time.Millisecond})
	}
	s.ObserveCommit(3 * time.Millisecond)
	s.ObserveCommit(4 * time.Millisecond)
	s.AddDroppedLines(5)
	s.RegisterStore(func() (uint64, error) { return 1 << 30, nil })
	var expiresAt time.Time
	s.RegisterCertificate(func() time.Time { return expiresAt })
	const expiry = "gatewright_certificate_expiry_timestamp_seconds"
	if got := gauge(scrape(t, m), expiry); got != 0 {
		t.Errorf("%s without a certificate = %g, want 0", expiry, got)
	}
	expiresAt = time.Date(2027, 1, 2, 3, 4, 5, 0, time.UTC)
	var checkedAt time.Time
	damaged := 0
	s.RegisterCheck(func() (time.Time, int) { return checkedAt, damaged })
	if got := gauge(scrape(t, m), "gatewright_check_end_timestamp_seconds"); got != 0 {
		t.Errorf("gatewright_check_end_timestamp_seconds before a check = %g, want 0", got)
	}
	checkedAt, damaged = expiresAt, 3

	families := scrape(t, m)
	counts := map[string]float64{}
	for _, metric := range families["gatewright_management_requests_total"].GetMetric() {
		counts[metric.GetLabel()[0].GetValue()] = metric.GetCounter().GetValue()
	}
	if want := map[string]float64{"none": 1, "1xx": 0, "2xx": 2, "3xx": 0, "4xx": 1, "5xx": 1}; !maps.Equal(counts, want) {
		t.Errorf("gatewright_management_requests_total by class = %v, want %v", counts, want)
	}
	if got := families["gatewright_requests_total"].GetMetric()[0].GetCounter().GetValue(); got != 0 {
		t.Errorf("gatewright_requests_total = %g, want 0, since the requests are to the management API", got)
	}
	for name, want := range map[string]struct {
		n   uint64
		sum float64
	}{"gatewright_management_request_duration_seconds": {5, .1}, "gatewright_store_commit_duration_seconds": {2, .007}} {
		if h := families[name].GetMetric()[0].GetHistogram(); h.GetSampleCount() != want.n ||
			math.Abs(h.GetSampleSum()-want.sum) > 1e-9 {
			t.Errorf("%s = %v, want %d samples with the sum %g", name, h, want.n, want.sum)
		}
	}
	if got := families["gatewright_log_lines_dropped_total"].GetMetric()[0].GetCounter().GetValue(); got != 5 {
		t.Errorf("gatewright_log_lines_dropped_total = %g, want 5", got)
	}
	for name, want := range map[string]float64{
		"gatewright_store_bytes":                 1 << 30,
		expiry:                                   float64(expiresAt.Unix()),
		"gatewright_check_end_timestamp_seconds": float64(checkedAt.Unix()),
		"gatewright_check_damaged":               3,
	} {
		if got := gauge(families, name); got != want {
			t.Errorf("%s = %g, want %g", name, got, want)
		}
	}
	var names []string
	for name := range families {
		if strings.HasPrefix(name, "gatewright_") && !strings.HasPrefix(name, "gatewright_request") &&
			name != "gatewright_connections" && name != "gatewright_build_info" &&
			name != "gatewright_upstream_duration_seconds" {
			names = append(names, name)
		}
	}
	if len(names) != 8 {
		t.Errorf("metrics of the server = %v, want 8", names)
	}
	checkDocumented(t, "../../../docs/one-server.md", names)
}
