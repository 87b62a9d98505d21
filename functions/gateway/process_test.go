package gateway_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/gatewright/gatewright/functions/gateway"
	"github.com/gatewright/gatewright/shared/base/handshake"
	"github.com/gatewright/gatewright/shared/base/pki/pkitest"
	"github.com/gatewright/gatewright/shared/core/config"
	"github.com/gatewright/gatewright/shared/runtime/servercert"
	"github.com/gatewright/gatewright/shared/runtime/service"
)

// TestMisconfiguredProcessExitsWithStatus checks the exit status and the printed reason of a process without the name
// of its table.
func TestMisconfiguredProcessExitsWithStatus(t *testing.T) {
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), binary)
	cmd.Env = []string{varAsProcess + "=yes", "AWS_REGION=us-east-1"}
	output, err := cmd.Output()
	if exitErr, ok := errors.AsType[*exec.ExitError](err); !ok || exitErr.ExitCode() != 1 ||
		!bytes.Contains(output, []byte(config.VarTable)) {
		t.Errorf("process without a table: error = %v, output = %s, want exit status 1 and %s",
			err, output, config.VarTable)
	}
}

// TestLimitIsExactAcrossProcesses checks that several processes, and a gateway in this process, together admit exactly
// as many requests as the limit allows. When a process receives SIGTERM, the others must be able to use the units that
// it has leased.
func TestLimitIsExactAcrossProcesses(t *testing.T) {
	const limit = 100
	s := newProcessFixture(t, limit)
	first, second := s.start(), s.start()
	inProcess, err := gateway.New(s.parts, gateway.Options{})
	s.must(err)
	admitted := 0
	countAdmitted := func(send func() (int, error)) {
		t.Helper()
		switch status, err := send(); {
		case err != nil:
			t.Fatal(err)
		case status == http.StatusOK:
			admitted++
		case status != http.StatusTooManyRequests:
			t.Fatalf("status of a request = %d, want 200 or 429", status)
		}
	}
	sendToFirst := func() (int, error) { return first.request(http.DefaultClient) }
	for range 20 {
		countAdmitted(sendToFirst)
	}
	first.stop() // it has leased units that it has not spent
	for range limit {
		countAdmitted(func() (int, error) { return second.request(http.DefaultClient) })
		countAdmitted(func() (int, error) {
			w := httptest.NewRecorder()
			inProcess.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet,
				"http://"+shopName+"."+processDomain+"/x", nil))
			return w.Code, nil
		})
	}
	if admitted != limit {
		t.Errorf("admitted requests of all processes = %d, want %d", admitted, limit)
	}
	second.stop()
}

// TestLeasesAreReturnedOnShutdown checks that the next process can immediately use the units that a process has leased
// and not spent when it ends.
func TestLeasesAreReturnedOnShutdown(t *testing.T) {
	const limit, maxRequests = 200, 50
	s := newProcessFixture(t, limit)
	first, second := s.start(), s.start()
	admitted := 0
	spend := func(p *gatewayProcess, n int) {
		t.Helper()
		for range n {
			switch status, err := p.request(http.DefaultClient); {
			case err != nil:
				t.Fatal(err)
			case status == http.StatusOK:
				admitted++
			case status == http.StatusTooManyRequests:
				return
			default:
				t.Fatalf("status of a request = %d, want 200 or 429", status)
			}
		}
	}
	spend(first, maxRequests)
	spend(second, limit)
	leased := limit - admitted
	if leased <= 0 || admitted < maxRequests {
		t.Fatalf("%d requests are admitted, want %d or more and fewer than %d, so that the first process has a lease",
			admitted, maxRequests, limit)
	}
	first.stop()
	second.stop()
	next := s.start()
	spend(next, limit)
	if admitted != limit {
		t.Errorf("%d requests are admitted after %d were leased, want %d", admitted, leased, limit)
	}
	next.stop()
}

// announce is how long a process accepts connections after the signal.
const announce = 4 * time.Second

