package boundaries_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/boundaries"
	"github.com/gatewright/gatewright/shared/metering"
	"github.com/gatewright/gatewright/shared/operation"
	"github.com/gatewright/gatewright/shared/store"
)

// looks is a service that has nothing to close, and counts for what it is asked.
type looks struct {
	mu    sync.Mutex
	asked map[store.Key]int
	all   int
}

func (l *looks) Close(_ context.Context, key store.Key, _ time.Time) ([]store.Write, bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked[key]++
	if l.all++; l.all > 2000 {
		return nil, false, errors.New("it goes round in circles")
	}
	return nil, false, nil
}

// TestAllOfAShardAreLookedAtOnce, of however many, and although each of them stays in the index.
func TestAllOfAShardAreLookedAtOnce(t *testing.T) {
	for _, count := range []int{1, 199, 200, 201, 401, 600} {
		w := newWorld(t)
		q := metering.DueQuery(3, w.now)
		var writes []store.Write
		for i := range count {
			writes = append(writes, store.Put(store.Space("looked-at").Key(fmt.Sprint(i)), map[string]string{
				"duePk": q.PK, "dueSk": fmt.Sprintf("2025-11-%02dT00:00:00.000Z#sbsc_%d", 1+i%28, i),
			}))
		}
		for len(writes) > 0 {
			n := min(len(writes), 50)
			w.must(w.parts.Table.Commit(t.Context(), writes[:n]...))
			writes = writes[n:]
		}
		l := &looks{asked: map[store.Key]int{}}
		s := boundaries.New(w.parts.Table, l, w.parts.Log)
		engine, err := operation.New(w.parts.Table, s.Definitions(), operation.Options{Now: w.parts.Now, Random: w.parts.Random, Log: w.parts.Log})
		w.must(err)
		if begun, err := s.Begin(t.Context(), w.now); begun != 1 || err != nil {
			t.Fatalf("%d are begun, %v", begun, err)
		}
		w.must(engine.Sweep(t.Context()))
		if len(l.asked) != count || l.all != count || len(w.operations()) > 0 {
			t.Errorf("of %d it looks at %d, %d times in all, and %d operations are left", count, len(l.asked), l.all, len(w.operations()))
		}
	}
}
