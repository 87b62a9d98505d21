package counts

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/memory"
	"github.com/gatewright/gatewright/shared/core/store/storetest"
	"github.com/gatewright/gatewright/shared/testing/simulations"
)

var onlySeed = flag.Uint64("seed", 0, "the only seed that the simulation runs, 0 for all")

// runs is the number of seeds that `make test` runs. Seed 30 finds the rarest of the planted defects below.
const runs = 200

// TestEveryCallCountsOnce makes everything fail. Requests to the table are refused or lost, or their responses are
// lost, and some lost requests arrive later. Instances and rollups die before and after any request. Between a read and
// its commit, all other processes run. A call that was written must count once in each later report. A call that was
// not written may be lost only with its instance.
func TestEveryCallCountsOnce(t *testing.T) {
	t.Parallel()
	if *onlySeed > 0 {
		if err := newSimulation(t, *onlySeed, defect{}).run(); err != nil {
			t.Fatalf("seed %d: %v", *onlySeed, err)
		}
		return
	}
	for seed := range uint64(simulations.Runs(runs)) {
		if err := newSimulation(t, seed+1, defect{}).run(); err != nil {
			t.Fatalf("seed %d: %v\nreplay it with: go test ./shared/resource/analytics/counts -run EveryCallCountsOnce -seed=%d",
				seed+1, err, seed+1)
		}
	}
}

// TestSimulationDetectsDefects tests the simulation: with each planted defect, a run must fail.
func TestSimulationDetectsDefects(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]defect{
		"a rollup without its condition":         {unconditional: rollupStatePrefix},
		"a repeated write":                       {unconditional: writerPrefix},
		"rows deleted outside the transaction":   {split: true},
		"a row overwritten by another writer":    {unconditional: pendingPrefix, kind: store.PutKind},
		"a row deleted after a concurrent merge": {unconditional: pendingPrefix, kind: store.DeleteKind},
		"a report during a rollup":               {torn: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(runs) {
				if newSimulation(t, seed+1, s).run() != nil {
					return
				}
			}
			t.Errorf("%d runs with this defect succeed, want a failure", runs)
		})
	}
}

// defect is a planted defect.
type defect struct {
	// unconditional removes the conditions from writes of kind to a key prefix.
	unconditional store.KeyPrefix
	kind          store.WriteKind
	// split puts removals into a separate transaction.
	split bool
	// torn hides the numbers of rollups from reports.
	torn bool
}

// simulation is one run. A seed determines all events.
type simulation struct {
	*fixture
	random *rand.Rand
	defect defect
	// depth is the number of actions that run in the middle of another process's action.
	depth int
	calls int
	// instances are the live instances that count.
	instances []*instance
	// written are the calls that reports must contain. uncertain are the calls of dead instances whose last write had no result.
	written, uncertain map[string]bool
	// delayed are the lost requests that have not arrived yet.
	delayed []func()
	failed  error
}

// instance is a Collector of one process.
type instance struct {
	*Collector
	calls []string // the names of calls that may not be in the table yet
	dead  bool     // whether the process has died
	busy  bool     // whether a write is running
}

// faultyTable is one process's access to the table. It fails after the process has died.
type faultyTable struct {
	s    *simulation
	dead *bool
}

var errProcessDied = errors.New("simulated: it has died")

// newSimulation returns a simulation with a planted defect, or without one if planted is zero.
func newSimulation(t *testing.T, seed uint64, planted defect) *simulation {
	s := &simulation{
		fixture: &fixture{
			TB: t, items: memory.New(), time: storetest.Epoch,
			random: rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8), 1}),
		},
		random: rand.New(rand.NewPCG(seed, 1)), defect: planted, written: map[string]bool{}, uncertain: map[string]bool{},
	}
	s.table = store.New(s.items, store.Options{Random: s.fixture.random, Now: s.now})
	return s
}

// tableFor returns the table of a process. It sets dead when the process dies.
func (s *simulation) tableFor(dead *bool) *store.Table {
	return store.New(faultyTable{s, dead},
		store.Options{Random: s.fixture.random, Now: s.now, Backoff: storetest.NoBackoff})
}

