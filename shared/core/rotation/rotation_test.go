package rotation_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/base/ids"
	"github.com/gatewright/gatewright/shared/core/audit"
	"github.com/gatewright/gatewright/shared/core/auth"
	"github.com/gatewright/gatewright/shared/core/blob"
	"github.com/gatewright/gatewright/shared/core/config"
	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/core/rotation"
	"github.com/gatewright/gatewright/shared/core/seal"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/memory"
	"github.com/gatewright/gatewright/shared/core/store/rootkey"
	"github.com/gatewright/gatewright/shared/core/store/storetest"
	"github.com/gatewright/gatewright/shared/resource/keys"
	"github.com/gatewright/gatewright/shared/resource/tunnels"
	"github.com/gatewright/gatewright/shared/runtime/durable"
	"github.com/gatewright/gatewright/shared/testing/simulations"
)

// fixture is an installation whose root key is in a file. If backend.random is set, its processes fail at random.
type fixture struct {
	*testing.T
	items    *memory.Backend
	backend  *flakyBackend
	objects  *blob.Memory
	path     string
	now      time.Time
	requests atomic.Int64
	// processes is the number of processes that were started.
	processes int
	// data has the data that must stay usable in all processes, even in a process that does not know the current stage yet.
	data *testData
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	fx := &fixture{T: t, items: memory.New(), path: filepath.Join(t.TempDir(), "root.key"), now: storetest.Epoch}
	fx.backend = &flakyBackend{Backend: fx.items}
	fx.objects = blob.NewMemory(func() time.Time { return fx.now })
	return fx
}

// flakyBackend fails at random, before or after a transaction, as if the process had been killed there.
type flakyBackend struct {
	*memory.Backend
	random *rand.Rand // nil means that no call fails
	reads  atomic.Int64
	// unusualPages makes Page return unusual pages: empty pages before the end
	// and small pages, as DynamoDB may, and pages that also have items of the first page.
	unusualPages bool
	n            int // the number of calls of Page if unusualPages is set
}

func (b *flakyBackend) Page(ctx context.Context, after store.Key, limit int) ([]store.Item, store.Key, error) {
	if !b.unusualPages {
		return b.Backend.Page(ctx, after, limit)
	}
	const kinds = 4
	limit = min(limit, 7)
	switch b.n++; b.n % kinds {
	case 0:
		if after != (store.Key{}) {
			return nil, after, nil // an empty page before the end
		}
	case 1:
		limit = 1
	case 2:
		items, last, err := b.Backend.Page(ctx, after, limit)
		repeated, _, _ := b.Backend.Page(ctx, store.Key{}, 3)
		return append(items, repeated...), last, err
	}
	return b.Backend.Page(ctx, after, limit)
}

var errKilled = errors.New("the process was killed")

func (b *flakyBackend) Read(ctx context.Context, keys []store.Key) ([]store.Item, error) {
	b.reads.Add(int64(len(keys)))
	return b.Backend.Read(ctx, keys)
}

func (b *flakyBackend) Transact(ctx context.Context, token string, writes []store.Write) error {
	roll := 100
	if b.random != nil {
		roll = b.random.IntN(8)
	}
	if roll == 0 {
		return errKilled
	}
	if err := b.Backend.Transact(ctx, token, writes); err != nil || roll != 1 {
		return err
	}
	return errKilled
}

// process returns the parts of a process that has just started.
func (fx *fixture) process() installation.Parts {
	clock := func() time.Time { return fx.now }
	table := storetest.NewWithBackend(fx, fx.backend, storetest.Clock(clock))
	fx.processes++
	random := rand.NewChaCha8([32]byte{byte(fx.processes), byte(fx.processes >> 8)}) // different for each process
	return installation.Parts{
		Config: config.Config{Relay: "https://relay.test"}, Table: table, Bucket: fx.objects,
		Key:    rootkey.NewFile(fx.path, table, clock, nil),
		Random: random, Now: clock, IDs: ids.NewSource(random, clock), Log: slog.New(slog.DiscardHandler),
	}
}

// request returns the context of a request of the account.
func (fx *fixture) request() context.Context {
	return audit.WithRequest(fx.Context(), &audit.Request{
		AccountID: "a-1", Action: "consumer.update", Time: fx.now,
		RequestID: fmt.Sprintf("request-%d", fx.requests.Add(1)),
	})
}

var owner = auth.Owner{AccountID: "a-1", Account: "acme", Viewer: auth.Principal{Permissions: auth.Full()}}

