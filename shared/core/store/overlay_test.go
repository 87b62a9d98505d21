package store_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/gatewright/gatewright/shared/base/dryrun"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/memory"
	"github.com/gatewright/gatewright/shared/core/store/storetest"
)

// TestDryRunMatchesRealRun makes the same commits in a dry run over a table and on a copy of the table.
// It checks that both refuse the same commits and return the same reads and queries, and that the table does not change.
func TestDryRunMatchesRealRun(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		backend := memory.New()
		table := storetest.NewWithBackend(t, backend)
		for range rapid.IntRange(0, 4).Draw(rt, "commits before the dry run") {
			_ = table.Commit(rt.Context(), drawWrites(rt, "p")...) // can be refused
		}
		clone, before := backend.Clone(), backend.Items()
		realTable := storetest.NewWithBackend(t, clone)
		dryRun, _, _ := store.BeginDryRun(rt.Context())
		for step := range rapid.IntRange(1, 6).Draw(rt, "steps") {
			writes := drawWrites(rt, "p")
			realErr, dryRunErr := realTable.Commit(rt.Context(), writes...), table.Commit(dryRun, writes...)
			if fmt.Sprint(realErr) != fmt.Sprint(dryRunErr) {
				rt.Fatalf("step %d: Commit(%+v) = %v, in the dry run %v, want the same", step, writes, realErr, dryRunErr)
			}
		}
		queries := []store.Query{{PK: "p0"}, {PK: "p1"}} // whole partitions; parts of them follow
		for range 6 {
			queries = append(queries, drawAnyQuery(rt))
		}
		for _, q := range queries {
			realItems, dryRunItems := queryAll(rt, rt.Context(), realTable, q), queryAll(rt, dryRun, table, q)
			if diff := cmp.Diff(realItems, dryRunItems); diff != "" {
				rt.Fatalf("query %+v in the dry run: want the same items (-real +dry run):\n%s", q, diff)
			}
		}
		for n := range 6 {
			var realItem, dryRunItem map[string]any
			k := key(fmt.Sprint("p", n%2), n)
			realErr, dryRunErr := realTable.Get(rt.Context(), k, &realItem), table.Get(dryRun, k, &dryRunItem)
			if !errors.Is(realErr, dryRunErr) || !reflect.DeepEqual(realItem, dryRunItem) {
				rt.Fatalf("Get(%v) = %v, %v, in the dry run %v, %v, want the same", k, realItem, realErr, dryRunItem, dryRunErr)
			}
		}
		if !reflect.DeepEqual(before, backend.Items()) {
			rt.Fatal("the dry run changed the table, want no change")
		}
	})
}

func drawAnyQuery(t *rapid.T) store.Query {
	sk := rapid.SampledFrom([]string{"", "0", "1", "2", "3", "4", "5"})
	q := store.Query{
		PK: fmt.Sprint("p", rapid.IntRange(0, 1).Draw(t, "partition")), After: sk.Draw(t, "after"),
		Descending: rapid.Bool().Draw(t, "descending"),
		Offset:     rapid.IntRange(0, 2).Draw(t, "offset"), Limit: rapid.IntRange(0, 3).Draw(t, "limit"),
		KeysOnly: rapid.Bool().Draw(t, "keys only"),
	}
	if rapid.Bool().Draw(t, "by prefix") {
		q.Prefix = sk.Draw(t, "prefix")
	} else {
		q.UpTo = sk.Draw(t, "upTo")
	}
	return q
}

func queryAll(t *rapid.T, ctx context.Context, table *store.Table, q store.Query) (out []map[string]any) { //nolint:revive // the context is one of two that are compared
	t.Helper()
	err := table.Each(ctx, q, func(item store.Item) (bool, error) {
		var record map[string]any
		err := store.Decode(item, &record)
		out = append(out, record)
		return true, err
	})
	if err != nil {
		t.Fatalf("Each(%+v) = %v, want success", q, err)
	}
	return out
}

