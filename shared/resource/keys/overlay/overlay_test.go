package overlay_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/gatewright/gatewright/shared/resource/keys/overlay"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// machine applies the same actions to keys with an overlay, and to a model that immediately writes every change into
// the keys.
type machine struct {
	changes  overlay.Changes
	keys     []*modelKey
	revision int64
}

type modelKey struct {
	stored overlay.KeyState
	// expiresOn is the expiry in the model, which readers must see.
	expiresOn *time.Time
}

func (m *machine) next() int64 { m.revision++; return m.revision }

func (m *machine) isHidden(k *modelKey) bool {
	return m.changes[k.stored.Batch].Kind == overlay.Creating
}

func (m *machine) create(batch string) {
	m.keys = append(m.keys, &modelKey{stored: overlay.KeyState{ConsumerID: "c", Revision: m.revision, Batch: batch}})
}

// Create creates either one key, or a batch of two hidden keys.
func (m *machine) Create(t *rapid.T) {
	m.next()
	if rapid.Bool().Draw(t, "single key") {
		m.create("")
		return
	}
	id := fmt.Sprint("batch-", m.revision)
	m.changes[id] = overlay.Change{Kind: overlay.Creating, ConsumerID: "c"}
	m.create(id)
	m.create(id)
}

// Roll sets an expiry on all visible keys that have none.
func (m *machine) Roll(*rapid.T) {
	expiresOn := epoch.Add(time.Duration(m.next()) * time.Hour)
	m.changes[fmt.Sprint("roll-", m.revision)] = overlay.Change{
		Kind: overlay.Rolling, ConsumerID: "c", Revision: m.revision, ExpiresOn: &expiresOn,
		ExceptBatches: m.changes.OperationIDs("c", overlay.Creating),
	}
	for _, k := range m.keys {
		if k.expiresOn == nil && !m.isHidden(k) {
			k.expiresOn = &expiresOn
		}
	}
}

// Update sets, clears or keeps the expiry of one visible key.
func (m *machine) Update(t *rapid.T) {
	if len(m.keys) == 0 {
		t.Skip("no key")
	}
	k := rapid.SampledFrom(m.keys).Draw(t, "key")
	state, exists := m.changes.Apply(k.stored)
	if !exists {
		t.Skip("hidden")
	}
	state.Revision = m.next()
	switch rapid.IntRange(0, 2).Draw(t, "expiry") {
	case 0:
		state.ExpiresOn = nil
	case 1:
		expiresOn := epoch.Add(time.Duration(m.revision) * time.Minute)
		state.ExpiresOn = &expiresOn
	}
	k.stored, k.expiresOn = state, state.ExpiresOn
}

// End removes an entry from the overlay. If it is the entry of a roll, End first writes all changes into all keys.
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

// Write writes the changes into one key, as an operation does that is still in progress.
func (m *machine) Write(t *rapid.T) {
	if len(m.keys) == 0 {
		t.Skip("no key")
	}
	m.write(rapid.SampledFrom(m.keys).Draw(t, "key"))
}

func (m *machine) write(k *modelKey) {
	if state, exists := m.changes.Apply(k.stored); exists {
		k.stored = state
	}
}

func (m *machine) Check(t *rapid.T) {
	for i, k := range m.keys {
		got, exists := m.changes.Apply(k.stored)
		if exists == m.isHidden(k) {
			t.Fatalf("Apply(key %d) exists = %t, want %t", i, exists, !exists)
		}
		same := got.ExpiresOn == k.expiresOn || got.ExpiresOn != nil && k.expiresOn != nil &&
			got.ExpiresOn.Equal(*k.expiresOn)
		if exists && !same {
			t.Fatalf("key %d expires on %v, want %v", i, got.ExpiresOn, k.expiresOn)
		}
	}
}

