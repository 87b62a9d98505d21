// Package operation runs durable operations: work that outlives the request
// that asked for it, such as builds, redeploys and cascading deletes.
//
// A Definition is a small table of named states. A Record in the product's
// table says how far one operation has come. An Engine advances records: it
// runs the task of the current state and commits the writes that the task
// answers together with the record's advance, in one transaction that holds
// only for the record's version. So an effect in the table happens exactly
// once, whoever runs the task, and however often. An effect elsewhere (S3, a
// call to another service) may happen more than once and has to be idempotent.
//
// A lease keeps workers from doing the same task at the same time. It saves
// work; it is not what makes the effects exact, so clocks may differ.
//
// What it is not: a queue (there is no order between operations), a timer (a
// wait ends up to a sweep's interval late) or a way to cancel work.
//
// Read this file first, then definition.go and record.go; engine.go and
// step.go run them, stream.go says what starts a worker, items.go has the tasks
// of cascading deletes. Package operationtest checks definitions under
// every kind of failure. The rules are those of design, section 6.
package operation

import (
	"errors"
	"fmt"
	"hash/fnv"
	"time"

	"github.com/gatewright/gatewright/shared/store"
)

// ErrLost is what a commit answers when another worker has taken the operation
// over: nothing of the commit has happened, and the loser has to stop.
var ErrLost = errors.New("operation: another worker has taken over")

// Start is what begins an operation.
type Start struct {
	// ID is what clients poll, unique in the installation.
	ID string
	// Kind names the Definition.
	Kind string
	// Subject names what the operation works on, for the log and for lists.
	Subject string
	// AccountID is whose it is; a reader compares it before it shows anything.
	AccountID string
	// Input is stored as JSON, at most 128 KiB, and holds no secret that is not
	// sealed. Tasks read it with Step.Input.
	Input any
	// NotBefore delays the first step; the zero value does not.
	NotBefore time.Time
}

// Begin is the write that creates an operation's record, for a commit of the
// caller's. The first worker that hears of it runs it. An id that is in use
// answers ErrCondition, or what the caller adds with Else: a start that may be
// repeated names its operation after what it is about.
func Begin(s Start, now time.Time) store.Write {
	r, err := begin(s, now)
	if err != nil {
		return refuse(s.ID, err)
	}
	return create(r)
}

func begin(s Start, now time.Time) (Record, error) {
	if s.ID == "" || s.Kind == "" {
		return Record{}, errors.New("begin an operation: it needs an id and a kind")
	}
	input, err := encode(s.Input)
	if err != nil {
		return Record{}, fmt.Errorf("encode the input of %s: %w", s.Kind, err)
	}
	r := Record{
		ID: s.ID, Kind: s.Kind, Subject: s.Subject, AccountID: s.AccountID,
		Status: InProgress, Version: 1, Input: input,
		CreatedOn: instant(now), UpdatedOn: instant(now),
	}
	r.due(later(r.CreatedOn, instant(s.NotBefore)))
	return r, nil
}

// Ended is the write that creates the record of an operation for which there is
// nothing to do, as one that has succeeded: for a request that promises its client
// an operation to poll. No worker hears of it.
func Ended(s Start, message string, now time.Time) store.Write {
	r, err := begin(s, now)
	if err != nil {
		return refuse(s.ID, err)
	}
	r.Message = clip(message)
	r.finish(Success, now)
	return create(r)
}

func create(r Record) store.Write { return store.Create(Key(r.ID), r) }

// refuse is a write that cannot happen: the commit it is in answers err.
func refuse(id string, err error) store.Write {
	never := store.And(store.Exists(), store.Absent())
	return store.Check(Key(id), never).Else(err)
}

// dueShards spread the due index: one partition takes 1,000 writes a second.
const dueShards = 4

func shardOf(id string) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(id))
	return int(h.Sum32() % dueShards)
}

// instant is a time as records keep it: UTC, whole milliseconds.
func instant(t time.Time) time.Time { return t.UTC().Truncate(time.Millisecond) }

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
