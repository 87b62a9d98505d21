package billingperiods

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/gatewright/gatewright/shared/core/operation"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/resource/metering"
)

const (
	// pageSize is the number of subscriptions per step. A step takes seconds, and a crash repeats at most one step.
	pageSize = 200
	// concurrency is the maximum number of subscriptions that a step closes at the same time.
	concurrency = 8
	// maxFailures is the maximum number of failures in a step that closeShard attributes to broken subscriptions. If
	// there are more, the table or the release is at fault, and the step fails.
	maxFailures = 20
)

// Definitions returns the definitions of the operations.
func (s *Service) Definitions() []operation.Definition {
	return []operation.Definition{
		{Kind: CloseShard, First: "close", States: map[string]operation.State{
			"close": {
				Description: "closes what is due in a shard, a part a step", Task: s.closeShard, Next: operation.Succeed,
				MustSucceed: true,
			},
		}},
		{Kind: CloseOne, First: "close", States: map[string]operation.State{
			"close": {
				Description: "closes what is due of a subscription that could not be closed with the others",
				Task:        s.closeOne, Next: operation.Succeed, MustSucceed: true,
			},
		}},
	}
}

// progress is the data of a CloseShard.
type progress struct {
	// After is the sort key (entry.Due) of the last entry that was processed, "" at the beginning and at the end.
	After string `json:"after,omitempty"`
}

// entry is a subscription's entry in the due index.
type entry struct {
	store.Key
	// Due is the entry's sort key in the index.
	Due string
}

// find returns the entries of due subscriptions that match q.
func (s *Service) find(ctx context.Context, q store.Query) (due []entry, err error) {
	err = s.table.Each(ctx, q, func(item store.Item) (bool, error) {
		var at struct {
			Due string `dynamodbav:"dueSk"`
		}
		err := store.Decode(item, &at)
		due = append(due, entry{store.KeyOf(item), at.Due})
		return true, err
	})
	return due, err
}

// closeShard closes a page of due subscriptions. It commits each subscription separately, before the step's own
// commit. So a subscription that is broken or has just changed does not affect the others. Closing a subscription
// twice has no further effect.
//
// For a subscription that fails, closeShard begins a separate operation, so that a person can find it by its name
// (docs/observability.md). The index may still contain subscriptions that are already closed. Each of them needs one
// more read.
func (s *Service) closeShard(ctx context.Context, step operation.Step) (operation.Result, error) {
	var in closeShardInput
	var at progress
	if err := errors.Join(step.Input(&in), step.Data(&at)); err != nil {
		return operation.Result{}, err
	}
	q := metering.DueQuery(in.Shard, in.Until)
	q.After, q.Limit = at.After, pageSize
	due, err := s.find(ctx, q)
	if err != nil {
		return operation.Result{}, fmt.Errorf("find the subscriptions that are due: %w", err)
	}
	closed, failed := s.closeAll(ctx, due, in.Until)
	if err := context.Cause(ctx); err != nil {
		return operation.Result{}, err
	}
	if len(failed) > maxFailures {
		return operation.Result{}, fmt.Errorf("close subscriptions, of which %d of %d fail, such as %s: %w", len(failed),
			len(due), failed[0].SK, failed[0].err)
	}
	for _, f := range failed {
		if err := s.startCloseOne(ctx, f, in.Until, step.Now); err != nil {
			return operation.Result{}, err
		}
	}
	s.log.InfoContext(ctx, "subscriptions were closed", "operation", step.ID, "shard", in.Shard, "due", len(due), "closed",
		closed, "failed", len(failed))
	if len(due) < pageSize {
		return operation.Result{Data: progress{}}, nil
	}
	return operation.Result{Repeat: true, Data: progress{After: due[len(due)-1].Due}}, nil
}

// failure is an entry that could not be closed, with the error.
type failure struct {
	entry
	err error
}

// closeAll closes the subscriptions of the entries. closed is the number of subscriptions that it has changed.
func (s *Service) closeAll(ctx context.Context, due []entry, until time.Time) (closed int, failed []failure) {
	var mu sync.Mutex
	var group errgroup.Group
	group.SetLimit(concurrency)
	for _, e := range due {
		group.Go(func() error {
			changed, err := s.close(ctx, e.Key, until)
			mu.Lock()
			defer mu.Unlock()
			if changed {
				closed++
			}
			if err != nil {
				failed = append(failed, failure{e, err})
			}
			return nil
		})
	}
	_ = group.Wait() // no function of the group returns an error
	return closed, failed
}

// close closes the periods and trials of a subscription that ended at or before until. changed reports whether it wrote
// anything.
func (s *Service) close(ctx context.Context, key store.Key, until time.Time) (changed bool, err error) {
	for {
		committed, more := false, false
		err := s.table.RunInTx(ctx, func(ctx context.Context) error {
			writes, hasMore, err := s.subscriptions.Close(ctx, key, until)
			if err != nil || len(writes) == 0 {
				return err
			}
			if err := s.table.Commit(ctx, writes...); err != nil {
				return err
			}
			committed, more = true, hasMore
			return nil
		})
		changed = changed || committed
		if err != nil || !more {
			return changed, err
		}
	}
}

// closeOneInput is the input of a CloseOne.
type closeOneInput struct {
	Key   store.Key `json:"key"`
	Until time.Time `json:"until"`
}

// startCloseOne begins a separate operation that closes a subscription and retries until it succeeds. The operation's
// ID is derived from the due entry, so that other runs that find the same entry begin no second operation.
func (s *Service) startCloseOne(ctx context.Context, f failure, until, now time.Time) error {
	s.log.ErrorContext(ctx, "a subscription could not be closed", "subscription", f.SK, "due", f.Due, "cause", f.err)
	_, err := s.start(ctx, operation.Start{
		ID:   CloseOne + "-" + strings.ReplaceAll(f.Due, "#", "-"),
		Kind: CloseOne, Subject: f.SK, Input: closeOneInput{f.Key, until},
	}, now)
	if err != nil {
		return fmt.Errorf("leave a subscription that could not be closed to an operation of its own: %w", err)
	}
	return nil
}

// closeOne closes the subscription of a CloseOne.
func (s *Service) closeOne(ctx context.Context, step operation.Step) (operation.Result, error) {
	var in closeOneInput
	if err := step.Input(&in); err != nil {
		return operation.Result{}, err
	}
	if _, err := s.close(ctx, in.Key, in.Until); err != nil {
		return operation.Result{}, fmt.Errorf("close a subscription: %w", err)
	}
	return operation.Result{}, nil
}
