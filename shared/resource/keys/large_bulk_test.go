package keys_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/memory"
	"github.com/gatewright/gatewright/shared/resource/keys"
)

func TestBulkCreateListsKeysInOrder(t *testing.T) {
	for _, n := range append(sizes, 1_000) {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			fx := newFixture(t)
			fx.createBucket()
			fx.createConsumer("alice")
			before := fx.createKey("alice", keys.NewKey{})
			created := fx.createKeys("alice", n)
			fx.checkAccepted(true, created...)
			got := fx.listKeys("alice")
			slices.Reverse(got)
			if len(got) != n+1 {
				t.Fatalf("ListKeys() = %d keys, want %d", len(got), n+1)
			}
			if got[0].ID != before.ID {
				t.Fatalf("oldest of ListKeys() = %s, want %s", got[0].ID, before.ID)
			}
			for i, k := range got[1:] {
				if k.ID != created[i].ID || k.Text != created[i].Text {
					t.Fatalf("key %d = %s with text %q, want %s with text %q", i, k.ID, k.Text, created[i].ID, created[i].Text)
				}
			}
			fx.finishOperations()
			fx.checkAccepted(true, created...)
			if after := fx.createKey("alice", keys.NewKey{}); after.ID <= created[n-1].ID {
				t.Fatalf("ID of the next key = %s, want more than %s", after.ID, created[n-1].ID)
			}
		})
	}
}

func TestBulkCreateWithUsedTextCreatesNoKey(t *testing.T) {
	for _, n := range sizes[1:] {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			fx := newFixture(t)
			fx.createBucket()
			fx.createConsumer("alice")
			fx.createKey("alice", keys.NewKey{Text: "is-in-use-already"})
			batch := make([]keys.NewKey, n)
			for i := range batch {
				batch[i].Text = fmt.Sprintf("custom-key-number-%04d", i)
			}
			valid := slices.Clone(batch)
			batch[n-1].Text = "is-in-use-already"
			_, err := fx.keys.CreateKeys(fx.requestContext(), consumerAt("alice"), batch)
			wantFault(t, err, fault.Conflict)
			if got := fx.listKeys("alice"); len(got) != 1 {
				t.Fatalf("ListKeys() after the conflict = %d keys, want 1", len(got))
			}
			fx.checkAccepted(false, keys.Key{Text: "custom-key-number-0000"})
			created := must[[]keys.Key](t)(fx.keys.CreateKeys(fx.requestContext(), consumerAt("alice"), valid))
			fx.finishOperations()
			fx.checkAccepted(true, created...)
			if got := fx.listKeys("alice"); len(got) != n+1 {
				t.Fatalf("ListKeys() = %d keys, want %d", len(got), n+1)
			}
		})
	}
}

func TestBulkCreateIsValidatedAsWhole(t *testing.T) {
	fx := newFixture(t)
	fx.createBucket()
	fx.createConsumer("alice")
	for name, batch := range map[string][]keys.NewKey{
		"no keys":         {},
		"1,001 keys":      make([]keys.NewKey, 1_000+1),
		"10,000 keys":     make([]keys.NewKey, 10_000),
		"a repeated text": {{Text: "the-same-text-twice"}, {}, {Text: "the-same-text-twice"}},
		"a short text":    {{}, {Text: "short"}},
	} {
		_, err := fx.keys.CreateKeys(fx.requestContext(), consumerAt("alice"), batch)
		if err == nil || fault.KindOf(err) != fault.Invalid {
			t.Errorf("CreateKeys(%s) error = %v, want %v", name, err, fault.Invalid)
		}
	}
	if got := fx.listKeys("alice"); len(got) != 0 {
		t.Fatalf("ListKeys() = %d keys, want 0", len(got))
	}
}

// interruptedBackend calls afterPortion after each transaction that wrote keys for a bulk creation: each successful one
// with more than 40 writes. portion counts these transactions from 1.
type interruptedBackend struct {
	store.Backend
	mu           sync.Mutex
	afterPortion func(portion int)
	portions     int
}

func (b *interruptedBackend) Transact(ctx context.Context, token string, writes []store.Write) error {
	err := b.Backend.Transact(ctx, token, writes)
	b.mu.Lock()
	afterPortion := b.afterPortion
	if afterPortion != nil && err == nil && len(writes) > 40 {
		b.portions++
		b.afterPortion = nil
		b.mu.Unlock()
		afterPortion(b.portions)
		b.mu.Lock()
		b.afterPortion = afterPortion
	}
	b.mu.Unlock()
	return err
}

