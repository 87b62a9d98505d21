package overlay_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/gatewright/gatewright/shared/keys/overlay"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// machine does the same to keys under an overlay, and to a model that has every
// change in the keys at once.
type machine struct {
	changes  overlay.Changes
	keys     []*modelKey
	revision int64
}

type modelKey struct {
	stored overlay.KeyState
	// expiresOn is what a reader has to see of it.
	expiresOn *time.Time
}

func (m *machine) next() int64 { m.revision++; return m.revision }

func (m *machine) hidden(k *modelKey) bool { return m.changes[k.stored.Batch].Kind == overlay.Creating }

func (m *machine) create(batch string) {
	m.keys = append(m.keys, &modelKey{stored: overlay.KeyState{ConsumerID: "c", Revision: m.revision, Batch: batch}})
}

// Create makes a key, or begins a batch of two.
func (m *machine) Create(t *rapid.T) {
	m.next()
	if rapid.Bool().Draw(t, "alone") {
		m.create("")
		return
	}
	id := fmt.Sprint("batch-", m.revision)
	m.changes[id] = overlay.Change{Kind: overlay.Creating, ConsumerID: "c"}
	m.create(id)
	m.create(id)
}

// Roll gives an expiry to keys without one that are there to see.
func (m *machine) Roll(*rapid.T) {
	at := epoch.Add(time.Duration(m.next()) * time.Hour)
	m.changes[fmt.Sprint("roll-", m.revision)] = overlay.Change{
		Kind: overlay.Rolling, ConsumerID: "c", Revision: m.revision, ExpiresOn: &at,
		Except: m.changes.Of("c", overlay.Creating),
	}
	for _, k := range m.keys {
		if k.expiresOn == nil && !m.hidden(k) {
			k.expiresOn = &at
		}
	}
}

// Update gives one key an expiry of its own, or none.
func (m *machine) Update(t *rapid.T) {
	if len(m.keys) == 0 {
		t.Skip("no key")
	}
	k := rapid.SampledFrom(m.keys).Draw(t, "key")
	state, there := m.changes.Apply(k.stored)
	if !there {
		t.Skip("hidden")
	}
	state.Revision = m.next()
	switch rapid.IntRange(0, 2).Draw(t, "expiry") {
	case 0:
		state.ExpiresOn = nil
	case 1:
		at := epoch.Add(time.Duration(m.revision) * time.Minute)
		state.ExpiresOn = &at
	}
	k.stored, k.expiresOn = state, state.ExpiresOn
}

// End removes an entry, of a roll once it has been written out.
func (m *machine) End(t *rapid.T) {
	if len(m.changes) == 0 {
		t.Skip("no change")
	}
	id := rapid.SampledFrom(slices.Sorted(maps.Keys(m.changes))).Draw(t, "change")
	if m.changes[id].Kind == overlay.Rolling {
		for _, k := range m.keys {
			m.write(k)
		}
	}
	delete(m.changes, id)
}

// Write writes the changes out into one key, as an operation that is not done.
func (m *machine) Write(t *rapid.T) {
	if len(m.keys) == 0 {
		t.Skip("no key")
	}
	m.write(rapid.SampledFrom(m.keys).Draw(t, "key"))
}

func (m *machine) write(k *modelKey) {
	if state, there := m.changes.Apply(k.stored); there {
		k.stored = state
	}
}

func (m *machine) Check(t *rapid.T) {
	for i, k := range m.keys {
		got, there := m.changes.Apply(k.stored)
		if there == m.hidden(k) {
			t.Fatalf("key %d is there %v", i, there)
		}
		same := got.ExpiresOn == k.expiresOn || got.ExpiresOn != nil && k.expiresOn != nil && got.ExpiresOn.Equal(*k.expiresOn)
		if there && !same {
			t.Fatalf("key %d expires on %v, want %v", i, got.ExpiresOn, k.expiresOn)
		}
	}
}

// TestKeysUnderAnOverlayAreAsIfWritten: whatever is rolled, changed, created and
// written out, and in which order, nobody can tell the overlay from the change
// itself.
func TestKeysUnderAnOverlayAreAsIfWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &machine{changes: overlay.Changes{}}
		t.Repeat(map[string]func(*rapid.T){
			"Create": m.Create, "Roll": m.Roll, "Update": m.Update, "End": m.End, "Write": m.Write, "": m.Check,
		})
	})
}

func TestDeletedConsumersKeysAreGone(t *testing.T) {
	changes := overlay.Changes{"1": {Kind: overlay.Deleting, ConsumerID: "old", ConsumerName: "alice"}}
	for consumer, want := range map[string]bool{"old": false, "new": true} {
		if _, there := changes.Apply(overlay.KeyState{ConsumerID: consumer}); there != want {
			t.Errorf("a key of the %s consumer is there %v", consumer, there)
		}
		if changes.Deletes(consumer) == want {
			t.Errorf("the %s consumer is deleted %v", consumer, !want)
		}
	}
}

func TestNewestMetadataIsSeen(t *testing.T) {
	changes := overlay.Changes{
		"1": {Kind: overlay.Stamping, ConsumerID: "c", Revision: 3, Metadata: "third"},
		"2": {Kind: overlay.Stamping, ConsumerID: "c", Revision: 5, Metadata: "fifth"},
		"3": {Kind: overlay.Stamping, ConsumerID: "other", Revision: 9, Metadata: "other"},
		"4": {Kind: overlay.Rolling, ConsumerID: "c", Revision: 9},
	}
	for stamped, want := range map[int64]string{1: "fifth", 4: "fifth", 5: "own", 6: "own"} {
		if got := changes.Metadata("c", "own", stamped); got != want {
			t.Errorf("stamped at %d: %s, want %s", stamped, got, want)
		}
	}
}

func TestHiddenKeysAreToldByTheirConsumersName(t *testing.T) {
	for kind, want := range map[overlay.Kind]bool{
		overlay.Creating: true, overlay.Deleting: true, overlay.Rolling: false, overlay.Stamping: false,
	} {
		changes := overlay.Changes{"1": {Kind: kind, ConsumerName: "alice"}}
		if got := changes.Hides("alice"); got != want {
			t.Errorf("%s hides keys %v", kind, got)
		}
		if changes.Hides("bob") {
			t.Errorf("%s of alice hides bob's keys", kind)
		}
	}
}

func TestChangesOfAConsumerAreListedInOrder(t *testing.T) {
	changes := overlay.Changes{
		"b": {Kind: overlay.Stamping, ConsumerID: "c"}, "a": {Kind: overlay.Stamping, ConsumerID: "c"},
		"d": {Kind: overlay.Rolling, ConsumerID: "c"}, "e": {Kind: overlay.Stamping, ConsumerID: "other"},
	}
	if got := changes.Of("c", overlay.Stamping); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("got %v", got)
	}
}

func TestKeyExpiresAtItsInstant(t *testing.T) {
	k := overlay.KeyState{ExpiresOn: &epoch}
	for after, want := range map[time.Duration]bool{-1: false, 0: true, 1: true} {
		if got := k.ExpiredAt(epoch.Add(after)); got != want {
			t.Errorf("%v after: %v", after, got)
		}
	}
	if (overlay.KeyState{}).ExpiredAt(epoch) {
		t.Error("a key without an expiry expires")
	}
}

func TestKeyOfALaterBatchAsksForANewerBucket(t *testing.T) {
	for since, want := range map[int64]bool{0: false, 3: false, 4: true} {
		if got := (overlay.KeyState{Since: since}).NewerThan(3); got != want {
			t.Errorf("since %d: %v", since, got)
		}
	}
}
