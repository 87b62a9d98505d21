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
	"github.com/gatewright/gatewright/shared/config"
	"github.com/gatewright/gatewright/shared/handshake"
	"github.com/gatewright/gatewright/shared/owncert"
	"github.com/gatewright/gatewright/shared/pki/pkitest"
	"github.com/gatewright/gatewright/shared/service"
)

// TestProcessThatCannotBeEndsWithAStatus, for what started it, and says why where its lines are read.
func TestProcessThatCannotBeEndsWithAStatus(t *testing.T) {
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), binary)
	cmd.Env = []string{asProcess + "=yes", "AWS_REGION=us-east-1"}
	said, err := cmd.Output()
	if failed, ok := errors.AsType[*exec.ExitError](err); !ok || failed.ExitCode() != 1 || !bytes.Contains(said, []byte(config.VarTable)) {
		t.Errorf("without a table it ends with %v, and says %s", err, said)
	}
}

// TestLimitIsExactOverProcesses, the gateway within another process included, and what one had
// leased when it was told to end is there for the others.
func TestLimitIsExactOverProcesses(t *testing.T) {
	const limit = 100
	s := newSite(t, limit)
	one, other := s.start(), s.start()
	within, err := gateway.New(s.parts, gateway.Options{})
	s.must(err)
	admitted := 0
	take := func(ask func() (int, error)) {
		t.Helper()
		switch status, err := ask(); {
		case err != nil:
			t.Fatal(err)
		case status == http.StatusOK:
			admitted++
		case status != http.StatusTooManyRequests:
			t.Fatalf("answered %d", status)
		}
	}
	byOne := func() (int, error) { return one.ask(http.DefaultClient) }
	for range 20 {
		take(byOne)
	}
	one.stop() // with some of its lease unspent
	for range limit {
		take(func() (int, error) { return other.ask(http.DefaultClient) })
		take(func() (int, error) {
			w := httptest.NewRecorder()
			within.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+shopName+"."+processDomain+"/x", nil))
			return w.Code, nil
		})
	}
	if admitted != limit {
		t.Errorf("%d are admitted, want %d", admitted, limit)
	}
	other.stop()
}

// TestLeasesAreGivenBackAtTheEnd: what a process has leased and not spent by the time it ends is
// there for one that comes after it, and not only at the end of the period.
func TestLeasesAreGivenBackAtTheEnd(t *testing.T) {
	const limit, most = 200, 50
	s := newSite(t, limit)
	one, other := s.start(), s.start()
	admitted := 0
	spend := func(p *running, most int) {
		t.Helper()
		for range most {
			switch status, err := p.ask(http.DefaultClient); {
			case err != nil:
				t.Fatal(err)
			case status == http.StatusOK:
				admitted++
			case status == http.StatusTooManyRequests:
				return
			default:
				t.Fatalf("answered %d", status)
			}
		}
	}
	spend(one, most)
	spend(other, limit)
	held := limit - admitted
	if held <= 0 || admitted < most {
		t.Fatalf("%d are admitted: the first holds nothing that is to go back", admitted)
	}
	one.stop()
	other.stop()
	next := s.start()
	spend(next, limit)
	if admitted != limit {
		t.Errorf("%d of %d are admitted, %d were held", admitted, limit, held)
	}
	next.stop()
}

// TestNoRequestIsLostOverSIGTERM: clients come by what looks at /readyz, as balancers do, while
// processes are replaced one after the other. A balancer notices late: each process that is to end is asked on
// by new connections meanwhile, and what it has begun by then it ends, with its line.
func TestNoRequestIsLostOverSIGTERM(t *testing.T) {
	s := newSite(t, 1<<40)
	s.env = append(s.env, config.VarAnnounce+"=4s")
	var mu sync.Mutex
	all := []*running{s.start(), s.start()}
	pick := func(i int) *running {
		mu.Lock()
		defer mu.Unlock()
		for k := range all {
			if p := all[(i+k)%len(all)]; p.ready.Load() {
				return p
			}
		}
		return nil
	}
	ctx, stop := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	var asked, lost atomic.Int64
	for c := range 8 {
		clients.Go(func() {
			client := &http.Client{Transport: &http.Transport{}} // with a connection that it keeps
			defer client.CloseIdleConnections()
			for i := c; ctx.Err() == nil; i++ {
				asked.Add(1)
				if status, err := pick(i).ask(client); err != nil || status != http.StatusOK {
					lost.Add(1)
					t.Errorf("answered %d, %v", status, err)
					return
				}
			}
		})
	}
	for range 2 {
		fresh := s.start()
		mu.Lock()
		old := all[0]
		all = append(all[1:], fresh)
		mu.Unlock()
		under := make(chan int, 1)
		go func() {
			status, _ := old.askFor(anew(), "/x?"+held)
			under <- status
		}()
		<-s.held
		s.must(old.cmd.Process.Signal(syscall.SIGTERM))
		for status := http.StatusOK; status == http.StatusOK; {
			status, _ = old.get("/readyz")
		}
		for i := range 10 {
			time.Sleep(50 * time.Millisecond)
			if status, err := old.ask(anew()); status != http.StatusOK {
				t.Errorf("request %d after it was told to end: %d, %v", i, status, err)
			}
		}
		old.ready.Store(false)
		for err := error(nil); err == nil; time.Sleep(10 * time.Millisecond) { // until it drains
			_, err = old.ask(anew())
		}
		s.released <- struct{}{}
		if status := <-under; status != http.StatusOK {
			t.Errorf("what was under way is answered %d", status)
		}
		if err := <-old.ended; err != nil {
			t.Errorf("it ends with %v", err)
		}
		if lines := old.lines(); lines < int(old.answered.Load()) {
			t.Errorf("%d requests are answered, and %d have a line", old.answered.Load(), lines)
		}
	}
	stop()
	clients.Wait()
	if lost.Load() > 0 || asked.Load() < 100 {
		t.Errorf("%d of %d requests are lost", lost.Load(), asked.Load())
	}
	for _, p := range all {
		p.stop()
	}
}

