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

	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/limits"
	"github.com/gatewright/gatewright/shared/limits/slots"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/memory"
	"github.com/gatewright/gatewright/shared/store/storetest"
)

// flaky is a backend of which a transaction may fail, before it was done or after, or every call.
type flaky struct {
	store.Backend
	fails func() (before, after bool)
	// down is what every call is answered, nil for the backend's own answer.
	down error
	// writes and queries are counted.
	writes, queries int
}

var errLost = errors.New("the reply was lost")

func (f *flaky) Query(ctx context.Context, q store.Query) ([]store.Item, string, error) {
	f.queries++
	if f.down != nil {
		return nil, "", f.down
	}
	return f.Backend.Query(ctx, q)
}

func (f *flaky) Transact(ctx context.Context, token string, writes []store.Write) error {
	f.writes++
	if f.down != nil {
		return f.down
	}
	before, after := false, false
	if f.fails != nil {
		before, after = f.fails()
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

// crowd is a backend whose callers all look before one of them writes, on one core too.
type crowd struct{ store.Backend }

func (c crowd) Query(ctx context.Context, q store.Query) ([]store.Item, string, error) {
	items, next, err := c.Backend.Query(ctx, q)
	runtime.Gosched()
	return items, next, err
}

func open(table *store.Table, now func() time.Time, most int64) *slots.Slots {
	var n atomic.Int64
	return slots.New(slots.Options{
		Table: table, Now: now, Most: most, Limit: limits.FunctionStreams,
		Name: func() string { return fmt.Sprintf("%p-%d", &n, n.Add(1)) },
	})
}

// TestSlotsAreNeverMoreThanTheLimit, whatever becomes of holders and of the replies to them: each that runs has a slot, one that
// gave its slot back or is past its end has none, and who is refused has found all taken. Clocks of two processes are some seconds apart.
func TestSlotsAreNeverMoreThanTheLimit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now, most := storetest.Epoch, rapid.Int64Range(1, 5).Draw(t, "most")
		trouble := 0
		backend := &flaky{Backend: memory.New(), fails: func() (bool, bool) { was := trouble; trouble = 0; return was == 1, was == 2 }}
		var processes [2]*slots.Slots
		for i, ahead := range []time.Duration{0, 4 * time.Second} {
			clock := func() time.Time { return now.Add(ahead) }
			processes[i] = open(store.New(backend, store.Options{Random: rand.Reader, Now: clock, Pause: storetest.AtOnce}), clock, most)
		}
		type holder struct {
			until    time.Time
			giveBack func(context.Context) error
		}
		held := map[int]holder{}
		var refusedAt [2]time.Time
		var uncertain []time.Time // of slots that may be taken, by who was killed
		for step := range rapid.IntRange(1, 60).Draw(t, "steps") {
			switch rapid.IntRange(0, 6).Draw(t, "do") {
			case 0, 1, 2:
				trouble = rapid.SampledFrom([]int{0, 0, 0, 1, 2}).Draw(t, "trouble")
				until := now.Add(rapid.SampledFrom([]time.Duration{time.Second, time.Minute, 15 * time.Minute}).Draw(t, "for"))
				process := rapid.IntRange(0, 1).Draw(t, "process")
				giveBack, refusal, err := processes[process].Take(t.Context(), "acme", until)
				trouble = 0
				switch {
				case refusal != nil:
				case err == nil:
					held[step] = holder{until, giveBack}
				case !errors.Is(err, errLost) || giveBack == nil:
					t.Fatal(err)
				case rapid.Bool().Draw(t, "killed"):
					uncertain = append(uncertain, until)
				default:
					if err := giveBack(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				taken := len(uncertain)
				for _, h := range held {
					if h.until.Add(10 * time.Second).After(now) { // soon after which it is free
						taken++
					}
				}
				if refusal != nil && int64(taken) < most && now.Sub(refusedAt[process]) >= time.Second {
					t.Fatalf("refused with %d of %d taken: %v", taken, most, refusal)
				}
				if refusal != nil && now.Sub(refusedAt[process]) >= time.Second {
					refusedAt[process] = now
				}
			case 3, 4:
				for _, n := range slices.Sorted(maps.Keys(held)) {
					if rapid.Bool().Draw(t, "it") {
						if err := held[n].giveBack(t.Context()); err != nil {
							t.Fatal(err)
						}
						delete(held, n)
						break
					}
				}
			case 5: // one is killed
				for _, n := range slices.Sorted(maps.Keys(held)) {
					uncertain = append(uncertain, held[n].until)
					delete(held, n)
					break
				}
			case 6:
				now = now.Add(rapid.SampledFrom([]time.Duration{time.Second, 30 * time.Second, 20 * time.Minute}).Draw(t, "time"))
				uncertain = slices.DeleteFunc(uncertain, func(until time.Time) bool { return until.Add(10 * time.Second).Before(now) })
			}
			running := 0
			for _, h := range held {
				if h.until.After(now) {
					running++
				}
			}
			if int64(running) > most {
				t.Fatalf("%d run, of %d", running, most)
			}
		}
	})
}

// TestManyAtOnceTakeAsManyAsThereAre: none is refused while there is room for all, however many try at the same time, and no other
// account's are theirs.
func TestManyAtOnceTakeAsManyAsThereAre(t *testing.T) {
	now := func() time.Time { return storetest.Epoch }
	table := storetest.New(t)
	const most = 8
	// As many as have room at once, then as many as have none: 16 of each, of two accounts.
	for _, full := range []bool{false, true} {
		var all sync.WaitGroup
		for i := range 2 * most {
			s := open(table, now, most)
			all.Go(func() {
				_, refusal, err := s.Take(t.Context(), []string{"acme", "other"}[i%2], now().Add(time.Minute))
				if is := refusal != nil && strings.Contains(refusal.Public, "function-streams is 8"); is != full || err != nil {
					t.Errorf("where all are taken: %t, one is told %v, %v", full, refusal, err)
				}
			})
		}
		all.Wait()
	}
}

// TestSlotIsGivenBackByItsHolderAlone: who gives one back late, or twice, takes it from nobody.
func TestSlotIsGivenBackByItsHolderAlone(t *testing.T) {
	now := storetest.Epoch
	clock := func() time.Time { return now }
	s := open(storetest.New(t, storetest.Clock(clock)), clock, 1)
	first := mustTake(t, s, now.Add(time.Minute))
	now = now.Add(2 * time.Minute)
	second := mustTake(t, s, now.Add(time.Minute))
	for range 2 {
		if err := first(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if _, refusal, err := s.Take(t.Context(), "acme", now.Add(time.Minute)); refusal == nil {
		t.Errorf("the slot of another was given back: %v", err)
	}
	if err := second(t.Context()); err != nil {
		t.Fatal(err)
	}
	mustTake(t, s, now.Add(time.Minute))
}

// mustTake takes a slot of the account acme.
func mustTake(t *testing.T, s *slots.Slots, until time.Time) (giveBack func(context.Context) error) {
	t.Helper()
	giveBack, refusal, err := s.Take(t.Context(), "acme", until)
	if refusal != nil || err != nil {
		t.Fatalf("no slot: %v, %v", refusal, err)
	}
	return giveBack
}

// TestWhoFloodsIsRefusedWithoutTheTable: of many that ask for a slot where there is none, one a second looks, and writes nothing: a
// write is more than a look.
func TestWhoFloodsIsRefusedWithoutTheTable(t *testing.T) {
	now := storetest.Epoch
	clock := func() time.Time { return now }
	backend := &flaky{Backend: memory.New()}
	s := open(storetest.Over(t, backend, storetest.Clock(clock)), clock, 1)
	giveBack := mustTake(t, s, now.Add(time.Hour))
	for range 3 {
		backend.writes, backend.queries = 0, 0
		for range 100 {
			if _, refusal, err := s.Take(t.Context(), "acme", now.Add(time.Hour)); refusal == nil || !strings.Contains(refusal.Public, "has 1 streams") {
				t.Fatal(refusal, err)
			}
		}
		if first := now.Equal(storetest.Epoch); backend.queries != 1 || backend.writes > 1 || backend.writes == 1 && !first {
			t.Errorf("100 tries in a second have looked %d times and written %d times", backend.queries, backend.writes)
		}
		now = now.Add(time.Second)
	}
	if err := giveBack(t.Context()); err != nil {
		t.Fatal(err)
	}
	mustTake(t, s, now.Add(time.Hour))
}

// TestTableThatRefusesIsNoFullAccount: a table that throttles answers as an account without a slot is answered elsewhere, and says nothing of the account.
func TestTableThatRefusesIsNoFullAccount(t *testing.T) {
	now := func() time.Time { return storetest.Epoch }
	backend := &flaky{Backend: memory.New(), down: store.ErrRepeat}
	s := open(storetest.Over(t, backend, storetest.Pause(storetest.AtOnce)), now, 1)
	giveBack, refusal, err := s.Take(t.Context(), "acme", now().Add(time.Minute))
	if refusal != nil || giveBack != nil || !fault.Is(err, fault.Throttled) {
		t.Errorf("told %v, %v, and has something to give back: %t", refusal, err, giveBack != nil)
	}
}

// TestWhoFloodsUntilTheTableThrottlesIsRefused by what was known of the account, for a minute.
func TestWhoFloodsUntilTheTableThrottlesIsRefused(t *testing.T) {
	now := storetest.Epoch
	clock := func() time.Time { return now }
	backend := &flaky{Backend: memory.New()}
	s := open(storetest.Over(t, backend, storetest.Clock(clock), storetest.Pause(storetest.AtOnce)), clock, 1)
	giveBack := mustTake(t, s, now.Add(time.Hour))
	take := func(accountID string) (refused bool) {
		t.Helper()
		_, refusal, err := s.Take(t.Context(), accountID, now.Add(time.Hour))
		if (refusal == nil) == (err == nil) {
			t.Errorf("told %v, %v", refusal, err)
		}
		return refusal != nil
	}
	take("acme")
	backend.down = store.ErrRepeat
	for range 59 {
		now = now.Add(time.Second)
		if !take("acme") {
			t.Error("a full account has a stream that nobody counts")
		}
	}
	if take("other") {
		t.Error("an account of which nothing is known is refused")
	}
	now = now.Add(time.Second)
	if take("acme") {
		t.Error("a full account is believed to be so for longer than a minute")
	}
	backend.down = nil
	if err := giveBack(t.Context()); err != nil {
		t.Fatal(err)
	}
	mustTake(t, s, now.Add(time.Hour))
}

// TestSlotOfALostReplyIsGivenBack: who hears nothing of its write has what frees the slot that it may have, and only then.
func TestSlotOfALostReplyIsGivenBack(t *testing.T) {
	now := func() time.Time { return storetest.Epoch }
	for _, done := range []bool{false, true} {
		lost := true
		backend := &flaky{Backend: memory.New(), fails: func() (bool, bool) { return lost && !done, lost && done }}
		s := open(storetest.Over(t, backend), now, 1)
		giveBack, refusal, err := s.Take(t.Context(), "acme", now().Add(time.Minute))
		if !errors.Is(err, errLost) || refusal != nil || giveBack == nil {
			t.Fatalf("done: %t: told %v, %v", done, refusal, err)
		}
		lost = false
		if err := giveBack(t.Context()); err != nil {
			t.Fatal(err)
		}
		mustTake(t, s, now().Add(time.Minute))
	}
}

// TestAsManyAtOnceAsSlotsHaveOneEach, however often they try for the same one.
func TestAsManyAtOnceAsSlotsHaveOneEach(t *testing.T) {
	now := func() time.Time { return storetest.Epoch }
	table := storetest.Over(t, crowd{memory.New()})
	const most = 250
	var all sync.WaitGroup
	var refused atomic.Int64
	for range most {
		s := open(table, now, most)
		all.Go(func() {
			_, refusal, err := s.Take(t.Context(), "acme", now().Add(time.Minute))
			if err != nil {
				t.Error(err)
			}
			if refusal != nil {
				refused.Add(1)
			}
		})
	}
	all.Wait()
	if n := refused.Load(); n > 0 {
		t.Errorf("%d of %d were refused", n, most)
	}
	if _, refusal, _ := open(table, now, most).Take(t.Context(), "acme", now().Add(time.Minute)); refusal == nil || !strings.Contains(refusal.Public, "has 250 streams") {
		t.Errorf("one more is told %v", refusal)
	}
}
