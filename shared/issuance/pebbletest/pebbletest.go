// Package pebbletest runs a certificate authority that speaks ACME in a test: Pebble, the
// authority that Let's Encrypt has for tests, with a DNS in which every name is this machine.
//
// What it is not: an authority that misbehaves; tests of one write it themselves. This file is
// all of it.
package pebbletest

import (
	"crypto/x509"
	"encoding/pem"
	"io"
	"log" //nolint:depguard // which Pebble takes
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
	// Directory is the address of its ACME directory.
	Directory string
	// Client trusts the certificate of that address, Certificate is it in PEM.
	Client      *http.Client
	Certificate []byte

	front atomic.Pointer[http.Handler]
	roots atomic.Pointer[x509.CertPool]
	root  atomic.Pointer[[]byte]
}

// Start starts an authority, which answers from LookAt on.
func Start(t testing.TB) *Authority {
	t.Helper()
	a := &Authority{}
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		front := a.front.Load()
		if front == nil {
			http.Error(w, "LookAt was not called", http.StatusServiceUnavailable)
			return
		}
		(*front).ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	a.Directory, a.Client = server.URL+wfe.DirectoryPath, server.Client()
	a.Certificate = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	return a
}

// LookAt has it look at hostnames at these ports of this machine, instead of at 80 and 443. Called
// again, it is a new authority, with other roots, that knows nothing of before.
func (a *Authority) LookAt(t *testing.T, plain, secure int) {
	t.Helper()
	certain()
	quiet := log.New(io.Discard, "", 0)
	free, err := new(net.ListenConfig).ListenPacket(t.Context(), "udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	names := free.LocalAddr().String()
	_ = free.Close()
	dns, err := challtestsrv.New(challtestsrv.Config{Log: quiet, DNSOneAddrs: []string{names}})
	if err != nil {
		t.Fatal(err)
	}
	dns.SetDefaultDNSIPv4("127.0.0.1")
	dns.SetDefaultDNSIPv6("")
	go dns.Run()
	t.Cleanup(dns.Shutdown)
	kept := db.NewMemoryStore()
	signing := ca.New(quiet, kept, "", 0, 1, map[string]ca.Profile{"default": {Description: "the default"}})
	front := wfe.New(quiet, kept, va.New(quiet, plain, secure, true, names, kept), signing, true, false, 1, 1)
	handler := front.Handler()
	roots := x509.NewCertPool()
	roots.AddCert(signing.GetRootCert(0).Cert)
	a.roots.Store(roots)
	text := signing.GetRootCert(0).PEM()
	a.root.Store(&text)
	a.front.Store(&handler)
}

// certain leaves nothing to chance for the rest of the process: by itself Pebble waits, refuses good nonces, and
// takes proofs again. t.Setenv would keep tests from being parallel, which mostly wait.
var certain = sync.OnceFunc(func() {
	for name, value := range map[string]string{"PEBBLE_VA_NOSLEEP": "1", "PEBBLE_WFE_NONCEREJECT": "0", "PEBBLE_AUTHZREUSE": "0"} {
		if os.Getenv(name) == "" {
			_ = os.Setenv(name, value)
		}
	}
})

// Roots are what trusts the certificates that it issues, from LookAt on.
func (a *Authority) Roots() *x509.CertPool { return a.roots.Load() }

// RootsPEM are Roots as PEM, for processes that read them from a file.
func (a *Authority) RootsPEM() []byte { return *a.root.Load() }
