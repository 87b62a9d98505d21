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

	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/memory"
	"github.com/gatewright/gatewright/shared/store/storetest"
)

func somePeriod() period {
	from, to := Window(storetest.Epoch, time.Minute)
	return Allowance{Name: "a", From: from, To: to}.period()
}

// onBoth runs a test over the table in memory and over DynamoDB's emulator.
func onBoth(t *testing.T, test func(t *testing.T, l ledger)) {
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
		{11, errSpent, 0},
		{7, nil, 7},
		{4, errSpent, 7},
		{3, nil, 10},
		{1, errSpent, 10},
	}
	onBoth(t, func(t *testing.T, l ledger) {
		p := somePeriod()
		for _, tt := range tests {
			if err := l.lease(t.Context(), p, 10, tt.n); !errors.Is(err, tt.want) {
				t.Errorf("lease %d: %v, want %v", tt.n, err, tt.want)
			}
			if got, err := l.granted(t.Context(), p); err != nil || got != tt.granted {
				t.Errorf("after %d: %d granted, %v; want %d", tt.n, got, err, tt.granted)
			}
		}
	})
}

func TestReturnIsAppliedOnce(t *testing.T) {
	onBoth(t, func(t *testing.T, l ledger) {
		p := somePeriod()
		if err := l.lease(t.Context(), p, 10, 8); err != nil {
			t.Fatal(err)
		}
		r := refund{period: p, n: 3, id: "r1"}
		for i, want := range []error{nil, errReturned, errReturned} {
			if err := l.release(t.Context(), r); !errors.Is(err, want) {
				t.Errorf("return %d: %v, want %v", i, err, want)
			}
		}
		if got, err := l.granted(t.Context(), p); err != nil || got != 5 {
			t.Errorf("%d are granted, %v; want 5", got, err)
		}
	})
}

func TestReturnToAForgottenRecordIsRefused(t *testing.T) {
	onBoth(t, func(t *testing.T, l ledger) {
		p := somePeriod()
		if err := l.release(t.Context(), refund{period: p, n: 3, id: "r1"}); !errors.Is(err, errReturned) {
			t.Errorf("a return to a record that is gone: %v, want %v", err, errReturned)
		}
		if got, err := l.granted(t.Context(), p); err != nil || got != 0 {
			t.Errorf("%d are granted, %v; want 0", got, err)
		}
	})
}

func TestUnitsBeyondTheLimitAreCounted(t *testing.T) {
	onBoth(t, func(t *testing.T, l ledger) {
		p := somePeriod()
		if err := l.overdraw(t.Context(), p, 13); err != nil {
			t.Fatal(err)
		}
		if got, err := l.granted(t.Context(), p); err != nil || got != 13 {
			t.Errorf("%d are granted, %v; want 13", got, err)
		}
		if err := l.lease(t.Context(), p, 10, 1); !errors.Is(err, errSpent) {
			t.Errorf("a lease of an overdrawn allowance: %v", err)
		}
	})
}

// flaky is a backend that fails at random: before a commit, or after it.
type flaky struct {
	*memory.Backend
	mu     sync.Mutex
	random *rand.Rand
}

func (f *flaky) Transact(ctx context.Context, token string, writes []store.Write) error {
	f.mu.Lock()
	chance := f.random.IntN(10)
	f.mu.Unlock()
	switch chance {
	case 0:
		return fmt.Errorf("%w: throttled", store.ErrRepeat)
	case 1:
		_ = f.Backend.Transact(ctx, token, writes) // nobody hears what came of it
		return fmt.Errorf("%w: %w: the reply was lost", store.ErrRepeat, store.ErrLost)
	case 2:
		return fmt.Errorf("%w: %w: the call was lost", store.ErrRepeat, store.ErrLost)
	}
	return f.Backend.Transact(ctx, token, writes)
}

// The record is a counter with a bound, whatever concurrent callers and lost
// replies make of it.
func TestRecordIsLinearizable(t *testing.T) {
	const limit = 10
	type ask struct {
		n    int64
		back bool
		look bool
	}
	type answer struct {
		ok      bool
		granted int64
	}
	model := porcupine.Model{
		Init: func() any { return int64(0) },
		Step: func(state, input, output any) (bool, any) {
			granted, in, out := state.(int64), input.(ask), output.(answer)
			switch {
			case in.look:
				return out.granted == granted, granted
			case in.back:
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
		backend := &flaky{Backend: memory.New(), random: rand.New(rand.NewPCG(seed, 1))}
		l, p := ledger{storetest.Over(t, backend)}, somePeriod()
		var mu sync.Mutex
		var history []porcupine.Operation
		begin := time.Now()
		note := func(client int, in ask, call time.Duration, out answer) {
			mu.Lock()
			defer mu.Unlock()
			history = append(history, porcupine.Operation{
				ClientId: client, Input: in, Call: int64(call), Output: out, Return: int64(time.Since(begin)),
			})
		}
		var all sync.WaitGroup
		for client := range 4 {
			all.Go(func() {
				random := rand.New(rand.NewPCG(seed, uint64(client)+2))
				for k := range 12 {
					n, call := 1+random.Int64N(4), time.Since(begin)
					err := l.lease(t.Context(), p, limit, n)
					if err != nil && !errors.Is(err, errSpent) {
						t.Errorf("lease: %v", err)
					}
					note(client, ask{n: n}, call, answer{ok: err == nil})
					if err == nil && random.IntN(3) > 0 {
						call = time.Since(begin)
						if err := l.release(t.Context(), refund{period: p, n: n, id: fmt.Sprint(client, "-", k)}); err != nil {
							t.Errorf("return: %v", err)
						}
						note(client, ask{n: n, back: true}, call, answer{})
					}
					call = time.Since(begin)
					granted, err := l.granted(t.Context(), p)
					if err != nil {
						t.Errorf("look: %v", err)
					}
					note(client, ask{look: true}, call, answer{granted: granted})
				}
			})
		}
		all.Wait()
		if got := porcupine.CheckOperationsTimeout(model, history, 10*time.Second); got != porcupine.Ok {
			t.Fatalf("seed %d: the history of %d calls is %v", seed, len(history), got)
		}
	}
}
