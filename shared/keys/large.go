package keys

import (
	"context"
	"time"

	"github.com/gatewright/gatewright/shared/keys/overlay"
	"github.com/gatewright/gatewright/shared/operation"
	"github.com/gatewright/gatewright/shared/store"
)

// keysPerTransaction is how many keys one transaction changes, two items each,
// with the consumer, its index rows and the audit record. A change of more keys
// is a large one: see package overlay.
const keysPerTransaction = 40

// perTransaction is keysPerTransaction for keys that are made: fewer where texts may be in use under another root key, which takes
// a check each.
func perTransaction(made []newKey) int {
	for _, k := range made {
		if len(k.others) > 0 {
			return 2 * keysPerTransaction / 3
		}
	}
	return keysPerTransaction
}

// keySet is all keys of a consumer, as far as one transaction takes them.
type keySet struct {
	keys []keyRecord
	// complete is whether these are all; keys is empty otherwise.
	complete bool
}

// allKeys gives all keys of the consumer if they are at most limit.
//
// The rows were queried while the consumer's record was read, and are no
// snapshot with it. They are all of its keys nevertheless when their number is
// the record's KeyCount, each still exists with its text when the change commits,
// and the record still has its version: the writes have those conditions
// (keysUnchecked).
func (s *Service) allKeys(ctx context.Context, v view, rows []keyRecord, limit int) (keySet, error) {
	if v.consumer.KeyCount > limit {
		return keySet{}, nil
	}
	keys, err := s.visibleKeys(ctx, v, rows)
	if err != nil {
		return keySet{}, err
	}
	if len(keys) != v.consumer.KeyCount {
		return keySet{}, store.ErrStale
	}
	return keySet{keys: keys, complete: true}, nil
}

// keysUnchecked is why a change is decided from rows of keys without a condition
// on each as it was read.
const keysUnchecked = "the consumer counts its keys and has a version, and the writes of its keys ask for each (allKeys)"

// largeChange are the writes that make a change of all keys of the consumer in v: its
// entry in the bucket's overlay, in place of those of the operations replaced,
// and the operation that writes the change into the keys. The consumer, unless it
// is deleted, takes largeChanged in the same commit.
func (s *Service) largeChange(v view, c overlay.Change, replaced ...string) ([]store.Write, error) {
	id := s.parts.IDs.Ordered("kop", 24)
	entry, err := v.addChange(id, c, replaced...)
	if err != nil {
		return nil, err
	}
	return []store.Write{entry, s.begin(cascadeOf(c.Kind), id, v.consumer.ID, v.cascade())}, nil
}

// largeChanged has the consumer tell which bucket knows of a large change of it
// (view.torn). It goes with an entry that is added or removed.
func (v view) largeChanged() store.Change { return store.Set(store.At("seq"), v.bucket.Seq+1) }

// addChange is the write that adds an entry to the bucket's overlay and removes
// those that it replaces. It fails as stale when the bucket is another than the
// one that was read: what is in an entry, such as the batches that a roll leaves
// alone, was decided from all others, and Seq and their number are exact.
func (v view) addChange(id string, c overlay.Change, replaced ...string) (store.Write, error) {
	if len(v.bucket.Changes)-len(replaced) >= overlay.MaxChanges {
		return store.Write{}, throttled("Too many large changes of this key bucket are in progress. Repeat the request after the time in Retry-After.", overlay.Grace)
	}
	c.ConsumerID, c.ConsumerName = v.consumer.ID, v.consumer.Name
	changes := []store.Change{store.Set(store.At("changes", id), c)}
	for _, old := range replaced {
		changes = append(changes, store.Remove(store.At("changes", old)))
	}
	return v.bucket.changed(changes...).If(v.bucket.unchanged()).Else(store.ErrStale), nil
}

// removeChange is the write that removes an entry from the bucket's overlay.
func (b bucketRecord) removeChange(id string) store.Write {
	return b.changed(store.Remove(store.At("changes", id))).
		If(store.Has(store.At("changes", id))).Else(store.ErrStale)
}

// changed is a write to the bucket's overlay.
func (b bucketRecord) changed(changes ...store.Change) store.Write {
	return b.update(append(changes, store.Add(store.At("seq"), 1), store.Add(store.At("version"), 1))...)
}

// unchanged holds for a bucket whose overlay is as it was read.
func (b bucketRecord) unchanged() store.Condition { return store.Equal(store.At("seq"), b.Seq) }

// cascade is the input of every operation of this package: which keys it is
// about.
type cascade struct {
	AccountID  string `json:"accountId"`
	Bucket     string `json:"bucket"`
	Generation int    `json:"generation"`
	// The consumer, "" when the whole bucket is meant.
	ConsumerID   string `json:"consumerId,omitempty"`
	ConsumerName string `json:"consumerName,omitempty"`
}

func (v view) cascade() cascade {
	return cascade{
		AccountID: v.bucket.AccountID, Bucket: v.bucket.Name, Generation: v.bucket.Generation,
		ConsumerID: v.consumer.ID, ConsumerName: v.consumer.Name,
	}
}

func (c cascade) generation() generation {
	return qualifiedName{c.AccountID, c.Bucket}.generation(c.Generation)
}

// keys is the partition of the consumer's keys.
func (c cascade) keys() string { return consumerKeyPartition(c.generation(), c.ConsumerName) }

// begin is the write that starts an operation.
func (s *Service) begin(kind, id, subject string, c cascade) store.Write {
	return s.beginAfter(0, kind, id, subject, c)
}

func (s *Service) beginAfter(delay time.Duration, kind, id, subject string, c cascade) store.Write {
	now := s.parts.Now()
	return operation.Begin(operation.Start{
		ID: id, Kind: kind, Subject: subject, AccountID: c.AccountID, Input: c, NotBefore: now.Add(delay),
	}, now)
}
