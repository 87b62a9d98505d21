package allowance

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatewright/gatewright/shared/store"
)

// backend is a table in memory whose calls a test can count, hold up and fail.
type backend struct {
	*store.Memory
	before func(ctx context.Context) error // nil lets all calls through
	// instead is what a commit does, if it is set, once.
	instead       func(token string, writes []store.Write) error
	reads, writes atomic.Int64
}

func (b *backend) Read(ctx context.Context, keys []store.Key) ([]store.Item, error) {
	b.reads.Add(1)
	if b.before != nil {
		if err := b.before(ctx); err != nil {
			return nil, err
		}
	}
	return b.Memory.Read(ctx, keys)
}

func (b *backend) Transact(ctx context.Context, token string, writes []store.Write) error {
	b.writes.Add(1)
	if b.before != nil {
		if err := b.before(ctx); err != nil {
			return err
		}
	}
	if instead := b.instead; instead != nil {
		b.instead = nil
		return instead(token, writes)
	}
	return b.Memory.Transact(ctx, token, writes)
}

func newBackend() *backend { return &backend{Memory: store.NewMemory()} }

// open makes an instance; nth tells it from others of the same test.
func (b *backend) open(nth byte, change ...func(*Options)) *Book {
	o := Options{
		Table: store.New(b, store.Options{Random: rand.NewChaCha8([32]byte{nth, 1}), Now: time.Now}),
		Now:   time.Now, Random: rand.NewChaCha8([32]byte{nth, 2}), Log: slog.New(slog.DiscardHandler),
	}
	for _, c := range change {
		c(&o)
	}
	return New(o)
}

func minute(limit int64) Allowance {
	a := Allowance{Name: "account/deployment/policy/user", Limit: limit}
	a.From, a.To = Window(time.Now(), time.Minute)
	return a
}

func mustTake(t *testing.T, b *Book, a Allowance, n int64) Decision {
	t.Helper()
	d, err := b.Take(t.Context(), a, n)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestLimitIsAdmittedAndNoMore(t *testing.T) {
	for _, limit := range []int64{0, 1, 2, 7, 100, 1000} {
		for _, instances := range []int{1, 3} {
			t.Run(fmt.Sprint(limit, " over ", instances), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					table := newBackend()
					var books []*Book
					for i := range instances {
						books = append(books, table.open(byte(i)))
					}
					a := minute(limit)
					var admitted, refused int64
					for range 2 {
						for k := range 2*int(limit) + 10 {
							d := mustTake(t, books[k%instances], a, 1)
							synctest.Wait()
							switch {
							case d.Admitted && d.RetryAfter == 0:
								admitted++
							case !d.Admitted && d.RetryAfter == time.Until(a.To) && d.Remaining == 0:
								refused++
							default:
								t.Fatalf("an undecided decision: %+v", d)
							}
						}
						// What one holds and another could use comes back in time.
						for _, b := range books {
							_ = b.Drain(t.Context())
						}
						time.Sleep(5 * time.Second)
					}
					if admitted != limit {
						t.Errorf("%d were admitted and %d refused, the limit is %d", admitted, refused, limit)
					}
				})
			})
		}
	}
}

func TestNextPeriodBeginsWithoutAWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBackend().open(1)
		for range 3 {
			if !mustTake(t, b, minute(1), 1).Admitted || mustTake(t, b, minute(1), 1).Admitted {
				t.Fatal("a window of one unit admits not exactly one")
			}
			time.Sleep(time.Minute)
		}
	})
}

func TestColdRequestCostsOneRoundTrip(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := newBackend()
		a := minute(1)
		if !mustTake(t, table.open(1), a, 1).Admitted {
			t.Fatal("refused")
		}
		if mustTake(t, table.open(2), a, 1).Admitted {
			t.Fatal("admitted twice")
		}
		if w, r := table.writes.Load(), table.reads.Load(); w != 2 || r != 0 {
			t.Errorf("%d writes and %d reads for one admission and one refusal, want 2 and 0", w, r)
		}
	})
}

func TestRefusedTrafficAsksTheTableSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := newBackend()
		b := table.open(1)
		a := minute(5)
		for range 3000 { // 50 s of 60 requests a second
			if d := mustTake(t, b, a, 1); d.Admitted && time.Until(a.To) < 55*time.Second {
				t.Fatal("admitted beyond the limit")
			}
			time.Sleep(time.Second / 60)
		}
		if w, r := table.writes.Load(), table.reads.Load(); w > 6 || r > 20 {
			t.Errorf("%d writes and %d reads", w, r)
		}
	})
}

func TestReturnedUnitsAreAdmittedElsewhereWithinFiveSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := newBackend()
		greedy, poor := table.open(1), table.open(2)
		a := minute(100)
		for range 40 {
			mustTake(t, greedy, a, 1)
			synctest.Wait()
		}
		var admitted int64 = 40
		for mustTake(t, poor, a, 1).Admitted {
			admitted++
			synctest.Wait()
		}
		if admitted == 100 {
			t.Fatal("the first instance holds nothing, so this test shows nothing")
		}
		if err := greedy.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		for mustTake(t, poor, a, 1).Admitted {
			admitted++
			synctest.Wait()
		}
		if admitted != 100 {
			t.Errorf("%d of 100 were admitted", admitted)
		}
	})
}

func TestIdleInstanceGivesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := newBackend()
		b := table.open(1)
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go b.Run(ctx, time.Second)
		a := minute(1000)
		for range 30 {
			mustTake(t, b, a, 1)
			synctest.Wait()
		}
		held := b.find(a.period(), a.Limit).tokens.Load()
		if held == 0 {
			t.Fatal("nothing is held, so this test shows nothing")
		}
		time.Sleep(2*horizon(a.period()) + 2*time.Second)
		if got, err := b.ledger.granted(ctx, a.period()); err != nil || got != 30 {
			t.Errorf("%d units are granted after the lull, %v; want the 30 that were admitted", got, err)
		}
	})
}

func TestConcurrentCallersShareOneLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := newBackend()
		open := make(chan struct{})
		table.before = func(context.Context) error { <-open; return nil }
		b := table.open(1)
		a := minute(1000)
		var admitted atomic.Int64
		for range 200 {
			go func() {
				if d, err := b.Take(t.Context(), a, 1); err == nil && d.Admitted {
					admitted.Add(1)
				}
			}()
		}
		synctest.Wait()
		close(open)
		synctest.Wait()
		if admitted.Load() != 200 || table.writes.Load() > 2 {
			t.Errorf("%d of 200 admitted with %d writes, want all with at most 2", admitted.Load(), table.writes.Load())
		}
	})
}

func TestCallerWhoLeavesSpendsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := newBackend()
		open := make(chan struct{})
		table.before = func(context.Context) error { <-open; return nil }
		b := table.open(1)
		a := minute(1)
		ctx, leave := context.WithCancelCause(t.Context())
		why := errors.New("the client went away")
		left := make(chan error)
		go func() {
			_, err := b.Take(ctx, a, 1)
			left <- err
		}()
		synctest.Wait()
		leave(why)
		if err := <-left; !errors.Is(err, why) {
			t.Errorf("the caller heard %v", err)
		}
		close(open)
		synctest.Wait()
		if !mustTake(t, b, a, 1).Admitted {
			t.Error("the unit of the caller who left is lost")
		}
	})
}

func TestCallerWhoLeavesReturnsOnlyWhatItGot(t *testing.T) {
	for _, tt := range []struct {
		name string
		out  outcome
		want int64
	}{
		{"admitted", outcome{admitted: true}, 3},
		{"refused", outcome{}, 0},
		{"failed", outcome{err: errSimulated}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newSlot(somePeriod(), 10, 0)
			w := &waiter{n: 3, done: make(chan outcome, 1)}
			w.done <- tt.out // at the moment in which the caller left
			s.leave(w)
			if got := s.tokens.Load(); got != tt.want {
				t.Errorf("%d units are there again, want %d", got, tt.want)
			}
		})
	}
}

