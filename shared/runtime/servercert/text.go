package servercert

import (
	"context"
	"crypto/tls"
	"fmt"

	"github.com/gatewright/gatewright/shared/base/handshake"
)

// Text is a certificate in a setting, for all names. It stays the same until the process ends. It is safe for
// concurrent use.
type Text struct {
	names       Names
	certificate *tls.Certificate
}

var _ handshake.Source = (*Text)(nil)

// OpenText reads a certificate chain and its private key, both as PEM, from value. variable is the name of the
// environment variable that has this value. The certificate must be valid for all of hosts. The error names the
// variable, and does not repeat its value.
func OpenText(variable, value string, names Names, hosts ...string) (*Text, error) {
	pair, err := tls.X509KeyPair([]byte(value), []byte(value)) // each argument uses only its kind of blocks
	if err != nil {
		// The error does not contain the cause, which may repeat the value: the value is a secret.
		return nil, fmt.Errorf("%s has no certificate chain with its private key, both as PEM", variable)
	}
	if err := checkHosts(variable, pair.Leaf, hosts); err != nil {
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
