// Package proof has what proves an account's audit log: the links of its chain, what is signed of them, and the file of an
// export, which anybody verifies who knows the installation's public key.
//
// It knows no table, so that the client verifies a file offline with it. Who makes links and where they stand is package
// trail; what the chain proves, and to whom it proves nothing, is said in docs/audit-logs.md.
//
// Read proof.go for what is signed, verify.go for the way along a chain, export.go for the file.
package proof

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
)

// Link is a chained record: an entry, where it stands in its account's chain, and
// the proof. Exports have it as it is stored.
type Link struct {
	// Seq numbers the account's records from 1, without a gap.
	Seq int64 `json:"seq" doc:"The record's number in the account's chain, from 1 and without a gap."`
	// Entry is the record's JSON, kept as the text that was hashed: what an entry
	// has may change, and what was signed may not.
	Entry string `json:"entry" doc:"The record's JSON, as the text that was hashed."`
	// TTL is when it expires, in seconds since 1970, never before the one in front
	// of it, so that retention removes a chain's records in their order.
	TTL int64 `json:"ttl" doc:"When it expires, in seconds since 1970."`
	// Previous and PreviousTTL are the hash and the ttl of the record in front, ""
	// and 0 for the first: the oldest that is left tells that what was in front of
	// it has expired.
	Previous    string `json:"previous" doc:"The hash of the record in front of it, \"\" for the first."`
	PreviousTTL int64  `json:"previousTtl" doc:"When that one expires, 0 for the first."`
	// Hash is over all of the above and the account, Signature over the hash.
	Hash      string `json:"hash" doc:"The hash over all of this and the account."`
	Signature string `json:"signature" doc:"The installation's signature over the hash."`
}

// Digest is the hash that the link has to have in the account's chain.
func (l Link) Digest(accountID string) string {
	// Each part is quoted, so that no two links read alike.
	h := sha256.New()
	_, _ = fmt.Fprintf(h, "gatewright audit 1 %q %d %q %d %d %q", accountID, l.Seq, l.Previous, l.PreviousTTL, l.TTL, l.Entry)
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil))
}

// What is what a signature is over: a record does not pass as an end.
type What string

// The things that are signed.
const (
	Record What = "record"
	Head   What = "head"
	File   What = "export"
)

// signed is the text that a signature is over.
func (w What) signed(accountID string, seq int64, hash string) []byte {
	return []byte("gatewright audit " + string(w) + " " + strconv.Quote(accountID) + " " + strconv.FormatInt(seq, 10) + " " + hash)
}

// Sign signs a thing of an account's chain, by its number and its hash.
func (w What) Sign(key ed25519.PrivateKey, accountID string, seq int64, hash string) string {
	return base64.RawURLEncoding.EncodeToString(ed25519.Sign(key, w.signed(accountID, seq, hash)))
}

// PublicKey is the public half of an installation's signing key.
type PublicKey ed25519.PublicKey

// PublicOf is the public half of a key.
func PublicOf(key ed25519.PrivateKey) PublicKey {
	return PublicKey(key[ed25519.PrivateKeySize-ed25519.PublicKeySize:])
}

func (k PublicKey) String() string { return base64.RawURLEncoding.EncodeToString(k) }

// ParsePublicKey reads what String has written.
func ParsePublicKey(text string) (PublicKey, error) {
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(raw) != ed25519.PublicKeySize {
		return nil, errors.New("a public key has 43 characters, as an export prints it")
	}
	return raw, nil
}

// Holds reports whether a signature is the installation's over a thing of an account's chain.
func (k PublicKey) Holds(w What, accountID string, seq int64, hash, signature string) bool {
	raw, err := base64.RawURLEncoding.Strict().DecodeString(signature) // one text for each signature
	return err == nil && ed25519.Verify(ed25519.PublicKey(k), w.signed(accountID, seq, hash), raw)
}
