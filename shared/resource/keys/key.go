package keys

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gatewright/gatewright/shared/core/audit"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/format/credential"
	"github.com/gatewright/gatewright/shared/resource/keys/overlay"
)

// Key is the public form of an API key.
type Key struct {
	ID          string
	Description string
	// ExpiresOn is the time when the key expires, nil for never.
	ExpiresOn *time.Time
	// Text depends on the requested Format: it is the key itself, asterisks followed by the end of the key, or "".
	Text                 string
	CreatedOn, UpdatedOn time.Time
}

// NewKey is the input for creating a key.
type NewKey struct {
	// ExpiresOn is the time when the key expires, nil for never. It may be in the past.
	ExpiresOn   *time.Time
	Description string
	// Text is the text of the key, chosen by its owner: 16 to 256 printable ASCII characters without spaces, unique in
	// the installation. "" generates a text.
	Text string
}

// KeyPatch is a change of a key.
type KeyPatch struct {
	ExpiresOn   store.Patch[time.Time]
	Description store.Patch[string]
	// Text, if not "", replaces the text of the key.
	Text string
}

// consumerKeyPrefix is the key prefix of the API keys of consumers (keyRecord). Each name of a consumer has a partition
// with the keys, sorted by id, which is the order of their creation. The partition can also contain keys of a deleted
// consumer with the same name (keyRecord.ConsumerID).
const consumerKeyPrefix store.KeyPrefix = "consumer-keys"

// keyRecord is the record of an API key from which management requests read it. Gateways read the hashRecord.
type keyRecord struct {
	store.UnknownAttributes

	overlay.KeyState
	ID          string `dynamodbav:"id"`
	Description string `dynamodbav:"description,omitempty"`
	// Hash is the keyed hash of the text. The table key of the hashRecord contains it.
	Hash string `dynamodbav:"hash"`
	// Sealed is the sealed text. It is absent if the bucket is not retrievable.
	Sealed    []byte    `dynamodbav:"sealed,omitempty"`
	Suffix    string    `dynamodbav:"suffix"`
	CreatedOn time.Time `dynamodbav:"createdOn"`
	UpdatedOn time.Time `dynamodbav:"updatedOn"`
}

func keyRecordKey(g generation, consumer, keyID string) store.Key {
	return store.KeyIn(consumerKeyPartition(g, consumer), keyID)
}

func consumerKeyPartition(g generation, consumer string) string {
	return consumerKeyPrefix.Partition(string(g), consumer)
}

func (k keyRecord) resource() audit.Resource { return audit.Resource{Type: "api-key", ID: k.ID} }

func sealContext(keyID string) string { return "consumer-key/" + keyID }

func (k keyRecord) toKey() Key {
	return Key{
		ID: k.ID, Description: k.Description, ExpiresOn: k.ExpiresOn, CreatedOn: k.CreatedOn,
		UpdatedOn: k.UpdatedOn,
	}
}

// deleteWrites returns the writes that delete a key. They fail with store.ErrStale if the key no longer exists or if
// its text has changed since k was read. The condition on the hash record is enough for both, because every deletion of
// a key and every replacement of its text also deletes the hash record. The writes succeed despite other changes of the
// key.
func (k keyRecord) deleteWrites(g generation, consumer string) []store.Write {
	return []store.Write{
		store.Delete(keyRecordKey(g, consumer, k.ID)),
		store.Delete(keyHashKey(k.Hash)).
			If(store.Equal(store.At("keyId"), k.ID)).Else(store.ErrStale),
	}
}

// formatKey returns the public form of a key with its text in a format. If the bucket is not retrievable, Visible has
// the same result as Masked.
func (s *Service) formatKey(ctx context.Context, k keyRecord, f Format) (Key, error) {
	out := k.toKey()
	switch {
	case f == None:
	case f == Visible && k.Sealed != nil:
		text, err := s.sealer.Open(ctx, k.Sealed, sealContext(k.ID))
		if err != nil {
			return Key{}, fmt.Errorf("open API key %s: %w", k.ID, err)
		}
		out.Text = string(text)
	default:
		out.Text = credential.Masked(k.Suffix)
	}
	return out, nil
}

func (p *problems) keySpec(location string, in NewKey) {
	p.description(location+"description", in.Description)
	p.expiry(location+"expiresOn", in.ExpiresOn)
	if in.Text != "" {
		p.customKey(location+"key", in.Text)
	}
}

// expiry adds an error if t, in UTC, is not in the years 1 to 9999. RFC 3339 cannot represent later years. location
// names the field.
func (p *problems) expiry(location string, t *time.Time) {
	if t != nil && (t.UTC().Year() < 1 || t.UTC().Year() > 9999) {
		p.Add(location, "has to be a timestamp of the years 1 to 9999")
	}
}

// CreateKey creates a key and returns it with its text. If the bucket is not retrievable, the text is never shown
// again. CreateKey returns Conflict if the text is in use, and Forbidden if the consumer would exceed
// limits.ConsumerKeys.
func (s *Service) CreateKey(ctx context.Context, at ConsumerLocator, in NewKey) (Key, error) {
	var invalid problems
	invalid.keySpec("", in)
	if err := invalid.Err(); err != nil {
		return Key{}, err
	}
	out, err := s.createInTransaction(ctx, at, []NewKey{in})
	if err != nil {
		return Key{}, err
	}
	return out[0], nil
}

// errTooLarge is the error of createInTransaction for keys that need more writes than one transaction allows.
var errTooLarge = errors.New("keys: one transaction does not have so many keys")

