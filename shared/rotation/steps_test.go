package rotation

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/blob"
	"github.com/gatewright/gatewright/shared/installation"
	"github.com/gatewright/gatewright/shared/operation"
	"github.com/gatewright/gatewright/shared/seal"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/memory"
	"github.com/gatewright/gatewright/shared/store/rootkey"
	"github.com/gatewright/gatewright/shared/store/storetest"
)

// known are root keys of which a process has heard of one after the other: by how often it forgot.
type known struct {
	Keys
	writing []int
	forgot  int
	number  int
	counts  rootkey.Counts
}

func (k *known) MaxAge() time.Duration { return time.Hour }

func (k *known) Forget() { k.forgot++ }

func (k *known) Status(context.Context) (rootkey.Status, error) {
	return rootkey.Status{Number: k.number}, nil
}

func (k *known) Ring(context.Context) (*seal.Ring, error) {
	n := k.writing[min(k.forgot, len(k.writing)-1)]
	return seal.NewRing(n, seal.Root{Number: n, Key: make([]byte, seal.KeyBytes)})
}

func (k *known) Switch(context.Context, string) ([]store.Write, error) { return nil, nil }

func (k *known) Retire(context.Context, string) ([]store.Write, error) { return nil, nil }

func (k *known) Settle(_ context.Context, _ string, of rootkey.Counts) ([]store.Write, error) {
	k.counts = of
	return nil, nil
}

// things are records that have something of the root key.
const things store.Space = "things"

type thing struct {
	store.Rest
	Under int    `dynamodbav:"under"` // the number of a root key, -1 for none that there is
	Text  string `dynamodbav:"text"`
	TTL   int64  `dynamodbav:"ttl,omitempty"`
}

func key(n int) store.Key { return things.Key(fmt.Sprintf("%04d", n)) }

// bench is a Service over a table in memory and what it renews.
type bench struct {
	*Service
	keys    *known
	table   *store.Table
	items   *memory.Backend
	bucket  *blob.Memory
	biggest int // writes of a transaction
	now     time.Time
}

func (b *bench) Transact(ctx context.Context, token string, writes []store.Write) error {
	b.biggest = max(b.biggest, len(writes))
	return b.items.Transact(ctx, token, writes)
}

// watched is the backend of a bench.
type watched struct {
	*memory.Backend
	b *bench
}

func (w watched) Transact(ctx context.Context, token string, writes []store.Write) error {
	return w.b.Transact(ctx, token, writes)
}

func newBench(t *testing.T, renew func(ctx context.Context, items []store.Item) ([][]store.Write, int, error)) *bench {
	b := &bench{keys: &known{writing: []int{2}, number: 2}, items: memory.New(), now: storetest.Epoch}
	now := func() time.Time { return b.now }
	b.bucket = blob.NewMemory(now)
	b.table = storetest.Over(t, watched{b.items, b}, storetest.Clock(now))
	parts := installation.Parts{Table: b.table, Bucket: b.bucket, Now: now, Random: rand.Reader, Log: slog.New(slog.DiscardHandler)}
	b.Service = Open(parts, []Kept{{Space: things, Renew: renew}}, "o/", nil)
	b.Service.keys = b.keys
	return b
}

func (b *bench) put(t *testing.T, n int, it thing) {
	t.Helper()
	if err := b.table.Commit(t.Context(), store.Put(key(n), it)); err != nil {
		t.Fatal(err)
	}
}

func (b *bench) get(t *testing.T, n int) (it thing) {
	t.Helper()
	if err := b.table.Get(t.Context(), key(n), &it); err != nil {
		t.Fatal(err)
	}
	return it
}

// renewal brings things under the root key 2, each by a write that holds for what was read.
func renewal(_ context.Context, items []store.Item) (groups [][]store.Write, unreadable int, err error) {
	for _, item := range items {
		var it thing
		if err := store.Decode(item, &it); err != nil {
			return nil, 0, err
		}
		switch it.Under {
		case 1:
			groups = append(groups, []store.Write{
				store.Update(store.KeyOf(item), store.Set(store.At("under"), 2)).If(store.Equal(store.At("text"), it.Text)),
			})
		case -1:
			unreadable++
		}
	}
	return groups, unreadable, nil
}

