package keys

import (
	"context"
	"encoding/json"
	"maps"
	"time"

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/core/audit"
	"github.com/gatewright/gatewright/shared/core/limits"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/resource/keys/overlay"
)

// Consumer is the public form of a consumer.
type Consumer struct {
	ID, Name    string
	Description string
	Tags        map[string]string
	// Metadata is a JSON object, nil for none. For requests with a key of the consumer, the gateway passes it to the
	// route as the user's data.
	Metadata             json.RawMessage
	CreatedOn, UpdatedOn time.Time
	// Keys, Managers and Invites are nil unless Include selects them. Keys has at most maxIncludedKeys keys, the newest
	// first. After CreateConsumer, Keys has the key that was created with the consumer.
	Keys     []Key
	Managers []Manager
	Invites  []Invite
}

// Include selects the parts of a consumer that are returned in addition to its own fields.
type Include struct {
	Keys, Managers, Invites bool
	// Format is the format of the keys.
	Format Format
	// Fits, if not nil, can end a page of a list early. It returns a function that gets the consumers of the page in
	// order, and returns false for the first consumer that no longer fits. It must return true for the first consumer of
	// the page. List calls Fits more than once: for each attempt to read the page, and, if Keys is true, once more when
	// the consumers have their keys.
	Fits func() func(Consumer) bool
}

// maxIncludedKeys is the maximum length of Consumer.Keys. ListKeys returns all keys.
const maxIncludedKeys = 100

// NewConsumer is the input of CreateConsumer.
type NewConsumer struct {
	// Name has 1 to 128 of the characters a-z, 0-9, _ and -. The gateway uses it as the `sub` of requests with a key of
	// the consumer.
	Name        string
	Description string
	// Tags has at most 5 pairs.
	Tags map[string]string
	// Metadata is a JSON object of at most 1,024 bytes, or nil.
	Metadata json.RawMessage
	// Managers has at most 50 entries. An entry with Invite becomes an invite.
	Managers []NewManager
	// WithKey also creates an API key. CreateConsumer then returns the consumer with this key.
	WithKey bool
}

// ConsumerPatch is a change of a consumer.
type ConsumerPatch struct {
	Description store.Patch[string]
	Tags        store.Patch[map[string]string]
	Metadata    store.Patch[json.RawMessage]
}

const (
	// consumerPrefix is the key prefix of the consumers (consumerRecord). Each generation of a bucket has a partition
	// with its consumers. They are read by name, and listed sorted by name.
	consumerPrefix store.KeyPrefix = "consumers"
	// consumerIDPrefix maps a consumer's id to its name (consumerPointer).
	consumerIDPrefix store.KeyPrefix = "consumer-id"
)

// consumerRecord is the record of a consumer with its managers. Every request that changes the consumer or one of its
// keys increments Version. The change fails if Version has changed since the request read the record.
type consumerRecord struct {
	store.UnknownAttributes

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
	// KeyCount is the number of visible keys. LastKeyID is the greatest id that a key of the consumer ever had. The
	// next key gets a greater id.
	KeyCount  int    `dynamodbav:"keyCount"`
	LastKeyID string `dynamodbav:"lastKeyId,omitempty"`
	// Seq is the bucket's Seq after the last large change of this consumer. A bucket record with a smaller Seq was read
	// before that change, so its overlay is too old for this consumer.
	Seq int64 `dynamodbav:"seq,omitempty"`
}

// consumerPointer is the record of a consumer's id. It contains the consumer's name.
type consumerPointer struct {
	store.UnknownAttributes

	Name string `dynamodbav:"name"`
}

func consumerKey(g generation, consumer string) store.Key {
	return store.KeyIn(consumerPartition(g), consumer)
}

func consumerPartition(g generation) string { return consumerPrefix.Partition(string(g)) }

func consumerIDKey(g generation, consumerID string) store.Key {
	return consumerIDPrefix.Key(string(g), consumerID)
}

// hasTags reports whether the consumer has all the tags.
func (c consumerRecord) hasTags(tags map[string]string) bool {
	for key, value := range tags {
		if v, ok := c.Tags[key]; !ok || v != value {
			return false
		}
	}
	return true
}

func (c consumerRecord) resource() audit.Resource {
	return audit.Resource{Type: "consumer", ID: c.ID, Metadata: map[string]string{"name": c.Name}}
}

