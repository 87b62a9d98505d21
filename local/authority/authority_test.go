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

// files are kept in memory.
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

func open(t *testing.T, f files, now *time.Time) *authority.Authority {
	t.Helper()
	a, err := authority.Open(f, "localhost", func(name string) bool { return strings.HasSuffix(name, ".localhost") }, func() time.Time { return *now })
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

func TestNamesHaveCertificatesOfTheCA(t *testing.T) {
	f, now := files{}, time.Now()
	a := open(t, f, &now)
	leaf, err := a.Certificate(t.Context(), "shop-main-1234567.localhost")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := leaf.Leaf.Verify(x509.VerifyOptions{Roots: roots(f), DNSName: "shop-main-1234567.localhost"}); err != nil {
		t.Error(err)
	}
	if again, err := a.Certificate(t.Context(), "shop-main-1234567.localhost"); err != nil || again != leaf {
		t.Error("it is made anew for each handshake")
	}
	now = now.Add(25 * 24 * time.Hour)
	if later, err := a.Certificate(t.Context(), "shop-main-1234567.localhost"); err != nil || later == leaf {
		t.Error("it ends before there is another")
	}
	// Whatever it signs, clients believe it of one domain alone.
	foreign, err := a.Certificate(t.Context(), "www.example.com")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := foreign.Leaf.Verify(x509.VerifyOptions{Roots: roots(f), DNSName: "www.example.com"}); err == nil {
		t.Error("the CA speaks for the world")
	}
	if !a.Owns("x.localhost") || a.Owns("x.example.com") {
		t.Error("it owns other names")
	}
}

func TestCAStaysAndItsKeyIsNotPublished(t *testing.T) {
	f, now := files{}, time.Now()
	open(t, f, &now)
	published := string(f[authority.Name])
	for name := range f {
		if name == authority.Name && strings.Contains(string(f[name]), "KEY") {
			t.Error("the key lies where clients read")
		}
	}
	delete(f, authority.Name) // as after a kill between the two files
	open(t, f, &now)
	if string(f[authority.Name]) != published {
		t.Error("another CA")
	}
	block, _ := pem.Decode(f[authority.Name])
	ca, err := x509.ParseCertificate(block.Bytes)
	if err != nil || !ca.IsCA || !ca.PermittedDNSDomainsCritical {
		t.Errorf("%+v, %v", ca, err)
	}
	now = ca.NotAfter.Add(-24 * time.Hour)
	open(t, f, &now)
	if string(f[authority.Name]) == published {
		t.Error("a CA that ends tomorrow stays")
	}
	f["local-ca.key"] = []byte("damaged")
	if _, err := authority.Open(f, "localhost", func(string) bool { return true }, time.Now); err == nil || !strings.Contains(err.Error(), "remove it") {
		t.Errorf("a damaged one: %v", err)
	}
}
