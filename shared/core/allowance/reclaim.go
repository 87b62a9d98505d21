package allowance

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gatewright/gatewright/shared/core/store"
)

const (
	// maxReclaimJournals is the maximum number of journals for one call of Reclaim. The next call continues.
	maxReclaimJournals = 1000
	// maxRecordsPerReclaim is the maximum number of records in one transaction of Reclaim.
	maxRecordsPerReclaim = 25
)

// Reclaim returns quota units that instances have leased and will not spend: the units in journals that have not
// been written for a minute before now. Call it once a minute; concurrent and interrupted calls do no harm. An
// instance that was only frozen detects this at its next write, and continues with the units that it had activated.
//
// A journal that fails does not block the others: Reclaim returns the joined errors.
func Reclaim(ctx context.Context, table *store.Table, now time.Time) error {
	due, err := table.Keys(ctx, store.Query{
		Index: store.DueIndex, PK: duePartition(), UpTo: now.UTC().Format(dueFormat), Limit: maxReclaimJournals,
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
		if err := reclaim(ctx, table, key, now); err != nil && !errors.Is(err, errJournalChanged) {
			failed = append(failed, err)
		}
	}
	return errors.Join(failed...)
}

// reclaim adds the units of one journal back to their records. errJournalChanged means that
// the journal's instance is alive, or that another process is returning the units.
func reclaim(ctx context.Context, table *store.Table, key store.Key, now time.Time) error {
	var r journalRecord
	switch err := table.Get(ctx, key, &r); {
	case errors.Is(err, store.ErrNotFound):
		return nil
	case err != nil:
		return fmt.Errorf("read the journal of an instance that is gone: %w", err)
	case r.DuePK == "", r.DueSK > now.UTC().Format(dueFormat):
		return nil // the index was not up to date
	}
	if !r.Dead {
		alive := store.And(store.Equal(store.At("seq"), r.Seq), store.Lacks(store.At("dead")))
		r.Dead, r.Reclaimed = true, 1
		if err := table.Commit(ctx, store.Put(key, r).If(alive).Else(errJournalChanged)); err != nil {
			return fmt.Errorf("close the journal of an instance that is gone: %w", err)
		}
	}
	for r.DuePK != "" {
		next, err := reclaimBatch(ctx, table, key, r, now)
		if err != nil {
			return fmt.Errorf("give back what an instance that is gone had leased: %w", err)
		}
		r = next
	}
	return nil
}

// reclaimBatch adds the units of the first entries of a dead journal back to their records, in the
// transaction that removes these entries. It returns the journal without these entries.
func reclaimBatch(
	ctx context.Context, table *store.Table, key store.Key, r journalRecord, now time.Time,
) (journalRecord, error) {
	batch := r.Entries[:min(len(r.Entries), maxRecordsPerReclaim)]
	next := r
	next.Entries = r.Entries[len(batch):]
	next.Reclaimed++
	if len(next.Entries) == 0 {
		next.DuePK, next.DueSK, next.TTL = "", "", now.Add(tombstoneRetention).Unix()
	}
	unchanged := store.And(store.Equal(store.At("dead"), true), store.Equal(store.At("reclaimed"), r.Reclaimed))
	for {
		writes := []store.Write{}
		for _, e := range batch {
			o := &journalChange{period: e.period(), granted: -e.Units}
			writes = append(writes, o.write())
		}
		journal := store.Put(key, next).If(unchanged).Else(errJournalChanged)
		err := table.Commit(ctx, append([]store.Write{journal}, writes...)...)
		refused, ok := errors.AsType[*refusal](err)
		if !ok {
			return next, err
		}
		// The record no longer exists, and neither do the units leased from it.
		remaining := make([]entry, 0, len(batch))
		for _, e := range batch {
			if e.period() != refused.change.period {
				remaining = append(remaining, e)
			}
		}
		batch = remaining
	}
}
