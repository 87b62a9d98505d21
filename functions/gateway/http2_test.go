package gateway_test

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/config"
	"github.com/gatewright/gatewright/shared/pki/pkitest"
)

// TestProcessSpeaksHTTP2, as many requests at once as a browser has, with the rules of paths that
// all have; and at SIGTERM what is under way is answered, and what comes finds it there until it has been told to go.
func TestProcessSpeaksHTTP2(t *testing.T) {
	s := newSite(t, 1<<40)
	ca := pkitest.CA(t, "CA", time.Now())
	its := ca.Client(t, "gateway", time.Now(), func(x *x509.Certificate) { x.DNSNames = []string{"*." + processDomain} })
	for name, text := range map[string]string{config.VarTLSCertificate: its.PEM(), config.VarTLSKey: its.KeyPEM(t)} {
		file := filepath.Join(t.TempDir(), "pem")
		s.must(os.WriteFile(file, []byte(text), 0o600))
		s.env = append(s.env, name+"="+file)
	}
	p := s.start()
	host := shopName + "." + processDomain
	transport := &http.Transport{
		TLSClientConfig:   &tls.Config{MinVersion: tls.VersionTLS12, ServerName: host, InsecureSkipVerify: true},
		ForceAttemptHTTP2: true,
	}
	defer transport.CloseIdleConnections()
	get := func(path string) (int, error) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+p.address+path, nil)
		if err != nil {
			return 0, err
		}
		r.Host = host
		out, err := transport.RoundTrip(r)
		if err != nil {
			return 0, err
		}
		_, _ = io.Copy(io.Discard, out.Body)
		if out.ProtoMajor != 2 {
			t.Errorf("it speaks %s", out.Proto)
		}
		return out.StatusCode, out.Body.Close()
	}
	many := func(when string) {
		t.Helper()
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() {
				if status, err := get("/x"); status != http.StatusOK {
					t.Errorf("%s a request is answered %d, %v", when, status, err)
				}
			})
		}
		all.Wait()
	}
	many("at once")
	if status, err := get("/x/..%2Fx"); status != http.StatusBadRequest {
		t.Errorf("a path that reads in two ways is answered %d, %v", status, err)
	}
	under := make(chan int, 1)
	go func() {
		status, _ := get("/x?" + held)
		under <- status
	}()
	<-s.held
	s.must(p.cmd.Process.Signal(syscall.SIGTERM))
	for status := http.StatusOK; status == http.StatusOK; {
		status, _ = p.get("/readyz")
	}
	many("after it was told to end")
	for err := error(nil); err == nil; time.Sleep(10 * time.Millisecond) { // until it drains
		_, err = get("/x")
	}
	s.released <- struct{}{}
	if status := <-under; status != http.StatusOK {
		t.Errorf("what was under way is answered %d", status)
	}
	if err := <-p.ended; err != nil {
		t.Errorf("it ends with %v", err)
	}
	if !strings.Contains(p.output.String(), `"msg":"request"`) {
		t.Error("requests have no lines")
	}
}
