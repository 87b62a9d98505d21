package allowance

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/memory"
)

// A simulated run: some instances with clocks of their own share a few
// allowances over one table, whose every call waits until the run lets it go
// on, fail before or after it is applied, or be applied twice. One thing
// happens at a time, so a seed is a run.
type simulation struct {
	t      *testing.T
	random *rand.Rand
	memory *memory.Backend
	// harsh runs have what loses leases: crashes, timeouts, failures whose
	// effect is unknown, transaction tokens that are no longer remembered.
	harsh bool
	limit int64
	span  time.Duration
	// sabotage changes what instances write, to show that the run notices.
	sabotage sabotage
	// pools reads the records without anybody's permission.
	pools ledger
	// quotas is what a run of Quotas has besides, nil for one of Pools.
	quotas *quotaRun

	mu        sync.Mutex
	instances []*instance
	calls     []*call
	takes     []*take
	admitted  map[period]int64
	trace     []string
}

type sabotage func(limit int64, writes []store.Write)

type instance struct {
	*Pool
	quotas *Quotas // of a run of Quotas
	run    *simulation
	index  int
	skew   atomic.Int64
	dead   bool
	// repeats counts, for each kind of call, those in a row that were not let
	// through at once.
	repeats map[string]int
	// admitted counts, for each period, what this instance admitted.
	admitted map[period]int64
}

// farthestJump is between the extremes of the clocks.
const farthestJump = 9 * time.Second

type take struct {
	cancel context.CancelFunc
	done   bool
}

// call is a table call that waits for the run's permission.
type call struct {
	of   *instance
	what string
	do   chan effect
}

type effect int

const (
	succeed effect = iota
	throttle
	loseReply
	refuse        // not applied, and not to be repeated
	applyAndFail  // applied, not to be repeated, and not known
	forgetAndLate // applied, and repeated after its token was forgotten
)

var errSimulated = errors.New("simulated failure")

func (i *instance) now() time.Time { return time.Now().Add(time.Duration(i.skew.Load())) }

// gate waits for permission to do what a backend call does.
func (i *instance) gate(ctx context.Context, what string, apply func(token string) error) error {
	c := &call{of: i, what: what, do: make(chan effect, 1)}
	i.run.mu.Lock()
	i.run.calls = append(i.run.calls, c)
	i.run.mu.Unlock()
	var e effect
	select {
	case e = <-c.do:
	case <-ctx.Done():
		i.run.mu.Lock()
		i.run.calls = slices.DeleteFunc(i.run.calls, func(o *call) bool { return o == c })
		i.run.quotas.linger(what, apply)
		i.run.mu.Unlock()
		return fmt.Errorf("%w: %w", store.ErrLost, context.Cause(ctx))
	}
	switch e {
	case succeed:
		return apply("")
	case throttle:
		return fmt.Errorf("%w: throttled", store.ErrRepeat)
	case loseReply:
		_ = apply("") // nobody hears what came of it
		return fmt.Errorf("%w: %w: the reply was lost", store.ErrRepeat, store.ErrLost)
	case applyAndFail:
		_ = apply("")
		return fmt.Errorf("%w: %w", store.ErrLost, errSimulated)
	case forgetAndLate:
		if err := apply(""); err != nil {
			return err
		}
		return apply(" again")
	case refuse:
		return errSimulated
	}
	panic("unknown effect")
}

func (i *instance) Read(ctx context.Context, keys []store.Key) (items []store.Item, err error) {
	err = i.gate(ctx, "read "+keys[0].PK, func(string) (err error) {
		items, err = i.run.memory.Read(ctx, keys)
		return err
	})
	return items, err
}

func (i *instance) Query(ctx context.Context, q store.Query) (items []store.Item, next string, err error) {
	err = i.gate(ctx, "query "+q.PK, func(string) (err error) {
		items, next, err = i.run.memory.Query(ctx, q)
		return err
	})
	return items, next, err
}

