// Package operation runs durable operations: work that outlives the request that
// started it, such as builds, redeploys and cascading deletes.
//
// A Definition is a small table of named states. A Record in the product's table stores the progress of one operation. An Engine
// advances records: it runs the task of the current state and commits the task's writes together with the record's advance, in
// one transaction that requires the record's version. So an effect in the table happens exactly once, no matter which worker runs
// the task and how often. An effect elsewhere (S3, a call to another service) can happen more than once and must be idempotent.
//
// A lease keeps workers from doing the same task at the same time. It only saves work:
// effects in the table happen exactly once without leases too, so clocks may differ.
//
// The package is not a queue (there is no order between operations), not a timer (a
// wait can end late, by up to the interval of sweeps), and it cannot cancel work.
//
// Read this file first, then definition.go and record.go. engine.go and step.go run operations,
// stream.go starts workers, and items.go has the tasks of cascading deletes. Package operationtest
// tests definitions under every kind of failure. The rules are those of design, section 6.
package operation

import (
	"errors"
	"fmt"
	"hash/fnv"
	"time"

	"github.com/gatewright/gatewright/shared/core/store"
)

// ErrLost is the error of a commit if the operation's record has changed since it was read, usually
// because another worker has taken over the operation. The commit had no effect.
var ErrLost = errors.New("operation: another worker has taken over")

// Start describes an operation to begin.
type Start struct {
	// ID is the id that clients poll, unique in the installation.
	ID string
	// Kind is the kind of the Definition.
	Kind string
	// Subject is the name of the resource that the operation changes, for the log and for lists.
	Subject string
	// AccountID is the account of the operation. Code that shows the
	// operation to a client must compare it with the client's account.
	AccountID string
	// Input is stored as JSON of at most 128 KiB. It must not contain unsealed secrets. Tasks read it with Step.Input.
	Input any
	// NotBefore delays the first step; the zero value means no delay.
	NotBefore time.Time
}

// Create returns the write that creates an operation's record, for a commit of the caller. The first worker that
// receives the record's change runs the operation. If Start.NotBefore is in the future then, a later sweep runs it. If
// the id is in use, the commit returns store.ErrCondition, or the error that the caller adds with Else. So if a start
// may be repeated, derive the operation's id from its subject. If s is invalid, the commit fails with the reason.
func Create(s Start, now time.Time) store.Write {
	r, err := begin(s, now)
	if err != nil {
		return failingWrite(s.ID, err)
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
	r.setDue(laterOf(r.CreatedOn, instant(s.NotBefore)))
	return r, nil
}

// CreateEnded returns the write that creates the record of an operation that has ended with status success. It is
// for a request that has nothing to do, but has to return an operation that the client can poll. No worker runs it.
func CreateEnded(s Start, message string, now time.Time) store.Write {
	r, err := begin(s, now)
	if err != nil {
		return failingWrite(s.ID, err)
	}
	r.Message = clip(message)
	r.finish(Success, now)
	return create(r)
}

func create(r Record) store.Write { return store.Create(Key(r.ID), r) }

// failingWrite returns a write that cannot succeed: its commit returns err.
func failingWrite(id string, err error) store.Write {
	impossible := store.And(store.Exists(), store.Absent())
	return store.Check(Key(id), impossible).Else(err)
}

// dueShards is the number of partitions of the due index: one partition accepts 1,000 writes a second.
const dueShards = 4

func shardOf(id string) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(id))
	return int(h.Sum32() % dueShards)
}

// instant converts a time to the form of records: UTC, whole milliseconds.
func instant(t time.Time) time.Time { return t.UTC().Truncate(time.Millisecond) }

func laterOf(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
