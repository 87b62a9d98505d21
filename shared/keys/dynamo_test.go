package keys_test

import (
	"encoding/json"
	"math"
	"slices"
	"testing"

	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/keys"
	"github.com/gatewright/gatewright/shared/operation/simulations"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/storetest"
)

// TestLargeChangesOverDynamoDB does each kind of change once over the real
// protocol: what the expressions of the other tests' conditions, nested paths
// and offsets become is judged by a database here.
func TestLargeChangesOverDynamoDB(t *testing.T) {
	simulations.Sequential(t)
	t.Parallel()
	c := &clock{now: storetest.Epoch}
	table, _, _ := storetest.NewDynamoDB(t, storetest.Clock(c.Now), storetest.Pause(store.Backoff))
	w := worldOn(t, table, c)
	b := w.bucket()
	must[keys.Bucket](t)(w.keys.UpdateBucket(w.request(), in(b.ID), keys.BucketPatch{Description: store.PatchTo("d"), Tags: store.PatchTo(map[string]string{"a": "1"})}))
	must[keys.Consumer](t)(w.keys.CreateConsumer(w.request(), in(bucket), keys.NewConsumer{
		Name: "alice", Tags: map[string]string{"a": "1"}, WithKey: true, Metadata: json.RawMessage(`{"n":0}`),
		Managers: []keys.NewManager{{Email: "a@example.com", Sub: "a"}, {Email: "b@example.com", Invite: true}},
	}))
	w.consumer("bob")
	old := w.bulk("alice", 100)
	if got := w.list("alice"); len(got) != 101 || got[0].ID != old[99].ID {
		t.Fatalf("%d keys", len(got))
	}
	page, _, total, err := w.keys.ListKeys(w.Context(), of("alice"), store.Page{Limit: 10, Offset: 95}, keys.Masked)
	if err != nil || total != 101 || len(page) != 6 || page[5].Text[:4] != "****" {
		t.Fatalf("page %+v of %d, %v", page, total, err)
	}
	_, err = w.keys.CreateKeys(w.request(), of("alice"), slices.Concat(make([]keys.NewKey, 50), []keys.NewKey{{Text: old[0].Text}}))
	wantFault(t, err, fault.Conflict)

	must[keys.Consumer](t)(w.keys.UpdateConsumer(w.request(), of("alice"), keys.ConsumerPatch{
		Metadata: store.PatchTo(json.RawMessage(`{"n":1}`)), Tags: store.PatchTo(map[string]string{"b": "2"}),
	}))
	must0(t, w.keys.RollKey(w.request(), of("alice"), w.clock.Now()))
	check := func() {
		t.Helper()
		got := w.list("alice")
		w.wantOpen(true, got[0])
		w.wantOpen(false, old...)
		if id, _ := w.opens(got[0].Text); len(got) != 102 || string(id.Data) != `{"n":1}` {
			t.Fatalf("%d keys, the gateway sees %s", len(got), id.Data)
		}
	}
	check()
	w.settle()
	check()
	k := must[keys.Key](t)(w.keys.UpdateKey(w.request(), of("alice"), old[0].ID, keys.KeyPatch{Text: "chosen-by-its-owner"}))
	must0(t, w.keys.DeleteKey(w.request(), of("alice"), k.ID))
	for filter, want := range map[string]int{"a": 0, "b": 1} {
		f := keys.Filter{Tags: map[string]string{filter: map[string]string{"a": "1", "b": "2"}[filter]}, ManagerEmail: "B@example.com"}
		if _, _, total, err := w.keys.ListConsumers(w.Context(), in(bucket), f, all, keys.Include{Keys: true}); err != nil || total != want {
			t.Fatalf("tag %s finds %d, %v", filter, total, err)
		}
	}
	if got, _, total, err := w.keys.ListConsumers(w.Context(), in(bucket), keys.Filter{}, store.Page{Limit: 5, Offset: 1}, keys.Include{}); err != nil || total != 2 || got[0].Name != "bob" {
		t.Fatalf("%+v of %d, %v", got, total, err)
	}
	for _, offset := range []int{2, 1 << 31, 1 << 40, math.MaxInt} {
		beyond := store.Page{Limit: 1000, Offset: offset}
		if got, _, total, err := w.keys.ListConsumers(w.Context(), in(bucket), keys.Filter{}, beyond, keys.Include{}); err != nil || total != 2 || len(got) != 0 {
			t.Fatalf("from %d on: %+v of %d, %v", offset, got, total, err)
		}
	}
	must0(t, w.keys.DeleteConsumer(w.request(), of("alice")))
	w.consumer("alice")
	if got := w.list("alice"); len(got) != 0 {
		t.Fatalf("the new consumer has %d keys", len(got))
	}
	must0(t, w.keys.DeleteBucket(w.request(), in(bucket)))
	w.bucket()
	w.settle()
	if _, _, total, err := w.keys.ListConsumers(w.Context(), in(bucket), keys.Filter{}, all, keys.Include{}); err != nil || total != 0 {
		t.Fatalf("the new bucket has %d consumers, %v", total, err)
	}
}