// wantResponses checks that a process that was signaled still responds to requests on new connections. On a slow
// machine it checks fewer requests, because the process accepts connections for no longer than announce.
func (p *gatewayProcess) wantResponses(t *testing.T, signaledAt time.Time) {
	t.Helper()
	for i := range 10 {
		time.Sleep(50 * time.Millisecond)
		status, err := p.request(newUnpooledClient())
		if time.Since(signaledAt) >= announce {
			return
		}
		if status != http.StatusOK {
			t.Errorf("request %d after SIGTERM = %d, %v, want 200", i, status, err)
		}
	}
}

// TestNoRequestIsLostOnSIGTERM replaces processes one after the other, while clients send requests to the processes
// that are marked as ready. The test removes the mark of a process some time after its /readyz fails, because a load
// balancer also detects a shutdown late. So a process that shuts down still receives requests, also on new connections.
// It must finish all requests, and must log all of them.
func TestNoRequestIsLostOnSIGTERM(t *testing.T) {
	s := newProcessFixture(t, 1<<40)
	s.env = append(s.env, config.VarAnnounce+"="+announce.String())
	var mu sync.Mutex
	processes := []*gatewayProcess{s.start(), s.start()}
	pick := func(i int) *gatewayProcess {
		mu.Lock()
		defer mu.Unlock()
		for k := range processes {
			if p := processes[(i+k)%len(processes)]; p.ready.Load() {
				return p
			}
		}
		return nil
	}
	ctx, stop := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	var sent, lost atomic.Int64
	for c := range 8 {
		clients.Go(func() {
			client := &http.Client{Transport: &http.Transport{}} // with keep-alive connections
			defer client.CloseIdleConnections()
			for i := c; ctx.Err() == nil; i++ {
				sent.Add(1)
				if status, err := pick(i).request(client); err != nil || status != http.StatusOK {
					lost.Add(1)
					t.Errorf("request = %d, %v, want 200", status, err)
					return
				}
			}
		})
	}
	for range 2 {
		replacement := s.start()
		mu.Lock()
		old := processes[0]
		processes = append(processes[1:], replacement)
		mu.Unlock()
		inFlight := make(chan int, 1)
		go func() {
			status, _ := old.requestPath(newUnpooledClient(), "/x?"+heldQuery)
			inFlight <- status
		}()
		<-s.holding
		signaledAt := time.Now()
		s.must(old.cmd.Process.Signal(syscall.SIGTERM))
		for status := http.StatusOK; status == http.StatusOK; {
			status, _ = old.getAdmin("/readyz")
		}
		old.wantResponses(t, signaledAt)
		old.ready.Store(false)
		for err := error(nil); err == nil; time.Sleep(10 * time.Millisecond) { // until it drains
			_, err = old.request(newUnpooledClient())
		}
		s.release <- struct{}{}
		if status := <-inFlight; status != http.StatusOK {
			t.Errorf("status of the request in flight = %d, want 200", status)
		}
		if err := <-old.exited; err != nil {
			t.Errorf("exit of the process: error = %v, want none", err)
		}
		if lines := old.requestLines(); lines < int(old.responses.Load()) {
			t.Errorf("log lines of requests = %d, want %d or more", lines, old.responses.Load())
		}
	}
	stop()
	clients.Wait()
	if lost.Load() > 0 || sent.Load() < 100 {
		t.Errorf("%d of %d requests are lost, want 0 of 100 or more", lost.Load(), sent.Load())
	}
	for _, p := range processes {
		p.stop()
	}
}

// newUnpooledClient returns a client that opens a connection for each request.
func newUnpooledClient() *http.Client {
	return &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
}

