package keys_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/core/limits"
	"github.com/gatewright/gatewright/shared/core/limits/counts"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/memory"
	"github.com/gatewright/gatewright/shared/resource/keys"
)

// setLimit sets the account's own value of a limit.
func (fx *fixture) setLimit(t *testing.T, l limits.Limit, value int64) {
	t.Helper()
	if err := counts.Open(installation.Parts{Table: fx.table, Now: fx.clock.Now}).Set(t.Context(), accountID, l,
		value); err != nil {
		t.Fatal(err)
	}
}

// createConsumerIn creates a consumer with the instance of one of the two processes, 0 or 1.
func (fx *fixture) createConsumerIn(process int, bucket, name string) error {
	_, err := fx.instances[process].CreateConsumer(fx.requestContext(), bucketAt(bucket), keys.NewConsumer{Name: name})
	return err
}

// TestConsumerLimitIsExactAcrossBuckets creates consumers in several buckets until the limit is reached. After the
// deletion of consumers or of a bucket, it must be possible to create exactly as many as were deleted. With a lowered
// limit, none can be created.
func TestConsumerLimitIsExactAcrossBuckets(t *testing.T) {
	const limit = 150
	fx := newFixture(t)
	fx.setLimit(t, limits.Consumers, limit)
	buckets := []string{"limits-one", "limits-two"}
	for _, b := range buckets {
		must[keys.Bucket](t)(fx.keys.CreateBucket(fx.requestContext(), owner, keys.NewBucket{Name: b}))
	}
	created := 0
	createOne := func() error {
		err := fx.createConsumerIn(created%2, buckets[created%2], fmt.Sprintf("c-%d", created))
		if err == nil {
			created++
		}
		return err
	}
	// fill creates consumers until the limit refuses one, and returns their number.
	fill := func() (n int) {
		t.Helper()
		for {
			err := createOne()
			if fault.Is(err, fault.Forbidden) {
				return n
			}
			if err != nil {
				t.Fatalf("CreateConsumer() error = %v, want nil or %v", err, fault.Forbidden)
			}
			n++
		}
	}
	if n := fill(); n != limit {
		t.Fatalf("%d consumers created, want %d", n, limit)
	}
	deleted := []string{"c-0", "c-33", "c-77"}
	for _, name := range deleted {
		var n int
		_, _ = fmt.Sscanf(name, "c-%d", &n)
		noError(t, fx.keys.DeleteConsumer(fx.requestContext(),
			keys.ConsumerLocator{BucketLocator: bucketAt(buckets[n%2]), Consumer: name}))
	}
	if n := fill(); n != len(deleted) {
		t.Fatalf("%d consumers created after the deletion, want %d", n, len(deleted))
	}
	_, _, remaining, err := fx.keys.ListConsumers(fx.requestContext(), bucketAt(buckets[1]), keys.Filter{},
		store.Page{Limit: 1}, keys.Include{})
	if err != nil {
		t.Fatal(err)
	}
	noError(t, fx.keys.DeleteBucket(fx.requestContext(), bucketAt(buckets[1])))
	buckets[1] = buckets[0]
	if n := fill(); n != remaining {
		t.Fatalf("%d consumers created after the deletion of their bucket, want %d", n, remaining)
	}
	fx.setLimit(t, limits.Consumers, 10) // existing consumers stay, but no consumer can be created
	if n := fill(); n != 0 {
		t.Fatalf("%d consumers created under a lowered limit, want 0", n)
	}
	must[keys.Consumer](t)(fx.keys.ReadConsumer(fx.requestContext(),
		keys.ConsumerLocator{BucketLocator: bucketAt(buckets[0]), Consumer: "c-2"}, keys.Include{}))
}

// TestConsumerKeyLimitIsExact checks the limit for the creation of one key, of several keys, in bulk, and by a roll.
func TestConsumerKeyLimitIsExact(t *testing.T) {
	for _, first := range []int{1, 5, 60} {
		t.Run(fmt.Sprintf("%d keys created at first", first), func(t *testing.T) {
			fx := newFixture(t)
			fx.setLimit(t, limits.ConsumerKeys, int64(first)+1)
			fx.createBucket()
			fx.createConsumer("acme")
			at := consumerAt("acme")
			must[[]keys.Key](t)(fx.keys.CreateKeys(fx.requestContext(), at, make([]keys.NewKey, first)))
			if _, err := fx.keys.CreateKeys(fx.requestContext(), at, make([]keys.NewKey, 2)); !fault.Is(err, fault.Forbidden) {
				t.Errorf("CreateKeys(2 keys) with capacity for 1: error = %v, want %v", err, fault.Forbidden)
			}
			if _, err := fx.keys.CreateKeys(fx.requestContext(), at, make([]keys.NewKey, 60)); !fault.Is(err, fault.Forbidden) {
				t.Errorf("CreateKeys(60 keys) with capacity for 1: error = %v, want %v", err, fault.Forbidden)
			}
			noError(t, fx.keys.RollKey(fx.requestContext(), at, fx.clock.Now()))
			if err := fx.keys.RollKey(fx.requestContext(), at, fx.clock.Now()); !fault.Is(err, fault.Forbidden) {
				t.Errorf("second RollKey() error = %v, want %v", err, fault.Forbidden)
			}
			if _, err := fx.keys.CreateKey(fx.requestContext(), at, keys.NewKey{}); !fault.Is(err, fault.Forbidden) {
				t.Errorf("CreateKey() over the limit: error = %v, want %v", err, fault.Forbidden)
			}
		})
	}
}

