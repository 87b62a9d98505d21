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
func metrics(t *testing.T, at string) map[string]*dto.MetricFamily {
	t.Helper()
	resp, body, err := ask(t, http.DefaultClient, http.MethodGet, "http://"+at+"/metrics", "")
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

// requestCounts returns the value of a counter. If the counter has classes, class selects the value.
func requestCounts(f *dto.MetricFamily, class string) float64 {
	for _, m := range f.GetMetric() {
		if class == "" || m.GetLabel()[0].GetValue() == class {
			return m.GetCounter().GetValue()
		}
	}
	return -1
}

// TestOperatorsEndpoint checks the address of operators, which serves neither clients nor projects.
func TestOperatorsEndpoint(t *testing.T) {
	t.Parallel()
	at := freeport.Address(t).String()
	s, ca, _ := serveWithFiles(t, config.VarAdminAddr+"="+at)
	c := s.client(ca.Pool())
	for _, path := range []string{"/livez", "/readyz"} {
		if resp, body, err := ask(t, http.DefaultClient, http.MethodGet, "http://"+at+path, ""); err != nil ||
			resp.StatusCode != http.StatusOK || body != "ok\n" {
			t.Errorf("GET %s = %q, error %v, want 200 \"ok\\n\"", path, body, err)
		}
	}
	before := metrics(t, at)
	deployed := deployHello(t, s, c, "http://"+at)
	for path, want := range map[string]int{"/nothing": http.StatusNotFound, "/hello": http.StatusBadGateway} {
		resp, body, err := ask(t, c, http.MethodGet, deployed+path, "")
		if err != nil || resp.StatusCode != want || strings.Contains(body, "go_goroutines") {
			t.Errorf("GET %s of the deployment = %s, error %v, want %d and no metrics", path, body, err, want)
		}
	}
	after := metrics(t, at)
	for _, counter := range []struct{ name, class string }{
		{"gatewright_requests_total", "4xx"},
		{"gatewright_requests_total", "5xx"},
		{"gatewright_management_requests_total", "2xx"},
	} {
		if requestCounts(after[counter.name], counter.class) <= requestCounts(before[counter.name], counter.class) {
			t.Errorf("%s of the class %s has not increased, want it increased", counter.name, counter.class)
		}
	}
	commits := func(counter map[string]*dto.MetricFamily) uint64 {
		return counter["gatewright_store_commit_duration_seconds"].GetMetric()[0].GetHistogram().GetSampleCount()
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
	if got := requestCounts(after["gatewright_log_lines_dropped_total"], ""); got != 0 {
		t.Errorf("gatewright_log_lines_dropped_total = %g, want 0", got)
	}
	for _, address := range []string{"http://" + s.plain, "https://api." + domain, deployed} {
		if resp, _, err := ask(t, c, http.MethodGet, address+"/metrics", ""); err == nil && resp.StatusCode == http.StatusOK {
			t.Errorf("GET %s/metrics: status = %d, want no metrics for clients", address, resp.StatusCode)
		}
	}
	s.stop()
}

// TestDrainingServerIsAlive checks that a draining server reports to operators, until it has ended, that it is alive
// but not ready.
func TestDrainingServerIsAlive(t *testing.T) {
	t.Parallel()
	at := freeport.Address(t).String()
	s, ca, _ := serveWithFiles(t, config.VarAdminAddr+"="+at)
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
		resp, _, err := ask(t, http.DefaultClient, http.MethodGet, "http://"+at+"/readyz", "")
		return err == nil && resp.StatusCode == http.StatusServiceUnavailable
	})
	if resp, _, err := ask(t, http.DefaultClient, http.MethodGet, "http://"+at+"/livez", ""); err != nil ||
		resp.StatusCode != http.StatusOK {
		t.Errorf("GET /livez while the server drains: error %v, want 200", err)
	}
	upstream.release()
	if got := <-statuses; got != http.StatusOK {
		t.Errorf("the request in flight: status = %d, want 200", got)
	}
	if code, _ := s.waitExit(); code != 0 {
		t.Errorf("exit code after the drain = %d, want 0", code)
	}
}

// TestOperatorsAddressIsValidated checks that the server does not start with an invalid address of operators, or with
// an address that is in use.
func TestOperatorsAddressIsValidated(t *testing.T) {
	t.Parallel()
	at := freeport.Address(t).String()
	running, _, files := serveWithFiles(t, config.VarAdminAddr+"="+at)
	for name, tt := range map[string]struct{ value, want string }{
		"no address": {"9004", "host:port"},
		"taken":      {at, "in use by another program"},
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