// TestAdminPathsAreServedAtAdminAddress checks that a process serves the paths for operators only at its admin address,
// and not at the address for clients.
func TestAdminPathsAreServedAtAdminAddress(t *testing.T) {
	s := newProcessFixture(t, 10)
	p := s.start()
	for range 3 {
		if status, err := p.request(http.DefaultClient); status != http.StatusOK || err != nil {
			t.Fatalf("GET /x = %d, %v, want 200", status, err)
		}
	}
	for _, path := range []string{"/livez", "/readyz"} {
		if status, body := p.getAdmin(path); status != http.StatusOK || body != "ok\n" {
			t.Errorf("GET %s = %d %q, want 200 ok", path, status, body)
		}
	}
	status, body := p.getAdmin("/metrics")
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(body))
	if status != http.StatusOK || err != nil {
		t.Fatalf("GET /metrics = %d, %v, want 200 in Prometheus' text format", status, err)
	}
	succeeded := 0.0
	for _, m := range families["gatewright_requests_total"].GetMetric() {
		if m.GetLabel()[0].GetValue() == "2xx" {
			succeeded = m.GetCounter().GetValue()
		}
	}
	if succeeded != 3 || families["gatewright_connections"].GetMetric()[0].GetGauge().GetValue() < 1 {
		t.Errorf("successful requests = %v, want 3, with 1 connection or more, in\n%s", succeeded, body)
	}
	if strings.Contains(body, shopName) || strings.Contains(body, `"/x"`) {
		t.Errorf("metrics = %s, want no deployment and no path in them", body)
	}
	for _, path := range []string{"/livez", "/readyz", "/metrics"} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+p.address+path, nil)
		s.must(err)
		resp, err := http.DefaultClient.Do(r)
		s.must(err)
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusNotFound {
			t.Errorf("GET %s at the clients' address = %s, want 404", path, resp.Status)
		}
	}
	p.stop()
	// When the process has ended, the log must have a line for each request, and for the three requests above that got
	// 404.
	if lines := p.requestLines(); lines != int(p.responses.Load())+3 {
		t.Errorf("log lines of requests = %d, want %d:\n%s", lines, p.responses.Load()+3, p.output.String())
	}
}

// TestProcessNeedsCertificateOfItsDomain checks that Secure fails for a certificate of another domain. With a
// certificate of its domain, the process must refuse handshakes for unknown names.
func TestProcessNeedsCertificateOfItsDomain(t *testing.T) {
	s := newQuotaFixture(t, 1)
	gatewayProc, err := gateway.OpenProcess(s.parts, "")
	s.must(err)
	secure := func(dnsName string) (*tls.Config, error) {
		cert := pkitest.CA(t, "CA", time.Now()).Client(t, dnsName, time.Now(), func(x *x509.Certificate) {
			x.DNSNames = []string{dnsName}
		})
		return gatewayProc.(service.Securer).Secure(func(owns func(string) bool, host string) (handshake.Source, error) {
			return servercert.OpenText(config.VarCertificate, cert.PEM()+cert.KeyPEM(t), ownsFunc(owns), host)
		})
	}
	if _, err := secure("*.elsewhere.test"); err == nil || !strings.Contains(err.Error(), config.VarCertificate) ||
		!strings.Contains(err.Error(), "*.elsewhere.test") {
		t.Errorf("secure(*.elsewhere.test) error = %v, want one that names %s and the name",
			err, config.VarCertificate)
	}
	c, err := secure("*." + processDomain)
	s.must(err)
	for name, wantOK := range map[string]bool{shopName + "." + processDomain: true, "nobody.test": false} {
		clientConn, serverConn := net.Pipe()
		go func() { _ = tls.Server(serverConn, c).HandshakeContext(t.Context()) }()
		err := tls.Client(clientConn, &tls.Config{ServerName: name, InsecureSkipVerify: true}).HandshakeContext(t.Context())
		if (err == nil) != wantOK {
			t.Errorf("handshake with %s = %v, want success: %t", name, err, wantOK)
		}
		_ = clientConn.Close()
	}
}

// ownsFunc implements servercert.Names. All names are served.
type ownsFunc func(string) bool

func (o ownsFunc) Owns(name string) bool                      { return o(name) }
func (ownsFunc) Served(context.Context, string) (bool, error) { return true, nil }
