package owncert

import (
	"context"
	"crypto/tls"
	"fmt"

	"github.com/gatewright/gatewright/shared/handshake"
)

// Text is a certificate that a setting has, for as long as the process lives, which is for all names. It
// is safe for concurrent use.
type Text struct {
	names       Names
	certificate *tls.Certificate
}

var _ handshake.Source = (*Text)(nil)

// OpenText reads a certificate chain and its private key, both as PEM, which is the value of the named variable and
// has to be for all of hosts. Its error names the variable, and has nothing of the value.
func OpenText(variable, value string, names Names, hosts ...string) (*Text, error) {
	pair, err := tls.X509KeyPair([]byte(value), []byte(value)) // each takes the blocks that it is for
	if err != nil {
		// Not why: what cannot be read is a secret.
		return nil, fmt.Errorf("%s has no certificate chain with its private key, both as PEM", variable)
	}
	if err := covers(variable, pair.Leaf, hosts); err != nil {
		return nil, err
	}
	return &Text{names: names, certificate: &pair}, nil
}

// Owns implements handshake.Source.
func (t *Text) Owns(name string) bool { return t.names.Owns(name) }

// Certificate implements handshake.Source.
func (t *Text) Certificate(context.Context, string) (*tls.Certificate, error) {
	return t.certificate, nil
}