// TestStagesFollowWhenNobodyHasNotHeard of the one before: each process for an hour, and what it was at then. None is left out, and none gives up.
func TestStagesFollowWhenNobodyHasNotHeard(t *testing.T) {
	b := newBench(t, renewal)
	d := b.Definitions()[0]
	waits := map[string]time.Duration{}
	var order []string
	for at := d.First; at != operation.Succeed; at = d.States[at].Next {
		if len(order) > len(d.States) {
			t.Fatalf("they go round: %v", order)
		}
		state := d.States[at]
		out, err := state.Task(t.Context(), operation.Step{ID: "op"})
		if err != nil {
			t.Fatal(at, err)
		}
		if !state.Must {
			t.Errorf("%s may be given up, with two root keys for ever", at)
		}
		order = append(order, at)
		waits[at] = out.After
	}
	if want := []string{"announce", "switch", "renew", "objects", "hold", "check", "retire", "settle"}; !slices.Equal(order, want) {
		t.Errorf("the stages are %v, want %v", order, want)
	}
	const heard, lives = time.Hour + 10*time.Minute, 24 * time.Hour
	want := map[string]time.Duration{"announce": heard, "switch": heard, "hold": lives + time.Hour, "retire": heard}
	for _, at := range order {
		if waits[at] < want[at] || want[at] == 0 && waits[at] != 0 {
			t.Errorf("behind %s it waits for %s, want %s", at, waits[at], want[at])
		}
	}
}

// TestProcessThatHasNotHeardRenewsNothing: it asks once more, and fails then. What it renewed would be under the old root key, and pass for renewed.
func TestProcessThatHasNotHeardRenewsNothing(t *testing.T) {
	for _, c := range []struct {
		name    string
		writing []int
		fails   bool
	}{{"has heard", []int{2}, false}, {"hears of it when asked", []int{1, 2}, false}, {"does not", []int{1}, true}} {
		b := newBench(t, renewal)
		b.keys.writing = c.writing
		b.put(t, 1, thing{Under: 1})
		if err := b.bucket.Put(t.Context(), "o/1", strings.NewReader("x")); err != nil {
			t.Fatal(err)
		}
		asked := 0
		b.object = func(context.Context, string) (bool, bool, error) { asked++; return true, true, nil }
		_, err := b.renew(t.Context(), operation.Step{ID: "op"})
		b.keys.forgot = 0
		_, errObjects := b.renewObjects(t.Context(), operation.Step{ID: "op"})
		if (err != nil) != c.fails || (errObjects != nil) != c.fails || (b.get(t, 1).Under == 1) != c.fails || (asked == 0) != c.fails {
			t.Errorf("who %s: %v, %v, a record is under %d, and %d objects were asked for", c.name, err, errObjects, b.get(t, 1).Under, asked)
		}
	}
}

