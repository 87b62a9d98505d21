package keys_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/memory"
	"github.com/gatewright/gatewright/shared/resource/keys"
)

// splitReadBackend splits the next read of several items if one of their partitions begins with prefix. It reads the
// items of these partitions, then calls betweenReads, and then reads the other items. If publishReached is set, it also
// sends to publishReached before the commit that publishes a bulk creation, and blocks this commit until publish is
// closed.
type splitReadBackend struct {
	store.Backend
	mu           sync.Mutex
	prefix       string
	betweenReads func()

	publishReached, publish chan struct{}
}

func newSplitReadFixture(t *testing.T) (*fixture, *splitReadBackend) {
	t.Helper()
	b := &splitReadBackend{}
	return newFixtureOver(t, memory.New(), func(inner store.Backend) store.Backend { b.Backend = inner; return b }), b
}

func (b *splitReadBackend) arm(prefix string, callback func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.prefix, b.betweenReads = prefix, callback
}

func (b *splitReadBackend) Read(ctx context.Context, readKeys []store.Key) ([]store.Item, error) {
	b.mu.Lock()
	isFirst := func(k store.Key) bool { return strings.HasPrefix(k.PK, b.prefix) }
	betweenReads := b.betweenReads
	if betweenReads == nil || len(readKeys) < 2 || !slices.ContainsFunc(readKeys, isFirst) {
		b.mu.Unlock()
		return b.Backend.Read(ctx, readKeys)
	}
	b.betweenReads = nil
	others := slices.DeleteFunc(slices.Clone(readKeys), isFirst)
	firstKeys := slices.DeleteFunc(slices.Clone(readKeys), func(k store.Key) bool { return !isFirst(k) })
	b.mu.Unlock()
	items, err := b.Backend.Read(ctx, firstKeys)
	if err != nil {
		return nil, err
	}
	betweenReads()
	otherItems, err := b.Backend.Read(ctx, others)
	return append(items, otherItems...), err
}

func (b *splitReadBackend) Transact(ctx context.Context, token string, writes []store.Write) error {
	if b.publishReached != nil && slices.ContainsFunc(writes, func(w store.Write) bool {
		return w.Kind == store.UpdateKind && strings.HasPrefix(w.Key.PK, "key-batch#")
	}) {
		b.publishReached <- struct{}{}
		<-b.publish
	}
	return b.Backend.Transact(ctx, token, writes)
}

func (b *splitReadBackend) checkUsed(t *testing.T) {
	t.Helper()
	if b.betweenReads != nil {
		t.Fatal("the change between the reads does not happen, want it once")
	}
}

// TestPatchDuringRollKeepsExpiry updates a key during a large roll: the update reads the bucket before the roll, and
// the consumer and the key after it.
func TestPatchDuringRollKeepsExpiry(t *testing.T) {
	fx, b := newSplitReadFixture(t)
	fx.createBucket()
	fx.createConsumer("alice")
	created := fx.createKeys("alice", 45)
	b.arm("buckets#", func() {
		noError(t, fx.keys.RollKey(fx.requestContext(), consumerAt("alice"), fx.clock.Now().Add(time.Hour)))
	})
	patched := must[keys.Key](t)(fx.keys.UpdateKey(fx.requestContext(), consumerAt("alice"), created[0].ID,
		keys.KeyPatch{Description: store.PatchTo("patched")}))
	b.checkUsed(t)
	if patched.ExpiresOn == nil {
		t.Error("UpdateKey() during a roll returns a key without expiry, want one")
	}
	fx.finishOperations()
	fx.clock.add(2 * time.Hour)
	fx.checkAccepted(false, created...)
}

// TestRollDuringBulkPublishRollsItsKeys rolls keys while a bulk creation is published: the roll reads the bucket before
// the publication, with the entry that hides the keys, and the consumer after it.
func TestRollDuringBulkPublishRollsItsKeys(t *testing.T) {
	fx, b := newSplitReadFixture(t)
	fx.createBucket()
	fx.createConsumer("alice")
	b.publishReached, b.publish = make(chan struct{}), make(chan struct{})
	var created []keys.Key
	var bulk sync.WaitGroup
	bulk.Go(func() {
		var err error
		if created, err = fx.keys.CreateKeys(fx.requestContext(), consumerAt("alice"), make([]keys.NewKey, 60)); err != nil {
			t.Errorf("CreateKeys() during a roll: error = %v, want none", err)
		}
	})
	<-b.publishReached
	b.arm("buckets#", func() { close(b.publish); bulk.Wait() })
	noError(t, fx.keys.RollKey(fx.requestContext(), consumerAt("alice"), fx.clock.Now()))
	b.checkUsed(t)
	fx.checkAccepted(false, created...)
	fx.finishOperations()
	fx.checkAccepted(false, created...)
}

// TestBulkKeysIgnoreEarlierRolls creates keys in bulk during two rolls: the bulk creation reads the consumer before the
// rolls, and the bucket after them. Both rolls return before the bulk creation writes any key, so they must not apply
// to its keys.
func TestBulkKeysIgnoreEarlierRolls(t *testing.T) {
	fx, b := newSplitReadFixture(t)
	fx.createBucket()
	fx.createConsumer("alice")
	old := fx.createKeys("alice", 45)
	b.arm("consumers#", func() {
		for range 2 {
			noError(t, fx.keys.RollKey(fx.requestContext(), consumerAt("alice"), fx.clock.Now()))
		}
	})
	created := fx.createKeys("alice", 45)
	b.checkUsed(t)
	fx.checkAccepted(false, old...)
	fx.checkAccepted(true, created...)
	fx.finishOperations()
	fx.checkAccepted(true, created...)
}

// TestSlowReadIsRetried verifies a key with a long pause between the reads of key and bucket. Meanwhile, a roll is
// written into the key and its entry is removed from the bucket. The key must be refused.
func TestSlowReadIsRetried(t *testing.T) {
	fx, b := newSplitReadFixture(t)
	fx.createBucket()
	fx.createConsumer("alice")
	created := fx.createKeys("alice", 45)
	b.arm("key-hash#", func() {
		noError(t, fx.keys.RollKey(fx.requestContext(), consumerAt("alice"), fx.clock.Now()))
		fx.finishOperations()
	})
	fx.checkAccepted(false, created[0])
	b.checkUsed(t)
}
