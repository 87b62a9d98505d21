package allowance

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/memory"
)

// operation takes n units of a quota under a limit in one of the quota's periods, or reads the used units if n is 0.
type operation struct {
	period int
	n      int64
	limit  int64
}

// operationResult is the result of an operation.
type operationResult struct {
	admitted bool
	used     int64 // the value that a read has returned
	// unknown means that the instance died or returned an error, so the units may or may not have been counted.
	unknown bool
}

// counter has the used units of a period, and the largest limit of any instance: an
// instance that does not know a smaller plan yet still leases under the larger limit.
type counter struct{ used, maxLimit int64 }

// quotaModel returns the model of a counter with a maximum. If exact is true, a refusal means that too few units are
// left, and a read returns the admitted units. Otherwise instances lease ahead: units that an instance holds count
// as used, and other instances cannot have them. In both cases the instances never admit more units than the limit.
func quotaModel(exact bool) porcupine.Model {
	step := func(state, input, output any) (next []any) {
		s, in, out := state.(counter), input.(operation), output.(operationResult)
		if in.n == 0 {
			if out.used == s.used || !exact && out.used >= s.used && out.used <= max(s.maxLimit, s.used) {
				return []any{s}
			}
			return nil
		}
		limit := in.limit
		if s.maxLimit = max(s.maxLimit, in.limit); !exact {
			limit = s.maxLimit
		}
		counted := counter{s.used + in.n, s.maxLimit}
		switch fits := counted.used <= limit; {
		case out.unknown && fits:
			return []any{s, counted}
		case out.unknown:
			return []any{s}
		case out.admitted && fits:
			return []any{counted}
		case !out.admitted && (!fits || !exact):
			return []any{s}
		}
		return nil
	}
	m := porcupine.NondeterministicModel{
		Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
			parts := map[int][]porcupine.Operation{}
			for _, o := range history {
				p := o.Input.(operation).period
				parts[p] = append(parts[p], o)
			}
			var out [][]porcupine.Operation
			for _, part := range parts {
				out = append(out, part)
			}
			return out
		},
		Init:  func() []any { return []any{counter{}} },
		Step:  step,
		Equal: func(a, b any) bool { return a == b },
	}
	return m.ToModel()
}

// crashableBackend is the table of one instance. Its commits fail sometimes, and all its calls fail after the instance
// has died.
type crashableBackend struct {
	*memory.Backend
	crashed         atomic.Bool
	mu              sync.Mutex
	random          *rand.Rand
	failureInterval int // one in this many commits fails
}

// draw returns a random number below n.
func (b *crashableBackend) draw(n int) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.random.IntN(n)
}

// Transact implements store.Backend.
func (b *crashableBackend) Transact(ctx context.Context, token string, writes []store.Write) error {
	roll := b.draw(4 * b.failureInterval)
	if b.crashed.Load() {
		roll = roll%2 + 2
	}
	switch roll {
	case 0:
		return fmt.Errorf("%w: throttled", store.ErrRetryable)
	case 1:
		_ = b.Backend.Transact(ctx, token, writes)
		return fmt.Errorf("%w: %w: the reply was lost", store.ErrRetryable, store.ErrOutcomeUnknown)
	case 2:
		_ = b.Backend.Transact(ctx, token, writes)
		return fmt.Errorf("%w: %w", store.ErrOutcomeUnknown, errSimulated)
	case 3:
		return fmt.Errorf("%w: %w", store.ErrOutcomeUnknown, errSimulated)
	}
	return b.Backend.Transact(ctx, token, writes)
}

// Read implements store.Backend.
func (b *crashableBackend) Read(ctx context.Context, keys []store.Key) ([]store.Item, error) {
	if b.crashed.Load() {
		return nil, errSimulated
	}
	return b.Backend.Read(ctx, keys)
}

// openTable returns a table without backoff whose random values depend on the seed and on the number of the instance.
func openTable(seed uint64, nth byte, b store.Backend) *store.Table {
	return store.New(b, store.Options{
		Random: rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8), nth, 1}), Now: time.Now,
		Backoff: func(context.Context, int) error { return nil },
	})
}