// TestDryRunQueryFollowsPages checks that a query of several pages in a dry run returns the items that the
// dry run writes after the current item during the query, and not the items that it deletes there.
func TestDryRunQueryFollowsPages(t *testing.T) {
	table := storetest.NewWithBackend(t, memory.New())
	large := map[string]any{"x": string(make([]byte, 300<<10))}
	for n := range 8 {
		if err := table.Commit(t.Context(), store.Put(key("p", n), large)); err != nil {
			t.Fatal(err)
		}
	}
	dryRun, _, _ := store.BeginDryRun(t.Context())
	var seen []string
	err := table.Each(dryRun, store.Query{PK: "p"}, func(item store.Item) (bool, error) {
		sk := store.KeyOf(item).SK
		seen = append(seen, sk)
		if sk != "0" {
			return true, nil
		}
		return true, table.Commit(dryRun, store.Delete(key("p", 6)), store.Put(key("p", 65), large),
			store.Put(key("p", 9), large))
	})
	if err != nil || fmt.Sprint(seen) != "[0 1 2 3 4 5 65 7 9]" {
		t.Errorf("Each() in a dry run visits %v, %v, want [0 1 2 3 4 5 65 7 9]", seen, err)
	}
}

// failingBackend is a backend whose reads and queries fail.
type failingBackend struct{ store.Backend }

var errBackend = errors.New("the backend has failed")

// Read implements store.Backend.
func (failingBackend) Read(context.Context, []store.Key) ([]store.Item, error) {
	return nil, errBackend
}

// Query implements store.Backend.
func (failingBackend) Query(context.Context, store.Query) ([]store.Item, string, error) {
	return nil, "", errBackend
}

// TestDryRunReturnsBackendErrors checks that a failed read in a dry run returns the error, and not an empty result.
func TestDryRunReturnsBackendErrors(t *testing.T) {
	table := storetest.NewWithBackend(t, failingBackend{memory.New()})
	dryRun, _, _ := store.BeginDryRun(t.Context())
	if err := table.Get(dryRun, key("a"), &struct{}{}); !errors.Is(err, errBackend) {
		t.Errorf("Get() in a dry run = %v, want %v", err, errBackend)
	}
	if err := table.Each(dryRun, store.Query{PK: "p"}, func(store.Item) (bool, error) {
		return true, nil
	}); !errors.Is(err, errBackend) {
		t.Errorf("Each() in a dry run = %v, want %v", err, errBackend)
	}
	if err := table.Commit(dryRun, store.Delete(key("a"))); !errors.Is(err, errBackend) {
		t.Errorf("Commit() in a dry run = %v, want %v", err, errBackend)
	}
}

// TestDryRunWithoutOverlayCannotWrite checks that all backends refuse
// writes under a context that is marked as a dry run but has no overlay.
func TestDryRunWithoutOverlayCannotWrite(t *testing.T) {
	for name, backend := range map[string]store.Backend{
		"memory": memory.New(), "embedded": newEmbedded(t),
		"DynamoDB": store.NewDynamoDB(nil, "t"),
	} {
		ctx, _ := dryrun.Begin(t.Context())
		if err := storetest.NewWithBackend(t, backend).Commit(ctx, store.Put(key("a"), map[string]any{"x": 1})); !errors.Is(
			err, dryrun.ErrEffect) {
			t.Errorf("%s: Commit() in a dry run without an overlay = %v, want %v", name, err, dryrun.ErrEffect)
		}
	}
}

// TestWritesOutsideDryRunPersist checks that writes under a context that is
// exempt from the dry run, such as those of the root key, reach the table.
func TestWritesOutsideDryRunPersist(t *testing.T) {
	table := storetest.New(t)
	dryRun, _, _ := store.BeginDryRun(t.Context())
	if err := table.Commit(dryrun.Exempt(dryRun, "a test"),
		store.Put(key("a"), map[string]any{"x": 1})); err != nil {
		t.Fatalf("Commit() outside the dry run = %v, want success", err)
	}
	if err := table.Get(t.Context(), key("a"), &struct{}{}); err != nil {
		t.Errorf("Get() of a record that was written outside the dry run = %v, want success", err)
	}
}
