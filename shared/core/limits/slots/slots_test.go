package slots_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/core/limits"
	"github.com/gatewright/gatewright/shared/core/limits/slots"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/memory"
	"github.com/gatewright/gatewright/shared/core/store/storetest"
)

// flakyBackend is a backend whose transactions can fail before or after their effect. Its queries and transactions can
// also fail with err.
type flakyBackend struct {
	store.Backend
	failNext func() (before, after bool)
	// err is the error of every query and transaction. If it is nil, they return the result of Backend.
	err error
	// writes and queries are the numbers of calls of Transact and Query.
	writes, queries int
}

var errLost = errors.New("the reply was lost")

func (f *flakyBackend) Query(ctx context.Context, q store.Query) ([]store.Item, string, error) {
	f.queries++
	if f.err != nil {
		return nil, "", f.err
	}
	return f.Backend.Query(ctx, q)
}

func (f *flakyBackend) Transact(ctx context.Context, token string, writes []store.Write) error {
	f.writes++
	if f.err != nil {
		return f.err
	}
	before, after := false, false
	if f.failNext != nil {
		before, after = f.failNext()
	}
	if before {
		return errLost
	}
	if err := f.Backend.Transact(ctx, token, writes); err != nil {
		return err
	}
	if after {
		return errLost
	}
	return nil
}

// yieldingBackend lets other goroutines run after each query. So
// concurrent callers read before one of them writes, even on one core.
type yieldingBackend struct{ store.Backend }

func (b yieldingBackend) Query(ctx context.Context, q store.Query) ([]store.Item, string, error) {
	items, next, err := b.Backend.Query(ctx, q)
	runtime.Gosched()
	return items, next, err
}

// open returns the Slots of a process. The names of its holders are different from those of all other processes.
func open(table *store.Table, now func() time.Time, limit int64) *slots.Slots {
	var n atomic.Int64
	return slots.New(slots.Options{
		Table: table, Now: now, Max: limit, Limit: limits.FunctionStreams,
		Name: func() string { return fmt.Sprintf("%p-%d", &n, n.Add(1)) },
	})
}

// holder is a caller that has taken a slot.
type holder struct {
	until   time.Time
	release func(context.Context) error
}

// processes are two processes that take slots of one account, with clocks that are some seconds apart.
type processes struct {
	now        time.Time
	limit      int64
	failure    int // of the next transaction: 1 if it fails without an effect, 2 if its reply is lost
	perProcess [2]*slots.Slots
	holders    map[int]holder // by the steps of their take
	refusedAt  [2]time.Time   // when each process was refused, except less than a second after this time
	uncertain  []time.Time    // the ends of slots that killed callers may have taken
}

// newProcesses returns two processes without holders. The clock of the second one is 4 s ahead.
func newProcesses(limit int64) *processes {
	p := &processes{now: storetest.Epoch, limit: limit, holders: map[int]holder{}}
	backend := &flakyBackend{Backend: memory.New(), failNext: func() (bool, bool) {
		failure := p.failure
		p.failure = 0
		return failure == 1, failure == 2
	}}
	for i, ahead := range []time.Duration{0, 4 * time.Second} {
		clock := func() time.Time { return p.now.Add(ahead) }
		p.perProcess[i] = open(store.New(backend, store.Options{
			Random: rand.Reader, Now: clock,
			Backoff: storetest.NoBackoff,
		}), clock, limit)
	}
	return p
}

