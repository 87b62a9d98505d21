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

	"github.com/gatewright/gatewright/internal/free"
	"github.com/gatewright/gatewright/shared/config"
)

// metrics are what a server's operators are answered at /metrics.
func metrics(t *testing.T, at string) map[string]*dto.MetricFamily {
	t.Helper()
	out, body, err := ask(t, http.DefaultClient, http.MethodGet, "http://"+at+"/metrics", "")
	if err != nil || out.StatusCode != http.StatusOK {
		t.Fatalf("/metrics: %v %s", err, body)
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	return families
}

// counted is a counter, of a class where there are classes.
func counted(f *dto.MetricFamily, class string) float64 {
	for _, m := range f.GetMetric() {
		if class == "" || m.GetLabel()[0].GetValue() == class {
			return m.GetCounter().GetValue()
		}
	}
	return -1
}

// TestOperatorsAskAServer at an address of their own, which is no client's and no project's.
func TestOperatorsAskAServer(t *testing.T) {
	t.Parallel()
	at := free.Address(t).String()
	s, ca, _ := byFiles(t, config.VarAdminAddr+"="+at)
	c := s.client(ca.Pool())
	for _, path := range []string{"/livez", "/readyz"} {
		if out, body, err := ask(t, http.DefaultClient, http.MethodGet, "http://"+at+path, ""); err != nil || out.StatusCode != http.StatusOK || body != "ok\n" {
			t.Errorf("%s: %v %s", path, err, body)
		}
	}
	before := metrics(t, at)
	deployed := hello(t, s, c, "http://"+at)
	for path, want := range map[string]int{"/nothing": http.StatusNotFound, "/hello": http.StatusBadGateway} {
		out, body, err := ask(t, c, http.MethodGet, deployed+path, "")
		if err != nil || out.StatusCode != want || strings.Contains(body, "go_goroutines") {
			t.Errorf("%s is answered %v %s", path, err, body)
		}
	}
	after := metrics(t, at)
	for _, of := range []struct{ name, class string }{
		{"gatewright_requests_total", "4xx"}, {"gatewright_requests_total", "5xx"}, {"gatewright_management_requests_total", "2xx"},
	} {
		if counted(after[of.name], of.class) <= counted(before[of.name], of.class) {
			t.Errorf("requests of %s are not in %s", of.class, of.name)
		}
	}
	commits := func(of map[string]*dto.MetricFamily) uint64 {
		return of["gatewright_store_commit_duration_seconds"].GetMetric()[0].GetHistogram().GetSampleCount()
	}
	if commits(after) <= commits(before) {
		t.Error("commits are not timed")
	}
	gauge := func(name string) float64 { return after[name].GetMetric()[0].GetGauge().GetValue() }
	if gauge("gatewright_store_bytes") <= 0 || gauge("gatewright_connections") < 1 || gauge("process_open_fds") < 1 {
		t.Error("the store has no size, nobody is connected, or no file is open")
	}
	out, _, err := ask(t, c, http.MethodGet, "https://api."+domain+"/openapi", "")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := int64(gauge("gatewright_certificate_expiry_timestamp_seconds")), out.TLS.PeerCertificates[0].NotAfter.Unix(); got != want {
		t.Errorf("the certificate ends at %d, not at %d", got, want)
	}
	if got := counted(after["gatewright_log_lines_dropped_total"], ""); got != 0 {
		t.Errorf("%g lines are dropped", got)
	}
	for _, address := range []string{"http://" + s.plain, "https://api." + domain, deployed} {
		if out, _, err := ask(t, c, http.MethodGet, address+"/metrics", ""); err == nil && out.StatusCode == http.StatusOK {
			t.Errorf("a client is answered the metrics at %s", address)
		}
	}
	s.stop()
}

// TestServerThatDrainsIsAlive, and takes no new requests: operators are told so until it has ended.
func TestServerThatDrainsIsAlive(t *testing.T) {
	t.Parallel()
	at := free.Address(t).String()
	s, ca, _ := byFiles(t, config.VarAdminAddr+"="+at)
	waiting := newWaiting(t)
	defer waiting.let()
	deployed := hello(t, s, s.client(ca.Pool()), waiting.URL)
	answered := make(chan int, 1)
	c := s.client(ca.Pool())
	go func() {
		out, err := c.Get(deployed + "/hello")
		if err != nil {
			answered <- 0
			return
		}
		_ = out.Body.Close()
		answered <- out.StatusCode
	}()
	<-waiting.asked
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	s.until("it is not ready any more", func() bool {
		out, _, err := ask(t, http.DefaultClient, http.MethodGet, "http://"+at+"/readyz", "")
		return err == nil && out.StatusCode == http.StatusServiceUnavailable
	})
	if out, _, err := ask(t, http.DefaultClient, http.MethodGet, "http://"+at+"/livez", ""); err != nil || out.StatusCode != http.StatusOK {
		t.Errorf("while it drains it does not live: %v", err)
	}
	waiting.let()
	if got := <-answered; got != http.StatusOK {
		t.Errorf("what was under way is answered %d", got)
	}
	if code, _ := s.ends(); code != 0 {
		t.Errorf("it ends with %d", code)
	}
}

// TestOperatorsAddressIsChecked before any data are made, and nothing listens where none is set.
func TestOperatorsAddressIsChecked(t *testing.T) {
	t.Parallel()
	at := free.Address(t).String()
	taken, _, files := byFiles(t, config.VarAdminAddr+"="+at)
	for name, tt := range map[string]struct{ set, want string }{
		"no address": {"9004", "host:port"},
		"taken":      {at, "in use by another program"},
	} {
		code, printed := launch(t, filepath.Join(t.TempDir(), "data"), append(files.env(), config.VarAdminAddr+"="+tt.set)...).ends()
		if code != 1 || strings.Count(printed, "error:") != 1 || !strings.Contains(printed, tt.want) || !strings.Contains(printed, config.VarAdminAddr) {
			t.Errorf("%s: it ends with %d: %s", name, code, printed)
		}
	}
	taken.stop()
}
