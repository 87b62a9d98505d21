package rootkey

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/gatewright/gatewright/shared/core/store"
)

// The history of the root key is kept forever, for audits of the installation. It has each
// rotation and each change of the KMS key that wraps the root key. Each event is recorded
// in the transaction of the change (docs/decisions/0066-root-keys-leave-a-history.md).

// These are the kinds of Event.
const (
	// KeyRotated is a rotation. It is recorded when the rotation begins.
	KeyRotated = "rotation"
	// KMSKeyAdded means that a second KMS key was added. KMSKeyRemoved means that the first KMS key was removed.
	KMSKeyAdded   = "kms-key-added"
	KMSKeyRemoved = "kms-key-alone"
)

// maxHistory is the maximum number of events that History returns. maxBy is the maximum length of an event's By, in bytes.
const maxHistory, maxBy = 50, 256

// Event is one event in the history of the root key.
type Event struct {
	store.UnknownAttributes `json:"-"`

	Kind string `dynamodbav:"kind" json:"kind"`
	// By is the name of the operator who started the change, as reported by the
	// command. A caller can report any name, so AWS CloudTrail is more reliable.
	By string `dynamodbav:"by" json:"by"`
	// Number is the number of the root key that seals new data after the event.
	Number int `dynamodbav:"number" json:"rootKey"`
	// From and To are fingerprints of root keys (seal.Root), or ids of KMS keys. From is "" if it is unknown.
	From string `dynamodbav:"from,omitempty" json:"from,omitempty"`
	To   string `dynamodbav:"to" json:"to"`

	BeganOn time.Time `dynamodbav:"beganOn" json:"beganOn"`
	// SwitchedOn is when the new root key began to seal new data. RetiredOn is when
	// the old root key was removed. EndedOn is when no process had the old root key
	// any more. They are nil until then, and for events that are not rotations.
	SwitchedOn *time.Time `dynamodbav:"switchedOn,omitempty" json:"switchedOn,omitempty"`
	RetiredOn  *time.Time `dynamodbav:"retiredOn,omitempty" json:"retiredOn,omitempty"`
	EndedOn    *time.Time `dynamodbav:"endedOn,omitempty" json:"endedOn,omitempty"`

	// Renewed and Objects are the numbers of records and objects that a rotation has sealed again
	// under the new root key. They are lower bounds, because a step that is killed after its writes
	// does not count these writes. Unreadable is the number of values that neither key could open.
	Renewed    int `dynamodbav:"renewed,omitempty" json:"records,omitempty"`
	Objects    int `dynamodbav:"objects,omitempty" json:"objects,omitempty"`
	Unreadable int `dynamodbav:"unreadable,omitempty" json:"unreadable,omitempty"`
}

// Counts are the numbers in an Event.
type Counts struct{ Renewed, Objects, Unreadable int }

// historyPrefix is the key prefix of events. All events are in one partition, sorted by their times.
const historyPrefix store.KeyPrefix = "root-key-history"

// key returns the event's key: its time and id, which distinguishes events of the same time.
func (e Event) key(id string) store.Key {
	return store.KeyIn(historyPrefix.Partition("all"), e.BeganOn.UTC().Format(sortableTime)+"#"+id)
}

// sortableTime is a time format whose texts sort by time.
const sortableTime = "2006-01-02T15:04:05.000Z"

// printableName returns the name of an operator for Event.By, in printable ASCII, so that any terminal can show it. It
// shortens the name to maxBy bytes, and returns "unknown" for "".
func printableName(by string) string {
	by = cmp.Or(by, "unknown")
	if len(by) > maxBy {
		by = by[:maxBy]
	}
	text := []byte(by)
	for i, c := range text {
		if c < ' ' || c > '~' {
			text[i] = '?'
		}
	}
	return string(text)
}

// History returns the newest events, at most maxHistory, in the order from the newest to the oldest.
func History(ctx context.Context, table *store.Table) ([]Event, error) {
	out, err := store.Collect[Event](detached(ctx), table,
		store.Query{PK: historyPrefix.Partition("all"), Descending: true, Limit: maxHistory})
	if err != nil {
		return nil, fmt.Errorf("read the history of the root key: %w", err)
	}
	return out, nil
}
