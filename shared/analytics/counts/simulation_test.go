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

	"github.com/gatewright/gatewright/shared/operation/simulations"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/memory"
	"github.com/gatewright/gatewright/shared/store/storetest"
)

var only = flag.Uint64("seed", 0, "the one seed that the simulation plays, 0 for all")

// seeds is how many runs `make test` plays: the rarest of the planted defects below is found by seed 30.
const seeds = 200

// TestEveryCallCountsOnce, whatever fails: calls to the table are refused, or lost on their way there or back, and some of those arrive later;
// instances and rollups die before and after any of them; and between what one reads and what it commits, all others do whatever they do. A call
// that was written counts once from then on, in each report. One that was not is lost with its instance alone.
func TestEveryCallCountsOnce(t *testing.T) {
	t.Parallel()
	if *only > 0 {
		if err := newSimulation(t, *only, sabotage{}).run(); err != nil {
			t.Fatal(err)
		}
		return
	}
	for seed := range uint64(simulations.Runs(seeds)) {
		if err := newSimulation(t, seed+1, sabotage{}).run(); err != nil {
			t.Fatalf("seed %d: %v\nreplay it with: go test ./shared/analytics/counts -run EveryCallCountsOnce -seed=%d", seed+1, err, seed+1)
		}
	}
}

// TestSimulationNotices is the test of the test. It plays as many runs as it takes to notice.
func TestSimulationNotices(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]sabotage{
		"a rollup that another came before":   {unconditional: headSpace},
		"a write that is made twice":          {unconditional: writerSpace},
		"rows that are removed on their own":  {split: true},
		"a row that another has written":      {unconditional: freshSpace, kind: store.PutKind},
		"a row that is merged with meanwhile": {unconditional: freshSpace, kind: store.DeleteKind},
		"a report in the middle of a rollup":  {torn: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(seeds) {
				if newSimulation(t, seed+1, s).run() != nil {
					return
				}
			}
			t.Error("no run shows it")
		})
	}
}

// sabotage breaks a rule.
type sabotage struct {
	// unconditional has writes to a space hold always, those of a kind.
	unconditional store.Space
	kind          store.WriteKind
	// split has removals made in a transaction of their own.
	split bool
	// torn has reports see no numbers of rollups.
	torn bool
}

// simulation is a run: what happens is chosen by a seed.
type simulation struct {
	*world
	random   *rand.Rand
	sabotage sabotage
	depth    int
	calls    int
	// instances count; those that died are no more among them.
	instances []*instance
	// written are the calls that have to be there, doubtful those that an instance took along whose last write had no answer.
	written, doubtful map[string]bool
	late              []func()
	failed            error
}

type instance struct {
	*Collector
	calls []string // that are not known to be written
	dead  bool
	busy  bool
}

// handle is somebody's way to the table. Who has died has none.
type handle struct {
	s    *simulation
	dead *bool
}

var errDead = errors.New("simulated: it has died")

func newSimulation(t *testing.T, seed uint64, broken sabotage) *simulation {
	s := &simulation{
		world:  &world{TB: t, items: memory.New(), time: storetest.Epoch, random: rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8), 1})},
		random: rand.New(rand.NewPCG(seed, 1)), sabotage: broken, written: map[string]bool{}, doubtful: map[string]bool{},
	}
	s.table = store.New(s.items, store.Options{Random: s.world.random, Now: s.now})
	return s
}

func (s *simulation) over(dead *bool) *store.Table {
	return store.New(handle{s, dead}, store.Options{Random: s.world.random, Now: s.now, Pause: storetest.AtOnce})
}

