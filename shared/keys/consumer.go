package keys

import (
	"context"
	"encoding/json"
	"maps"
	"time"

	"github.com/gatewright/gatewright/shared/audit"
	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/keys/overlay"
	"github.com/gatewright/gatewright/shared/limits"
	"github.com/gatewright/gatewright/shared/store"
)

// Consumer is a consumer as its owner sees it.
type Consumer struct {
	ID, Name    string
	Description string
	Tags        map[string]string
	// Metadata is a JSON object, nil for none. The gateway gives it to routes
	// as the user's data.
	Metadata             json.RawMessage
	CreatedOn, UpdatedOn time.Time
	// Keys, Managers and Invites are nil unless they were asked for. Keys are
	// the newest first, at most maxIncludedKeys.
	Keys     []Key
	Managers []Manager
	Invites  []Invite
}

// Include says what of a consumer a reader wants besides its own fields.
type Include struct {
	Keys, Managers, Invites bool
	// Format of the keys.
	Format Format
	// Fits, if not nil, begins a page of a list of consumers: what it answers is
	// called with each in its order. The page ends before the first for which that
	// is false, and no more consumers and keys are read.
	Fits func() func(Consumer) bool
}

// maxIncludedKeys is how many keys a consumer in a list or a read carries at
// most; the list of its keys gives all.
const maxIncludedKeys = 100

// NewConsumer is what a consumer is made from.
type NewConsumer struct {
	// Name has 1 to 128 of the characters a-z, 0-9, _ and -, and is the `sub`
	// of the consumer's keys in the gateway.
	Name        string
	Description string
	// Tags has at most 5 pairs.
	Tags map[string]string
	// Metadata is a JSON object of at most 1,024 bytes, or nil.
	Metadata json.RawMessage
	// Managers are at most 50: those without a Sub are invited.
	Managers []NewManager
	// WithKey makes an API key too, which the answer shows.
	WithKey bool
}

// ConsumerPatch is a change of a consumer.
type ConsumerPatch struct {
	Description store.Patch[string]
	Tags        store.Patch[map[string]string]
	Metadata    store.Patch[json.RawMessage]
}

// consumerRecord is a consumer with its managers. Every change of the consumer
// or of one of its keys raises Version, on which the next change depends.
type consumerRecord struct {
	store.Rest

	ID          string            `dynamodbav:"id"`
	Name        string            `dynamodbav:"name"`
	Description string            `dynamodbav:"description,omitempty"`
	Tags        map[string]string `dynamodbav:"tags,omitempty"`
	Metadata    string            `dynamodbav:"metadata,omitempty"`
	Managers    []Manager         `dynamodbav:"managers,omitempty"`
	Invites     []Invite          `dynamodbav:"invites,omitempty"`
	CreatedOn   time.Time         `dynamodbav:"createdOn"`
	UpdatedOn   time.Time         `dynamodbav:"updatedOn"`
	Version     int64             `dynamodbav:"version"`
	// KeyCount is how many keys there are to see; LastKeyID is the newest one
	// ever made, which the next one's id exceeds.
	KeyCount  int    `dynamodbav:"keyCount"`
	LastKeyID string `dynamodbav:"lastKeyId,omitempty"`
	// Seq is the bucket's Seq at the last large change of the consumer: a bucket
	// that has counted less was read before it, and says nothing of this consumer.
	Seq int64 `dynamodbav:"seq,omitempty"`
}

// consumerPointer leads from a consumer's id to its name.
type consumerPointer struct {
	store.Rest

	Name string `dynamodbav:"name"`
}

// carries reports whether the consumer has all the tags.
func (c consumerRecord) carries(tags map[string]string) bool {
	for key, value := range tags {
		if have, ok := c.Tags[key]; !ok || have != value {
			return false
		}
	}
	return true
}

func (c consumerRecord) resource() audit.Resource {
	return audit.Resource{Type: "consumer", ID: c.ID, Metadata: map[string]string{"name": c.Name}}
}

