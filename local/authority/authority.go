// Package authority is the local run's own CA: it signs certificates for the names
// under which deployments are served on this machine, so that TLS works here as it
// does elsewhere, for who has been told to trust it.
//
// Its key lies in the data directory, for its owner alone. Its certificate limits it
// to one domain (RFC 5280, section 4.2.1.10), localhost as a rule: whoever gets the
// key can pretend to be nobody else to a client that trusts the CA.
//
// What it is not: for the Internet, whose clients do not know it. This file is all of it.
package authority

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/gatewright/gatewright/local/datadir"
	"github.com/gatewright/gatewright/shared/bounded"
	"github.com/gatewright/gatewright/shared/handshake"
)

// The CA's files in a data directory: its certificate, for clients to trust, and the
// certificate with the key.
const (
	Name    = "local-ca.pem"
	keyName = "local-ca.key"
)

const (
	// life is how long the CA is valid: its clients were told of it by hand.
	life = 10 * 365 * 24 * time.Hour
	// leafLife is how long a name's certificate is, and renewBefore when another is made.
	leafLife    = 30 * 24 * time.Hour
	renewBefore = 10 * 24 * time.Hour
	// backdated is for clients whose clocks are late.
	backdated = time.Hour
	// maxLeaves is how many certificates are kept, some 2 KB each. Making one is two
	// signatures.
	maxLeaves = 1024
)

// Files are where the CA lies: a datadir.Dir.
type Files interface {
	Read(name string) ([]byte, error)
	Write(name string, content []byte) error
}

var _ Files = (*datadir.Dir)(nil)

// Authority signs certificates for names. It is safe for concurrent use.
type Authority struct {
	certificate *x509.Certificate
	key         crypto.Signer
	owns        func(name string) bool
	now         func() time.Time
	flights     singleflight.Group

	mu     sync.Mutex
	leaves map[string]*tls.Certificate
}

var _ handshake.Source = (*Authority)(nil)

// Open reads the CA, and makes one where there is none or it ends soon. domain is what
// it is limited to; owns says which names it has certificates for.
func Open(files Files, domain string, owns func(name string) bool, now func() time.Time) (*Authority, error) {
	a := &Authority{owns: owns, now: now, leaves: map[string]*tls.Certificate{}}
	content, err := files.Read(keyName)
	if err == nil {
		if err = a.read(content); err != nil {
			return nil, fmt.Errorf("%s is damaged (%w): remove it, and another CA is made, which clients have to be told of", keyName, err)
		}
		if now().Add(leafLife).Before(a.certificate.NotAfter) {
			return a, a.publish(files)
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if content, err = a.make(domain); err != nil {
		return nil, fmt.Errorf("make a local CA: %w", err)
	}
	// The key first: what clients trust is never without it.
	if err := files.Write(keyName, content); err != nil {
		return nil, err
	}
	return a, a.publish(files)
}

// publish writes what clients trust, unless it is there.
func (a *Authority) publish(files Files) error {
	content := encode("CERTIFICATE", a.certificate.Raw)
	switch before, err := files.Read(Name); {
	case err == nil && bytes.Equal(before, content):
		return nil
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	}
	return files.Write(Name, content)
}

func (a *Authority) read(content []byte) error {
	pair, err := tls.X509KeyPair(content, content)
	if err != nil {
		return err
	}
	key, ok := pair.PrivateKey.(crypto.Signer)
	if !ok {
		return errors.New("its key signs nothing")
	}
	a.certificate, a.key = pair.Leaf, key
	return nil
}

// make makes the CA, and gives what is stored of it.
func (a *Authority) make(domain string) ([]byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	now := a.now()
	template := &x509.Certificate{
		Subject:   pkix.Name{CommonName: "Gatewright on this machine", Organization: []string{"Gatewright"}},
		NotBefore: now.Add(-backdated), NotAfter: now.Add(life),
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true,
		KeyUsage:                    x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
		PermittedDNSDomainsCritical: true, PermittedDNSDomains: []string{domain},
	}
	if a.certificate, err = sign(template, template, key.Public(), key); err != nil {
		return nil, err
	}
	a.key = key
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return append(encode("CERTIFICATE", a.certificate.Raw), encode("PRIVATE KEY", der)...), nil
}

func sign(template, parent *x509.Certificate, public crypto.PublicKey, key crypto.Signer) (*x509.Certificate, error) {
	const serialBits = 120 // positive, and within 20 bytes
	var err error
	if template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), serialBits)); err != nil {
		return nil, err
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, public, key)
	if err != nil {
		return nil, err
	}
	return x509.ParseCertificate(der)
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

// Owns implements handshake.Source.
func (a *Authority) Owns(name string) bool { return a.owns(name) }

// Certificate implements handshake.Source: it makes the certificate of a name that has
// none.
func (a *Authority) Certificate(_ context.Context, name string) (*tls.Certificate, error) {
	if leaf := a.find(name); leaf != nil {
		return leaf, nil
	}
	made, err, _ := a.flights.Do(name, func() (any, error) {
		if leaf := a.find(name); leaf != nil {
			return leaf, nil
		}
		leaf, err := a.leaf(name)
		if err != nil {
			return nil, fmt.Errorf("make a certificate: %w", err)
		}
		a.keep(name, leaf)
		return leaf, nil
	})
	leaf, _ := made.(*tls.Certificate)
	return leaf, err
}

func (a *Authority) find(name string) *tls.Certificate {
	a.mu.Lock()
	defer a.mu.Unlock()
	leaf := a.leaves[name]
	if leaf == nil || a.now().Add(renewBefore).After(leaf.Leaf.NotAfter) {
		return nil
	}
	return leaf
}

func (a *Authority) keep(name string, leaf *tls.Certificate) {
	a.mu.Lock()
	defer a.mu.Unlock()
	bounded.Put(a.leaves, name, leaf, maxLeaves) // names come from anyone
}

func (a *Authority) leaf(name string) (*tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	now := a.now()
	made, err := sign(&x509.Certificate{
		Subject:   pkix.Name{Organization: []string{"Gatewright"}},
		NotBefore: now.Add(-backdated), NotAfter: now.Add(leafLife),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames: []string{name},
	}, a.certificate, key.Public(), a.key)
	if err != nil {
		return nil, err
	}
	return &tls.Certificate{Certificate: [][]byte{made.Raw}, PrivateKey: key, Leaf: made}, nil
}
