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

	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/memory"
)

// asked is an increment of a quota by n under a limit, or a look at it (n is 0), in
// one of its periods: another one is a reset.
type asked struct {
	period int
	n      int64
	limit  int64
}

// answered is what came of it.
type answered struct {
	admitted bool
	used     int64 // what a look has seen
	// unknown is the answer of an instance that died, or could not tell: the units may
	// be counted.
	unknown bool
}

// counter is what is counted in a period, and the largest limit that anybody has
// named: instances that have heard of a smaller plan later lease under the larger one.
type counter struct{ used, top int64 }

// quotaModel is a counter with a bound. With exact set a refusal says that there is too
// little left and a look sees what was admitted. Else instances lease ahead: what they hold is
// refused to others and looks like used, up to the limit; admitted is never too much.
func quotaModel(exact bool) porcupine.Model {
	step := func(state, input, output any) (next []any) {
		s, in, out := state.(counter), input.(asked), output.(answered)
		if in.n == 0 {
			if out.used == s.used || !exact && out.used >= s.used && out.used <= max(s.top, s.used) {
				return []any{s}
			}
			return nil
		}
		limit := in.limit
		if s.top = max(s.top, in.limit); !exact {
			limit = s.top
		}
		counted := counter{s.used + in.n, s.top}
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
				p := o.Input.(asked).period
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

// mortal is the table of one instance, which fails now and then, and for good when
// the instance dies.
type mortal struct {
	*memory.Backend
	dead   atomic.Bool
	mu     sync.Mutex
	random *rand.Rand
	often  int // one call in so many fails
}

func (m *mortal) chance(n int) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.random.IntN(n)
}

// Transact implements store.Backend.
func (m *mortal) Transact(ctx context.Context, token string, writes []store.Write) error {
	luck := m.chance(4 * m.often)
	if m.dead.Load() {
		luck = luck%2 + 2
	}
	switch luck {
	case 0:
		return fmt.Errorf("%w: throttled", store.ErrRepeat)
	case 1:
		_ = m.Backend.Transact(ctx, token, writes)
		return fmt.Errorf("%w: %w: the reply was lost", store.ErrRepeat, store.ErrLost)
	case 2:
		_ = m.Backend.Transact(ctx, token, writes)
		return fmt.Errorf("%w: %w", store.ErrLost, errSimulated)
	case 3:
		return fmt.Errorf("%w: %w", store.ErrLost, errSimulated)
	}
	return m.Backend.Transact(ctx, token, writes)
}

// Read implements store.Backend.
func (m *mortal) Read(ctx context.Context, keys []store.Key) ([]store.Item, error) {
	if m.dead.Load() {
		return nil, errSimulated
	}
	return m.Backend.Read(ctx, keys)
}

// quotaHistory is what four instances with two callers each were answered, whose limits
// change and periods turn, while some die and are taken back from.
func quotaHistory(t *testing.T, seed uint64, exact bool) []porcupine.Operation {
	table := memory.New()
	open := func(nth byte, b store.Backend) *store.Table {
		return store.New(b, store.Options{
			Random: rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8), nth, 1}), Now: time.Now,
			Pause: func(context.Context, int) error { return nil },
		})
	}
	looker := open(100, table)
	var turn atomic.Int64
	begin := time.Now()
	var mu sync.Mutex
	var history []porcupine.Operation
	note := func(client int, in asked, call time.Duration, out answered) {
		back := int64(time.Since(begin))
		if out.unknown {
			back = math.MaxInt64 // it may still happen
		}
		mu.Lock()
		defer mu.Unlock()
		history = append(history, porcupine.Operation{ClientId: client, Input: in, Call: int64(call), Output: out, Return: back})
	}
	var all sync.WaitGroup
	for nth := range byte(4) {
		random := rand.New(rand.NewPCG(seed, uint64(nth)))
		backend := &mortal{Backend: table, random: random, often: 6 + random.IntN(20)}
		dies := nth > 0 && random.IntN(3) == 0
		q := NewQuotas(Options{
			Table: open(nth, backend), Now: time.Now,
			Random: rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8), nth, 2}), Log: slog.New(slog.DiscardHandler),
		})
		if !exact {
			q.pool.singly = 0
		}
		for client := range 2 {
			random := rand.New(rand.NewPCG(seed, uint64(nth)*2+uint64(client)+10))
			all.Go(func() {
				for k := range 8 {
					if dies && k == 5 {
						backend.dead.Store(true)
					}
					if random.IntN(24) == 0 {
						turn.Add(1)
					}
					period := int(turn.Load())
					from := begin.Truncate(time.Hour).Add(time.Duration(period) * time.Hour)
					a := Allowance{Name: "a", Limit: 12 + 6*random.Int64N(2), From: from, To: from.Add(time.Hour)}
					call := time.Since(begin)
					if random.IntN(4) == 0 {
						used, err := Used(t.Context(), looker, a)
						if err != nil {
							t.Error(err)
						}
						note(int(nth)*2+client, asked{period: period}, call, answered{used: used})
						continue
					}
					n := 1 + random.Int64N(5)
					d, err := q.Take(t.Context(), a, n)
					in := asked{period, n, a.Limit}
					if backend.dead.Load() {
						note(int(nth)*2+client, in, call, answered{unknown: true})
						return
					}
					note(int(nth)*2+client, in, call, answered{admitted: d.Admitted, unknown: err != nil})
				}
			})
		}
	}
	all.Go(func() {
		for range 4 {
			// By a clock an hour ahead everybody is dead, and those who are not find out.
			if err := Reclaim(t.Context(), looker, time.Now().Add(time.Hour)); err != nil && !errors.Is(err, errMoved) {
				t.Error(err)
			}
			time.Sleep(100 * time.Microsecond)
		}
	})
	all.Wait()
	return history
}

