package keys

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gatewright/gatewright/shared/audit"
	"github.com/gatewright/gatewright/shared/credential"
	"github.com/gatewright/gatewright/shared/keys/overlay"
	"github.com/gatewright/gatewright/shared/store"
)

// Key is an API key as its consumer's owner sees it.
type Key struct {
	ID          string
	Description string
	// ExpiresOn is when it stops to open anything, nil for never.
	ExpiresOn *time.Time
	// Text is the key, or its suffix behind asterisks, or "", as the reader's
	// Format says.
	Text                 string
	CreatedOn, UpdatedOn time.Time
}

// NewKey is what a key is made from.
type NewKey struct {
	// ExpiresOn may be past; nil is never.
	ExpiresOn   *time.Time
	Description string
	// Text is a key that its owner chose, "" to have one made: 16 to 256
	// printable ASCII characters, unique in the installation.
	Text string
}

// KeyPatch is a change of a key.
type KeyPatch struct {
	ExpiresOn   store.Patch[time.Time]
	Description store.Patch[string]
	// Text replaces the key itself unless it is "".
	Text string
}

// keyRecord is a key as its owner sees it, with the consumer's others.
type keyRecord struct {
	store.Rest

	overlay.KeyState
	ID          string `dynamodbav:"id"`
	Description string `dynamodbav:"description,omitempty"`
	// Hash leads to the hashRecord.
	Hash string `dynamodbav:"hash"`
	// Sealed is the text, absent in a bucket that does not keep it.
	Sealed    []byte    `dynamodbav:"sealed,omitempty"`
	Suffix    string    `dynamodbav:"suffix"`
	CreatedOn time.Time `dynamodbav:"createdOn"`
	UpdatedOn time.Time `dynamodbav:"updatedOn"`
}

// hashRecord is a key as the gateway sees it: all that a check needs but the
// bucket's own state.
type hashRecord struct {
	store.Rest

	overlay.KeyState
	KeyID        string `dynamodbav:"keyId"`
	AccountID    string `dynamodbav:"accountId"`
	BucketID     string `dynamodbav:"bucketId"`
	Bucket       string `dynamodbav:"bucket"`
	Generation   int    `dynamodbav:"generation"`
	ConsumerName string `dynamodbav:"consumerName"`
	// Metadata is the consumer's when its version was Stamped.
	Metadata string `dynamodbav:"metadata,omitempty"`
	Stamped  int64  `dynamodbav:"stamped"`
}

// Held says whose an API key is, and until when it opens something.
type Held struct {
	AccountID, Bucket, Consumer, ID string
	ExpiresOn                       *time.Time // nil: for ever
}

// HeldBy reads a record that IsCredential has told.
func HeldBy(item store.Item) (Held, error) {
	var r hashRecord
	if err := store.Decode(item, &r); err != nil {
		return Held{}, fmt.Errorf("read whose an API key is: %w", err)
	}
	return Held{r.AccountID, r.Bucket, r.ConsumerName, r.KeyID, r.ExpiresOn}, nil
}

func (k keyRecord) resource() audit.Resource { return audit.Resource{Type: "api-key", ID: k.ID} }

func sealContext(keyID string) string { return "consumer-key/" + keyID }

func (k keyRecord) key() Key {
	return Key{ID: k.ID, Description: k.Description, ExpiresOn: k.ExpiresOn, CreatedOn: k.CreatedOn, UpdatedOn: k.UpdatedOn}
}

// remove are the writes that delete a key, if it is there and has the text that
// was read. The record of the text tells both: whatever deletes a key or gives it
// another text deletes that record too. What else of the key has changed is
// deleted with it.
func (k keyRecord) remove(g generation, consumer string) []store.Write {
	return []store.Write{
		store.Delete(consumerKeyKey(g, consumer, k.ID)),
		store.Delete(keyHashKey(k.Hash)).
			If(store.Equal(store.At("keyId"), k.ID)).Else(store.ErrStale),
	}
}

// show gives a key in a format. A bucket that keeps no texts shows the suffix.
func (s *Service) show(ctx context.Context, k keyRecord, f Format) (Key, error) {
	out := k.key()
	switch {
	case f == None:
	case f == Visible && k.Sealed != nil:
		text, err := s.seal.Open(ctx, k.Sealed, sealContext(k.ID))
		if err != nil {
			return Key{}, fmt.Errorf("open API key %s: %w", k.ID, err)
		}
		out.Text = string(text)
	default:
		out.Text = credential.Masked(k.Suffix)
	}
	return out, nil
}

func (p *problems) newKey(at string, in NewKey) {
	p.description(at+"description", in.Description)
	p.expiry(at+"expiresOn", in.ExpiresOn)
	if in.Text != "" {
		p.customKey(at+"key", in.Text)
	}
}

// expiry refuses what RFC 3339 cannot spell in UTC.
func (p *problems) expiry(location string, t *time.Time) {
	if t != nil && (t.UTC().Year() < 1 || t.UTC().Year() > 9999) {
		p.Add(location, "has to be a timestamp of the years 1 to 9999")
	}
}

