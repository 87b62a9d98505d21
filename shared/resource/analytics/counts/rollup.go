package counts

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/gatewright/gatewright/shared/core/store"
)

// maxRollupRows is the maximum number of target rows in one transaction of a rollup, unless a single source row needs
// more. The counts that gateways write for a deployment at one time are in at most two intervals of each resolution.
// The remaining capacity is for a late rollup and for clocks that jump. The transaction also deletes up to
// bucketCount source rows.
const maxRollupRows = 24

const (
	// maxRollupDeployments is the maximum number of deployments of one run. The next run continues.
	maxRollupDeployments = 10_000
	// rollupConcurrency is the number of deployments that are rolled up concurrently.
	rollupConcurrency = 8
)

// errConcurrentRollup is returned if another rollup of the deployment has committed since the number of rollups was
// read.
var errConcurrentRollup = errors.New("counts: another rollup of the deployment came first")

// errRowChanged is returned if a gateway has merged counts into the rows since they were read.
var errRowChanged = errors.New("counts: a gateway has written to what was added up")

// Rollup adds up the pending rows, which gateways have written.
//
// One transaction changes the target rows, deletes the source rows, and increments the deployment's number of rollups.
// So each row counts once, even if a process dies, a transaction is repeated, or several rollups run at the same time:
// only one of them commits, and the others find that the number has changed. Clocks do not affect this.
type Rollup struct {
	table   *store.Table
	now     func() time.Time
	maxRows int // maximum number of source rows in the first transaction
}

// NewRollup returns a Rollup of a table. now is the clock for the expiry of rows.
func NewRollup(table *store.Table, now func() time.Time) *Rollup {
	return &Rollup{table, now, bucketCount}
}

// Run adds up the pending rows of at most maxRollupDeployments deployments. added is the number of pending rows that
// it has added up and deleted. A deployment that fails does not prevent the others: the returned error joins all
// errors. Concurrent runs are safe.
func (r *Rollup) Run(ctx context.Context) (added int, err error) {
	ctx = store.WithoutReadSet(ctx, "a rollup commits only if the version that it has read has not changed")
	deployments, err := r.due(ctx)
	if err != nil {
		return 0, fmt.Errorf("look for what gateways have counted: %w", err)
	}
	rowCounts, errs := make([]int, len(deployments)), make([]error, len(deployments))
	var group errgroup.Group
	group.SetLimit(rollupConcurrency)
	for i, name := range deployments {
		group.Go(func() error {
			if rowCounts[i], errs[i] = r.rollUpDeployment(ctx, name); errs[i] != nil {
				errs[i] = fmt.Errorf("roll up the calls of %s: %w", name, errs[i])
			}
			return nil
		})
	}
	_ = group.Wait() // no function of the group returns an error
	for _, n := range rowCounts {
		added += n
	}
	return added, errors.Join(errs...)
}

// due returns the deployments that have pending rows. The deployment whose rows have waited longest is the first.
// The limit counts deployments and not rows, so that deployments that always fail do not block the others.
func (r *Rollup) due(ctx context.Context) (deployments []string, err error) {
	seen := map[string]bool{}
	err = r.table.Each(ctx, store.Query{Index: store.DueIndex, PK: duePartition(), KeysOnly: true},
		func(item store.Item) (bool, error) {
			if parts := pendingPrefix.Parts(store.KeyOf(item).PK); len(parts) == 1 && !seen[parts[0]] {
				seen[parts[0]] = true
				deployments = append(deployments, parts[0])
			}
			return len(deployments) < maxRollupDeployments, nil
		})
	return deployments, err
}

// rollUpDeployment adds up the pending rows of one deployment. If many gateways write, a transaction with all rows
// never succeeds, because some row has always changed. rollUpDeployment then halves the number of rows per transaction.
// A single row that changes during its own transaction waits for the next run.
func (r *Rollup) rollUpDeployment(ctx context.Context, name string) (added int, err error) {
	after, maxRows := "", r.maxRows
	for {
		n, lastKey, more, err := r.rollUpBatch(ctx, name, after, maxRows)
		switch {
		case errors.Is(err, errConcurrentRollup):
			return added, nil // the other rollup continues
		case errors.Is(err, errRowChanged) && maxRows > 1:
			maxRows /= 2
			continue
		case err != nil && !errors.Is(err, errRowChanged):
			return added, err
		}
		added += n
		after = lastKey
		if !more {
			return added, nil
		}
	}
}

// rollUpBatch adds up at most maxRows rows whose sort keys follow after, and only as many as fit into one transaction.
// lastKey is the sort key of the last row in the transaction. more reports whether more rows may follow.
func (r *Rollup) rollUpBatch(
	ctx context.Context, name, after string, maxRows int,
) (added int, lastKey string, more bool, err error) {
	var state rollupState
	if err := r.table.Load(ctx, store.Get(rollupStateKey(name), &state)); err != nil {
		return 0, "", false, err
	}
	rows, err := store.Collect[pendingRow](ctx, r.table,
		store.Query{PK: pendingPartition(name), After: after, Limit: maxRows})
	if err != nil || len(rows) == 0 {
		return 0, "", false, err
	}
	m := newMergeBatch(name, r.now())
	var removals []store.Write
	for _, p := range rows {
		pending, err := unpackPending(p.Data)
		if err != nil {
			return 0, "", false, err
		}
		if !m.add(pending) && len(removals) > 0 {
			break
		}
		lastKey = p.SK
		removals = append(removals,
			store.Delete(store.KeyIn(pendingPartition(name), p.SK)).If(p.versionUnchanged()).Else(errRowChanged))
	}
	more = len(rows) == maxRows || len(removals) < len(rows)
	if err := m.load(ctx, r.table); err != nil {
		return 0, "", false, err
	}
	puts, err := m.writes()
	if err != nil {
		return 0, "", false, err
	}
	unchanged := store.Absent()
	if state.Version > 0 {
		unchanged = store.Equal(store.At("version"), state.Version)
	}
	versionWrite := store.Put(rollupStateKey(name),
		rollupState{UnknownAttributes: state.UnknownAttributes, Version: state.Version + 1}).If(unchanged).Else(
		errConcurrentRollup)
	if err := r.table.Commit(ctx, append(append([]store.Write{versionWrite}, removals...), puts...)...); err != nil {
		return 0, lastKey, more, err
	}
	return len(removals), lastKey, more, nil
}

