package customdomains_test

import (
	"crypto/tls"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/customdomains"
	"github.com/gatewright/gatewright/shared/pki/pkitest"
)

// TestSessionEndsWithItsCertificate, which no handshake that resumes it shows.
func TestSessionEndsWithItsCertificate(t *testing.T) {
	for i, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13, tls.VersionTLS12, tls.VersionTLS13} {
		w := newWorld(t)
		w.active(acme, customdomains.New{Hostname: api, Deployment: main})
		ca := pkitest.CA(t, "CA", w.at())
		w.upload(w.Service, api, ca)
		server := w.gateway(w.directory())
		client := &tls.Config{ServerName: api, RootCAs: ca.Pool(), Time: w.at, MaxVersion: version, ClientSessionCache: tls.NewLRUClientSessionCache(1)}
		connect := func() (resumed bool, err error) {
			near, far := net.Pipe()
			go func() {
				_, _ = io.WriteString(tls.Server(far, server), "x")
				_ = far.Close()
			}()
			its := tls.Client(near, client)
			_, err = its.Read(make([]byte, 1)) // behind the session's ticket
			return its.ConnectionState().DidResume, err
		}
		for _, want := range []bool{false, true} {
			if resumed, err := connect(); err != nil || resumed != want {
				t.Fatalf("TLS %x: resumed %t, %v", version, resumed, err)
			}
		}
		if i < 2 {
			if _, err := w.DeleteCertificate(w.request(), acme, api); err != nil {
				t.Fatal(err)
			}
		} else if err := w.Delete(w.request(), acme, api, ""); err != nil {
			t.Fatal(err)
		}
		w.set(w.at().Add(customdomains.Staleness))
		if resumed, err := connect(); err == nil || resumed || !strings.Contains(err.Error(), "unrecognized name") {
			t.Errorf("TLS %x: resumed %t, %v", version, resumed, err)
		}
	}
}
