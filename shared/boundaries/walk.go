package boundaries

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/gatewright/gatewright/shared/metering"
	"github.com/gatewright/gatewright/shared/operation"
	"github.com/gatewright/gatewright/shared/store"
)

const (
	// perStep is how many subscriptions a step looks at: of seconds, and not more
	// than is read again after a death.
	perStep = 200
	// atOnce is how many of them are closed at a time.
	atOnce = 8
	// tolerated is how many subscriptions of a step may fail for it to be them that
	// are broken, and not the table or the release.
	tolerated = 20
)

// Definitions are the kinds of operation.
func (s *Service) Definitions() []operation.Definition {
	return []operation.Definition{
		{Kind: Walk, First: "close", States: map[string]operation.State{
			"close": {Does: "closes what is due in a shard, a part a step", Task: s.walk, Next: operation.Succeed, Must: true},
		}},
		{Kind: Stubborn, First: "close", States: map[string]operation.State{
			"close": {Does: "closes what is due of a subscription that could not be closed with the others", Task: s.again, Next: operation.Succeed, Must: true},
		}},
	}
}

// progress is the data of a Walk.
type progress struct {
	// After is the last entry that was looked at, "" at the end.
	After string `json:"after,omitempty"`
}

// entry is what the due index has of a subscription.
type entry struct {
	store.Key
	// Due is its sort key there.
	Due string
}

// find gives a part of what is due.
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

// walk closes a part of what is due. It commits each subscription by itself and not
// with the step: one that has changed meanwhile, or that is broken, then keeps no
// other from being closed, and one that is closed twice is closed once.
//
// One that fails is left to an operation of its own and passed over, so that a person
// finds it by its name (docs/observability.md). The index may still have what is closed,
// which then costs a look.
func (s *Service) walk(ctx context.Context, step operation.Step) (operation.Result, error) {
	var in walk
	var at progress
	if err := errors.Join(step.Input(&in), step.Data(&at)); err != nil {
		return operation.Result{}, err
	}
	q := metering.DueQuery(in.Shard, in.Until)
	q.After, q.Limit = at.After, perStep
	due, err := s.find(ctx, q)
	if err != nil {
		return operation.Result{}, fmt.Errorf("find the subscriptions that are due: %w", err)
	}
	closed, failed := s.closeAll(ctx, due, in.Until)
	if err := context.Cause(ctx); err != nil {
		return operation.Result{}, err
	}
	if len(failed) > tolerated {
		return operation.Result{}, fmt.Errorf("close subscriptions, of which %d of %d fail, such as %s: %w", len(failed), len(due), failed[0].SK, failed[0].err)
	}
	for _, f := range failed {
		if err := s.leave(ctx, f, in.Until, step.Now); err != nil {
			return operation.Result{}, err
		}
	}
	s.log.InfoContext(ctx, "subscriptions were closed", "operation", step.ID, "shard", in.Shard, "due", len(due), "closed", closed, "failed", len(failed))
	if len(due) < perStep {
		return operation.Result{Data: progress{}}, nil
	}
	return operation.Result{Again: true, Data: progress{After: due[len(due)-1].Due}}, nil
}

// failure is an entry that could not be closed.
type failure struct {
	entry
	err error
}

// closeAll closes what it can, and says how many had something to close.
func (s *Service) closeAll(ctx context.Context, due []entry, until time.Time) (closed int, failed []failure) {
	var mu sync.Mutex
	var group errgroup.Group
	group.SetLimit(atOnce)
	for _, e := range due {
		group.Go(func() error {
			did, err := s.close(ctx, e.Key, until)
			mu.Lock()
			defer mu.Unlock()
			if did {
				closed++
			}
			if err != nil {
				failed = append(failed, failure{e, err})
			}
			return nil
		})
	}
	_ = group.Wait() // none answers an error
	return closed, failed
}

// close closes all that has passed for a subscription, and reports whether that was
// anything.
func (s *Service) close(ctx context.Context, key store.Key, until time.Time) (did bool, err error) {
	for {
		wrote, more := false, false
		err := s.table.Again(ctx, func(ctx context.Context) error {
			writes, further, err := s.subscriptions.Close(ctx, key, until)
			if err != nil || len(writes) == 0 {
				return err
			}
			if err := s.table.Commit(ctx, writes...); err != nil {
				return err
			}
			wrote, more = true, further
			return nil
		})
		did = did || wrote
		if err != nil || !more {
			return did, err
		}
	}
}

// one is the input of a Stubborn.
type one struct {
	Key   store.Key `json:"key"`
	Until time.Time `json:"until"`
}

// leave has a subscription closed by an operation of its own, which tries for as long
// as it takes. Its id is that of what is due, so that those who find it meanwhile begin no
// other.
func (s *Service) leave(ctx context.Context, f failure, until, now time.Time) error {
	s.log.ErrorContext(ctx, "a subscription could not be closed", "subscription", f.SK, "due", f.Due, "cause", f.err)
	_, err := s.start(ctx, operation.Start{
		ID:   Stubborn + "-" + strings.ReplaceAll(f.Due, "#", "-"),
		Kind: Stubborn, Subject: f.SK, Input: one{f.Key, until},
	}, now)
	if err != nil {
		return fmt.Errorf("leave a subscription that could not be closed to an operation of its own: %w", err)
	}
	return nil
}

// again closes the subscription of a Stubborn.
func (s *Service) again(ctx context.Context, step operation.Step) (operation.Result, error) {
	var in one
	if err := step.Input(&in); err != nil {
		return operation.Result{}, err
	}
	if _, err := s.close(ctx, in.Key, in.Until); err != nil {
		return operation.Result{}, fmt.Errorf("close a subscription: %w", err)
	}
	return operation.Result{}, nil
}
