package keys_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/keys"
	"github.com/gatewright/gatewright/shared/store"
)

// sizes are numbers of keys on both sides of what one transaction takes.
var sizes = []int{1, 39, 40, 41, 130}

func TestRollGivesKeysWithoutExpiryOneAndMakesAKey(t *testing.T) {
	for _, n := range sizes {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			w := newWorld(t)
			w.bucket()
			w.consumer("alice")
			own := w.key("alice", keys.NewKey{ExpiresOn: new(w.clock.Now().Add(time.Hour))})
			old := w.bulk("alice", n)
			must0(t, w.keys.RollKey(w.request(), of("alice"), w.clock.Now().Add(time.Minute)))
			check := func(when string) {
				t.Helper()
				got := w.list("alice")
				if len(got) != n+2 || got[0].ExpiresOn != nil || !got[n+1].ExpiresOn.Equal(*own.ExpiresOn) {
					t.Fatalf("%s: %d keys, newest %+v, oldest %+v", when, len(got), got[0], got[len(got)-1])
				}
				for _, k := range got[1 : n+1] {
					if k.ExpiresOn == nil || !k.ExpiresOn.Equal(*got[1].ExpiresOn) {
						t.Fatalf("%s: key %s expires on %v", when, k.ID, k.ExpiresOn)
					}
				}
				w.wantOpen(true, got[0])
			}
			check("at once")
			w.wantOpen(true, append(old, own)...)
			w.clock.add(time.Minute)
			w.wantOpen(false, old...)
			w.wantOpen(true, own)
			w.settle()
			check("when settled")
			w.wantOpen(false, old...)
		})
	}
}

func TestKeyChangedAfterALargeRollIsItsOwnMasterAgain(t *testing.T) {
	w := newWorld(t)
	w.bucket()
	w.consumer("alice")
	old := w.bulk("alice", 60)
	rolled := w.clock.Now().Add(time.Minute)
	must0(t, w.keys.RollKey(w.request(), of("alice"), rolled))
	// This one first: what comes later is out of the roll's reach by other changes.
	must[keys.Key](t)(w.keys.UpdateKey(w.request(), of("alice"), old[1].ID, keys.KeyPatch{ExpiresOn: store.PatchClear[time.Time]()}))
	described := must[keys.Key](t)(w.keys.UpdateKey(w.request(), of("alice"), old[0].ID, keys.KeyPatch{Description: store.PatchTo("kept")}))
	if described.ExpiresOn == nil || !described.ExpiresOn.Equal(rolled) {
		t.Fatalf("the roll's expiry is lost: %+v", described)
	}
	must0(t, w.keys.DeleteKey(w.request(), of("alice"), old[2].ID))
	later := w.key("alice", keys.NewKey{})
	must0(t, w.keys.RollKey(w.request(), of("alice"), rolled.Add(24*time.Hour)))
	w.clock.add(time.Hour)
	check := func() {
		t.Helper()
		w.wantOpen(false, old[0])
		w.wantOpen(false, old[2:]...)
		w.wantOpen(true, old[1], later)
	}
	check()
	w.settle()
	check()
	w.clock.add(24 * time.Hour)
	w.wantOpen(false, old[1], later)
}

func TestMetadataReachesAllKeysAtOnce(t *testing.T) {
	for _, n := range sizes {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			w := newWorld(t)
			w.bucket()
			w.consumer("alice")
			made := w.bulk("alice", n)
			check := func(want string) {
				t.Helper()
				for _, k := range made {
					if id, ok := w.opens(k.Text); !ok || string(id.Data) != want {
						t.Fatalf("the gateway sees %s, want %s", id.Data, want)
					}
				}
			}
			for i := range 3 {
				metadata := fmt.Sprintf(`{"edition":%d}`, i)
				must[keys.Consumer](t)(w.keys.UpdateConsumer(w.request(), of("alice"), keys.ConsumerPatch{Metadata: store.PatchTo(json.RawMessage(metadata))}))
				check(metadata)
			}
			made = append(made, w.key("alice", keys.NewKey{}))
			check(`{"edition":2}`)
			w.settle()
			check(`{"edition":2}`)
			must[keys.Consumer](t)(w.keys.UpdateConsumer(w.request(), of("alice"), keys.ConsumerPatch{Metadata: store.PatchClear[json.RawMessage]()}))
			check("")
			w.settle()
			check("")
		})
	}
}