func TestLastUnitsGoToAsManyAsTheySufficeFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := newBackend()
		a := minute(10)
		if !mustTake(t, table.open(1), a, 7).Admitted {
			t.Fatal("refused")
		}
		open := make(chan struct{})
		table.before = func(context.Context) error { <-open; return nil }
		b := table.open(2)
		var admitted atomic.Int64
		for range 5 {
			go func() {
				if d, err := b.Take(t.Context(), a, 1); err == nil && d.Admitted {
					admitted.Add(1)
				}
			}()
		}
		synctest.Wait()
		close(open)
		synctest.Wait()
		if admitted.Load() != 3 {
			t.Errorf("%d of 5 were admitted, 3 units were left", admitted.Load())
		}
	})
}

func TestFirstGuessThatIsTooLargeStillTakesWhatIsLeft(t *testing.T) {
	b := newBackend().open(1)
	p := minute(10).period()
	if err := b.ledger.lease(t.Context(), p, 10, 8); err != nil {
		t.Fatal(err)
	}
	g, err := b.lease(t.Context(), request{period: p, limit: 10, need: 1, want: 5, blind: true})
	if err != nil || g.got < 1 || g.got+g.left != 2 {
		t.Errorf("got %+v, %v of the 2 units that are left", g, err)
	}
}

// A lease may arrive between a caller's look at the tokens and its look at the
// record's state.
func TestHeldUnitsAreSpentThoughTheRecordIsEmpty(t *testing.T) {
	b := newBackend().open(1)
	s := newSlot(somePeriod(), 10, 0)
	s.tokens.Store(2)
	s.dry, s.dryAt = true, time.Now()
	if _, got, err := b.enqueue(t.Context(), s, 1); err != nil || got != admitted {
		t.Errorf("Take decides %v, %v", got, err)
	}
	if got := b.admitAhead(t.Context(), s, 1); got != admitted {
		t.Errorf("TakeAsync decides %v", got)
	}
	if _, got, err := b.enqueue(t.Context(), s, 1); err != nil || got != refused {
		t.Errorf("Take of more decides %v, %v", got, err)
	}
}

func TestTableFailureIsTheCallersToJudge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := newBackend()
		broken := errors.New("no route to the table")
		table.before = func(context.Context) error { return broken }
		b := table.open(1)
		a := minute(10)
		for range 50 {
			if _, err := b.Take(t.Context(), a, 1); !errors.Is(err, broken) {
				t.Fatalf("heard %v", err)
			}
		}
		if n := table.writes.Load(); n != 1 {
			t.Errorf("the broken table was asked %d times within a moment, want once", n)
		}
		table.before = nil
		time.Sleep(failurePause)
		if !mustTake(t, b, a, 1).Admitted {
			t.Error("refused after the table came back")
		}
	})
}

func TestTableThatHangsIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := newBackend()
		table.before = func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
		begin := time.Now()
		_, err := table.open(1).Take(t.Context(), minute(10), 1)
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(begin) != 2*time.Second {
			t.Errorf("after %v: %v, want a deadline after 2s", time.Since(begin), err)
		}
	})
}

func TestAsyncNeverWaitsAndCountsAfterwards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := newBackend()
		open := make(chan struct{})
		table.before = func(context.Context) error { <-open; return nil }
		b := table.open(1)
		a := minute(50)
		admitted := 0
		for range 80 { // the table has not answered once
			d, err := b.TakeAsync(t.Context(), a, 1)
			if err != nil {
				t.Fatal(err)
			}
			if d.Admitted {
				admitted++
			}
		}
		if admitted != 50 {
			t.Errorf("%d were admitted while the table was silent, the limit is 50", admitted)
		}
		close(open)
		synctest.Wait()
		if got, _ := b.ledger.granted(t.Context(), a.period()); got != 50 {
			t.Errorf("%d are counted, want 50", got)
		}
	})
}

func TestAsyncExcessIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := newBackend()
		open := make(chan struct{})
		table.before = func(context.Context) error { <-open; return nil }
		a := minute(10)
		for i := range byte(3) { // none has heard of the others
			b := table.open(i)
			for range 10 {
				if d, err := b.TakeAsync(t.Context(), a, 1); err != nil || !d.Admitted {
					t.Fatal(d, err)
				}
			}
		}
		close(open)
		synctest.Wait()
		late := table.open(3)
		if got, _ := late.ledger.granted(t.Context(), a.period()); got != 30 {
			t.Errorf("%d are counted, 30 were admitted", got)
		}
		if d, _ := late.TakeAsync(t.Context(), a, 1); !d.Admitted {
			t.Error("an instance that knows nothing waits or refuses")
		}
		synctest.Wait()
		if d, _ := late.TakeAsync(t.Context(), a, 1); d.Admitted {
			t.Error("an instance that knows better admits")
		}
	})
}

func TestAsyncDebtOutlivesAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := newBackend()
		table.before = func(context.Context) error { return errors.New("no route to the table") }
		b := table.open(1)
		a := minute(10)
		for range 4 {
			if d, err := b.TakeAsync(t.Context(), a, 1); err != nil || !d.Admitted {
				t.Fatal(d, err)
			}
			synctest.Wait()
		}
		table.before = nil
		time.Sleep(time.Second)
		_ = b.Sweep(t.Context())
		synctest.Wait()
		if got, _ := b.ledger.granted(t.Context(), a.period()); got < 4 {
			t.Errorf("%d are counted, 4 were admitted", got)
		}
	})
}

func TestManyNamesNeedBoundedMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := newBackend()
		b := table.open(1, func(o *Options) { o.MaxSlots = 256 })
		busy := minute(1000)
		for range 50 {
			mustTake(t, b, busy, 1)
			synctest.Wait()
		}
		before := b.find(busy.period(), busy.Limit)
		for i := range 5000 {
			a := minute(10)
			a.Name = fmt.Sprint("10.0.", i/256, ".", i%256)
			mustTake(t, b, a, 1)
			synctest.Wait()
		}
		n := 0
		for i := range b.shards {
			n += len(b.shards[i].slots)
		}
		if n > 256 {
			t.Errorf("%d allowances are held, at most 256 should be", n)
		}
		if b.find(busy.period(), busy.Limit) != before {
			t.Error("a flood of names pushed out the one in use")
		}
	})
}

func TestEvictedUnitsAreGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := newBackend()
		b := table.open(1, func(o *Options) { o.MaxSlots = 1 })
		var names []string
		for i := range 300 {
			a := minute(1000)
			a.Name = fmt.Sprint("user-", i)
			names = append(names, a.Name)
			for range 10 {
				mustTake(t, b, a, 1)
				synctest.Wait()
			}
		}
		if err := b.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			a := minute(1000)
			a.Name = name
			if got, _ := b.ledger.granted(t.Context(), a.period()); got != 10 {
				t.Fatalf("%d units of %s are granted after the return, 10 were admitted", got, name)
			}
		}
	})
}

func TestOverPeriodsAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBackend().open(1)
		for range 10 {
			mustTake(t, b, minute(10), 1)
			time.Sleep(time.Minute)
			_ = b.Sweep(t.Context())
		}
		n := 0
		for i := range b.shards {
			n += len(b.shards[i].slots)
		}
		if n > 2 {
			t.Errorf("%d periods are held, at most the current and the last should be", n)
		}
	})
}

func TestReturnThatFailedIsMadeLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := newBackend()
		b := table.open(1)
		var names []string
		for i := range 30 { // more than one transaction holds
			a := minute(1000)
			a.Name = fmt.Sprint("user-", i)
			names = append(names, a.Name)
			for range 10 {
				mustTake(t, b, a, 1)
				synctest.Wait()
			}
		}
		broken := errors.New("no route to the table")
		// The first batch is applied in part by somebody's late repeat, and then
		// nothing goes through.
		table.instead = func(token string, writes []store.Write) error {
			table.before = func(context.Context) error { return broken }
			return errors.Join(broken, table.Memory.Transact(t.Context(), token+" late", writes[:2]))
		}
		if err := b.Drain(t.Context()); !errors.Is(err, broken) {
			t.Fatalf("a return to a broken table answers %v", err)
		}
		table.before = nil
		if err := b.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			a := minute(1000)
			a.Name = name
			if got, _ := b.ledger.granted(t.Context(), a.period()); got != 10 {
				t.Fatalf("%d units of %s are granted after the return, 10 were admitted", got, name)
			}
		}
	})
}

