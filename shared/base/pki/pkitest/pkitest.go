// Package pkitest creates certificates for tests: self-signed CAs, intermediates, and
// certificates for clients and servers. They are valid around a time that the test chooses.
//
// It is for tests only. The keys are ECDSA keys, which are fast to create. This is the only file.
package pkitest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"testing"
	"time"
)

// Cert is a certificate and its key.
type Cert struct {
	*x509.Certificate
	Key crypto.Signer
	// chain has the intermediates that a holder of the certificate sends.
	// The chain of an intermediate begins with the intermediate itself.
	chain []*x509.Certificate
}

// Template is the template of a certificate.
type Template = x509.Certificate

// Change changes a template.
type Change func(*Template)

// CA creates a self-signed CA that is valid from a day before now to a year after it.
func CA(t testing.TB, name string, now time.Time, changes ...Change) Cert {
	t.Helper()
	template := template(name, now)
	template.IsCA, template.BasicConstraintsValid, template.KeyUsage = true, true, x509.KeyUsageCertSign
	return sign(t, template, nil, changes)
}

// Intermediate creates an intermediate CA, and signs it with c.
func (c Cert) Intermediate(t testing.TB, name string, now time.Time, changes ...Change) Cert {
	t.Helper()
	template := template(name, now)
	template.IsCA, template.BasicConstraintsValid, template.KeyUsage = true, true, x509.KeyUsageCertSign
	cert := sign(t, template, &c, changes)
	cert.chain = append([]*x509.Certificate{cert.Certificate}, c.chain...)
	return cert
}

// Client creates the certificate of a client, and signs it with c.
func (c Cert) Client(t testing.TB, name string, now time.Time, changes ...Change) Cert {
	t.Helper()
	template := template(name, now)
	template.KeyUsage, template.ExtKeyUsage = x509.KeyUsageDigitalSignature, []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	cert := sign(t, template, &c, changes)
	cert.chain = c.chain
	return cert
}

// Server creates the certificate of a server at 127.0.0.1 and localhost, and signs it with c.
func (c Cert) Server(t testing.TB, now time.Time) Cert {
	t.Helper()
	return c.Client(t, "localhost", now, func(x *x509.Certificate) {
		x.ExtKeyUsage, x.DNSNames, x.IPAddresses = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, []string{"localhost"},
			[]net.IP{net.IPv4(127, 0, 0, 1)}
	})
}

func template(name string, now time.Time) *x509.Certificate {
	serial, _ := rand.Int(rand.Reader, big.NewInt(1<<62))
	return &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name, Organization: []string{"Acme"}},
		NotBefore: now.Add(-24 * time.Hour), NotAfter: now.Add(365 * 24 * time.Hour),
	}
}

// sign creates a key and a certificate for it, and signs the certificate with issuer. If issuer is nil, the certificate
// is self-signed. The returned Cert has no chain.
func sign(t testing.TB, template *x509.Certificate, issuer *Cert, changes []Change) Cert {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for _, change := range changes {
		change(template)
	}
	parent, signer := template, crypto.Signer(key)
	if issuer != nil {
		parent, signer = issuer.Certificate, issuer.Key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return Cert{Certificate: cert, Key: key}
}

// PEM returns the certificate in PEM, with its intermediates.
func (c Cert) PEM() string {
	out := block("CERTIFICATE", c.Raw)
	for _, i := range c.chain {
		if i != c.Certificate {
			out += block("CERTIFICATE", i.Raw)
		}
	}
	return out
}

// KeyPEM returns the private key in PEM.
func (c Cert) KeyPEM(t testing.TB) string {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(c.Key)
	if err != nil {
		t.Fatal(err)
	}
	return block("PRIVATE KEY", der)
}

func block(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

// TLS returns the certificate as a tls.Certificate.
func (c Cert) TLS(t testing.TB) tls.Certificate {
	t.Helper()
	pair, err := tls.X509KeyPair([]byte(c.PEM()), []byte(c.KeyPEM(t)))
	if err != nil {
		t.Fatal(err)
	}
	return pair
}

// Pool returns a pool with only this certificate.
func (c Cert) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(c.Certificate)
	return pool
}

// Issue creates the certificate of a server for a signing request, and signs it with c. The returned Cert has no Key.
func (c Cert) Issue(t testing.TB, csr *x509.CertificateRequest, now time.Time, changes ...Change) Cert {
	t.Helper()
	template := template(csr.DNSNames[0], now)
	template.DNSNames, template.ExtKeyUsage = csr.DNSNames, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	for _, change := range changes {
		change(template)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, c.Certificate, csr.PublicKey, c.Key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return Cert{Certificate: cert, chain: c.chain}
}
