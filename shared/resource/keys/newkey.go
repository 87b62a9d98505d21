package keys

import (
	"context"
	"fmt"

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/core/limits"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/format/credential"
	"github.com/gatewright/gatewright/shared/resource/keys/overlay"
)

// newKey is a key that is being created: its two records and its text.
type newKey struct {
	record keyRecord
	hash   hashRecord
	text   string
	// lookupKeys are the table keys, other than that of hash, under which a hash record with a chosen text may exist.
	// There are such table keys only during a rotation of the root key.
	lookupKeys []store.Key
}

// withText returns the public form of the key with its text.
func (k newKey) withText() Key {
	out := k.record.toKey()
	out.Text = k.text
	return out
}

// loadForKeys calls load for a request that creates n keys of a consumer. It returns a fault if the consumer would then
// exceed limits.ConsumerKeys. The limit is exact, because the consumer's record counts its keys, and the commit fails
// if the record has changed since it was read.
func (s *Service) loadForKeys(ctx context.Context, t target, n int) (view, error) {
	t.keyLimit = s.counts.NewCounter(t.AccountID, limits.ConsumerKeys)
	v, err := s.load(ctx, t)
	if err != nil {
		return v, err
	}
	return v, t.keyLimit.Check(int64(v.consumer.KeyCount), int64(n))
}

// prepareKeys returns new keys for the consumer in v. revision becomes their Revision and MetadataRevision. Their ids
// are greater than the ids of all earlier keys of the consumer.
func (s *Service) prepareKeys(ctx context.Context, v view, in []NewKey, revision int64) ([]newKey, error) {
	now := s.now()
	lastID := v.consumer.LastKeyID
	out := make([]newKey, len(in))
	for i, n := range in {
		text := n.Text
		if text == "" {
			text = s.newText()
		}
		lastID = idAfter(lastID, s.parts.IDs.Ordered("key", 24))
		k := keyRecord{
			KeyState: overlay.KeyState{ConsumerID: v.consumer.ID, ExpiresOn: instantOf(n.ExpiresOn), Revision: revision},
			ID:       lastID, Description: n.Description,
			CreatedOn: now, UpdatedOn: now,
		}
		if err := s.setText(ctx, v.bucket, &k, text); err != nil {
			return nil, err
		}
		out[i] = newKey{record: k, hash: v.newHashRecord(k, revision), text: text}
		if n.Text == "" {
			continue // a generated text is unique
		}
		var err error
		if out[i].lookupKeys, err = s.otherLookupKeys(ctx, text, k.Hash); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// setText stores a text in a key's record: its hash, its suffix and, if the bucket is retrievable, the sealed text.
func (s *Service) setText(ctx context.Context, b bucketRecord, k *keyRecord, text string) error {
	var err error
	if k.Hash, err = s.hasher.Hash(ctx, text); err != nil {
		return fmt.Errorf("hash an API key: %w", err)
	}
	k.Suffix, k.Sealed = credential.Suffix(text), nil
	if !b.Retrievable {
		return nil
	}
	if k.Sealed, err = s.sealer.Seal(ctx, []byte(text), sealContext(k.ID)); err != nil {
		return fmt.Errorf("seal an API key: %w", err)
	}
	return nil
}

// otherLookupKeys returns the table keys under which the hash record of a text may be stored, without the table key for
// hash. If hash is the text's current hash, there are others only during a rotation of the root key.
func (s *Service) otherLookupKeys(ctx context.Context, text, hash string) ([]store.Key, error) {
	hashes, err := s.hasher.Lookups(ctx, text)
	if err != nil {
		return nil, fmt.Errorf("hash an API key: %w", err)
	}
	var out []store.Key
	for _, h := range hashes {
		if h != hash {
			out = append(out, keyHashKey(h))
		}
	}
	return out, nil
}

// unusedChecks returns writes that fail with errKeyInUse if a hash record with one of the table keys exists.
func unusedChecks(lookupKeys []store.Key) []store.Write {
	writes := make([]store.Write, len(lookupKeys))
	for i, key := range lookupKeys {
		writes[i] = store.Check(key, store.Absent()).Else(errKeyInUse)
	}
	return writes
}

// idAfter returns id if it is greater than previous. Otherwise, it returns id with the time of previous plus one. This
// happens if the clock was set back, or if another process has created ids faster than one in a millisecond: their
// times are then ahead of its clock (ids.Source.Ordered).
func idAfter(previous, id string) string {
	const from, to = len("key_"), len("key_") + 8 // the positions of the time, in base 62
	if id > previous {
		return id
	}
	b := []byte(previous[:to])
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

// createKeyWrites returns the writes that create keys: two records for each key, and a check for each of its
// lookupKeys.
func createKeyWrites(g generation, consumer string, newKeys []newKey) []store.Write {
	writes := make([]store.Write, 0, 2*len(newKeys))
	for _, k := range newKeys {
		writes = append(writes, unusedChecks(k.lookupKeys)...)
		writes = append(writes,
			store.Create(keyHashKey(k.record.Hash), k.hash).Else(errKeyInUse),
			store.Create(keyRecordKey(g, consumer, k.record.ID), k.record).Else(store.ErrStale))
	}
	return writes
}

var errKeyInUse = fault.New(fault.Conflict,
	"An API key with this text exists. Choose another one, or leave it out to have one made.")
