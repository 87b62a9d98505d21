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

	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/keys"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/memory"
)

func TestBulkShowsAllKeysInOrder(t *testing.T) {
	for _, n := range append(sizes, 1_000) {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			w := newWorld(t)
			w.bucket()
			w.consumer("alice")
			before := w.key("alice", keys.NewKey{})
			made := w.bulk("alice", n)
			w.wantOpen(true, made...)
			got := w.list("alice")
			slices.Reverse(got)
			if len(got) != n+1 || got[0].ID != before.ID {
				t.Fatalf("%d keys in the list", len(got))
			}
			for i, k := range got[1:] {
				if k.ID != made[i].ID || k.Text != made[i].Text {
					t.Fatalf("key %d is %s, want %s", i, k.ID, made[i].ID)
				}
			}
			w.settle()
			w.wantOpen(true, made...)
			if after := w.key("alice", keys.NewKey{}); after.ID <= made[n-1].ID {
				t.Fatal("the next key is not the newest")
			}
		})
	}
}

func TestBulkWithATextInUseMakesNoKeyAndFreesItsTexts(t *testing.T) {
	for _, n := range sizes[1:] {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			w := newWorld(t)
			w.bucket()
			w.consumer("alice")
			w.key("alice", keys.NewKey{Text: "is-in-use-already"})
			batch := make([]keys.NewKey, n)
			for i := range batch {
				batch[i].Text = fmt.Sprintf("custom-key-number-%04d", i)
			}
			good := slices.Clone(batch)
			batch[n-1].Text = "is-in-use-already"
			_, err := w.keys.CreateKeys(w.request(), of("alice"), batch)
			wantFault(t, err, fault.Conflict)
			if got := w.list("alice"); len(got) != 1 {
				t.Fatalf("%d keys are there", len(got))
			}
			w.wantOpen(false, keys.Key{Text: "custom-key-number-0000"})
			made := must[[]keys.Key](t)(w.keys.CreateKeys(w.request(), of("alice"), good))
			w.settle()
			w.wantOpen(true, made...)
			if got := w.list("alice"); len(got) != n+1 {
				t.Fatalf("%d keys are there", len(got))
			}
		})
	}
}

