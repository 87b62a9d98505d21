package keys_test

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync/atomic"

	"pgregory.net/rapid"

	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/resource/keys"
)

// tear interrupts one of the next reads of several items at a random position. Either the store leaves the remaining
// items unprocessed, or the other process runs one of the actions. After restore, reads are not interrupted. If the
// action has panicked, restore panics too.
func (m *machine) tear(t *rapid.T, actions map[string]func(*rapid.T)) (restore func()) {
	var gaps atomic.Int64 // the number of positions before the interruption
	gaps.Store(int64(rapid.IntRange(0, 4).Draw(t, "positions before the interruption")))
	action := rapid.SampledFrom(append(slices.Sorted(maps.Keys(actions)), "unprocessed")).Draw(t, "interrupting action")
	var panicValue any // an action panics if it is skipped or has failed
	m.memory.Tear(rapid.Uint64().Draw(t, "order"), func(context.Context) error {
		if gaps.Add(-1) != -1 {
			return nil // not at this position
		}
		m.memory.Tear(0, nil)
		if action == "unprocessed" {
			return store.ErrRetryable
		}
		original := m.keys
		defer func() { panicValue, m.nested, m.keys = recover(), false, original }()
		m.before, m.nested = m.model.clone(), true
		m.keys = m.instances[(slices.Index(m.instances, original)+1)%len(m.instances)]
		actions[action](t)
		return nil
	})
	return func() {
		m.memory.Tear(0, nil)
		if m.before != nil { // keys are listed by id, and get their ids before the commit
			for _, c := range m.model.consumers {
				slices.SortFunc(c.keys, func(a, b modelKey) int { return strings.Compare(a.id, b.id) })
			}
		}
		m.before = nil
		if panicValue != nil {
			panic(panicValue)
		}
	}
}

// holdsNowOrBefore reports whether a condition is true for the model now, or was true before the nested action.
func (m *machine) holdsNowOrBefore(condition func(*model) bool) bool {
	return condition(&m.model) || m.before != nil && condition(m.before)
}

// inDeletedBucket reports whether a change succeeded although a nested action deleted the bucket. The change then
// belongs to the deleted bucket, as if it had been made before the deletion. So inDeletedBucket adds the texts of
// created keys to the invalid texts.
func (m *machine) inDeletedBucket(err error, created ...keys.Key) bool {
	if err != nil || m.model.exists || m.before == nil || !m.before.exists {
		return false
	}
	for _, k := range created {
		m.model.invalidTexts[k.Text] = true
	}
	return true
}
