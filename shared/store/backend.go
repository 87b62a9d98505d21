package store

import (
	"context"
	"errors"
	"fmt"
)

// Backend is what a Table needs of a database: DynamoDB (dynamo.go), the one in
// package memory, or a simulator that injects faults. All calls are safe for
// concurrent use, and each is charged to the Meter of its context (ChargeRead
// and its like).
//
// A backend answers a failed condition with *ConditionError, a failure that
// may be repeated with an error that wraps ErrRepeat, and one that does not tell
// whether the call had its effect with one that wraps ErrLost, repeated or not.
type Backend interface {
	// Read gets 1 to MaxKeys items, no two keys alike, each with a consistent
	// read; items that are absent are left out. Order is free.
	Read(ctx context.Context, keys []Key) ([]Item, error)
	// Query gets one page of a partition and, in the backend's own words,
	// where the next one begins, "" at the end: that is the Cursor of the
	// query for the next one.
	Query(ctx context.Context, q Query) (items []Item, next string, err error)
	// Transact applies all writes or none. Repeated with the same token after a
	// success it answers success and changes nothing.
	Transact(ctx context.Context, token string, writes []Write) error
}

// ErrRepeat marks a failure of a backend after which the same call may be made
// again: throttling, a conflict with another transaction, a lost reply.
var ErrRepeat = errors.New("store: repeat the call")

// ErrLost marks a failure of a backend that does not tell whether the call had
// its effect: a broken connection, a 5xx, a transaction that is still at work.
var ErrLost = errors.New("store: the outcome is not known")

// ConditionError tells which writes of a transaction had a false condition.
type ConditionError struct {
	// Failed holds their indexes in rising order.
	Failed []int
}

func (e *ConditionError) Error() string {
	return fmt.Sprintf("store: the conditions of writes %v are false", e.Failed)
}

// StreamRecord is one change of an item, as the table's stream tells it.
type StreamRecord struct {
	Key Key
	// Old and New are the item before and after, nil where it was not there.
	Old, New Item
}
