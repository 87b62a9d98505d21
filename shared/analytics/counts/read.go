package counts

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/gatewright/gatewright/shared/store"
)

// Window is how far back a report looks.
type Window string

// The windows (contract 2.10).
const (
	LastHour        Window = "last-hour"
	Last24Hours     Window = "last-24-hours"
	Last7Days       Window = "last-7-days"
	Last30Days      Window = "last-30-days"
	LastThreeMonths Window = "last-3-months"
)

// span is how a window is read: what is covered by rows of the first length is, and what is left at its beginning by those of the next.
type span struct {
	// back is how far it reaches, longest the length of its finest rows, at which it begins.
	back time.Duration
	// by are the lengths of the rows that are read, the longest first.
	by []length
	// point is what a report's details are apart.
	point length
}

// span reads a window. Three months are 92 days, the most that they can be.
func (w Window) span() (span, error) {
	switch w {
	case LastHour:
		return span{time.Hour, []length{finest}, finest}, nil
	case Last24Hours:
		return span{day, []length{hourly, finest}, hourly}, nil
	case Last7Days:
		return span{7 * day, []length{daily, hourly}, daily}, nil
	case Last30Days:
		return span{30 * day, []length{daily, hourly}, daily}, nil
	case LastThreeMonths:
		return span{92 * day, []length{weekly, daily}, weekly}, nil
	}
	return span{}, fmt.Errorf("counts: there is no window %q", w)
}

// run is a run of rows of one length: from is the first's beginning, and to that of the last at most.
type run struct {
	length   length
	from, to int64
}

// cover gives the beginning of what a window reads at a time, and the rows that cover all from then on.
func (s span) cover(now time.Time) (from int64, runs []run) {
	by := s.by
	from = by[len(by)-1].start(now.Add(-s.back).Unix())
	at := from
	for i := len(by) - 1; i > 0; i-- {
		// Up to where a longer row begins.
		next := by[i-1].start(at)
		if next < at {
			next += int64(by[i-1].duration / time.Second)
		}
		if next > at {
			runs = append(runs, run{by[i], at, next - 1})
		}
		at = next
	}
	// No row begins later than now, unless some gateway's clock is ahead of ours.
	return from, append(runs, run{by[0], at, max(at, now.Add(day).Unix())})
}

// Reader reads what was counted. It is safe for concurrent use.
type Reader struct {
	table  *store.Table
	now    func() time.Time
	atOnce int // queries, of a report
}

// NewReader makes a Reader of a table. now says where windows end.
func NewReader(table *store.Table, now func() time.Time) *Reader { return &Reader{table, now, 4} }

// part is a tally with the beginning of its interval.
type part struct {
	start int64
	*tally
}

// readAttempts bounds how often a report is read anew because a rollup came in between. There is one a minute.
const readAttempts = 5

// parts gives what was counted of a deployment from a time on.
//
// What is not rolled up and what is are read one after the other, so that a rollup in between would have rows counted twice, or not at all. Its
// number tells. A gateway that merges in between needs none: what is in a row stays in it, and each is read once.
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

func (r *Reader) version(ctx context.Context, deployment string) (int64, error) {
	var h head
	err := r.table.Load(ctx, store.Want(headKey(deployment), &h))
	return h.Version, err
}

func (r *Reader) read(ctx context.Context, deployment string, from int64, runs []run) ([]part, error) {
	found := make([][]part, len(runs)+1)
	var group errgroup.Group
	group.SetLimit(r.atOnce)
	for i, run := range runs {
		group.Go(func() (err error) {
			found[i], err = r.rows(ctx, deployment, run)
			return err
		})
	}
	group.Go(func() error {
		waiting, err := r.fresh(ctx, deployment)
		for _, f := range waiting {
			for _, s := range f.slots {
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
		PK:    run.length.partition(deployment),
		After: spell(run.from - 1), // nothing begins there
		UpTo:  spell(run.to),
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
		start, ok := spelled(found.SK)
		if !ok {
			return nil, fmt.Errorf("read a row at %s: that is no time", found.SK)
		}
		out = append(out, part{start, t})
	}
	return out, nil
}

// fresh reads what is not rolled up.
func (r *Reader) fresh(ctx context.Context, deployment string) ([]*fresh, error) {
	rows, err := store.Collect[row](ctx, r.table, store.Query{PK: freshPartition(deployment)})
	if err != nil {
		return nil, err
	}
	out := make([]*fresh, len(rows))
	for i, found := range rows {
		if out[i], err = unpackFresh(found.Data); err != nil {
			return nil, err
		}
	}
	return out, nil
}