// toConsumer returns the public form of a consumer. It includes the managers if in.Managers is true, and the invites if
// in.Invites is true. The caller adds the keys.
func (c consumerRecord) toConsumer(in Include) Consumer {
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

// versionedWrite returns a write that makes changes in the consumer's record and increments Version. It fails with
// store.ErrStale if the consumer or one of its keys has changed since c was read: the read set of store.Table.RunInTx
// adds this condition.
func (c consumerRecord) versionedWrite(g generation, changes ...store.Change) store.Write {
	return store.Update(consumerKey(g, c.Name), append(changes, store.Set(store.At("version"), c.Version+1))...)
}

// CreateConsumer creates a consumer and, if in.WithKey is true, a key. It returns Conflict if the name is in use, and
// Forbidden if the account would exceed limits.Consumers.
//
// The transaction does not contain the bucket's record: DynamoDB refuses one of two concurrent transactions with the
// same item, so concurrent creations in a bucket would fail. A consumer can therefore be created while its bucket is
// deleted. Such a consumer belongs to the deleted generation, which no request reads. The operation that deletes the
// contents of this generation searches twice for consumers, so it finds this one.
func (s *Service) CreateConsumer(ctx context.Context, at BucketLocator, in NewConsumer) (Consumer, error) {
	var invalid problems
	invalid.consumerName(in.Name)
	invalid.description("description", in.Description)
	invalid.tags(in.Tags, maxConsumerTags)
	metadata := invalid.metadata(in.Metadata)
	invalid.managers(in.Managers)
	if err := invalid.Err(); err != nil {
		return Consumer{}, err
	}
	var out Consumer
	err := s.table.RunInTx(ctx, func(ctx context.Context) error {
		counter := s.counts.NewCounter(at.AccountID, limits.Consumers)
		v, err := s.load(ctx, target{
			ConsumerLocator: ConsumerLocator{BucketLocator: at}, newConsumer: in.Name, consumerLimit: counter,
		})
		if err != nil {
			return err
		}
		reservation, err := s.reserveConsumer(ctx, v, counter, in.Name)
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
		var created []newKey
		if in.WithKey {
			if created, err = s.prepareKeys(ctx, v, []NewKey{{}}, c.Version); err != nil {
				return err
			}
			c.KeyCount, c.LastKeyID = 1, created[0].record.ID
			resources = append(resources, created[0].record.resource())
		}
		writes := []store.Write{
			store.Create(consumerKey(v.generation, c.Name), c).Else(errConsumerNameInUse),
			store.Create(consumerIDKey(v.generation, c.ID), consumerPointer{Name: c.Name}),
			audit.Record(ctx, resources...),
		}
		writes = append(writes, reservation...)
		writes = append(writes, c.indexWrites(v.generation, consumerRecord{})...)
		writes = append(writes, createKeyWrites(v.generation, c.Name, created)...)
		if err := s.table.Commit(ctx, writes...); err != nil {
			return err
		}
		out = c.toConsumer(Include{})
		for _, k := range created {
			out.Keys = append(out.Keys, k.withText())
		}
		return nil
	})
	return out, err
}

var errConsumerNameInUse = fault.New(fault.Conflict,
	"A consumer of this name exists in the key bucket. Choose another name.")

// ReadConsumer returns a consumer.
func (s *Service) ReadConsumer(ctx context.Context, at ConsumerLocator, in Include) (Consumer, error) {
	var out Consumer
	err := s.table.RunInTx(ctx, func(ctx context.Context) error {
		var rows []keyRecord
		t := target{ConsumerLocator: at}
		if in.Keys {
			t.query = s.newestQuery(&rows, store.Page{Limit: maxIncludedKeys})
		}
		v, err := s.load(ctx, t)
		if err != nil {
			return err
		}
		out = v.consumer.toConsumer(in)
		if !in.Keys {
			return nil
		}
		out.Keys, err = s.includedKeys(ctx, v, rows, in.Format)
		return err
	})
	return out, err
}

// UpdateConsumer changes a consumer. New metadata is visible to gateways when UpdateConsumer returns. It returns
// Throttled if new metadata needs a large change while too many large changes of the bucket are in progress.
func (s *Service) UpdateConsumer(ctx context.Context, at ConsumerLocator, in ConsumerPatch) (Consumer, error) {
	var invalid problems
	invalid.description("description", in.Description.ApplyTo(""))
	invalid.tags(in.Tags.ApplyTo(nil), maxConsumerTags)
	metadata := invalid.metadata(in.Metadata.ApplyTo(nil))
	if err := invalid.Err(); err != nil {
		return Consumer{}, err
	}
	var out Consumer
	err := s.table.RunInTx(ctx, func(ctx context.Context) error {
		var rows []keyRecord
		t := target{ConsumerLocator: at}
		if in.Metadata.Set {
			t.query = s.newestQuery(&rows, store.Page{Limit: keysPerTransaction + 1})
		}
		v, err := s.load(ctx, t)
		if err != nil {
			return err
		}
		old, c := v.consumer, v.consumer
		c.Description = in.Description.ApplyTo(old.Description)
		c.Tags = in.Tags.ApplyTo(old.Tags)
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
		writes := append([]store.Write{audit.Record(ctx, c.resource())}, c.indexWrites(v.generation, old)...)
		if c.Metadata != old.Metadata {
			keyWrites, large, err := s.metadataWrites(ctx, v, rows, c.Metadata)
			if err != nil {
				return err
			}
			writes = append(writes, keyWrites...)
			if large {
				changes = append(changes, v.seqChange())
			}
		}
		writes = append(writes, old.versionedWrite(v.generation, changes...))
		if err := s.table.Commit(ctx, writes...); err != nil {
			return err
		}
		out = c.toConsumer(Include{})
		return nil
	})
	return out, err
}

// DeleteConsumer deletes a consumer with its managers and keys. The keys are invalid when DeleteConsumer returns. It
// returns Throttled if the deletion is a large change while too many large changes of the bucket are in progress.
func (s *Service) DeleteConsumer(ctx context.Context, at ConsumerLocator) error {
	return s.table.RunInTx(ctx, func(ctx context.Context) error {
		var rows []keyRecord
		v, err := s.load(ctx, target{
			ConsumerLocator: at, query: s.newestQuery(&rows, store.Page{Limit: keysPerTransaction + 1}),
		})
		if err != nil {
			return err
		}
		c := v.consumer
		if err := c.reportRemovals(ctx); err != nil {
			return err
		}
		writes := []store.Write{
			store.Delete(consumerKey(v.generation, c.Name)),
			store.Delete(consumerIDKey(v.generation, c.ID)),
			uncountWrite(v.generation, c.Name),
			audit.Record(ctx, c.resource()),
		}
		writes = append(writes, consumerRecord{Name: c.Name}.indexWrites(v.generation, c)...)
		capacity := store.MaxChange - len(writes)
		all, err := s.allKeys(ctx, v, rows, min(keysPerTransaction, capacity/2))
		switch {
		case err != nil:
			return err
		case all.complete:
			for _, k := range all.keys {
				writes = append(writes, k.deleteWrites(v.generation, c.Name)...)
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
