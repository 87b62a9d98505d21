package certificates_test

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

	"github.com/gatewright/gatewright/shared/certificates"
	"github.com/gatewright/gatewright/shared/pki"
)

// forest draws CAs that have signed each other, mostly as they should, and a client
// below one of them. Names and keys are few, so that they meet: two CAs of one name,
// one of two names, circles, cross-signatures.
type forest struct {
	*rapid.T
	keys []crypto.Signer
	now  time.Time
	cas  []issued
}

type issued struct {
	*x509.Certificate
	key crypto.Signer
}

func (f *forest) chance(percent int, what string) bool {
	return rapid.IntRange(0, 99).Draw(f.T, what) >= 100-percent
}

func (f *forest) key() crypto.Signer {
	return f.keys[rapid.IntRange(0, len(f.keys)-1).Draw(f.T, "key")]
}

func (f *forest) issue(name string, ca bool) issued {
	day := 24 * time.Hour
	template := &x509.Certificate{
		SerialNumber: big.NewInt(int64(len(f.cas) + 2)), Subject: pkix.Name{CommonName: name},
		NotBefore: f.now.Add(-day), NotAfter: f.now.Add(day), BasicConstraintsValid: true, IsCA: ca,
		KeyUsage: x509.KeyUsageDigitalSignature, DNSNames: []string{"client.acme.example"},
	}
	if ca {
		template.KeyUsage, template.DNSNames = x509.KeyUsageCertSign, nil
	}
	if f.chance(5, "expired") {
		template.NotAfter = f.now.Add(-time.Hour)
	}
	if f.chance(5, "not valid yet") {
		template.NotBefore = f.now.Add(time.Hour)
	}
	if f.chance(5, "no CA") {
		template.IsCA = false
	}
	if f.chance(10, "path length") && template.IsCA {
		template.MaxPathLen = rapid.IntRange(0, 1).Draw(f.T, "length")
		template.MaxPathLenZero = true
	}
	if f.chance(30, "extended use") {
		template.ExtKeyUsage = []x509.ExtKeyUsage{rapid.SampledFrom([]x509.ExtKeyUsage{
			x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageAny,
		}).Draw(f.T, "for")}
	}
	if f.chance(5, "another use") {
		template.KeyUsage = x509.KeyUsageKeyEncipherment
	}
	if f.chance(10, "constraint") && ca {
		template.PermittedDNSDomainsCritical = true
		template.PermittedDNSDomains = []string{rapid.SampledFrom([]string{"acme.example", "other.example"}).Draw(f.T, "domain")}
	}
	key := f.key()
	by := issued{template, key}
	if len(f.cas) > 0 && !f.chance(20, "by itself") {
		by = f.cas[rapid.IntRange(0, len(f.cas)-1).Draw(f.T, "signer")]
	}
	if f.chance(5, "with a wrong key") {
		by.key = f.key()
	}
	// x509 looks whether the signer's key is its certificate's.
	parent := *by.Certificate
	parent.PublicKey = nil
	der, err := x509.CreateCertificate(rand.Reader, template, &parent, key.Public(), by.key)
	if err != nil {
		f.Fatal(err)
	}
	made, err := x509.ParseCertificate(der)
	if err != nil {
		f.Fatal(err)
	}
	return issued{made, key}
}

// TestVerdictsAreThoseOfX509 compares with what crypto/x509 finds when it is given all
// that a client has sent. The two rules that are ours stand below.
func TestVerdictsAreThoseOfX509(t *testing.T) {
	w := newWorld(t)
	var keys []crypto.Signer
	for range 4 {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, key)
	}
	seen := map[bool]int{}
	rapid.Check(t, func(rt *rapid.T) {
		f := &forest{T: rt, keys: keys, now: w.now}
		for range rapid.IntRange(1, 8).Draw(rt, "CAs") {
			f.cas = append(f.cas, f.issue(fmt.Sprint("CA ", rapid.IntRange(0, 3).Draw(rt, "name")), true))
		}
		client := f.issue("client", false)
		var roots, sent []*x509.Certificate
		for _, ca := range f.cas {
			if f.chance(30, "known") && certificates.Trustable(ca.Certificate, w.now) {
				roots = append(roots, ca.Certificate)
			}
			if f.chance(80, "sent") {
				sent = append(sent, ca.Certificate)
			}
		}
		for i := range sent {
			k := rapid.IntRange(0, i).Draw(rt, "place")
			sent[i], sent[k] = sent[k], sent[i]
		}
		if f.chance(10, "a CA for a client") && len(sent) > 0 {
			client.Certificate = sent[0]
		}
		options := x509.VerifyOptions{
			Roots: x509.NewCertPool(), Intermediates: x509.NewCertPool(), CurrentTime: w.now,
			KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		}
		for _, c := range roots {
			options.Roots.AddCert(c)
		}
		for _, c := range sent {
			taken := slices.ContainsFunc(roots, func(r *x509.Certificate) bool { return pki.Name(r.RawSubject) == pki.Name(c.RawSubject) })
			if !taken || bytes.Equal(c.RawSubject, c.RawIssuer) {
				options.Intermediates.AddCert(c)
			}
		}
		_, err := client.Verify(options)
		want := err == nil && pki.MaySign(client.Certificate)
		seen[want]++
		if got := certificates.Judge(roots, append([]*x509.Certificate{client.Certificate}, sent...), w.now); got != want {
			rt.Errorf("trusted %v, and x509 says %v", got, err)
		}
	})
	if seen[true] == 0 || seen[false] == 0 {
		t.Errorf("it has seen %v", seen)
	}
	t.Log(seen)
}