func (s *simulation) run() error {
	for range 1 + s.random.IntN(4) {
		s.join()
	}
	for range 60 {
		s.step()
		if s.failed != nil {
			return s.failed
		}
	}
	for _, late := range s.late {
		late()
	}
	s.late = nil
	for _, i := range s.instances {
		if err := s.retry(i); err != nil {
			return err
		}
	}
	for _, rolledUp := range []bool{false, true} {
		if rolledUp {
			if err := s.rollup(s.table); err != nil {
				return err
			}
			if left, err := s.reader().fresh(s.Context(), shop.Name); err != nil || len(left) > 0 {
				return fmt.Errorf("%d rows are left, %w", len(left), err)
			}
		}
		for _, w := range []Window{LastHour, Last24Hours, Last7Days, Last30Days, LastThreeMonths} {
			if err := s.check(s.table, w); err != nil {
				return fmt.Errorf("in the end, of %s: %w", w, err)
			}
		}
	}
	return nil
}

// retry lets an instance write what it has, now that nothing fails any more.
func (s *simulation) retry(i *instance) error {
	i.table = s.table
	if err := i.Drain(s.Context()); err != nil {
		return err
	}
	s.settle(i)
	return nil
}

func (s *simulation) join() {
	i := &instance{}
	i.Collector = New(Options{Table: s.over(&i.dead), Now: s.now, Random: s.world.random, Log: slog.New(slog.DiscardHandler)})
	i.places = places
	s.instances = append(s.instances, i)
}

// places are few, so that instances meet.
const places = 3

// rollup adds up as the function does, some of what waits in one transaction.
func (s *simulation) rollup(table *store.Table) error {
	r := NewRollup(table, s.now)
	r.most = 1 + s.random.IntN(places)
	_, err := r.Run(s.Context())
	return err
}

// step has somebody do something. It may happen in the middle of what another one does.
func (s *simulation) step() {
	s.time = s.time.Add(time.Duration(s.random.IntN(20)) * time.Second)
	idle := slices.DeleteFunc(slices.Clone(s.instances), func(i *instance) bool { return i.busy })
	switch n := s.random.IntN(10); {
	case n < 3 && len(idle) > 0:
		i := idle[s.random.IntN(len(idle))]
		for range 1 + s.random.IntN(3) {
			s.calls++
			name := fmt.Sprint("c", s.calls)
			i.Call(calledBy(name, 200, s.time))
			i.calls = append(i.calls, name)
		}
	case n < 6 && len(idle) > 0:
		s.flush(idle[s.random.IntN(len(idle))])
	case n < 8:
		dead := false
		if table := s.over(&dead); s.random.IntN(2) == 0 {
			_ = s.rollup(table)
		} else { // one that has come as far as to some row
			after := placeKey(shop.Name, s.random.IntN(places)).SK
			_, _, _, _ = NewRollup(table, s.now).some(s.Context(), shop.Name, after, 1+s.random.IntN(places))
		}
	case n < 9:
		if err := s.check(s.over(new(bool)), LastHour); err != nil && s.failed == nil {
			s.failed = err
		}
	case len(s.late) > 0:
		at := s.random.IntN(len(s.late))
		late := s.late[at]
		s.late = slices.Delete(s.late, at, at+1)
		late()
	}
}

func (s *simulation) flush(i *instance) {
	i.busy = true
	defer func() { i.busy = false }()
	err := i.Drain(s.Context())
	switch {
	case i.dead:
		// What it had tried to write may be there.
		for _, name := range i.calls {
			s.doubtful[name] = true
		}
		s.instances = slices.DeleteFunc(s.instances, func(other *instance) bool { return other == i })
		s.join()
	case err == nil:
		s.settle(i)
	}
}

func (s *simulation) settle(i *instance) {
	for _, name := range i.calls {
		s.written[name] = true
	}
	i.calls = nil
}