// mergeBatch contains the counts that a transaction adds to rows.
type mergeBatch struct {
	deployment string
	now        time.Time
	tallies    map[interval]*tally
	calls      map[int64][]RecentCall // by the beginning of their hour, in seconds since 1970
	// unknownAttributes are the unknown attributes of the existing rows, by the keys of the rows.
	unknownAttributes map[store.Key]store.UnknownAttributes
}

// interval identifies the interval of a row.
type interval struct {
	resolutionIndex int // an index into resolutions
	start           int64
}

func newMergeBatch(deployment string, now time.Time) *mergeBatch {
	return &mergeBatch{
		deployment, now,
		map[interval]*tally{},
		map[int64][]RecentCall{},
		map[store.Key]store.UnknownAttributes{},
	}
}

// add adds a pending row, unless the transaction would then write more than maxRollupRows rows. It reports whether it
// added the row. It always adds the first row.
func (m *mergeBatch) add(pending *pendingCounts) bool {
	// Drop calls that no report shows any more. A new row can have such calls, because a request can take days, and its
	// time is its beginning.
	pending.recent.calls = slices.DeleteFunc(pending.recent.calls, func(c RecentCall) bool {
		return expiry(hourly.start(c.At.Unix()), time.Hour, callsRetention) <= m.now.Unix()
	})
	newIntervals := map[interval]bool{}
	newHours := map[int64]bool{}
	for _, s := range pending.intervals {
		for i, r := range resolutions {
			if at := (interval{i, r.start(s.start)}); m.tallies[at] == nil {
				newIntervals[at] = true
			}
		}
	}
	for _, c := range pending.recent.calls {
		if hour := hourly.start(c.At.Unix()); m.calls[hour] == nil {
			newHours[hour] = true
		}
	}
	if n := len(m.tallies) + len(m.calls); n > 0 && n+len(newIntervals)+len(newHours) > maxRollupRows {
		return false
	}
	for at := range newIntervals {
		m.tallies[at] = newTally()
	}
	for _, s := range pending.intervals {
		for i, r := range resolutions {
			m.tallies[interval{i, r.start(s.start)}].merge(s.tally)
		}
	}
	for _, c := range pending.recent.calls {
		hour := hourly.start(c.At.Unix())
		m.calls[hour] = append(m.calls[hour], c)
	}
	return true
}

// load reads the rows that exist already, and adds their counts to m.
func (m *mergeBatch) load(ctx context.Context, table *store.Table) error {
	var gets []*store.ReadRequest
	var mergers []func() error
	for at, t := range m.tallies {
		stored := new(row)
		key := resolutions[at.resolutionIndex].key(m.deployment, at.start)
		request := store.Get(key, stored)
		gets = append(gets, request)
		mergers = append(mergers, func() error {
			if !request.Found {
				return nil
			}
			m.unknownAttributes[key] = stored.UnknownAttributes
			existing, err := unpackTally(stored.Data)
			if err != nil {
				return err
			}
			existing.merge(t)
			m.tallies[at] = existing
			return nil
		})
	}
	for hour := range m.calls {
		stored := new(row)
		key := callsKey(m.deployment, hour)
		request := store.Get(key, stored)
		gets = append(gets, request)
		mergers = append(mergers, func() error {
			if !request.Found {
				return nil
			}
			m.unknownAttributes[key] = stored.UnknownAttributes
			var p packedCalls
			if err := decodeRow(stored.Data, &p); err != nil {
				return err
			}
			existing, err := p.unpack()
			m.calls[hour] = append(m.calls[hour], existing...)
			return err
		})
	}
	if err := table.Load(ctx, gets...); err != nil {
		return err
	}
	for _, mergeRow := range mergers {
		if err := mergeRow(); err != nil {
			return err
		}
	}
	return nil
}

// writes returns the writes that store the resulting rows.
func (m *mergeBatch) writes() ([]store.Write, error) {
	var out []store.Write
	for at, t := range m.tallies {
		r := resolutions[at.resolutionIndex]
		data, err := packTally(t)
		if err != nil {
			return nil, err
		}
		key := r.key(m.deployment, at.start)
		out = append(out, store.Put(key, row{
			UnknownAttributes: m.unknownAttributes[key], Data: data,
			TTL: expiry(at.start, r.duration, r.retention),
		}))
	}
	for hour, calls := range m.calls {
		data, err := packHour(calls)
		if err != nil {
			return nil, err
		}
		key := callsKey(m.deployment, hour)
		out = append(out, store.Put(key, row{
			UnknownAttributes: m.unknownAttributes[key], Data: data,
			TTL: expiry(hour, time.Hour, callsRetention),
		}))
	}
	return out, nil
}

// expiry returns the time until which a row is kept, in seconds since 1970. start is the beginning of its interval.
func expiry(start int64, duration, retention time.Duration) int64 {
	return start + int64((duration+retention)/time.Second)
}