// quotaHistory runs four instances, each with two callers, and returns the results of their operations.
// Meanwhile limits and periods change, and some instances die and their units are reclaimed. If
// exact is false, the instances also lease the last units ahead (see quotaModel).
func quotaHistory(t *testing.T, seed uint64, exact bool) []porcupine.Operation {
	table := memory.New()
	reader := openTable(seed, 100, table)
	var periodIndex atomic.Int64
	start := time.Now()
	var mu sync.Mutex
	var history []porcupine.Operation
	record := func(client int, in operation, call time.Duration, out operationResult) {
		returned := int64(time.Since(start))
		if out.unknown {
			returned = math.MaxInt64 // the operation may still take effect
		}
		mu.Lock()
		defer mu.Unlock()
		history = append(history, porcupine.Operation{
			ClientId: client, Input: in, Call: int64(call), Output: out, Return: returned,
		})
	}
	var wg sync.WaitGroup
	for nth := range byte(4) {
		random := rand.New(rand.NewPCG(seed, uint64(nth)))
		backend := &crashableBackend{Backend: table, random: random, failureInterval: 6 + random.IntN(20)}
		crashes := nth > 0 && random.IntN(3) == 0
		q := NewQuotas(Options{
			Table: openTable(seed, nth, backend), Now: time.Now,
			Random: rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8), nth, 2}), Log: slog.New(slog.DiscardHandler),
		})
		if !exact {
			q.pool.onDemandUnits = 0
		}
		for client := range 2 {
			random := rand.New(rand.NewPCG(seed, uint64(nth)*2+uint64(client)+10))
			wg.Go(func() {
				for k := range 8 {
					if crashes && k == 5 {
						backend.crashed.Store(true)
					}
					if random.IntN(24) == 0 {
						periodIndex.Add(1)
					}
					period := int(periodIndex.Load())
					from := start.Truncate(time.Hour).Add(time.Duration(period) * time.Hour)
					a := Allowance{Name: "a", Limit: 12 + 6*random.Int64N(2), From: from, To: from.Add(time.Hour)}
					call := time.Since(start)
					if random.IntN(4) == 0 {
						used, err := Used(t.Context(), reader, a)
						if err != nil {
							t.Errorf("Used() error = %v, want none", err)
						}
						record(int(nth)*2+client, operation{period: period}, call, operationResult{used: used})
						continue
					}
					n := 1 + random.Int64N(5)
					d, err := q.Take(t.Context(), a, n)
					in := operation{period, n, a.Limit}
					if backend.crashed.Load() {
						record(int(nth)*2+client, in, call, operationResult{unknown: true})
						return
					}
					record(int(nth)*2+client, in, call, operationResult{admitted: d.Admitted, unknown: err != nil})
				}
			})
		}
	}
	wg.Go(func() {
		for range 4 {
			// With a clock that is an hour ahead, Reclaim presumes that all instances are
			// dead. Instances that are alive detect that their units were reclaimed.
			if err := Reclaim(t.Context(), reader, time.Now().Add(time.Hour)); err != nil && !errors.Is(err, errJournalChanged) {
				t.Errorf("Reclaim() = %v, want nil or %v", err, errJournalChanged)
			}
			time.Sleep(100 * time.Microsecond)
		}
	})
	wg.Wait()
	return history
}

// TestQuotasAreLinearizable checks that each history of quotaHistory is possible in quotaModel.
func TestQuotasAreLinearizable(t *testing.T) {
	admitted, refused, unknown := 0, 0, 0
	for seed := range uint64(240) {
		exact := seed%2 == 0
		history := quotaHistory(t, seed, exact)
		for _, o := range history {
			switch out, in := o.Output.(operationResult), o.Input.(operation); {
			case out.unknown:
				unknown++
			case out.admitted:
				admitted++
			case in.n > 0:
				refused++
			}
		}
		if got := porcupine.CheckOperationsTimeout(quotaModel(exact), history, 20*time.Second); got != porcupine.Ok {
			for _, o := range history {
				t.Logf("%+v", o)
			}
			t.Fatalf("seed %d: check of a history of %d calls = %v, want %v", seed, len(history), got, porcupine.Ok)
		}
	}
	t.Logf("%d admitted, %d refused, %d unknown", admitted, refused, unknown)
	if admitted < 1000 || refused < 1000 || unknown < 100 {
		t.Errorf("histories with %d admitted, %d refused and %d unknown requests, want at least 1000, 1000 and 100",
			admitted, refused, unknown)
	}
}

