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

	"github.com/gatewright/gatewright/shared/pki/pkitest"
)

var now = time.Date(2026, 3, 14, 9, 26, 53, 0, time.UTC)

func encode(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

// negative turns the serial number of a certificate into a negative one: 02 08 and its
// first byte stand behind the version.
func negative(der []byte) []byte {
	out := append([]byte(nil), der...)
	i := strings.Index(string(out), "\xa0\x03\x02\x01\x02\x02")
	out[i+7] |= 0x80
	return out
}

func TestEveryWrongCASaysWhatIsWrong(t *testing.T) {
	with := func(change pkitest.Change) string { return pkitest.CA(t, "CA", now, change).PEM() }
	ca := pkitest.CA(t, "CA", now)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	request, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: "CA"}}, key)
	if err != nil {
		t.Fatal(err)
	}
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	short, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	weak := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: now.Add(-time.Hour), NotAfter: now.Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	weakDER, err := x509.CreateCertificate(rand.Reader, weak, weak, short.Public(), short)
	if err != nil {
		t.Fatal(err)
	}
	// Its key takes a second for each signature.
	endless := &rsa.PublicKey{N: new(big.Int).SetBit(big.NewInt(1), 40_000, 1), E: 1<<31 - 1}
	endlessDER, err := x509.CreateCertificate(rand.Reader, weak, ca.Certificate, endless, ca.Key)
	if err != nil {
		t.Fatal(err)
	}
	long := new(big.Int).Lsh(big.NewInt(1), 160)
	cut := append([]byte(nil), ca.Raw[:len(ca.Raw)-9]...)
	tests := []struct{ name, text, want string }{
		{"a good one", ca.PEM(), ""},
		{"with text around it", "Certificate:\n  Data:\n" + ca.PEM() + "\nend\n", ""},
		{"with other line ends", strings.ReplaceAll(ca.PEM(), "\n", "\r\n"), ""},
		{"with a byte order mark", "\ufeff" + ca.PEM(), ""},
		{"nothing", "", "not in PEM"},
		{"any text", "hello", "not in PEM"},
		{"a block that does not end", strings.TrimSuffix(ca.PEM(), "-----END CERTIFICATE-----\n"), "cut short"},
		{"one that does not end behind a good one", ca.PEM() + strings.TrimSuffix(ca.PEM(), "-----END CERTIFICATE-----\n"), "cut short"},
		{"one with other characters before a good one", strings.Replace(ca.PEM(), "\nMII", "\n*II", 1) + ca.PEM(), "damaged"},
		{"DER", string(ca.Raw), "is in DER"},
		{"DER that JSON has carried", strings.ToValidUTF8(string(ca.Raw), "\ufffd"), "is in DER"},
		{"DER in base64", base64.StdEncoding.EncodeToString(ca.Raw), "is in DER"},
		{"a private key", ca.KeyPEM(t), "private key"},
		{"a private key behind it", ca.PEM() + ca.KeyPEM(t), "private key"},
		{"an older private key", encode("EC PRIVATE KEY", []byte{1}), "private key"},
		{"a signing request", encode("CERTIFICATE REQUEST", request), "signing request"},
		{"an older signing request", encode("NEW CERTIFICATE REQUEST", request), "signing request"},
		{"a public key", encode("PUBLIC KEY", public), "another kind"},
		{"a revocation list", encode("X509 CRL", []byte{1}), "another kind"},
		{"a chain", ca.PEM() + pkitest.CA(t, "Other", now).PEM(), "chain of several"},
		{"the same twice", ca.PEM() + ca.PEM(), "chain of several"},
		{"too large", ca.PEM() + strings.Repeat(" ", MaxCertificateBytes), "bytes"},
		{"damaged", encode("CERTIFICATE", cut), "damaged"},
		{"bytes behind it", encode("CERTIFICATE", append(append([]byte(nil), ca.Raw...), 0)), "damaged"},
		{"no certificate", encode("CERTIFICATE", []byte("hello")), "damaged"},
		{"a negative serial number", encode("CERTIFICATE", negative(ca.Raw)), "negative serial number"},
		{"a long serial number", with(func(c *x509.Certificate) { c.SerialNumber = long }), "more than 20 bytes"},
		{"not a CA", with(func(c *x509.Certificate) { c.IsCA = false }), "not of a CA"},
		{"no basic constraints", with(func(c *x509.Certificate) { c.IsCA, c.BasicConstraintsValid = false, false }), "no basic constraints"},
		{"a client's", ca.Client(t, "client", now).PEM(), "no basic constraints"},
		{"a key that may not sign", with(func(c *x509.Certificate) { c.KeyUsage = x509.KeyUsageDigitalSignature }), "may not sign"},
		{"for servers alone", with(func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} }), "not for clients"},
		{"for clients", with(func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth} }), ""},
		{"an unknown critical extension", with(func(c *x509.Certificate) {
			c.ExtraExtensions = []pkix.Extension{{Id: []int{1, 2, 3, 4}, Critical: true, Value: []byte{5, 0}}}
		}), "critical extension"},
		{"a weak key", encode("CERTIFICATE", weakDER), "too weak"},
		{"an endless key", encode("CERTIFICATE", endlessDER), "more than 8192 bits"},
		{"expired", with(func(c *x509.Certificate) { c.NotAfter = now.Add(-time.Second) }), "has expired"},
		{"not valid yet", with(func(c *x509.Certificate) { c.NotBefore = now.Add(time.Second) }), "not valid yet"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, wrong := ReadCA(tt.text, now)
			switch {
			case tt.want == "" && (wrong != "" || c == nil):
				t.Errorf("refused: it %s", wrong)
			case tt.want != "" && !strings.Contains(wrong, tt.want):
				t.Errorf("it %q, want %q", wrong, tt.want)
			}
		})
	}
}

