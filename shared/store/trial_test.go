package store_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/gatewright/gatewright/shared/dryrun"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/memory"
	"github.com/gatewright/gatewright/shared/store/storetest"
)

// TestATrialIsDecidedAndReadAsTheTableWouldBe has the same commits made on a trial over a
// table and on a copy of that: both refuse the same, and are read the same by any key
// and query. The table itself stays as it is.
func TestATrialIsDecidedAndReadAsTheTableWouldBe(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		untouched := memory.New()
		table := storetest.Over(t, untouched)
		for range rapid.IntRange(0, 4).Draw(rt, "before") {
			_ = table.Commit(rt.Context(), drawWrites(rt, "p")...) // or is refused
		}
		other, before := untouched.Clone(), untouched.Items()
		made := storetest.Over(t, other)
		tried, _, _ := store.Try(rt.Context())
		for step := range rapid.IntRange(1, 6).Draw(rt, "steps") {
			writes := drawWrites(rt, "p")
			a, b := made.Commit(rt.Context(), writes...), table.Commit(tried, writes...)
			if fmt.Sprint(a) != fmt.Sprint(b) {
				rt.Fatalf("step %d, writes %+v: made %v, tried %v", step, writes, a, b)
			}
		}
		queries := []store.Query{{PK: "p0"}, {PK: "p1"}} // all that there is, and parts of it
		for range 6 {
			queries = append(queries, drawAnyQuery(rt))
		}
		for _, q := range queries {
			a, b := queried(rt, rt.Context(), made, q), queried(rt, tried, table, q)
			if diff := cmp.Diff(a, b); diff != "" {
				rt.Fatalf("%+v answers (-made +tried):\n%s", q, diff)
			}
		}
		for n := range 6 {
			var a, b map[string]any
			k := key(fmt.Sprint("p", n%2), n)
			errA, errB := made.Get(rt.Context(), k, &a), table.Get(tried, k, &b)
			if !errors.Is(errA, errB) || !reflect.DeepEqual(a, b) {
				rt.Fatalf("%v is %v, %v where it was made and %v, %v where it was tried", k, a, errA, b, errB)
			}
		}
		if !reflect.DeepEqual(before, untouched.Items()) {
			rt.Fatal("the table has changed")
		}
	})
}

func drawAnyQuery(t *rapid.T) store.Query {
	sk := rapid.SampledFrom([]string{"", "0", "1", "2", "3", "4", "5"})
	q := store.Query{
		PK: fmt.Sprint("p", rapid.IntRange(0, 1).Draw(t, "partition")), After: sk.Draw(t, "after"), Descending: rapid.Bool().Draw(t, "descending"),
		Offset: rapid.IntRange(0, 2).Draw(t, "offset"), Limit: rapid.IntRange(0, 3).Draw(t, "limit"), KeysOnly: rapid.Bool().Draw(t, "keys"),
	}
	if rapid.Bool().Draw(t, "prefixed") {
		q.Prefix = sk.Draw(t, "prefix")
	} else {
		q.UpTo = sk.Draw(t, "upTo")
	}
	return q
}

func queried(t *rapid.T, ctx context.Context, table *store.Table, q store.Query) (out []map[string]any) { //nolint:revive // the context is one of two that are compared
	t.Helper()
	err := table.Each(ctx, q, func(item store.Item) (bool, error) {
		var record map[string]any
		err := store.Decode(item, &record)
		out = append(out, record)
		return true, err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestATrialGoesOnAcrossPages: what is committed while a partition is read stands where
// the reading comes to it, as in the table.
func TestATrialGoesOnAcrossPages(t *testing.T) {
	table := storetest.Over(t, memory.New())
	large := map[string]any{"x": string(make([]byte, 300<<10))}
	for n := range 8 {
		if err := table.Commit(t.Context(), store.Put(key("p", n), large)); err != nil {
			t.Fatal(err)
		}
	}
	tried, _, _ := store.Try(t.Context())
	var seen []string
	err := table.Each(tried, store.Query{PK: "p"}, func(item store.Item) (bool, error) {
		sk := store.KeyOf(item).SK
		seen = append(seen, sk)
		if sk != "0" {
			return true, nil
		}
		return true, table.Commit(tried, store.Delete(key("p", 6)), store.Put(key("p", 65), large), store.Put(key("p", 9), large))
	})
	if err != nil || fmt.Sprint(seen) != "[0 1 2 3 4 5 65 7 9]" {
		t.Errorf("seen are %v, %v", seen, err)
	}
}

// gone is a table that cannot be read.
type gone struct{ store.Backend }

var errGone = errors.New("the table is gone")

// Read implements store.Backend.
func (gone) Read(context.Context, []store.Key) ([]store.Item, error) { return nil, errGone }

// Query implements store.Backend.
func (gone) Query(context.Context, store.Query) ([]store.Item, string, error) {
	return nil, "", errGone
}

// TestATrialOverATableThatFailsSaysSo: what cannot be read is not nothing.
func TestATrialOverATableThatFailsSaysSo(t *testing.T) {
	table := storetest.Over(t, gone{memory.New()})
	tried, _, _ := store.Try(t.Context())
	if err := table.Get(tried, key("a"), &struct{}{}); !errors.Is(err, errGone) {
		t.Errorf("a read: %v", err)
	}
	if err := table.Each(tried, store.Query{PK: "p"}, func(store.Item) (bool, error) { return true, nil }); !errors.Is(err, errGone) {
		t.Errorf("a query: %v", err)
	}
	if err := table.Commit(tried, store.Delete(key("a"))); !errors.Is(err, errGone) {
		t.Errorf("a commit: %v", err)
	}
}

// TestADryRunWithoutATrialWritesNothing: whoever marks a context and keeps nothing of it.
func TestADryRunWithoutATrialWritesNothing(t *testing.T) {
	for name, backend := range map[string]store.Backend{"memory": memory.New(), "embedded": newEmbedded(t), "DynamoDB": store.NewDynamoDB(nil, "t")} {
		ctx, _ := dryrun.Begin(t.Context())
		if err := storetest.Over(t, backend).Commit(ctx, store.Put(key("a"), map[string]any{"x": 1})); !errors.Is(err, dryrun.ErrEffect) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestWhatIsOutsideOfADryRunLasts, as the root key does.
func TestWhatIsOutsideOfADryRunLasts(t *testing.T) {
	table := storetest.New(t)
	tried, _, _ := store.Try(t.Context())
	if err := table.Commit(dryrun.Outside(tried, "it is a test's"), store.Put(key("a"), map[string]any{"x": 1})); err != nil {
		t.Fatal(err)
	}
	if err := table.Get(t.Context(), key("a"), &struct{}{}); err != nil {
		t.Errorf("it is not there: %v", err)
	}
}
