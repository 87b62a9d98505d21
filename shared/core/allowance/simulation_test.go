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

	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/memory"
)

// simulation is a simulated run. Some instances with their own clocks share a few allowances over one table.
// Each call of the table waits until the run decides about it. The call then succeeds, fails before or after
// it is applied, or is applied twice. Only one event happens at a time, so a seed determines the run.
type simulation struct {
	t      *testing.T
	random *rand.Rand
	memory *memory.Backend
	// lossy means that the run has events that lose leases: crashes, timeouts,
	// failures whose effect is unknown, and transaction tokens that the table forgets.
	lossy bool
	limit int64
	span  time.Duration
	// corrupt changes the writes of instances, to check that the run detects the change.
	corrupt corruption
	// ledger reads the records without waiting for the run's permission.
	ledger ledger
	// quotas extends a run for Quotas. It is nil in a run for Pools.
	quotas *quotaRun

	mu        sync.Mutex
	instances []*instance
	calls     []*call
	takes     []*pendingTake
	admitted  map[period]int64
	trace     []string
}

// corruption changes the writes of an instance in place. limit is the limit of the allowances.
type corruption func(limit int64, writes []store.Write)

// instance is a simulated instance. It is the backend of its own table.
type instance struct {
	*Pool
	quotas *Quotas // for a run of Quotas
	run    *simulation
	index  int
	skew   atomic.Int64 // of the clock, in nanoseconds
	dead   bool
	// repeats has, for each kind of call, the number of consecutive calls that have failed.
	repeats map[string]int
	// admitted counts the units that this instance admitted, for each period.
	admitted map[period]int64
}

// maxClockSkew is the maximum difference between the clocks of two instances.
const maxClockSkew = 9 * time.Second

// pendingTake is a call of Take, TakeAsync or TakeOnce that a caller has made.
type pendingTake struct {
	cancel context.CancelFunc
	done   bool
}

// call is a table call that waits for the run's permission.
type call struct {
	instance *instance
	name     string
	proceed  chan effect
}

// effect is what the run decides about a call.
type effect int

const (
	succeed effect = iota
	throttle
	loseReply
	refuse       // not applied, and not repeated
	applyAndFail // applied, not repeated, and the caller does not know
	applyTwice   // applied, and applied again after the table has forgotten its token
)

var errSimulated = errors.New("simulated failure")

func (i *instance) now() time.Time { return time.Now().Add(time.Duration(i.skew.Load())) }

