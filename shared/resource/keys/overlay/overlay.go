// Package overlay makes a change of more keys than one transaction allows visible to all readers at the same instant,
// while it is being written (docs/decisions/0008-large-changes-show-at-one-commit.md).
//
// The commit that makes such a change adds an entry to a map in the bucket's record: the overlay. Every reader of a key
// also reads the bucket and applies the entries of the overlay. So all keys change at the same instant. A durable
// operation then writes the change into the keys and removes the entry. A creation of keys is the exception: its entry
// hides the keys while they are written, and the commit that removes the entry makes them visible.
//
// A read of a key and its bucket is not a snapshot. Two rules make the result correct nevertheless:
//
//   - The bucket counts the changes of its overlay. A key that is hidden when it is created stores this count in
//     CreatedSeq. If the bucket that a reader has read has a smaller count, the reader reads both again.
//   - An entry stays for Grace after its change was written into the keys. So no reader combines a bucket without the
//     entry with a key that does not contain the change yet.
//
// This package does not read or write the table. Package keys adds and
// removes entries, and its cascades write the changes into the keys.
//
// Read overlay.go first, then apply.go.
package overlay

import (
	"time"

	"github.com/gatewright/gatewright/shared/core/store"
)

// Grace is the time for which an entry stays after its change was written into the keys. It is far longer than the time
// between the reads of two items in one round trip.
const Grace = time.Minute

// MaxChanges is the maximum number of entries of one bucket. It is small, because every verification of a key reads all
// of them.
const MaxChanges = 64

// Changes are the entries of a bucket, by the ids of the operations that write the changes into the keys.
type Changes map[string]Change

// Change is one entry: a change of many keys of one consumer.
type Change struct {
	store.UnknownAttributes

	Kind         Kind   `dynamodbav:"kind"`
	ConsumerID   string `dynamodbav:"consumerId"`
	ConsumerName string `dynamodbav:"consumerName"`
	// Revision of a roll or of new metadata is the consumer's version after the change. A roll applies to keys with a
	// smaller KeyState.Revision. New metadata applies to keys whose metadata was written at a smaller version.
	Revision  int64      `dynamodbav:"revision,omitempty"`
	ExpiresOn *time.Time `dynamodbav:"expiresOn,omitempty"`
	Metadata  string     `dynamodbav:"metadata,omitempty"`
	// ExceptBatches are the batches whose keys were hidden at the time of the roll. The roll does not apply to these
	// keys.
	ExceptBatches []string `dynamodbav:"except,omitempty"`
}

// Kind is the kind of a change.
type Kind string

// The values of a Kind, which are stored in records.
const (
	// Creating hides the keys of a batch that is being written. Removing the entry publishes the keys.
	Creating Kind = "bulk"
	// Deleting hides all keys of a consumer.
	Deleting Kind = "delete"
	// Rolling sets an expiry on keys without one.
	Rolling Kind = "roll"
	// UpdatingMetadata sets the consumer's new metadata on its keys.
	UpdatingMetadata Kind = "stamp"
)

// KeyState is the part of a key's record that, together with the bucket's overlay, decides whether the key is valid.
type KeyState struct {
	store.UnknownAttributes

	ConsumerID string     `dynamodbav:"consumerId"`
	ExpiresOn  *time.Time `dynamodbav:"expiresOn,omitempty"`
	// Revision is the consumer's version after the last change of the key that was not a large change.
	Revision int64 `dynamodbav:"revision"`
	// Batch is the id of the bulk creation that created the key, "" for none. CreatedSeq is the bucket's count of
	// overlay changes (seq) after the entry of the bulk creation was added.
	Batch      string `dynamodbav:"batch,omitempty"`
	CreatedSeq int64  `dynamodbav:"since,omitempty"`
}

// ExpiredAt reports whether the key has expired.
func (k KeyState) ExpiredAt(now time.Time) bool {
	return k.ExpiresOn != nil && !k.ExpiresOn.After(now)
}

// NewerThan reports whether the key's bulk creation began after the bucket was read. seq is the count of overlay
// changes in the bucket that was read. If the result is true, both must be read again.
func (k KeyState) NewerThan(seq int64) bool { return k.CreatedSeq > seq }
