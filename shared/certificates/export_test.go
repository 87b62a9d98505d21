package certificates

import (
	"crypto/x509"
	"encoding/pem"
	"time"

	"github.com/gatewright/gatewright/shared/pki"
)

// Trustable reports whether an account may have the CA.
func Trustable(c *x509.Certificate, now time.Time) bool {
	_, wrong := pki.ReadCA(string(pem.EncodeToMemory(&pem.Block{Type: pki.CertificateBlock, Bytes: c.Raw})), now)
	return wrong == ""
}

// Judge verifies a chain by these CAs.
func Judge(cas, chain []*x509.Certificate, now time.Time) bool {
	p := &pool{verdicts: map[chainHash]verdict{}}
	for _, c := range cas {
		p.add(c)
	}
	return p.roots != nil && p.judge(chain, now).trusted
}

// Vouched counts the intermediates that these CAs vouch for, and the signatures that
// could be tried still.
func Vouched(cas, chain []*x509.Certificate) (count, left int) {
	var p pool
	for _, c := range cas {
		p.add(c)
	}
	out, left := p.vouched(chain)
	return len(out), left
}
