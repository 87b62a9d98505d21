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

	"github.com/gatewright/gatewright/shared/pki/pkitest"
)

func TestCertificateIsCheckedBeforeItIsKept(t *testing.T) {
	now := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	authority := pkitest.CA(t, "authority", now)
	of := func(names ...string) pkitest.Cert {
		return authority.Client(t, names[0], now, func(c *pkitest.Template) {
			c.ExtKeyUsage, c.DNSNames = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, names
		})
	}
	good, other := of("relay.example.com"), of("relay.example.com")
	wild, one := of("*.apis.example.com"), of("one.apis.example.com")
	many := []string{"relay.example.com"}
	for n := range 200 {
		many = append(many, fmt.Sprintf("one-of-the-many-names-%d.example.com", n))
	}
	long := of(many...)
	for _, tt := range []struct {
		name, domain, chain, key string
		now                      time.Time
		want                     []string
	}{
		{"good", "relay.example.com", good.PEM(), good.KeyPEM(t), now, nil},
		{"of all names below a domain", "*.apis.example.com", wild.PEM(), wild.KeyPEM(t), now, nil},
		{"of one name of them", "*.apis.example.com", one.PEM(), one.KeyPEM(t), now, []string{"chain.pem: "}},
		{"another name's", "other.example.com", good.PEM(), good.KeyPEM(t), now, []string{"chain.pem: "}},
		{"expired", "relay.example.com", good.PEM(), good.KeyPEM(t), now.AddDate(10, 0, 0), []string{"chain.pem: "}},
		{"another key", "relay.example.com", good.PEM(), other.KeyPEM(t), now, []string{"key.pem: "}},
		{"both wrong", "relay.example.com", "a-secret", "a-secret", now, []string{"chain.pem: ", "key.pem: "}},
		{"too long", "relay.example.com", long.PEM(), long.KeyPEM(t), now, []string{"Parameter Store takes 8192"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			folder := t.TempDir()
			for name, text := range map[string]string{"chain.pem": tt.chain, "key.pem": tt.key} {
				if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			text, err := checked(tt.domain, filepath.Join(folder, "chain.pem"), filepath.Join(folder, "key.pem"), tt.now)
			if tt.want == nil {
				// As the relay reads it: each takes the blocks that it is for.
				if _, asRead := tls.X509KeyPair([]byte(text), []byte(text)); err != nil || asRead != nil {
					t.Errorf("error %v, and as it is read %v", err, asRead)
				}
				return
			}
			for _, want := range tt.want {
				if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "a-secret") || text != "" {
					t.Errorf("text %q, error %v, want %s", text, err, want)
				}
			}
		})
	}
}
