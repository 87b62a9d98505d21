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

	"github.com/gatewright/gatewright/shared/audit"
	"github.com/gatewright/gatewright/shared/auth"
	"github.com/gatewright/gatewright/shared/blob"
	"github.com/gatewright/gatewright/shared/config"
	"github.com/gatewright/gatewright/shared/durable"
	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/ids"
	"github.com/gatewright/gatewright/shared/installation"
	"github.com/gatewright/gatewright/shared/keys"
	"github.com/gatewright/gatewright/shared/operation/simulations"
	"github.com/gatewright/gatewright/shared/rotation"
	"github.com/gatewright/gatewright/shared/seal"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/memory"
	"github.com/gatewright/gatewright/shared/store/rootkey"
	"github.com/gatewright/gatewright/shared/store/storetest"
	"github.com/gatewright/gatewright/shared/tunnels"
)

// world is an installation whose root key lies in a file, and some of whose processes fail.
type world struct {
	*testing.T
	items    *memory.Backend
	backend  *unsteady
	objects  *blob.Memory
	path     string
	now      time.Time
	requests atomic.Int64
	// processes counts them.
	processes int
	// kept has to hold in processes that have not heard of a stage.
	kept *kept
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{T: t, items: memory.New(), path: filepath.Join(t.TempDir(), "root.key"), now: storetest.Epoch}
	w.backend = &unsteady{Backend: w.items}
	w.objects = blob.NewMemory(func() time.Time { return w.now })
	return w
}

// unsteady fails by chance: before a transaction, or after it, as a process that was killed knows nothing of its answer.
type unsteady struct {
	*memory.Backend
	chance *rand.Rand // nil for never
	reads  atomic.Int64
	// odd has pages that DynamoDB may answer: empty ones with others behind them, small ones, and items of the page before.
	odd bool
	n   int
}

func (u *unsteady) Page(ctx context.Context, behind store.Key, limit int) ([]store.Item, store.Key, error) {
	if !u.odd {
		return u.Backend.Page(ctx, behind, limit)
	}
	const kinds = 4
	limit = min(limit, 7)
	switch u.n++; u.n % kinds {
	case 0:
		if behind != (store.Key{}) {
			return nil, behind, nil // none, and more behind it
		}
	case 1:
		limit = 1
	case 2:
		items, last, err := u.Backend.Page(ctx, behind, limit)
		again, _, _ := u.Backend.Page(ctx, store.Key{}, 3)
		return append(items, again...), last, err
	}
	return u.Backend.Page(ctx, behind, limit)
}

var errKilled = errors.New("the process was killed")

func (u *unsteady) Read(ctx context.Context, keys []store.Key) ([]store.Item, error) {
	u.reads.Add(int64(len(keys)))
	return u.Backend.Read(ctx, keys)
}

func (u *unsteady) Transact(ctx context.Context, token string, writes []store.Write) error {
	how := 100
	if u.chance != nil {
		how = u.chance.IntN(8)
	}
	if how == 0 {
		return errKilled
	}
	if err := u.Backend.Transact(ctx, token, writes); err != nil || how != 1 {
		return err
	}
	return errKilled
}

// process is a process that has just started.
func (w *world) process() installation.Parts {
	clock := func() time.Time { return w.now }
	table := storetest.Over(w, w.backend, storetest.Clock(clock))
	w.processes++
	random := rand.NewChaCha8([32]byte{byte(w.processes), byte(w.processes >> 8)}) // which no other process has
	return installation.Parts{
		Config: config.Config{Relay: "https://relay.test"}, Table: table, Bucket: w.objects, Key: rootkey.InFile(w.path, table, clock, nil),
		Random: random, Now: clock, IDs: ids.NewSource(random, clock), Log: slog.New(slog.DiscardHandler),
	}
}

// request is the context of a request of the account.
func (w *world) request() context.Context {
	return audit.With(w.Context(), &audit.Request{AccountID: "a-1", Action: "consumer.update", Time: w.now, RequestID: fmt.Sprintf("request-%d", w.requests.Add(1))})
}

var owner = auth.Owner{AccountID: "a-1", Account: "acme", Viewer: auth.Principal{Permissions: auth.Full()}}

func at(bucket string) keys.ConsumerAt {
	return keys.ConsumerAt{BucketAt: keys.BucketAt{Owner: owner, Bucket: bucket}, Consumer: "c"}
}

// kept is what an installation has: texts that have to open what they opened.
type kept struct {
	keys   map[string]string // buckets by the texts of their keys
	tunnel string            // the id of a tunnel
	token  string
}

func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// filled makes n keys in a bucket that shows them and in one that has forgotten their texts, and a tunnel.
func (w *world) filled(n int) *kept {
	w.Helper()
	p := w.process()
	s, out := keys.Open(p), &kept{keys: map[string]string{}}
	for _, b := range []keys.NewBucket{{Name: "shown"}, {Name: "forgotten", Unretrievable: true}} {
		must(s.CreateBucket(w.request(), owner, b))(w)
		must(s.CreateConsumer(w.request(), at(b.Name).BucketAt, keys.NewConsumer{Name: "c"}))(w)
		for made := 0; made < n; made += 40 {
			for _, k := range must(s.CreateKeys(w.request(), at(b.Name), make([]keys.NewKey, min(40, n-made))))(w) {
				out.keys[k.Text] = b.Name
			}
		}
	}
	tunnel := must(tunnels.Open(p).Create(w.request(), owner, "office"))(w)
	out.tunnel, out.token = tunnel.ID, tunnel.Token
	return out
}