// TestPassThatFindsSomethingIsFollowedByAnother, until one finds nothing, whether what was found could be written or was changed meanwhile. What
// is under no root key counts once, and what has expired is left as it is.
func TestPassThatFindsSomethingIsFollowedByAnother(t *testing.T) {
	passes := 0
	var b *bench
	b = newBench(t, func(ctx context.Context, items []store.Item) ([][]store.Write, int, error) {
		groups, unreadable, err := renewal(ctx, items)
		if passes++; passes == 1 { // somebody changes one that was read
			b.put(t, 7, thing{Under: 1, Text: "changed"})
		}
		return groups, unreadable, err
	})
	for n := range 10 {
		b.put(t, n, thing{Under: 1})
	}
	b.put(t, 10, thing{Under: -1})
	b.put(t, 11, thing{Under: 1, TTL: b.now.Add(-time.Minute).Unix()})
	e, err := operation.New(b.table, []operation.Definition{{Kind: Kind, First: renewing, States: map[string]operation.State{
		renewing: {Does: "renews", Task: b.renew, Next: operation.Succeed, Must: true, Timeout: time.Minute},
	}}}, operation.Options{Now: func() time.Time { return b.now }, Random: rand.Reader, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	r := run(t, b, e)
	for n := range 10 {
		if it := b.get(t, n); it.Under != 2 {
			t.Errorf("the record %d is under %d", n, it.Under)
		}
	}
	if b.get(t, 7).Text != "changed" || passes != 3 || r.Message != "10 records and 0 objects are under the new root key. 1 values are under neither key: they were unreadable before." {
		t.Errorf("after %d passes: %s", passes, r.Message)
	}
	for at, item := range b.items.Items() {
		var it thing
		if err := store.Decode(item, &it); err != nil || at == key(11) && it.Under != 1 {
			t.Errorf("what has expired is under %d (%v)", it.Under, err)
		}
	}
}

// run runs an operation to its end.
func run(t *testing.T, b *bench, e *operation.Engine) (r operation.Record) {
	t.Helper()
	if err := b.table.Commit(t.Context(), operation.Begin(operation.Start{ID: "op", Kind: Kind, Subject: "the root key"}, b.now)); err != nil {
		t.Fatal(err)
	}
	for range 100 {
		if err := e.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := b.table.Get(t.Context(), operation.Key("op"), &r); err != nil {
			t.Fatal(err)
		}
		if r.Ended() {
			return r
		}
		b.now = b.now.Add(time.Minute)
	}
	t.Fatalf("it does not end: %+v", r)
	return r
}

// TestGroupsAreWrittenTogetherAsFarAsTransactionsGo, none left out and none torn apart: not where one of them was changed meanwhile, nor where
// they are large.
func TestGroupsAreWrittenTogetherAsFarAsTransactionsGo(t *testing.T) {
	const groups, its = 70, 3
	for name, c := range map[string]struct {
		bytes   int
		changed []int
		biggest int
	}{
		"all":               {10, nil, 99},
		"some were changed": {10, []int{0, 33, 69}, 99},
		"large ones":        {300 << 10, nil, 6},
	} {
		b := newBench(t, renewal)
		of := make([][]store.Write, groups)
		n := groups
		if c.bytes > 1<<10 {
			n = 9
		}
		of = of[:n]
		for g := range of {
			for i := range its {
				w := store.Put(key(g*its+i), thing{Under: 2, Text: strings.Repeat("x", c.bytes)})
				if slices.Contains(c.changed, g) && i == its-1 {
					w = w.If(store.Exists()).Else(store.ErrStale)
				}
				of[g] = append(of[g], w)
			}
		}
		done, err := b.commit(t.Context(), of)
		if want := n - len(c.changed); err != nil || done != want || len(b.items.Items()) != want*its {
			t.Errorf("%s: %d of %d are done, with %d records: %v", name, done, want, len(b.items.Items()), err)
		}
		if b.biggest != c.biggest {
			t.Errorf("%s: %d writes are made together, want %d", name, b.biggest, c.biggest)
		}
	}
}

var errDown = errors.New("the table is down")

// TestFailureEndsAStep, whatever fails: what a step leaves out in silence is lost with the old root key.
func TestFailureEndsAStep(t *testing.T) {
	b := newBench(t, func(context.Context, []store.Item) ([][]store.Write, int, error) { return nil, 0, errDown })
	b.put(t, 1, thing{Under: 1})
	if _, err := b.renew(t.Context(), operation.Step{}); !errors.Is(err, errDown) {
		t.Errorf("a record that cannot be renewed: %v", err)
	}
	for name, groups := range map[string][][]store.Write{
		"together": {{store.Put(key(2), thing{}).If(store.Exists()).Else(errDown)}},
		"one by one": {
			{store.Put(key(2), thing{}).If(store.Exists()).Else(store.ErrStale)},
			{store.Put(key(3), thing{}).If(store.Exists()).Else(errDown)},
		},
	} {
		b = newBench(t, func(context.Context, []store.Item) ([][]store.Write, int, error) { return groups, 0, nil })
		b.put(t, 1, thing{Under: 1})
		if _, err := b.renew(t.Context(), operation.Step{}); !errors.Is(err, errDown) {
			t.Errorf("records that cannot be stored, %s: %v", name, err)
		}
	}
	b.object = func(context.Context, string) (bool, bool, error) { return false, true, errDown }
	if err := b.bucket.Put(t.Context(), "o/1", strings.NewReader("x")); err != nil {
		t.Fatal(err)
	}
	if _, err := b.renewObjects(t.Context(), operation.Step{}); !errors.Is(err, errDown) {
		t.Errorf("an object that cannot be renewed: %v", err)
	}
}

// TestEachObjectIsRenewedOnce, a hundred in a step, and those of other prefixes are not; what the history says is what was done.
func TestEachObjectIsRenewedOnce(t *testing.T) {
	b := newBench(t, renewal)
	want := map[string]int{}
	for n := range 250 {
		at := fmt.Sprintf("o/%03d", n)
		want[at] = 1
		if err := b.bucket.Put(t.Context(), at, strings.NewReader("x")); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.bucket.Put(t.Context(), "other", strings.NewReader("x")); err != nil {
		t.Fatal(err)
	}
	got := map[string]int{}
	b.object = func(_ context.Context, at string) (bool, bool, error) {
		got[at]++
		return at < "o/200", at != "o/249", nil
	}
	b.put(t, 1, thing{Under: 1})
	b.put(t, 2, thing{Under: -1})
	state := func(task operation.Task, next string) operation.State {
		return operation.State{Does: "works", Task: task, Next: next, Must: true, Timeout: time.Minute}
	}
	e, err := operation.New(b.table, []operation.Definition{{Kind: Kind, First: renewing, States: map[string]operation.State{
		renewing: state(b.renew, objects), objects: state(b.renewObjects, settling), settling: state(b.settle, operation.Succeed),
	}}}, operation.Options{Now: func() time.Time { return b.now }, Random: rand.Reader, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	r := run(t, b, e)
	if !maps.Equal(got, want) {
		t.Errorf("%d objects are renewed, as %v", len(got), got)
	}
	if counts := (rootkey.Counts{Renewed: 1, Objects: 200, Unreadable: 2}); b.keys.counts != counts {
		t.Errorf("the history has %+v, want %+v", b.keys.counts, counts)
	}
	if r.Steps != 2+3+1 { // two passes, three hundreds
		t.Errorf("it takes %d steps", r.Steps)
	}
}
