package authority_test

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"time"

	"github.com/gatewright/gatewright/local/authority"
)

// files stores files in memory.
type files map[string][]byte

func (f files) Read(name string) ([]byte, error) {
	content, ok := f[name]
	if !ok {
		return nil, fmt.Errorf("read %s: %w", name, fs.ErrNotExist)
	}
	return content, nil
}

func (f files) Write(name string, content []byte) error {
	f[name] = content
	return nil
}

func openCA(t *testing.T, f files, now *time.Time) *authority.Authority {
	t.Helper()
	a, err := authority.Open(f, "localhost", func(name string) bool {
		return strings.HasSuffix(name, ".localhost")
	}, func() time.Time { return *now })
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func roots(f files) *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(f[authority.Name])
	return pool
}

func TestCertificatesAreSignedByTheCA(t *testing.T) {
	f, now := files{}, time.Now()
	a := openCA(t, f, &now)
	leaf, err := a.Certificate(t.Context(), "shop-main-1234567.localhost")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := leaf.Leaf.Verify(x509.VerifyOptions{
		Roots:   roots(f),
		DNSName: "shop-main-1234567.localhost",
	}); err != nil {
		t.Errorf("Verify(shop-main-1234567.localhost) error = %v, want none", err)
	}
	if second, err := a.Certificate(t.Context(), "shop-main-1234567.localhost"); err != nil || second != leaf {
		t.Errorf("second Certificate() = %p, %v, want the cached %p", second, err, leaf)
	}
	now = now.Add(25 * 24 * time.Hour)
	if renewed, err := a.Certificate(t.Context(), "shop-main-1234567.localhost"); err != nil || renewed == leaf {
		t.Errorf("Certificate() after 25 days = %p, %v, want another than %p", renewed, err, leaf)
	}
	// Clients must not trust the CA's certificates for another domain.
	foreign, err := a.Certificate(t.Context(), "www.example.com")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := foreign.Leaf.Verify(x509.VerifyOptions{Roots: roots(f), DNSName: "www.example.com"}); err == nil {
		t.Error("Verify(www.example.com) = nil, want an error, since the CA is limited to its domain")
	}
	if !a.Owns("x.localhost") || a.Owns("x.example.com") {
		t.Errorf("Owns() = %v for x.localhost, %v for x.example.com, want true, false", a.Owns("x.localhost"),
			a.Owns("x.example.com"))
	}
}

func TestCAIsKeptAndItsKeyIsNotPublished(t *testing.T) {
	f, now := files{}, time.Now()
	openCA(t, f, &now)
	published := string(f[authority.Name])
	for name := range f {
		if name == authority.Name && strings.Contains(string(f[name]), "KEY") {
			t.Errorf("%s contains a private key, want the certificate only", name)
		}
	}
	delete(f, authority.Name) // as after a kill between the writes of the two files
	openCA(t, f, &now)
	if string(f[authority.Name]) != published {
		t.Error("the restored certificate of the CA differs, want the same")
	}
	block, _ := pem.Decode(f[authority.Name])
	ca, err := x509.ParseCertificate(block.Bytes)
	if err != nil || !ca.IsCA || !ca.PermittedDNSDomainsCritical {
		t.Errorf("ParseCertificate() = %+v, %v, want a CA with a critical constraint of names", ca, err)
	}
	now = ca.NotAfter.Add(-24 * time.Hour)
	openCA(t, f, &now)
	if string(f[authority.Name]) == published {
		t.Error("a CA that expires tomorrow is kept, want another")
	}
	f["local-ca.key"] = []byte("damaged")
	if _, err := authority.Open(f, "localhost", func(string) bool {
		return true
	}, time.Now); err == nil || !strings.Contains(err.Error(), "remove it") {
		t.Errorf("Open(damaged key) error = %v, want one with \"remove it\"", err)
	}
}