// TestOverlayMatchesWrittenKeys creates, rolls, updates and writes keys in any order. Readers must see the same as if
// every change had been written into the keys immediately.
func TestOverlayMatchesWrittenKeys(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &machine{changes: overlay.Changes{}}
		t.Repeat(map[string]func(*rapid.T){
			"Create": m.Create, "Roll": m.Roll, "Update": m.Update, "End": m.End, "Write": m.Write, "": m.Check,
		})
	})
}

func TestKeysOfDeletedConsumerDoNotExist(t *testing.T) {
	changes := overlay.Changes{"1": {Kind: overlay.Deleting, ConsumerID: "old", ConsumerName: "alice"}}
	for consumer, want := range map[string]bool{"old": false, "new": true} {
		if _, exists := changes.Apply(overlay.KeyState{ConsumerID: consumer}); exists != want {
			t.Errorf("Apply(key of the %s consumer) exists = %t, want %t", consumer, exists, want)
		}
		if changes.Deletes(consumer) == want {
			t.Errorf("Deletes(%s) = %t, want %t", consumer, want, !want)
		}
	}
}

func TestNewestMetadataIsUsed(t *testing.T) {
	changes := overlay.Changes{
		"1": {Kind: overlay.UpdatingMetadata, ConsumerID: "c", Revision: 3, Metadata: "third"},
		"2": {Kind: overlay.UpdatingMetadata, ConsumerID: "c", Revision: 5, Metadata: "fifth"},
		"3": {Kind: overlay.UpdatingMetadata, ConsumerID: "other", Revision: 9, Metadata: "other"},
		"4": {Kind: overlay.Rolling, ConsumerID: "c", Revision: 9},
	}
	for revision, want := range map[int64]string{1: "fifth", 4: "fifth", 5: "own", 6: "own"} {
		if got := changes.Metadata("c", "own", revision); got != want {
			t.Errorf("Metadata(revision %d) = %s, want %s", revision, got, want)
		}
	}
}

func TestHidesMatchesConsumerName(t *testing.T) {
	for kind, want := range map[overlay.Kind]bool{
		overlay.Creating: true, overlay.Deleting: true, overlay.Rolling: false, overlay.UpdatingMetadata: false,
	} {
		changes := overlay.Changes{"1": {Kind: kind, ConsumerName: "alice"}}
		if got := changes.Hides("alice"); got != want {
			t.Errorf("Hides(alice) with change %s = %t, want %t", kind, got, want)
		}
		if changes.Hides("bob") {
			t.Errorf("Hides(bob) with change %s of alice = true, want false", kind)
		}
	}
}

func TestChangesOfAConsumerAreListedInOrder(t *testing.T) {
	changes := overlay.Changes{
		"b": {Kind: overlay.UpdatingMetadata, ConsumerID: "c"}, "a": {Kind: overlay.UpdatingMetadata, ConsumerID: "c"},
		"d": {Kind: overlay.Rolling, ConsumerID: "c"}, "e": {Kind: overlay.UpdatingMetadata, ConsumerID: "other"},
	}
	if got := changes.OperationIDs("c", overlay.UpdatingMetadata); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("OperationIDs(c, %s) = %v, want [a b]", overlay.UpdatingMetadata, got)
	}
}

func TestKeyExpiresAtExpiry(t *testing.T) {
	k := overlay.KeyState{ExpiresOn: &epoch}
	for after, want := range map[time.Duration]bool{-1: false, 0: true, 1: true} {
		if got := k.ExpiredAt(epoch.Add(after)); got != want {
			t.Errorf("ExpiredAt(%v after the expiry) = %t, want %t", after, got, want)
		}
	}
	if (overlay.KeyState{}).ExpiredAt(epoch) {
		t.Error("ExpiredAt() of a key without expiry = true, want false")
	}
}

func TestKeyOfLaterBatchNeedsNewerBucket(t *testing.T) {
	for seq, want := range map[int64]bool{0: false, 3: false, 4: true} {
		if got := (overlay.KeyState{CreatedSeq: seq}).NewerThan(3); got != want {
			t.Errorf("NewerThan(3) of a key with CreatedSeq %d = %t, want %t", seq, got, want)
		}
	}
}
