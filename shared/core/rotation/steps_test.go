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

	"github.com/gatewright/gatewright/shared/core/blob"
	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/core/operation"
	"github.com/gatewright/gatewright/shared/core/seal"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/memory"
	"github.com/gatewright/gatewright/shared/core/store/rootkey"
	"github.com/gatewright/gatewright/shared/core/store/storetest"
)

// fakeKeys has the root keys of a process. With each Expire, the process learns of the next root key.
type fakeKeys struct {
	Keys
	// writing has the numbers of the root keys with which the process writes: at first, and after each Expire.
	writing   []int
	refreshes int            // the number of calls of Expire
	number    int            // the number of the current root key in the table
	counts    rootkey.Counts // the argument of Finish
}

func (k *fakeKeys) MaxAge() time.Duration { return time.Hour }

func (k *fakeKeys) Expire() { k.refreshes++ }

func (k *fakeKeys) Status(context.Context) (rootkey.Status, error) {
	return rootkey.Status{Number: k.number}, nil
}

func (k *fakeKeys) Ring(context.Context) (*seal.Ring, error) {
	n := k.writing[min(k.refreshes, len(k.writing)-1)]
	return seal.NewRing(n, seal.Root{Number: n, Key: make([]byte, seal.KeyBytes)})
}

func (k *fakeKeys) Switch(context.Context, string) ([]store.Write, error) { return nil, nil }

func (k *fakeKeys) Retire(context.Context, string) ([]store.Write, error) { return nil, nil }

func (k *fakeKeys) Finish(_ context.Context, _ string, counts rootkey.Counts) ([]store.Write, error) {
	k.counts = counts
	return nil, nil
}

// thingPrefix is the key prefix of records with a value that depends on the root key.
const thingPrefix store.KeyPrefix = "things"

type thing struct {
	store.UnknownAttributes
	RootKey int    `dynamodbav:"under"` // the number of a root key, -1 for a root key that does not exist
	Text    string `dynamodbav:"text"`
	TTL     int64  `dynamodbav:"ttl,omitempty"`
}

func key(n int) store.Key { return thingPrefix.Key(fmt.Sprintf("%04d", n)) }

// serviceFixture is a Service over a table in memory, with records that the Service renews.
type serviceFixture struct {
	*Service
	keys      *fakeKeys
	table     *store.Table
	items     *memory.Backend
	bucket    *blob.Memory
	maxWrites int // the largest number of writes in a transaction
	now       time.Time
}

func (fx *serviceFixture) Transact(ctx context.Context, token string, writes []store.Write) error {
	fx.maxWrites = max(fx.maxWrites, len(writes))
	return fx.items.Transact(ctx, token, writes)
}

// watchedBackend is the backend of a serviceFixture. Its transactions set the fixture's maxWrites.
type watchedBackend struct {
	*memory.Backend
	fx *serviceFixture
}

func (w watchedBackend) Transact(ctx context.Context, token string, writes []store.Write) error {
	return w.fx.Transact(ctx, token, writes)
}

func newServiceFixture(
	t *testing.T, renew func(ctx context.Context, items []store.Item) ([][]store.Write, int, error),
) *serviceFixture {
	fx := &serviceFixture{keys: &fakeKeys{writing: []int{2}, number: 2}, items: memory.New(), now: storetest.Epoch}
	now := func() time.Time { return fx.now }
	fx.bucket = blob.NewMemory(now)
	fx.table = storetest.NewWithBackend(t, watchedBackend{fx.items, fx}, storetest.Clock(now))
	parts := installation.Parts{
		Table: fx.table, Bucket: fx.bucket, Now: now, Random: rand.Reader,
		Log: slog.New(slog.DiscardHandler),
	}
	fx.Service = Open(parts, []SealedRecords{{Prefix: thingPrefix, Renew: renew}}, "o/", nil)
	fx.Service.keys = fx.keys
	return fx
}

func (fx *serviceFixture) put(t *testing.T, n int, record thing) {
	t.Helper()
	if err := fx.table.Commit(t.Context(), store.Put(key(n), record)); err != nil {
		t.Fatal(err)
	}
}

func (fx *serviceFixture) get(t *testing.T, n int) (record thing) {
	t.Helper()
	if err := fx.table.Get(t.Context(), key(n), &record); err != nil {
		t.Fatal(err)
	}
	return record
}