func (i *instance) Transact(ctx context.Context, token string, writes []store.Write) error {
	if i.run.sabotage != nil {
		writes = slices.Clone(writes)
		i.run.sabotage(i.run.limit, writes)
	}
	return i.gate(ctx, "write "+writes[0].Key.PK, func(again string) error {
		return i.run.memory.Transact(ctx, token+again, writes)
	})
}

func (r *simulation) join() *instance {
	i := &instance{run: r, index: len(r.instances), admitted: map[period]int64{}, repeats: map[string]int{}}
	i.skew.Store(int64(time.Duration(r.random.IntN(5000)-2500) * time.Millisecond))
	source := func(salt byte) *rand.ChaCha8 {
		return rand.NewChaCha8([32]byte{byte(i.index), byte(r.random.Uint32()), salt})
	}
	patience := 24 * time.Hour
	if r.harsh {
		patience = 2 * time.Second
	}
	o := Options{
		Table: store.New(i, store.Options{
			Random: source(1), Now: i.now,
			Pause: func(ctx context.Context, _ int) error { return context.Cause(ctx) },
		}),
		Now: i.now, Random: source(2), Log: slog.New(slog.DiscardHandler), LeaseTimeout: patience,
	}
	i.Pool = New(o)
	if r.quotas != nil {
		i.quotas = r.quotas.open(i, o)
		i.Pool = i.quotas.pool
	}
	r.instances = append(r.instances, i)
	return i
}

func (r *simulation) living() []*instance {
	return slices.DeleteFunc(slices.Clone(r.instances), func(i *instance) bool { return i.dead })
}

// request has an instance ask for units in the window that its clock shows.
func (r *simulation) request(i *instance) {
	if r.quotas != nil {
		r.quotas.request(i)
		return
	}
	name, n := "strict", int64(1)
	if r.random.IntN(4) == 0 {
		name = "async"
	}
	if r.random.IntN(8) == 0 {
		n = 1 + r.random.Int64N(3)
	}
	a := Allowance{Name: name, Limit: r.limit}
	a.From, a.To = Window(i.now(), r.span)
	ask := i.Take
	if name == "async" {
		ask = i.TakeAsync
	}
	ctx, cancel := context.WithCancel(r.t.Context())
	t := &take{cancel: cancel}
	r.takes = append(r.takes, t)
	go func() {
		defer cancel()
		d, err := ask(ctx, a, n)
		r.mu.Lock()
		defer r.mu.Unlock()
		t.done = true
		if d.Admitted && err == nil && !i.dead {
			r.admitted[a.period()] += n
			i.admitted[a.period()] += n
		}
	}()
}

// pending are the calls that wait, in an order that does not depend on the
// scheduler.
func (r *simulation) pending() []*call {
	r.mu.Lock()
	defer r.mu.Unlock()
	slices.SortStableFunc(r.calls, func(a, b *call) int {
		return strings.Compare(a.what+strconv.Itoa(a.of.index), b.what+strconv.Itoa(b.of.index))
	})
	return slices.Clone(r.calls)
}

func (r *simulation) release(c *call, e effect) {
	r.mu.Lock()
	r.calls = slices.DeleteFunc(r.calls, func(o *call) bool { return o == c })
	r.mu.Unlock()
	r.note("%s by %d: %d", c.what, c.of.index, e)
	c.do <- e
}

// mostRepeats keeps a gentle run from using up the table's patience, after
// which nobody knows whether a commit was made.
const mostRepeats = 6

func (r *simulation) effect(c *call) effect {
	weights := []int{70, 10, 15, 0, 0, 0}
	if r.harsh {
		weights = []int{60, 10, 12, 4, 6, 8}
	}
	n := r.random.IntN(100)
	for e, w := range weights {
		if n -= w; n < 0 {
			repeats := c.of.repeats
			if repeats[c.what]++; e == 0 || !r.harsh && repeats[c.what] > mostRepeats {
				repeats[c.what] = 0
				return succeed
			}
			return effect(e)
		}
	}
	return succeed
}

