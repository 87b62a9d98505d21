package trail

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"fmt"

	"github.com/gatewright/gatewright/shared/core/audit"
	"github.com/gatewright/gatewright/shared/core/audit/proof"
	"github.com/gatewright/gatewright/shared/core/seal"
	"github.com/gatewright/gatewright/shared/core/store"
)

// Link is a proof.Link as the table stores it. proof.Link describes the fields.
type Link struct {
	store.UnknownAttributes

	Seq         int64  `dynamodbav:"seq"`
	Entry       string `dynamodbav:"entry"`
	TTL         int64  `dynamodbav:"ttl"`
	Previous    string `dynamodbav:"previous"`
	PreviousTTL int64  `dynamodbav:"previousTtl"`
	Hash        string `dynamodbav:"hash"`
	Signature   string `dynamodbav:"signature"`
}

// fromProof converts a proof.Link to a Link, and toProof converts it back.
func fromProof(l proof.Link) Link {
	return Link{store.UnknownAttributes{}, l.Seq, l.Entry, l.TTL, l.Previous, l.PreviousTTL, l.Hash, l.Signature}
}

func (l Link) toProof() proof.Link {
	return proof.Link{
		Seq: l.Seq, Entry: l.Entry, TTL: l.TTL, Previous: l.Previous, PreviousTTL: l.PreviousTTL,
		Hash: l.Hash, Signature: l.Signature,
	}
}

// encodeEntry returns an entry's JSON. It includes attributes that only
// a newer release knows, because an older release may chain the entry.
func encodeEntry(e audit.Entry) ([]byte, error) {
	attributes, hasUnknown, err := store.AllAttributes(e)
	if err != nil {
		return nil, fmt.Errorf("encode an audit record: %w", err)
	}
	var text []byte
	if delete(attributes, store.TTLAttribute); hasUnknown { // the Link has a separate field for the TTL
		text, err = json.Marshal(attributes)
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

// signingPurpose is the purpose from which the signing key is derived. It must never change.
const signingPurpose = "audit-chain"

// signer signs the records of a chain, with a key derived from the root key. So an attacker who can only
// write to the table cannot sign. The public key is published, so that anyone can verify an export.
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

// PublicKey returns the key that verifies the installation's chains.
func (t *Trail) PublicKey(ctx context.Context) (proof.PublicKey, error) {
	key, err := t.signer.key(ctx)
	if err != nil {
		return nil, err
	}
	return proof.PublicKeyOf(key), nil
}
