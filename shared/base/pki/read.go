// Package pki reads uploaded certificates and keys in PEM, and describes each mistake in them. It also formats
// certificates for people. The formats are those of RFC 5280, 7468 and 2253, the checks those of contract 2.3.
//
// It does not store anything: packages customdomains, clientcas and upstreamcerts store what it has read. It does not
// verify the chains of clients: package clientcas does that. This is the only file.
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

// These bound uploads. A certificate usually has 1 to 2 KB. Even a certificate with a large RSA key and many names is
// below the bound.
const (
	// MaxCertificateBytes is the maximum size of one certificate in PEM.
	MaxCertificateBytes = 16 << 10
	// MaxChainBytes is the maximum size of a certificate with its intermediates in PEM. MaxKeyBytes is the maximum size
	// of a private key in PEM.
	MaxChainBytes = 64 << 10
	MaxKeyBytes   = 16 << 10
	// MaxChain is the maximum number of certificates in a chain.
	MaxChain = 10
	// minRSABits is the minimum size of an RSA key that verifiers accept by the rules of the CA/Browser Forum. Go's own
	// minimum is smaller.
	minRSABits = 2048
	// maxRSABits is the maximum that crypto/tls accepts from a peer. Without a maximum, the longest key that fits
	// into an upload would make the check of a signature take a second.
	maxRSABits = 8192
	// maxSerialBits is the limit of RFC 5280, section 4.1.2.2.
	maxSerialBits = 160
)

// Info describes a certificate for people (contract 2.3).
type Info struct {
	// Subject and Issuer are names in the format of RFC 2253, with ", " between their parts.
	Subject, Issuer    string
	ValidFrom, ValidTo time.Time
	// SerialNumber is in hexadecimal, as in openssl.
	SerialNumber string
}

// NewInfo returns the description of a certificate.
func NewInfo(c *x509.Certificate) Info {
	return Info{
		Subject: Name(c.RawSubject), Issuer: Name(c.RawIssuer),
		ValidFrom: c.NotBefore.UTC(), ValidTo: c.NotAfter.UTC(), SerialNumber: Serial(c.SerialNumber),
	}
}

// Serial formats a serial number like openssl: whole bytes in upper-case hexadecimal.
func Serial(n *big.Int) string {
	if n.Sign() == 0 {
		return "00"
	}
	return strings.ToUpper(hex.EncodeToString(n.Bytes()))
}

// Name formats an encoded name like RFC 2253, the last part first, with ", " between the parts. It returns "" for an
// empty name. raw is the name in DER, such as x509.Certificate.RawSubject.
func Name(raw []byte) string { return strings.Join(parts(raw), ", ") }

// IsName reports whether text is the name raw as Name formats it, with or without the space after each comma.
func IsName(text string, raw []byte) bool {
	all := parts(raw)
	return text == strings.Join(all, ", ") || text == strings.Join(all, ",")
}

// parts returns the formatted parts of an encoded name, the last part first.
func parts(raw []byte) []string {
	var sequence pkix.RDNSequence
	if _, err := asn1.Unmarshal(raw, &sequence); err != nil {
		return nil // cannot happen for a certificate that was parsed
	}
	out := make([]string, 0, len(sequence))
	for _, part := range slices.Backward(sequence) {
		out = append(out, printable(pkix.RDNSequence{part}.String()))
	}
	return out
}

// printable escapes characters that cannot be printed as in RFC 2253, section 2.4: a backslash and two digits for
// each byte. The certificate's owner chooses the name, and it is written into header fields and to terminals.
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

// Fingerprint returns the fingerprint of a certificate: SHA-256 of its DER, in lower-case hexadecimal.
func Fingerprint(c *x509.Certificate) string {
	sum := sha256.Sum256(c.Raw)
	return hex.EncodeToString(sum[:])
}

// ReadCA reads the certificate of a CA from PEM. problem describes the mistake without repeating the input. It is ""
// for a valid certificate.
func ReadCA(text string, now time.Time) (c *x509.Certificate, problem string) {
	blocks, problem := readBlocks(text, MaxCertificateBytes)
	switch {
	case problem != "":
		return nil, problem
	case len(blocks) > 1:
		return nil, "holds a chain of several certificates: upload each CA by itself"
	}
	if c, problem = parse(blocks[0]); problem != "" {
		return nil, problem
	}
	return c, caProblem(c, now)
}

// caProblem returns the reason why a certificate is not accepted as the root of clients' chains, or "" if it is
// accepted. It refuses what x509.Verify would refuse in the certificate, and the mistakes of commonProblem.
func caProblem(c *x509.Certificate, now time.Time) string {
	switch {
	case !c.BasicConstraintsValid:
		return "has no basic constraints, so that it is none of a CA: make the CA with basicConstraints=critical,CA:TRUE"
	case !c.IsCA:
		return "is not of a CA (its basic constraints say CA:FALSE): upload the certificate of the CA that signs the " +
			"clients', not a client's own"
	case c.KeyUsage != 0 && c.KeyUsage&x509.KeyUsageCertSign == 0:
		return "is of a key that may not sign certificates: its key usage has to include keyCertSign"
	case !allowsClientAuth(c):
		return "is not for clients: its extended key usage has to include clientAuth, or be left out"
	case len(c.UnhandledCriticalExtensions) > 0:
		return "has a critical extension that is not understood here: make one without it"
	}
	return commonProblem(c, now)
}

