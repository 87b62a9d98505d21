package main

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/base/pki"
	"github.com/gatewright/gatewright/shared/base/pki/pkitest"
)

// TestReadBundleValidatesCertificates checks that readBundle returns the chain and the key of a valid certificate. The
// error for an invalid one names the file with the problem, and does not contain the content of the files.
func TestReadBundleValidatesCertificates(t *testing.T) {
	now := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	authority := pkitest.CA(t, "authority", now)
	newCert := func(names ...string) pkitest.Cert {
		return authority.Client(t, names[0], now, func(c *pkitest.Template) {
			c.ExtKeyUsage, c.DNSNames = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, names
		})
	}
	valid, otherKey := newCert("relay.example.com"), newCert("relay.example.com")
	wildcard, single := newCert("*.apis.example.com"), newCert("one.apis.example.com")
	manyNames := []string{"relay.example.com"}
	for n := range 200 {
		manyNames = append(manyNames, fmt.Sprintf("one-of-the-many-names-%d.example.com", n))
	}
	tooLong := newCert(manyNames...)
	for _, tt := range []struct {
		name, domain, chain, key string
		now                      time.Time
		want                     []string
	}{
		{"valid", "relay.example.com", valid.PEM(), valid.KeyPEM(t), now, nil},
		{"wildcard", "*.apis.example.com", wildcard.PEM(), wildcard.KeyPEM(t), now, nil},
		{
			"certificate for one name, wildcard domain", "*.apis.example.com", single.PEM(), single.KeyPEM(t), now,
			[]string{"chain.pem: "},
		},
		{"certificate for another domain", "other.example.com", valid.PEM(), valid.KeyPEM(t), now, []string{"chain.pem: "}},
		{"expired", "relay.example.com", valid.PEM(), valid.KeyPEM(t), now.AddDate(10, 0, 0), []string{"chain.pem: "}},
		{"key of another certificate", "relay.example.com", valid.PEM(), otherKey.KeyPEM(t), now, []string{"key.pem: "}},
		{"neither file is PEM", "relay.example.com", "a-secret", "a-secret", now, []string{"chain.pem: ", "key.pem: "}},
		{
			"chain larger than any certificate authority needs", "relay.example.com",
			valid.PEM() + strings.Repeat("\n", pki.MaxChainBytes), valid.KeyPEM(t), now,
			[]string{"has more than 65536 bytes"},
		},
		{"too long", "relay.example.com", tooLong.PEM(), tooLong.KeyPEM(t), now, []string{"Parameter Store takes 8192"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			folder := t.TempDir()
			for name, text := range map[string]string{"chain.pem": tt.chain, "key.pem": tt.key} {
				if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			text, err := readBundle(tt.domain, filepath.Join(folder, "chain.pem"), filepath.Join(folder, "key.pem"), tt.now)
			if tt.want == nil {
				// A service parses this text twice, too: as the chain and as the key.
				if _, parseErr := tls.X509KeyPair([]byte(text), []byte(text)); err != nil || parseErr != nil {
					t.Errorf("readBundle() error = %v, X509KeyPair() error = %v, want none", err, parseErr)
				}
				return
			}
			for _, want := range tt.want {
				if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "a-secret") || text != "" {
					t.Errorf("readBundle() = %q, %v, "+
						"want no text, and an error with %q and without the content of the files", text, err, want)
				}
			}
		})
	}
}
