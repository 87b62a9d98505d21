package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/base64"
	"encoding/pem"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/base/pki/pkitest"
)

var now = time.Date(2026, 3, 14, 9, 26, 53, 0, time.UTC)

func encode(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

// negative sets the sign bit of a certificate's serial number. In DER, the tag (02) and the length of the serial number
// follow the version.
func negative(der []byte) []byte {
	out := append([]byte(nil), der...)
	i := strings.Index(string(out), "\xa0\x03\x02\x01\x02\x02")
	out[i+7] |= 0x80
	return out
}

// slowKeyCert returns a certificate with a key that needs a second to check a signature.
func slowKeyCert(t *testing.T, template *x509.Certificate, ca pkitest.Cert) []byte {
	t.Helper()
	key := &rsa.PublicKey{N: new(big.Int).SetBit(big.NewInt(1), 40_000, 1), E: 1<<31 - 1}
	der, err := x509.CreateCertificate(rand.Reader, template, ca.Certificate, key, ca.Key)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

// p224Cert returns a certificate and its key, on a curve that TLS does not support.
func p224Cert(t *testing.T, template *x509.Certificate, ca pkitest.Cert) (certificate, key []byte) {
	t.Helper()
	curve, err := ecdsa.GenerateKey(elliptic.P224(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err = x509.CreateCertificate(rand.Reader, template, ca.Certificate, curve.Public(), ca.Key)
	if err != nil {
		t.Fatal(err)
	}
	key, err = x509.MarshalECPrivateKey(curve)
	if err != nil {
		t.Fatal(err)
	}
	return certificate, key
}

// signedByRSA returns a certificate for host that is signed by its own RSA key, and that key. Since the signature is an
// RSA signature, a check would also try the RSA key of the next certificate, even if that key takes seconds.
func signedByRSA(t *testing.T, host string) (certificate, key []byte) {
	t.Helper()
	leaf, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: now.Add(-time.Hour),
		NotAfter: now.Add(time.Hour), DNSNames: []string{host},
	}
	certificate, err = x509.CreateCertificate(rand.Reader, template, template, leaf.Public(), leaf)
	if err != nil {
		t.Fatal(err)
	}
	key, err = x509.MarshalPKCS8PrivateKey(leaf)
	if err != nil {
		t.Fatal(err)
	}
	return certificate, key
}

// caCase is a text for ReadCA and a part of the expected error, which is empty if ReadCA accepts the text.
type caCase struct{ name, text, want string }

// caTexts returns texts that contain one certificate, none or several.
func caTexts(t *testing.T, ca pkitest.Cert) []caCase {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	request, err := x509.CreateCertificateRequest(rand.Reader,
		&x509.CertificateRequest{Subject: pkix.Name{CommonName: "CA"}}, key)
	if err != nil {
		t.Fatal(err)
	}
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	cut := append([]byte(nil), ca.Raw[:len(ca.Raw)-9]...)
	return []caCase{
		{"a valid certificate", ca.PEM(), ""},
		{"with text around it", "Certificate:\n  Data:\n" + ca.PEM() + "\nend\n", ""},
		{"with other line ends", strings.ReplaceAll(ca.PEM(), "\n", "\r\n"), ""},
		{"with a byte order mark", "\ufeff" + ca.PEM(), ""},
		{"an empty text", "", "not in PEM"},
		{"any text", "hello", "not in PEM"},
		{"a block that does not end", strings.TrimSuffix(ca.PEM(), "-----END CERTIFICATE-----\n"), "cut short"},
		{
			"an unterminated block after a valid certificate",
			ca.PEM() + strings.TrimSuffix(ca.PEM(), "-----END CERTIFICATE-----\n"), "cut short",
		},
		{"a damaged block before a valid certificate", strings.Replace(ca.PEM(), "\nMII", "\n*II", 1) + ca.PEM(), "damaged"},
		{"DER", string(ca.Raw), "is in DER"},
		{"DER as invalid UTF-8 in JSON", strings.ToValidUTF8(string(ca.Raw), "\ufffd"), "is in DER"},
		{"DER in base64", base64.StdEncoding.EncodeToString(ca.Raw), "is in DER"},
		{"a private key", ca.KeyPEM(t), "private key"},
		{"a certificate and a private key", ca.PEM() + ca.KeyPEM(t), "private key"},
		{"an older private key", encode("EC PRIVATE KEY", []byte{1}), "private key"},
		{"a signing request", encode("CERTIFICATE REQUEST", request), "signing request"},
		{"an older signing request", encode("NEW CERTIFICATE REQUEST", request), "signing request"},
		{"a public key", encode("PUBLIC KEY", public), "another kind"},
		{"a revocation list", encode("X509 CRL", []byte{1}), "another kind"},
		{"a chain", ca.PEM() + pkitest.CA(t, "Other", now).PEM(), "chain of several"},
		{"one certificate twice", ca.PEM() + ca.PEM(), "chain of several"},
		{"a text that is too large", ca.PEM() + strings.Repeat(" ", MaxCertificateBytes), "bytes"},
		{"a truncated certificate", encode("CERTIFICATE", cut), "damaged"},
		{"bytes after the certificate", encode("CERTIFICATE", append(append([]byte(nil), ca.Raw...), 0)), "damaged"},
		{"a block without a certificate", encode("CERTIFICATE", []byte("hello")), "damaged"},
	}
}

// caContents returns certificates with different content.
func caContents(t *testing.T, ca pkitest.Cert) []caCase {
	t.Helper()
	caWith := func(change pkitest.Change) string { return pkitest.CA(t, "CA", now, change).PEM() }
	weakKey, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: now.Add(-time.Hour), NotAfter: now.Add(time.Hour), IsCA: true,
		BasicConstraintsValid: true,
	}
	weakDER, err := x509.CreateCertificate(rand.Reader, template, template, weakKey.Public(), weakKey)
	if err != nil {
		t.Fatal(err)
	}
	long := new(big.Int).Lsh(big.NewInt(1), 160)
	return []caCase{
		{"a negative serial number", encode("CERTIFICATE", negative(ca.Raw)), "negative serial number"},
		{"a long serial number", caWith(func(c *x509.Certificate) { c.SerialNumber = long }), "more than 20 bytes"},
		{"not a CA", caWith(func(c *x509.Certificate) { c.IsCA = false }), "not of a CA"},
		{"no basic constraints", caWith(func(c *x509.Certificate) {
			c.IsCA, c.BasicConstraintsValid = false, false
		}), "no basic constraints"},
		{"a client's certificate", ca.Client(t, "client", now).PEM(), "no basic constraints"},
		{"a key that may not sign certificates", caWith(func(c *x509.Certificate) {
			c.KeyUsage = x509.KeyUsageDigitalSignature
		}), "may not sign"},
		{"a use for servers only", caWith(func(c *x509.Certificate) {
			c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
		}), "not for clients"},
		{"a use for clients", caWith(func(c *x509.Certificate) {
			c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
		}), ""},
		{"an unknown critical extension", caWith(func(c *x509.Certificate) {
			c.ExtraExtensions = []pkix.Extension{{Id: []int{1, 2, 3, 4}, Critical: true, Value: []byte{5, 0}}}
		}), "critical extension"},
		{"a weak key", encode("CERTIFICATE", weakDER), "too weak"},
		{"a very long key", encode("CERTIFICATE", slowKeyCert(t, template, ca)), "more than 8192 bits"},
		{"expired", caWith(func(c *x509.Certificate) { c.NotAfter = now.Add(-time.Second) }), "has expired"},
		{"not valid yet", caWith(func(c *x509.Certificate) { c.NotBefore = now.Add(time.Second) }), "not valid yet"},
	}
}

func TestReadCAReportsProblem(t *testing.T) {
	ca := pkitest.CA(t, "CA", now)
	for _, tt := range append(caTexts(t, ca), caContents(t, ca)...) {
		t.Run(tt.name, func(t *testing.T) {
			c, problem := ReadCA(tt.text, now)
			switch {
			case tt.want == "" && (problem != "" || c == nil):
				t.Errorf("ReadCA() problem = %q, want a certificate and no problem", problem)
			case tt.want != "" && !strings.Contains(problem, tt.want):
				t.Errorf("ReadCA() problem = %q, want one with %q", problem, tt.want)
			}
		})
	}
}

// TestWeakSignaturesAreRefused changes the signature algorithm in certificates, because the standard library does not
// create weak signatures.
func TestWeakSignaturesAreRefused(t *testing.T) {
	ca := pkitest.CA(t, "CA", now)
	for _, algorithm := range []x509.SignatureAlgorithm{
		x509.MD5WithRSA, x509.SHA1WithRSA, x509.ECDSAWithSHA1,
		x509.UnknownSignatureAlgorithm,
	} {
		c := *ca.Certificate
		c.SignatureAlgorithm = algorithm
		if problem := caProblem(&c, now); !strings.Contains(problem, "too weak") {
			t.Errorf("caProblem(%v) = %q, want \"too weak\"", algorithm, problem)
		}
	}
}

func TestReadPairReportsProblem(t *testing.T) {
	ca := pkitest.CA(t, "CA", now)
	intermediate := ca.Intermediate(t, "Middle", now)
	// Mistakes in a client's certificate are mistakes in a server's certificate too.
	anyUse := func(c *pkitest.Template) {
		c.ExtKeyUsage, c.DNSNames = []x509.ExtKeyUsage{x509.ExtKeyUsageAny}, []string{host}
	}
	client, other := intermediate.Client(t, "client", now, anyUse), ca.Client(t, "other", now, anyUse)
	block, _ := pem.Decode([]byte(client.KeyPEM(t)))
	private, ok := client.Key.(*ecdsa.PrivateKey)
	if !ok {
		t.Fatalf("key of the client = %T, want an ECDSA key", client.Key)
	}
	sec1, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	encipher := ca.Client(t, "client", now, anyUse, func(c *pkitest.Template) {
		c.KeyUsage = x509.KeyUsageKeyEncipherment
	})
	critical := ca.Client(t, "client", now, anyUse, func(c *pkitest.Template) {
		c.ExtraExtensions = []pkix.Extension{{
			Id: asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 11129, 2, 4, 3}, Critical: true,
			Value: []byte{5, 0},
		}}
	})
	slowKeyDER := slowKeyCert(t, ca.Certificate, ca)
	curveDER, curveKey := p224Cert(t, client.Certificate, ca)
	tests := []struct{ name, chain, key, chainProblem, keyProblem string }{
		{"with an intermediate", client.PEM(), client.KeyPEM(t), "", ""},
		{"a SEC 1 key after its parameters", client.PEM(), encode("EC PARAMETERS", []byte{6, 0}) + encode("EC PRIVATE KEY",
			sec1), "", ""},
		{"a key with another label", client.PEM(), encode("RSA PRIVATE KEY", block.Bytes), "", ""},
		{"with byte order marks", "\ufeff" + client.PEM(), "\ufeff" + client.KeyPEM(t), "", ""},
		{"the key of another certificate", client.PEM(), other.KeyPEM(t), "", "does not belong"},
		{"no key", client.PEM(), "", "", "cannot be read"},
		{"an encrypted key", client.PEM(), encode("ENCRYPTED PRIVATE KEY", block.Bytes), "", "encrypted"},
		{"a key encrypted in the legacy form", client.PEM(), "-----BEGIN EC PRIVATE KEY-----\nProc-Type: " +
			"4,ENCRYPTED\nDEK-Info: AES-128-CBC,00\n\nAAAA\n-----END EC PRIVATE KEY-----\n", "", "encrypted"},
		{"a certificate in the place of a key", client.PEM(), client.PEM(), "", "holds a certificate"},
		{"a key and a certificate", client.PEM(), client.KeyPEM(t) + client.PEM(), "", "more than a private key"},
		{"a damaged key", client.PEM(), encode("PRIVATE KEY", block.Bytes[:20]), "", "cannot be read"},
		{"a large key", client.PEM(), client.KeyPEM(t) + strings.Repeat(" ", MaxKeyBytes), "", "bytes"},
		{"a CA", ca.PEM(), ca.KeyPEM(t), "is of a CA", ""},
		{"the wrong order", intermediate.PEM() + client.PEM(), client.KeyPEM(t), "is of a CA", ""},
		{"the intermediate of another certificate", other.PEM() + intermediate.PEM(), other.KeyPEM(t), "no chain", ""},
		{"a use other than signatures", encipher.PEM(), encipher.KeyPEM(t), "may not sign handshakes", ""},
		{"a precertificate", critical.PEM(), critical.KeyPEM(t), "critical extension", ""},
		{"a curve outside TLS", encode("CERTIFICATE", curveDER), encode("EC PRIVATE KEY", curveKey), "P-256", ""},
		{"a damaged intermediate", client.PEM() + "-----BEGIN CERTIFICATE-----\n", client.KeyPEM(t), "cut short", ""},
		{
			"an intermediate with a very long key",
			other.PEM() + encode("CERTIFICATE", slowKeyDER), other.KeyPEM(t), "more than 8192 bits", "",
		},
		{"both wrong", "hello", "hello", "not in PEM", "cannot be read"},
	}
	for _, tt := range tests {
		for owner, read := range map[string]func() (Pair, string, string){
			"a client's": func() (Pair, string, string) { return ReadPair(tt.chain, tt.key, now) },
			"a server's": func() (Pair, string, string) { return ReadServerPair(tt.chain, tt.key, host, now) },
		} {
			t.Run(tt.name+", "+owner, func(t *testing.T) {
				p, chainProblem, keyProblem := read()
				if (chainProblem == "") != (tt.chainProblem == "") || !strings.Contains(chainProblem, tt.chainProblem) {
					t.Errorf("problem of the chain = %q, want it to contain %q (no problem if empty)", chainProblem, tt.chainProblem)
				}
				if (keyProblem == "") != (tt.keyProblem == "") || !strings.Contains(keyProblem, tt.keyProblem) {
					t.Errorf("problem of the key = %q, want it to contain %q (no problem if empty)", keyProblem, tt.keyProblem)
				}
				if good := tt.chainProblem+tt.keyProblem == ""; good && (p.Chain != client.PEM() || p.Key != client.KeyPEM(t)) {
					t.Errorf("the returned pair has the chain of the input: %t, its key: %t, want true and true",
						p.Chain == client.PEM(), p.Key == client.KeyPEM(t))
				}
			})
		}
	}
}

const host = "api.example.com"

// serverCert returns a certificate of a server for host.
func serverCert(t *testing.T, issuer pkitest.Cert, changes ...pkitest.Change) pkitest.Cert {
	return issuer.Client(t, "server", now, func(c *pkitest.Template) {
		c.DNSNames, c.ExtKeyUsage = []string{host}, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
		for _, change := range changes {
			change(c)
		}
	})
}

func TestReadServerPairReportsProblem(t *testing.T) {
	ca := pkitest.CA(t, "CA", now)
	intermediate := ca.Intermediate(t, "Middle", now)
	server := func(issuer pkitest.Cert, changes ...pkitest.Change) pkitest.Cert {
		return serverCert(t, issuer, changes...)
	}
	withUsage := func(uses ...x509.ExtKeyUsage) pkitest.Cert {
		return server(ca, func(c *pkitest.Template) { c.ExtKeyUsage = uses })
	}
	good, other := server(intermediate), server(ca)
	long := strings.Repeat(intermediate.PEM(), MaxChain-1)
	for _, tt := range []struct {
		name          string
		cert          pkitest.Cert
		intermediates string
		chainProblem  string
	}{
		{"issued by an intermediate", good, "", ""},
		{"for servers and clients", withUsage(x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth), "", ""},
		{"for any use", withUsage(x509.ExtKeyUsageAny), "", ""},
		{"without a use", withUsage(), "", ""},
		{"for a wildcard", server(ca, func(c *pkitest.Template) { c.DNSNames = []string{"*.example.com"} }), "", ""},
		{"for clients", withUsage(x509.ExtKeyUsageClientAuth), "", "not for servers"},
		{"for an unknown use", server(ca, func(c *pkitest.Template) {
			c.ExtKeyUsage, c.UnknownExtKeyUsage = nil, []asn1.ObjectIdentifier{{1, 2, 3}}
		}), "", "not for servers"},
		{"for another host", server(ca, func(c *pkitest.Template) {
			c.DNSNames = []string{"www.example.com"}
		}), "", "not for the hostname"},
		{"host only in the common name", ca.Client(t, host, now, func(c *pkitest.Template) {
			c.ExtKeyUsage = nil
		}), "", "not for the hostname"},
		{"of a CA", server(ca, func(c *pkitest.Template) { c.IsCA, c.BasicConstraintsValid = true, true }), "", "is of a CA"},
		{"not for signatures", server(ca, func(c *pkitest.Template) {
			c.KeyUsage = x509.KeyUsageKeyEncipherment
		}), "", "may not sign handshakes"},
		{"intermediate of another certificate", other, intermediate.PEM(), "no chain"},
		{"a long chain", good, long, "more than 10 certificates"},
		{"on its last day", server(ca, func(c *pkitest.Template) { c.NotAfter = now }), "", ""},
		{"expired", server(ca, func(c *pkitest.Template) { c.NotAfter = now.Add(-time.Second) }), "", "has expired"},
		{"not valid yet", server(ca, func(c *pkitest.Template) { c.NotBefore = now.Add(time.Second) }), "", "not valid yet"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p, chainProblem, keyProblem := ReadServerPair(tt.cert.PEM()+tt.intermediates, tt.cert.KeyPEM(t), host, now)
			if (chainProblem == "") != (tt.chainProblem == "") || !strings.Contains(chainProblem, tt.chainProblem) ||
				keyProblem != "" {
				t.Errorf("ReadServerPair() problems of the chain and the key = %q, %q, want %q (no problem if empty) and none",
					chainProblem, keyProblem, tt.chainProblem)
			}
			if tt.chainProblem == "" && (p.Chain != tt.cert.PEM() || p.Key != tt.cert.KeyPEM(t) ||
				!p.Leaf.Equal(tt.cert.Certificate)) {
				t.Errorf("ReadServerPair() returns the chain of the input: %t, its key: %t, its leaf: %t, want true for all",
					p.Chain == tt.cert.PEM(), p.Key == tt.cert.KeyPEM(t), p.Leaf.Equal(tt.cert.Certificate))
			}
		})
	}
}

