// Package billingperiods closes metering subscriptions when one of their periods or trials has ended, with durable
// operations (design, section 8). Begin begins an operation for each shard that has due subscriptions. Definitions
// returns the definitions of these operations.
//
// The package does not decide what happens at the end of a period: metering.Service.Close returns the writes for one
// subscription. They are committed only if the subscription has not changed since it was read, so runs that are
// repeated, late, interrupted or concurrent have the same result. This package only has to call Close until no
// subscription is due.
//
// The cost grows with the number of due subscriptions, not with the
// number of all subscriptions, because the table's due index finds them.
//
// Read this file first, then close.go.
package billingperiods

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/core/operation"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/resource/metering"
)

// The kinds of operation.
const (
	// CloseShard closes all due subscriptions in a shard.
	CloseShard = "metering-boundaries"
	// CloseOne closes one subscription that a CloseShard could not close.
	CloseOne = "metering-boundary"
)

// Subscriptions computes the writes that close the periods and trials of a subscription that ended at or before now.
// Commit the writes together. The commit returns store.ErrStale if the subscription has changed since it was read. If
// there are no writes, the subscription is no longer due. more reports whether Close must be called again after the
// commit.
type Subscriptions interface {
	Close(ctx context.Context, key store.Key, now time.Time) (writes []store.Write, more bool, err error)
}

var _ Subscriptions = (*metering.Service)(nil)

// Service begins and runs the operations. It is safe for concurrent use.
type Service struct {
	table         *store.Table
	subscriptions Subscriptions
	log           *slog.Logger
}

// Open returns the Service of an installation.
func Open(p installation.Parts) *Service { return New(p.Table, metering.Open(p), p.Log) }

// New returns a Service that uses these parts.
func New(table *store.Table, subscriptions Subscriptions, log *slog.Logger) *Service {
	return &Service{table, subscriptions, log}
}

// closeShardInput is the input of a CloseShard.
type closeShardInput struct {
	Shard int `json:"shard"`
	// Until is the time up to which the operation closes periods. It is fixed, so that the result does not depend on
	// when the operation runs.
	Until time.Time `json:"until"`
}

// errAlreadyStarted means that an operation with the same ID was begun before.
var errAlreadyStarted = errors.New("boundaries: the operation was begun before")

// Begin begins an operation for each shard that has subscriptions due at now, and returns the number of operations
// that it has begun. If Begin is called twice in the same minute, the second call begins no operation that the first
// one has begun. An operation of a later minute does not repeat work that is already done. If Begin fails for a
// shard, it continues with the other shards, and the next call retries the failed one.
func (s *Service) Begin(ctx context.Context, now time.Time) (started int, err error) {
	now = store.Instant(now)
	var errs []error
	for shard := range metering.DueShards {
		isNew, err := s.beginShard(ctx, shard, now)
		if err != nil {
			errs = append(errs, fmt.Errorf("begin to close boundaries of shard %d: %w", shard, err))
		}
		if isNew {
			started++
		}
	}
	return started, errors.Join(errs...)
}

// beginShard begins the operation of one shard, if the shard has subscriptions due at now.
func (s *Service) beginShard(ctx context.Context, shard int, now time.Time) (started bool, err error) {
	q := metering.DueQuery(shard, now)
	q.Limit = 1
	due, err := s.table.Keys(ctx, q)
	if err != nil || len(due) == 0 {
		return false, err
	}
	return s.start(ctx, operation.Start{
		ID:   fmt.Sprintf("%s-%s-%d", CloseShard, now.Format("20060102T1504"), shard),
		Kind: CloseShard, Subject: "shard " + strconv.Itoa(shard), Input: closeShardInput{shard, now},
	}, now)
}

// start begins an operation. It returns false if the operation was begun before.
func (s *Service) start(ctx context.Context, o operation.Start, now time.Time) (started bool, err error) {
	err = s.table.Commit(ctx, operation.Create(o, now).Else(errAlreadyStarted))
	if errors.Is(err, errAlreadyStarted) {
		return false, nil
	}
	return err == nil, err
}