func TestDeletedConsumerIsGoneAtOnceAndItsNameFreeAtOnce(t *testing.T) {
	for _, n := range sizes {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			w := newWorld(t)
			w.bucket()
			must[keys.Consumer](t)(w.keys.CreateConsumer(w.request(), in(bucket), keys.NewConsumer{Name: "alice", Tags: map[string]string{"a": "1"}}))
			chosen := make([]keys.NewKey, n)
			for i := range chosen {
				chosen[i].Text = fmt.Sprintf("custom-key-number-%04d", i)
			}
			old := must[[]keys.Key](t)(w.keys.CreateKeys(w.request(), of("alice"), chosen))
			custom := w.key("alice", keys.NewKey{Text: "chosen-by-its-owner"})
			must0(t, w.keys.DeleteConsumer(w.request(), of("alice")))
			_, err := w.keys.ReadConsumer(w.Context(), of("alice"), keys.Include{})
			wantFault(t, err, fault.NotFound)
			if _, _, total, err := w.keys.ListConsumers(w.Context(), in(bucket), keys.Filter{Tags: map[string]string{"a": "1"}}, all, keys.Include{}); err != nil || total != 0 {
				t.Fatalf("%d by tag, %v", total, err)
			}
			if _, _, total, err := w.keys.ListConsumers(w.Context(), in(bucket), keys.Filter{}, all, keys.Include{}); err != nil || total != 0 {
				t.Fatalf("%d in all, %v", total, err)
			}
			w.wantOpen(false, append(old, custom)...)
			w.consumer("alice")
			// Every text is free, although not all of them have been swept.
			fresh := append(must[[]keys.Key](t)(w.keys.CreateKeys(w.request(), of("alice"), chosen)), w.key("alice", keys.NewKey{Text: "chosen-by-its-owner"}))
			check := func() {
				t.Helper()
				if got := w.list("alice"); len(got) != len(fresh) || got[0].ID != fresh[n].ID {
					t.Fatalf("the new consumer has %d keys", len(got))
				}
				if page, _, _, err := w.keys.ListKeys(w.Context(), of("alice"), store.Page{Limit: 2, Offset: n}, keys.None); err != nil || len(page) != 1 || page[0].ID != fresh[0].ID {
					t.Fatalf("the last page is %+v, %v", page, err)
				}
				w.wantOpen(true, fresh...)
			}
			check()
			w.settle()
			check()
			must0(t, w.keys.DeleteBucket(w.request(), in(bucket)))
			w.settle()
			if left := w.leftovers(); len(left) > 0 {
				t.Fatalf("%d items are left, such as %s", len(left), left[0])
			}
		})
	}
}

func TestTooManyLargeChangesAtOnceAreThrottled(t *testing.T) {
	w := newWorld(t)
	w.bucket()
	w.consumer("alice")
	w.bulk("alice", 41)
	roll := func() error { return w.keys.RollKey(w.request(), of("alice"), w.clock.Now()) }
	update := func(metadata string) {
		must[keys.Consumer](t)(w.keys.UpdateConsumer(w.request(), of("alice"), keys.ConsumerPatch{Metadata: store.PatchTo(json.RawMessage(metadata))}))
	}
	update(`{"n":1}`)
	for range 63 {
		must0(t, roll())
	}
	wantFault(t, roll(), fault.Throttled)
	update(`{"n":2}`) // in place of the other one
	wantFault(t, roll(), fault.Throttled)
	w.settle()
	must0(t, roll())
}

// TestOlderMetadataNeverReplacesNewer has the operation of one update begin to
// write while a later update is made and carried out.
func TestOlderMetadataNeverReplacesNewer(t *testing.T) {
	w, b := lateWorld(t)
	w.bucket()
	w.consumer("alice")
	made := w.bulk("alice", 60)
	update := func(metadata string) {
		must[keys.Consumer](t)(w.keys.UpdateConsumer(w.request(), of("alice"), keys.ConsumerPatch{Metadata: store.PatchTo(json.RawMessage(metadata))}))
	}
	update(`{"n":1}`)
	b.afterQuery = func() {
		update(`{"n":2}`)
		w.settle()
	}
	w.settle()
	if b.afterQuery != nil {
		t.Fatal("nothing happened in between")
	}
	for _, k := range made {
		if id, _ := w.opens(k.Text); string(id.Data) != `{"n":2}` {
			t.Fatalf("the gateway sees %s", id.Data)
		}
	}
}

func TestOverlayNeverHoldsMoreThanItsBound(t *testing.T) {
	w, b := lateWorld(t)
	w.bucket()
	for _, name := range []string{"alice", "bob"} {
		w.consumer(name)
		w.bulk(name, 41)
	}
	roll := func(name string) error { return w.keys.RollKey(w.request(), of(name), w.clock.Now()) }
	for range 63 {
		must0(t, roll("alice"))
	}
	b.beforeCommit = func() { must0(t, roll("bob")) }
	wantFault(t, roll("alice"), fault.Throttled)
}