// take lets one of the processes take a slot. It fails the test if the process is refused while a slot is free, unless
// the process was already refused less than a second ago.
func (p *processes) take(t *rapid.T, step int) {
	p.failure = rapid.SampledFrom([]int{0, 0, 0, 1, 2}).Draw(t, "failure")
	until := p.now.Add(rapid.SampledFrom([]time.Duration{time.Second, time.Minute, 15 * time.Minute}).Draw(t, "duration"))
	process := rapid.IntRange(0, 1).Draw(t, "process")
	release, refusal, err := p.perProcess[process].Take(t.Context(), "acme", until)
	p.failure = 0
	switch {
	case refusal != nil:
	case err == nil:
		p.holders[step] = holder{until, release}
	case !errors.Is(err, errLost) || release == nil:
		t.Fatalf("Take() = release %t, %v, want no error, or %v with a release", release != nil, err, errLost)
	case rapid.Bool().Draw(t, "killed"):
		p.uncertain = append(p.uncertain, until)
	default:
		if err := release(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	taken := len(p.uncertain)
	for _, h := range p.holders {
		if h.until.Add(10 * time.Second).After(p.now) { // a slot is free 10 s after its end at the latest
			taken++
		}
	}
	if refusal != nil && int64(taken) < p.limit && p.now.Sub(p.refusedAt[process]) >= time.Second {
		t.Fatalf("Take() with %d of %d slots taken = %v, want a slot", taken, p.limit, refusal)
	}
	if refusal != nil && p.now.Sub(p.refusedAt[process]) >= time.Second {
		p.refusedAt[process] = p.now
	}
}

// release makes at most one of the holders return its slot.
func (p *processes) release(t *rapid.T) {
	for _, n := range slices.Sorted(maps.Keys(p.holders)) {
		if rapid.Bool().Draw(t, "release this holder") {
			if err := p.holders[n].release(t.Context()); err != nil {
				t.Fatal(err)
			}
			delete(p.holders, n)
			break
		}
	}
}

// kill ends the first holder without returning its slot.
func (p *processes) kill() {
	for _, n := range slices.Sorted(maps.Keys(p.holders)) {
		p.uncertain = append(p.uncertain, p.holders[n].until)
		delete(p.holders, n)
		break
	}
}

// advance lets time pass.
func (p *processes) advance(t *rapid.T) {
	p.now = p.now.Add(rapid.SampledFrom([]time.Duration{time.Second, 30 * time.Second, 20 * time.Minute}).Draw(t, "time"))
	p.uncertain = slices.DeleteFunc(p.uncertain, func(until time.Time) bool {
		return until.Add(10 * time.Second).Before(p.now)
	})
}

// running returns the number of holders that have not reached the end of their slot.
func (p *processes) running() int64 {
	var n int64
	for _, h := range p.holders {
		if h.until.After(p.now) {
			n++
		}
	}
	return n
}

// TestSlotsAreNeverMoreThanTheLimit checks that never more holders than the limit are running,
// even if holders die and replies are lost. A caller may be refused only if all slots are taken,
// or if its process was refused less than a second ago. A slot may count as taken for up to
// 10 s after its holder's end. The clocks of the two processes are some seconds apart.
func TestSlotsAreNeverMoreThanTheLimit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := newProcesses(rapid.Int64Range(1, 5).Draw(t, "limit"))
		for step := range rapid.IntRange(1, 60).Draw(t, "steps") {
			switch rapid.IntRange(0, 6).Draw(t, "event") {
			case 0, 1, 2:
				p.take(t, step)
			case 3, 4:
				p.release(t)
			case 5:
				p.kill()
			case 6:
				p.advance(t)
			}
			if n := p.running(); n > p.limit {
				t.Fatalf("%d holders of slots are running, want at most %d", n, p.limit)
			}
		}
	})
}

// TestConcurrentCallersGetAllSlots checks that no caller is refused while there are enough slots,
// no matter how many callers try at the same time. It also checks that accounts do not share slots.
func TestConcurrentCallersGetAllSlots(t *testing.T) {
	now := func() time.Time { return storetest.Epoch }
	table := storetest.New(t)
	const limit = 8
	// In the first round, each of two accounts has as many callers as slots. In the second round, all slots are taken.
	for _, full := range []bool{false, true} {
		var wg sync.WaitGroup
		for i := range 2 * limit {
			s := open(table, now, limit)
			wg.Go(func() {
				_, refusal, err := s.Take(t.Context(), []string{"acme", "other"}[i%2], now().Add(time.Minute))
				if refused := refusal != nil && strings.Contains(refusal.Public, "function-streams is 8"); refused != full ||
					err != nil {
					t.Errorf("Take() (all slots taken: %t) = %v, %v, want a refusal only if all are taken", full, refusal, err)
				}
			})
		}
		wg.Wait()
	}
}

