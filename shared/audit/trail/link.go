package trail

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"fmt"

	"github.com/gatewright/gatewright/shared/audit"
	"github.com/gatewright/gatewright/shared/audit/proof"
	"github.com/gatewright/gatewright/shared/seal"
	"github.com/gatewright/gatewright/shared/store"
)

// Link is a chained record as it is stored: a proof.Link, whose fields say what these are.
type Link struct {
	store.Rest

	Seq         int64  `dynamodbav:"seq"`
	Entry       string `dynamodbav:"entry"`
	TTL         int64  `dynamodbav:"ttl"`
	Previous    string `dynamodbav:"previous"`
	PreviousTTL int64  `dynamodbav:"previousTtl"`
	Hash        string `dynamodbav:"hash"`
	Signature   string `dynamodbav:"signature"`
}

// stored is a link as the table has it, proved the link that the table has.
func stored(l proof.Link) Link {
	return Link{store.Rest{}, l.Seq, l.Entry, l.TTL, l.Previous, l.PreviousTTL, l.Hash, l.Signature}
}

func (l Link) proved() proof.Link {
	return proof.Link{Seq: l.Seq, Entry: l.Entry, TTL: l.TTL, Previous: l.Previous, PreviousTTL: l.PreviousTTL, Hash: l.Hash, Signature: l.Signature}
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
func (t *Trail) PublicKey(ctx context.Context) (proof.PublicKey, error) {
	key, err := t.signer.key(ctx)
	if err != nil {
		return nil, err
	}
	return proof.PublicOf(key), nil
}
