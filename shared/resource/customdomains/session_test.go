package customdomains_test

import (
	"crypto/tls"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/base/pki/pkitest"
	"github.com/gatewright/gatewright/shared/resource/customdomains"
)

// TestSessionIsNotResumedWithoutCertificate checks that a session is not resumed after its certificate
// or hostname was deleted. A handshake that resumes a session does not show the certificate.
func TestSessionIsNotResumedWithoutCertificate(t *testing.T) {
	for i, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13, tls.VersionTLS12, tls.VersionTLS13} {
		fx := newFixture(t)
		fx.createVerified(acme, customdomains.CreateInput{Hostname: api, Deployment: main})
		ca := pkitest.CA(t, "CA", fx.clock())
		fx.upload(fx.Service, api, ca)
		server := fx.tlsConfig(fx.directory())
		client := &tls.Config{
			ServerName: api, RootCAs: ca.Pool(), Time: fx.clock, MaxVersion: version,
			ClientSessionCache: tls.NewLRUClientSessionCache(1),
		}
		connect := func() (resumed bool, err error) {
			clientConn, serverConn := net.Pipe()
			go func() {
				_, _ = io.WriteString(tls.Server(serverConn, server), "x")
				_ = serverConn.Close()
			}()
			conn := tls.Client(clientConn, client)
			_, err = conn.Read(make([]byte, 1)) // so that the client has received the session ticket
			return conn.ConnectionState().DidResume, err
		}
		for _, want := range []bool{false, true} {
			if resumed, err := connect(); err != nil || resumed != want {
				t.Fatalf("TLS %x: resumed = %t, %v, want %t and no error", version, resumed, err, want)
			}
		}
		if i < 2 {
			if _, err := fx.DeleteCertificate(fx.requestContext(), acme, api); err != nil {
				t.Fatal(err)
			}
		} else if err := fx.Delete(fx.requestContext(), acme, api, ""); err != nil {
			t.Fatal(err)
		}
		fx.setClock(fx.clock().Add(customdomains.Staleness))
		if resumed, err := connect(); err == nil || resumed || !strings.Contains(err.Error(), "unrecognized name") {
			t.Errorf("TLS %x, certificate deleted: %t, hostname deleted: %t: resumed = %t, %v, want an unrecognized name",
				version, i < 2, i >= 2, resumed, err)
		}
	}
}
