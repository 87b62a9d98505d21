package keys_test

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/memory"
	"github.com/gatewright/gatewright/shared/resource/keys"
)

// interleavedBackend calls a function between the two parts of a round trip: after the query of a consumer's keys, and
// before the read of the other records. A round trip is not a snapshot.
type interleavedBackend struct {
	store.Backend
	mu           sync.Mutex
	betweenReads func()
	queried      chan struct{}
}

func (b *interleavedBackend) arm(callback func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.betweenReads, b.queried = callback, make(chan struct{})
}

func (b *interleavedBackend) Query(ctx context.Context, q store.Query) ([]store.Item, string, error) {
	items, next, err := b.Backend.Query(ctx, q)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.betweenReads != nil && strings.HasPrefix(q.PK, "consumer-keys#") {
		close(b.queried)
	}
	return items, next, err
}

func (b *interleavedBackend) Read(ctx context.Context, keys []store.Key) ([]store.Item, error) {
	b.mu.Lock()
	betweenReads, queried := b.betweenReads, b.queried
	b.mu.Unlock()
	if betweenReads != nil && len(keys) > 1 {
		<-queried
		b.mu.Lock()
		b.betweenReads = nil
		b.mu.Unlock()
		betweenReads()
	}
	return b.Backend.Read(ctx, keys)
}

// TestConcurrentlyCreatedKeyIsNotMissed creates a key during a change of all keys: after the change has queried the
// keys, and before it reads the consumer. The change must include the new key, even if another key is deleted, so that
// the number of keys is the same.
func TestConcurrentlyCreatedKeyIsNotMissed(t *testing.T) {
	for _, n := range []int{0, 1, 39, 40} {
		for _, test := range []struct {
			name   string
			change func(fx *fixture) error
			check  func(t *testing.T, fx *fixture, concurrent keys.Key)
		}{
			{"delete", func(fx *fixture) error {
				return fx.keys.DeleteConsumer(fx.requestContext(), consumerAt("alice"))
			}, func(t *testing.T, fx *fixture, concurrent keys.Key) {
				fx.checkAccepted(false, concurrent)
				fx.finishOperations()
				noError(t, fx.keys.DeleteBucket(fx.requestContext(), bucketAt(bucket)))
				fx.finishOperations()
				if leftover := fx.leftovers(); len(leftover) > 0 {
					t.Fatalf("%d items remain, such as %s, want 0", len(leftover), leftover[0])
				}
			}},
			{"roll", func(fx *fixture) error {
				return fx.keys.RollKey(fx.requestContext(), consumerAt("alice"), fx.clock.Now())
			}, func(t *testing.T, fx *fixture, concurrent keys.Key) {
				fx.checkAccepted(false, concurrent)
			}},
			{"metadata", func(fx *fixture) error {
				_, err := fx.keys.UpdateConsumer(fx.requestContext(), consumerAt("alice"),
					keys.ConsumerPatch{Metadata: store.PatchTo(json.RawMessage(`{"new":1}`))})
				return err
			}, func(t *testing.T, fx *fixture, concurrent keys.Key) {
				if id, ok := fx.verifyKey(concurrent.Text); !ok || string(id.Data) != `{"new":1}` {
					t.Fatalf("metadata of a verified key = %s (accepted: %t), want new = 1", id.Data, ok)
				}
			}},
		} {
			for _, replaced := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s with %d keys, replaced=%t", test.name, n, replaced), func(t *testing.T) {
					b := &interleavedBackend{}
					fx := newFixtureOver(t, memory.New(), func(inner store.Backend) store.Backend { b.Backend = inner; return b })
					fx.createBucket()
					fx.createConsumer("alice")
					var existing []keys.Key
					if n > 0 {
						existing = fx.createKeys("alice", n)
					}
					var concurrent keys.Key
					b.arm(func() {
						// Delete a key for the created one, so that the number of keys stays the same.
						if replaced && n > 0 {
							noError(t, fx.keys.DeleteKey(fx.requestContext(), consumerAt("alice"), existing[0].ID))
						}
						concurrent = fx.createKey("alice", keys.NewKey{})
					})
					noError(t, test.change(fx))
					if concurrent.ID == "" {
						t.Fatal("no key is created during the change, want one")
					}
					test.check(t, fx, concurrent)
				})
			}
		}
	}
}

