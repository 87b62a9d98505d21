// Package pki reads what is uploaded of certificates and keys, in PEM, and says of each
// mistake what it is; and it writes of a certificate what people read. The forms are those
// of RFC 5280, 7468 and 2253, the checks those of contract 2.3.
//
// What it is not: it keeps nothing and verifies no chain; packages certificates and
// mtlscertificates do. This file is all of it.
package pki

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Bounds of what is uploaded. One certificate has 1 to 2 KB as a rule; the longest
// of a large RSA key with many names stays below.
const (
	// MaxCertificateBytes bounds one certificate in PEM.
	MaxCertificateBytes = 16 << 10
	// MaxChainBytes bounds a certificate with its intermediates, MaxKeyBytes a
	// private key, both in PEM.
	MaxChainBytes = 64 << 10
	MaxKeyBytes   = 16 << 10
	// MaxChain is how many certificates a chain has at most.
	MaxChain = 10
	// minRSABits is what verifiers accept by the rules of the CA/Browser Forum, and
	// Go's own ends not far below.
	minRSABits = 2048
	// maxRSABits is what crypto/tls takes of a peer. A signature by the longest key that
	// an upload has room for takes a second to check.
	maxRSABits = 8192
	// maxSerialBits: RFC 5280, section 4.1.2.2.
	maxSerialBits = 160
)

// Info is what people read of a certificate (contract 2.3).
type Info struct {
	// Subject and Issuer are names as RFC 2253 writes them, with ", " between their
	// parts.
	Subject, Issuer    string
	ValidFrom, ValidTo time.Time
	// SerialNumber is in hexadecimal, as openssl shows it.
	SerialNumber string
}

// InfoOf reads a certificate.
func InfoOf(c *x509.Certificate) Info {
	return Info{
		Subject: Name(c.RawSubject), Issuer: Name(c.RawIssuer),
		ValidFrom: c.NotBefore.UTC(), ValidTo: c.NotAfter.UTC(), SerialNumber: Serial(c.SerialNumber),
	}
}

// Serial writes a serial number as openssl does: whole bytes in upper-case
// hexadecimal.
func Serial(n *big.Int) string {
	if n.Sign() == 0 {
		return "00"
	}
	return strings.ToUpper(hex.EncodeToString(n.Bytes()))
}

// Name writes an encoded name as RFC 2253 does, the last part first, with ", "
// between the parts. It is "" for an empty one.
func Name(raw []byte) string { return strings.Join(parts(raw), ", ") }

// IsName reports whether text is the encoded name, with or without a blank behind
// each comma.
func IsName(text string, raw []byte) bool {
	all := parts(raw)
	return text == strings.Join(all, ", ") || text == strings.Join(all, ",")
}

func parts(raw []byte) []string {
	var sequence pkix.RDNSequence
	if _, err := asn1.Unmarshal(raw, &sequence); err != nil {
		return nil // of a certificate that was parsed it can be read
	}
	out := make([]string, 0, len(sequence))
	for _, part := range slices.Backward(sequence) {
		out = append(out, printable(pkix.RDNSequence{part}.String()))
	}
	return out
}

// printable has what does not print stand as RFC 2253, section 2.4, has it: a backslash
// and two digits for each byte. A name is of its owner's choice, and goes into header
// fields and onto terminals.
func printable(text string) string {
	var out strings.Builder
	for i, r := range text {
		_, size := utf8.DecodeRuneInString(text[i:])
		if unicode.IsPrint(r) && (r != utf8.RuneError || size > 1) {
			out.WriteRune(r)
			continue
		}
		for _, b := range []byte(text[i : i+size]) {
			fmt.Fprintf(&out, `\%02X`, b)
		}
	}
	return out.String()
}

// Fingerprint names a certificate: SHA-256 of its DER, in lower-case hexadecimal.
func Fingerprint(c *x509.Certificate) string {
	sum := sha256.Sum256(c.Raw)
	return hex.EncodeToString(sum[:])
}

// ReadCA reads the certificate of a CA from PEM. wrong says what is wrong with it, ""
// for nothing, and repeats nothing of it.
func ReadCA(text string, now time.Time) (c *x509.Certificate, wrong string) {
	blocks, wrong := readBlocks(text, MaxCertificateBytes)
	switch {
	case wrong != "":
		return nil, wrong
	case len(blocks) > 1:
		return nil, "holds a chain of several certificates: upload each CA by itself"
	}
	if c, wrong = parse(blocks[0]); wrong != "" {
		return nil, wrong
	}
	return c, wrongCA(c, now)
}

