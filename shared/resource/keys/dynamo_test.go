package keys_test

import (
	"encoding/json"
	"math"
	"slices"
	"testing"

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/storetest"
	"github.com/gatewright/gatewright/shared/resource/keys"
	"github.com/gatewright/gatewright/shared/testing/simulations"
)

// TestLargeChangesOverDynamoDB makes each kind of change at least once in a database with the DynamoDB protocol. The
// database, instead of the memory backend, then evaluates the expressions with conditions and nested paths.
func TestLargeChangesOverDynamoDB(t *testing.T) {
	simulations.SkipUnderRace(t)
	t.Parallel()
	c := &clock{now: storetest.Epoch}
	table, _, _ := storetest.NewDynamoDB(t, storetest.Clock(c.Now), storetest.Backoff(store.Backoff))
	fx := newFixtureOn(t, table, c)
	b := fx.createBucket()
	must[keys.Bucket](t)(fx.keys.UpdateBucket(fx.requestContext(), bucketAt(b.ID),
		keys.BucketPatch{Description: store.PatchTo("d"), Tags: store.PatchTo(map[string]string{"a": "1"})}))
	must[keys.Consumer](t)(fx.keys.CreateConsumer(fx.requestContext(), bucketAt(bucket), keys.NewConsumer{
		Name: "alice", Tags: map[string]string{"a": "1"}, WithKey: true, Metadata: json.RawMessage(`{"n":0}`),
		Managers: []keys.NewManager{{Email: "a@example.com", Sub: "a"}, {Email: "b@example.com", Invite: true}},
	}))
	fx.createConsumer("bob")
	old := fx.createKeys("alice", 100)
	if got := fx.listKeys("alice"); len(got) != 101 || got[0].ID != old[99].ID {
		t.Fatalf("ListKeys() = %d keys from %+v on, want 101 from %s on", len(got), got[:min(1, len(got))], old[99].ID)
	}
	page, _, total, err := fx.keys.ListKeys(fx.Context(), consumerAt("alice"), store.Page{Limit: 10, Offset: 95},
		keys.Masked)
	if err != nil || total != 101 || len(page) != 6 || page[5].Text[:4] != "****" {
		t.Fatalf("last page of ListKeys() = %+v of %d, %v, want 6 masked keys of 101", page, total, err)
	}
	_, err = fx.keys.CreateKeys(fx.requestContext(), consumerAt("alice"),
		slices.Concat(make([]keys.NewKey, 50), []keys.NewKey{{Text: old[0].Text}}))
	wantFault(t, err, fault.Conflict)

	must[keys.Consumer](t)(fx.keys.UpdateConsumer(fx.requestContext(), consumerAt("alice"), keys.ConsumerPatch{
		Metadata: store.PatchTo(json.RawMessage(`{"n":1}`)), Tags: store.PatchTo(map[string]string{"b": "2"}),
	}))
	noError(t, fx.keys.RollKey(fx.requestContext(), consumerAt("alice"), fx.clock.Now()))
	check := func() {
		t.Helper()
		got := fx.listKeys("alice")
		fx.checkAccepted(true, got[0])
		fx.checkAccepted(false, old...)
		if id, _ := fx.verifyKey(got[0].Text); len(got) != 102 || string(id.Data) != `{"n":1}` {
			t.Fatalf("ListKeys() = %d keys, metadata of the first = %s, want 102 and n = 1", len(got), id.Data)
		}
	}
	check()
	fx.finishOperations()
	check()
	k := must[keys.Key](t)(fx.keys.UpdateKey(fx.requestContext(), consumerAt("alice"), old[0].ID,
		keys.KeyPatch{Text: "chosen-by-its-owner"}))
	noError(t, fx.keys.DeleteKey(fx.requestContext(), consumerAt("alice"), k.ID))
	for filter, want := range map[string]int{"a": 0, "b": 1} {
		f := keys.Filter{
			Tags:         map[string]string{filter: map[string]string{"a": "1", "b": "2"}[filter]},
			ManagerEmail: "B@example.com",
		}
		if _, _, total, err := fx.keys.ListConsumers(fx.Context(), bucketAt(bucket), f, all,
			keys.Include{Keys: true}); err != nil || total != want {
			t.Fatalf("ListConsumers(tag %s) = %d, %v, want %d and no error", filter, total, err, want)
		}
	}
	if got, _, total, err := fx.keys.ListConsumers(fx.Context(), bucketAt(bucket), keys.Filter{},
		store.Page{Limit: 5, Offset: 1}, keys.Include{}); err != nil || total != 2 || got[0].Name != "bob" {
		t.Fatalf("ListConsumers(offset 1) = %+v of %d, %v, want bob and a total of 2", got, total, err)
	}
	for _, offset := range []int{2, 1 << 31, 1 << 40, math.MaxInt} {
		beyondEnd := store.Page{Limit: 1000, Offset: offset}
		if got, _, total, err := fx.keys.ListConsumers(fx.Context(), bucketAt(bucket), keys.Filter{}, beyondEnd,
			keys.Include{}); err != nil || total != 2 || len(got) != 0 {
			t.Fatalf("ListConsumers(offset %d) = %+v of %d, %v, want no consumer and a total of 2", offset, got, total, err)
		}
	}
	noError(t, fx.keys.DeleteConsumer(fx.requestContext(), consumerAt("alice")))
	fx.createConsumer("alice")
	if got := fx.listKeys("alice"); len(got) != 0 {
		t.Fatalf("ListKeys(new consumer) = %d keys, want 0", len(got))
	}
	noError(t, fx.keys.DeleteBucket(fx.requestContext(), bucketAt(bucket)))
	fx.createBucket()
	fx.finishOperations()
	if _, _, total, err := fx.keys.ListConsumers(fx.Context(), bucketAt(bucket), keys.Filter{}, all,
		keys.Include{}); err != nil || total != 0 {
		t.Fatalf("ListConsumers(new bucket) = %d, %v, want 0 and no error", total, err)
	}
}