func TestBulkCreateIsAtomic(t *testing.T) {
	b := &interruptedBackend{}
	fx := newFixtureOver(t, memory.New(), func(inner store.Backend) store.Backend { b.Backend = inner; return b })
	fx.createBucket()
	fx.createConsumer("alice")
	first := fx.createKey("alice", keys.NewKey{})
	batch := make([]keys.NewKey, 100)
	for i := range batch {
		batch[i].Text = fmt.Sprintf("custom-key-number-%04d", i)
	}
	checks := 0
	b.afterPortion = func(portion int) {
		checks++
		if got := fx.listKeys("alice"); len(got) != 1 {
			t.Errorf("after portion %d: ListKeys() = %d keys, want 1", portion, len(got))
		}
		c := must[keys.Consumer](t)(fx.keys.ReadConsumer(fx.Context(), consumerAt("alice"), keys.Include{Keys: true}))
		if len(c.Keys) != 1 {
			t.Errorf("after portion %d: ReadConsumer() = %d keys, want 1", portion, len(c.Keys))
		}
		for _, n := range batch {
			fx.checkAccepted(false, keys.Key{Text: n.Text})
		}
	}
	created := must[[]keys.Key](t)(fx.keys.CreateKeys(fx.requestContext(), consumerAt("alice"), batch))
	b.afterPortion = nil
	if checks != 3 {
		t.Fatalf("%d portions checked, want 3", checks)
	}
	fx.checkAccepted(true, append(created, first)...)
}

// TestAbandonedBulkCreateWritesNothing pauses a bulk creation until the operation has abandoned it and has deleted its
// keys. Then the bulk creation must fail, and none of its keys may remain.
func TestAbandonedBulkCreateWritesNothing(t *testing.T) {
	b := &interruptedBackend{}
	fx := newFixtureOver(t, memory.New(), func(inner store.Backend) store.Backend { b.Backend = inner; return b })
	fx.createBucket()
	fx.createConsumer("alice")
	b.afterPortion = func(portion int) {
		if portion == 2 {
			fx.clock.add(3 * time.Minute)
			noError(fx, fx.engine.Sweep(fx.Context()))
		}
	}
	_, err := fx.keys.CreateKeys(fx.requestContext(), consumerAt("alice"), make([]keys.NewKey, 100))
	wantFault(t, err, fault.Unavailable)
	fx.finishOperations()
	for key := range fx.memory.Items() {
		if strings.HasPrefix(key.PK, "key-hash#") || strings.HasPrefix(key.PK, "consumer-keys#") {
			t.Fatalf("item %s %s remains, want none", key.PK, key.SK)
		}
	}
}

// concurrentChange is a change while a bulk creation writes its keys. check checks the keys that existed before, and
// the keys or the error of the bulk creation.
type concurrentChange struct {
	name   string
	change func(fx *fixture)
	check  func(t *testing.T, fx *fixture, before, created []keys.Key, err error)
}

