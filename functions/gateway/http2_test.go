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

	"github.com/gatewright/gatewright/shared/base/pki/pkitest"
	"github.com/gatewright/gatewright/shared/core/config"
)

// TestProcessSpeaksHTTP2 sends concurrent HTTP/2 requests, as browsers do, and checks that paths are handled as with
// HTTP/1.1. After SIGTERM, the process must finish requests in flight, and must accept new requests until it drains.
func TestProcessSpeaksHTTP2(t *testing.T) {
	s := newProcessFixture(t, 1<<40)
	ca := pkitest.CA(t, "CA", time.Now())
	cert := ca.Client(t, "gateway", time.Now(), func(x *x509.Certificate) { x.DNSNames = []string{"*." + processDomain} })
	for name, text := range map[string]string{config.VarTLSCertificate: cert.PEM(), config.VarTLSKey: cert.KeyPEM(t)} {
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
		resp, err := transport.RoundTrip(r)
		if err != nil {
			return 0, err
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		if resp.ProtoMajor != 2 {
			t.Errorf("protocol of the response = %s, want HTTP/2", resp.Proto)
		}
		return resp.StatusCode, resp.Body.Close()
	}
	sendMany := func(when string) {
		t.Helper()
		var wg sync.WaitGroup
		for range 100 {
			wg.Go(func() {
				if status, err := get("/x"); status != http.StatusOK {
					t.Errorf("%s: GET /x = %d, %v, want 200", when, status, err)
				}
			})
		}
		wg.Wait()
	}
	sendMany("before SIGTERM")
	if status, err := get("/x/..%2Fx"); status != http.StatusBadRequest {
		t.Errorf("GET /x/..%%2Fx = %d, %v, want 400", status, err)
	}
	inFlight := make(chan int, 1)
	go func() {
		status, _ := get("/x?" + heldQuery)
		inFlight <- status
	}()
	<-s.holding
	s.must(p.cmd.Process.Signal(syscall.SIGTERM))
	for status := http.StatusOK; status == http.StatusOK; {
		status, _ = p.getAdmin("/readyz")
	}
	sendMany("after SIGTERM")
	for err := error(nil); err == nil; time.Sleep(10 * time.Millisecond) { // until it drains
		_, err = get("/x")
	}
	s.release <- struct{}{}
	if status := <-inFlight; status != http.StatusOK {
		t.Errorf("status of the request in flight = %d, want 200", status)
	}
	if err := <-p.exited; err != nil {
		t.Errorf("exit of the process: error = %v, want none", err)
	}
	if !strings.Contains(p.output.String(), `"msg":"request"`) {
		t.Error("the output has no log lines of requests, want some")
	}
}