func consumerAt(bucket string) keys.ConsumerLocator {
	return keys.ConsumerLocator{BucketLocator: keys.BucketLocator{Owner: owner, Bucket: bucket}, Consumer: "c"}
}

// testData has the texts of keys and the token of a tunnel, with the buckets and the tunnel that they belong to.
type testData struct {
	keys   map[string]string // the bucket of each key, by the key's text
	tunnel string            // the id of a tunnel
	token  string
}

// must returns a function that returns v. The function fails the test if err is not nil.
func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// fill creates a tunnel, and n keys in each of two buckets: one bucket can show its keys again, the other cannot.
func (fx *fixture) fill(n int) *testData {
	fx.Helper()
	p := fx.process()
	s, out := keys.Open(p), &testData{keys: map[string]string{}}
	for _, b := range []keys.NewBucket{{Name: "shown"}, {Name: "forgotten", Unretrievable: true}} {
		must(s.CreateBucket(fx.request(), owner, b))(fx)
		must(s.CreateConsumer(fx.request(), consumerAt(b.Name).BucketLocator, keys.NewConsumer{Name: "c"}))(fx)
		for created := 0; created < n; created += 40 {
			for _, k := range must(s.CreateKeys(fx.request(), consumerAt(b.Name), make([]keys.NewKey, min(40, n-created))))(fx) {
				out.keys[k.Text] = b.Name
			}
		}
	}
	tunnel := must(tunnels.Open(p).Create(fx.request(), owner, "office"))(fx)
	out.tunnel, out.token = tunnel.ID, tunnel.Token
	return out
}

// checkUsable checks that a process accepts keys (up to 50, chosen at random) and the tunnel's token, and that it shows
// the texts of some keys and of the token. maxReads is the maximum number of items that the check of a key may read.
func (fx *fixture) checkUsable(p installation.Parts, k *testData, maxReads int64, stage string) {
	fx.Helper()
	verifier := keys.OpenVerifier(p)
	_ = must(p.Key.Root(fx.Context()))(fx) // read the root key before, so that its read is not counted
	n := 0
	for text, bucket := range k.keys {
		if n++; n > 50 {
			break // the next call checks other keys: the order of a map is random
		}
		before := fx.backend.reads.Load()
		if _, err := verifier.Verify(fx.Context(), keys.BucketRef{AccountID: "a-1", Name: bucket}, text); err != nil {
			fx.Fatalf("%s: Verify() of a key in bucket %s = %v, want success", stage, bucket, err)
		}
		if reads := fx.backend.reads.Load() - before; reads > maxReads {
			fx.Fatalf("%s: a check of a key reads %d items, want at most %d", stage, reads, maxReads)
		}
	}
	shown, _, _, err := keys.Open(p).ListKeys(fx.request(), consumerAt("shown"), store.Page{Limit: 5}, keys.Visible)
	if err != nil {
		fx.Fatalf("%s: ListKeys() = %v, want success", stage, err)
	}
	if len(shown) == 0 {
		fx.Fatalf("%s: ListKeys() returns no keys, want some", stage)
	}
	for _, key := range shown {
		if k.keys[key.Text] != "shown" {
			fx.Fatalf("%s: ListKeys() returns the key text %q, want one of the consumer", stage, key.Text)
		}
	}
	if ref, err := tunnels.OpenDirectory(p).Authenticate(fx.Context(), k.token); err != nil || ref != "a-1/"+k.tunnel {
		fx.Fatalf("%s: Authenticate(token) = %q, %v, want %q", stage, ref, err, "a-1/"+k.tunnel)
	}
	if tunnel, err := tunnels.Open(p).Read(fx.request(), owner, k.tunnel); err != nil || tunnel.Token != k.token {
		fx.Fatalf("%s: Read(%s) = token %q, %v, want %q", stage, k.tunnel, tunnel.Token, err, k.token)
	}
	if _, err := keys.Open(p).ReadBucket(fx.request(), consumerAt("shown").BucketLocator); err != nil {
		fx.Fatalf("%s: ReadBucket() = %v, want success", stage, err)
	}
}

