package keys

import (
	"context"
	"time"

	"github.com/gatewright/gatewright/shared/core/operation"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/resource/keys/overlay"
)

// keysPerTransaction is the maximum number of keys that one transaction changes. The transaction has two items for each
// key, and further items for the consumer, its index rows and the audit record. A change of more keys is a large change
// (package overlay).
const keysPerTransaction = 40

// maxNewKeys returns the maximum number of new keys in one transaction. It is less than keysPerTransaction if a text
// may be in use under another root key, because each such text needs a check.
func maxNewKeys(newKeys []newKey) int {
	for _, k := range newKeys {
		if len(k.lookupKeys) > 0 {
			return 2 * keysPerTransaction / 3
		}
	}
	return keysPerTransaction
}

// keySet contains all keys of a consumer, if one transaction can change them.
type keySet struct {
	keys []keyRecord
	// complete is true if keys has all keys of the consumer. Otherwise keys is empty.
	complete bool
}

// allKeys returns all keys of the consumer in v, if it has at most limit keys. rows are the consumer's newest key
// records, at least limit of them if there are as many.
//
// The rows were queried while the consumer's record was read, so rows and record are not a snapshot. Nevertheless, the
// visible rows are all keys of the consumer if three conditions hold. First, their number is the record's KeyCount,
// which allKeys checks. Second, each key still exists with its text when the change is committed. Third, the record
// then still has its version. The writes of the change check the second and the third condition (keysUncheckedReason).
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

// keysUncheckedReason is the reason why a change may depend on queried key records without a condition that each record
// is unchanged (store.Query.Unchecked).
const keysUncheckedReason = "the consumer's record has the number of its keys and a version, and the writes of the " +
	"change check the version and each key (allKeys)"

// largeChange returns the two writes that change all keys of the consumer in v. The first adds an entry to the bucket's
// overlay and removes the entries with the ids in replaced. The second begins the operation that writes the change into
// the keys. Unless the change deletes the consumer, the same commit must also write seqChange to the consumer's record.
func (s *Service) largeChange(v view, c overlay.Change, replaced ...string) ([]store.Write, error) {
	id := s.parts.IDs.Ordered("kop", 24)
	entry, err := v.addChange(id, c, replaced...)
	if err != nil {
		return nil, err
	}
	return []store.Write{entry, s.beginOperation(operationKind(c.Kind), id, v.consumer.ID, v.cascade())}, nil
}

// seqChange returns the change of the consumer's record that stores the bucket's new Seq. A reader can then detect that
// its bucket record is older (view.torn). Commit it with the entry of a roll or of new metadata, and with the
// publication of a bulk creation.
func (v view) seqChange() store.Change { return store.Set(store.At("seq"), v.bucket.Seq+1) }

// addChange returns the write that adds an entry to the bucket's overlay and removes the replaced entries. It returns
// Throttled if the overlay is full. The write fails with store.ErrStale if the overlay has changed since the bucket was
// read, for two reasons. The contents of an entry, such as the batches that a roll skips, depend on all other entries.
// Seq and the number of entries must be exact.
func (v view) addChange(id string, c overlay.Change, replaced ...string) (store.Write, error) {
	if len(v.bucket.Changes)-len(replaced) >= overlay.MaxChanges {
		return store.Write{}, throttled("Too many large changes of this key bucket are in progress. Repeat the request "+
			"after the time in Retry-After.", overlay.Grace)
	}
	c.ConsumerID, c.ConsumerName = v.consumer.ID, v.consumer.Name
	changes := []store.Change{store.Set(store.At("changes", id), c)}
	for _, old := range replaced {
		changes = append(changes, store.Remove(store.At("changes", old)))
	}
	return v.bucket.changeOverlay(changes...).If(v.bucket.overlayUnchanged()).Else(store.ErrStale), nil
}

// removeChange returns the write that removes an entry from the bucket's overlay.
func (b bucketRecord) removeChange(id string) store.Write {
	return b.changeOverlay(store.Remove(store.At("changes", id))).
		If(store.Has(store.At("changes", id))).Else(store.ErrStale)
}

// changeOverlay returns a write that makes changes in the bucket's overlay and increments Seq.
func (b bucketRecord) changeOverlay(changes ...store.Change) store.Write {
	return b.updateWrite(append(changes, store.Add(store.At("seq"), 1), store.Add(store.At("version"), 1))...)
}

// overlayUnchanged returns the condition that the bucket's overlay has not changed since b was read.
func (b bucketRecord) overlayUnchanged() store.Condition { return store.Equal(store.At("seq"), b.Seq) }

// cascade is the input of every operation of this package. It identifies the keys that the operation changes.
type cascade struct {
	AccountID  string `json:"accountId"`
	Bucket     string `json:"bucket"`
	Generation int    `json:"generation"`
	// ConsumerID is the consumer's id, "" for the whole bucket.
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

// keyPartition returns the partition of the consumer's key records.
func (c cascade) keyPartition() string { return consumerKeyPartition(c.generation(), c.ConsumerName) }

// beginOperation returns the write that starts an operation.
func (s *Service) beginOperation(kind, id, subject string, c cascade) store.Write {
	return s.beginOperationAfter(0, kind, id, subject, c)
}

// beginOperationAfter returns the write that starts an operation. Its first state runs after the delay.
func (s *Service) beginOperationAfter(delay time.Duration, kind, id, subject string, c cascade) store.Write {
	now := s.parts.Now()
	return operation.Create(operation.Start{
		ID: id, Kind: kind, Subject: subject, AccountID: c.AccountID, Input: c, NotBefore: now.Add(delay),
	}, now)
}
