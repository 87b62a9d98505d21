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

	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/keys"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/memory"
)

// between does something after the rows of a consumer's keys were queried and
// before the records that are read at the same time are: the two are one
// round trip and no snapshot.
type between struct {
	store.Backend
	mu      sync.Mutex
	do      func()
	queried chan struct{}
}

func (b *between) arm(do func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.do, b.queried = do, make(chan struct{})
}

func (b *between) Query(ctx context.Context, q store.Query) ([]store.Item, string, error) {
	items, next, err := b.Backend.Query(ctx, q)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.do != nil && strings.HasPrefix(q.PK, "consumer-keys#") {
		close(b.queried)
	}
	return items, next, err
}

func (b *between) Read(ctx context.Context, keys []store.Key) ([]store.Item, error) {
	b.mu.Lock()
	do, queried := b.do, b.queried
	b.mu.Unlock()
	if do != nil && len(keys) > 1 {
		<-queried
		b.mu.Lock()
		b.do = nil
		b.mu.Unlock()
		do()
	}
	return b.Backend.Read(ctx, keys)
}

func TestKeyMadeBetweenTwoReadsIsNotMissed(t *testing.T) {
	for _, n := range []int{0, 1, 39, 40} {
		for _, test := range []struct {
			name   string
			change func(w *world) error
			check  func(t *testing.T, w *world, late keys.Key)
		}{
			{"delete", func(w *world) error {
				return w.keys.DeleteConsumer(w.request(), of("alice"))
			}, func(t *testing.T, w *world, late keys.Key) {
				w.wantOpen(false, late)
				w.settle()
				must0(t, w.keys.DeleteBucket(w.request(), in(bucket)))
				w.settle()
				if left := w.leftovers(); len(left) > 0 {
					t.Fatalf("%d items are left, such as %s", len(left), left[0])
				}
			}},
			{"roll", func(w *world) error {
				return w.keys.RollKey(w.request(), of("alice"), w.clock.Now())
			}, func(t *testing.T, w *world, late keys.Key) {
				w.wantOpen(false, late)
			}},
			{"metadata", func(w *world) error {
				_, err := w.keys.UpdateConsumer(w.request(), of("alice"), keys.ConsumerPatch{Metadata: store.PatchTo(json.RawMessage(`{"new":1}`))})
				return err
			}, func(t *testing.T, w *world, late keys.Key) {
				if id, ok := w.opens(late.Text); !ok || string(id.Data) != `{"new":1}` {
					t.Fatalf("the gateway sees %s", id.Data)
				}
			}},
		} {
			for _, replaced := range []bool{false, true} {
				t.Run(test.name, func(t *testing.T) {
					b := &between{}
					w := worldOver(t, memory.New(), func(inner store.Backend) store.Backend { b.Backend = inner; return b })
					w.bucket()
					w.consumer("alice")
					var some []keys.Key
					if n > 0 {
						some = w.bulk("alice", n)
					}
					var late keys.Key
					b.arm(func() {
						// With one deleted for the one made the number is the same.
						if replaced && n > 0 {
							must0(t, w.keys.DeleteKey(w.request(), of("alice"), some[0].ID))
						}
						late = w.key("alice", keys.NewKey{})
					})
					must0(t, test.change(w))
					if late.ID == "" {
						t.Fatal("nothing happened in between")
					}
					test.check(t, w, late)
				})
			}
		}
	}
}

func TestExpiryClearedBetweenTwoReadsIsRolled(t *testing.T) {
	b := &between{}
	w := worldOver(t, memory.New(), func(inner store.Backend) store.Backend { b.Backend = inner; return b })
	w.bucket()
	w.consumer("alice")
	k := w.key("alice", keys.NewKey{ExpiresOn: new(w.clock.Now().Add(time.Hour))})
	b.arm(func() {
		must[keys.Key](t)(w.keys.UpdateKey(w.request(), of("alice"), k.ID, keys.KeyPatch{ExpiresOn: store.PatchClear[time.Time]()}))
	})
	must0(t, w.keys.RollKey(w.request(), of("alice"), w.clock.Now()))
	w.wantOpen(false, k)
}

// late does something before the next commit reaches the table, as if the
// process that makes it had paused; and after the next query of a consumer's
// keys.
type late struct {
	store.Backend
	beforeCommit, afterQuery func()
}

func (b *late) Transact(ctx context.Context, token string, writes []store.Write) error {
	if do := b.beforeCommit; do != nil {
		b.beforeCommit = nil
		do()
	}
	return b.Backend.Transact(ctx, token, writes)
}

func (b *late) Query(ctx context.Context, q store.Query) ([]store.Item, string, error) {
	items, next, err := b.Backend.Query(ctx, q)
	if do := b.afterQuery; do != nil && strings.HasPrefix(q.PK, "consumer-keys#") {
		b.afterQuery = nil
		do()
	}
	return items, next, err
}

func lateWorld(t *testing.T) (*world, *late) {
	t.Helper()
	b := &late{}
	return worldOver(t, memory.New(), func(inner store.Backend) store.Backend { b.Backend = inner; return b }), b
}

