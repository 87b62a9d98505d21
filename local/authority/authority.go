// Package authority is the local run's own CA. It signs certificates for the names
// of deployments on this machine, so that clients that trust the CA can use TLS.
//
// The key of the CA is in the data directory, readable only by the owner. The CA's certificate permits names in only
// one domain, usually localhost (RFC 5280, section 4.2.1.10). So somebody who steals the key cannot impersonate another
// domain to a client that trusts the CA.
//
// The CA is not for the Internet, where clients do not know it. The package is only this file.
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
	"github.com/gatewright/gatewright/shared/base/bounded"
	"github.com/gatewright/gatewright/shared/base/handshake"
)

// The CA's files in a data directory. Name has the certificate, which
// users add to their clients. keyName has the certificate and the key.
const (
	Name    = "local-ca.pem"
	keyName = "local-ca.key"
)

const (
	// caLifetime is the lifetime of the CA's certificate. It is long
	// because users add the certificate to their clients manually.
	caLifetime = 10 * 365 * 24 * time.Hour
	// leafLifetime is the lifetime of a name's certificate. Certificate creates another one if the first expires within
	// renewBefore.
	leafLifetime = 30 * 24 * time.Hour
	renewBefore  = 10 * 24 * time.Hour
	// backdate is the time between the start of a certificate's validity and the certificate's creation. The validity
	// starts earlier for clients whose clocks are slow.
	backdate = time.Hour
	// maxLeaves is the maximum number of certificates in memory. A certificate
	// has about 2 KB. To create a certificate again takes a new key and a signature.
	maxLeaves = 1024
)

// Files stores the CA. *datadir.Dir implements it.
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
	inflight    singleflight.Group

	mu     sync.Mutex
	leaves map[string]*tls.Certificate
}

var _ handshake.Source = (*Authority)(nil)

// Open reads the CA from files. If there is no CA, or if it expires soon, Open creates a new
// CA, which is limited to domain. owns reports whether the CA has certificates for a name.
func Open(files Files, domain string, owns func(name string) bool, now func() time.Time) (*Authority, error) {
	a := &Authority{owns: owns, now: now, leaves: map[string]*tls.Certificate{}}
	content, err := files.Read(keyName)
	if err == nil {
		if err = a.parse(content); err != nil {
			return nil, fmt.Errorf("%s is damaged (%w): remove it, and another CA is made, which clients have to be told of",
				keyName, err)
		}
		if now().Add(leafLifetime).Before(a.certificate.NotAfter) {
			return a, a.publish(files)
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if content, err = a.create(domain); err != nil {
		return nil, fmt.Errorf("make a local CA: %w", err)
	}
	// Write the key first, so that the certificate that clients trust never exists without its key.
	if err := files.Write(keyName, content); err != nil {
		return nil, err
	}
	return a, a.publish(files)
}

// publish writes the CA's certificate for clients, unless the file already contains it.
func (a *Authority) publish(files Files) error {
	content := encode("CERTIFICATE", a.certificate.Raw)
	switch current, err := files.Read(Name); {
	case err == nil && bytes.Equal(current, content):
		return nil
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	}
	return files.Write(Name, content)
}

func (a *Authority) parse(content []byte) error {
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

// create creates the CA, and returns its certificate and key as the content of keyName.
func (a *Authority) create(domain string) ([]byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	now := a.now()
	template := &x509.Certificate{
		Subject:   pkix.Name{CommonName: "Gatewright on this machine", Organization: []string{"Gatewright"}},
		NotBefore: now.Add(-backdate), NotAfter: now.Add(caLifetime),
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
	const serialBits = 120 // positive, and at most 20 bytes
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

// Certificate implements handshake.Source. It creates the certificate of a name that has none.
func (a *Authority) Certificate(_ context.Context, name string) (*tls.Certificate, error) {
	if leaf := a.cachedLeaf(name); leaf != nil {
		return leaf, nil
	}
	result, err, _ := a.inflight.Do(name, func() (any, error) {
		if leaf := a.cachedLeaf(name); leaf != nil {
			return leaf, nil
		}
		leaf, err := a.newLeaf(name)
		if err != nil {
			return nil, fmt.Errorf("make a certificate: %w", err)
		}
		a.cacheLeaf(name, leaf)
		return leaf, nil
	})
	leaf, _ := result.(*tls.Certificate)
	return leaf, err
}

// cachedLeaf returns the certificate of a name, or nil if there is none or it ends soon.
func (a *Authority) cachedLeaf(name string) *tls.Certificate {
	a.mu.Lock()
	defer a.mu.Unlock()
	leaf := a.leaves[name]
	if leaf == nil || a.now().Add(renewBefore).After(leaf.Leaf.NotAfter) {
		return nil
	}
	return leaf
}

func (a *Authority) cacheLeaf(name string, leaf *tls.Certificate) {
	a.mu.Lock()
	defer a.mu.Unlock()
	bounded.Put(a.leaves, name, leaf, maxLeaves) // limited, because a client can send any name
}

func (a *Authority) newLeaf(name string) (*tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	now := a.now()
	cert, err := sign(&x509.Certificate{
		Subject:   pkix.Name{Organization: []string{"Gatewright"}},
		NotBefore: now.Add(-backdate), NotAfter: now.Add(leafLifetime),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames: []string{name},
	}, a.certificate, key.Public(), a.key)
	if err != nil {
		return nil, err
	}
	return &tls.Certificate{Certificate: [][]byte{cert.Raw}, PrivateKey: key, Leaf: cert}, nil
}
