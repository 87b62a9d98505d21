package keys

import (
	"context"
	"fmt"

	"github.com/gatewright/gatewright/shared/credential"
	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/keys/overlay"
	"github.com/gatewright/gatewright/shared/limits"
	"github.com/gatewright/gatewright/shared/store"
)

// newKey is a key that is being made, with the text that only its maker sees.
type newKey struct {
	record keyRecord
	hash   hashRecord
	text   string
	// others are where a chosen text may be in use too, while the root key is rotated.
	others []store.Key
}

// withText is the key as its creation shows it.
func (k newKey) withText() Key {
	out := k.record.key()
	out.Text = k.text
	return out
}

// loadForKeys is load for a request that makes n keys of the consumer. The consumer counts its keys, and a commit holds only
// over the consumer as it was read. Fault: the refusal of limits.ConsumerKeys.
func (s *Service) loadForKeys(ctx context.Context, t target, n int) (view, error) {
	t.keys = s.counts.Of(t.AccountID, limits.ConsumerKeys)
	v, err := s.load(ctx, t)
	if err != nil {
		return v, err
	}
	return v, t.keys.Check(int64(v.consumer.KeyCount), int64(n))
}

// makeKeys prepares keys of the consumer in v, for a commit that brings the
// consumer to version revision. Their ids rise above all earlier ones.
func (s *Service) makeKeys(ctx context.Context, v view, in []NewKey, revision int64) ([]newKey, error) {
	now := s.now()
	last := v.consumer.LastKeyID
	out := make([]newKey, len(in))
	for i, n := range in {
		text := n.Text
		if text == "" {
			text = s.newText()
		}
		last = idAfter(last, s.parts.IDs.Ordered("key", 24))
		k := keyRecord{
			KeyState: overlay.KeyState{ConsumerID: v.consumer.ID, ExpiresOn: instantOf(n.ExpiresOn), Revision: revision},
			ID:       last, Description: n.Description,
			CreatedOn: now, UpdatedOn: now,
		}
		if err := s.setText(ctx, v.bucket, &k, text); err != nil {
			return nil, err
		}
		out[i] = newKey{record: k, hash: v.hashOf(k, revision), text: text}
		if n.Text == "" {
			continue // nobody else has it
		}
		var err error
		if out[i].others, err = s.elsewhere(ctx, text, k.Hash); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// setText puts a text into a key's record.
func (s *Service) setText(ctx context.Context, b bucketRecord, k *keyRecord, text string) error {
	var err error
	if k.Hash, err = s.hash.Hash(ctx, text); err != nil {
		return fmt.Errorf("hash an API key: %w", err)
	}
	k.Suffix, k.Sealed = credential.Suffix(text), nil
	if !b.Retrievable {
		return nil
	}
	if k.Sealed, err = s.seal.Seal(ctx, []byte(text), sealContext(k.ID)); err != nil {
		return fmt.Errorf("seal an API key: %w", err)
	}
	return nil
}

// elsewhere are the keys that a text may be in use under beside its hash: none but while the root key is rotated.
func (s *Service) elsewhere(ctx context.Context, text, hash string) ([]store.Key, error) {
	hashes, err := s.hash.Lookups(ctx, text)
	if err != nil {
		return nil, fmt.Errorf("hash an API key: %w", err)
	}
	var out []store.Key
	for _, its := range hashes {
		if its != hash {
			out = append(out, keyHashKey(its))
		}
	}
	return out, nil
}

// unused are the writes that hold while a text is in use at none of the keys.
func unused(at []store.Key) []store.Write {
	writes := make([]store.Write, len(at))
	for i, key := range at {
		writes[i] = store.Check(key, store.Absent()).Else(errKeyInUse)
	}
	return writes
}

// hashOf makes the gateway's record of a key.
func (v view) hashOf(k keyRecord, stamped int64) hashRecord {
	return hashRecord{
		KeyState: k.KeyState, KeyID: k.ID,
		AccountID: v.bucket.AccountID, BucketID: v.bucket.ID, Bucket: v.bucket.Name, Generation: v.bucket.Generation,
		ConsumerName: v.consumer.Name, Metadata: v.consumer.Metadata, Stamped: stamped,
	}
}

// idAfter gives id, or when a clock went back the next id after last.
func idAfter(last, id string) string {
	const from, to = len("key_"), len("key_") + 8 // the digits of the time
	if id > last {
		return id
	}
	b := []byte(last[:to])
	for i := to - 1; i >= from; i-- {
		switch b[i] {
		case 'z':
			b[i] = '0'
			continue
		case '9':
			b[i] = 'A'
		case 'Z':
			b[i] = 'a'
		default:
			b[i]++
		}
		break
	}
	return string(b) + id[to:]
}

// createKeys are the writes of new keys: two items each, and a check where a text may be in use under another root key.
func createKeys(g generation, consumer string, made []newKey) []store.Write {
	writes := make([]store.Write, 0, 2*len(made))
	for _, k := range made {
		writes = append(writes, unused(k.others)...)
		writes = append(writes,
			store.Create(keyHashKey(k.record.Hash), k.hash).Else(errKeyInUse),
			store.Create(consumerKeyKey(g, consumer, k.record.ID), k.record).Else(store.ErrStale))
	}
	return writes
}

var errKeyInUse = fault.New(fault.Conflict, "An API key with this text exists. Choose another one, or leave it out to have one made.")