// renewThings returns the writes that move things from root key 1 to root key 2. Each write requires that the
// text of the thing has not changed since it was read. Things with root key -1 are unreadable.
func renewThings(_ context.Context, items []store.Item) (groups [][]store.Write, unreadable int, err error) {
	for _, item := range items {
		var record thing
		if err := store.Decode(item, &record); err != nil {
			return nil, 0, err
		}
		switch record.RootKey {
		case 1:
			groups = append(groups, []store.Write{
				store.Update(store.KeyOf(item), store.Set(store.At("under"), 2)).If(store.Equal(store.At("text"), record.Text)),
			})
		case -1:
			unreadable++
		}
	}
	return groups, unreadable, nil
}

// TestStagesWaitForPropagation checks that each stage that changes the root keys waits until every process has learned
// of the change, which takes MaxAge plus the duration of the longest work. The stage hold must wait until data has
// expired. No stage may be skipped, and all stages must have MustSucceed.
func TestStagesWaitForPropagation(t *testing.T) {
	fx := newServiceFixture(t, renewThings)
	d := fx.Definitions()[0]
	delays := map[string]time.Duration{}
	var order []string
	for stage := d.First; stage != operation.Succeed; stage = d.States[stage].Next {
		if len(order) > len(d.States) {
			t.Fatalf("the stages %v form a loop, want an end", order)
		}
		state := d.States[stage]
		out, err := state.Task(t.Context(), operation.Step{ID: "op"})
		if err != nil {
			t.Fatalf("task of the stage %s = %v, want success", stage, err)
		}
		if !state.MustSucceed {
			t.Errorf("stage %s: MustSucceed = false, want true", stage)
		}
		order = append(order, stage)
		delays[stage] = out.Delay
	}
	if want := []string{
		"announce", "switch", "renew", "objects", "hold", "check", "retire",
		"settle",
	}; !slices.Equal(order, want) {
		t.Errorf("the stages are %v, want %v", order, want)
	}
	const propagation, lifetime = time.Hour + 10*time.Minute, 24 * time.Hour
	want := map[string]time.Duration{
		"announce": propagation, "switch": propagation, "hold": lifetime + time.Hour,
		"retire": propagation,
	}
	for _, stage := range order {
		if delays[stage] < want[stage] || want[stage] == 0 && delays[stage] != 0 {
			t.Errorf("delay after the stage %s = %s, want at least %s (0s: no delay)", stage, delays[stage], want[stage])
		}
	}
}

// TestStaleProcessRenewsNothing checks that a process that still writes with the old root
// key reads the root keys again, and then fails if they are still the old ones. Otherwise
// it would seal data under the old root key, and the data would count as renewed.
func TestStaleProcessRenewsNothing(t *testing.T) {
	for _, c := range []struct {
		name    string
		writing []int
		wantErr bool
	}{{"new key", []int{2}, false}, {"new key after Expire", []int{1, 2}, false}, {"old key", []int{1}, true}} {
		fx := newServiceFixture(t, renewThings)
		fx.keys.writing = c.writing
		fx.put(t, 1, thing{RootKey: 1})
		if err := fx.bucket.Put(t.Context(), "o/1", strings.NewReader("x")); err != nil {
			t.Fatal(err)
		}
		calls := 0
		fx.renewObject = func(context.Context, string) (bool, bool, error) { calls++; return true, true, nil }
		_, err := fx.renew(t.Context(), operation.Step{ID: "op"})
		fx.keys.refreshes = 0
		_, errObjects := fx.renewObjects(t.Context(), operation.Step{ID: "op"})
		if (err != nil) != c.wantErr || (errObjects != nil) != c.wantErr || (fx.get(t, 1).RootKey == 1) != c.wantErr ||
			(calls == 0) != c.wantErr {
			t.Errorf("%s: renew() = %v, renewObjects() = %v, root key %d, %d object calls; want errors and no change %t",
				c.name, err, errObjects, fx.get(t, 1).RootKey, calls, c.wantErr)
		}
	}
}

