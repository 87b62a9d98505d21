package keys_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/resource/keys"
)

// sizes are numbers of keys below, at and above the maximum for one transaction.
var sizes = []int{1, 39, 40, 41, 130}

func TestRollSetsExpiryAndCreatesKey(t *testing.T) {
	for _, n := range sizes {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			fx := newFixture(t)
			fx.createBucket()
			fx.createConsumer("alice")
			expiring := fx.createKey("alice", keys.NewKey{ExpiresOn: new(fx.clock.Now().Add(time.Hour))})
			old := fx.createKeys("alice", n)
			rolled := fx.clock.Now().Add(time.Minute)
			noError(t, fx.keys.RollKey(fx.requestContext(), consumerAt("alice"), rolled))
			check := func(when string) {
				t.Helper()
				got := fx.listKeys("alice")
				if len(got) != n+2 {
					t.Fatalf("%s: ListKeys() = %d keys, want %d", when, len(got), n+2)
				}
				if got[0].ExpiresOn != nil {
					t.Fatalf("%s: newest key expires on %s, want no expiry", when, got[0].ExpiresOn)
				}
				if oldest := got[n+1]; oldest.ExpiresOn == nil || !oldest.ExpiresOn.Equal(*expiring.ExpiresOn) {
					t.Fatalf("%s: oldest key expires on %v, want %s", when, oldest.ExpiresOn, expiring.ExpiresOn)
				}
				for _, k := range got[1 : n+1] {
					if k.ExpiresOn == nil || !k.ExpiresOn.Equal(rolled) {
						t.Fatalf("%s: key %s expires on %v, want %s", when, k.ID, k.ExpiresOn, rolled)
					}
				}
				fx.checkAccepted(true, got[0])
			}
			check("immediately after the roll")
			fx.checkAccepted(true, append(old, expiring)...)
			fx.clock.add(time.Minute)
			fx.checkAccepted(false, old...)
			fx.checkAccepted(true, expiring)
			fx.finishOperations()
			check("after the operation")
			fx.checkAccepted(false, old...)
		})
	}
}

// TestLaterKeysAndClearedExpiriesIgnoreRoll checks that a roll does not affect a key that is created after the roll, or
// whose expiry is cleared after the roll. A key whose description is changed keeps the expiry of the roll.
func TestLaterKeysAndClearedExpiriesIgnoreRoll(t *testing.T) {
	fx := newFixture(t)
	fx.createBucket()
	fx.createConsumer("alice")
	old := fx.createKeys("alice", 60)
	rolled := fx.clock.Now().Add(time.Minute)
	noError(t, fx.keys.RollKey(fx.requestContext(), consumerAt("alice"), rolled))
	// Clear the expiry that the roll has set. The new revision excludes the key from the roll.
	must[keys.Key](t)(fx.keys.UpdateKey(fx.requestContext(), consumerAt("alice"), old[1].ID,
		keys.KeyPatch{ExpiresOn: store.PatchClear[time.Time]()}))
	described := must[keys.Key](t)(fx.keys.UpdateKey(fx.requestContext(), consumerAt("alice"), old[0].ID,
		keys.KeyPatch{Description: store.PatchTo("kept")}))
	if described.ExpiresOn == nil || !described.ExpiresOn.Equal(rolled) {
		t.Fatalf("UpdateKey() during a roll = expiry %v, want %s", described.ExpiresOn, rolled)
	}
	noError(t, fx.keys.DeleteKey(fx.requestContext(), consumerAt("alice"), old[2].ID))
	createdAfter := fx.createKey("alice", keys.NewKey{})
	noError(t, fx.keys.RollKey(fx.requestContext(), consumerAt("alice"), rolled.Add(24*time.Hour)))
	fx.clock.add(time.Hour)
	check := func() {
		t.Helper()
		fx.checkAccepted(false, old[0])
		fx.checkAccepted(false, old[2:]...)
		fx.checkAccepted(true, old[1], createdAfter)
	}
	check()
	fx.finishOperations()
	check()
	fx.clock.add(24 * time.Hour)
	fx.checkAccepted(false, old[1], createdAfter)
}

func TestMetadataUpdateIsAtomicForAllKeys(t *testing.T) {
	for _, n := range sizes {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			fx := newFixture(t)
			fx.createBucket()
			fx.createConsumer("alice")
			created := fx.createKeys("alice", n)
			check := func(want string) {
				t.Helper()
				for _, k := range created {
					if id, ok := fx.verifyKey(k.Text); !ok || string(id.Data) != want {
						t.Fatalf("metadata of a verified key = %s (accepted: %t), want %s", id.Data, ok, want)
					}
				}
			}
			for i := range 3 {
				metadata := fmt.Sprintf(`{"edition":%d}`, i)
				must[keys.Consumer](t)(fx.keys.UpdateConsumer(fx.requestContext(), consumerAt("alice"),
					keys.ConsumerPatch{Metadata: store.PatchTo(json.RawMessage(metadata))}))
				check(metadata)
			}
			created = append(created, fx.createKey("alice", keys.NewKey{}))
			check(`{"edition":2}`)
			fx.finishOperations()
			check(`{"edition":2}`)
			must[keys.Consumer](t)(fx.keys.UpdateConsumer(fx.requestContext(), consumerAt("alice"),
				keys.ConsumerPatch{Metadata: store.PatchClear[json.RawMessage]()}))
			check("")
			fx.finishOperations()
			check("")
		})
	}
}

