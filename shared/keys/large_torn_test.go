package keys_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/keys"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/memory"
)

// torn is a table whose reads are far apart: it reads buckets first, then has
// something happen, then reads the rest. It also lets a process die.
type torn struct {
	store.Backend
	mu         sync.Mutex
	do         func()
	read       func()        // to call when the bucket was read
	bucketRead chan struct{} // closed by it
	// mortal is whether a bulk's first portion is its last.
	mortal, dead bool
}

var errDead = errors.New("the process is dead")

func (b *torn) arm(do func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	bucketRead := make(chan struct{})
	b.do, b.bucketRead, b.mortal = do, bucketRead, true
	b.read = sync.OnceFunc(func() { close(bucketRead) })
}

func (b *torn) take() func() {
	b.mu.Lock()
	defer b.mu.Unlock()
	do := b.do
	b.do = nil
	return do
}

func (b *torn) Read(ctx context.Context, wanted []store.Key) ([]store.Item, error) {
	isBucket := func(k store.Key) bool { return strings.HasPrefix(k.PK, "buckets#") }
	if at := slices.IndexFunc(wanted, isBucket); at >= 0 {
		first, err := b.Backend.Read(ctx, wanted[at:at+1])
		if err != nil {
			return nil, err
		}
		if b.read != nil {
			b.read()
		}
		if len(wanted) > 1 && strings.HasPrefix(wanted[0].PK, "key-hash#") {
			if do := b.take(); do != nil {
				do()
			}
		}
		rest, err := b.Backend.Read(ctx, slices.DeleteFunc(slices.Clone(wanted), isBucket))
		return append(first, rest...), err
	}
	return b.Backend.Read(ctx, wanted)
}

func (b *torn) Query(ctx context.Context, q store.Query) ([]store.Item, string, error) {
	if b.bucketRead != nil {
		<-b.bucketRead
		if do := b.take(); do != nil {
			do()
		}
	}
	return b.Backend.Query(ctx, q)
}

// Transact dies after the first portion of a bulk.
func (b *torn) Transact(ctx context.Context, token string, writes []store.Write) error {
	if b.dead {
		return errDead
	}
	err := b.Backend.Transact(ctx, token, writes)
	b.dead = b.mortal && len(writes) > 40
	return err
}

// TestReaderWithAnOldBucketSeesNothingOfABatch is about a reader that got the
// bucket before the batch's mark was there and the keys after they were.
func TestReaderWithAnOldBucketSeesNothingOfABatch(t *testing.T) {
	for name, count := range map[string]func(w *world) int{
		"gateway": func(w *world) int {
			if _, open := w.opens("custom-key-number-0000"); open {
				return 1
			}
			return 0
		},
		"list": func(w *world) int { return len(w.list("alice")) },
		"consumer": func(w *world) int {
			c := must[keys.Consumer](w)(w.keys.ReadConsumer(w.Context(), of("alice"), keys.Include{Keys: true}))
			return len(c.Keys)
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := &torn{}
			w := worldOver(t, memory.New(), func(inner store.Backend) store.Backend { b.Backend = inner; return b })
			w.bucket()
			w.consumer("alice")
			batch := make([]keys.NewKey, 60)
			for i := range batch {
				batch[i].Text = fmt.Sprintf("custom-key-number-%04d", i)
			}
			b.arm(func() {
				if _, err := w.keys.CreateKeys(w.request(), of("alice"), batch); !errors.Is(err, errDead) {
					t.Errorf("the bulk answered %v", err)
				}
			})
			if n := count(w); n != 0 {
				t.Fatalf("%d keys of the batch show", n)
			}
			if !b.dead {
				t.Fatal("nothing happened in between")
			}
			b.mortal, b.dead = false, false
			w.settle()
			if n := count(w); n != 0 {
				t.Fatalf("%d keys of the batch show when it was given up", n)
			}
			must[[]keys.Key](t)(w.keys.CreateKeys(w.request(), of("alice"), batch[:30]))
		})
	}
}

// TestDeletedBucketIsMissingWhereItsGenerationIsUnknown is about a process that
// has seen neither of two deletions: it reads the consumer of the first bucket,
// which a batch has changed, under the record of the second.
func TestDeletedBucketIsMissingWhereItsGenerationIsUnknown(t *testing.T) {
	w := newWorld(t)
	w.bucket()
	w.consumer("alice")
	must[[]keys.Key](t)(w.keys.CreateKeys(w.request(), of("alice"), make([]keys.NewKey, 41)))
	must0(t, w.keys.DeleteBucket(w.request(), in(bucket)))
	w.bucket()
	must0(t, w.keys.DeleteBucket(w.request(), in(bucket)))

	w.keys = w.instances[1]
	if _, err := w.keys.ReadConsumer(w.Context(), of("alice"), keys.Include{}); !fault.Is(err, fault.NotFound) {
		t.Fatalf("a consumer of a deleted bucket: %v", err)
	}
	if _, err := w.keys.CreateKeys(w.request(), of("alice"), make([]keys.NewKey, 2)); !fault.Is(err, fault.NotFound) {
		t.Fatalf("keys in a deleted bucket: %v", err)
	}
}
