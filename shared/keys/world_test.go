package keys_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/audit"
	"github.com/gatewright/gatewright/shared/auth"
	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/ids"
	"github.com/gatewright/gatewright/shared/installation"
	"github.com/gatewright/gatewright/shared/keys"
	"github.com/gatewright/gatewright/shared/operation"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/memory"
	"github.com/gatewright/gatewright/shared/store/storetest"
)

// TestMain has garbage collected less often: simulations make thousands of small worlds, each for a moment.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	os.Exit(m.Run())
}

// world is the service over a table in memory, with a clock that a test moves.
type world struct {
	testing.TB
	memory *memory.Backend
	table  *store.Table
	keys   *keys.Service
	// instances are keys and another process's, which remembers other things.
	instances []*keys.Service
	verifier  *keys.Verifier
	engine    *operation.Engine
	clock     *clock
	requests  *atomic.Int64
}

func newWorld(t testing.TB) *world {
	t.Helper()
	return worldOver(t, memory.New(), nil)
}

// worldOver makes a world whose table goes through wrap, nil for none.
func worldOver(t testing.TB, memory *memory.Backend, wrap func(store.Backend) store.Backend) *world {
	t.Helper()
	c := &clock{now: storetest.Epoch}
	var backend store.Backend = memory
	if wrap != nil {
		backend = wrap(memory)
	}
	w := worldOn(t, storetest.Over(t, backend, storetest.Clock(c.Now)), c)
	w.memory = memory
	return w
}

// worldOn makes a world on a table.
func worldOn(t testing.TB, table *store.Table, c *clock) *world {
	t.Helper()
	parts := installation.Parts{Table: table, Key: root{}, IDs: ids.NewSource(storetest.Random(t), c.Now), Now: c.Now}
	w := &world{
		TB: t, table: table, clock: c, requests: new(atomic.Int64),
		instances: []*keys.Service{keys.Open(parts), keys.Open(parts)},
		verifier:  keys.OpenVerifier(parts),
	}
	w.keys = w.instances[0]
	engine, err := operation.New(table, keys.NewCascades(table).Definitions(), operation.Options{
		Now: c.Now, Random: storetest.Random(t), Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	w.engine = engine
	return w
}

// root is a root key that no installation has.
type root struct{}

func (root) Root(context.Context) ([]byte, error) {
	return []byte("0123456789abcdef0123456789abcdef"), nil
}

type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// everything sees the whole account.
type everything struct{}

func (everything) SeesProject(string) bool { return true }

func (everything) MaySee(string, string) bool { return true }

const (
	accountID = "0b6c3a52-9a4e-4d0c-8a7e-3c1d1f0c9f11"
	account   = "acme"
	bucket    = "orders"
)

var owner = auth.Owner{AccountID: accountID, Account: account, Viewer: everything{}}

func in(name string) keys.BucketAt { return keys.BucketAt{Owner: owner, Bucket: name} }

func of(consumer string) keys.ConsumerAt {
	return keys.ConsumerAt{BucketAt: in(bucket), Consumer: consumer}
}

func ref() keys.BucketRef { return keys.BucketRef{AccountID: accountID, Name: bucket} }

// all is a page that holds everything a test makes.
var all = store.Page{Limit: 100_000}

// request is the context of one request, which is audited and a decision.
func (w *world) request() context.Context {
	return store.Decide(audit.With(w.Context(), &audit.Request{
		AccountID: accountID, Action: "consumer.update", Time: w.clock.Now(),
		RequestID: fmt.Sprintf("request-%d", w.requests.Add(1)),
	}))
}

// settle lets time pass until all operations have ended.
func (w *world) settle() {
	w.Helper()
	for range 20 {
		w.clock.add(5 * time.Minute)
		must0(w, w.engine.Sweep(w.Context()))
	}
}

// must gives the value of a call that may not fail.
func must[T any](t testing.TB) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		must0(t, err)
		return v
	}
}

func must0(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// wantFault fails unless err is a fault of the kind.
func wantFault(t testing.TB, err error, kind fault.Kind) {
	t.Helper()
	if err == nil || fault.KindOf(err) != kind {
		t.Fatalf("got %v (kind %d), want a fault of kind %d", err, fault.KindOf(err), kind)
	}
}

// bucket makes the bucket that of and ref mean.
func (w *world) bucket() keys.Bucket {
	w.Helper()
	return must[keys.Bucket](w)(w.keys.CreateBucket(w.request(), owner, keys.NewBucket{Name: bucket}))
}

func (w *world) consumer(name string) keys.Consumer {
	w.Helper()
	return must[keys.Consumer](w)(w.keys.CreateConsumer(w.request(), in(bucket), keys.NewConsumer{Name: name}))
}

func (w *world) key(consumer string, n keys.NewKey) keys.Key {
	w.Helper()
	return must[keys.Key](w)(w.keys.CreateKey(w.request(), of(consumer), n))
}

// bulk makes n keys at once.
func (w *world) bulk(consumer string, n int) []keys.Key {
	w.Helper()
	return must[[]keys.Key](w)(w.keys.CreateKeys(w.request(), of(consumer), make([]keys.NewKey, n)))
}

// list gives all keys of a consumer with their texts.
func (w *world) list(consumer string) []keys.Key {
	w.Helper()
	got, _, total, err := w.keys.ListKeys(w.Context(), of(consumer), all, keys.Visible)
	must0(w, err)
	if total != len(got) {
		w.Fatalf("the list of keys says there are %d, and holds %d", total, len(got))
	}
	return got
}

// opens reports whether the text is let in, and by whom.
func (w *world) opens(text string) (keys.Identity, bool) {
	w.Helper()
	id, err := w.verifier.Verify(w.Context(), ref(), text)
	if err != nil {
		wantFault(w, err, fault.Unauthenticated)
		return keys.Identity{}, false
	}
	return id, true
}

// wantOpen fails unless every text does, or does not, open the bucket.
func (w *world) wantOpen(want bool, made ...keys.Key) {
	w.Helper()
	for i, k := range made {
		if _, got := w.opens(k.Text); got != want {
			w.Fatalf("key %d of %d, %s: opens %v, want %v", i, len(made), k.ID, got, want)
		}
	}
}

// leftovers lists the partitions that still hold something besides records that
// stay for ever.
func (w *world) leftovers() []string {
	var out []string
	for key := range w.memory.Items() {
		if !lasting(key) {
			out = append(out, key.PK+" "+key.SK)
		}
	}
	return out
}