// CreateKey makes a key and shows its text, once for all in a bucket that does
// not keep it. A text in use is a Conflict.
func (s *Service) CreateKey(ctx context.Context, at ConsumerAt, in NewKey) (Key, error) {
	var wrong problems
	wrong.newKey("", in)
	if err := wrong.Err(); err != nil {
		return Key{}, err
	}
	out, err := s.createInOneTransaction(ctx, at, []NewKey{in})
	if err != nil {
		return Key{}, err
	}
	return out[0], nil
}

// errTooLarge is what createInOneTransaction answers where the keys take more writes than a transaction has.
var errTooLarge = errors.New("keys: one transaction does not have so many keys")

// createInOneTransaction makes at most keysPerTransaction keys, or answers errTooLarge and makes none.
func (s *Service) createInOneTransaction(ctx context.Context, at ConsumerAt, in []NewKey) ([]Key, error) {
	var out []Key
	change := func(ctx context.Context) error {
		v, err := s.loadForKeys(ctx, target{ConsumerAt: at}, len(in))
		if err != nil {
			return err
		}
		made, err := s.makeKeys(ctx, v, in, v.consumer.Version+1)
		if err != nil {
			return err
		}
		if len(made) > perTransaction(made) {
			return errTooLarge
		}
		out = out[:0]
		resources := []audit.Resource{v.consumer.resource()}
		for _, k := range made {
			out = append(out, k.withText())
			resources = append(resources, k.record.resource())
		}
		writes := append([]store.Write{
			v.consumer.touch(v.g,
				store.Add(store.At("keyCount"), int64(len(made))),
				store.Set(store.At("lastKeyId"), made[len(made)-1].record.ID)),
			audit.Record(ctx, resources...),
		}, createKeys(v.g, v.consumer.Name, made)...)
		return s.table.Commit(ctx, writes...)
	}
	err := s.retryTextInUse(ctx, in, func() error { return s.table.Again(ctx, change) })
	return out, err
}

// ReadKey gives a key.
func (s *Service) ReadKey(ctx context.Context, at ConsumerAt, id string, f Format) (Key, error) {
	v, err := s.load(ctx, target{ConsumerAt: at, keyID: id})
	if err != nil {
		return Key{}, err
	}
	k, _ := v.effective(v.key)
	return s.show(ctx, k, f)
}

// UpdateKey changes a key and answers it masked.
func (s *Service) UpdateKey(ctx context.Context, at ConsumerAt, id string, in KeyPatch) (Key, error) {
	var wrong problems
	wrong.newKey("", NewKey{ExpiresOn: in.ExpiresOn.Value, Description: in.Description.Over(""), Text: in.Text})
	if err := wrong.Err(); err != nil {
		return Key{}, err
	}
	var out Key
	change := func(ctx context.Context) error {
		v, err := s.load(ctx, target{ConsumerAt: at, keyID: id})
		if err != nil {
			return err
		}
		// The expiry that a roll in flight gave the key is written with the
		// change, and the new revision puts the key out of the roll's reach.
		k, _ := v.effective(v.key)
		k.Revision = v.consumer.Version + 1
		k.Description = in.Description.Over(k.Description)
		k.UpdatedOn = s.now()
		if in.ExpiresOn.Set {
			k.ExpiresOn = instantOf(in.ExpiresOn.Value)
		}
		var others []store.Key
		if in.Text != "" {
			if err := s.setText(ctx, v.bucket, &k, in.Text); err != nil {
				return err
			}
			if others, err = s.elsewhere(ctx, in.Text, k.Hash); err != nil {
				return err
			}
			// The same text again, under the other root key: it is the key's own, and moves.
			others = slices.DeleteFunc(others, func(at store.Key) bool { return at == keyHashKey(v.key.Hash) })
		}
		writes := append([]store.Write{
			v.consumer.touch(v.g),
			audit.Record(ctx, k.resource(), v.consumer.resource()),
		}, append(unused(others), v.replace(v.key, k)...)...)
		if err := s.table.Commit(ctx, writes...); err != nil {
			return err
		}
		out, err = s.show(ctx, k, Masked)
		return err
	}
	err := s.retryTextInUse(ctx, []NewKey{{Text: in.Text}}, func() error { return s.table.Again(ctx, change) })
	return out, err
}

// replace are the writes that bring a key from old to k, whose text may differ.
func (v view) replace(old, k keyRecord) []store.Write {
	key := consumerKeyKey(v.g, v.consumer.Name, k.ID)
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
		store.Create(keyHashKey(k.Hash), v.hashOf(k, k.Revision)).Else(errKeyInUse),
		store.Delete(keyHashKey(old.Hash)).If(store.Equal(store.At("keyId"), k.ID)).Else(store.ErrStale))
}

// DeleteKey deletes a key at once.
func (s *Service) DeleteKey(ctx context.Context, at ConsumerAt, id string) error {
	return s.table.Again(ctx, func(ctx context.Context) error {
		v, err := s.load(ctx, target{ConsumerAt: at, keyID: id})
		if err != nil {
			return err
		}
		writes := append([]store.Write{
			v.consumer.touch(v.g, store.Add(store.At("keyCount"), -1)),
			audit.Record(ctx, v.key.resource(), v.consumer.resource()),
		}, v.key.remove(v.g, v.consumer.Name)...)
		return s.table.Commit(ctx, writes...)
	})
}
