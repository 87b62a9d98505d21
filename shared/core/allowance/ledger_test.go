package allowance

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/memory"
	"github.com/gatewright/gatewright/shared/core/store/storetest"
)

// testPeriod returns the period of a minute that contains storetest.Epoch.
func testPeriod() period {
	from, to := Window(storetest.Epoch, time.Minute)
	return Allowance{Name: "a", From: from, To: to}.period()
}

// forEachBackend runs a test over the table in memory and over DynamoDB's emulator.
func forEachBackend(t *testing.T, test func(t *testing.T, l ledger)) {
	t.Run("memory", func(t *testing.T) { test(t, ledger{storetest.New(t)}) })
	t.Run("DynamoDB", func(t *testing.T) {
		table, _, _ := storetest.NewDynamoDB(t)
		test(t, ledger{table})
	})
}

func TestLeaseTakesAllOrNothing(t *testing.T) {
	tests := []struct {
		n       int64
		want    error
		granted int64
	}{
		{11, errExceedsLimit, 0},
		{7, nil, 7},
		{4, errExceedsLimit, 7},
		{3, nil, 10},
		{1, errExceedsLimit, 10},
	}
	forEachBackend(t, func(t *testing.T, l ledger) {
		p := testPeriod()
		for _, tt := range tests {
			if err := l.lease(t.Context(), p, 10, tt.n); !errors.Is(err, tt.want) {
				t.Errorf("lease(%d) = %v, want %v", tt.n, err, tt.want)
			}
			if got, err := l.granted(t.Context(), p); err != nil || got != tt.granted {
				t.Errorf("granted() after lease(%d) = %d, %v, want %d", tt.n, got, err, tt.granted)
			}
		}
	})
}

func TestReturnIsAppliedOnce(t *testing.T) {
	forEachBackend(t, func(t *testing.T, l ledger) {
		p := testPeriod()
		if err := l.lease(t.Context(), p, 10, 8); err != nil {
			t.Fatal(err)
		}
		r := refund{period: p, n: 3, id: "r1"}
		for i, want := range []error{nil, errAlreadyReturned, errAlreadyReturned} {
			if err := l.release(t.Context(), r); !errors.Is(err, want) {
				t.Errorf("release() number %d of the same refund = %v, want %v", i+1, err, want)
			}
		}
		if got, err := l.granted(t.Context(), p); err != nil || got != 5 {
			t.Errorf("granted() = %d, %v, want 5", got, err)
		}
	})
}

// TestReturnToDeletedRecordIsRefused checks that release does not create a record that is missing, as after its
// deletion.
func TestReturnToDeletedRecordIsRefused(t *testing.T) {
	forEachBackend(t, func(t *testing.T, l ledger) {
		p := testPeriod()
		if err := l.release(t.Context(), refund{period: p, n: 3, id: "r1"}); !errors.Is(err, errAlreadyReturned) {
			t.Errorf("release() to a missing record = %v, want %v", err, errAlreadyReturned)
		}
		if got, err := l.granted(t.Context(), p); err != nil || got != 0 {
			t.Errorf("granted() = %d, %v, want 0", got, err)
		}
	})
}

func TestUnitsBeyondTheLimitAreCounted(t *testing.T) {
	forEachBackend(t, func(t *testing.T, l ledger) {
		p := testPeriod()
		if err := l.overdraw(t.Context(), p, 13); err != nil {
			t.Fatal(err)
		}
		if got, err := l.granted(t.Context(), p); err != nil || got != 13 {
			t.Errorf("granted() = %d, %v, want 13", got, err)
		}
		if err := l.lease(t.Context(), p, 10, 1); !errors.Is(err, errExceedsLimit) {
			t.Errorf("lease() of an overdrawn allowance = %v, want %v", err, errExceedsLimit)
		}
	})
}

// flakyBackend is a backend that fails at random, before or after a commit.
type flakyBackend struct {
	*memory.Backend
	mu       sync.Mutex
	random   *rand.Rand
	failures map[string]int // by token
}