// wrongCA says what keeps a certificate from being the root of a client's chain:
// all that x509.Verify would refuse in it, and what of it is out of date.
func wrongCA(c *x509.Certificate, now time.Time) string {
	switch {
	case !c.BasicConstraintsValid:
		return "has no basic constraints, so that it is none of a CA: make the CA with basicConstraints=critical,CA:TRUE"
	case !c.IsCA:
		return "is not of a CA (its basic constraints say CA:FALSE): upload the certificate of the CA that signs the clients', not a client's own"
	case c.KeyUsage != 0 && c.KeyUsage&x509.KeyUsageCertSign == 0:
		return "is of a key that may not sign certificates: its key usage has to include keyCertSign"
	case !forClients(c):
		return "is not for clients: its extended key usage has to include clientAuth, or be left out"
	case len(c.UnhandledCriticalExtensions) > 0:
		return "has a critical extension that is not understood here: make one without it"
	}
	return wrongAnyhow(c, now)
}

func forClients(c *x509.Certificate) bool {
	return len(c.ExtKeyUsage)+len(c.UnknownExtKeyUsage) == 0 ||
		slices.Contains(c.ExtKeyUsage, x509.ExtKeyUsageClientAuth) || slices.Contains(c.ExtKeyUsage, x509.ExtKeyUsageAny)
}

// unknownToTLS reports whether no handshake can be signed with the key of a certificate,
// though signatures of certificates can be checked by it (RFC 8422, section 5.1.1).
func unknownToTLS(c *x509.Certificate) bool {
	key, ok := c.PublicKey.(*ecdsa.PublicKey)
	return ok && key.Curve == elliptic.P224()
}

// MaySign reports whether the key of a client's certificate may sign handshakes (RFC
// 5246, section 7.4.6).
func MaySign(c *x509.Certificate) bool {
	return c.KeyUsage == 0 || c.KeyUsage&x509.KeyUsageDigitalSignature != 0
}

// wrongPublicKey is what is wrong with a certificate's public key.
func wrongPublicKey(c *x509.Certificate) string {
	switch key := c.PublicKey.(type) {
	case *rsa.PublicKey:
		switch bits := key.N.BitLen(); {
		case bits < minRSABits:
			return fmt.Sprintf("is of an RSA key with less than %d bits, which is too weak: make it with a longer one", minRSABits)
		case bits > maxRSABits:
			return fmt.Sprintf("is of an RSA key with more than %d bits, which hardly anything accepts: make it with a shorter one", maxRSABits)
		}
	case *ecdsa.PublicKey, ed25519.PublicKey:
	default:
		return "is of a key of a kind that is not accepted: use RSA, ECDSA or Ed25519"
	}
	return ""
}

// wrongAnyhow is what is wrong with any certificate.
func wrongAnyhow(c *x509.Certificate, now time.Time) string {
	if wrong := wrongPublicKey(c); wrong != "" {
		return wrong
	}
	switch c.SignatureAlgorithm { //nolint:exhaustive // the weak ones
	case x509.MD2WithRSA, x509.MD5WithRSA, x509.SHA1WithRSA, x509.DSAWithSHA1, x509.ECDSAWithSHA1, x509.DSAWithSHA256, x509.UnknownSignatureAlgorithm:
		return "is signed by an algorithm that is too weak or unknown: have it signed with SHA-256 or better"
	}
	switch {
	case c.SerialNumber.BitLen() > maxSerialBits:
		return "has a serial number of more than 20 bytes: make one with a shorter number (RFC 5280)"
	case now.After(c.NotAfter):
		return "has expired: upload one that is valid"
	case now.Before(c.NotBefore):
		return "is not valid yet: upload it when it is, or one that is valid now"
	}
	return ""
}