// consumer gives the public form. Keys are added by the caller.
func (c consumerRecord) consumer(in Include) Consumer {
	out := Consumer{
		ID: c.ID, Name: c.Name, Description: c.Description, Tags: c.Tags,
		CreatedOn: c.CreatedOn, UpdatedOn: c.UpdatedOn,
	}
	if c.Metadata != "" {
		out.Metadata = json.RawMessage(c.Metadata)
	}
	if in.Managers {
		out.Managers = append([]Manager{}, c.Managers...)
	}
	if in.Invites {
		out.Invites = append([]Invite{}, c.Invites...)
	}
	return out
}

// touch is a write to the consumer as it was read: as every write of a decision
// it holds only for that version, so that it fails as stale when the consumer, or
// one of its keys, has changed since.
func (c consumerRecord) touch(g generation, changes ...store.Change) store.Write {
	return store.Update(consumerKey(g, c.Name), append(changes, store.Set(store.At("version"), c.Version+1))...)
}

// CreateConsumer makes a consumer, with a key if asked. A name in use is a
// Conflict.
//
// No write depends on the bucket's record: it would be part of every creation,
// and DynamoDB refuses one of two transactions that share an item. A consumer
// that is made while its bucket is deleted is in a dead generation, which
// nobody reads; the operation that empties it reads it a second time.
func (s *Service) CreateConsumer(ctx context.Context, at BucketAt, in NewConsumer) (Consumer, error) {
	var wrong problems
	wrong.consumerName(in.Name)
	wrong.description("description", in.Description)
	wrong.tags(in.Tags, maxConsumerTags)
	metadata := wrong.metadata(in.Metadata)
	wrong.managers(in.Managers)
	if err := wrong.Err(); err != nil {
		return Consumer{}, err
	}
	var out Consumer
	err := s.table.Again(ctx, func(ctx context.Context) error {
		tally := s.counts.Of(at.AccountID, limits.Consumers)
		v, err := s.load(ctx, target{ConsumerAt: ConsumerAt{BucketAt: at}, counts: in.Name, consumers: tally})
		if err != nil {
			return err
		}
		room, err := s.countIn(ctx, v, tally, in.Name)
		if err != nil {
			return err
		}
		now := s.now()
		c := consumerRecord{
			ID: s.parts.IDs.New("csmr", 24), Name: in.Name, Description: in.Description,
			Tags: maps.Clone(in.Tags), Metadata: metadata,
			CreatedOn: now, UpdatedOn: now, Version: 1,
		}
		s.addManagers(&c, in.Managers, now)
		v.consumer = c
		resources := []audit.Resource{c.resource()}
		var made []newKey
		if in.WithKey {
			if made, err = s.makeKeys(ctx, v, []NewKey{{}}, c.Version); err != nil {
				return err
			}
			c.KeyCount, c.LastKeyID = 1, made[0].record.ID
			resources = append(resources, made[0].record.resource())
		}
		writes := []store.Write{
			store.Create(consumerKey(v.g, c.Name), c).Else(errConsumerNameInUse),
			store.Create(consumerIDKey(v.g, c.ID), consumerPointer{Name: c.Name}),
			audit.Record(ctx, resources...),
		}
		writes = append(writes, room...)
		writes = append(writes, c.indexWrites(v.g, consumerRecord{})...)
		writes = append(writes, createKeys(v.g, c.Name, made)...)
		if err := s.table.Commit(ctx, writes...); err != nil {
			return err
		}
		out = c.consumer(Include{})
		for _, k := range made {
			out.Keys = append(out.Keys, k.withText())
		}
		return nil
	})
	return out, err
}

var errConsumerNameInUse = fault.New(fault.Conflict, "A consumer of this name exists in the key bucket. Choose another name.")

