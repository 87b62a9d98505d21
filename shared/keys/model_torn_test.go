package keys_test

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync/atomic"

	"pgregory.net/rapid"

	"github.com/gatewright/gatewright/shared/keys"
	"github.com/gatewright/gatewright/shared/store"
)

// tear has something happen in the middle of the next read of several items, at
// a place that is drawn: the rest of it stays unprocessed, or one of the actions is
// made, in the other process.
func (m *machine) tear(t *rapid.T, actions map[string]func(*rapid.T)) (mend func()) {
	var gaps atomic.Int64 // to come before it
	gaps.Store(int64(rapid.IntRange(0, 4).Draw(t, "gap")))
	what := rapid.SampledFrom(append(slices.Sorted(maps.Keys(actions)), "unprocessed")).Draw(t, "inside")
	var ended any // how an action has ended that was skipped or has failed
	m.memory.Tear(rapid.Uint64().Draw(t, "order"), func(context.Context) error {
		if gaps.Add(-1) != -1 {
			return nil // not yet, or no more
		}
		m.memory.Tear(0, nil)
		if what == "unprocessed" {
			return store.ErrRepeat
		}
		mine := m.keys
		defer func() { ended, m.inside, m.keys = recover(), false, mine }()
		m.before, m.inside = m.model.clone(), true
		m.keys = m.instances[(slices.Index(m.instances, mine)+1)%len(m.instances)]
		actions[what](t)
		return nil
	})
	return func() {
		m.memory.Tear(0, nil)
		if m.before != nil { // keys are named before their commit, and listed by their names
			for _, c := range m.model.consumers {
				slices.SortFunc(c.keys, func(a, b modelKey) int { return strings.Compare(a.id, b.id) })
			}
		}
		m.before = nil
		if ended != nil {
			panic(ended)
		}
	}
}

// was reports whether something holds, or did before the action in the middle.
func (m *machine) was(holds func(*model) bool) bool {
	return holds(&m.model) || m.before != nil && holds(m.before)
}

// late reports whether a change was made although the bucket was deleted in the
// middle of it. It is in what was deleted (bucketUnchecked), as if it had been made
// before that: the texts that it has made open nothing.
func (m *machine) late(err error, made ...keys.Key) bool {
	if err != nil || m.model.exists || m.before == nil || !m.before.exists {
		return false
	}
	for _, k := range made {
		m.model.dead[k.Text] = true
	}
	return true
}
