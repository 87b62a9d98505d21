package counts

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/gatewright/gatewright/shared/core/store"
)

// Window is the period before now that a report covers.
type Window string

// The windows (contract 2.10).
const (
	LastHour        Window = "last-hour"
	Last24Hours     Window = "last-24-hours"
	Last7Days       Window = "last-7-days"
	Last30Days      Window = "last-30-days"
	LastThreeMonths Window = "last-3-months"
)

// span defines how a window is read: rows of the first resolution cover as much as possible, and rows of the next
// resolution cover the remainder at the beginning.
type span struct {
	// duration is the duration of the window. A report begins at the start of a row of the finest resolution to read,
	// so it may cover up to one such row more.
	duration time.Duration
	// rowResolutions contains the resolutions of the rows to read, the coarsest first.
	rowResolutions []resolution
	// pointResolution is the interval between the details of a report.
	pointResolution resolution
}

// span returns the span of a window. Three months are 92 days, their maximum.
func (w Window) span() (span, error) {
	switch w {
	case LastHour:
		return span{time.Hour, []resolution{finest}, finest}, nil
	case Last24Hours:
		return span{day, []resolution{hourly, finest}, hourly}, nil
	case Last7Days:
		return span{7 * day, []resolution{daily, hourly}, daily}, nil
	case Last30Days:
		return span{30 * day, []resolution{daily, hourly}, daily}, nil
	case LastThreeMonths:
		return span{92 * day, []resolution{weekly, daily}, weekly}, nil
	}
	return span{}, fmt.Errorf("counts: there is no window %q", w)
}

// run is a sequence of rows of one resolution. from is the beginning of the first row, and to is the latest possible
// beginning of the last row.
type run struct {
	resolution resolution
	from, to   int64
}

// cover returns the beginning of the window that ends at now, and the rows that cover everything since then.
func (s span) cover(now time.Time) (from int64, runs []run) {
	rowResolutions := s.rowResolutions
	from = rowResolutions[len(rowResolutions)-1].start(now.Add(-s.duration).Unix())
	at := from
	for i := len(rowResolutions) - 1; i > 0; i-- {
		// This run ends where a row of the next coarser resolution begins.
		next := rowResolutions[i-1].start(at)
		if next < at {
			next += int64(rowResolutions[i-1].duration / time.Second)
		}
		if next > at {
			runs = append(runs, run{rowResolutions[i], at, next - 1})
		}
		at = next
	}
	// No row begins after now, unless the clock of a gateway is ahead of this one.
	return from, append(runs, run{rowResolutions[0], at, max(at, now.Add(day).Unix())})
}

// Reader reads the counts. It is safe for concurrent use.
type Reader struct {
	table       *store.Table
	now         func() time.Time
	concurrency int // maximum number of concurrent queries of a report
}

// NewReader returns a Reader of a table. now returns the end of the windows.
func NewReader(table *store.Table, now func() time.Time) *Reader { return &Reader{table, now, 4} }

// part is a tally with the beginning of its interval.
type part struct {
	start int64
	*tally
}

// readAttempts is the maximum number of attempts to read a report if rollups commit during the reading. A rollup runs
// once a minute.
const readAttempts = 5

// parts returns the counts of a deployment since from.
//
// It reads the pending rows and the rolled-up rows with several queries. A rollup between these queries would move
// rows, so that they count twice or not at all. parts detects such a rollup by the version of the rollupState, and
// reads again. After readAttempts attempts it returns the last result. A gateway that merges rows in between needs no
// check: counts stay in their row, and each row is read once.
func (r *Reader) parts(ctx context.Context, deployment string, from int64, runs []run) ([]part, error) {
	for attempt := 1; ; attempt++ {
		before, err := r.version(ctx, deployment)
		if err != nil {
			return nil, err
		}
		found, err := r.read(ctx, deployment, from, runs)
		if err != nil {
			return nil, err
		}
		after, err := r.version(ctx, deployment)
		if err != nil || before == after || attempt == readAttempts {
			return found, err
		}
	}
}

// version returns the number of a deployment's rollups.
func (r *Reader) version(ctx context.Context, deployment string) (int64, error) {
	var state rollupState
	err := r.table.Load(ctx, store.Get(rollupStateKey(deployment), &state))
	return state.Version, err
}

// read reads the rows of the runs, and the intervals of the pending rows since from.
func (r *Reader) read(ctx context.Context, deployment string, from int64, runs []run) ([]part, error) {
	found := make([][]part, len(runs)+1)
	var group errgroup.Group
	group.SetLimit(r.concurrency)
	for i, run := range runs {
		group.Go(func() (err error) {
			found[i], err = r.rows(ctx, deployment, run)
			return err
		})
	}
	group.Go(func() error {
		pending, err := r.pending(ctx, deployment)
		for _, counts := range pending {
			for _, s := range counts.intervals {
				if s.start >= from {
					found[len(runs)] = append(found[len(runs)], part(s))
				}
			}
		}
		return err
	})
	if err := group.Wait(); err != nil {
		return nil, fmt.Errorf("read what was counted: %w", err)
	}
	var out []part
	for _, parts := range found {
		out = append(out, parts...)
	}
	return out, nil
}

func (r *Reader) rows(ctx context.Context, deployment string, run run) ([]part, error) {
	rows, err := store.Collect[row](ctx, r.table, store.Query{
		PK:    run.resolution.partition(deployment),
		After: formatTime(run.from - 1), // no row has this key
		UpTo:  formatTime(run.to),
	})
	if err != nil {
		return nil, err
	}
	var out []part
	for _, found := range rows {
		t, err := unpackTally(found.Data)
		if err != nil {
			return nil, err
		}
		start, ok := parseTime(found.SK)
		if !ok {
			return nil, fmt.Errorf("read a row at %s: that is no time", found.SK)
		}
		out = append(out, part{start, t})
	}
	return out, nil
}

// pending reads the pending rows.
func (r *Reader) pending(ctx context.Context, deployment string) ([]*pendingCounts, error) {
	rows, err := store.Collect[row](ctx, r.table, store.Query{PK: pendingPartition(deployment)})
	if err != nil {
		return nil, err
	}
	out := make([]*pendingCounts, len(rows))
	for i, found := range rows {
		if out[i], err = unpackPending(found.Data); err != nil {
			return nil, err
		}
	}
	return out, nil
}
