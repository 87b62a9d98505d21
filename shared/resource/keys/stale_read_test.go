package keys_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/memory"
	"github.com/gatewright/gatewright/shared/resource/keys"
)

// tornBackend reads the bucket first, then calls betweenReads once, and then reads the other items or runs the query.
// It can also let the process die during a bulk creation.
type tornBackend struct {
	store.Backend
	mu              sync.Mutex
	betweenReads    func()
	afterBucketRead func()        // called after each read of the bucket
	bucketRead      chan struct{} // closed by afterBucketRead
	// dieAfterPortion makes the process die after the first portion of a bulk creation. dead is true after that.
	dieAfterPortion, dead bool
}

var errProcessDied = errors.New("the process is dead")

// arm makes the backend call callback once, after the next read of the bucket and before the read of the keys. It also
// sets dieAfterPortion, because callback runs a bulk creation.
func (b *tornBackend) arm(callback func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	bucketRead := make(chan struct{})
	b.betweenReads, b.bucketRead, b.dieAfterPortion = callback, bucketRead, true
	b.afterBucketRead = sync.OnceFunc(func() { close(bucketRead) })
}

func (b *tornBackend) takeCallback() func() {
	b.mu.Lock()
	defer b.mu.Unlock()
	callback := b.betweenReads
	b.betweenReads = nil
	return callback
}

func (b *tornBackend) Read(ctx context.Context, readKeys []store.Key) ([]store.Item, error) {
	isBucket := func(k store.Key) bool { return strings.HasPrefix(k.PK, "buckets#") }
	if i := slices.IndexFunc(readKeys, isBucket); i >= 0 {
		bucketItems, err := b.Backend.Read(ctx, readKeys[i:i+1])
		if err != nil {
			return nil, err
		}
		if b.afterBucketRead != nil {
			b.afterBucketRead()
		}
		if len(readKeys) > 1 && strings.HasPrefix(readKeys[0].PK, "key-hash#") {
			if callback := b.takeCallback(); callback != nil {
				callback()
			}
		}
		others, err := b.Backend.Read(ctx, slices.DeleteFunc(slices.Clone(readKeys), isBucket))
		return append(bucketItems, others...), err
	}
	return b.Backend.Read(ctx, readKeys)
}

func (b *tornBackend) Query(ctx context.Context, q store.Query) ([]store.Item, string, error) {
	if b.bucketRead != nil {
		<-b.bucketRead
		if callback := b.takeCallback(); callback != nil {
			callback()
		}
	}
	return b.Backend.Query(ctx, q)
}

// Transact implements store.Backend. It fails if the process is dead.
func (b *tornBackend) Transact(ctx context.Context, token string, writes []store.Write) error {
	if b.dead {
		return errProcessDied
	}
	err := b.Backend.Transact(ctx, token, writes)
	b.dead = b.dieAfterPortion && len(writes) > 40
	return err
}

// TestStaleBucketReadHidesBatch reads the bucket before a bulk creation adds its entry, and the keys after they were
// written. Readers must not see the keys.
func TestStaleBucketReadHidesBatch(t *testing.T) {
	for name, count := range map[string]func(fx *fixture) int{
		"gateway": func(fx *fixture) int {
			if _, accepted := fx.verifyKey("custom-key-number-0000"); accepted {
				return 1
			}
			return 0
		},
		"list": func(fx *fixture) int { return len(fx.listKeys("alice")) },
		"consumer": func(fx *fixture) int {
			c := must[keys.Consumer](fx)(fx.keys.ReadConsumer(fx.Context(), consumerAt("alice"), keys.Include{Keys: true}))
			return len(c.Keys)
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := &tornBackend{}
			fx := newFixtureOver(t, memory.New(), func(inner store.Backend) store.Backend { b.Backend = inner; return b })
			fx.createBucket()
			fx.createConsumer("alice")
			batch := make([]keys.NewKey, 60)
			for i := range batch {
				batch[i].Text = fmt.Sprintf("custom-key-number-%04d", i)
			}
			b.arm(func() {
				if _, err := fx.keys.CreateKeys(fx.requestContext(), consumerAt("alice"), batch); !errors.Is(err, errProcessDied) {
					t.Errorf("CreateKeys() error = %v, want %v", err, errProcessDied)
				}
			})
			if n := count(fx); n != 0 {
				t.Fatalf("%d keys of the unfinished batch are visible, want 0", n)
			}
			if !b.dead {
				t.Fatal("the process does not die in the batch, want it dead")
			}
			b.dieAfterPortion, b.dead = false, false
			fx.finishOperations()
			if n := count(fx); n != 0 {
				t.Fatalf("%d keys of the abandoned batch are visible, want 0", n)
			}
			must[[]keys.Key](t)(fx.keys.CreateKeys(fx.requestContext(), consumerAt("alice"), batch[:30]))
		})
	}
}

// TestDeletedBucketIsNotFoundWithStaleGeneration deletes two buckets with the same name. Then it uses a process that
// guesses the generation of the first bucket. The process reads the consumer of the first bucket, which a bulk creation
// has changed, and the record of the second bucket. It must return NotFound.
func TestDeletedBucketIsNotFoundWithStaleGeneration(t *testing.T) {
	fx := newFixture(t)
	fx.createBucket()
	fx.createConsumer("alice")
	must[[]keys.Key](t)(fx.keys.CreateKeys(fx.requestContext(), consumerAt("alice"), make([]keys.NewKey, 41)))
	noError(t, fx.keys.DeleteBucket(fx.requestContext(), bucketAt(bucket)))
	fx.createBucket()
	noError(t, fx.keys.DeleteBucket(fx.requestContext(), bucketAt(bucket)))

	fx.keys = fx.instances[1]
	if _, err := fx.keys.ReadConsumer(fx.Context(), consumerAt("alice"), keys.Include{}); !fault.Is(err, fault.NotFound) {
		t.Fatalf("ReadConsumer(deleted bucket) error = %v, want %v", err, fault.NotFound)
	}
	if _, err := fx.keys.CreateKeys(fx.requestContext(), consumerAt("alice"), make([]keys.NewKey, 2)); !fault.Is(err,
		fault.NotFound) {
		t.Fatalf("CreateKeys(deleted bucket) error = %v, want %v", err, fault.NotFound)
	}
}