// check compares a report with what it has to have: what was written when it began, and nothing twice.
func (s *simulation) check(table *store.Table, w Window) error {
	var before []string
	for name := range s.written {
		before = append(before, name)
	}
	r := NewReader(table, s.now)
	r.atOnce = 1 // what happens is chosen by the seed alone
	var got Statuses
	var err error
	if s.sabotage.torn {
		from, runs := span{time.Hour, []length{finest}, finest}.cover(s.now())
		var parts []part
		if parts, err = r.read(s.Context(), shop.Name, from, runs); err == nil {
			t := newTally()
			for _, p := range parts {
				t.merge(p.tally)
			}
			got.Totals = t.callers(time.Time{})
		}
	} else {
		got, err = r.Statuses(s.Context(), shop.Name, w, everybody)
	}
	if err == nil { // else it could not be read
		return s.compare(before, got, table == s.table)
	}
	return nil
}

func (s *simulation) compare(before []string, got Statuses, last bool) error {
	counted := map[string]int64{}
	for _, c := range got.Totals {
		counted[c.Consumer] = c.Calls
		if c.Calls != 1 {
			return fmt.Errorf("the call %s counts %d times", c.Consumer, c.Calls)
		}
	}
	for _, name := range before {
		if counted[name] == 0 {
			return fmt.Errorf("the call %s is lost", name)
		}
	}
	if last && len(counted) > len(s.written)+len(s.doubtful) {
		return fmt.Errorf("%d calls are counted, of %d", len(counted), len(s.written)+len(s.doubtful))
	}
	return nil
}

// call decides what becomes of a call to the table.
func (h handle) call(f func() error) error {
	s := h.s
	if *h.dead {
		return errDead
	}
	if s.depth < 2 && s.random.IntN(3) == 0 {
		s.depth++
		s.step()
		s.depth--
	}
	switch s.random.IntN(24) {
	case 0:
		return fmt.Errorf("%w: simulated: throttled", store.ErrRepeat)
	case 1:
		return fmt.Errorf("%w: %w: simulated: lost", store.ErrRepeat, store.ErrLost)
	case 2:
		_ = f()
		return fmt.Errorf("%w: %w: simulated: the answer is lost", store.ErrRepeat, store.ErrLost)
	case 3:
		return fmt.Errorf("%w: simulated: lost, and not to be repeated", store.ErrLost)
	case 4:
		_ = f()
		return fmt.Errorf("%w: simulated: the answer is lost, and not to be repeated", store.ErrLost)
	case 5:
		s.late = append(s.late, func() { _ = f() })
		return fmt.Errorf("%w: simulated: late", store.ErrLost)
	case 6:
		*h.dead = true
		return errDead
	case 7:
		_ = f()
		*h.dead = true
		return errDead
	}
	return f()
}

func (h handle) Read(ctx context.Context, keys []store.Key) (items []store.Item, err error) {
	err = h.call(func() (err error) {
		items, err = h.s.items.Read(ctx, keys)
		return err
	})
	return items, err
}

func (h handle) Query(ctx context.Context, q store.Query) (items []store.Item, next string, err error) {
	if q.Index == "" && q.Limit == 0 {
		q.Limit = 1 // the smallest pages: what a report reads may change between any two
	}
	err = h.call(func() (err error) {
		items, next, err = h.s.items.Query(ctx, q)
		return err
	})
	return items, next, err
}

func (h handle) Transact(ctx context.Context, token string, writes []store.Write) error {
	if space := h.s.sabotage.unconditional; space != "" {
		writes = slices.Clone(writes)
		for i, w := range writes {
			if space.PartsOf(w.Key.PK) != nil && w.Kind == h.s.sabotage.kind {
				writes[i].Condition = nil
			}
		}
	}
	if h.s.sabotage.split {
		var removals, others []store.Write
		for _, w := range writes {
			if w.Kind == store.DeleteKind {
				removals = append(removals, w)
			} else {
				others = append(others, w)
			}
		}
		if len(removals) > 0 {
			if err := h.call(func() error { return h.s.items.Transact(ctx, token+"1", others) }); err != nil {
				return err
			}
			return h.call(func() error { return h.s.items.Transact(ctx, token+"2", removals) })
		}
	}
	return h.call(func() error { return h.s.items.Transact(ctx, token, writes) })
}