// TestReleaseByFormerHolderHasNoEffect checks that a late or repeated release does not free the slot of the next holder.
func TestReleaseByFormerHolderHasNoEffect(t *testing.T) {
	now := storetest.Epoch
	clock := func() time.Time { return now }
	s := open(storetest.New(t, storetest.Clock(clock)), clock, 1)
	first := mustTake(t, s, now.Add(time.Minute))
	now = now.Add(2 * time.Minute)
	second := mustTake(t, s, now.Add(time.Minute))
	for range 2 {
		if err := first(t.Context()); err != nil {
			t.Fatalf("release() by a former holder = %v, want nil", err)
		}
	}
	if _, refusal, err := s.Take(t.Context(), "acme", now.Add(time.Minute)); refusal == nil {
		t.Errorf("Take() after a former holder's release(): refusal nil, error %v, want a refusal", err)
	}
	if err := second(t.Context()); err != nil {
		t.Fatal(err)
	}
	mustTake(t, s, now.Add(time.Minute))
}

// mustTake takes a slot of the account acme.
func mustTake(t *testing.T, s *slots.Slots, until time.Time) (release func(context.Context) error) {
	t.Helper()
	release, refusal, err := s.Take(t.Context(), "acme", until)
	if refusal != nil || err != nil {
		t.Fatalf("Take() = %v, %v, want a slot", refusal, err)
	}
	return release
}

// TestRefusalIsCached checks that only one of many refused requests per second reads the slots. Only the first refused
// request may also write, because a write costs more than a read.
func TestRefusalIsCached(t *testing.T) {
	now := storetest.Epoch
	clock := func() time.Time { return now }
	backend := &flakyBackend{Backend: memory.New()}
	s := open(storetest.NewWithBackend(t, backend, storetest.Clock(clock)), clock, 1)
	release := mustTake(t, s, now.Add(time.Hour))
	for range 3 {
		backend.writes, backend.queries = 0, 0
		for range 100 {
			if _, refusal, err := s.Take(t.Context(), "acme", now.Add(time.Hour)); refusal == nil ||
				!strings.Contains(refusal.Public, "has 1 streams") {
				t.Fatalf("Take() with all slots taken = %v, %v, want a refusal with 1 stream", refusal, err)
			}
		}
		if first := now.Equal(storetest.Epoch); backend.queries != 1 || backend.writes > 1 || backend.writes == 1 && !first {
			t.Errorf("100 refused calls of Take() (in the first second: %t) need %d queries and %d writes, "+
				"want 1 query, and at most 1 write in the first second and none later", first, backend.queries, backend.writes)
		}
		now = now.Add(time.Second)
	}
	if err := release(t.Context()); err != nil {
		t.Fatal(err)
	}
	mustTake(t, s, now.Add(time.Hour))
}

// TestThrottledTableIsNotARefusal checks that Take returns the
// error of a throttled table, and not a refusal of the account.
func TestThrottledTableIsNotARefusal(t *testing.T) {
	now := func() time.Time { return storetest.Epoch }
	backend := &flakyBackend{Backend: memory.New(), err: store.ErrRetryable}
	s := open(storetest.NewWithBackend(t, backend, storetest.Backoff(storetest.NoBackoff)), now, 1)
	release, refusal, err := s.Take(t.Context(), "acme", now().Add(time.Minute))
	if refusal != nil || release != nil || !fault.Is(err, fault.Throttled) {
		t.Errorf("Take() with a throttled table = release %t, refusal %v, %v, want neither, and a throttled error",
			release != nil, refusal, err)
	}
}