// TestModelRefusesWrongHistories checks that the model refuses impossible histories, and accepts possible ones.
func TestModelRefusesWrongHistories(t *testing.T) {
	op := func(call, returned int64, in operation, out operationResult) porcupine.Operation {
		return porcupine.Operation{Input: in, Output: out, Call: call, Return: returned}
	}
	admitted, refused, unknown := operationResult{admitted: true}, operationResult{}, operationResult{unknown: true}
	take := func(n int64) operation { return operation{n: n, limit: 5} }
	read := func(used int64) operationResult { return operationResult{used: used} }
	for _, tt := range []struct {
		name         string
		history      []porcupine.Operation
		exact, loose bool // whether the history is possible in quotaModel(true) and in quotaModel(false)
	}{
		{"up to the limit", []porcupine.Operation{
			op(0, 1, take(3), admitted), op(2, 3, take(2), admitted),
			op(4, 5, take(1), refused), op(6, 7, operation{}, read(5)),
		}, true, true},
		{
			"admission beyond the limit",
			[]porcupine.Operation{op(0, 1, take(3), admitted), op(2, 3, take(3), admitted)},
			false, false,
		},
		{
			"concurrent admissions beyond the limit",
			[]porcupine.Operation{op(0, 9, take(3), admitted), op(1, 8, take(3), admitted)},
			false, false,
		},
		{
			"refusal below the limit",
			[]porcupine.Operation{op(0, 1, take(3), admitted), op(2, 3, take(2), refused)},
			false, true,
		},
		{
			"refusal during a concurrent admission",
			[]porcupine.Operation{op(0, 9, take(4), admitted), op(2, 3, take(2), refused)},
			true, true,
		},
		{
			"read that misses an increment",
			[]porcupine.Operation{op(0, 1, take(3), admitted), op(2, 3, operation{}, read(0))},
			false, false,
		},
		{
			"read of more than was admitted",
			[]porcupine.Operation{op(0, 1, take(3), admitted), op(2, 3, operation{}, read(4))},
			false, true,
		},
		{
			"read of more than the limit",
			[]porcupine.Operation{op(0, 1, take(3), admitted), op(2, 3, operation{}, read(6))},
			false, false,
		},
		{"crash after the increment", []porcupine.Operation{
			op(0, math.MaxInt64, take(4), unknown), op(2, 3, take(2), refused),
		}, true, true},
		{
			"crash before the increment",
			[]porcupine.Operation{op(0, math.MaxInt64, take(4), unknown), op(2, 3, take(5), admitted)},
			true, true,
		},
		{"crash before and after the increment", []porcupine.Operation{
			op(0, math.MaxInt64, take(4), unknown),
			op(2, 3, operation{}, read(4)), op(4, 5, take(5), admitted),
		}, false, true},
		{"the next period begins at 0", []porcupine.Operation{
			op(0, 1, take(5), admitted), op(2, 3, operation{1, 5, 5}, admitted), op(4, 5, operation{1, 1, 5}, refused),
		}, true, true},
		{"a larger plan", []porcupine.Operation{
			op(0, 1, take(5), admitted), op(2, 3, operation{0, 5, 10}, admitted), op(4, 5, operation{0, 1, 10}, refused),
		}, true, true},
		{
			"more than the larger plan",
			[]porcupine.Operation{op(0, 1, take(5), admitted), op(2, 3, operation{0, 6, 10}, admitted)},
			false, false,
		},
	} {
		for exact, want := range map[bool]bool{true: tt.exact, false: tt.loose} {
			if got := porcupine.CheckOperations(quotaModel(exact), tt.history); got != want {
				t.Errorf("CheckOperations(%s, exact %t) = %t, want %t", tt.name, exact, got, want)
			}
		}
	}
}
