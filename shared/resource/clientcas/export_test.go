package clientcas

import (
	"crypto/x509"
	"encoding/pem"
	"time"

	"github.com/gatewright/gatewright/shared/base/pki"
)

// Trustable reports whether an account can upload the CA.
func Trustable(c *x509.Certificate, now time.Time) bool {
	_, problem := pki.ReadCA(string(pem.EncodeToMemory(&pem.Block{Type: pki.CertificateBlock, Bytes: c.Raw})), now)
	return problem == ""
}

// IsTrusted reports whether a chain is trusted with these CAs.
func IsTrusted(cas, chain []*x509.Certificate, now time.Time) bool {
	p := &pool{verdicts: map[chainHash]verdict{}}
	for _, c := range cas {
		p.add(c)
	}
	return p.roots != nil && p.verify(chain, now).trusted
}

// CountTrustedIntermediates returns the number of intermediates that are trusted with these CAs, and the number of
// signatures that may still be verified.
func CountTrustedIntermediates(cas, chain []*x509.Certificate) (count, remaining int) {
	var p pool
	for _, c := range cas {
		p.add(c)
	}
	out, remaining := p.trustedIntermediates(chain)
	return len(out), remaining
}