// createInTransaction creates keys. It returns errTooLarge and creates none if there are more than maxNewKeys.
func (s *Service) createInTransaction(ctx context.Context, at ConsumerLocator, in []NewKey) ([]Key, error) {
	var out []Key
	change := func(ctx context.Context) error {
		v, err := s.loadForKeys(ctx, target{ConsumerLocator: at}, len(in))
		if err != nil {
			return err
		}
		created, err := s.prepareKeys(ctx, v, in, v.consumer.Version+1)
		if err != nil {
			return err
		}
		if len(created) > maxNewKeys(created) {
			return errTooLarge
		}
		out = out[:0]
		resources := []audit.Resource{v.consumer.resource()}
		for _, k := range created {
			out = append(out, k.withText())
			resources = append(resources, k.record.resource())
		}
		writes := append([]store.Write{
			v.consumer.versionedWrite(v.generation,
				store.Add(store.At("keyCount"), int64(len(created))),
				store.Set(store.At("lastKeyId"), created[len(created)-1].record.ID)),
			audit.Record(ctx, resources...),
		}, createKeyWrites(v.generation, v.consumer.Name, created)...)
		return s.table.Commit(ctx, writes...)
	}
	err := s.retryTextInUse(ctx, in, func() error { return s.table.RunInTx(ctx, change) })
	return out, err
}

// ReadKey returns a key.
func (s *Service) ReadKey(ctx context.Context, at ConsumerLocator, id string, f Format) (Key, error) {
	v, err := s.load(ctx, target{ConsumerLocator: at, keyID: id})
	if err != nil {
		return Key{}, err
	}
	k, _ := v.effective(v.key)
	return s.formatKey(ctx, k, f)
}

// UpdateKey changes a key and returns it with a masked text. It returns Conflict if the new text is in use.
func (s *Service) UpdateKey(ctx context.Context, consumer ConsumerLocator, id string, in KeyPatch) (Key, error) {
	var invalid problems
	invalid.keySpec("", NewKey{ExpiresOn: in.ExpiresOn.Value, Description: in.Description.ApplyTo(""), Text: in.Text})
	if err := invalid.Err(); err != nil {
		return Key{}, err
	}
	var out Key
	change := func(ctx context.Context) error {
		v, err := s.load(ctx, target{ConsumerLocator: consumer, keyID: id})
		if err != nil {
			return err
		}
		// effective applies the expiry of a roll in progress, and the commit stores it. With its new revision, the key
		// is no longer part of the roll.
		k, _ := v.effective(v.key)
		k.Revision = v.consumer.Version + 1
		k.Description = in.Description.ApplyTo(k.Description)
		k.UpdatedOn = s.now()
		if in.ExpiresOn.Set {
			k.ExpiresOn = instantOf(in.ExpiresOn.Value)
		}
		var otherKeys []store.Key
		if in.Text != "" {
			if err := s.setText(ctx, v.bucket, &k, in.Text); err != nil {
				return err
			}
			if otherKeys, err = s.otherLookupKeys(ctx, in.Text, k.Hash); err != nil {
				return err
			}
			// If the text has not changed but is hashed with the new root key now, the hash record under the old hash belongs to
			// this key. replaceWrites deletes it.
			otherKeys = slices.DeleteFunc(otherKeys, func(other store.Key) bool { return other == keyHashKey(v.key.Hash) })
		}
		writes := append([]store.Write{
			v.consumer.versionedWrite(v.generation),
			audit.Record(ctx, k.resource(), v.consumer.resource()),
		}, append(unusedChecks(otherKeys), v.replaceWrites(v.key, k)...)...)
		if err := s.table.Commit(ctx, writes...); err != nil {
			return err
		}
		out, err = s.formatKey(ctx, k, Masked)
		return err
	}
	err := s.retryTextInUse(ctx, []NewKey{{Text: in.Text}}, func() error { return s.table.RunInTx(ctx, change) })
	return out, err
}

// replaceWrites returns the writes that replace a key. old is the record of the key that is replaced, and k is its new
// record. The text of the key may change. The writes fail with store.ErrStale if the key has changed since old was
// read, and with errKeyInUse if another key has the new text.
func (v view) replaceWrites(old, k keyRecord) []store.Write {
	key := keyRecordKey(v.generation, v.consumer.Name, k.ID)
	writes := []store.Write{
		store.Put(key, k).If(store.Equal(store.At("revision"), old.Revision)).Else(store.ErrStale),
	}
	if old.Hash == k.Hash {
		return append(writes, store.Update(keyHashKey(k.Hash),
			store.Set(store.At("revision"), k.Revision),
			setOrRemove("expiresOn", k.ExpiresOn, k.ExpiresOn == nil),
		).If(store.Equal(store.At("keyId"), k.ID)).Else(store.ErrStale))
	}
	return append(writes,
		store.Create(keyHashKey(k.Hash), v.newHashRecord(k, k.Revision)).Else(errKeyInUse),
		store.Delete(keyHashKey(old.Hash)).If(store.Equal(store.At("keyId"), k.ID)).Else(store.ErrStale))
}

// DeleteKey deletes a key. When DeleteKey returns, Verify refuses the key. Gateways can use an earlier result of Verify
// until it expires.
func (s *Service) DeleteKey(ctx context.Context, at ConsumerLocator, id string) error {
	return s.table.RunInTx(ctx, func(ctx context.Context) error {
		v, err := s.load(ctx, target{ConsumerLocator: at, keyID: id})
		if err != nil {
			return err
		}
		writes := append([]store.Write{
			v.consumer.versionedWrite(v.generation, store.Add(store.At("keyCount"), -1)),
			audit.Record(ctx, v.key.resource(), v.consumer.resource()),
		}, v.key.deleteWrites(v.generation, v.consumer.Name)...)
		return s.table.Commit(ctx, writes...)
	})
}
