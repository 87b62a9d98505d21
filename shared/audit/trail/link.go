package trail

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/gatewright/gatewright/shared/store"

	"github.com/gatewright/gatewright/shared/audit"
	"github.com/gatewright/gatewright/shared/seal"
)

// Link is a chained record: an entry, where it stands in its account's chain, and
// the proof. Exports have it as it is stored.
type Link struct {
	store.Rest

	// Seq numbers the account's records from 1, without a gap.
	Seq int64 `json:"seq" dynamodbav:"seq"`
	// Entry is the record's JSON, kept as the text that was hashed: what an entry
	// has may change, and what was signed may not.
	Entry string `json:"entry" dynamodbav:"entry"`
	// TTL is when it expires, in seconds since 1970, never before the one in front
	// of it, so that retention removes a chain's records in their order.
	TTL int64 `json:"ttl" dynamodbav:"ttl"`
	// Previous and PreviousTTL are the hash and the ttl of the record in front, ""
	// and 0 for the first: the oldest that is left tells that what was in front of
	// it has expired.
	Previous    string `json:"previous" dynamodbav:"previous"`
	PreviousTTL int64  `json:"previousTtl" dynamodbav:"previousTtl"`
	// Hash is over all of the above and the account, Signature over the hash.
	Hash      string `json:"hash" dynamodbav:"hash"`
	Signature string `json:"signature" dynamodbav:"signature"`
}

// textOf gives an entry's JSON, with what a newer release has put into it: it may be an older one that
// chains it.
func textOf(e audit.Entry) ([]byte, error) {
	whole, more, err := store.Whole(e)
	if err != nil {
		return nil, fmt.Errorf("encode an audit record: %w", err)
	}
	var text []byte
	if delete(whole, store.TTLAttribute); more { // which has a place of its own in the link
		text, err = json.Marshal(whole)
	} else {
		text, err = json.Marshal(e)
	}
	if err != nil {
		return nil, fmt.Errorf("encode an audit record: %w", err)
	}
	return text, nil
}

// entry decodes the record.
func (l Link) entry() (e audit.Entry, err error) {
	if err := json.Unmarshal([]byte(l.Entry), &e); err != nil {
		return audit.Entry{}, fmt.Errorf("decode audit record %d: %w", l.Seq, err)
	}
	return e, nil
}

// digest is the hash that the link has to have in the account's chain.
func (l Link) digest(accountID string) string {
	// Each part is quoted, so that no two links read alike.
	h := sha256.New()
	_, _ = fmt.Fprintf(h, "gatewright audit 1 %q %d %q %d %d %q", accountID, l.Seq, l.Previous, l.PreviousTTL, l.TTL, l.Entry)
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil))
}

// signingPurpose is part of the signing key, and never changes.
const signingPurpose = "audit-chain"

// signer signs what a chain holds, with a key made from the root key: who may
// write the table, and no more, cannot sign what they have written. Its public
// half is for everybody, so that an export can be verified anywhere.
type signer struct{ hasher *seal.Hasher }

func (s signer) key(ctx context.Context) (ed25519.PrivateKey, error) {
	text, err := s.hasher.Hash(ctx, "ed25519")
	if err != nil {
		return nil, fmt.Errorf("make the audit log's signing key: %w", err)
	}
	seed, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return nil, fmt.Errorf("make the audit log's signing key: %w", err)
	}
	return ed25519.NewKeyFromSeed(seed), nil
}

// PublicKey is what verifies the installation's chains.
func (t *Trail) PublicKey(ctx context.Context) (PublicKey, error) {
	key, err := t.signer.key(ctx)
	if err != nil {
		return nil, err
	}
	return PublicKey(key[ed25519.PrivateKeySize-ed25519.PublicKeySize:]), nil
}

// PublicKey is the public half of an installation's signing key.
type PublicKey ed25519.PublicKey

func (k PublicKey) String() string { return base64.RawURLEncoding.EncodeToString(k) }

// ParsePublicKey reads what String has written.
func ParsePublicKey(text string) (PublicKey, error) {
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(raw) != ed25519.PublicKeySize {
		return nil, errors.New("a public key has 43 characters, as `audit export` prints it")
	}
	return raw, nil
}

// signed is the text that a signature is over. what keeps the ends of chains and
// of exports apart.
func signed(what, accountID string, seq int64, hash string) []byte {
	return []byte("gatewright audit " + what + " " + strconv.Quote(accountID) + " " + strconv.FormatInt(seq, 10) + " " + hash)
}

func sign(key ed25519.PrivateKey, what, accountID string, seq int64, hash string) string {
	return base64.RawURLEncoding.EncodeToString(ed25519.Sign(key, signed(what, accountID, seq, hash)))
}

func (k PublicKey) holds(what, accountID string, seq int64, hash, signature string) bool {
	raw, err := base64.RawURLEncoding.Strict().DecodeString(signature) // one text for each signature
	return err == nil && ed25519.Verify(ed25519.PublicKey(k), signed(what, accountID, seq, hash), raw)
}