// run runs the simulation, and returns the first error.
func (s *simulation) run() error {
	for range 1 + s.random.IntN(4) {
		s.startInstance()
	}
	for range 60 {
		s.step()
		if s.failed != nil {
			return s.failed
		}
	}
	for _, deliver := range s.delayed {
		deliver()
	}
	s.delayed = nil
	for _, i := range s.instances {
		if err := s.retry(i); err != nil {
			return err
		}
	}
	for _, rolledUp := range []bool{false, true} {
		if rolledUp {
			if err := s.rollup(s.table); err != nil {
				return fmt.Errorf("rollup after the failures have ended: %w", err)
			}
			remaining, err := s.reader().pending(s.Context(), shop.Name)
			if err != nil {
				return fmt.Errorf("pending() after the last rollup: %w", err)
			}
			if len(remaining) > 0 {
				return fmt.Errorf("pending() after the last rollup = %d rows, want 0", len(remaining))
			}
		}
		for _, w := range []Window{LastHour, Last24Hours, Last7Days, Last30Days, LastThreeMonths} {
			if err := s.check(s.table, w); err != nil {
				return fmt.Errorf("final report of %s: %w", w, err)
			}
		}
	}
	return nil
}

// retry makes an instance write its counts after the failures have ended.
func (s *simulation) retry(i *instance) error {
	i.table = s.table
	if err := i.Drain(s.Context()); err != nil {
		return fmt.Errorf("Drain() after the failures have ended: %w", err)
	}
	s.markWritten(i)
	return nil
}

func (s *simulation) startInstance() {
	i := &instance{}
	i.Collector = New(Options{
		Table: s.tableFor(&i.dead), Now: s.now, Random: s.fixture.random,
		Log: slog.New(slog.DiscardHandler),
	})
	i.buckets = simulatedBuckets
	s.instances = append(s.instances, i)
}

// simulatedBuckets is the number of buckets. It is small, so that instances write to the same buckets.
const simulatedBuckets = 3

// rollup runs a Rollup whose transactions have a random maximum number of rows.
func (s *simulation) rollup(table *store.Table) error {
	r := NewRollup(table, s.now)
	r.maxRows = 1 + s.random.IntN(simulatedBuckets)
	_, err := r.Run(s.Context())
	return err
}

// step runs a random action. It may run in the middle of another process's action.
func (s *simulation) step() {
	s.time = s.time.Add(time.Duration(s.random.IntN(20)) * time.Second)
	idle := slices.DeleteFunc(slices.Clone(s.instances), func(i *instance) bool { return i.busy })
	switch n := s.random.IntN(10); {
	case n < 3 && len(idle) > 0:
		i := idle[s.random.IntN(len(idle))]
		for range 1 + s.random.IntN(3) {
			s.calls++
			name := fmt.Sprint("c", s.calls)
			i.Call(newCall(name, 200, s.time))
			i.calls = append(i.calls, name)
		}
	case n < 6 && len(idle) > 0:
		s.flush(idle[s.random.IntN(len(idle))])
	case n < 8:
		dead := false
		if table := s.tableFor(&dead); s.random.IntN(2) == 0 {
			_ = s.rollup(table)
		} else { // a rollup that continues after a random row
			after := bucketKey(shop.Name, s.random.IntN(simulatedBuckets)).SK
			_, _, _, _ = NewRollup(table, s.now).rollUpBatch(s.Context(), shop.Name, after, 1+s.random.IntN(simulatedBuckets))
		}
	case n < 9:
		if err := s.check(s.tableFor(new(bool)), LastHour); err != nil && s.failed == nil {
			s.failed = err
		}
	case len(s.delayed) > 0:
		at := s.random.IntN(len(s.delayed))
		deliver := s.delayed[at]
		s.delayed = slices.Delete(s.delayed, at, at+1)
		deliver()
	}
}

// flush makes an instance write. If the instance dies, another one replaces it.
func (s *simulation) flush(i *instance) {
	i.busy = true
	defer func() { i.busy = false }()
	err := i.Drain(s.Context())
	switch {
	case i.dead:
		// The table may have the calls of the instance's last write.
		for _, name := range i.calls {
			s.uncertain[name] = true
		}
		s.instances = slices.DeleteFunc(s.instances, func(other *instance) bool { return other == i })
		s.startInstance()
	case err == nil:
		s.markWritten(i)
	}
}

// markWritten records that the calls of an instance were written.
func (s *simulation) markWritten(i *instance) {
	for _, name := range i.calls {
		s.written[name] = true
	}
	i.calls = nil
}