// maxFailures is the maximum number of failures of one transaction. It is smaller than the number of times that the
// table repeats a transaction, so each transaction succeeds in the end.
const maxFailures = 5

func (f *flakyBackend) Transact(ctx context.Context, token string, writes []store.Write) error {
	f.mu.Lock()
	chance := f.random.IntN(10)
	if chance < 3 && f.failures[token] < maxFailures {
		f.failures[token]++
	} else {
		chance = 9 // succeed
	}
	f.mu.Unlock()
	switch chance {
	case 0:
		return fmt.Errorf("%w: throttled", store.ErrRetryable)
	case 1:
		_ = f.Backend.Transact(ctx, token, writes) // the reply is lost
		return fmt.Errorf("%w: %w: the reply was lost", store.ErrRetryable, store.ErrOutcomeUnknown)
	case 2:
		return fmt.Errorf("%w: %w: the call was lost", store.ErrRetryable, store.ErrOutcomeUnknown)
	}
	return f.Backend.Transact(ctx, token, writes)
}

// TestRecordIsLinearizable checks that a record behaves like a counter
// with a maximum, despite concurrent callers and lost replies.
func TestRecordIsLinearizable(t *testing.T) {
	const limit = 10
	type operation struct {
		n      int64
		refund bool
		read   bool
	}
	type result struct {
		ok      bool
		granted int64
	}
	model := porcupine.Model{
		Init: func() any { return int64(0) },
		Step: func(state, input, output any) (bool, any) {
			granted, in, out := state.(int64), input.(operation), output.(result)
			switch {
			case in.read:
				return out.granted == granted, granted
			case in.refund:
				return true, granted - in.n
			case granted+in.n <= limit:
				return out.ok, granted + in.n
			default:
				return !out.ok, granted
			}
		},
		Equal: func(a, b any) bool { return a == b },
	}
	for seed := range uint64(40) {
		backend := &flakyBackend{Backend: memory.New(), random: rand.New(rand.NewPCG(seed, 1)), failures: map[string]int{}}
		l, p := ledger{storetest.NewWithBackend(t, backend)}, testPeriod()
		var mu sync.Mutex
		var history []porcupine.Operation
		start := time.Now()
		record := func(client int, in operation, call time.Duration, out result) {
			mu.Lock()
			defer mu.Unlock()
			history = append(history, porcupine.Operation{
				ClientId: client, Input: in, Call: int64(call), Output: out, Return: int64(time.Since(start)),
			})
		}
		var wg sync.WaitGroup
		for client := range 4 {
			wg.Go(func() {
				random := rand.New(rand.NewPCG(seed, uint64(client)+2))
				for k := range 12 {
					n, call := 1+random.Int64N(4), time.Since(start)
					err := l.lease(t.Context(), p, limit, n)
					if err != nil && !errors.Is(err, errExceedsLimit) {
						t.Errorf("lease(%d) = %v, want no error or %v", n, err, errExceedsLimit)
					}
					record(client, operation{n: n}, call, result{ok: err == nil})
					if err == nil && random.IntN(3) > 0 {
						call = time.Since(start)
						if err := l.release(t.Context(), refund{period: p, n: n, id: fmt.Sprint(client, "-", k)}); err != nil {
							t.Errorf("release() = %v, want nil", err)
						}
						record(client, operation{n: n, refund: true}, call, result{})
					}
					call = time.Since(start)
					granted, err := l.granted(t.Context(), p)
					if err != nil {
						t.Errorf("granted() = %v, want success", err)
					}
					record(client, operation{read: true}, call, result{granted: granted})
				}
			})
		}
		wg.Wait()
		if got := porcupine.CheckOperationsTimeout(model, history, 10*time.Second); got != porcupine.Ok {
			t.Fatalf("seed %d: check of a history of %d calls = %v, want %v", seed, len(history), got, porcupine.Ok)
		}
	}
}