// ReadConsumer gives a consumer.
func (s *Service) ReadConsumer(ctx context.Context, at ConsumerAt, in Include) (Consumer, error) {
	var out Consumer
	err := s.table.Again(ctx, func(ctx context.Context) error {
		var rows []keyRecord
		t := target{ConsumerAt: at}
		if in.Keys {
			t.query = s.newest(&rows, store.Page{Limit: maxIncludedKeys})
		}
		v, err := s.load(ctx, t)
		if err != nil {
			return err
		}
		out = v.consumer.consumer(in)
		if !in.Keys {
			return nil
		}
		out.Keys, err = s.includedKeys(ctx, v, rows, in.Format)
		return err
	})
	return out, err
}

// UpdateConsumer changes a consumer. Its new metadata reaches the gateway with
// the same commit.
func (s *Service) UpdateConsumer(ctx context.Context, at ConsumerAt, in ConsumerPatch) (Consumer, error) {
	var wrong problems
	wrong.description("description", in.Description.Over(""))
	wrong.tags(in.Tags.Over(nil), maxConsumerTags)
	metadata := wrong.metadata(in.Metadata.Over(nil))
	if err := wrong.Err(); err != nil {
		return Consumer{}, err
	}
	var out Consumer
	err := s.table.Again(ctx, func(ctx context.Context) error {
		var rows []keyRecord
		t := target{ConsumerAt: at}
		if in.Metadata.Set {
			t.query = s.newest(&rows, store.Page{Limit: keysPerTransaction + 1})
		}
		v, err := s.load(ctx, t)
		if err != nil {
			return err
		}
		old, c := v.consumer, v.consumer
		c.Description = in.Description.Over(old.Description)
		c.Tags = in.Tags.Over(old.Tags)
		if in.Metadata.Set {
			c.Metadata = metadata
		}
		c.UpdatedOn = s.now()
		changes := []store.Change{
			setOrRemove("description", c.Description, c.Description == ""),
			setOrRemove("tags", c.Tags, len(c.Tags) == 0),
			setOrRemove("metadata", c.Metadata, c.Metadata == ""),
			store.Set(store.At("updatedOn"), c.UpdatedOn),
		}
		writes := append([]store.Write{audit.Record(ctx, c.resource())}, c.indexWrites(v.g, old)...)
		if c.Metadata != old.Metadata {
			stamps, large, err := s.stamp(ctx, v, rows, c.Metadata)
			if err != nil {
				return err
			}
			writes = append(writes, stamps...)
			if large {
				changes = append(changes, v.largeChanged())
			}
		}
		writes = append(writes, old.touch(v.g, changes...))
		if err := s.table.Commit(ctx, writes...); err != nil {
			return err
		}
		out = c.consumer(Include{})
		return nil
	})
	return out, err
}

// DeleteConsumer deletes a consumer with its managers and keys, which open
// nothing any more when it returns.
func (s *Service) DeleteConsumer(ctx context.Context, at ConsumerAt) error {
	return s.table.Again(ctx, func(ctx context.Context) error {
		var rows []keyRecord
		v, err := s.load(ctx, target{ConsumerAt: at, query: s.newest(&rows, store.Page{Limit: keysPerTransaction + 1})})
		if err != nil {
			return err
		}
		c := v.consumer
		if err := c.removed(ctx); err != nil {
			return err
		}
		writes := []store.Write{
			store.Delete(consumerKey(v.g, c.Name)),
			store.Delete(consumerIDKey(v.g, c.ID)),
			uncount(v.g, c.Name),
			audit.Record(ctx, c.resource()),
		}
		writes = append(writes, consumerRecord{Name: c.Name}.indexWrites(v.g, c)...)
		room := store.MaxChange - len(writes)
		all, err := s.allKeys(ctx, v, rows, min(keysPerTransaction, room/2))
		switch {
		case err != nil:
			return err
		case all.complete:
			for _, k := range all.keys {
				writes = append(writes, k.remove(v.g, c.Name)...)
			}
		default:
			deletion, err := s.largeChange(v, overlay.Change{Kind: overlay.Deleting})
			if err != nil {
				return err
			}
			writes = append(writes, deletion...)
		}
		return s.table.Commit(ctx, writes...)
	})
}
