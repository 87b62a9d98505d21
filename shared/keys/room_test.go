package keys_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/installation"
	"github.com/gatewright/gatewright/shared/keys"
	"github.com/gatewright/gatewright/shared/limits"
	"github.com/gatewright/gatewright/shared/limits/counts"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/memory"
)

// own gives the account a limit of its own.
func (w *world) own(t *testing.T, l limits.Limit, value int64) {
	t.Helper()
	if err := counts.Open(installation.Parts{Table: w.table, Now: w.clock.Now}).Set(t.Context(), accountID, l, value); err != nil {
		t.Fatal(err)
	}
}

func (w *world) consumerIn(process int, bucket, name string) error {
	_, err := w.instances[process].CreateConsumer(w.request(), in(bucket), keys.NewConsumer{Name: name})
	return err
}

// TestConsumersOfAnAccountAreExactOverBucketsAndShards: as many as the limit says in whatever buckets, not one more, one
// more once one is gone from any of them, and all of a bucket once that is gone.
func TestConsumersOfAnAccountAreExactOverBucketsAndShards(t *testing.T) {
	const most = 150
	w := newWorld(t)
	w.own(t, limits.Consumers, most)
	buckets := []string{"limits-one", "limits-two"}
	for _, b := range buckets {
		must[keys.Bucket](t)(w.keys.CreateBucket(w.request(), owner, keys.NewBucket{Name: b}))
	}
	made := 0
	one := func() error {
		err := w.consumerIn(made%2, buckets[made%2], fmt.Sprintf("c-%d", made))
		if err == nil {
			made++
		}
		return err
	}
	fill := func() (n int) {
		t.Helper()
		for {
			err := one()
			if fault.Is(err, fault.Forbidden) {
				return n
			}
			if n++; err != nil {
				t.Fatal(err)
			}
		}
	}
	if n := fill(); n != most {
		t.Fatalf("%d consumers were made, want %d", n, most)
	}
	gone := []string{"c-0", "c-33", "c-77"}
	for _, name := range gone {
		var n int
		_, _ = fmt.Sscanf(name, "c-%d", &n)
		must0(t, w.keys.DeleteConsumer(w.request(), keys.ConsumerAt{BucketAt: in(buckets[n%2]), Consumer: name}))
	}
	if n := fill(); n != len(gone) {
		t.Fatalf("%d more after %d were deleted", n, len(gone))
	}
	_, _, there, err := w.keys.ListConsumers(w.request(), in(buckets[1]), keys.Filter{}, store.Page{Limit: 1}, keys.Include{})
	if err != nil {
		t.Fatal(err)
	}
	must0(t, w.keys.DeleteBucket(w.request(), in(buckets[1])))
	buckets[1] = buckets[0]
	if n := fill(); n != there {
		t.Fatalf("%d more after a bucket of %d was deleted", n, there)
	}
	w.own(t, limits.Consumers, 10) // what there is stays, and nothing is made
	if n := fill(); n != 0 {
		t.Fatalf("%d more under a lowered limit", n)
	}
	must[keys.Consumer](t)(w.keys.ReadConsumer(w.request(), keys.ConsumerAt{BucketAt: in(buckets[0]), Consumer: "c-2"}, keys.Include{}))
}

// TestKeysOfAConsumerAreExact on each way that makes some: one, several, in bulk, and by a roll.
func TestKeysOfAConsumerAreExact(t *testing.T) {
	for _, first := range []int{1, 5, 60} {
		t.Run(fmt.Sprint(first), func(t *testing.T) {
			w := newWorld(t)
			w.own(t, limits.ConsumerKeys, int64(first)+1)
			w.bucket()
			w.consumer("acme")
			at := of("acme")
			must[[]keys.Key](t)(w.keys.CreateKeys(w.request(), at, make([]keys.NewKey, first)))
			if _, err := w.keys.CreateKeys(w.request(), at, make([]keys.NewKey, 2)); !fault.Is(err, fault.Forbidden) {
				t.Errorf("two more: %v", err)
			}
			if _, err := w.keys.CreateKeys(w.request(), at, make([]keys.NewKey, 60)); !fault.Is(err, fault.Forbidden) {
				t.Errorf("a bulk more: %v", err)
			}
			must0(t, w.keys.RollKey(w.request(), at, w.clock.Now()))
			if err := w.keys.RollKey(w.request(), at, w.clock.Now()); !fault.Is(err, fault.Forbidden) {
				t.Errorf("another roll: %v", err)
			}
			if _, err := w.keys.CreateKey(w.request(), at, keys.NewKey{}); !fault.Is(err, fault.Forbidden) {
				t.Errorf("one more: %v", err)
			}
		})
	}
}

