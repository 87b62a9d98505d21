package allowance

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/memory"
	"github.com/gatewright/gatewright/shared/testing/simulations"
)

// rateFleet has instances that share one rate, in a synctest bubble. Each instance has its own clock.
type rateFleet struct {
	t         *testing.T
	table     *countingBackend
	rand      *rand.Rand
	instances []*rateInstance
	// admitted counts admitted requests, by the second of the admitting instance's clock. Requests during which this
	// second changed count for -1.
	admitted map[int64]int64
	refused  int64
	// faults makes the table fail, before or after a write.
	faults bool
	failed int64 // the number of requests that failed because of faults
}

type rateInstance struct {
	*Rates
	skew  time.Duration
	drift float64 // the relative speed of the instance's clock
	start time.Time
}

func (i *rateInstance) clock() time.Time {
	elapsed := time.Since(i.start)
	return i.start.Add(i.skew + elapsed + time.Duration(float64(elapsed)*i.drift))
}

const ratePerSecond = 100

// faultyBackend is a table that fails sometimes, if its fleet has faults.
type faultyBackend struct {
	*countingBackend
	fleet *rateFleet
	rand  *rand.Rand
}

// Transact implements store.Backend.
func (b *faultyBackend) Transact(ctx context.Context, token string, writes []store.Write) error {
	if !b.fleet.faults {
		return b.countingBackend.Transact(ctx, token, writes)
	}
	switch b.rand.IntN(12) {
	case 0:
		return errSimulated
	case 1: // the write is made, and its reply is lost
		_ = b.countingBackend.Transact(ctx, token, writes)
		return fmt.Errorf("%w: %w", store.ErrOutcomeUnknown, errSimulated)
	case 2: // the write is made, its reply is lost, and it is repeated
		_ = b.countingBackend.Transact(ctx, token, writes)
		return fmt.Errorf("%w: %w", store.ErrRetryable, store.ErrOutcomeUnknown)
	}
	return b.countingBackend.Transact(ctx, token, writes)
}

// newRateFleet returns a fleet without faults. If skewed is true, the clocks of its instances are up to 4 s wrong, and
// run at different speeds.
func newRateFleet(t *testing.T, seed uint64, instances int, skewed bool) *rateFleet {
	f := &rateFleet{
		t: t, table: &countingBackend{Backend: memory.New()}, rand: rand.New(rand.NewPCG(seed, 1)),
		admitted: map[int64]int64{},
	}
	for n := range instances {
		i := &rateInstance{start: time.Now()}
		if skewed {
			i.skew = time.Duration(f.rand.Int64N(int64(8*time.Second))) - 4*time.Second
			i.drift = f.rand.Float64()/50 - 0.01
		}
		i.Rates = NewRates(store.New(&faultyBackend{f.table, f, rand.New(rand.NewPCG(seed, uint64(n)))},
			store.Options{Random: rand.NewChaCha8([32]byte{byte(seed), byte(n)}), Now: i.clock}), i.clock)
		f.instances = append(f.instances, i)
	}
	return f
}

// run sends rate requests a second to each instance for a time, at random moments (a
// Poisson process). Each request has its own goroutine, as in a server.
func (f *rateFleet) run(rate float64, duration time.Duration) {
	end := time.Now().Add(duration)
	done := make(chan struct{})
	results := make(chan func(), 1024)
	go func() {
		defer close(done)
		for apply := range results {
			apply()
		}
	}()
	pending := make(chan struct{})
	for _, i := range f.instances {
		random := rand.New(rand.NewPCG(f.rand.Uint64(), 2))
		go func() {
			requests, completed := 0, make(chan struct{}, 100_000)
			for {
				time.Sleep(time.Duration(random.ExpFloat64() / rate * float64(time.Second)))
				if !time.Now().Before(end) {
					break
				}
				requests++
				go func() {
					f.request(i, results)
					completed <- struct{}{}
				}()
			}
			for range requests {
				<-completed
			}
			pending <- struct{}{}
		}()
	}
	for range f.instances {
		<-pending
	}
	close(results)
	<-done
}

// request makes one request at an instance, and sends a function to results that counts its result.
func (f *rateFleet) request(i *rateInstance, results chan<- func()) {
	before := i.clock().Unix()
	d, err := i.Take(context.Background(), "a", ratePerSecond)
	after := i.clock().Unix()
	results <- func() {
		switch {
		case err != nil && f.faults:
			f.failed++
		case err != nil:
			f.t.Errorf("Take() error = %v, want none", err)
		case !d.Admitted:
			f.refused++
		case before == after: // otherwise the request may have used the rate of either second
			f.admitted[after]++
		default:
			f.admitted[-1]++
		}
	}
}

func (f *rateFleet) total() (n int64) {
	for _, perSecond := range f.admitted {
		n += perSecond
	}
	return n
}

// maxPerSecond returns the largest number of requests that were admitted in one second.
func (f *rateFleet) maxPerSecond() (maximum int64) {
	for second, n := range f.admitted {
		if second >= 0 {
			maximum = max(maximum, n)
		}
	}
	return maximum
}

// maxAdmittedPerSecond runs a fleet of eight instances over a table, which fails sometimes if the seed is even.
// The instances' clocks are seconds apart, run at different speeds and jump. maxAdmittedPerSecond returns the
// largest number of requests that were admitted in one second.
func maxAdmittedPerSecond(t *testing.T, seed uint64) (maximum int64) {
	synctest.Test(t, func(t *testing.T) {
		f := newRateFleet(t, seed, 8, true)
		f.faults = seed%2 == 0
		for range 6 {
			f.run(2+f.rand.Float64()*40, time.Duration(f.rand.IntN(5000))*time.Millisecond)
			f.instances[f.rand.IntN(len(f.instances))].skew += time.Duration(f.rand.IntN(6000)-3000) * time.Millisecond
		}
		maximum = f.maxPerSecond()
	})
	return maximum
}