// holds fails unless a process lets in who has a key, and shows what it has to show. most is how many items a check may read.
func (w *world) holds(p installation.Parts, k *kept, most int64, when string) {
	w.Helper()
	verifier := keys.OpenVerifier(p)
	_ = must(p.Key.Root(w.Context()))(w) // which is read once in an age, and is no part of a check
	n := 0
	for text, bucket := range k.keys {
		if n++; n > 50 {
			break // others the next time: a map's order is by chance
		}
		before := w.backend.reads.Load()
		if _, err := verifier.Verify(w.Context(), keys.BucketRef{AccountID: "a-1", Name: bucket}, text); err != nil {
			w.Fatalf("%s: a key of %s is refused: %v", when, bucket, err)
		}
		if reads := w.backend.reads.Load() - before; reads > most {
			w.Fatalf("%s: a check of a key reads %d items, want at most %d", when, reads, most)
		}
	}
	shown, _, _, err := keys.Open(p).ListKeys(w.request(), at("shown"), store.Page{Limit: 5}, keys.Visible)
	if err != nil {
		w.Fatalf("%s: keys are not shown: %v", when, err)
	}
	for _, its := range shown {
		if k.keys[its.Text] != "shown" {
			w.Fatalf("%s: a key is shown as %q", when, its.Text)
		}
	}
	if ref, err := tunnels.OpenDirectory(p).Authorize(w.Context(), k.token); err != nil || ref != "a-1/"+k.tunnel {
		w.Fatalf("%s: the token leads to %q, %v", when, ref, err)
	}
	if its, err := tunnels.Open(p).Read(w.request(), owner, k.tunnel); err != nil || its.Token != k.token {
		w.Fatalf("%s: the token is shown as another, %v", when, err)
	}
	if _, err := keys.Open(p).ReadBucket(w.request(), at("shown").BucketAt); err != nil {
		w.Fatalf("%s: a bucket's token is not shown: %v", when, err)
	}
}

// turn has a process that has just started do what is due, and then time go on.
func (w *world) turn(d time.Duration) {
	w.Helper()
	late := w.process() // it has looked at the root keys just before
	_ = must(late.Key.Root(w.Context()))(w)
	defer func() {
		if w.kept != nil && w.backend.chance == nil {
			w.holds(late, w.kept, usual+1, "in a process that has not heard of the last stage")
		}
		w.now = w.now.Add(d)
	}()
	engine := must(durable.Engine(w.process()))(w)
	if err := engine.Sweep(w.Context()); err != nil && w.backend.chance == nil {
		w.Fatal(err)
	}
}

func (w *world) status() rotation.Status {
	w.Helper()
	return must(durable.Rotation(w.process()).Status(w.Context()))(w)
}

// rotated has a rotation come to its end; during is called at each stage.
func (w *world) rotated(during func(rotation.Status)) {
	w.Helper()
	number := w.status().Number
	must(durable.Rotation(w.process()).Start(w.Context(), "auditor"))(w)
	for turns := 0; ; turns++ {
		its := w.status()
		if during != nil {
			during(its)
		}
		if its.EndedOn != nil {
			if its.Number != number+1 || its.Other != 0 {
				w.Fatalf("it has ended with %+v", its)
			}
			return
		}
		if turns > 2000 {
			w.Fatalf("it does not end: %+v", its)
		}
		w.turn(time.Hour)
	}
}

// usual is what a check of a key reads: the key and its bucket.
const usual = 2

// TestNobodyNoticesARotation: in each stage processes that know of it, and one that was there before, let in who has a
// key, at the price of one more read at most; and before and after it of none.
func TestNobodyNoticesARotation(t *testing.T) {
	w := newWorld(t)
	k := w.filled(1000) // 2,000 keys
	w.holds(w.process(), k, usual, "before")
	lasting, stages := w.process(), map[string]bool{}
	w.kept = k
	var texts []string
	w.rotated(func(s rotation.Status) {
		stages[s.Stage] = true
		w.holds(w.process(), k, usual+1, s.Stage)
		w.holds(lasting, k, usual+1, s.Stage+", in a process that runs on")
		// Traffic of writes: a key, with a text of its own, and another token.
		text := fmt.Sprintf("a-key-of-its-own-%d", len(k.keys))
		must(keys.Open(lasting).CreateKey(w.request(), at("forgotten"), keys.NewKey{Text: text}))(t)
		if _, err := keys.Open(w.process()).CreateKey(w.request(), at("shown"), keys.NewKey{Text: text}); !fault.Is(err, fault.Conflict) {
			t.Fatalf("%s: a text is in use twice: %v", s.Stage, err)
		}
		k.keys[text] = "forgotten"
		for _, earlier := range texts { // which may be under the other root key
			if _, err := keys.Open(w.process()).CreateKey(w.request(), at("shown"), keys.NewKey{Text: earlier}); !fault.Is(err, fault.Conflict) {
				t.Fatalf("%s: a text of before is in use twice: %v", s.Stage, err)
			}
		}
		texts = append(texts[max(0, len(texts)-1):], text) // the last two are enough
		before := k.token
		k.token = must(tunnels.Open(lasting).Rotate(w.request(), owner, k.tunnel))(t).Token
		if ref, err := tunnels.OpenDirectory(w.process()).Authorize(t.Context(), before); err != nil || ref != "" {
			t.Fatalf("%s: a token that was replaced leads to %q, %v", s.Stage, ref, err)
		}
	})
	for _, stage := range []string{"switch", "renew", "check", "settle"} { // those that are waited for
		if !stages[stage] {
			t.Errorf("nobody looked while it was at %s, but at %v", stage, stages)
		}
	}
	w.holds(w.process(), k, usual, "after")
}