func allowsClientAuth(c *x509.Certificate) bool {
	return len(c.ExtKeyUsage)+len(c.UnknownExtKeyUsage) == 0 ||
		slices.Contains(c.ExtKeyUsage, x509.ExtKeyUsageClientAuth) || slices.Contains(c.ExtKeyUsage, x509.ExtKeyUsageAny)
}

// unsupportedByTLS reports whether TLS does not support the key of a certificate for
// handshakes, although the key can sign certificates (RFC 8422, section 5.1.1).
func unsupportedByTLS(c *x509.Certificate) bool {
	key, ok := c.PublicKey.(*ecdsa.PublicKey)
	return ok && key.Curve == elliptic.P224()
}

// CanSign reports whether the key of a client's certificate is allowed to sign handshakes (RFC 5246, section 7.4.6).
func CanSign(c *x509.Certificate) bool {
	return c.KeyUsage == 0 || c.KeyUsage&x509.KeyUsageDigitalSignature != 0
}

// publicKeyProblem returns the reason why a certificate's public key is not accepted, or "" if it is accepted.
func publicKeyProblem(c *x509.Certificate) string {
	switch key := c.PublicKey.(type) {
	case *rsa.PublicKey:
		switch bits := key.N.BitLen(); {
		case bits < minRSABits:
			return fmt.Sprintf("is of an RSA key with less than %d bits, which is too weak: make it with a longer one",
				minRSABits)
		case bits > maxRSABits:
			return fmt.Sprintf("is of an RSA key with more than %d bits, which hardly anything accepts: make it with "+
				"a shorter one", maxRSABits)
		}
	case *ecdsa.PublicKey, ed25519.PublicKey:
	default:
		return "is of a key of a kind that is not accepted: use RSA, ECDSA or Ed25519"
	}
	return ""
}

// commonProblem returns a mistake that is possible in any certificate, "" if there is none.
func commonProblem(c *x509.Certificate, now time.Time) string {
	if problem := publicKeyProblem(c); problem != "" {
		return problem
	}
	switch c.SignatureAlgorithm { //nolint:exhaustive // the weak ones
	case x509.MD2WithRSA, x509.MD5WithRSA, x509.SHA1WithRSA, x509.DSAWithSHA1, x509.ECDSAWithSHA1, x509.DSAWithSHA256,
		x509.UnknownSignatureAlgorithm:
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

// readBlocks reads the certificates of a PEM text. It skips the text that tools write between the blocks (RFC 7468,
// section 2). problem describes the mistake, or is "".
func readBlocks(text string, maxBytes int) (blocks []*pem.Block, problem string) {
	if len(text) > maxBytes {
		return nil, fmt.Sprintf("has more than %d bytes: no certificate needs as many", maxBytes)
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
		// pem.Decode skips a block that it cannot read.
		return nil, "holds a certificate that is damaged, or was cut short: upload it anew, with all lines"
	case len(blocks) > MaxChain:
		return nil, fmt.Sprintf("holds more than %d certificates", MaxChain)
	case len(blocks) > 0:
		return blocks, ""
	case isDER(text):
		return nil, "is in DER: turn it into PEM, as `openssl x509 -inform der -in FILE` does"
	}
	return nil, "is not in PEM: send all from the line -----BEGIN CERTIFICATE----- to the line -----END " +
		"CERTIFICATE-----, both included"
}

// byteOrderMark is the mark with which editors on Windows can begin a file.
const byteOrderMark = "\ufeff"

// CertificateBlock is the type of a certificate's block in PEM.
const CertificateBlock = "CERTIFICATE"

// isDER reports whether a text is DER, or the base64 of DER without the lines BEGIN and END. In a text from JSON, the
// character U+FFFD can replace bytes of the DER.
func isDER(text string) bool {
	const sequence = 0x30
	der := []byte(text)
	if decoded, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(text), "")); err == nil {
		der = decoded
	}
	return len(der) > 1 && der[0] == sequence && der[1] >= 0x80 || bytes.HasPrefix(der, []byte("0\ufffd"))
}

// negativeSerial is a part of an error text of crypto/x509, which has no error value for this case.
const negativeSerial = "negative serial number"

// parse parses the certificate in a PEM block. problem describes the mistake, or is "".
func parse(b *pem.Block) (c *x509.Certificate, problem string) {
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
	// Chain is the leaf and the intermediates in PEM. Key is the private key in
	// PKCS #8 in PEM. Both are encoded here, and can differ from the upload.
	Chain, Key string
}