func TestQuotasAreLinearizable(t *testing.T) {
	admitted, refused, unknown := 0, 0, 0
	for seed := range uint64(240) {
		exact := seed%2 == 0
		history := quotaHistory(t, seed, exact)
		for _, o := range history {
			switch out, in := o.Output.(answered), o.Input.(asked); {
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
			t.Fatalf("seed %d: the history of %d calls is %v", seed, len(history), got)
		}
	}
	t.Logf("%d admitted, %d refused, %d unknown", admitted, refused, unknown)
	if admitted < 1000 || refused < 1000 || unknown < 100 {
		t.Errorf("%d admitted, %d refused, %d unknown: the histories show nothing", admitted, refused, unknown)
	}
}

// TestBadHistoriesAreNoticed by the model that the others are held to.
func TestBadHistoriesAreNoticed(t *testing.T) {
	at := func(call, back int64, in asked, out answered) porcupine.Operation {
		return porcupine.Operation{Input: in, Output: out, Call: call, Return: back}
	}
	yes, no, unknown := answered{admitted: true}, answered{}, answered{unknown: true}
	take := func(n int64) asked { return asked{n: n, limit: 5} }
	look := func(used int64) answered { return answered{used: used} }
	for _, tt := range []struct {
		name         string
		history      []porcupine.Operation
		exact, loose bool
	}{
		{"up to the limit", []porcupine.Operation{at(0, 1, take(3), yes), at(2, 3, take(2), yes), at(4, 5, take(1), no), at(6, 7, asked{}, look(5))}, true, true},
		{"beyond it", []porcupine.Operation{at(0, 1, take(3), yes), at(2, 3, take(3), yes)}, false, false},
		{"beyond it, at the same time", []porcupine.Operation{at(0, 9, take(3), yes), at(1, 8, take(3), yes)}, false, false},
		{"refused too early", []porcupine.Operation{at(0, 1, take(3), yes), at(2, 3, take(2), no)}, false, true},
		{"refused for one that is under way", []porcupine.Operation{at(0, 9, take(4), yes), at(2, 3, take(2), no)}, true, true},
		{"a look that misses an increment", []porcupine.Operation{at(0, 1, take(3), yes), at(2, 3, asked{}, look(0))}, false, false},
		{"a look that sees what is held", []porcupine.Operation{at(0, 1, take(3), yes), at(2, 3, asked{}, look(4))}, false, true},
		{"a look beyond the limit", []porcupine.Operation{at(0, 1, take(3), yes), at(2, 3, asked{}, look(6))}, false, false},
		{"a crash that has counted", []porcupine.Operation{at(0, math.MaxInt64, take(4), unknown), at(2, 3, take(2), no)}, true, true},
		{"a crash that has not", []porcupine.Operation{at(0, math.MaxInt64, take(4), unknown), at(2, 3, take(5), yes)}, true, true},
		{"a crash that has and has not", []porcupine.Operation{at(0, math.MaxInt64, take(4), unknown), at(2, 3, asked{}, look(4)), at(4, 5, take(5), yes)}, false, true},
		{"the next period begins at 0", []porcupine.Operation{at(0, 1, take(5), yes), at(2, 3, asked{1, 5, 5}, yes), at(4, 5, asked{1, 1, 5}, no)}, true, true},
		{"a larger plan", []porcupine.Operation{at(0, 1, take(5), yes), at(2, 3, asked{0, 5, 10}, yes), at(4, 5, asked{0, 1, 10}, no)}, true, true},
		{"more than the larger plan", []porcupine.Operation{at(0, 1, take(5), yes), at(2, 3, asked{0, 6, 10}, yes)}, false, false},
	} {
		for exact, want := range map[bool]bool{true: tt.exact, false: tt.loose} {
			if got := porcupine.CheckOperations(quotaModel(exact), tt.history); got != want {
				t.Errorf("%s, exact %v: the history is taken for good: %v", tt.name, exact, got)
			}
		}
	}
}
