package store

import (
	"context"
	"errors"
	"fmt"
)

// Backend is the interface between a Table and a database: DynamoDB (dynamo.go), a table in memory (package
// memory), an embedded database (package embedded), or a simulator that injects faults. All calls are safe for
// concurrent use. A backend charges each call to the Meter of its context (ChargeRead and the other Charge functions).
//
// A backend returns *ConditionError for a failed condition. An error that wraps ErrRetryable means that the call can be
// repeated. An error that wraps ErrOutcomeUnknown, with or without ErrRetryable, means that the call may have had its
// effect.
type Backend interface {
	// Read reads the items at 1 to MaxKeys different keys, each with a consistent
	// read. It returns the items that exist, in any order.
	Read(ctx context.Context, keys []Key) ([]Item, error)
	// Query returns one page of a partition. next is the Cursor of the query for
	// the next page, in the backend's own encoding, or "" at the end.
	Query(ctx context.Context, q Query) (items []Item, next string, err error)
	// Transact applies all writes or none. A call that repeats a
	// successful call with the same token succeeds and changes nothing.
	Transact(ctx context.Context, token string, writes []Write) error
}

// ErrRetryable marks a failure of a backend after which the caller can repeat the
// same call: for example throttling, a conflict with another transaction, or a lost reply.
var ErrRetryable = errors.New("store: repeat the call")

// ErrOutcomeUnknown marks a failure of a backend after which it is unknown whether the call had its
// effect: for example a broken connection, a 5xx, or a transaction that is still in progress.
var ErrOutcomeUnknown = errors.New("store: the outcome is not known")

// ConditionError means that conditions of a transaction's writes were false.
type ConditionError struct {
	// Failed has the indexes of the writes whose condition was false, in ascending order.
	Failed []int
}

func (e *ConditionError) Error() string {
	return fmt.Sprintf("store: the conditions of writes %v are false", e.Failed)
}

// StreamRecord is one change of an item in the table's stream.
type StreamRecord struct {
	Key Key
	// Old and New are the item before and after the change, nil if the item did not exist.
	Old, New Item
}
