package keys_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/keys"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/memory"
)

// gap has something happen in the middle of the next read of several items: those
// whose partition begins with first are read before, the others after it. And it
// holds the commit that publishes a bulk until it is let go.
type gap struct {
	store.Backend
	mu    sync.Mutex
	first string
	do    func()

	publishing, publish chan struct{}
}

func gapWorld(t *testing.T) (*world, *gap) {
	t.Helper()
	g := &gap{}
	return worldOver(t, memory.New(), func(inner store.Backend) store.Backend { g.Backend = inner; return g }), g
}

func (g *gap) arm(first string, do func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.first, g.do = first, do
}

func (g *gap) Read(ctx context.Context, wanted []store.Key) ([]store.Item, error) {
	g.mu.Lock()
	isFirst := func(k store.Key) bool { return strings.HasPrefix(k.PK, g.first) }
	do := g.do
	if do == nil || len(wanted) < 2 || !slices.ContainsFunc(wanted, isFirst) {
		g.mu.Unlock()
		return g.Backend.Read(ctx, wanted)
	}
	g.do = nil
	rest := slices.DeleteFunc(slices.Clone(wanted), isFirst)
	early := slices.DeleteFunc(slices.Clone(wanted), func(k store.Key) bool { return !isFirst(k) })
	g.mu.Unlock()
	items, err := g.Backend.Read(ctx, early)
	if err != nil {
		return nil, err
	}
	do()
	late, err := g.Backend.Read(ctx, rest)
	return append(items, late...), err
}

func (g *gap) Transact(ctx context.Context, token string, writes []store.Write) error {
	if g.publishing != nil && slices.ContainsFunc(writes, func(w store.Write) bool {
		return w.Kind == store.UpdateKind && strings.HasPrefix(w.Key.PK, "key-batch#")
	}) {
		g.publishing <- struct{}{}
		<-g.publish
	}
	return g.Backend.Transact(ctx, token, writes)
}

func (g *gap) wantUsed(t *testing.T) {
	t.Helper()
	if g.do != nil {
		t.Fatal("nothing happened between the reads")
	}
}

// TestPatchDuringALargeRollKeepsTheExpiry reads the bucket before the roll of
// more keys than one transaction takes, and the consumer and the key after it.
func TestPatchDuringALargeRollKeepsTheExpiry(t *testing.T) {
	w, g := gapWorld(t)
	w.bucket()
	w.consumer("alice")
	made := w.bulk("alice", 45)
	g.arm("buckets#", func() { must0(t, w.keys.RollKey(w.request(), of("alice"), w.clock.Now().Add(time.Hour))) })
	patched := must[keys.Key](t)(w.keys.UpdateKey(w.request(), of("alice"), made[0].ID, keys.KeyPatch{Description: store.PatchTo("patched")}))
	g.wantUsed(t)
	if patched.ExpiresOn == nil {
		t.Error("the answer shows a key that never expires")
	}
	w.settle()
	w.clock.add(2 * time.Hour)
	w.wantOpen(false, made...)
}

// TestRollDuringTheLastCommitOfABulkRollsItsKeys reads the bucket before the bulk
// is published, with the entry that hides its keys, and the consumer after it.
func TestRollDuringTheLastCommitOfABulkRollsItsKeys(t *testing.T) {
	w, g := gapWorld(t)
	w.bucket()
	w.consumer("alice")
	g.publishing, g.publish = make(chan struct{}), make(chan struct{})
	var made []keys.Key
	var bulk sync.WaitGroup
	bulk.Go(func() {
		var err error
		if made, err = w.keys.CreateKeys(w.request(), of("alice"), make([]keys.NewKey, 60)); err != nil {
			t.Error(err)
		}
	})
	<-g.publishing
	g.arm("buckets#", func() { close(g.publish); bulk.Wait() })
	must0(t, w.keys.RollKey(w.request(), of("alice"), w.clock.Now()))
	g.wantUsed(t)
	w.wantOpen(false, made...)
	w.settle()
	w.wantOpen(false, made...)
}

// TestBulkIsNotBornExpired reads the consumer before two rolls that have answered
// before the bulk writes anything, and the bucket after them.
func TestBulkIsNotBornExpired(t *testing.T) {
	w, g := gapWorld(t)
	w.bucket()
	w.consumer("alice")
	old := w.bulk("alice", 45)
	g.arm("consumers#", func() {
		for range 2 {
			must0(t, w.keys.RollKey(w.request(), of("alice"), w.clock.Now()))
		}
	})
	made := w.bulk("alice", 45)
	g.wantUsed(t)
	w.wantOpen(false, old...)
	w.wantOpen(true, made...)
	w.settle()
	w.wantOpen(true, made...)
}

// TestReadThatTookTooLongIsMadeAgain reads a key, and its bucket so much later that
// the roll in between was written into the key and taken out of the bucket.
func TestReadThatTookTooLongIsMadeAgain(t *testing.T) {
	w, g := gapWorld(t)
	w.bucket()
	w.consumer("alice")
	made := w.bulk("alice", 45)
	g.arm("key-hash#", func() {
		must0(t, w.keys.RollKey(w.request(), of("alice"), w.clock.Now()))
		w.settle()
	})
	w.wantOpen(false, made[0])
	g.wantUsed(t)
}