func TestConcurrentlyClearedExpiryIsRolled(t *testing.T) {
	b := &interleavedBackend{}
	fx := newFixtureOver(t, memory.New(), func(inner store.Backend) store.Backend { b.Backend = inner; return b })
	fx.createBucket()
	fx.createConsumer("alice")
	k := fx.createKey("alice", keys.NewKey{ExpiresOn: new(fx.clock.Now().Add(time.Hour))})
	b.arm(func() {
		must[keys.Key](t)(fx.keys.UpdateKey(fx.requestContext(), consumerAt("alice"), k.ID,
			keys.KeyPatch{ExpiresOn: store.PatchClear[time.Time]()}))
	})
	noError(t, fx.keys.RollKey(fx.requestContext(), consumerAt("alice"), fx.clock.Now()))
	fx.checkAccepted(false, k)
}

// pausedBackend calls beforeCommit just before the next transaction, and afterQuery just after the next query of a
// consumer's keys, as if the process had paused there.
type pausedBackend struct {
	store.Backend
	beforeCommit, afterQuery func()
}

func (b *pausedBackend) Transact(ctx context.Context, token string, writes []store.Write) error {
	if beforeCommit := b.beforeCommit; beforeCommit != nil {
		b.beforeCommit = nil
		beforeCommit()
	}
	return b.Backend.Transact(ctx, token, writes)
}

func (b *pausedBackend) Query(ctx context.Context, q store.Query) ([]store.Item, string, error) {
	items, next, err := b.Backend.Query(ctx, q)
	if afterQuery := b.afterQuery; afterQuery != nil && strings.HasPrefix(q.PK, "consumer-keys#") {
		b.afterQuery = nil
		afterQuery()
	}
	return items, next, err
}

func newPausedFixture(t *testing.T) (*fixture, *pausedBackend) {
	t.Helper()
	b := &pausedBackend{}
	return newFixtureOver(t, memory.New(), func(inner store.Backend) store.Backend { b.Backend = inner; return b }), b
}

// TestCreationInDeletedBucketIsCleanedUp runs creations that read the bucket before its deletion and are committed
// before, during or after the first sweep of its consumers. In the end, no record may remain.
func TestCreationInDeletedBucketIsCleanedUp(t *testing.T) {
	for name, create := range map[string]func(fx *fixture) error{
		"key": func(fx *fixture) error {
			_, err := fx.keys.CreateKey(fx.requestContext(), consumerAt("alice"), keys.NewKey{})
			return err
		},
		"consumer": func(fx *fixture) error {
			_, err := fx.keys.CreateConsumer(fx.requestContext(), bucketAt(bucket),
				keys.NewConsumer{Name: "bob", WithKey: true, Tags: map[string]string{"a": "1"}})
			return err
		},
	} {
		for when, sweep := range map[string]func(fx *fixture, b *pausedBackend, commit func()){
			"before the sweep": func(_ *fixture, _ *pausedBackend, commit func()) { commit() },
			"while a consumer is swept": func(fx *fixture, b *pausedBackend, commit func()) {
				b.afterQuery = commit
				fx.clock.add(time.Second)
				noError(fx, fx.engine.Sweep(fx.Context()))
				if b.afterQuery != nil {
					fx.Fatal("the sweep does not query the keys of a consumer, want a query, after which the creation is committed")
				}
			},
			"after the first sweep": func(fx *fixture, _ *pausedBackend, commit func()) {
				fx.clock.add(time.Second)
				noError(fx, fx.engine.Sweep(fx.Context()))
				commit()
			},
		} {
			t.Run(name+" "+when, func(t *testing.T) {
				fx, b := newPausedFixture(t)
				fx.createBucket()
				fx.createConsumer("alice")
				fx.createKey("alice", keys.NewKey{})
				var wg sync.WaitGroup
				reached, commit := make(chan struct{}), make(chan struct{})
				b.beforeCommit = func() { close(reached); <-commit }
				wg.Go(func() {
					if err := create(fx); err != nil && !fault.Is(err, fault.NotFound) {
						t.Errorf("creation in the deleted bucket: error = %v, want none or %v", err, fault.NotFound)
					}
				})
				<-reached
				noError(t, fx.keys.DeleteBucket(fx.requestContext(), bucketAt(bucket)))
				sweep(fx, b, func() { close(commit); wg.Wait() })
				fx.finishOperations()
				if leftover := fx.leftovers(); len(leftover) > 0 {
					t.Fatalf("%d items remain, such as %s, want 0", len(leftover), leftover[0])
				}
			})
		}
	}
}

