package allowance

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gatewright/gatewright/shared/store"
)

const (
	// reclaimAtOnce bounds the journals of one Reclaim: the next one goes on.
	reclaimAtOnce = 1000
	// recordsPerReclaim bounds the records of one of its transactions.
	recordsPerReclaim = 25
)

// Reclaim gives back what instances have leased of quotas and will not spend: those
// whose journal was not written to for a minute by the clock now. It is called once a
// minute; two at the same time, and one that stops halfway, do no harm. An instance that
// was frozen and not dead hears of it at its next write, and goes on with what it had begun.
//
// A journal that fails keeps no other from its turn: the error is all of theirs.
func Reclaim(ctx context.Context, table *store.Table, now time.Time) error {
	due, err := table.Keys(ctx, store.Query{
		Index: store.DueIndex, PK: duePartition(), UpTo: now.UTC().Format(dueFormat), Limit: reclaimAtOnce,
		Unchecked: "each journal is read again, and marked under the number that was read",
	})
	if err != nil {
		return fmt.Errorf("look for journals of instances that are gone: %w", err)
	}
	var failed []error
	for _, key := range due {
		if ctx.Err() != nil {
			return errors.Join(append(failed, context.Cause(ctx))...)
		}
		if err := reclaim(ctx, table, key, now); err != nil && !errors.Is(err, errMoved) {
			failed = append(failed, err)
		}
	}
	return errors.Join(failed...)
}

// reclaim gives back one journal's entries. errMoved says that its instance is alive,
// or that another is at it.
func reclaim(ctx context.Context, table *store.Table, key store.Key, now time.Time) error {
	var r journalRecord
	switch err := table.Get(ctx, key, &r); {
	case errors.Is(err, store.ErrNotFound):
		return nil
	case err != nil:
		return fmt.Errorf("read the journal of an instance that is gone: %w", err)
	case r.DuePK == "", r.DueSK > now.UTC().Format(dueFormat):
		return nil // the index was behind
	}
	if !r.Dead {
		alive := store.And(store.Equal(store.At("seq"), r.Seq), store.Lacks(store.At("dead")))
		r.Dead, r.Reclaimed = true, 1
		if err := table.Commit(ctx, store.Put(key, r).If(alive).Else(errMoved)); err != nil {
			return fmt.Errorf("close the journal of an instance that is gone: %w", err)
		}
	}
	for r.DuePK != "" {
		next, err := reclaimSome(ctx, table, key, r, now)
		if err != nil {
			return fmt.Errorf("give back what an instance that is gone had leased: %w", err)
		}
		r = next
	}
	return nil
}

// reclaimSome gives back the first entries of a dead journal, each in the transaction that
// takes it out.
func reclaimSome(ctx context.Context, table *store.Table, key store.Key, r journalRecord, now time.Time) (journalRecord, error) {
	some := r.Entries[:min(len(r.Entries), recordsPerReclaim)]
	next := r
	next.Entries = r.Entries[len(some):]
	next.Reclaimed++
	if len(next.Entries) == 0 {
		next.DuePK, next.DueSK, next.TTL = "", "", now.Add(tombstone).Unix()
	}
	unchanged := store.And(store.Equal(store.At("dead"), true), store.Equal(store.At("reclaimed"), r.Reclaimed))
	for {
		writes := []store.Write{}
		for _, e := range some {
			o := &order{period: e.period(), granted: -e.Units}
			writes = append(writes, o.write())
		}
		journal := store.Put(key, next).If(unchanged).Else(errMoved)
		err := table.Commit(ctx, append([]store.Write{journal}, writes...)...)
		lost, ok := errors.AsType[*refusal](err)
		if !ok {
			return next, err
		}
		// The record is gone, and what was leased of it with it.
		kept := make([]entry, 0, len(some))
		for _, e := range some {
			if e.period() != lost.of.period {
				kept = append(kept, e)
			}
		}
		some = kept
	}
}
