// Package overlay decides what a reader of API keys sees while a change of more
// keys than one transaction takes is being written
// (docs/decisions/0008-large-changes-show-at-one-commit.md).
//
// Such a change is an entry in a map of the bucket's record, by the commit that
// makes it. From then on every reader of a key reads the bucket with it and
// applies the map, so that all keys change at one instant. A durable operation
// writes the change into the keys and removes the entry.
//
// A read of several items is no snapshot. Two rules make it exact all the same:
//
//   - The bucket counts its entries. A key that an entry hides from the
//     beginning has that number as Since: a reader whose copy of the bucket has
//     counted fewer reads again.
//   - An entry stays Grace longer than it is needed, so that nobody applies a
//     bucket without the entry to a key from before the writing.
//
// What it is not: it reads and writes no table. Package keys adds entries and
// removes them, and its cascades write the changes out.
//
// Read overlay.go first, then apply.go.
package overlay

import (
	"time"

	"github.com/gatewright/gatewright/shared/store"
)

// Grace is how long an entry stays after its change is written. It exceeds by
// far the time between the reading of two items in one round trip.
const Grace = time.Minute

// MaxChanges bounds the entries of one bucket, since every check of a key reads
// them all.
const MaxChanges = 64

// Changes are the entries of a bucket, by the ids of the operations that write
// them out.
type Changes map[string]Change

// Change is one entry: a change of all keys of one consumer.
type Change struct {
	store.Rest

	Kind         Kind   `dynamodbav:"kind"`
	ConsumerID   string `dynamodbav:"consumerId"`
	ConsumerName string `dynamodbav:"consumerName"`
	// Revision is the consumer's version that the change made: a roll concerns
	// keys that were last changed before, a stamp those last stamped before.
	Revision  int64      `dynamodbav:"revision,omitempty"`
	ExpiresOn *time.Time `dynamodbav:"expiresOn,omitempty"`
	Metadata  string     `dynamodbav:"metadata,omitempty"`
	// Except are the batches that were hidden when the roll was made, which
	// does not concern their keys.
	Except []string `dynamodbav:"except,omitempty"`
}

// Kind is what a change does.
type Kind string

// The kinds. Their texts are stored.
const (
	// Creating hides the keys of a batch that is being written. Removing the
	// entry is what makes the change.
	Creating Kind = "bulk"
	// Deleting hides all keys of a consumer.
	Deleting Kind = "delete"
	// Rolling gives an expiry to keys without one.
	Rolling Kind = "roll"
	// Stamping gives keys their consumer's new metadata.
	Stamping Kind = "stamp"
)

// KeyState is what of a key decides, with its bucket's changes, whether it
// opens anything.
type KeyState struct {
	store.Rest

	ConsumerID string     `dynamodbav:"consumerId"`
	ExpiresOn  *time.Time `dynamodbav:"expiresOn,omitempty"`
	// Revision is the consumer's version when the key was last changed by
	// itself.
	Revision int64 `dynamodbav:"revision"`
	// Batch is the bulk creation that made the key, "" for none, and Since the
	// bucket's count of changes when that began.
	Batch string `dynamodbav:"batch,omitempty"`
	Since int64  `dynamodbav:"since,omitempty"`
}

// ExpiredAt reports whether the key opens nothing any more.
func (k KeyState) ExpiredAt(now time.Time) bool {
	return k.ExpiresOn != nil && !k.ExpiresOn.After(now)
}

// NewerThan reports whether the key was made under a change that a bucket which
// has counted seq changes does not have yet: such a bucket has to be read again.
func (k KeyState) NewerThan(seq int64) bool { return k.Since > seq }