func TestBulkIsCheckedAsAWhole(t *testing.T) {
	w := newWorld(t)
	w.bucket()
	w.consumer("alice")
	for name, batch := range map[string][]keys.NewKey{
		"none":     {},
		"too many": make([]keys.NewKey, 1_000+1),
		"10,000":   make([]keys.NewKey, 10_000),
		"twice":    {{Text: "the-same-text-twice"}, {}, {Text: "the-same-text-twice"}},
		"short":    {{}, {Text: "short"}},
	} {
		_, err := w.keys.CreateKeys(w.request(), of("alice"), batch)
		if err == nil || fault.KindOf(err) != fault.Invalid {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got := w.list("alice"); len(got) != 0 {
		t.Fatalf("%d keys are there", len(got))
	}
}

// interrupted runs do once each time n keys have been written by a bulk.
type interrupted struct {
	store.Backend
	mu       sync.Mutex
	armed    func(portion int)
	portions int
}

func (b *interrupted) Transact(ctx context.Context, token string, writes []store.Write) error {
	err := b.Backend.Transact(ctx, token, writes)
	b.mu.Lock()
	do := b.armed
	if do != nil && err == nil && len(writes) > 40 {
		b.portions++
		b.armed = nil
		b.mu.Unlock()
		do(b.portions)
		b.mu.Lock()
		b.armed = do
	}
	b.mu.Unlock()
	return err
}

func TestNothingOfABulkShowsBeforeAllOfIt(t *testing.T) {
	b := &interrupted{}
	w := worldOver(t, memory.New(), func(inner store.Backend) store.Backend { b.Backend = inner; return b })
	w.bucket()
	w.consumer("alice")
	first := w.key("alice", keys.NewKey{})
	batch := make([]keys.NewKey, 100)
	for i := range batch {
		batch[i].Text = fmt.Sprintf("custom-key-number-%04d", i)
	}
	checks := 0
	b.armed = func(portion int) {
		checks++
		if got := w.list("alice"); len(got) != 1 {
			t.Errorf("after portion %d the list holds %d keys", portion, len(got))
		}
		c := must[keys.Consumer](t)(w.keys.ReadConsumer(w.Context(), of("alice"), keys.Include{Keys: true}))
		if len(c.Keys) != 1 {
			t.Errorf("after portion %d the consumer shows %d keys", portion, len(c.Keys))
		}
		for _, n := range batch {
			w.wantOpen(false, keys.Key{Text: n.Text})
		}
	}
	made := must[[]keys.Key](t)(w.keys.CreateKeys(w.request(), of("alice"), batch))
	b.armed = nil
	if checks != 3 {
		t.Fatalf("checked %d times", checks)
	}
	w.wantOpen(true, append(made, first)...)
}

// TestBulkWritesNothingOnceItWasGivenUp has the operation give a bulk up and
// delete what there is of it while the request that writes it is paused.
func TestBulkWritesNothingOnceItWasGivenUp(t *testing.T) {
	b := &interrupted{}
	w := worldOver(t, memory.New(), func(inner store.Backend) store.Backend { b.Backend = inner; return b })
	w.bucket()
	w.consumer("alice")
	b.armed = func(portion int) {
		if portion == 2 {
			w.clock.add(3 * time.Minute)
			must0(w, w.engine.Sweep(w.Context()))
		}
	}
	_, err := w.keys.CreateKeys(w.request(), of("alice"), make([]keys.NewKey, 100))
	wantFault(t, err, fault.Unavailable)
	w.settle()
	for key := range w.memory.Items() {
		if strings.HasPrefix(key.PK, "key-hash#") || strings.HasPrefix(key.PK, "consumer-keys#") {
			t.Fatalf("%s %s is left", key.PK, key.SK)
		}
	}
}

func TestBulkMeetsOtherChangesOfItsConsumer(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(w *world)
		check  func(t *testing.T, w *world, before, made []keys.Key, err error)
	}{
		{"roll", func(w *world) {
			must0(w, w.keys.DeleteKey(w.request(), of("alice"), w.key("alice", keys.NewKey{}).ID))
			must0(w, w.keys.RollKey(w.request(), of("alice"), w.clock.Now()))
		}, func(t *testing.T, w *world, before, made []keys.Key, err error) {
			must0(t, err)
			w.wantOpen(false, before...)
			w.wantOpen(true, made...) // they were made after the roll
		}},
		{"metadata", func(w *world) {
			must[keys.Consumer](w)(w.keys.UpdateConsumer(w.request(), of("alice"), keys.ConsumerPatch{Metadata: store.PatchTo(json.RawMessage(`{"new":1}`))}))
		}, func(t *testing.T, w *world, before, made []keys.Key, err error) {
			must0(t, err)
			for _, k := range append(before, made...) {
				if id, ok := w.opens(k.Text); !ok || string(id.Data) != `{"new":1}` {
					t.Fatalf("the gateway sees %s", id.Data)
				}
			}
		}},
		{"consumer deleted", func(w *world) {
			must0(w, w.keys.DeleteConsumer(w.request(), of("alice")))
		}, func(t *testing.T, w *world, before, made []keys.Key, err error) {
			wantFault(t, err, fault.NotFound)
			w.wantOpen(false, before...)
		}},
		{"consumer made again", func(w *world) {
			must0(w, w.keys.DeleteConsumer(w.request(), of("alice")))
			w.consumer("alice")
		}, func(t *testing.T, w *world, before, made []keys.Key, err error) {
			wantFault(t, err, fault.NotFound)
			if got := w.list("alice"); len(got) != 0 {
				t.Fatalf("the new consumer has %d keys", len(got))
			}
		}},
		{"bucket deleted", func(w *world) {
			must0(w, w.keys.DeleteBucket(w.request(), in(bucket)))
		}, func(t *testing.T, w *world, before, made []keys.Key, err error) {
			wantFault(t, err, fault.NotFound)
			w.settle()
			if left := w.leftovers(); len(left) > 0 {
				t.Fatalf("%d items are left, such as %s", len(left), left[0])
			}
		}},
		{"taken for dead", func(w *world) {
			w.settle()
		}, func(t *testing.T, w *world, before, made []keys.Key, err error) {
			wantFault(t, err, fault.Unavailable)
			w.wantOpen(true, before...)
			must0(t, w.keys.DeleteBucket(w.request(), in(bucket)))
			w.settle()
			if left := w.leftovers(); len(left) > 0 {
				t.Fatalf("%d items are left, such as %s", len(left), left[0])
			}
		}},
	} {
		for _, n := range []int{2, 50} {
			t.Run(fmt.Sprintf("%s with %d keys", test.name, n), func(t *testing.T) {
				b := &interrupted{}
				w := worldOver(t, memory.New(), func(inner store.Backend) store.Backend { b.Backend = inner; return b })
				w.bucket()
				w.consumer("alice")
				before := w.bulk("alice", n)
				b.portions = 0
				b.armed = func(portion int) {
					if portion == 2 {
						b.armed = nil
						test.change(w)
					}
				}
				made, err := w.keys.CreateKeys(w.request(), of("alice"), make([]keys.NewKey, 100))
				b.armed = nil
				test.check(t, w, before, made, err)
				w.settle()
				if err == nil {
					test.check(t, w, before, made, err)
				}
			})
		}
	}
}

// ending has a request end after n transactions of keys, as a client's or a
// function's does. Nothing is done for a request that has ended.
type ending struct {
	store.Backend
	left int
	end  context.CancelFunc
}

func (b *ending) Transact(ctx context.Context, token string, writes []store.Write) error {
	if len(writes) > 40 {
		if b.left--; b.left == 0 {
			b.end()
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return b.Backend.Transact(ctx, token, writes)
}

// TestUndoOfABulkOutlivesItsRequest: the texts of a request that ended in the
// middle can be used again at once.
func TestUndoOfABulkOutlivesItsRequest(t *testing.T) {
	b := &ending{}
	w := worldOver(t, memory.New(), func(inner store.Backend) store.Backend {
		b.Backend = inner
		return b
	})
	w.bucket()
	w.consumer("alice")
	batch := make([]keys.NewKey, 200)
	for i := range batch {
		batch[i].Text = fmt.Sprintf("custom-key-number-%04d", i)
	}
	ctx, end := context.WithCancel(w.request())
	defer end()
	b.left, b.end = 3, end
	if _, err := w.keys.CreateKeys(ctx, of("alice"), batch); err == nil {
		t.Fatal("a request that has ended made keys")
	}
	made := must[[]keys.Key](t)(w.keys.CreateKeys(w.request(), of("alice"), batch))
	w.wantOpen(true, made...)
}
