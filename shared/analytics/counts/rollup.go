package counts

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/gatewright/gatewright/shared/store"
)

// rollupRows bounds the rows that a transaction of a rollup adds to. What gateways wrote of a deployment at a time is in two intervals of each length
// at most; the rest is room for a rollup that comes late, and for clocks that jump. The transaction has placeCount removals besides.
const rollupRows = 24

const (
	// rollupAtOnce bounds the deployments of one run: the next one goes on.
	rollupAtOnce = 10_000
	// rollupParallel is how many deployments are rolled up at a time.
	rollupParallel = 8
)

// errOvertaken is what a transaction answers that another rollup came before.
var errOvertaken = errors.New("counts: another rollup of the deployment came first")

// errMerged is what a transaction answers whose rows a gateway has merged with since they were read.
var errMerged = errors.New("counts: a gateway has written to what was added up")

// Rollup adds up what gateways have written.
//
// The rows that it adds to, the removal of those that it adds, and a number that only rises are one transaction. So each counts once, whoever
// dies in between, whatever is done twice, and however many are at it: all but one of them find the number risen. No time has any part in this.
type Rollup struct {
	table *store.Table
	now   func() time.Time
	most  int // waiting rows that a transaction takes at first
}

// NewRollup makes a Rollup of a table. now says when rows expire.
func NewRollup(table *store.Table, now func() time.Time) *Rollup {
	return &Rollup{table, now, placeCount}
}

// Run adds up all that is there, and gives how many rows were added to others. A deployment that fails keeps no other from its turn: the error is
// all of theirs. Two at the same time do no harm.
func (r *Rollup) Run(ctx context.Context) (added int, err error) {
	ctx = store.Undecided(ctx, "a rollup raises the number that it has read")
	deployments, err := r.due(ctx)
	if err != nil {
		return 0, fmt.Errorf("look for what gateways have counted: %w", err)
	}
	numbers, failed := make([]int, len(deployments)), make([]error, len(deployments))
	var group errgroup.Group
	group.SetLimit(rollupParallel)
	for i, name := range deployments {
		group.Go(func() error {
			if numbers[i], failed[i] = r.deployment(ctx, name); failed[i] != nil {
				failed[i] = fmt.Errorf("roll up the calls of %s: %w", name, failed[i])
			}
			return nil
		})
	}
	_ = group.Wait() // none of them answers an error
	for _, n := range numbers {
		added += n
	}
	return added, errors.Join(failed...)
}

// due lists the deployments of which there is something to add up, those that have waited longest first. It is bounded by deployments and not
// by rows, so that some that cannot be added up do not keep others from their turn.
func (r *Rollup) due(ctx context.Context) (deployments []string, err error) {
	seen := map[string]bool{}
	err = r.table.Each(ctx, store.Query{Index: store.DueIndex, PK: duePartition(), KeysOnly: true}, func(item store.Item) (bool, error) {
		if parts := freshSpace.PartsOf(store.KeyOf(item).PK); len(parts) == 1 && !seen[parts[0]] {
			seen[parts[0]] = true
			deployments = append(deployments, parts[0])
		}
		return len(deployments) < rollupAtOnce, nil
	})
	return deployments, err
}

// deployment adds up what is there of one, row by row. Where many gateways write, some row has changed whenever all of them are taken at once:
// then it is fewer at a time. One that changes even so is left for the next minute.
func (r *Rollup) deployment(ctx context.Context, name string) (added int, err error) {
	after, most := "", r.most
	for {
		n, last, more, err := r.some(ctx, name, after, most)
		switch {
		case errors.Is(err, errOvertaken):
			return added, nil // the other goes on
		case errors.Is(err, errMerged) && most > 1:
			most /= 2
			continue
		case err != nil && !errors.Is(err, errMerged):
			return added, err
		}
		added += n
		after = last
		if !more {
			return added, nil
		}
	}
}

// some adds up what fits into one transaction, of most rows after one. last is the last one that it has looked at, more whether there may be more.
func (r *Rollup) some(ctx context.Context, name, after string, most int) (added int, last string, more bool, err error) {
	var h head
	if err := r.table.Load(ctx, store.Want(headKey(name), &h)); err != nil {
		return 0, "", false, err
	}
	rows, err := store.Collect[freshRow](ctx, r.table, store.Query{PK: freshPartition(name), After: after, Limit: most})
	if err != nil || len(rows) == 0 {
		return 0, "", false, err
	}
	m := newMerged(name, r.now())
	var removals []store.Write
	for _, fresh := range rows {
		f, err := unpackFresh(fresh.Data)
		if err != nil {
			return 0, "", false, err
		}
		if !m.add(f) && len(removals) > 0 {
			break
		}
		last = fresh.SK
		removals = append(removals, store.Delete(store.In(freshPartition(name), fresh.SK)).If(fresh.unchanged()).Else(errMerged))
	}
	more = len(rows) == most || len(removals) < len(rows)
	if err := m.load(ctx, r.table); err != nil {
		return 0, "", false, err
	}
	puts, err := m.writes()
	if err != nil {
		return 0, "", false, err
	}
	unchanged := store.Absent()
	if h.Version > 0 {
		unchanged = store.Equal(store.At("version"), h.Version)
	}
	number := store.Put(headKey(name), head{Rest: h.Rest, Version: h.Version + 1}).If(unchanged).Else(errOvertaken)
	if err := r.table.Commit(ctx, append(append([]store.Write{number}, removals...), puts...)...); err != nil {
		return 0, last, more, err
	}
	return len(removals), last, more, nil
}