// TestRenewRepeatsUntilNothingIsFound checks that renewal is repeated until a pass finds no
// values under the old root key, whether or not the values of the previous pass could be
// written. Values that no root key opens count once, and expired records are not changed.
func TestRenewRepeatsUntilNothingIsFound(t *testing.T) {
	passes := 0
	var fx *serviceFixture
	fx = newServiceFixture(t, func(ctx context.Context, items []store.Item) ([][]store.Write, int, error) {
		groups, unreadable, err := renewThings(ctx, items)
		if passes++; passes == 1 { // another process changes a record after it was read
			fx.put(t, 7, thing{RootKey: 1, Text: "changed"})
		}
		return groups, unreadable, err
	})
	for n := range 10 {
		fx.put(t, n, thing{RootKey: 1})
	}
	fx.put(t, 10, thing{RootKey: -1})
	fx.put(t, 11, thing{RootKey: 1, TTL: fx.now.Add(-time.Minute).Unix()})
	e, err := operation.New(fx.table,
		[]operation.Definition{{Kind: Kind, First: renewing, States: map[string]operation.State{
			renewing: {Description: "renews", Task: fx.renew, Next: operation.Succeed, MustSucceed: true, Timeout: time.Minute},
		}}}, operation.Options{Now: func() time.Time {
			return fx.now
		}, Random: rand.Reader, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	r := run(t, fx, e)
	for n := range 10 {
		if record := fx.get(t, n); record.RootKey != 2 {
			t.Errorf("record %d is under root key %d, want 2", n, record.RootKey)
		}
	}
	if fx.get(t, 7).Text != "changed" || passes != 3 || r.Message != "10 records and 0 objects are under the new root "+
		"key. 1 values are under neither key: they were unreadable before." {
		t.Errorf("text of record 7 = %q, %d passes, message %q, want \"changed\", 3, and the counts 10, 0 and 1",
			fx.get(t, 7).Text, passes, r.Message)
	}
	for at, item := range fx.items.Items() {
		var record thing
		if err := store.Decode(item, &record); err != nil || at == key(11) && record.RootKey != 1 {
			t.Errorf("record %v is under root key %d (%v), want 1 for the expired record", at, record.RootKey, err)
		}
	}
}

// run runs an operation to its end.
func run(t *testing.T, fx *serviceFixture, e *operation.Engine) (r operation.Record) {
	t.Helper()
	if err := fx.table.Commit(t.Context(), operation.Create(operation.Start{ID: "op", Kind: Kind, Subject: "the root key"},
		fx.now)); err != nil {
		t.Fatal(err)
	}
	for range 100 {
		if err := e.Sweep(t.Context()); err != nil {
			t.Fatalf("Sweep() = %v, want success", err)
		}
		if err := fx.table.Get(t.Context(), operation.Key("op"), &r); err != nil {
			t.Fatal(err)
		}
		if r.Ended() {
			return r
		}
		fx.now = fx.now.Add(time.Minute)
	}
	t.Fatalf("record after 100 sweeps = %+v, want it ended", r)
	return r
}

// TestGroupsFillTransactions checks that no group is split, and that a group is
// skipped only if its records were changed meanwhile. It also checks large groups.
func TestGroupsFillTransactions(t *testing.T) {
	const groups, perGroup = 70, 3
	for name, c := range map[string]struct {
		bytes     int
		changed   []int
		maxWrites int
	}{
		"no changes":        {10, nil, 99},
		"some were changed": {10, []int{0, 33, 69}, 99},
		"large items":       {300 << 10, nil, 6},
	} {
		fx := newServiceFixture(t, renewThings)
		writeGroups := make([][]store.Write, groups)
		n := groups
		if c.bytes > 1<<10 {
			n = 9
		}
		writeGroups = writeGroups[:n]
		for g := range writeGroups {
			for i := range perGroup {
				w := store.Put(key(g*perGroup+i), thing{RootKey: 2, Text: strings.Repeat("x", c.bytes)})
				if slices.Contains(c.changed, g) && i == perGroup-1 {
					w = w.If(store.Exists()).Else(store.ErrStale)
				}
				writeGroups[g] = append(writeGroups[g], w)
			}
		}
		done, err := fx.commit(t.Context(), writeGroups)
		if want := n - len(c.changed); err != nil || done != want || len(fx.items.Items()) != want*perGroup {
			t.Errorf("%s: commit() = %d groups with %d records, %v, want %d groups with %d records",
				name, done, len(fx.items.Items()), err, want, want*perGroup)
		}
		if fx.maxWrites != c.maxWrites {
			t.Errorf("%s: the largest transaction has %d writes, want %d", name, fx.maxWrites, c.maxWrites)
		}
	}
}

var errTable = errors.New("the table has failed")

// TestFailureEndsAStep checks that every kind of failure ends the step. If a step skipped
// records silently, they would become unreadable with the retirement of the old root key.
func TestFailureEndsAStep(t *testing.T) {
	fx := newServiceFixture(t, func(context.Context, []store.Item) ([][]store.Write, int, error) {
		return nil, 0, errTable
	})
	fx.put(t, 1, thing{RootKey: 1})
	if _, err := fx.renew(t.Context(), operation.Step{}); !errors.Is(err, errTable) {
		t.Errorf("renew() of a record that fails = %v, want %v", err, errTable)
	}
	for name, groups := range map[string][][]store.Write{
		"together": {{store.Put(key(2), thing{}).If(store.Exists()).Else(errTable)}},
		"one by one": {
			{store.Put(key(2), thing{}).If(store.Exists()).Else(store.ErrStale)},
			{store.Put(key(3), thing{}).If(store.Exists()).Else(errTable)},
		},
	} {
		fx = newServiceFixture(t, func(context.Context, []store.Item) ([][]store.Write, int, error) { return groups, 0, nil })
		fx.put(t, 1, thing{RootKey: 1})
		if _, err := fx.renew(t.Context(), operation.Step{}); !errors.Is(err, errTable) {
			t.Errorf("renew() with writes that fail %s = %v, want %v", name, err, errTable)
		}
	}
	fx.renewObject = func(context.Context, string) (bool, bool, error) { return false, true, errTable }
	if err := fx.bucket.Put(t.Context(), "o/1", strings.NewReader("x")); err != nil {
		t.Fatal(err)
	}
	if _, err := fx.renewObjects(t.Context(), operation.Step{}); !errors.Is(err, errTable) {
		t.Errorf("renewObjects() with an object that fails = %v, want %v", err, errTable)
	}
}

// TestEachObjectIsRenewedOnce checks that each object is renewed once, and that a step renews at most a hundred
// objects. It also checks that objects with other prefixes are not renewed, and that the history has the right counts.
func TestEachObjectIsRenewedOnce(t *testing.T) {
	fx := newServiceFixture(t, renewThings)
	want := map[string]int{}
	for n := range 250 {
		objectKey := fmt.Sprintf("o/%03d", n)
		want[objectKey] = 1
		if err := fx.bucket.Put(t.Context(), objectKey, strings.NewReader("x")); err != nil {
			t.Fatal(err)
		}
	}
	if err := fx.bucket.Put(t.Context(), "other", strings.NewReader("x")); err != nil {
		t.Fatal(err)
	}
	got := map[string]int{}
	fx.renewObject = func(_ context.Context, objectKey string) (bool, bool, error) {
		got[objectKey]++
		return objectKey < "o/200", objectKey != "o/249", nil
	}
	fx.put(t, 1, thing{RootKey: 1})
	fx.put(t, 2, thing{RootKey: -1})
	state := func(task operation.Task, next string) operation.State {
		return operation.State{Description: "works", Task: task, Next: next, MustSucceed: true, Timeout: time.Minute}
	}
	e, err := operation.New(fx.table,
		[]operation.Definition{{Kind: Kind, First: renewing, States: map[string]operation.State{
			renewing: state(fx.renew, objects), objects: state(fx.renewObjects, finishing),
			finishing: state(fx.finish, operation.Succeed),
		}}}, operation.Options{Now: func() time.Time {
			return fx.now
		}, Random: rand.Reader, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	r := run(t, fx, e)
	if !maps.Equal(got, want) {
		t.Errorf("%d objects are renewed: %v, want %d objects, each once", len(got), got, len(want))
	}
	if counts := (rootkey.Counts{Renewed: 1, Objects: 200, Unreadable: 2}); fx.keys.counts != counts {
		t.Errorf("counts in the history = %+v, want %+v", fx.keys.counts, counts)
	}
	if r.Steps != 2+3+1 { // two passes over the table, three steps with objects, one step that finishes
		t.Errorf("steps of the operation = %d, want %d", r.Steps, 2+3+1)
	}
}
