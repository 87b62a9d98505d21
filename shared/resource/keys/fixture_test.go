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

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/base/ids"
	"github.com/gatewright/gatewright/shared/core/audit"
	"github.com/gatewright/gatewright/shared/core/auth"
	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/core/operation"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/memory"
	"github.com/gatewright/gatewright/shared/core/store/storetest"
	"github.com/gatewright/gatewright/shared/resource/keys"
)

// TestMain makes garbage collections less frequent, because simulations create thousands of small, short-lived
// fixtures.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	os.Exit(m.Run())
}

// fixture is a keys.Service with a table in memory and a clock that the test controls.
type fixture struct {
	testing.TB
	memory *memory.Backend
	table  *store.Table
	keys   *keys.Service
	// instances are the services of two processes, with separate caches. The field keys is the first of them.
	instances []*keys.Service
	verifier  *keys.Verifier
	engine    *operation.Engine
	clock     *clock
	requests  *atomic.Int64
}

func newFixture(t testing.TB) *fixture {
	t.Helper()
	return newFixtureOver(t, memory.New(), nil)
}

// newFixtureOver returns a fixture with the backend that wrap returns, or with memory itself if wrap is nil.
func newFixtureOver(t testing.TB, memory *memory.Backend, wrap func(store.Backend) store.Backend) *fixture {
	t.Helper()
	c := &clock{now: storetest.Epoch}
	var backend store.Backend = memory
	if wrap != nil {
		backend = wrap(memory)
	}
	fx := newFixtureOn(t, storetest.NewWithBackend(t, backend, storetest.Clock(c.Now)), c)
	fx.memory = memory
	return fx
}

// newFixtureOn returns a fixture with a table and a clock.
func newFixtureOn(t testing.TB, table *store.Table, c *clock) *fixture {
	t.Helper()
	parts := installation.Parts{
		Table: table, Key: testRootKey{}, IDs: ids.NewSource(storetest.Random(t), c.Now),
		Now: c.Now,
	}
	fx := &fixture{
		TB: t, table: table, clock: c, requests: new(atomic.Int64),
		instances: []*keys.Service{keys.Open(parts), keys.Open(parts)},
		verifier:  keys.OpenVerifier(parts),
	}
	fx.keys = fx.instances[0]
	engine, err := operation.New(table, keys.NewCascades(table).Definitions(), operation.Options{
		Now: c.Now, Random: storetest.Random(t), Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	fx.engine = engine
	return fx
}

// testRootKey provides a root key for tests.
type testRootKey struct{}

func (testRootKey) Root(context.Context) ([]byte, error) {
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

// fullViewer is a Viewer that can see everything in the account.
type fullViewer struct{}

func (fullViewer) CanSeeProject(string) bool { return true }

func (fullViewer) CanSee(string, string) bool { return true }

const (
	accountID = "0b6c3a52-9a4e-4d0c-8a7e-3c1d1f0c9f11"
	account   = "acme"
	bucket    = "orders"
)

var owner = auth.Owner{AccountID: accountID, Account: account, Viewer: fullViewer{}}

func bucketAt(name string) keys.BucketLocator { return keys.BucketLocator{Owner: owner, Bucket: name} }

func consumerAt(consumer string) keys.ConsumerLocator {
	return keys.ConsumerLocator{BucketLocator: bucketAt(bucket), Consumer: consumer}
}

func bucketRef() keys.BucketRef { return keys.BucketRef{AccountID: accountID, Name: bucket} }

// all is a page that is longer than any list in these tests.
var all = store.Page{Limit: 100_000}

// requestContext returns the context of a new request, with its own audit record and its own read set.
func (fx *fixture) requestContext() context.Context {
	return store.WithReadSet(audit.WithRequest(fx.Context(), &audit.Request{
		AccountID: accountID, Action: "consumer.update", Time: fx.clock.Now(),
		RequestID: fmt.Sprintf("request-%d", fx.requests.Add(1)),
	}))
}

// finishOperations advances the clock by 100 minutes, with a sweep every 5 minutes. All operations of these tests end
// in this time.
func (fx *fixture) finishOperations() {
	fx.Helper()
	for range 20 {
		fx.clock.add(5 * time.Minute)
		noError(fx, fx.engine.Sweep(fx.Context()))
	}
}

// must returns a function that returns the first of its arguments, or fails the test if the second is an error.
func must[T any](t testing.TB) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		noError(t, err)
		return v
	}
}

func noError(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// wantFault fails the test unless err is a fault of the kind.
func wantFault(t testing.TB, err error, kind fault.Kind) {
	t.Helper()
	if err == nil || fault.KindOf(err) != kind {
		t.Fatalf("error = %v (kind %v), want a fault of kind %v", err, fault.KindOf(err), kind)
	}
}

// createBucket creates the bucket that consumerAt and bucketRef identify.
func (fx *fixture) createBucket() keys.Bucket {
	fx.Helper()
	return must[keys.Bucket](fx)(fx.keys.CreateBucket(fx.requestContext(), owner, keys.NewBucket{Name: bucket}))
}

func (fx *fixture) createConsumer(name string) keys.Consumer {
	fx.Helper()
	return must[keys.Consumer](fx)(fx.keys.CreateConsumer(fx.requestContext(), bucketAt(bucket),
		keys.NewConsumer{Name: name}))
}

func (fx *fixture) createKey(consumer string, n keys.NewKey) keys.Key {
	fx.Helper()
	return must[keys.Key](fx)(fx.keys.CreateKey(fx.requestContext(), consumerAt(consumer), n))
}

// createKeys creates n keys of a consumer in one call.
func (fx *fixture) createKeys(consumer string, n int) []keys.Key {
	fx.Helper()
	return must[[]keys.Key](fx)(fx.keys.CreateKeys(fx.requestContext(), consumerAt(consumer), make([]keys.NewKey, n)))
}

// listKeys returns all keys of a consumer with their texts.
func (fx *fixture) listKeys(consumer string) []keys.Key {
	fx.Helper()
	got, _, total, err := fx.keys.ListKeys(fx.Context(), consumerAt(consumer), all, keys.Visible)
	noError(fx, err)
	if total != len(got) {
		fx.Fatalf("ListKeys() = %d keys, total %d, want the same number", len(got), total)
	}
	return got
}

// verifyKey returns the identity for a text, and reports whether the gateway accepts the text.
func (fx *fixture) verifyKey(text string) (keys.Identity, bool) {
	fx.Helper()
	id, err := fx.verifier.Verify(fx.Context(), bucketRef(), text)
	if err != nil {
		wantFault(fx, err, fault.Unauthenticated)
		return keys.Identity{}, false
	}
	return id, true
}

// checkAccepted fails the test unless the gateway accepts all keys in created, or none if want is false.
func (fx *fixture) checkAccepted(want bool, created ...keys.Key) {
	fx.Helper()
	for i, k := range created {
		if _, got := fx.verifyKey(k.Text); got != want {
			fx.Fatalf("key %d of %d, %s: accepted = %v, want %v", i, len(created), k.ID, got, want)
		}
	}
}

// leftovers returns the table keys of all records that are not permanent.
func (fx *fixture) leftovers() []string {
	var out []string
	for key := range fx.memory.Items() {
		if !isPermanent(key) {
			out = append(out, key.PK+" "+key.SK)
		}
	}
	return out
}
