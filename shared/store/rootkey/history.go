package rootkey

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/gatewright/gatewright/shared/store"
)

// What became of the root key is kept for ever, for who audits the installation: each rotation, and each change of the KMS
// key that wraps it, in the transaction that does it (docs/decisions/0066-root-keys-leave-a-history.md).

// Kinds of Event.
const (
	// Rotated is a rotation, from its beginning on.
	Rotated = "rotation"
	// Wrapped is another KMS key beside the first, and Unwrapped is the first one given up.
	Wrapped   = "kms-key-added"
	Unwrapped = "kms-key-alone"
)

// maxHistory is how many events History gives, and maxBy the longest name of who it was, in bytes.
const maxHistory, maxBy = 50, 256

// Event is what became of the root key.
type Event struct {
	store.Rest `json:"-"`

	Kind string `dynamodbav:"kind" json:"kind"`
	// By is who asked for it, as the command that did says; whoever may call it may say anything, and AWS's own trail knows better.
	By string `dynamodbav:"by" json:"by"`
	// Number is that of the root key that writes afterwards.
	Number int `dynamodbav:"number" json:"rootKey"`
	// From and To are fingerprints of root keys (seal.Root), or the ids of KMS keys, "" for one that is not known.
	From string `dynamodbav:"from,omitempty" json:"from,omitempty"`
	To   string `dynamodbav:"to" json:"to"`

	BeganOn time.Time `dynamodbav:"beganOn" json:"beganOn"`
	// SwitchedOn is when the new root key began to write, RetiredOn when the old one was taken away, and EndedOn when no process had it any
	// more; nil for not yet, and for what is no rotation.
	SwitchedOn *time.Time `dynamodbav:"switchedOn,omitempty" json:"switchedOn,omitempty"`
	RetiredOn  *time.Time `dynamodbav:"retiredOn,omitempty" json:"retiredOn,omitempty"`
	EndedOn    *time.Time `dynamodbav:"endedOn,omitempty" json:"endedOn,omitempty"`

	// Renewed and Objects are how many records and objects a rotation has brought under the new root key: at least so many, since a
	// step that was killed behind its writes counts nothing of them. Unreadable are values that were under neither key.
	Renewed    int `dynamodbav:"renewed,omitempty" json:"records,omitempty"`
	Objects    int `dynamodbav:"objects,omitempty" json:"objects,omitempty"`
	Unreadable int `dynamodbav:"unreadable,omitempty" json:"unreadable,omitempty"`
}

// Counts are those of an Event.
type Counts struct{ Renewed, Objects, Unreadable int }

// historySpace has the events, in the order of their times.
const historySpace store.Space = "root-key-history"

// at is the event's key: its time, and which it is of those of that time.
func (e Event) at(id string) store.Key {
	return store.In(historySpace.Partition("all"), e.BeganOn.UTC().Format(sortable)+"#"+id)
}

// sortable spells times that sort as they follow each other.
const sortable = "2006-01-02T15:04:05.000Z"

// asked says who asked for something, in a form that any terminal takes.
func asked(by string) string {
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

// History gives the latest events, the newest first.
func History(ctx context.Context, table *store.Table) ([]Event, error) {
	out, err := store.Collect[Event](apart(ctx), table, store.Query{PK: historySpace.Partition("all"), Descending: true, Limit: maxHistory})
	if err != nil {
		return nil, fmt.Errorf("read the history of the root key: %w", err)
	}
	return out, nil
}