// TestRotationGoesOnWhereItWasKilled, at any write, before it or after it; and nothing is lost.
func TestRotationGoesOnWhereItWasKilled(t *testing.T) {
	for seed := range simulations.Runs(3) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			w := newWorld(t)
			k := w.filled(40)
			for range 2 { // twice in a row
				w.backend.chance = nil
				w.rotated(func(s rotation.Status) {
					w.backend.chance = nil
					w.holds(w.process(), k, usual+1, s.Stage)
					w.backend.chance = rand.New(rand.NewPCG(uint64(seed), uint64(w.now.Unix())))
				})
				w.backend.chance = nil
			}
			w.holds(w.process(), k, usual, "after")
		})
	}
}

// TestOldRootKeyOpensNothingAfterwards: not a byte that was sealed under it is left.
func TestOldRootKeyOpensNothingAfterwards(t *testing.T) {
	w := newWorld(t)
	w.filled(50)
	old := must(seal.ExistingFile(w.path).Root(t.Context()))(t)
	before := sealedIn(w)
	w.rotated(nil)
	after := sealedIn(w)
	if len(before) < 50 || len(after) < len(before) {
		t.Fatalf("%d values were sealed, and %d are", len(before), len(after))
	}
	for value, where := range after {
		if before[value] != "" {
			t.Errorf("%s is sealed as it was", where)
		}
	}
	if now := must(seal.ExistingFile(w.path).Root(t.Context()))(t); bytes.Equal(now, old) {
		t.Error("the key file has the old key")
	}
	if _, err := seal.ExistingFile(w.path + seal.NextFile).Root(t.Context()); err == nil {
		t.Error("a second key file is left")
	}
	for key := range w.items.Items() {
		if hash, ok := strings.CutPrefix(key.PK, "key-hash#"); ok && !strings.HasPrefix(hash, "2.") {
			t.Errorf("a key is known by %s", hash)
		}
	}
}

// sealedIn are the attributes of bytes that a table has, but for root keys, with where they are.
func sealedIn(w *world) map[string]string {
	out := map[string]string{}
	for key, item := range w.items.Items() {
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

// TestRotationIsBegunOnce: a second one is refused in a line, and changes nothing.
func TestRotationIsBegunOnce(t *testing.T) {
	w := newWorld(t)
	s := durable.Rotation(w.process())
	must(s.Start(t.Context(), "auditor"))(t)
	before := w.items.Items()
	for range 2 {
		_, err := durable.Rotation(w.process()).Start(t.Context(), "auditor")
		f, ok := errors.AsType[*fault.Fault](err)
		if !ok || f.Kind != fault.Conflict || !strings.Contains(f.Public, "under way since "+storetest.Epoch.Format(time.RFC3339)) || strings.Contains(f.Public, "\n") {
			t.Errorf("a second one is answered with %v", err)
		}
	}
	if after := w.items.Items(); len(after) != len(before) || !store.EqualItems(after[store.Space("root-key").Key()], before[store.Space("root-key").Key()]) {
		t.Error("it has changed something")
	}
	if _, err := durable.Rotation(installation.Parts{Table: w.process().Table, Now: time.Now}).Start(t.Context(), "auditor"); !fault.Is(err, fault.Conflict) {
		t.Errorf("where there is no such root key it is answered with %v", err)
	}
}

// TestRotationOutlastsWhatItDoesNotRenew: the operation outlasts what is not renewed.
func TestRotationOutlastsWhatItDoesNotRenew(t *testing.T) {
	expiring := 0
	for _, k := range durable.Rotation(newWorld(t).process()).Kept() {
		if k.Expires > 0 {
			expiring++
		}
		if k.Expires >= rotation.Holding || (k.Expires == 0) == (k.Renew == nil) {
			t.Errorf("records of %s live for %v, and are renewed: %v", k.Space, k.Expires, k.Renew != nil)
		}
	}
	if expiring == 0 {
		t.Error("none expires, which tests nothing")
	}
}