// TestCachedRefusalDuringOutage checks that an account's last refusal is used for a minute if the table is unavailable.
func TestCachedRefusalDuringOutage(t *testing.T) {
	now := storetest.Epoch
	clock := func() time.Time { return now }
	backend := &flakyBackend{Backend: memory.New()}
	s := open(storetest.NewWithBackend(t, backend, storetest.Clock(clock), storetest.Backoff(storetest.NoBackoff)), clock,
		1)
	release := mustTake(t, s, now.Add(time.Hour))
	take := func(accountID string) (refused bool) {
		t.Helper()
		_, refusal, err := s.Take(t.Context(), accountID, now.Add(time.Hour))
		if (refusal == nil) == (err == nil) {
			t.Errorf("Take() = %v, %v, want either a refusal or an error", refusal, err)
		}
		return refusal != nil
	}
	take("acme")
	backend.err = store.ErrRetryable
	for range 59 {
		now = now.Add(time.Second)
		if !take("acme") {
			t.Error("Take() of a full account during the first minute of an outage: not refused, want the cached refusal")
		}
	}
	if take("other") {
		t.Error("Take() of another account during an outage: refused, want an error")
	}
	now = now.Add(time.Second)
	if take("acme") {
		t.Error("Take() of a full account after a minute of an outage: refused, want an error")
	}
	backend.err = nil
	if err := release(t.Context()); err != nil {
		t.Fatal(err)
	}
	mustTake(t, s, now.Add(time.Hour))
}

// TestReleaseAfterLostReply checks that Take also returns a release function if the reply was lost, because
// the caller may have the slot. The write of the slot is committed in one case, and not in the other.
func TestReleaseAfterLostReply(t *testing.T) {
	now := func() time.Time { return storetest.Epoch }
	for _, committed := range []bool{false, true} {
		lost := true
		backend := &flakyBackend{Backend: memory.New(), failNext: func() (bool, bool) {
			return lost && !committed, lost && committed
		}}
		s := open(storetest.NewWithBackend(t, backend), now, 1)
		release, refusal, err := s.Take(t.Context(), "acme", now().Add(time.Minute))
		if !errors.Is(err, errLost) || refusal != nil || release == nil {
			t.Fatalf("committed %t: Take() = release %t, refusal %v, %v, want a release, no refusal and %v",
				committed, release != nil, refusal, err, errLost)
		}
		lost = false
		if err := release(t.Context()); err != nil {
			t.Fatalf("committed %t: release() after a lost reply = %v, want nil", committed, err)
		}
		mustTake(t, s, now().Add(time.Minute))
	}
}

// TestConcurrentCallersAreNotRefused checks that no caller is refused while
// a slot is free, no matter how often callers try to take the same slot.
func TestConcurrentCallersAreNotRefused(t *testing.T) {
	now := func() time.Time { return storetest.Epoch }
	table := storetest.NewWithBackend(t, yieldingBackend{memory.New()})
	const limit = 250
	var wg sync.WaitGroup
	var refused atomic.Int64
	for range limit {
		s := open(table, now, limit)
		wg.Go(func() {
			_, refusal, err := s.Take(t.Context(), "acme", now().Add(time.Minute))
			if err != nil {
				t.Errorf("Take() = %v, want a slot", err)
			}
			if refusal != nil {
				refused.Add(1)
			}
		})
	}
	wg.Wait()
	if n := refused.Load(); n > 0 {
		t.Errorf("%d of %d callers were refused, want 0", n, limit)
	}
	if _, refusal, _ := open(table, now, limit).Take(t.Context(), "acme", now().Add(time.Minute)); refusal == nil ||
		!strings.Contains(refusal.Public, "has 250 streams") {
		t.Errorf("Take() with all slots taken = %v, want a refusal with 250 streams", refusal)
	}
}