// sweepAndAdvance lets a new process run all operations that are due, and then lets time pass. If fx.data is set and no
// calls fail, it checks the data in between, in a process that has read the root keys before the sweep.
func (fx *fixture) sweepAndAdvance(d time.Duration) {
	fx.Helper()
	stale := fx.process() // a process that reads the root keys before the sweep
	_ = must(stale.Key.Root(fx.Context()))(fx)
	defer func() {
		if fx.data != nil && fx.backend.random == nil {
			fx.checkUsable(stale, fx.data, readsPerCheck+1, "in a process that does not know the last stage")
		}
		fx.now = fx.now.Add(d)
	}()
	engine := must(durable.Engine(fx.process()))(fx)
	if err := engine.Sweep(fx.Context()); err != nil && fx.backend.random == nil {
		fx.Fatal(err)
	}
}

func (fx *fixture) status() rotation.Status {
	fx.Helper()
	return must(durable.Rotation(fx.process()).Status(fx.Context()))(fx)
}

// rotate runs a rotation to its end. It calls onStatus with the status before each sweep, and in the
// end. So onStatus can be called several times at one stage. onStatus can be nil.
func (fx *fixture) rotate(onStatus func(rotation.Status)) {
	fx.Helper()
	number := fx.status().Number
	must(durable.Rotation(fx.process()).Start(fx.Context(), "auditor"))(fx)
	for rounds := 0; ; rounds++ {
		status := fx.status()
		if onStatus != nil {
			onStatus(status)
		}
		if status.EndedOn != nil {
			if status.Number != number+1 || status.Other != 0 {
				fx.Fatalf("status in the end = %+v, want number %d and other 0", status, number+1)
			}
			return
		}
		if rounds > 2000 {
			fx.Fatalf("status after 2000 sweeps = %+v, want it ended", status)
		}
		fx.sweepAndAdvance(time.Hour)
	}
}

// readsPerCheck is the number of items that a check of a key reads: the key and its bucket.
const readsPerCheck = 2

// TestRotationIsTransparent checks in each stage that processes that know the stage, and processes that started before
// it, accept keys and the tunnel's token. Each check may need one additional read during the rotation, and none before
// and after it.
func TestRotationIsTransparent(t *testing.T) {
	fx := newFixture(t)
	k := fx.fill(1000) // 2,000 keys
	fx.checkUsable(fx.process(), k, readsPerCheck, "before")
	longRunning, stages := fx.process(), map[string]bool{}
	fx.data = k
	var texts []string
	fx.rotate(func(s rotation.Status) {
		stages[s.Stage] = true
		fx.checkUsable(fx.process(), k, readsPerCheck+1, s.Stage)
		fx.checkUsable(longRunning, k, readsPerCheck+1, s.Stage+", in a process that was started before")
		// Clients create a key with a chosen text, and replace the tunnel's token.
		text := fmt.Sprintf("a-chosen-text-%d", len(k.keys))
		must(keys.Open(longRunning).CreateKey(fx.request(), consumerAt("forgotten"), keys.NewKey{Text: text}))(t)
		if _, err := keys.Open(fx.process()).CreateKey(fx.request(), consumerAt("shown"),
			keys.NewKey{Text: text}); !fault.Is(err, fault.Conflict) {
			t.Fatalf("%s: CreateKey() with a used text = %v, want a conflict", s.Stage, err)
		}
		k.keys[text] = "forgotten"
		for _, earlier := range texts { // the key may be stored under the other root key
			if _, err := keys.Open(fx.process()).CreateKey(fx.request(), consumerAt("shown"),
				keys.NewKey{Text: earlier}); !fault.Is(err, fault.Conflict) {
				t.Fatalf("%s: CreateKey() with a text used earlier = %v, want a conflict", s.Stage, err)
			}
		}
		texts = append(texts[max(0, len(texts)-1):], text) // the last two are enough
		replaced := k.token
		k.token = must(tunnels.Open(longRunning).Rotate(fx.request(), owner, k.tunnel))(t).Token
		if ref, err := tunnels.OpenDirectory(fx.process()).Authenticate(t.Context(), replaced); err != nil || ref != "" {
			t.Fatalf("%s: Authenticate(replaced token) = %q, %v, want no tunnel", s.Stage, ref, err)
		}
	})
	for _, stage := range []string{"switch", "renew", "check", "settle"} { // the stages that wait
		if !stages[stage] {
			t.Errorf("observed stages = %v, want %s among them", stages, stage)
		}
	}
	fx.checkUsable(fx.process(), k, readsPerCheck, "after")
}