// TestWeakSignaturesAreRefused: the standard library makes none to try it with.
func TestWeakSignaturesAreRefused(t *testing.T) {
	ca := pkitest.CA(t, "CA", now)
	for _, algorithm := range []x509.SignatureAlgorithm{x509.MD5WithRSA, x509.SHA1WithRSA, x509.ECDSAWithSHA1, x509.UnknownSignatureAlgorithm} {
		c := *ca.Certificate
		c.SignatureAlgorithm = algorithm
		if wrong := wrongCA(&c, now); !strings.Contains(wrong, "too weak") {
			t.Errorf("%v: %q", algorithm, wrong)
		}
	}
}

func TestEveryWrongPairSaysWhatIsWrong(t *testing.T) {
	ca := pkitest.CA(t, "CA", now)
	middle := ca.Intermediate(t, "Middle", now)
	// What is wrong with a client's is wrong with a server's.
	const host = "api.example.com"
	anybody := func(c *pkitest.Template) {
		c.ExtKeyUsage, c.DNSNames = []x509.ExtKeyUsage{x509.ExtKeyUsageAny}, []string{host}
	}
	client, other := middle.Client(t, "client", now, anybody), ca.Client(t, "other", now, anybody)
	block, _ := pem.Decode([]byte(client.KeyPEM(t)))
	private, ok := client.Key.(*ecdsa.PrivateKey)
	if !ok {
		t.Fatal("no ECDSA")
	}
	sec1, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	encipher := ca.Client(t, "client", now, anybody, func(c *pkitest.Template) { c.KeyUsage = x509.KeyUsageKeyEncipherment })
	critical := ca.Client(t, "client", now, anybody, func(c *pkitest.Template) {
		c.ExtraExtensions = []pkix.Extension{{Id: asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 11129, 2, 4, 3}, Critical: true, Value: []byte{5, 0}}}
	})
	endless := &rsa.PublicKey{N: new(big.Int).SetBit(big.NewInt(1), 40_000, 1), E: 1<<31 - 1}
	endlessDER, err := x509.CreateCertificate(rand.Reader, ca.Certificate, ca.Certificate, endless, ca.Key)
	if err != nil {
		t.Fatal(err)
	}
	curve, err := ecdsa.GenerateKey(elliptic.P224(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	curveDER, err := x509.CreateCertificate(rand.Reader, client.Certificate, ca.Certificate, curve.Public(), ca.Key)
	if err != nil {
		t.Fatal(err)
	}
	curveKey, err := x509.MarshalECPrivateKey(curve)
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct{ name, chain, key, wrongChain, wrongKey string }{
		{"with an intermediate", client.PEM(), client.KeyPEM(t), "", ""},
		{"a SEC 1 key behind its parameters", client.PEM(), encode("EC PARAMETERS", []byte{6, 0}) + encode("EC PRIVATE KEY", sec1), "", ""},
		{"a key by another name", client.PEM(), encode("RSA PRIVATE KEY", block.Bytes), "", ""},
		{"with byte order marks", "\ufeff" + client.PEM(), "\ufeff" + client.KeyPEM(t), "", ""},
		{"another key", client.PEM(), other.KeyPEM(t), "", "does not belong"},
		{"no key", client.PEM(), "", "", "cannot be read"},
		{"an encrypted key", client.PEM(), encode("ENCRYPTED PRIVATE KEY", block.Bytes), "", "encrypted"},
		{"a key that was encrypted long ago", client.PEM(), "-----BEGIN EC PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00\n\nAAAA\n-----END EC PRIVATE KEY-----\n", "", "encrypted"},
		{"a certificate for a key", client.PEM(), client.PEM(), "", "holds a certificate"},
		{"a key and a certificate", client.PEM(), client.KeyPEM(t) + client.PEM(), "", "more than a private key"},
		{"a damaged key", client.PEM(), encode("PRIVATE KEY", block.Bytes[:20]), "", "cannot be read"},
		{"a large key", client.PEM(), client.KeyPEM(t) + strings.Repeat(" ", MaxKeyBytes), "", "bytes"},
		{"a CA", ca.PEM(), ca.KeyPEM(t), "is of a CA", ""},
		{"the wrong order", middle.PEM() + client.PEM(), client.KeyPEM(t), "is of a CA", ""},
		{"no chain", other.PEM() + middle.PEM(), other.KeyPEM(t), "no chain", ""},
		{"for other than signatures", encipher.PEM(), encipher.KeyPEM(t), "may not sign handshakes", ""},
		{"a precertificate", critical.PEM(), critical.KeyPEM(t), "critical extension", ""},
		{"a curve that TLS has not", encode("CERTIFICATE", curveDER), encode("EC PRIVATE KEY", curveKey), "P-256", ""},
		{"a damaged intermediate", client.PEM() + "-----BEGIN CERTIFICATE-----\n", client.KeyPEM(t), "cut short", ""},
		{"an endless intermediate", other.PEM() + encode("CERTIFICATE", endlessDER), other.KeyPEM(t), "more than 8192 bits", ""},
		{"both wrong", "hello", "hello", "not in PEM", "cannot be read"},
	}
	for _, tt := range tests {
		for whose, read := range map[string]func() (Pair, string, string){
			"a client's": func() (Pair, string, string) { return ReadPair(tt.chain, tt.key, now) },
			"a server's": func() (Pair, string, string) { return ReadServerPair(tt.chain, tt.key, host, now) },
		} {
			t.Run(tt.name+", "+whose, func(t *testing.T) {
				p, wrongChain, wrongKey := read()
				if (wrongChain == "") != (tt.wrongChain == "") || !strings.Contains(wrongChain, tt.wrongChain) {
					t.Errorf("the certificate %q, want %q", wrongChain, tt.wrongChain)
				}
				if (wrongKey == "") != (tt.wrongKey == "") || !strings.Contains(wrongKey, tt.wrongKey) {
					t.Errorf("the key %q, want %q", wrongKey, tt.wrongKey)
				}
				if good := tt.wrongChain+tt.wrongKey == ""; good && (p.Chain != client.PEM() || p.Key != client.KeyPEM(t)) {
					t.Error("what was read is another pair")
				}
			})
		}
	}
}

func TestEveryWrongServerPairSaysWhatIsWrong(t *testing.T) {
	const host = "api.example.com"
	ca := pkitest.CA(t, "CA", now)
	middle := ca.Intermediate(t, "Middle", now)
	server := func(by pkitest.Cert, changes ...pkitest.Change) pkitest.Cert {
		return by.Client(t, "server", now, func(c *pkitest.Template) {
			c.DNSNames, c.ExtKeyUsage = []string{host}, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
			for _, change := range changes {
				change(c)
			}
		})
	}
	use := func(uses ...x509.ExtKeyUsage) pkitest.Cert {
		return server(ca, func(c *pkitest.Template) { c.ExtKeyUsage = uses })
	}
	good, other := server(middle), server(ca)
	rsaLeaf, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	endless := &rsa.PublicKey{N: new(big.Int).SetBit(big.NewInt(1), 40_000, 1), E: 1<<31 - 1}
	endlessDER, err := x509.CreateCertificate(rand.Reader, ca.Certificate, ca.Certificate, endless, ca.Key)
	if err != nil {
		t.Fatal(err)
	}
	// Signed by RSA, so that the endless key behind it would be tried.
	own := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: now.Add(-time.Hour), NotAfter: now.Add(time.Hour), DNSNames: []string{host}}
	leafDER, err := x509.CreateCertificate(rand.Reader, own, own, rsaLeaf.Public(), rsaLeaf)
	if err != nil {
		t.Fatal(err)
	}
	leafKey, err := x509.MarshalPKCS8PrivateKey(rsaLeaf)
	if err != nil {
		t.Fatal(err)
	}
	curve, err := ecdsa.GenerateKey(elliptic.P224(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	curveDER, err := x509.CreateCertificate(rand.Reader, other.Certificate, ca.Certificate, curve.Public(), ca.Key)
	if err != nil {
		t.Fatal(err)
	}
	curveKey, err := x509.MarshalECPrivateKey(curve)
	if err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat(middle.PEM(), MaxChain-1)
	for _, tt := range []struct {
		name       string
		is         pkitest.Cert
		behind     string
		wrongChain string
	}{
		{"with an intermediate", good, "", ""},
		{"for servers and clients", use(x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth), "", ""},
		{"for any use", use(x509.ExtKeyUsageAny), "", ""},
		{"for no use by name", use(), "", ""},
		{"a wildcard's", server(ca, func(c *pkitest.Template) { c.DNSNames = []string{"*.example.com"} }), "", ""},
		{"for clients", use(x509.ExtKeyUsageClientAuth), "", "not for servers"},
		{"for a use that nobody knows", server(ca, func(c *pkitest.Template) {
			c.ExtKeyUsage, c.UnknownExtKeyUsage = nil, []asn1.ObjectIdentifier{{1, 2, 3}}
		}), "", "not for servers"},
		{"another host's", server(ca, func(c *pkitest.Template) { c.DNSNames = []string{"www.example.com"} }), "", "not for the hostname"},
		{"by its common name", ca.Client(t, host, now, func(c *pkitest.Template) { c.ExtKeyUsage = nil }), "", "not for the hostname"},
		{"a CA's", server(ca, func(c *pkitest.Template) { c.IsCA, c.BasicConstraintsValid = true, true }), "", "is of a CA"},
		{"for other than signatures", server(ca, func(c *pkitest.Template) { c.KeyUsage = x509.KeyUsageKeyEncipherment }), "", "may not sign handshakes"},
		{"no chain", other, middle.PEM(), "no chain"},
		{"a long chain", good, long, "more than 10 certificates"},
		{"on its last day", server(ca, func(c *pkitest.Template) { c.NotAfter = now }), "", ""},
		{"expired", server(ca, func(c *pkitest.Template) { c.NotAfter = now.Add(-time.Second) }), "", "has expired"},
		{"not valid yet", server(ca, func(c *pkitest.Template) { c.NotBefore = now.Add(time.Second) }), "", "not valid yet"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p, wrongChain, wrongKey := ReadServerPair(tt.is.PEM()+tt.behind, tt.is.KeyPEM(t), host, now)
			if (wrongChain == "") != (tt.wrongChain == "") || !strings.Contains(wrongChain, tt.wrongChain) || wrongKey != "" {
				t.Errorf("the certificate %q, the key %q, want %q", wrongChain, wrongKey, tt.wrongChain)
			}
			if tt.wrongChain == "" && (p.Chain != tt.is.PEM() || p.Key != tt.is.KeyPEM(t) || !p.Leaf.Equal(tt.is.Certificate)) {
				t.Error("what was read is another pair")
			}
		})
	}
	for want, pair := range map[string][2]string{
		"more than 8192 bits": {encode("CERTIFICATE", leafDER) + encode("CERTIFICATE", endlessDER), encode("PRIVATE KEY", leafKey)},
		"P-256":               {encode("CERTIFICATE", curveDER), encode("EC PRIVATE KEY", curveKey)},
		"bytes":               {good.PEM() + strings.Repeat(" ", MaxChainBytes), good.KeyPEM(t)},
	} {
		if _, wrong, _ := ReadServerPair(pair[0], pair[1], host, now); !strings.Contains(wrong, want) {
			t.Errorf("the certificate %q, want %q", wrong, want)
		}
	}
	// The key is the first one's, and no other's of the chain.
	if _, wrong, wrongKey := ReadServerPair(good.PEM(), middle.KeyPEM(t), host, now); wrong != "" || !strings.Contains(wrongKey, "does not belong") {
		t.Errorf("the certificate %q, the key %q", wrong, wrongKey)
	}
	if _, _, wrongKey := ReadServerPair(good.PEM(), good.KeyPEM(t)+good.KeyPEM(t), host, now); !strings.Contains(wrongKey, "more than a private key") {
		t.Errorf("two keys: %q", wrongKey)
	}
}

func TestNamesAreWrittenAsRFC2253Has(t *testing.T) {
	c := pkitest.CA(t, `a, "b"`, now)
	for name, want := range map[string]string{
		`a, "b"`: `CN=a\, \"b\", O=Acme`, "Müller 日本": "CN=Müller 日本, O=Acme", "\ufffd": "CN=\ufffd, O=Acme",
		"a\r\nX-Admin: 1": `CN=a\0D\0AX-Admin: 1, O=Acme`, "\x1b[31m\u202e": `CN=\1B[31m\E2\80\AE, O=Acme`, "a\x00": `CN=a\00, O=Acme`,
	} {
		if got := Name(pkitest.CA(t, name, now).RawSubject); got != want {
			t.Errorf("%q: got %s, want %s", name, got, want)
		}
	}
	for text, want := range map[string]bool{
		`CN=a\, \"b\", O=Acme`: true, `CN=a\, \"b\",O=Acme`: true, `O=Acme, CN=a\, \"b\"`: false, `CN=a\, \"b\"`: false, "": false,
	} {
		if IsName(text, c.RawSubject) != want {
			t.Errorf("%s: not %v", text, want)
		}
	}
}
