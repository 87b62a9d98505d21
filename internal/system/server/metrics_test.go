package server_test

import (
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/gatewright/gatewright/shared/core/config"
	"github.com/gatewright/gatewright/shared/testing/freeport"
)

// metrics returns the metrics that a server's operators read at /metrics.
func metrics(t *testing.T, adminAddr string) map[string]*dto.MetricFamily {
	t.Helper()
	resp, body, err := ask(t, http.DefaultClient, http.MethodGet, "http://"+adminAddr+"/metrics", "")
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("GET /metrics = %s, error %v, want 200", body, err)
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	return families
}

// counterValue returns the value of a counter, or -1 if it has none. If class is not "", it returns the value for that
// class of statuses.
func counterValue(f *dto.MetricFamily, class string) float64 {
	for _, m := range f.GetMetric() {
		if class == "" || m.GetLabel()[0].GetValue() == class {
			return m.GetCounter().GetValue()
		}
	}
	return -1
}

// TestOperatorsEndpoint checks that the address for operators serves health checks and metrics. Clients cannot read the
// metrics, and neither can a project whose upstream is this address.
func TestOperatorsEndpoint(t *testing.T) {
	t.Parallel()
	adminAddr := freeport.Address(t).String()
	s, ca, _ := serveWithFiles(t, config.VarAdminAddr+"="+adminAddr)
	c := s.client(ca.Pool())
	for _, path := range []string{"/livez", "/readyz"} {
		if resp, body, err := ask(t, http.DefaultClient, http.MethodGet, "http://"+adminAddr+path, ""); err != nil ||
			resp.StatusCode != http.StatusOK || body != "ok\n" {
			t.Errorf("GET %s = %q, error %v, want 200 \"ok\\n\"", path, body, err)
		}
	}
	before := metrics(t, adminAddr)
	deployed := deployHello(t, s, c, "http://"+adminAddr)
	for path, want := range map[string]int{"/nothing": http.StatusNotFound, "/hello": http.StatusBadGateway} {
		resp, body, err := ask(t, c, http.MethodGet, deployed+path, "")
		if err != nil {
			t.Fatalf("GET %s of the deployment: error = %v, want none", path, err)
		}
		if resp.StatusCode != want || strings.Contains(body, "go_goroutines") {
			t.Errorf("GET %s of the deployment: status = %d, want %d and no metrics: %s", path, resp.StatusCode, want, body)
		}
	}
	after := metrics(t, adminAddr)
	for _, counter := range []struct{ name, class string }{
		{"gatewright_requests_total", "4xx"},
		{"gatewright_requests_total", "5xx"},
		{"gatewright_management_requests_total", "2xx"},
	} {
		if counterValue(after[counter.name], counter.class) <= counterValue(before[counter.name], counter.class) {
			t.Errorf("%s of the class %s has not increased, want it increased", counter.name, counter.class)
		}
	}
	commits := func(families map[string]*dto.MetricFamily) uint64 {
		return families["gatewright_store_commit_duration_seconds"].GetMetric()[0].GetHistogram().GetSampleCount()
	}
	if commits(after) <= commits(before) {
		t.Errorf("the commit histogram has %d samples, want more than %d", commits(after), commits(before))
	}
	gauge := func(name string) float64 { return after[name].GetMetric()[0].GetGauge().GetValue() }
	if gauge("gatewright_store_bytes") <= 0 || gauge("gatewright_connections") < 1 || gauge("process_open_fds") < 1 {
		t.Errorf("store bytes = %g, connections = %g, open files = %g, want all above 0",
			gauge("gatewright_store_bytes"), gauge("gatewright_connections"), gauge("process_open_fds"))
	}
	resp, _, err := ask(t, c, http.MethodGet, "https://api."+domain+"/openapi", "")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := int64(gauge("gatewright_certificate_expiry_timestamp_seconds")),
		resp.TLS.PeerCertificates[0].NotAfter.Unix(); got != want {
		t.Errorf("gatewright_certificate_expiry_timestamp_seconds = %d, want %d", got, want)
	}
	if got := counterValue(after["gatewright_log_lines_dropped_total"], ""); got != 0 {
		t.Errorf("gatewright_log_lines_dropped_total = %g, want 0", got)
	}
	for _, address := range []string{"http://" + s.plain, "https://api." + domain, deployed} {
		if resp, _, err := ask(t, c, http.MethodGet, address+"/metrics", ""); err == nil && resp.StatusCode == http.StatusOK {
			t.Errorf("GET %s/metrics: status = %d, want no metrics for clients", address, resp.StatusCode)
		}
	}
	s.stop()
}

// TestDrainingServerIsAlive checks that a draining server reports to operators that it is alive but not ready, and that
// it completes the request in flight.
func TestDrainingServerIsAlive(t *testing.T) {
	t.Parallel()
	adminAddr := freeport.Address(t).String()
	s, ca, _ := serveWithFiles(t, config.VarAdminAddr+"="+adminAddr)
	upstream := newSlowUpstream(t)
	defer upstream.release()
	deployed := deployHello(t, s, s.client(ca.Pool()), upstream.URL)
	statuses := make(chan int, 1)
	c := s.client(ca.Pool())
	go func() {
		resp, err := c.Get(deployed + "/hello")
		if err != nil {
			statuses <- 0
			return
		}
		_ = resp.Body.Close()
		statuses <- resp.StatusCode
	}()
	<-upstream.requested
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	s.until("it is not ready any more", func() bool {
		resp, _, err := ask(t, http.DefaultClient, http.MethodGet, "http://"+adminAddr+"/readyz", "")
		return err == nil && resp.StatusCode == http.StatusServiceUnavailable
	})
	resp, _, err := ask(t, http.DefaultClient, http.MethodGet, "http://"+adminAddr+"/livez", "")
	if err != nil {
		t.Errorf("GET /livez while the server drains: error = %v, want none", err)
	} else if resp.StatusCode != http.StatusOK {
		t.Errorf("GET /livez while the server drains: status = %d, want 200", resp.StatusCode)
	}
	upstream.release()
	if got := <-statuses; got != http.StatusOK {
		t.Errorf("the request in flight: status = %d, want 200", got)
	}
	if code, _ := s.waitExit(); code != 0 {
		t.Errorf("exit code after the drain = %d, want 0", code)
	}
}

// TestOperatorsAddressIsValidated checks that the server does not start if the address for operators is invalid or in
// use.
func TestOperatorsAddressIsValidated(t *testing.T) {
	t.Parallel()
	adminAddr := freeport.Address(t).String()
	running, _, files := serveWithFiles(t, config.VarAdminAddr+"="+adminAddr)
	for name, tt := range map[string]struct{ value, want string }{
		"port without host": {"9004", "host:port"},
		"address in use":    {adminAddr, "in use by another program"},
	} {
		code, printed := startServer(t, filepath.Join(t.TempDir(), "data"),
			append(files.env(), config.VarAdminAddr+"="+tt.value)...).waitExit()
		if code != 1 || strings.Count(printed, "error:") != 1 || !strings.Contains(printed, tt.want) ||
			!strings.Contains(printed, config.VarAdminAddr) {
			t.Errorf("%s: exit code = %d, want 1 with one error that names %s and %q: %s", name, code, config.VarAdminAddr,
				tt.want, printed)
		}
	}
	running.stop()
}
