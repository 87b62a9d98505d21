package slots_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
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

// flaky is a backend of which a transaction may fail, before it was done or after.
type flaky struct {
	store.Backend
	fails func() (before, after bool)
}

var errLost = errors.New("the reply was lost")

func (f *flaky) Transact(ctx context.Context, token string, writes []store.Write) error {
	before, after := f.fails()
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
		var uncertain []time.Time // of slots that may be taken, by who has heard an error
		for step := range rapid.IntRange(1, 60).Draw(t, "steps") {
			switch rapid.IntRange(0, 6).Draw(t, "do") {
			case 0, 1, 2:
				trouble = rapid.SampledFrom([]int{0, 0, 0, 1, 2}).Draw(t, "trouble")
				until := now.Add(rapid.SampledFrom([]time.Duration{time.Second, time.Minute, 15 * time.Minute}).Draw(t, "for"))
				process := rapid.IntRange(0, 1).Draw(t, "process")
				giveBack, err := processes[process].Take(t.Context(), "acme", until)
				trouble = 0
				switch {
				case err == nil:
					held[step] = holder{until, giveBack}
				case errors.Is(err, errLost):
					uncertain = append(uncertain, until)
				case !fault.Is(err, fault.Throttled):
					t.Fatal(err)
				}
				taken := len(uncertain)
				for _, h := range held {
					if h.until.Add(10 * time.Second).After(now) { // soon after which it is free
						taken++
					}
				}
				if fault.Is(err, fault.Throttled) && int64(taken) < most && now.Sub(refusedAt[process]) >= time.Second {
					t.Fatalf("refused with %d of %d taken: %v", taken, most, err)
				}
				if fault.Is(err, fault.Throttled) && now.Sub(refusedAt[process]) >= time.Second {
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
				_, err := s.Take(t.Context(), []string{"acme", "other"}[i%2], now().Add(time.Minute))
				if is := fault.Is(err, fault.Throttled) && strings.Contains(err.Error(), "function-streams is 8"); is != full || !is && err != nil {
					t.Errorf("where all are taken: %t, one is told %v", full, err)
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
	first, err := s.Take(t.Context(), "acme", now.Add(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	now = now.Add(2 * time.Minute)
	second, err := s.Take(t.Context(), "acme", now.Add(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := first(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Take(t.Context(), "acme", now.Add(time.Minute)); !fault.Is(err, fault.Throttled) {
		t.Errorf("the slot of another was given back: %v", err)
	}
	if err := second(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Take(t.Context(), "acme", now.Add(time.Minute)); err != nil {
		t.Errorf("the slot is still taken: %v", err)
	}
}

// TestWhoFloodsIsRefusedWithoutTheTable: of many that ask for a slot where there is none, one a second looks.
func TestWhoFloodsIsRefusedWithoutTheTable(t *testing.T) {
	now, asked := storetest.Epoch, 0
	clock := func() time.Time { return now }
	backend := &flaky{Backend: memory.New(), fails: func() (bool, bool) { asked++; return false, false }}
	s := open(storetest.Over(t, backend, storetest.Clock(clock)), clock, 1)
	if _, err := s.Take(t.Context(), "acme", now.Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	asked = 0
	for range 3 {
		for range 100 {
			if _, err := s.Take(t.Context(), "acme", now.Add(time.Hour)); !fault.Is(err, fault.Throttled) || !strings.Contains(err.Error(), "has 1 streams") {
				t.Fatal(err)
			}
		}
		now = now.Add(time.Second)
	}
	if asked != 3 {
		t.Errorf("300 tries in three seconds have written %d times", asked)
	}
}