// TestBucketsOfAnAccountAreExact, those of projects included: all three or none.
func TestBucketsOfAnAccountAreExact(t *testing.T) {
	w := newWorld(t)
	w.own(t, limits.KeyBuckets, 3)
	one := func(name string) error {
		_, err := w.keys.CreateBucket(w.request(), owner, keys.NewBucket{Name: name})
		return err
	}
	for _, name := range []string{"first", "second", "third"} {
		must0(t, one(name))
	}
	if err := one("fourth"); !fault.Is(err, fault.Forbidden) {
		t.Errorf("a fourth: %v", err)
	}
	if err := one("first"); !fault.Is(err, fault.Conflict) && !fault.Is(err, fault.Forbidden) {
		t.Errorf("one that is there: %v", err)
	}
	must0(t, w.keys.DeleteBucket(w.request(), in("second")))
	must0(t, one("fourth"))
	if err := one("second"); !fault.Is(err, fault.Forbidden) {
		t.Errorf("the deleted one again: %v", err)
	}
}

// TestRoomIsTakenBackOnce: what a creation takes back from a shard is used there meanwhile, and both shall not have it.
func TestRoomIsTakenBackOnce(t *testing.T) {
	tr := &trouble{in: none}
	w := worldOver(t, memory.New(), func(b store.Backend) store.Backend { tr.Backend = b; return tr })
	w.own(t, limits.Consumers, 2)
	w.bucket()
	one, two, other := crowding()[0], crowding()[1], ""
	for _, name := range crowding() { // of the other shard
		if shardOf(name) != shardOf(one) {
			other = name
		}
	}
	for _, name := range crowding()[2:] {
		if shardOf(name) == shardOf(one) {
			two = name
		}
	}
	w.consumer(one)
	w.consumer(two)
	must0(t, w.keys.DeleteConsumer(w.request(), of(one))) // its shard has room for one
	tr.in, tr.before = 0, func() { must0(t, w.consumerIn(1, bucket, one)) }
	if err := w.consumerIn(0, bucket, other); !fault.Is(err, fault.Forbidden) {
		t.Errorf("one more than two was made, %v", err)
	}
	must0(t, w.keys.DeleteConsumer(w.request(), of(two)))
	must0(t, w.consumerIn(0, bucket, other))
	if err := w.consumerIn(1, bucket, two); !fault.Is(err, fault.Forbidden) {
		t.Errorf("one more than two was made in the end, %v", err)
	}
}

// TestLoweredLimitEndsWhatShardsWereGiven: they hold room for hundreds of consumers, and none is made of it beyond the new
// limit, nor while there are more than that; from there on all of it can be had.
func TestLoweredLimitEndsWhatShardsWereGiven(t *testing.T) {
	w := newWorld(t)
	w.own(t, limits.Consumers, 1_000_000)
	w.bucket()
	names := slices.DeleteFunc(crowding(), func(name string) bool { return shardOf(name) != 0 })
	one := func() error {
		err := w.consumerIn(0, bucket, names[0])
		if err == nil {
			names = names[1:]
		}
		return err
	}
	none := func(of int) {
		t.Helper()
		if err := one(); !fault.Is(err, fault.Forbidden) {
			t.Errorf("beyond the limit of %d one more is made: %v", of, err)
		}
	}
	made := slices.Clone(names[:5])
	for range made {
		must0(t, one())
	}
	w.own(t, limits.Consumers, 3)
	for _, name := range made[:2] {
		none(3)
		must0(t, w.keys.DeleteConsumer(w.request(), of(name)))
	}
	none(3)
	must0(t, w.keys.DeleteConsumer(w.request(), of(made[2])))
	must0(t, one())
	none(3)
	w.own(t, limits.Consumers, 5)
	must0(t, one())
	must0(t, one())
	none(5)
}