// merged is what a transaction adds to rows.
type merged struct {
	deployment string
	now        time.Time
	tallies    map[interval]*tally
	calls      map[int64][]RecentCall // by the hour
	// rests are what this release does not know of the rows that are there, by their keys.
	rests map[store.Key]store.Rest
}

// interval is what a row is about.
type interval struct {
	length int // a place in lengths
	start  int64
}

func newMerged(deployment string, now time.Time) *merged {
	return &merged{deployment, now, map[interval]*tally{}, map[int64][]RecentCall{}, map[store.Key]store.Rest{}}
}

// add takes a row in, unless there were too many rows to write then. The first one always fits.
func (m *merged) add(f *fresh) bool {
	// Requests may have taken days: calls that nobody is told of any more would only be rows to write.
	f.recent.calls = slices.DeleteFunc(f.recent.calls, func(c RecentCall) bool {
		return expiry(hourly.start(c.At.Unix()), time.Hour, callsKept) <= m.now.Unix()
	})
	next := map[interval]bool{}
	hours := map[int64]bool{}
	for _, s := range f.slots {
		for i, l := range lengths {
			if at := (interval{i, l.start(s.start)}); m.tallies[at] == nil {
				next[at] = true
			}
		}
	}
	for _, c := range f.recent.calls {
		if hour := hourly.start(c.At.Unix()); m.calls[hour] == nil {
			hours[hour] = true
		}
	}
	if n := len(m.tallies) + len(m.calls); n > 0 && n+len(next)+len(hours) > rollupRows {
		return false
	}
	for at := range next {
		m.tallies[at] = newTally()
	}
	for _, s := range f.slots {
		for i, l := range lengths {
			m.tallies[interval{i, l.start(s.start)}].merge(s.tally)
		}
	}
	for _, c := range f.recent.calls {
		hour := hourly.start(c.At.Unix())
		m.calls[hour] = append(m.calls[hour], c)
	}
	return true
}

// load adds what stands in the rows.
func (m *merged) load(ctx context.Context, table *store.Table) error {
	var wanted []*store.Wanted
	var take []func() error
	for at, t := range m.tallies {
		stored := new(row)
		key := lengths[at.length].key(m.deployment, at.start)
		w := store.Want(key, stored)
		wanted = append(wanted, w)
		take = append(take, func() error {
			if !w.Found {
				return nil
			}
			m.rests[key] = stored.Rest
			earlier, err := unpackTally(stored.Data)
			if err != nil {
				return err
			}
			earlier.merge(t)
			m.tallies[at] = earlier
			return nil
		})
	}
	for hour := range m.calls {
		stored := new(row)
		key := callsKey(m.deployment, hour)
		w := store.Want(key, stored)
		wanted = append(wanted, w)
		take = append(take, func() error {
			if !w.Found {
				return nil
			}
			m.rests[key] = stored.Rest
			var p packedCalls
			if err := unpacked(stored.Data, &p); err != nil {
				return err
			}
			earlier, err := p.unpack()
			m.calls[hour] = append(m.calls[hour], earlier...)
			return err
		})
	}
	if err := table.Load(ctx, wanted...); err != nil {
		return err
	}
	for _, t := range take {
		if err := t(); err != nil {
			return err
		}
	}
	return nil
}

// writes stores the rows as they are now.
func (m *merged) writes() ([]store.Write, error) {
	var out []store.Write
	for at, t := range m.tallies {
		l := lengths[at.length]
		data, err := packTally(t)
		if err != nil {
			return nil, err
		}
		key := l.key(m.deployment, at.start)
		out = append(out, store.Put(key, row{Rest: m.rests[key], Data: data, TTL: expiry(at.start, l.duration, l.keep)}))
	}
	for hour, calls := range m.calls {
		data, err := packHour(calls)
		if err != nil {
			return nil, err
		}
		key := callsKey(m.deployment, hour)
		out = append(out, store.Put(key, row{Rest: m.rests[key], Data: data, TTL: expiry(hour, time.Hour, callsKept)}))
	}
	return out, nil
}

func expiry(start int64, length, keep time.Duration) int64 {
	return start + int64((length+keep)/time.Second)
}
