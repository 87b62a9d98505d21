package tunnels

import (
	"context"
	"sync"
	"time"

	"github.com/gatewright/gatewright/shared/bounded"
	"github.com/gatewright/gatewright/shared/flight"
)

// memory remembers what was read for Staleness, in maxRemembered answers. It is safe for
// concurrent use; now has to be set.
type memory[V any] struct {
	now     func() time.Time
	flights flight.Group[V]

	mu      sync.Mutex
	answers map[string]answer[V]
}

// answer is what was there when it was looked for.
type answer[V any] struct {
	looked time.Time
	value  V
}

// get gives the answer of a key, by read where none is fresh: one read for all who ask. After an error nothing
// is remembered.
func (m *memory[V]) get(ctx context.Context, key string, read func(ctx context.Context) (V, error)) (V, error) {
	if its, ok := m.fresh(key); ok {
		return its, nil
	}
	return m.flights.Do(ctx, key, readTimeout, func(ctx context.Context) (V, error) {
		begun := m.now()
		value, err := read(ctx)
		if err == nil {
			m.keep(key, answer[V]{begun, value})
		}
		return value, err
	})
}

func (m *memory[V]) fresh(key string) (value V, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	its, ok := m.answers[key]
	if age := m.now().Sub(its.looked); !ok || age < 0 || age >= Staleness { // below 0 the clock was set back
		return value, false
	}
	return its.value, true
}

func (m *memory[V]) keep(key string, its answer[V]) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.answers == nil {
		m.answers = map[string]answer[V]{}
	}
	bounded.Put(m.answers, key, its, maxRemembered)
}
