package keys

import (
	"time"

	"github.com/gatewright/gatewright/shared/store"
)

// A change of more keys than one transaction takes becomes visible all the
// same at one instant: its commit puts an entry into the overlay, a map in the
// bucket's record, and every reader of a key reads the bucket with it and
// applies the overlay. A durable operation then writes the change into the
// keys and takes the entry out again.
//
// A read of several items is no snapshot, so two rules keep it exact. A key
// that an entry hides from the beginning carries Since, the bucket's Seq of
// that entry: a reader whose copy of the bucket is older reads again. And an
// entry outlives what it hides by grace.

// grace is how much longer an entry stays than it is needed. It exceeds by far
// the time between the reading of two items in one round trip.
const grace = time.Minute

// maxChanges bounds the entries of one bucket's overlay, which every key check
// reads.
const maxChanges = 64

// changeKind is what an entry of the overlay does.
type changeKind string

const (
	// creating hides the keys of a batch that is being written.
	creating changeKind = "bulk"
	// deleting hides all keys of a consumer.
	deleting changeKind = "delete"
	// rolling gives keys without an expiry one.
	rolling changeKind = "roll"
	// stamping gives keys their consumer's new metadata.
	stamping changeKind = "stamp"
)

// change is an entry of an overlay. Its name in the map is the id of the
// operation that carries it out.
type change struct {
	Kind         changeKind `dynamodbav:"kind"`
	ConsumerID   string     `dynamodbav:"consumerId"`
	ConsumerName string     `dynamodbav:"consumerName"`
	// Revision is the consumer's version that the change made: a roll concerns
	// keys that were last changed before, a stamp those last stamped before.
	Revision  int64      `dynamodbav:"revision,omitempty"`
	ExpiresOn *time.Time `dynamodbav:"expiresOn,omitempty"`
	Metadata  string     `dynamodbav:"metadata,omitempty"`
	// Except are the batches that were invisible when the roll was made.
	Except []string `dynamodbav:"except,omitempty"`
}

// overlay is the changes of a bucket that are in flight, by operation.
type overlay map[string]change

// life is what decides whether a key opens anything. It is part of both
// records of a key.
type life struct {
	ConsumerID string     `dynamodbav:"consumerId"`
	ExpiresOn  *time.Time `dynamodbav:"expiresOn,omitempty"`
	// Revision is the consumer's version when the key was last changed by
	// itself.
	Revision int64 `dynamodbav:"revision"`
	// Batch is the bulk creation that made the key, "" for none, and Since the
	// bucket's Seq when it began.
	Batch string `dynamodbav:"batch,omitempty"`
	Since int64  `dynamodbav:"since,omitempty"`
}

// expiredAt reports whether the key opens nothing any more.
func (l life) expiredAt(now time.Time) bool { return l.ExpiresOn != nil && !l.ExpiresOn.After(now) }

// apply gives the life of a key under the changes in flight, and whether the
// key is there at all.
func (o overlay) apply(l life) (life, bool) {
	if l.Batch != "" && o[l.Batch].Kind == creating {
		return l, false
	}
	var roll *change
	for _, c := range o {
		if c.ConsumerID != l.ConsumerID {
			continue
		}
		switch c.Kind {
		case deleting:
			return l, false
		case rolling:
			// Of several rolls the first one that met the key without an
			// expiry gave it one.
			if c.meets(l) && (roll == nil || c.Revision < roll.Revision) {
				roll = &c
			}
		case creating, stamping:
		}
	}
	if roll != nil {
		l.ExpiresOn = roll.ExpiresOn
	}
	return l, true
}

// meets reports whether a roll gives the key its expiry.
func (c change) meets(l life) bool {
	if l.ExpiresOn != nil || l.Revision >= c.Revision {
		return false
	}
	for _, batch := range c.Except {
		if batch == l.Batch {
			return false
		}
	}
	return true
}

// metadata gives what the gateway shall see for a key that was stamped with
// metadata at the consumer's version stamped.
func (o overlay) metadata(consumerID, metadata string, stamped int64) string {
	for _, c := range o {
		if c.Kind == stamping && c.ConsumerID == consumerID && c.Revision > stamped {
			metadata, stamped = c.Metadata, c.Revision
		}
	}
	return metadata
}

// mixes reports whether the partition of the consumer's keys may hold some that
// are not to be seen: those of a batch, or of an earlier consumer of this name.
func (o overlay) mixes(consumerName string) bool {
	for _, c := range o {
		if c.ConsumerName == consumerName && (c.Kind == creating || c.Kind == deleting) {
			return true
		}
	}
	return false
}

// batches lists the consumer's batches that are invisible.
func (o overlay) batches(consumerID string) []string {
	var out []string
	for id, c := range o {
		if c.Kind == creating && c.ConsumerID == consumerID {
			out = append(out, id)
		}
	}
	return out
}

// enter is the write that adds an entry to the bucket's overlay and takes out
// those that it replaces. It fails as stale when any other entry was added
// since the bucket was read: Seq is exact then.
func (b bucketRecord) enter(id string, c change, replaced ...string) (store.Write, error) {
	if len(b.Changes)-len(replaced) >= maxChanges {
		return store.Write{}, busy("Too many large changes of this key bucket are in progress. Repeat the request after the time in Retry-After.", grace)
	}
	changes := []store.Change{store.Set(store.At("changes", id), c), store.Add(store.At("seq"), 1)}
	for _, old := range replaced {
		changes = append(changes, store.Remove(store.At("changes", old)))
	}
	return b.update(changes...).If(store.Equal(store.At("seq"), b.Seq)).Else(errStale), nil
}

// leave is the write that takes an entry out of the bucket's overlay.
func (b bucketRecord) leave(id string) store.Write {
	return b.update(store.Remove(store.At("changes", id))).
		If(store.Has(store.At("changes", id))).Else(errStale)
}
