// Package pebbletest runs an ACME certificate authority in a test: Pebble, Let's Encrypt's authority for tests, with
// a DNS server that resolves every name to this machine.
//
// Pebble follows the protocol. Tests that need a misbehaving authority implement it themselves. The package has only
// this file.
package pebbletest

import (
	"crypto/x509"
	"encoding/pem"
	"io"
	"log" //nolint:depguard // Pebble logs to a log.Logger
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/letsencrypt/challtestsrv"
	"github.com/letsencrypt/pebble/v2/ca"
	"github.com/letsencrypt/pebble/v2/db"
	"github.com/letsencrypt/pebble/v2/va"
	"github.com/letsencrypt/pebble/v2/wfe"
)

// Authority is a running Pebble.
type Authority struct {
	// Directory is the address of the authority's ACME directory.
	Directory string
	// Client trusts the TLS certificate of the authority's API. Certificate is this certificate in PEM.
	Client      *http.Client
	Certificate []byte

	handler atomic.Pointer[http.Handler]
	roots   atomic.Pointer[x509.CertPool]
	rootPEM atomic.Pointer[[]byte]
}

// Start starts an authority. Call ValidateAt before you send requests to it.
func Start(t testing.TB) *Authority {
	t.Helper()
	a := &Authority{}
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		handler := a.handler.Load()
		if handler == nil {
			http.Error(w, "ValidateAt was not called", http.StatusServiceUnavailable)
			return
		}
		(*handler).ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	a.Directory, a.Client = server.URL+wfe.DirectoryPath, server.Client()
	a.Certificate = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	return a
}

// ValidateAt sets the ports of this machine on which the authority validates hostnames: plain instead of 80, and secure
// instead of 443. A second call replaces the authority with a new one that has other roots and no data.
func (a *Authority) ValidateAt(t *testing.T, plain, secure int) {
	t.Helper()
	makeDeterministic()
	logger := log.New(io.Discard, "", 0)
	conn, err := new(net.ListenConfig).ListenPacket(t.Context(), "udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	dnsAddr := conn.LocalAddr().String()
	_ = conn.Close()
	dns, err := challtestsrv.New(challtestsrv.Config{Log: logger, DNSOneAddrs: []string{dnsAddr}})
	if err != nil {
		t.Fatal(err)
	}
	dns.SetDefaultDNSIPv4("127.0.0.1")
	dns.SetDefaultDNSIPv6("")
	go dns.Run()
	t.Cleanup(dns.Shutdown)
	database := db.NewMemoryStore()
	authority := ca.New(logger, database, "", 0, 1, map[string]ca.Profile{"default": {Description: "the default"}})
	frontend := wfe.New(logger, database, va.New(logger, plain, secure, true, dnsAddr, database), authority, true, false,
		1, 1)
	handler := frontend.Handler()
	roots := x509.NewCertPool()
	roots.AddCert(authority.GetRootCert(0).Cert)
	a.roots.Store(roots)
	rootPEM := authority.GetRootCert(0).PEM()
	a.rootPEM.Store(&rootPEM)
	a.handler.Store(&handler)
}

// makeDeterministic makes Pebble deterministic for the rest of the process. By default, Pebble delays validations,
// refuses some valid nonces, and reuses some authorizations, all at random. t.Setenv would set the variables too, but
// not in parallel tests.
var makeDeterministic = sync.OnceFunc(func() {
	for name, value := range map[string]string{
		"PEBBLE_VA_NOSLEEP": "1", "PEBBLE_WFE_NONCEREJECT": "0",
		"PEBBLE_AUTHZREUSE": "0",
	} {
		if os.Getenv(name) == "" {
			_ = os.Setenv(name, value)
		}
	}
})

// Roots returns the root certificates of the authority. Call Roots after ValidateAt.
func (a *Authority) Roots() *x509.CertPool { return a.roots.Load() }

// RootsPEM returns the root certificates of the authority in PEM, for processes that read them from a file.
func (a *Authority) RootsPEM() []byte { return *a.rootPEM.Load() }
