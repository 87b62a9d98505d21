package clientcas_test

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/gatewright/gatewright/shared/base/pki"
	"github.com/gatewright/gatewright/shared/resource/clientcas"
)

// caGenerator draws CAs that have signed each other, most of them correctly, and a client below one of them. Names and
// keys are few, so that they collide: two CAs with one name, one with two names, cycles, cross-signatures.
type caGenerator struct {
	*rapid.T
	keys []crypto.Signer
	now  time.Time
	cas  []issuedCert
}

// issuedCert is a certificate with its private key.
type issuedCert struct {
	*x509.Certificate
	key crypto.Signer
}

// chance returns true in this percentage of the draws.
func (g *caGenerator) chance(percent int, label string) bool {
	return rapid.IntRange(0, 99).Draw(g.T, label) >= 100-percent
}

// key draws one of the keys.
func (g *caGenerator) key() crypto.Signer {
	return g.keys[rapid.IntRange(0, len(g.keys)-1).Draw(g.T, "key")]
}

// issue draws a certificate of a CA or a client, which an earlier CA or its own key has signed.
func (g *caGenerator) issue(name string, ca bool) issuedCert {
	day := 24 * time.Hour
	template := &x509.Certificate{
		SerialNumber: big.NewInt(int64(len(g.cas) + 2)), Subject: pkix.Name{CommonName: name},
		NotBefore: g.now.Add(-day), NotAfter: g.now.Add(day), BasicConstraintsValid: true, IsCA: ca,
		KeyUsage: x509.KeyUsageDigitalSignature, DNSNames: []string{"client.acme.example"},
	}
	if ca {
		template.KeyUsage, template.DNSNames = x509.KeyUsageCertSign, nil
	}
	if g.chance(5, "expired") {
		template.NotAfter = g.now.Add(-time.Hour)
	}
	if g.chance(5, "not valid yet") {
		template.NotBefore = g.now.Add(time.Hour)
	}
	if g.chance(5, "no CA") {
		template.IsCA = false
	}
	if g.chance(10, "path length") && template.IsCA {
		template.MaxPathLen = rapid.IntRange(0, 1).Draw(g.T, "length")
		template.MaxPathLenZero = true
	}
	if g.chance(30, "extended use") {
		template.ExtKeyUsage = []x509.ExtKeyUsage{rapid.SampledFrom([]x509.ExtKeyUsage{
			x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageAny,
		}).Draw(g.T, "which extended use")}
	}
	if g.chance(5, "another use") {
		template.KeyUsage = x509.KeyUsageKeyEncipherment
	}
	if g.chance(10, "constraint") && ca {
		template.PermittedDNSDomainsCritical = true
		template.PermittedDNSDomains = []string{rapid.SampledFrom([]string{"acme.example", "other.example"}).Draw(g.T,
			"domain")}
	}
	key := g.key()
	signer := issuedCert{template, key}
	if len(g.cas) > 0 && !g.chance(20, "self-signed") {
		signer = g.cas[rapid.IntRange(0, len(g.cas)-1).Draw(g.T, "signer")]
	}
	if g.chance(5, "with a wrong key") {
		signer.key = g.key()
	}
	// x509.CreateCertificate returns an error if the signer's key does not match the certificate of the parent, so clear the key.
	parent := *signer.Certificate
	parent.PublicKey = nil
	der, err := x509.CreateCertificate(rand.Reader, template, &parent, key.Public(), signer.key)
	if err != nil {
		g.Fatalf("CreateCertificate(%s) error = %v, want none", name, err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		g.Fatalf("ParseCertificate(%s) error = %v, want none", name, err)
	}
	return issuedCert{cert, key}
}

// TestVerdictsMatchX509 compares verdicts with those of crypto/x509 for the chains that clients send. The test applies
// two additional rules of the package. An intermediate with the name of a known CA is ignored, unless it is signed by a
// certificate with the same name. The certificate of a client must allow signatures (pki.CanSign).
func TestVerdictsMatchX509(t *testing.T) {
	fx := newFixture(t)
	var keys []crypto.Signer
	for range 4 {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, key)
	}
	verdicts := map[bool]int{}
	rapid.Check(t, func(rt *rapid.T) {
		g := &caGenerator{T: rt, keys: keys, now: fx.now}
		for range rapid.IntRange(1, 8).Draw(rt, "CAs") {
			g.cas = append(g.cas, g.issue(fmt.Sprint("CA ", rapid.IntRange(0, 3).Draw(rt, "name")), true))
		}
		client := g.issue("client", false)
		var roots, sent []*x509.Certificate
		for _, ca := range g.cas {
			if g.chance(30, "known") && clientcas.Trustable(ca.Certificate, fx.now) {
				roots = append(roots, ca.Certificate)
			}
			if g.chance(80, "sent") {
				sent = append(sent, ca.Certificate)
			}
		}
		for i := range sent {
			k := rapid.IntRange(0, i).Draw(rt, "swap with")
			sent[i], sent[k] = sent[k], sent[i]
		}
		if g.chance(10, "a CA for a client") && len(sent) > 0 {
			client.Certificate = sent[0]
		}
		options := x509.VerifyOptions{
			Roots: x509.NewCertPool(), Intermediates: x509.NewCertPool(), CurrentTime: fx.now,
			KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		}
		for _, c := range roots {
			options.Roots.AddCert(c)
		}
		for _, c := range sent {
			nameInUse := slices.ContainsFunc(roots, func(r *x509.Certificate) bool {
				return pki.Name(r.RawSubject) == pki.Name(c.RawSubject)
			})
			if !nameInUse || bytes.Equal(c.RawSubject, c.RawIssuer) {
				options.Intermediates.AddCert(c)
			}
		}
		_, err := client.Verify(options)
		want := err == nil && pki.CanSign(client.Certificate)
		verdicts[want]++
		if got := clientcas.IsTrusted(roots, append([]*x509.Certificate{client.Certificate}, sent...),
			fx.now); got != want {
			rt.Errorf("IsTrusted() = %v, want %v (x509: %v)", got, want, err)
		}
	})
	if verdicts[true] == 0 || verdicts[false] == 0 {
		t.Errorf("verdicts = %v, want some trusted and some untrusted", verdicts)
	}
	t.Log(verdicts)
}