func TestRateNeverExceedsLimit(t *testing.T) {
	reached := 0
	for seed := range simulations.Runs(60) {
		maximum := maxAdmittedPerSecond(t, uint64(seed))
		if maximum > ratePerSecond {
			t.Fatalf("seed %d: %d requests are admitted in a second, want at most %d", seed, maximum, ratePerSecond)
		}
		if maximum == ratePerSecond {
			reached++
		}
	}
	if reached == 0 {
		t.Errorf("no run admits the full rate in a second, want at least one with %d", ratePerSecond)
	}
}

// TestRateIsSparing checks that instances under load make less than one write per 20 admitted requests, and how much of
// the rate they admit. The numbers in docs/decisions/0035-leases-over-several-seconds.md are measured with it.
func TestRateIsSparing(t *testing.T) {
	for _, c := range []struct {
		instances int
		rate      float64 // of requests at each instance, per second
		admitted  float64 // the minimum number of admitted requests, of a limit of 100 per second
		perWrite  float64 // the minimum number of admitted requests per write
	}{
		{8, 50, 95, 20},
		{8, 25, 92, 20},
		{8, 12.5, 84, 20},
		{8, 6, 47, 10},
		{4, 50, 93, 20},
		{4, 25, 88, 20},
		{1, 200, 99, 20},
		{1, 100, 94, 20},
		{1, 50, 49, 20},
		{1, 10, 9, 10},
	} {
		t.Run(fmt.Sprint(c.instances, " instances with ", c.rate, " requests a second each"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newRateFleet(t, 1, c.instances, false)
				f.run(c.rate, time.Minute)
				admitted, writes := float64(f.total()), float64(f.table.writes.Load())
				t.Logf("admitted %.1f a second, refused %d, reads %d, %.1f a write", admitted/60, f.refused, f.table.reads.Load(),
					admitted/writes)
				if admitted/60 < c.admitted || admitted/writes < c.perWrite {
					t.Errorf("admitted %.1f a second, %.1f per write, want at least %v, %v",
						admitted/60, admitted/writes, c.admitted, c.perWrite)
				}
			})
		})
	}
}

// TestIdleAccountHasFullRate checks that an idle account can use its whole rate on one
// instance and on eight, at the start and after earlier leases have ended.
func TestIdleAccountHasFullRate(t *testing.T) {
	for _, instances := range []int{1, 8} {
		synctest.Test(t, func(t *testing.T) {
			f := newRateFleet(t, 1, instances, false)
			for range 2 {
				f.admitted, f.refused = map[int64]int64{}, 0
				results, done := make(chan func()), make(chan struct{})
				for n := range ratePerSecond + 20 {
					go func() {
						time.Sleep(time.Duration(n) * time.Millisecond)
						f.request(f.instances[n%instances], results)
						done <- struct{}{}
					}()
				}
				go func() {
					for range ratePerSecond + 20 {
						<-done
					}
					close(results)
				}()
				for apply := range results {
					apply()
				}
				if f.total() != ratePerSecond || f.refused != 20 {
					t.Errorf("%d instances: %d requests admitted, %d refused, want %d, 20",
						instances, f.total(), f.refused, ratePerSecond)
				}
				f.run(20, 15*time.Second)
				time.Sleep(time.Until(time.Now().Truncate(blockSeconds * time.Second).Add(blockSeconds * time.Second)))
			}
		})
	}
}

// TestRateFailsIfTableTimesOut checks that Take returns an error if the table does not respond, and that concurrent
// requests wait for the timeout together, and not one after the other.
func TestRateFailsIfTableTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rates := NewRates(store.New(hangingBackend{}, store.Options{Random: rand.NewChaCha8([32]byte{}), Now: time.Now}),
			time.Now)
		start, done := time.Now(), make(chan struct{})
		for range 50 {
			go func() {
				d, err := rates.Take(t.Context(), "a", 100)
				if err == nil || d.Admitted {
					t.Errorf("Take() with a table that does not respond = %+v, %v, want an error", d, err)
				}
				done <- struct{}{}
			}()
		}
		for range 50 {
			<-done
		}
		if waited := time.Since(start); waited > rateTimeout+time.Second {
			t.Errorf("50 calls of Take() take %v, want at most %v", waited, rateTimeout+time.Second)
		}
	})
}

// hangingBackend is a table that does not respond.
type hangingBackend struct{ store.Backend }

// Transact implements store.Backend.
func (hangingBackend) Transact(ctx context.Context, _ string, _ []store.Write) error {
	<-ctx.Done()
	return fmt.Errorf("%w: %w", store.ErrOutcomeUnknown, ctx.Err())
}

func TestRateRefusalHasRetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newRateFleet(t, 1, 1, false)
		time.Sleep(300 * time.Millisecond)
		for n := range 3 {
			d, err := f.instances[0].Take(t.Context(), "a", 2)
			if err != nil || d.Admitted != (n < 2) || d.Admitted && d.Remaining != int64(1-n) {
				t.Fatalf("Take() %d = %+v, %v, want admitted %t, and %d remaining if admitted", n, d, err, n < 2, 1-n)
			}
			if !d.Admitted && (d.RetryAfter <= 0 || d.RetryAfter > 700*time.Millisecond) {
				t.Errorf("Take() beyond the rate: RetryAfter = %v, want more than 0 and at most 700ms", d.RetryAfter)
			}
		}
	})
}