// TestConcurrentlyReplacedTextIsRefused replaces the text of a key while a change of all keys reads them. The gateway
// must refuse both texts after the change.
func TestConcurrentlyReplacedTextIsRefused(t *testing.T) {
	const text = "a-key-of-our-own-0123456789"
	for name, change := range map[string]func(fx *fixture) error{
		"delete": func(fx *fixture) error { return fx.keys.DeleteConsumer(fx.requestContext(), consumerAt("alice")) },
		"roll": func(fx *fixture) error {
			return fx.keys.RollKey(fx.requestContext(), consumerAt("alice"), fx.clock.Now())
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := &interleavedBackend{}
			fx := newFixtureOver(t, memory.New(), func(inner store.Backend) store.Backend { b.Backend = inner; return b })
			fx.createBucket()
			fx.createConsumer("alice")
			k := fx.createKey("alice", keys.NewKey{})
			b.arm(func() {
				must[keys.Key](t)(fx.keys.UpdateKey(fx.requestContext(), consumerAt("alice"), k.ID, keys.KeyPatch{Text: text}))
			})
			noError(t, change(fx))
			if b.betweenReads != nil {
				t.Fatal("the text is not replaced during the change, want it replaced once")
			}
			fx.checkAccepted(false, k, keys.Key{Text: text})
		})
	}
}

// TestChangeDoesNotAffectRecreatedBucket deletes the bucket between the read and the commit of a change, with and
// without creating it again. The change must return NotFound.
func TestChangeDoesNotAffectRecreatedBucket(t *testing.T) {
	for name, change := range map[string]func(fx *fixture, id string) error{
		"update": func(fx *fixture, id string) error {
			_, err := fx.keys.UpdateBucket(fx.requestContext(), bucketAt(id),
				keys.BucketPatch{Description: store.PatchTo("of the old one")})
			return err
		},
		"delete": func(fx *fixture, id string) error { return fx.keys.DeleteBucket(fx.requestContext(), bucketAt(id)) },
	} {
		for _, recreate := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, recreated %v", name, recreate), func(t *testing.T) {
				fx, b := newPausedFixture(t)
				old := fx.createBucket()
				var want []keys.Bucket
				b.beforeCommit = func() {
					noError(t, fx.keys.DeleteBucket(fx.requestContext(), bucketAt(bucket)))
					if recreate {
						want = append(want, fx.createBucket())
					}
				}
				wantFault(t, change(fx, old.ID), fault.NotFound)
				got, _, err := fx.keys.ListBuckets(fx.Context(), owner, all)
				noError(t, err)
				if !reflect.DeepEqual(got, want) {
					t.Errorf("ListBuckets() = %+v, want %+v", got, want)
				}
			})
		}
	}
}

// TestChangeDoesNotAffectRecreatedConsumer deletes and recreates the consumer between the read and the commit of a
// change. The change must return NotFound, although the new consumer has the same version as the old one.
func TestChangeDoesNotAffectRecreatedConsumer(t *testing.T) {
	for name, change := range map[string]func(fx *fixture, id string) error{
		"update": func(fx *fixture, id string) error {
			_, err := fx.keys.UpdateConsumer(fx.requestContext(), consumerAt(id),
				keys.ConsumerPatch{Description: store.PatchTo("of the old one")})
			return err
		},
		"delete": func(fx *fixture, id string) error { return fx.keys.DeleteConsumer(fx.requestContext(), consumerAt(id)) },
	} {
		t.Run(name, func(t *testing.T) {
			fx, b := newPausedFixture(t)
			fx.createBucket()
			old := fx.createConsumer("alice")
			var want keys.Consumer
			b.beforeCommit = func() {
				noError(t, fx.keys.DeleteConsumer(fx.requestContext(), consumerAt("alice")))
				want = fx.createConsumer("alice")
			}
			wantFault(t, change(fx, old.ID), fault.NotFound)
			got := must[keys.Consumer](t)(fx.keys.ReadConsumer(fx.Context(), consumerAt("alice"), keys.Include{}))
			if !reflect.DeepEqual(got, want) {
				t.Errorf("ReadConsumer() = %+v, want %+v", got, want)
			}
		})
	}
}

// TestBucketsOfSameNameShareNoConsumers creates and deletes another bucket with the same name between the read and the
// commit of a creation. The created bucket must not have the consumer of the other bucket.
func TestBucketsOfSameNameShareNoConsumers(t *testing.T) {
	fx, b := newPausedFixture(t)
	remove := func() { noError(t, fx.keys.DeleteBucket(fx.requestContext(), bucketAt(bucket))) }
	fx.createBucket()
	remove()
	b.beforeCommit = func() {
		fx.createBucket()
		fx.createConsumer("alice")
		remove()
	}
	fx.createBucket()
	if b.beforeCommit != nil {
		t.Fatal("no other bucket is created before the commit of CreateBucket(), want one")
	}
	_, err := fx.keys.ReadConsumer(fx.Context(), consumerAt("alice"), keys.Include{})
	wantFault(t, err, fault.NotFound)
}