// TestWhatACreationLeavesInADeletedBucketIsSwept has requests read the bucket
// before its deletion and commit at the worst times after it.
func TestWhatACreationLeavesInADeletedBucketIsSwept(t *testing.T) {
	for name, create := range map[string]func(w *world) error{
		"key": func(w *world) error {
			_, err := w.keys.CreateKey(w.request(), of("alice"), keys.NewKey{})
			return err
		},
		"consumer": func(w *world) error {
			_, err := w.keys.CreateConsumer(w.request(), in(bucket), keys.NewConsumer{Name: "bob", WithKey: true, Tags: map[string]string{"a": "1"}})
			return err
		},
	} {
		for when, sweep := range map[string]func(w *world, b *late, commit func()){
			"before the sweep": func(_ *world, _ *late, commit func()) { commit() },
			"while a consumer is swept": func(w *world, b *late, commit func()) {
				b.afterQuery = commit
				w.clock.add(time.Second)
				must0(t, w.engine.Sweep(w.Context()))
			},
			"after the first sweep": func(w *world, _ *late, commit func()) {
				w.clock.add(time.Second)
				must0(t, w.engine.Sweep(w.Context()))
				commit()
			},
		} {
			t.Run(name+" "+when, func(t *testing.T) {
				w, b := lateWorld(t)
				w.bucket()
				w.consumer("alice")
				w.key("alice", keys.NewKey{})
				var paused sync.WaitGroup
				reached, commit := make(chan struct{}), make(chan struct{})
				b.beforeCommit = func() { close(reached); <-commit }
				paused.Go(func() {
					if err := create(w); err != nil && !fault.Is(err, fault.NotFound) {
						t.Error(err)
					}
				})
				<-reached
				must0(t, w.keys.DeleteBucket(w.request(), in(bucket)))
				sweep(w, b, func() { close(commit); paused.Wait() })
				w.settle()
				if left := w.leftovers(); len(left) > 0 {
					t.Fatalf("%d items are left, such as %s", len(left), left[0])
				}
			})
		}
	}
}

// TestTextReplacedBetweenTwoReadsOpensNothingAfterwards has a key get another
// text after its row was queried for a change of all keys.
func TestTextReplacedBetweenTwoReadsOpensNothingAfterwards(t *testing.T) {
	const text = "a-key-of-our-own-0123456789"
	for name, change := range map[string]func(w *world) error{
		"delete": func(w *world) error { return w.keys.DeleteConsumer(w.request(), of("alice")) },
		"roll":   func(w *world) error { return w.keys.RollKey(w.request(), of("alice"), w.clock.Now()) },
	} {
		t.Run(name, func(t *testing.T) {
			b := &between{}
			w := worldOver(t, memory.New(), func(inner store.Backend) store.Backend { b.Backend = inner; return b })
			w.bucket()
			w.consumer("alice")
			k := w.key("alice", keys.NewKey{})
			b.arm(func() { must[keys.Key](t)(w.keys.UpdateKey(w.request(), of("alice"), k.ID, keys.KeyPatch{Text: text})) })
			must0(t, change(w))
			w.wantOpen(false, k, keys.Key{Text: text})
		})
	}
}

// TestChangeIsOfTheBucketThatWasNamed has the bucket deleted, and made anew,
// between what a change of it reads and what it commits.
func TestChangeIsOfTheBucketThatWasNamed(t *testing.T) {
	for name, change := range map[string]func(w *world, id string) error{
		"update": func(w *world, id string) error {
			_, err := w.keys.UpdateBucket(w.request(), in(id), keys.BucketPatch{Description: store.PatchTo("of the old one")})
			return err
		},
		"delete": func(w *world, id string) error { return w.keys.DeleteBucket(w.request(), in(id)) },
	} {
		for _, anew := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, made anew %v", name, anew), func(t *testing.T) {
				w, b := lateWorld(t)
				old := w.bucket()
				var want []keys.Bucket
				b.beforeCommit = func() {
					must0(t, w.keys.DeleteBucket(w.request(), in(bucket)))
					if anew {
						want = append(want, w.bucket())
					}
				}
				wantFault(t, change(w, old.ID), fault.NotFound)
				got, _, err := w.keys.ListBuckets(w.Context(), owner, all)
				must0(t, err)
				if !reflect.DeepEqual(got, want) {
					t.Errorf("there is %+v, want %+v", got, want)
				}
			})
		}
	}
}

// TestChangeIsOfTheConsumerThatWasNamed has the consumer deleted and made anew
// in between. The new one has the same version.
func TestChangeIsOfTheConsumerThatWasNamed(t *testing.T) {
	for name, change := range map[string]func(w *world, id string) error{
		"update": func(w *world, id string) error {
			_, err := w.keys.UpdateConsumer(w.request(), of(id), keys.ConsumerPatch{Description: store.PatchTo("of the old one")})
			return err
		},
		"delete": func(w *world, id string) error { return w.keys.DeleteConsumer(w.request(), of(id)) },
	} {
		t.Run(name, func(t *testing.T) {
			w, b := lateWorld(t)
			w.bucket()
			old := w.consumer("alice")
			var want keys.Consumer
			b.beforeCommit = func() {
				must0(t, w.keys.DeleteConsumer(w.request(), of("alice")))
				want = w.consumer("alice")
			}
			wantFault(t, change(w, old.ID), fault.NotFound)
			got := must[keys.Consumer](t)(w.keys.ReadConsumer(w.Context(), of("alice"), keys.Include{}))
			if !reflect.DeepEqual(got, want) {
				t.Errorf("there is %+v, want %+v", got, want)
			}
		})
	}
}

// TestEveryBucketOfANameHasItsOwnConsumers has one more bucket come and go
// between what a creation reads and what it commits.
func TestEveryBucketOfANameHasItsOwnConsumers(t *testing.T) {
	w, b := lateWorld(t)
	remove := func() { must0(t, w.keys.DeleteBucket(w.request(), in(bucket))) }
	w.bucket()
	remove()
	b.beforeCommit = func() {
		w.bucket()
		w.consumer("alice")
		remove()
	}
	w.bucket()
	_, err := w.keys.ReadConsumer(w.Context(), of("alice"), keys.Include{})
	wantFault(t, err, fault.NotFound)
}