func concurrentChanges() []concurrentChange {
	return []concurrentChange{
		{"roll", func(fx *fixture) {
			// The deleted key has a greater id than the keys of the bulk creation.
			noError(fx, fx.keys.DeleteKey(fx.requestContext(), consumerAt("alice"), fx.createKey("alice", keys.NewKey{}).ID))
			noError(fx, fx.keys.RollKey(fx.requestContext(), consumerAt("alice"), fx.clock.Now()))
		}, func(t *testing.T, fx *fixture, before, created []keys.Key, err error) {
			noError(t, err)
			fx.checkAccepted(false, before...)
			fx.checkAccepted(true, created...) // they are published after the roll
		}},
		{"metadata", func(fx *fixture) {
			must[keys.Consumer](fx)(fx.keys.UpdateConsumer(fx.requestContext(), consumerAt("alice"),
				keys.ConsumerPatch{Metadata: store.PatchTo(json.RawMessage(`{"new":1}`))}))
		}, func(t *testing.T, fx *fixture, before, created []keys.Key, err error) {
			noError(t, err)
			for _, k := range append(before, created...) {
				if id, ok := fx.verifyKey(k.Text); !ok || string(id.Data) != `{"new":1}` {
					t.Fatalf("metadata of a verified key = %s (accepted: %t), want new = 1", id.Data, ok)
				}
			}
		}},
		{"consumer deleted", func(fx *fixture) {
			noError(fx, fx.keys.DeleteConsumer(fx.requestContext(), consumerAt("alice")))
		}, func(t *testing.T, fx *fixture, before, created []keys.Key, err error) {
			wantFault(t, err, fault.NotFound)
			fx.checkAccepted(false, before...)
		}},
		{"consumer recreated", func(fx *fixture) {
			noError(fx, fx.keys.DeleteConsumer(fx.requestContext(), consumerAt("alice")))
			fx.createConsumer("alice")
		}, func(t *testing.T, fx *fixture, before, created []keys.Key, err error) {
			wantFault(t, err, fault.NotFound)
			if got := fx.listKeys("alice"); len(got) != 0 {
				t.Fatalf("ListKeys(new consumer) = %d keys, want 0", len(got))
			}
		}},
		{"bucket deleted", func(fx *fixture) {
			noError(fx, fx.keys.DeleteBucket(fx.requestContext(), bucketAt(bucket)))
		}, func(t *testing.T, fx *fixture, before, created []keys.Key, err error) {
			wantFault(t, err, fault.NotFound)
			fx.finishOperations()
			if leftover := fx.leftovers(); len(leftover) > 0 {
				t.Fatalf("%d items remain, such as %s, want 0", len(leftover), leftover[0])
			}
		}},
		{"bulk abandoned", func(fx *fixture) {
			fx.finishOperations()
		}, func(t *testing.T, fx *fixture, before, created []keys.Key, err error) {
			wantFault(t, err, fault.Unavailable)
			fx.checkAccepted(true, before...)
			noError(t, fx.keys.DeleteBucket(fx.requestContext(), bucketAt(bucket)))
			fx.finishOperations()
			if leftover := fx.leftovers(); len(leftover) > 0 {
				t.Fatalf("%d items remain, such as %s, want 0", len(leftover), leftover[0])
			}
		}},
	}
}

func TestBulkCreateWithConcurrentChanges(t *testing.T) {
	for _, test := range concurrentChanges() {
		for _, n := range []int{2, 50} {
			t.Run(fmt.Sprintf("%s with %d keys", test.name, n), func(t *testing.T) {
				b := &interruptedBackend{}
				fx := newFixtureOver(t, memory.New(), func(inner store.Backend) store.Backend { b.Backend = inner; return b })
				fx.createBucket()
				fx.createConsumer("alice")
				before := fx.createKeys("alice", n)
				b.portions = 0
				b.afterPortion = func(portion int) {
					if portion == 2 {
						test.change(fx)
					}
				}
				created, err := fx.keys.CreateKeys(fx.requestContext(), consumerAt("alice"), make([]keys.NewKey, 100))
				b.afterPortion = nil
				test.check(t, fx, before, created, err)
				fx.finishOperations()
				if err == nil {
					test.check(t, fx, before, created, err)
				}
			})
		}
	}
}

// endingBackend cancels the context of a request before one of the transactions that write keys for a bulk creation:
// before the next one if remaining is 1, before the second if it is 2. Transactions with a canceled context fail.
type endingBackend struct {
	store.Backend
	remaining int
	cancel    context.CancelFunc
}

func (b *endingBackend) Transact(ctx context.Context, token string, writes []store.Write) error {
	if len(writes) > 40 {
		if b.remaining--; b.remaining == 0 {
			b.cancel()
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return b.Backend.Transact(ctx, token, writes)
}

// TestBulkUndoOutlivesRequest checks that a bulk creation whose request ends early deletes its keys: their texts can be
// used again immediately.
func TestBulkUndoOutlivesRequest(t *testing.T) {
	b := &endingBackend{}
	fx := newFixtureOver(t, memory.New(), func(inner store.Backend) store.Backend {
		b.Backend = inner
		return b
	})
	fx.createBucket()
	fx.createConsumer("alice")
	batch := make([]keys.NewKey, 200)
	for i := range batch {
		batch[i].Text = fmt.Sprintf("custom-key-number-%04d", i)
	}
	ctx, cancel := context.WithCancel(fx.requestContext())
	defer cancel()
	b.remaining, b.cancel = 3, cancel
	if _, err := fx.keys.CreateKeys(ctx, consumerAt("alice"), batch); err == nil {
		t.Fatal("CreateKeys() of a canceled request succeeds, want an error")
	}
	created := must[[]keys.Key](t)(fx.keys.CreateKeys(fx.requestContext(), consumerAt("alice"), batch))
	fx.checkAccepted(true, created...)
}