// check reads a report. It must contain all calls that were written before the report, and no call twice.
func (s *simulation) check(table *store.Table, w Window) error {
	var before []string
	for name := range s.written {
		before = append(before, name)
	}
	r := NewReader(table, s.now)
	r.concurrency = 1 // so that only the seed determines the order of the reads
	var got Statuses
	var err error
	if s.defect.torn {
		from, runs := span{time.Hour, []resolution{finest}, finest}.cover(s.now())
		var parts []part
		if parts, err = r.read(s.Context(), shop.Name, from, runs); err == nil {
			t := newTally()
			for _, p := range parts {
				t.merge(p.tally)
			}
			got.Totals = t.callers(time.Time{})
		}
	} else {
		got, err = r.Statuses(s.Context(), shop.Name, w, allCallers)
	}
	if err == nil { // a report that cannot be read is no failure of the test
		return s.compare(before, got, table == s.table)
	}
	return nil
}

// compare compares a report with the calls that were written before it. Only the final reports, without
// concurrent actions, must not have more calls than were written or are uncertain.
func (s *simulation) compare(before []string, got Statuses, final bool) error {
	total := map[string]int64{}
	for _, c := range got.Totals {
		total[c.Consumer] = c.Calls
		if c.Calls != 1 {
			return fmt.Errorf("the call %s counts %d times, want 1", c.Consumer, c.Calls)
		}
	}
	for _, name := range before {
		if total[name] == 0 {
			return fmt.Errorf("the call %s counts 0 times, want 1", name)
		}
	}
	if final && len(total) > len(s.written)+len(s.uncertain) {
		return fmt.Errorf("%d calls are counted, want at most %d", len(total), len(s.written)+len(s.uncertain))
	}
	return nil
}

// call decides the result of a call to the table.
func (t faultyTable) call(f func() error) error {
	s := t.s
	if *t.dead {
		return errProcessDied
	}
	if s.depth < 2 && s.random.IntN(3) == 0 {
		s.depth++
		s.step()
		s.depth--
	}
	switch s.random.IntN(24) {
	case 0:
		return fmt.Errorf("%w: simulated: throttled", store.ErrRetryable)
	case 1:
		return fmt.Errorf("%w: %w: simulated: lost", store.ErrRetryable, store.ErrOutcomeUnknown)
	case 2:
		_ = f()
		return fmt.Errorf("%w: %w: simulated: the answer is lost", store.ErrRetryable, store.ErrOutcomeUnknown)
	case 3:
		return fmt.Errorf("%w: simulated: lost, and not to be repeated", store.ErrOutcomeUnknown)
	case 4:
		_ = f()
		return fmt.Errorf("%w: simulated: the answer is lost, and not to be repeated", store.ErrOutcomeUnknown)
	case 5:
		s.delayed = append(s.delayed, func() { _ = f() })
		return fmt.Errorf("%w: simulated: late", store.ErrOutcomeUnknown)
	case 6:
		*t.dead = true
		return errProcessDied
	case 7:
		_ = f()
		*t.dead = true
		return errProcessDied
	}
	return f()
}

func (t faultyTable) Read(ctx context.Context, keys []store.Key) (items []store.Item, err error) {
	err = t.call(func() (err error) {
		items, err = t.s.items.Read(ctx, keys)
		return err
	})
	return items, err
}

func (t faultyTable) Query(ctx context.Context, q store.Query) (items []store.Item, next string, err error) {
	if q.Index == "" && q.Limit == 0 {
		q.Limit = 1 // the smallest pages, so that rows may change between any two
	}
	err = t.call(func() (err error) {
		items, next, err = t.s.items.Query(ctx, q)
		return err
	})
	return items, next, err
}

func (t faultyTable) Transact(ctx context.Context, token string, writes []store.Write) error {
	if prefix := t.s.defect.unconditional; prefix != "" {
		writes = slices.Clone(writes)
		for i, w := range writes {
			if prefix.Parts(w.Key.PK) != nil && w.Kind == t.s.defect.kind {
				writes[i].Condition = nil
			}
		}
	}
	if t.s.defect.split {
		var removals, others []store.Write
		for _, w := range writes {
			if w.Kind == store.DeleteKind {
				removals = append(removals, w)
			} else {
				others = append(others, w)
			}
		}
		if len(removals) > 0 {
			if err := t.call(func() error { return t.s.items.Transact(ctx, token+"1", others) }); err != nil {
				return err
			}
			return t.call(func() error { return t.s.items.Transact(ctx, token+"2", removals) })
		}
	}
	return t.call(func() error { return t.s.items.Transact(ctx, token, writes) })
}