func (r *simulation) note(format string, args ...any) {
	r.trace = append(r.trace, fmt.Sprintf(format, args...))
}

// step does one thing at random.
func (r *simulation) step() {
	living := r.living()
	i := living[r.random.IntN(len(living))]
	switch n := r.random.IntN(100); {
	case n < 40:
		r.note("request at %d", i.index)
		r.request(i)
	case n < 80:
		if calls := r.pending(); len(calls) > 0 {
			c := calls[r.random.IntN(len(calls))]
			r.release(c, r.effect(c))
		}
	case n < 88:
		time.Sleep(time.Duration(r.random.IntN(int(r.span / 20))))
	case n < 91:
		r.note("sweep %d", i.index)
		go func() { _ = i.sweep(r.t.Context()) }()
	case n < 93:
		i.skew.Store(int64(time.Duration(r.random.IntN(8000)-4000) * time.Millisecond))
		r.note("clock of %d jumps to %v", i.index, time.Duration(i.skew.Load()))
	case n < 95:
		if len(r.takes) > 0 {
			r.takes[r.random.IntN(len(r.takes))].cancel()
			r.note("a caller leaves")
		}
	case n < 97:
		if len(living) < 6 {
			r.note("join %d", r.join().index)
		}
	case n < 98:
		r.note("drain %d", i.index)
		go func() { _ = i.Drain(r.t.Context()) }()
	default:
		if r.harsh && len(living) > 1 {
			r.crash(i)
		}
	}
}

// crash ends an instance: its calls are applied or not, and nobody hears of it.
func (r *simulation) crash(i *instance) {
	r.note("crash %d", i.index)
	r.mu.Lock()
	i.dead = true
	r.mu.Unlock()
	r.silence(i)
}

// silence fails what a dead instance still asks.
func (r *simulation) silence(i *instance) {
	for _, c := range r.pending() {
		if c.of == i {
			r.release(c, []effect{refuse, applyAndFail}[r.random.IntN(2)])
		}
	}
}

// check compares what was admitted with the records.
func (r *simulation) check() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for p, n := range r.admitted {
		record, err := r.pools.granted(r.t.Context(), p)
		if err != nil {
			return err
		}
		if p.name == "strict" {
			n += r.quotas.unbegun(p)
			if n > r.limit {
				return fmt.Errorf("%d units were admitted, the limit is %d", n, r.limit)
			}
			if held := r.held(p); record < n+held || record > r.limit {
				return fmt.Errorf("the record has %d of %d granted, %d are admitted and %d held", record, r.limit, n, held)
			}
			continue
		}
		for _, i := range r.instances {
			if i.admitted[p] > r.limit {
				return fmt.Errorf("instance %d admitted %d of %d by itself", i.index, i.admitted[p], r.limit)
			}
		}
	}
	return nil
}

// held is what living instances could still admit.
func (r *simulation) held(p period) (sum int64) {
	for _, i := range r.living() {
		if s := i.find(p, r.limit); s != nil {
			sum += s.tokens.Load()
		}
	}
	return sum
}

func (pl *Pool) find(p period, limit int64) *slot {
	for k := range pl.shards {
		sh := &pl.shards[k]
		sh.mu.RLock()
		s := sh.slots[slotKey{p, limit}]
		sh.mu.RUnlock()
		if s != nil {
			return s
		}
	}
	return nil
}

// finish lets everything end well, and has all instances give back.
func (r *simulation) finish() {
	settle := func() {
		for synctest.Wait(); len(r.pending()) > 0; synctest.Wait() {
			for _, c := range r.pending() {
				e := succeed
				if c.of.dead {
					e = refuse
				}
				r.release(c, e)
				synctest.Wait()
			}
		}
	}
	settle()
	for _, i := range r.living() {
		go func() { _ = i.Drain(r.t.Context()) }()
		settle()
	}
}