func TestLongNamesAreStoredAsHashes(t *testing.T) {
	a, b := minute(1), minute(1)
	a.Name, b.Name = strings.Repeat("x", 9000), strings.Repeat("x", 9000)+"y"
	if len(a.period().name) > longestName || a.period() == b.period() {
		t.Error("a long name is kept as it is, or two of them are one")
	}
}

func TestNonsenseIsRefused(t *testing.T) {
	b := newBackend().open(1)
	good := minute(10)
	for name, change := range map[string]func(*Allowance, *int64){
		"no units":              func(_ *Allowance, n *int64) { *n = 0 },
		"negative units":        func(_ *Allowance, n *int64) { *n = -5 },
		"negative limit":        func(a *Allowance, _ *int64) { a.Limit = -1 },
		"period without length": func(a *Allowance, _ *int64) { a.To = a.From },
	} {
		t.Run(name, func(t *testing.T) {
			a, n := good, int64(1)
			change(&a, &n)
			if d, err := b.Take(t.Context(), a, n); err == nil {
				t.Errorf("Take answers %+v", d)
			}
			if d, err := b.TakeAsync(t.Context(), a, n); err == nil {
				t.Errorf("TakeAsync answers %+v", d)
			}
		})
	}
}

// Real goroutines, for the race detector: spends, sweeps, evictions and
// callers who leave, all at once.
func TestManyGoroutinesKeepTheLimit(t *testing.T) {
	const limit = 2000
	table := newBackend()
	var books []*Book
	for i := range byte(3) {
		books = append(books, table.open(i, func(o *Options) { o.MaxSlots = 64 }))
	}
	a := minute(limit)
	a.From, a.To = Window(time.Now(), 24*time.Hour)
	var admitted atomic.Int64
	var all sync.WaitGroup
	for g := range 12 {
		all.Go(func() {
			random := rand.New(rand.NewPCG(uint64(g), 0))
			for k := range 600 {
				ctx, cancel := context.WithCancel(t.Context())
				if random.IntN(20) == 0 {
					cancel()
				}
				b := books[g%len(books)]
				if d, err := b.Take(ctx, a, 1); err == nil && d.Admitted {
					admitted.Add(1)
				}
				cancel()
				if k%50 == 0 {
					other := a
					other.Name = fmt.Sprint(g, "-", k)
					_, _ = b.TakeAsync(t.Context(), other, 1)
					_ = b.Sweep(t.Context())
				}
			}
		})
	}
	all.Wait()
	for _, b := range books {
		_ = b.Drain(t.Context())
	}
	granted, err := books[0].ledger.granted(t.Context(), a.period())
	if err != nil || admitted.Load() > limit || granted > limit || granted < admitted.Load() {
		t.Errorf("%d admitted, %d granted of %d, %v", admitted.Load(), granted, limit, err)
	}
}

func BenchmarkTakeFromMemory(b *testing.B) {
	book := newBackend().open(1)
	a := minute(1 << 40)
	a.From, a.To = Window(time.Now(), 24*time.Hour)
	if _, err := book.Take(b.Context(), a, 1); err != nil {
		b.Fatal(err)
	}
	s := book.find(a.period(), a.Limit)
	s.tokens.Store(1 << 39)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if d, err := book.Take(b.Context(), a, 1); err != nil || !d.Admitted {
				b.Fatal(d, err)
			}
		}
	})
}

func BenchmarkRefuseFromMemory(b *testing.B) {
	book := newBackend().open(1)
	a := minute(1)
	a.From, a.To = Window(time.Now(), 30*24*time.Hour)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := book.Take(b.Context(), a, 1); err != nil {
			b.Fatal(err)
		}
	}
}