// ReadPair reads a client's certificate with its intermediates and its private key from
// PEM. chainProblem and keyProblem describe mistakes in them. They are "" for valid input.
func ReadPair(chain, key string, now time.Time) (p Pair, chainProblem, keyProblem string) {
	return readPair(chain, key, func(all []*x509.Certificate) string { return clientProblem(all, now) })
}

// ReadServerPair is like ReadPair, for the certificate of the server at a host.
func ReadServerPair(chain, key, host string, now time.Time) (p Pair, chainProblem, keyProblem string) {
	return readPair(chain, key, func(all []*x509.Certificate) string { return serverProblem(all, host, now) })
}

// readPair reads a pair. check returns the mistake in the chain, "" if there is none.
func readPair(chain, key string, check func([]*x509.Certificate) string) (p Pair, chainProblem, keyProblem string) {
	blocks, chainProblem := readBlocks(chain, MaxChainBytes)
	var all []*x509.Certificate
	for _, b := range blocks {
		c, problem := parse(b)
		if problem != "" {
			chainProblem = problem
			break
		}
		all = append(all, c)
	}
	if chainProblem == "" {
		chainProblem = check(all)
	}
	private, keyProblem := readKey(key)
	if chainProblem != "" || keyProblem != "" {
		return Pair{}, chainProblem, keyProblem
	}
	public, ok := private.Public().(interface{ Equal(x crypto.PublicKey) bool })
	if !ok || !public.Equal(all[0].PublicKey) {
		return Pair{}, "", "does not belong to the certificate: its public key is another one. Send the key that the " +
			"certificate was made for, and the certificate before its intermediates"
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

// clientProblem returns the mistake in a client's chain, "" if there is none. It does not verify the chain up to a
// root: the server to which the client presents the chain does that.
func clientProblem(chain []*x509.Certificate, now time.Time) string {
	switch leaf := chain[0]; {
	case leaf.IsCA:
		return "is of a CA: send a client's certificate, before its intermediates"
	case !allowsClientAuth(leaf):
		return "is not for clients: its extended key usage has to include clientAuth, or be left out"
	}
	return handshakeProblem(chain, "client", now)
}

// serverProblem returns the mistake in the chain of a server at a host, "" if there is none. It does not verify the
// chain up to a root: clients do that.
func serverProblem(chain []*x509.Certificate, host string, now time.Time) string {
	switch leaf := chain[0]; {
	case leaf.IsCA:
		return "is of a CA: send the server's certificate, before its intermediates"
	case leaf.VerifyHostname(host) != nil:
		return "is not for the hostname: it has to be among the certificate's subject alternative names"
	case len(leaf.ExtKeyUsage)+len(leaf.UnknownExtKeyUsage) > 0 &&
		!slices.Contains(leaf.ExtKeyUsage, x509.ExtKeyUsageServerAuth) &&
		!slices.Contains(leaf.ExtKeyUsage, x509.ExtKeyUsageAny):
		return "is not for servers: its extended key usage has to include serverAuth, or be left out"
	}
	return handshakeProblem(chain, "server", now)
}

// handshakeProblem returns the reason why a chain cannot be presented in a handshake, or why the other side would
// refuse it. owner is client or server, for the message.
func handshakeProblem(chain []*x509.Certificate, owner string, now time.Time) string {
	leaf := chain[0]
	switch {
	case unsupportedByTLS(leaf):
		return "is of a key on a curve that TLS does not know: use P-256, P-384 or P-521"
	case !CanSign(leaf):
		return "is of a key that may not sign handshakes: its key usage has to include digitalSignature, or be left out"
	case len(leaf.UnhandledCriticalExtensions) > 0:
		return "has a critical extension that is not understood, as precertificates and answers to challenges have: send " +
			"the certificate itself"
	}
	for _, c := range chain[1:] {
		if problem := publicKeyProblem(c); problem != "" {
			return "holds an intermediate that " + problem
		}
	}
	if !isChain(chain) {
		return "holds certificates that are no chain: each has to be signed by the one behind it, the " +
			owner + "'s own first"
	}
	return commonProblem(leaf, now)
}

// isChain reports whether each certificate is signed by the next one.
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
func readKey(text string) (key crypto.Signer, problem string) {
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
			return nil, "is encrypted, and nobody here knows its password: send it decrypted, as `openssl pkey -in FILE` " +
				"writes it; it is sealed before it is stored"
		case b.Type == CertificateBlock:
			return nil, "holds a certificate: send the private key alone"
		case !strings.HasSuffix(b.Type, "PRIVATE KEY"):
			return nil, unreadableKey
		}
		parsed, err := parseKey(b.Bytes)
		if err != nil {
			return nil, unreadableKey
		}
		if extra, _ := pem.Decode(rest); extra != nil {
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

var errKeyFormat = errors.New("pki: the key has no known form")

// parseKey tries the three formats. It ignores the block's type, because some tools write a wrong one.
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
	return nil, errKeyFormat
}