func TestDeletedConsumerIsNotFoundAndItsNameIsFree(t *testing.T) {
	for _, n := range sizes {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			fx := newFixture(t)
			fx.createBucket()
			must[keys.Consumer](t)(fx.keys.CreateConsumer(fx.requestContext(), bucketAt(bucket),
				keys.NewConsumer{Name: "alice", Tags: map[string]string{"a": "1"}}))
			chosen := make([]keys.NewKey, n)
			for i := range chosen {
				chosen[i].Text = fmt.Sprintf("custom-key-number-%04d", i)
			}
			old := must[[]keys.Key](t)(fx.keys.CreateKeys(fx.requestContext(), consumerAt("alice"), chosen))
			custom := fx.createKey("alice", keys.NewKey{Text: "chosen-by-its-owner"})
			noError(t, fx.keys.DeleteConsumer(fx.requestContext(), consumerAt("alice")))
			_, err := fx.keys.ReadConsumer(fx.Context(), consumerAt("alice"), keys.Include{})
			wantFault(t, err, fault.NotFound)
			if _, _, total, err := fx.keys.ListConsumers(fx.Context(), bucketAt(bucket),
				keys.Filter{Tags: map[string]string{"a": "1"}}, all, keys.Include{}); err != nil || total != 0 {
				t.Fatalf("ListConsumers(tag of the deleted consumer) = %d, %v, want 0 and no error", total, err)
			}
			if _, _, total, err := fx.keys.ListConsumers(fx.Context(), bucketAt(bucket), keys.Filter{}, all,
				keys.Include{}); err != nil || total != 0 {
				t.Fatalf("ListConsumers() = %d, %v, want 0 and no error", total, err)
			}
			fx.checkAccepted(false, append(old, custom)...)
			fx.createConsumer("alice")
			// The texts can be used again before the operation has deleted the old keys.
			recreated := append(must[[]keys.Key](t)(fx.keys.CreateKeys(fx.requestContext(), consumerAt("alice"), chosen)),
				fx.createKey("alice", keys.NewKey{Text: "chosen-by-its-owner"}))
			check := func() {
				t.Helper()
				if got := fx.listKeys("alice"); len(got) != len(recreated) || got[0].ID != recreated[n].ID {
					t.Fatalf("ListKeys(new consumer) = %d keys from %+v on, want %d from %s on",
						len(got), got[:min(1, len(got))], len(recreated), recreated[n].ID)
				}
				if page, _, _, err := fx.keys.ListKeys(fx.Context(), consumerAt("alice"), store.Page{Limit: 2, Offset: n},
					keys.None); err != nil || len(page) != 1 || page[0].ID != recreated[0].ID {
					t.Fatalf("last page of ListKeys() = %+v, %v, want only %s", page, err, recreated[0].ID)
				}
				fx.checkAccepted(true, recreated...)
			}
			check()
			fx.finishOperations()
			check()
			noError(t, fx.keys.DeleteBucket(fx.requestContext(), bucketAt(bucket)))
			fx.finishOperations()
			if leftover := fx.leftovers(); len(leftover) > 0 {
				t.Fatalf("%d items remain, such as %s, want 0", len(leftover), leftover[0])
			}
		})
	}
}

func TestTooManyConcurrentLargeChangesAreThrottled(t *testing.T) {
	fx := newFixture(t)
	fx.createBucket()
	fx.createConsumer("alice")
	fx.createKeys("alice", 41)
	roll := func() error { return fx.keys.RollKey(fx.requestContext(), consumerAt("alice"), fx.clock.Now()) }
	update := func(metadata string) {
		must[keys.Consumer](t)(fx.keys.UpdateConsumer(fx.requestContext(), consumerAt("alice"),
			keys.ConsumerPatch{Metadata: store.PatchTo(json.RawMessage(metadata))}))
	}
	update(`{"n":1}`)
	for range 63 { // with the entry of the update, the overlay is full after that
		noError(t, roll())
	}
	wantFault(t, roll(), fault.Throttled)
	update(`{"n":2}`) // replaces the entry of the first update
	wantFault(t, roll(), fault.Throttled)
	fx.finishOperations()
	noError(t, roll())
}

// TestOlderMetadataNeverReplacesNewer pauses the operation of an update after it has read the keys, until a later
// update is complete.
func TestOlderMetadataNeverReplacesNewer(t *testing.T) {
	fx, b := newPausedFixture(t)
	fx.createBucket()
	fx.createConsumer("alice")
	created := fx.createKeys("alice", 60)
	update := func(metadata string) {
		must[keys.Consumer](t)(fx.keys.UpdateConsumer(fx.requestContext(), consumerAt("alice"),
			keys.ConsumerPatch{Metadata: store.PatchTo(json.RawMessage(metadata))}))
	}
	update(`{"n":1}`)
	b.afterQuery = func() {
		update(`{"n":2}`)
		fx.finishOperations()
	}
	fx.finishOperations()
	if b.afterQuery != nil {
		t.Fatal("the second update does not happen after the query of the keys, want it once")
	}
	for _, k := range created {
		if id, _ := fx.verifyKey(k.Text); string(id.Data) != `{"n":2}` {
			t.Fatalf("metadata of a verified key = %s, want n = 2", id.Data)
		}
	}
}

// TestOverlayIsBounded fills the overlay except for one entry. Then it adds the last entry between the read and the
// commit of a roll, which must be refused.
func TestOverlayIsBounded(t *testing.T) {
	fx, b := newPausedFixture(t)
	fx.createBucket()
	for _, name := range []string{"alice", "bob"} {
		fx.createConsumer(name)
		fx.createKeys(name, 41)
	}
	roll := func(name string) error { return fx.keys.RollKey(fx.requestContext(), consumerAt(name), fx.clock.Now()) }
	for range 63 {
		noError(t, roll("alice"))
	}
	b.beforeCommit = func() { noError(t, roll("bob")) }
	wantFault(t, roll("alice"), fault.Throttled)
}
