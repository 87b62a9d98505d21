// Package proof verifies an account's audit log. It has the links of the chain, the signed
// texts, and the export file, which anyone who knows the installation's public key can verify.
//
// The package does not access the table, so the client can verify a file offline with it. Package trail creates
// and stores the links. docs/audit-logs.md says what the chain proves, and who could change it without detection.
//
// Read proof.go for the signed texts, verify.go for the verification of a chain, export.go for the file.
package proof

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
)

// Link is a chained record: an entry, its position in its account's chain, and the proof. Exports contain it as it is stored.
type Link struct {
	// Seq numbers the account's records from 1, without gaps.
	Seq int64 `json:"seq" doc:"The record's number in the account's chain, from 1 and without a gap."`
	// Entry is the record's JSON, kept as the text that was hashed: the fields of
	// an entry can change in later releases, but the signed text must not.
	Entry string `json:"entry" doc:"The record's JSON, as the text that was hashed."`
	// TTL is when the record expires, in seconds since 1970. It is never earlier than
	// that of the previous record, so that records expire in the order of the chain.
	TTL int64 `json:"ttl" doc:"When it expires, in seconds since 1970."`
	// Previous and PreviousTTL are the hash and the ttl of the previous record, "" and 0 for
	// the first. So the oldest remaining record shows that the records before it have expired.
	Previous    string `json:"previous" doc:"The hash of the record in front of it, \"\" for the first."`
	PreviousTTL int64  `json:"previousTtl" doc:"When that one expires, 0 for the first."`
	// Hash is the hash over the account and all fields above. Signature is the signature over the hash.
	Hash      string `json:"hash" doc:"The hash over all of this and the account."`
	Signature string `json:"signature" doc:"The installation's signature over the hash."`
}

// Digest returns the hash that the link must have in the account's chain.
func (l Link) Digest(accountID string) string {
	// Each text is quoted, so that no two links have the same input.
	h := sha256.New()
	_, _ = fmt.Fprintf(h, "gatewright audit 1 %q %d %q %d %d %q", accountID, l.Seq, l.Previous, l.PreviousTTL, l.TTL,
		l.Entry)
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil))
}

// TextKind is the kind of a signed text. It is part of the text, so
// that the signature of a record is not valid for the end of a chain.
type TextKind string

// The kinds of signed texts: for one record, for the end of a chain, and for the first line of an export.
const (
	Record TextKind = "record"
	Head   TextKind = "head"
	File   TextKind = "export"
)

// message returns the text to sign.
func (k TextKind) message(accountID string, seq int64, hash string) []byte {
	return []byte("gatewright audit " + string(k) + " " + strconv.Quote(accountID) + " " + strconv.FormatInt(seq, 10) +
		" " + hash)
}

// Sign returns the signature for a number and a hash in an account's chain.
func (k TextKind) Sign(key ed25519.PrivateKey, accountID string, seq int64, hash string) string {
	return base64.RawURLEncoding.EncodeToString(ed25519.Sign(key, k.message(accountID, seq, hash)))
}

// PublicKey is the public half of an installation's signing key.
type PublicKey ed25519.PublicKey

// PublicKeyOf returns the public half of a key.
func PublicKeyOf(key ed25519.PrivateKey) PublicKey {
	return PublicKey(key[ed25519.PrivateKeySize-ed25519.PublicKeySize:])
}

func (k PublicKey) String() string { return base64.RawURLEncoding.EncodeToString(k) }

// ParsePublicKey parses a key in the format of String.
func ParsePublicKey(text string) (PublicKey, error) {
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(raw) != ed25519.PublicKeySize {
		return nil, errors.New("a public key has 43 characters, as an export prints it")
	}
	return raw, nil
}

// Verify reports whether signature is the installation's signature for a number and a hash in an account's chain.
func (k PublicKey) Verify(kind TextKind, accountID string, seq int64, hash, signature string) bool {
	raw, err := base64.RawURLEncoding.Strict().DecodeString(signature) // strict, so that each signature has only one text
	return err == nil && ed25519.Verify(ed25519.PublicKey(k), kind.message(accountID, seq, hash), raw)
}