// gate waits until the run has decided about a backend call. It then calls apply as the decision says.
func (i *instance) gate(ctx context.Context, name string, apply func(token string) error) error {
	c := &call{instance: i, name: name, proceed: make(chan effect, 1)}
	i.run.mu.Lock()
	i.run.calls = append(i.run.calls, c)
	i.run.mu.Unlock()
	var e effect
	select {
	case e = <-c.proceed:
	case <-ctx.Done():
		i.run.mu.Lock()
		i.run.calls = slices.DeleteFunc(i.run.calls, func(o *call) bool { return o == c })
		i.run.quotas.keepLateWrite(name, apply)
		i.run.mu.Unlock()
		return fmt.Errorf("%w: %w", store.ErrOutcomeUnknown, context.Cause(ctx))
	}
	switch e {
	case succeed:
		return apply("")
	case throttle:
		return fmt.Errorf("%w: throttled", store.ErrRetryable)
	case loseReply:
		_ = apply("") // the reply is lost
		return fmt.Errorf("%w: %w: the reply was lost", store.ErrRetryable, store.ErrOutcomeUnknown)
	case applyAndFail:
		_ = apply("")
		return fmt.Errorf("%w: %w", store.ErrOutcomeUnknown, errSimulated)
	case applyTwice:
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
	if i.run.corrupt != nil {
		writes = slices.Clone(writes)
		i.run.corrupt(i.run.limit, writes)
	}
	return i.gate(ctx, "write "+writes[0].Key.PK, func(suffix string) error {
		return i.run.memory.Transact(ctx, token+suffix, writes)
	})
}

// addInstance adds an instance with its own clock. Its leases have a short timeout only in a lossy run.
func (si *simulation) addInstance() *instance {
	i := &instance{run: si, index: len(si.instances), admitted: map[period]int64{}, repeats: map[string]int{}}
	i.skew.Store(int64(time.Duration(si.random.IntN(5000)-2500) * time.Millisecond))
	source := func(salt byte) *rand.ChaCha8 {
		return rand.NewChaCha8([32]byte{byte(i.index), byte(si.random.Uint32()), salt})
	}
	leaseTimeout := 24 * time.Hour
	if si.lossy {
		leaseTimeout = 2 * time.Second
	}
	o := Options{
		Table: store.New(i, store.Options{
			Random: source(1), Now: i.now,
			Backoff: func(ctx context.Context, _ int) error { return context.Cause(ctx) },
		}),
		Now: i.now, Random: source(2), Log: slog.New(slog.DiscardHandler), LeaseTimeout: leaseTimeout,
	}
	i.Pool = New(o)
	if si.quotas != nil {
		i.quotas = si.quotas.open(i, o)
		i.Pool = i.quotas.pool
	}
	si.instances = append(si.instances, i)
	return i
}

// alive returns the instances that have not crashed.
func (si *simulation) alive() []*instance {
	return slices.DeleteFunc(slices.Clone(si.instances), func(i *instance) bool { return i.dead })
}

// request makes an instance request units in the window of its clock.
func (si *simulation) request(i *instance) {
	if si.quotas != nil {
		si.quotas.request(i)
		return
	}
	name, n := "strict", int64(1)
	if si.random.IntN(4) == 0 {
		name = "async"
	}
	if si.random.IntN(8) == 0 {
		n = 1 + si.random.Int64N(3)
	}
	a := Allowance{Name: name, Limit: si.limit}
	a.From, a.To = Window(i.now(), si.span)
	take := i.Take
	if name == "async" {
		take = i.TakeAsync
	}
	ctx, cancel := context.WithCancel(si.t.Context())
	t := &pendingTake{cancel: cancel}
	si.takes = append(si.takes, t)
	go func() {
		defer cancel()
		d, err := take(ctx, a, n)
		si.mu.Lock()
		defer si.mu.Unlock()
		t.done = true
		if d.Admitted && err == nil && !i.dead {
			si.admitted[a.period()] += n
			i.admitted[a.period()] += n
		}
	}()
}

// pending returns the waiting calls, in an order that does not depend on the scheduler.
func (si *simulation) pending() []*call {
	si.mu.Lock()
	defer si.mu.Unlock()
	slices.SortStableFunc(si.calls, func(a, b *call) int {
		return strings.Compare(a.name+strconv.Itoa(a.instance.index), b.name+strconv.Itoa(b.instance.index))
	})
	return slices.Clone(si.calls)
}

// release lets a waiting call continue, with the effect e.
func (si *simulation) release(c *call, e effect) {
	si.mu.Lock()
	si.calls = slices.DeleteFunc(si.calls, func(o *call) bool { return o == c })
	si.mu.Unlock()
	si.tracef("%s by %d: %d", c.name, c.instance.index, e)
	c.proceed <- e
}

// maxRetries is the maximum number of consecutive failures of a call in a run that is not lossy. With more
// failures the table would stop repeating the call, and it would be unknown whether a commit was made.
const maxRetries = 6

// effect returns a random effect for a call.
func (si *simulation) effect(c *call) effect {
	// The probability of each effect, in percent. All other calls succeed.
	weights := []int{70, 10, 15, 0, 0, 0}
	if si.lossy {
		weights = []int{60, 10, 12, 4, 6, 8}
	}
	n := si.random.IntN(100)
	for e, w := range weights {
		if n -= w; n < 0 {
			repeats := c.instance.repeats
			if repeats[c.name]++; e == 0 || !si.lossy && repeats[c.name] > maxRetries {
				repeats[c.name] = 0
				return succeed
			}
			return effect(e)
		}
	}
	return succeed
}

func (si *simulation) tracef(format string, args ...any) {
	si.trace = append(si.trace, fmt.Sprintf(format, args...))
}

// step makes one random event happen.
func (si *simulation) step() {
	alive := si.alive()
	i := alive[si.random.IntN(len(alive))]
	switch n := si.random.IntN(100); {
	case n < 40:
		si.tracef("request at %d", i.index)
		si.request(i)
	case n < 80:
		if calls := si.pending(); len(calls) > 0 {
			c := calls[si.random.IntN(len(calls))]
			si.release(c, si.effect(c))
		}
	case n < 88:
		time.Sleep(time.Duration(si.random.IntN(int(si.span / 20))))
	case n < 91:
		si.tracef("sweep %d", i.index)
		go func() { _ = i.sweep(si.t.Context()) }()
	case n < 93:
		i.skew.Store(int64(time.Duration(si.random.IntN(8000)-4000) * time.Millisecond))
		si.tracef("clock of %d jumps to %v", i.index, time.Duration(i.skew.Load()))
	case n < 95:
		if len(si.takes) > 0 {
			si.takes[si.random.IntN(len(si.takes))].cancel()
			si.tracef("a caller leaves")
		}
	case n < 97:
		if len(alive) < 6 {
			si.tracef("join %d", si.addInstance().index)
		}
	case n < 98:
		si.tracef("drain %d", i.index)
		go func() { _ = i.Drain(si.t.Context()) }()
	default:
		if si.lossy && len(alive) > 1 {
			si.crash(i)
		}
	}
}

// crash ends an instance. Its waiting calls may or may not be applied, and their replies are lost.
func (si *simulation) crash(i *instance) {
	si.tracef("crash %d", i.index)
	si.mu.Lock()
	i.dead = true
	si.mu.Unlock()
	si.failCalls(i)
}

// failCalls fails the remaining calls of a dead instance.
func (si *simulation) failCalls(i *instance) {
	for _, c := range si.pending() {
		if c.instance == i {
			si.release(c, []effect{refuse, applyAndFail}[si.random.IntN(2)])
		}
	}
}

// check compares the admitted units with the limit and with the records.
func (si *simulation) check() error {
	si.mu.Lock()
	defer si.mu.Unlock()
	for p, n := range si.admitted {
		record, err := si.ledger.granted(si.t.Context(), p)
		if err != nil {
			return err
		}
		if p.name == "strict" {
			n += si.quotas.reserved(p)
			if n > si.limit {
				return fmt.Errorf("%d units were admitted or are reserved, the limit is %d", n, si.limit)
			}
			if spendable := si.spendable(p); record < n+spendable || record > si.limit {
				return fmt.Errorf("the record has %d of %d granted, %d are admitted or reserved, and %d held",
					record, si.limit, n, spendable)
			}
			continue
		}
		for _, i := range si.instances {
			if i.admitted[p] > si.limit {
				return fmt.Errorf("instance %d alone admitted %d units, the limit is %d", i.index, i.admitted[p], si.limit)
			}
		}
	}
	return nil
}

// spendable returns the units that living instances can still admit.
func (si *simulation) spendable(p period) (sum int64) {
	for _, i := range si.alive() {
		if s := i.find(p, si.limit); s != nil {
			sum += s.tokens.Load()
		}
	}
	return sum
}

// find returns the slot for a period and a limit, or nil if there is none.
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

// finish lets all calls succeed, and makes all instances return their units.
func (si *simulation) finish() {
	completeCalls := func() {
		for synctest.Wait(); len(si.pending()) > 0; synctest.Wait() {
			for _, c := range si.pending() {
				e := succeed
				if c.instance.dead {
					e = refuse
				}
				si.release(c, e)
				synctest.Wait()
			}
		}
	}
	completeCalls()
	for _, i := range si.alive() {
		go func() { _ = i.Drain(si.t.Context()) }()
		completeCalls()
	}
}