// readBlocks reads the certificates of a text in PEM. Text between blocks is left
// out, as tools write it (RFC 7468, section 2).
func readBlocks(text string, most int) (blocks []*pem.Block, wrong string) {
	if len(text) > most {
		return nil, fmt.Sprintf("has more than %d bytes: no certificate needs as many", most)
	}
	for rest := []byte(strings.TrimPrefix(text, byteOrderMark)); ; {
		var b *pem.Block
		if b, rest = pem.Decode(rest); b == nil {
			break
		}
		switch {
		case strings.HasSuffix(b.Type, "PRIVATE KEY"):
			return nil, "holds a private key: upload the certificate alone, and replace a key that you have sent to anybody"
		case strings.HasSuffix(b.Type, "CERTIFICATE REQUEST"):
			return nil, "is a signing request (CSR): upload the certificate that was made of it"
		case b.Type != CertificateBlock:
			return nil, "holds a PEM block of another kind: it has to begin with -----BEGIN CERTIFICATE-----"
		}
		blocks = append(blocks, b)
	}
	switch {
	case len(blocks) < strings.Count(text, "-----BEGIN "+CertificateBlock+"-----"):
		// pem.Decode passes by a block that it cannot read.
		return nil, "holds a certificate that is damaged, or was cut short: upload it anew, with all lines"
	case len(blocks) > MaxChain:
		return nil, fmt.Sprintf("holds more than %d certificates", MaxChain)
	case len(blocks) > 0:
		return blocks, ""
	case isDER(text):
		return nil, "is in DER: turn it into PEM, as `openssl x509 -inform der -in FILE` does"
	}
	return nil, "is not in PEM: send all from the line -----BEGIN CERTIFICATE----- to the line -----END CERTIFICATE-----, both included"
}

// byteOrderMark is what editors on Windows may begin a file with.
const byteOrderMark = "\ufeff"

// CertificateBlock is the type of a certificate's block in PEM.
const CertificateBlock = "CERTIFICATE"

// isDER reports whether a text is DER itself, or its base64 without the lines of PEM.
func isDER(text string) bool {
	const sequence = 0x30
	der := []byte(text)
	if decoded, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(text), "")); err == nil {
		der = decoded
	}
	return len(der) > 1 && der[0] == sequence && der[1] >= 0x80 || bytes.HasPrefix(der, []byte("0\ufffd"))
}

// negativeSerial is how crypto/x509 begins to say it; it has no error of its own.
const negativeSerial = "negative serial number"

func parse(b *pem.Block) (c *x509.Certificate, wrong string) {
	c, err := x509.ParseCertificate(b.Bytes)
	switch {
	case err != nil && strings.Contains(err.Error(), negativeSerial), err == nil && c.SerialNumber.Sign() < 0:
		return nil, "has a negative serial number: make one with a positive number (RFC 5280)"
	case err != nil:
		return nil, "cannot be read as an X.509 certificate: it is damaged, or was cut short"
	}
	return c, ""
}

// Pair is a certificate with its intermediates and its private key.
type Pair struct {
	Leaf *x509.Certificate
	// Chain is the leaf and the intermediates in PEM, Key the private key in PKCS #8
	// in PEM: both as written here, and not as they were uploaded.
	Chain, Key string
}

// ReadPair reads a client's certificate with its intermediates and its private key
// from PEM. wrongChain and wrongKey say what is wrong with them, "" for nothing.
func ReadPair(chain, key string, now time.Time) (p Pair, wrongChain, wrongKey string) {
	return readPair(chain, key, func(all []*x509.Certificate) string { return wrongClient(all, now) })
}

// ReadServerPair is ReadPair for the certificate of a server at a host.
func ReadServerPair(chain, key, host string, now time.Time) (p Pair, wrongChain, wrongKey string) {
	return readPair(chain, key, func(all []*x509.Certificate) string { return wrongServer(all, host, now) })
}

func readPair(chain, key string, judge func([]*x509.Certificate) string) (p Pair, wrongChain, wrongKey string) {
	blocks, wrongChain := readBlocks(chain, MaxChainBytes)
	var all []*x509.Certificate
	for _, b := range blocks {
		c, wrong := parse(b)
		if wrong != "" {
			wrongChain = wrong
			break
		}
		all = append(all, c)
	}
	if wrongChain == "" {
		wrongChain = judge(all)
	}
	private, wrongKey := readKey(key)
	if wrongChain != "" || wrongKey != "" {
		return Pair{}, wrongChain, wrongKey
	}
	public, ok := private.Public().(interface{ Equal(x crypto.PublicKey) bool })
	if !ok || !public.Equal(all[0].PublicKey) {
		return Pair{}, "", "does not belong to the certificate: its public key is another one. Send the key that the certificate was made for, and the certificate before its intermediates"
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return Pair{}, "", unreadableKey
	}
	p = Pair{Leaf: all[0], Key: string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded}))}
	for _, c := range all {
		p.Chain += string(pem.EncodeToMemory(&pem.Block{Type: CertificateBlock, Bytes: c.Raw}))
	}
	return p, "", ""
}

// wrongClient says what is wrong with a client's chain: whether it leads anywhere is
// for the server to say that it is shown to.
func wrongClient(chain []*x509.Certificate, now time.Time) string {
	switch leaf := chain[0]; {
	case leaf.IsCA:
		return "is of a CA: send a client's certificate, before its intermediates"
	case !forClients(leaf):
		return "is not for clients: its extended key usage has to include clientAuth, or be left out"
	}
	return wrongInHandshake(chain, "client", now)
}