// anew asks by a connection of its own.
func anew() *http.Client { return &http.Client{Transport: &http.Transport{DisableKeepAlives: true}} }

// TestOperatorsAskAtTheirOwnAddress, and clients cannot.
func TestOperatorsAskAtTheirOwnAddress(t *testing.T) {
	s := newSite(t, 10)
	p := s.start()
	for range 3 {
		if status, err := p.ask(http.DefaultClient); status != http.StatusOK || err != nil {
			t.Fatal(status, err)
		}
	}
	for _, path := range []string{"/livez", "/readyz"} {
		if status, body := p.get(path); status != http.StatusOK || body != "ok\n" {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
	status, body := p.get("/metrics")
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(body))
	if status != http.StatusOK || err != nil {
		t.Fatal(status, err)
	}
	answered := 0.0
	for _, m := range families["gatewright_requests_total"].GetMetric() {
		if m.GetLabel()[0].GetValue() == "2xx" {
			answered = m.GetCounter().GetValue()
		}
	}
	if answered != 3 || families["gatewright_connections"].GetMetric()[0].GetGauge().GetValue() < 1 {
		t.Errorf("metrics are\n%s", body)
	}
	if strings.Contains(body, shopName) || strings.Contains(body, `"/x"`) {
		t.Error("a metric has a deployment or a path")
	}
	for _, path := range []string{"/livez", "/readyz", "/metrics"} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+p.address+path, nil)
		s.must(err)
		out, err := http.DefaultClient.Do(r)
		s.must(err)
		_ = out.Body.Close()
		if out.StatusCode != http.StatusNotFound {
			t.Errorf("a client is answered %s at %s", out.Status, path)
		}
	}
	p.stop()
	// Lines are written behind requests, and none is missing at the end.
	if lines := p.lines(); lines != int(p.answered.Load())+3 {
		t.Errorf("%d requests have a line:\n%s", lines, p.output.String())
	}
}

// TestProcessHasACertificateOfItsDomain, and is refused with another.
func TestProcessHasACertificateOfItsDomain(t *testing.T) {
	s := newShop(t, 1)
	opened, err := gateway.OpenProcess(s.parts, "")
	s.must(err)
	secure := func(of string) (*tls.Config, error) {
		own := pkitest.CA(t, "CA", time.Now()).Client(t, of, time.Now(), func(x *x509.Certificate) { x.DNSNames = []string{of} })
		return opened.(service.Securer).Secure(func(owns func(string) bool, host string) (handshake.Source, error) {
			return owncert.OpenText(config.VarCertificate, own.PEM()+own.KeyPEM(t), owned(owns), host)
		})
	}
	if _, err := secure("*.elsewhere.test"); err == nil || !strings.Contains(err.Error(), config.VarCertificate) || !strings.Contains(err.Error(), "*.elsewhere.test") {
		t.Errorf("error %v", err)
	}
	c, err := secure("*." + processDomain)
	s.must(err)
	for name, known := range map[string]bool{shopName + "." + processDomain: true, "nobody.test": false} {
		ours, theirs := net.Pipe()
		go func() { _ = tls.Server(theirs, c).HandshakeContext(t.Context()) }()
		err := tls.Client(ours, &tls.Config{ServerName: name, InsecureSkipVerify: true}).HandshakeContext(t.Context())
		if (err == nil) != known {
			t.Errorf("%s: %v", name, err)
		}
		_ = ours.Close()
	}
}

// owned are the names of a process.
type owned func(string) bool

func (o owned) Owns(name string) bool                      { return o(name) }
func (owned) Served(context.Context, string) (bool, error) { return true, nil }