func TestBucketLimitIsExact(t *testing.T) {
	fx := newFixture(t)
	fx.setLimit(t, limits.KeyBuckets, 3)
	create := func(name string) error {
		_, err := fx.keys.CreateBucket(fx.requestContext(), owner, keys.NewBucket{Name: name})
		return err
	}
	for _, name := range []string{"first", "second", "third"} {
		noError(t, create(name))
	}
	if err := create("fourth"); !fault.Is(err, fault.Forbidden) {
		t.Errorf("CreateBucket(fourth) over the limit: error = %v, want %v", err, fault.Forbidden)
	}
	if err := create("first"); !fault.Is(err, fault.Conflict) && !fault.Is(err, fault.Forbidden) {
		t.Errorf("CreateBucket(first) of an existing bucket: error = %v, want %v or %v", err, fault.Conflict, fault.Forbidden)
	}
	noError(t, fx.keys.DeleteBucket(fx.requestContext(), bucketAt("second")))
	noError(t, create("fourth"))
	if err := create("second"); !fault.Is(err, fault.Forbidden) {
		t.Errorf("CreateBucket(second) of a deleted bucket over the limit: error = %v, want %v", err, fault.Forbidden)
	}
}

// TestCapacityIsReclaimedOnce uses the capacity of a shard just before a creation in another shard reclaims it. The
// creation in the other shard must fail.
func TestCapacityIsReclaimedOnce(t *testing.T) {
	backend := &disturbedBackend{after: undisturbed}
	fx := newFixtureOver(t, memory.New(), func(b store.Backend) store.Backend { backend.Backend = b; return backend })
	fx.setLimit(t, limits.Consumers, 2)
	fx.createBucket()
	first, second, other := collidingNames()[0], collidingNames()[1], ""
	for _, name := range collidingNames() { // a name in the other shard
		if shardOf(name) != shardOf(first) {
			other = name
		}
	}
	for _, name := range collidingNames()[2:] {
		if shardOf(name) == shardOf(first) {
			second = name
		}
	}
	fx.createConsumer(first)
	fx.createConsumer(second)
	noError(t, fx.keys.DeleteConsumer(fx.requestContext(), consumerAt(first))) // its shard has capacity for 1 now
	backend.after, backend.beforeCommit = 0, func() { noError(t, fx.createConsumerIn(1, bucket, first)) }
	if err := fx.createConsumerIn(0, bucket, other); !fault.Is(err, fault.Forbidden) {
		t.Errorf("third CreateConsumer() during the reclaim: error = %v, want %v", err, fault.Forbidden)
	}
	noError(t, fx.keys.DeleteConsumer(fx.requestContext(), consumerAt(second)))
	noError(t, fx.createConsumerIn(0, bucket, other))
	if err := fx.createConsumerIn(1, bucket, second); !fault.Is(err, fault.Forbidden) {
		t.Errorf("third CreateConsumer() after the reclaim: error = %v, want %v", err, fault.Forbidden)
	}
}

// TestLoweredLimitInvalidatesShardCapacity lowers the limit while a shard has capacity for further consumers. No
// consumer may be created until fewer than the new limit exist. Then it must be possible to use the whole limit.
func TestLoweredLimitInvalidatesShardCapacity(t *testing.T) {
	fx := newFixture(t)
	fx.setLimit(t, limits.Consumers, 1_000_000)
	fx.createBucket()
	names := slices.DeleteFunc(collidingNames(), func(name string) bool { return shardOf(name) != 0 })
	createOne := func() error {
		err := fx.createConsumerIn(0, bucket, names[0])
		if err == nil {
			names = names[1:]
		}
		return err
	}
	checkRefused := func(limit int) {
		t.Helper()
		if err := createOne(); !fault.Is(err, fault.Forbidden) {
			t.Errorf("CreateConsumer() beyond the limit %d: error = %v, want %v", limit, err, fault.Forbidden)
		}
	}
	created := slices.Clone(names[:5])
	for range created {
		noError(t, createOne())
	}
	fx.setLimit(t, limits.Consumers, 3)
	for _, name := range created[:2] {
		checkRefused(3)
		noError(t, fx.keys.DeleteConsumer(fx.requestContext(), consumerAt(name)))
	}
	checkRefused(3)
	noError(t, fx.keys.DeleteConsumer(fx.requestContext(), consumerAt(created[2])))
	noError(t, createOne())
	checkRefused(3)
	fx.setLimit(t, limits.Consumers, 5)
	noError(t, createOne())
	noError(t, createOne())
	checkRefused(5)
}