// TestRotationContinuesAfterKill kills the process of a rotation before
// or after random writes, and checks that no data is lost.
func TestRotationContinuesAfterKill(t *testing.T) {
	for seed := range simulations.Runs(3) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			fx := newFixture(t)
			k := fx.fill(40)
			for range 2 { // twice in a row
				fx.backend.random = nil
				fx.rotate(func(s rotation.Status) {
					fx.backend.random = nil
					fx.checkUsable(fx.process(), k, readsPerCheck+1, s.Stage)
					fx.backend.random = rand.New(rand.NewPCG(uint64(seed), uint64(fx.now.Unix())))
				})
				fx.backend.random = nil
			}
			fx.checkUsable(fx.process(), k, readsPerCheck, "after")
		})
	}
}

// TestOldRootKeyOpensNothingAfterwards checks that each sealed value in the table was replaced, that each hash of a key
// is under the new root key, and that the key file has only the new root key.
func TestOldRootKeyOpensNothingAfterwards(t *testing.T) {
	fx := newFixture(t)
	fx.fill(50)
	old := must(seal.ExistingFile(fx.path).Root(t.Context()))(t)
	before := sealedValues(fx)
	fx.rotate(nil)
	after := sealedValues(fx)
	if len(before) < 50 || len(after) < len(before) {
		t.Fatalf("%d sealed values before the rotation, %d after, want at least 50, and no fewer after",
			len(before), len(after))
	}
	for value, location := range after {
		if before[value] != "" {
			t.Errorf("%s has the same sealed value after the rotation, want another", location)
		}
	}
	if current := must(seal.ExistingFile(fx.path).Root(t.Context()))(t); bytes.Equal(current, old) {
		t.Error("the key file has the old root key, want the new one")
	}
	if _, err := seal.ExistingFile(fx.path + seal.NextFile).Root(t.Context()); err == nil {
		t.Error("the file of the next root key still exists, want it removed")
	}
	for key := range fx.items.Items() {
		if hash, ok := strings.CutPrefix(key.PK, "key-hash#"); ok && !strings.HasPrefix(hash, "2.") {
			t.Errorf("hash of a key = %s, want the prefix 2.", hash)
		}
	}
}

// sealedValues returns the binary attributes in a table, except root keys, with their locations.
func sealedValues(fx *fixture) map[string]string {
	out := map[string]string{}
	for key, item := range fx.items.Items() {
		if strings.HasPrefix(key.PK, "root-key") {
			continue
		}
		for name, value := range item {
			if raw, ok := bytesOf(value); ok {
				out[string(raw)] = key.PK + " " + name
			}
		}
	}
	return out
}

// TestSecondRotationIsRefused checks that a second rotation is refused with an error of one line, adds no item, and
// does not change the record of the root keys.
func TestSecondRotationIsRefused(t *testing.T) {
	fx := newFixture(t)
	s := durable.Rotation(fx.process())
	must(s.Start(t.Context(), "auditor"))(t)
	before := fx.items.Items()
	for range 2 {
		_, err := durable.Rotation(fx.process()).Start(t.Context(), "auditor")
		f, ok := errors.AsType[*fault.Fault](err)
		if !ok || f.Kind != fault.Conflict ||
			!strings.Contains(f.Public, "under way since "+storetest.Epoch.Format(time.RFC3339)) ||
			strings.Contains(f.Public, "\n") {
			t.Errorf("second Start() = %v, want a conflict with the time of the first, on one line", err)
		}
	}
	if after := fx.items.Items(); len(after) != len(before) || !store.EqualItems(after[store.KeyPrefix("root-key").Key()],
		before[store.KeyPrefix("root-key").Key()]) {
		t.Error("the refused Start() added an item or changed the record of the root keys, want no change")
	}
	if _, err := durable.Rotation(installation.Parts{Table: fx.process().Table, Now: time.Now}).Start(t.Context(),
		"auditor"); !fault.Is(err, fault.Conflict) {
		t.Errorf("Start() without a root key that can be rotated = %v, want a conflict", err)
	}
}

// TestExpiringRecordsExpireBeforeRetirement checks that data that is not renewed expires before the rotation ends.
func TestExpiringRecordsExpireBeforeRetirement(t *testing.T) {
	expiring := 0
	for _, k := range durable.Rotation(newFixture(t).process()).SealedRecords() {
		if k.MaxAge > 0 {
			expiring++
		}
		if k.MaxAge >= rotation.HoldDuration || (k.MaxAge == 0) == (k.Renew == nil) {
			t.Errorf("records of %s: maximum age %v, renewed %t, want an age below %v or a renewal",
				k.Prefix, k.MaxAge, k.Renew != nil, rotation.HoldDuration)
		}
	}
	if expiring == 0 {
		t.Error("SealedRecords() has 0 kinds that expire, want some")
	}
}