func TestReadServerPairReportsUnusableKeys(t *testing.T) {
	ca := pkitest.CA(t, "CA", now)
	intermediate := ca.Intermediate(t, "Middle", now)
	good := serverCert(t, intermediate)
	slowKeyDER := slowKeyCert(t, ca.Certificate, ca)
	leafDER, leafKey := signedByRSA(t, host)
	curveDER, curveKey := p224Cert(t, serverCert(t, ca).Certificate, ca)
	for want, pair := range map[string][2]string{
		"more than 8192 bits": {
			encode("CERTIFICATE", leafDER) + encode("CERTIFICATE", slowKeyDER),
			encode("PRIVATE KEY", leafKey),
		},
		"P-256": {encode("CERTIFICATE", curveDER), encode("EC PRIVATE KEY", curveKey)},
		"bytes": {good.PEM() + strings.Repeat(" ", MaxChainBytes), good.KeyPEM(t)},
	} {
		if _, problem, _ := ReadServerPair(pair[0], pair[1], host, now); !strings.Contains(problem, want) {
			t.Errorf("ReadServerPair() problem of the chain = %q, want one with %q", problem, want)
		}
	}
	// The key has to belong to the first certificate of the chain.
	_, problem, keyProblem := ReadServerPair(good.PEM(), intermediate.KeyPEM(t), host, now)
	if problem != "" || !strings.Contains(keyProblem, "does not belong") {
		t.Errorf("ReadServerPair() with the key of the intermediate: problems %q, %q, want none and \"does not belong\"",
			problem, keyProblem)
	}
	_, _, keyProblem = ReadServerPair(good.PEM(), good.KeyPEM(t)+good.KeyPEM(t), host, now)
	if !strings.Contains(keyProblem, "more than a private key") {
		t.Errorf("ReadServerPair() with two keys: problem %q, want \"more than a private key\"", keyProblem)
	}
}

func TestNamesAreFormattedPerRFC2253(t *testing.T) {
	c := pkitest.CA(t, `a, "b"`, now)
	for name, want := range map[string]string{
		`a, "b"`: `CN=a\, \"b\", O=Acme`, "Müller 日本": "CN=Müller 日本, O=Acme", "\ufffd": "CN=\ufffd, O=Acme",
		"a\r\nX-Admin: 1": `CN=a\0D\0AX-Admin: 1, O=Acme`, "\x1b[31m\u202e": `CN=\1B[31m\E2\80\AE, O=Acme`,
		"a\x00": `CN=a\00, O=Acme`,
	} {
		if got := Name(pkitest.CA(t, name, now).RawSubject); got != want {
			t.Errorf("Name(%q) = %s, want %s", name, got, want)
		}
	}
	for text, want := range map[string]bool{
		`CN=a\, \"b\", O=Acme`: true, `CN=a\, \"b\",O=Acme`: true, `O=Acme, CN=a\, \"b\"`: false, `CN=a\, \"b\"`: false,
		"": false,
	} {
		if IsName(text, c.RawSubject) != want {
			t.Errorf("IsName(%s) = %v, want %v", text, !want, want)
		}
	}
}
