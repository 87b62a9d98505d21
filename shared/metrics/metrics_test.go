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

	"github.com/gatewright/gatewright/shared/metrics"
	"github.com/gatewright/gatewright/shared/release"
	"github.com/gatewright/gatewright/shared/telemetry"
)

// TestMetricsAreWhatLinesSay, read by the format's own parser: each number of a request, and
// labels of few values.
func TestMetricsAreWhatLinesSay(t *testing.T) {
	m := metrics.New(func() int { return 7 })
	for _, status := range []int{0, 101, 200, 204, 404, 503, 999, -1} {
		m.Request(telemetry.Request{Status: status, Cut: status == 503, Latency: 30 * time.Millisecond, Upstream: 20 * time.Millisecond})
	}
	families := asked(t, m)
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
		case strings.HasPrefix(name, "gatewright_build_info"):
			if want := fmt.Sprintf("gatewright_build_info goarch=%s:0 goos=%s:0 goversion=%s:0 version=%s:0", runtime.GOARCH, runtime.GOOS, runtime.Version(), release.Version()); name != want || one.GetGauge().GetValue() != 1 {
				t.Errorf("%s is %g, want %s", name, one.GetGauge().GetValue(), want)
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
	if len(own) != 6 || families["go_goroutines"] == nil {
		t.Errorf("there are %v, and the process's own: %t", own, families["go_goroutines"] != nil)
	}
	documented(t, "../../docs/gateway-process.md", own)
}

// asked gives what is answered, as the format's own parser reads it.
func asked(t *testing.T, m *metrics.Metrics) map[string]*dto.MetricFamily {
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

// documented holds names to a page.
func documented(t *testing.T, path string, names []string) {
	t.Helper()
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if !strings.Contains(string(page), "| `"+name+"` |") {
			t.Errorf("%s has no %s", path, name)
		}
	}
}

// TestServerTellsWhatItHasBesideItsGateway: each number as it was told, under names that its page has.
func TestServerTellsWhatItHasBesideItsGateway(t *testing.T) {
	m := metrics.New(func() int { return 0 })
	s := metrics.NewServer(m)
	before := asked(t, m)
	for _, name := range []string{"gatewright_store_bytes", "gatewright_certificate_expiry_timestamp_seconds", "gatewright_check_damaged", "gatewright_check_end_timestamp_seconds"} {
		if before[name] != nil {
			t.Errorf("%s is there before there is anything to tell", name)
		}
	}
	for _, status := range []int{200, 204, 404, 503, 0} {
		s.Management().Request(telemetry.Request{Status: status, Latency: 20 * time.Millisecond})
	}
	s.Committed(3 * time.Millisecond)
	s.Committed(4 * time.Millisecond)
	s.Dropped(5)
	s.Store(func() (uint64, error) { return 1 << 30, nil })
	var ends time.Time
	s.Certificate(func() time.Time { return ends })
	const expiry = "gatewright_certificate_expiry_timestamp_seconds"
	if got := asked(t, m)[expiry].GetMetric()[0].GetGauge().GetValue(); got != 0 {
		t.Errorf("without a certificate its end is %g", got)
	}
	ends = time.Date(2027, 1, 2, 3, 4, 5, 0, time.UTC)
	var checked time.Time
	damaged := 0
	s.Checked(func() (time.Time, int) { return checked, damaged })
	if got := asked(t, m)["gatewright_check_end_timestamp_seconds"].GetMetric()[0].GetGauge().GetValue(); got != 0 {
		t.Errorf("gatewright_check_end_timestamp_seconds before a check = %g, want 0", got)
	}
	checked, damaged = ends, 3

	families := asked(t, m)
	counts := map[string]float64{}
	for _, one := range families["gatewright_management_requests_total"].GetMetric() {
		counts[one.GetLabel()[0].GetValue()] = one.GetCounter().GetValue()
	}
	if want := map[string]float64{"none": 1, "1xx": 0, "2xx": 2, "3xx": 0, "4xx": 1, "5xx": 1}; !maps.Equal(counts, want) {
		t.Errorf("requests to the management API are %v, want %v", counts, want)
	}
	if got := families["gatewright_requests_total"].GetMetric()[0].GetCounter().GetValue(); got != 0 {
		t.Error("they are counted as requests to deployments")
	}
	for name, want := range map[string]struct {
		n   uint64
		sum float64
	}{"gatewright_management_request_duration_seconds": {5, .1}, "gatewright_store_commit_duration_seconds": {2, .007}} {
		if h := families[name].GetMetric()[0].GetHistogram(); h.GetSampleCount() != want.n || math.Abs(h.GetSampleSum()-want.sum) > 1e-9 {
			t.Errorf("%s: %v", name, h)
		}
	}
	if got := families["gatewright_log_lines_dropped_total"].GetMetric()[0].GetCounter().GetValue(); got != 5 {
		t.Errorf("%g lines are dropped", got)
	}
	if got := families["gatewright_store_bytes"].GetMetric()[0].GetGauge().GetValue(); got != 1<<30 {
		t.Errorf("the store has %g bytes", got)
	}
	if got := families[expiry].GetMetric()[0].GetGauge().GetValue(); got != float64(ends.Unix()) {
		t.Errorf("the certificate ends at %g", got)
	}
	if got := families["gatewright_check_end_timestamp_seconds"].GetMetric()[0].GetGauge().GetValue(); got != float64(checked.Unix()) {
		t.Errorf("gatewright_check_end_timestamp_seconds = %g, want %d", got, checked.Unix())
	}
	if got := families["gatewright_check_damaged"].GetMetric()[0].GetGauge().GetValue(); got != 3 {
		t.Errorf("gatewright_check_damaged = %g, want 3", got)
	}
	var own []string
	for name := range families {
		if strings.HasPrefix(name, "gatewright_") && !strings.HasPrefix(name, "gatewright_request") && name != "gatewright_connections" && name != "gatewright_build_info" && name != "gatewright_upstream_duration_seconds" {
			own = append(own, name)
		}
	}
	if len(own) != 8 {
		t.Errorf("beside its gateway's there are %v", own)
	}
	documented(t, "../../docs/one-server.md", own)
}