// wrongServer says what is wrong with the chain of a server at a host: whether it leads anywhere is
// for its clients to say.
func wrongServer(chain []*x509.Certificate, host string, now time.Time) string {
	switch leaf := chain[0]; {
	case leaf.IsCA:
		return "is of a CA: send the server's certificate, before its intermediates"
	case leaf.VerifyHostname(host) != nil:
		return "is not for the hostname: it has to be among the certificate's subject alternative names"
	case len(leaf.ExtKeyUsage)+len(leaf.UnknownExtKeyUsage) > 0 &&
		!slices.Contains(leaf.ExtKeyUsage, x509.ExtKeyUsageServerAuth) && !slices.Contains(leaf.ExtKeyUsage, x509.ExtKeyUsageAny):
		return "is not for servers: its extended key usage has to include serverAuth, or be left out"
	}
	return wrongInHandshake(chain, "server", now)
}

// wrongInHandshake is what keeps a chain of whoever it is of from being shown in a handshake, or
// has the other side refuse it.
func wrongInHandshake(chain []*x509.Certificate, whose string, now time.Time) string {
	leaf := chain[0]
	switch {
	case unknownToTLS(leaf):
		return "is of a key on a curve that TLS does not know: use P-256, P-384 or P-521"
	case !MaySign(leaf):
		return "is of a key that may not sign handshakes: its key usage has to include digitalSignature, or be left out"
	case len(leaf.UnhandledCriticalExtensions) > 0:
		return "has a critical extension that is not understood, as precertificates and answers to challenges have: send the certificate itself"
	}
	for _, c := range chain[1:] {
		if wrong := wrongPublicKey(c); wrong != "" {
			return "holds an intermediate that " + wrong
		}
	}
	if !isChain(chain) {
		return "holds certificates that are no chain: each has to be signed by the one behind it, the " + whose + "'s own first"
	}
	return wrongAnyhow(leaf, now)
}

// isChain reports whether each certificate is signed by the one behind it.
func isChain(chain []*x509.Certificate) bool {
	for i, c := range chain[1:] {
		if chain[i].CheckSignatureFrom(c) != nil {
			return false
		}
	}
	return true
}

const unreadableKey = "cannot be read as a private key: send it in PEM, from the line -----BEGIN PRIVATE KEY----- on"

// readKey reads a private key in PEM: PKCS #8, PKCS #1 or SEC 1.
func readKey(text string) (key crypto.Signer, wrong string) {
	if len(text) > MaxKeyBytes {
		return nil, fmt.Sprintf("has more than %d bytes: no key needs as many", MaxKeyBytes)
	}
	for rest := []byte(strings.TrimPrefix(text, byteOrderMark)); ; {
		var b *pem.Block
		if b, rest = pem.Decode(rest); b == nil {
			return nil, unreadableKey
		}
		switch {
		case b.Type == "EC PARAMETERS": // openssl writes it before the key
			continue
		case b.Type == "ENCRYPTED PRIVATE KEY" || b.Headers["DEK-Info"] != "":
			return nil, "is encrypted, and nobody here knows its password: send it decrypted, as `openssl pkey -in FILE` writes it; it is sealed before it is stored"
		case b.Type == CertificateBlock:
			return nil, "holds a certificate: send the private key alone"
		case !strings.HasSuffix(b.Type, "PRIVATE KEY"):
			return nil, unreadableKey
		}
		parsed, err := parseKey(b.Bytes)
		if err != nil {
			return nil, unreadableKey
		}
		if more, _ := pem.Decode(rest); more != nil {
			return nil, "holds more than a private key: send it alone"
		}
		switch k := parsed.(type) {
		case *rsa.PrivateKey:
			return k, ""
		case *ecdsa.PrivateKey:
			return k, ""
		case ed25519.PrivateKey:
			return k, ""
		}
		return nil, "is of a kind that is not accepted: use RSA, ECDSA or Ed25519"
	}
}

var errKey = errors.New("pki: the key has no known form")

// parseKey knows the three forms whatever the block is called: tools mix them up.
func parseKey(der []byte) (any, error) {
	if k, err := x509.ParsePKCS8PrivateKey(der); err == nil {
		return k, nil
	}
	if k, err := x509.ParsePKCS1PrivateKey(der); err == nil {
		return k, nil
	}
	if k, err := x509.ParseECPrivateKey(der); err == nil {
		return k, nil
	}
	return nil, errKey
}
