package store_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/memory"
	"github.com/gatewright/gatewright/shared/core/store/storetest"
)

// sortKeys has keys next to each other, keys that are prefixes of other keys, and keys with non-ASCII bytes.
var sortKeys = []string{"a", "a#1", "a#2", "a#20", "a.", "ab", "b", "b#1", "bé", "b\U0010FFFF", "c", "é"}

// fill puts an item with each of sortKeys into the partitions p and q. The items of p are also in the due index.
func fill(t testing.TB, table *store.Table) {
	t.Helper()
	var writes []store.Write
	for i, sk := range sortKeys {
		writes = append(writes,
			store.Put(key("p", sk), thing{Name: sk, DuePK: "due", DueSK: fmt.Sprint(i / 3)}), // three share each dueSk
			store.Put(key("q", sk), thing{Name: "of another partition"}))
	}
	commit(t, table, writes...)
}

// expectedNames returns the names of the items that q must return from the table
// that fill has filled. It follows only the documentation of Query, not its code.
func expectedNames(q store.Query) (names []string) {
	sorted := slices.Clone(sortKeys)
	slices.Sort(sorted)
	if q.Descending {
		slices.Reverse(sorted)
	}
	for _, sk := range sorted {
		afterStart := q.After == "" || !q.Descending && sk > q.After || q.Descending && sk < q.After
		if afterStart && strings.HasPrefix(sk, q.Prefix) && (q.UpTo == "" || sk <= q.UpTo) {
			names = append(names, sk)
		}
	}
	names = names[min(q.Offset, len(names)):]
	if q.Limit > 0 {
		names = names[:min(q.Limit, len(names))]
	}
	return names
}

func drawQuery(t *rapid.T) store.Query {
	bounds := append(slices.Clone(sortKeys), "", "0", "a#", "aa", "b#", "zz", "\U0010FFFF")
	q := store.Query{
		PK:         "p",
		After:      rapid.SampledFrom(bounds).Draw(t, "after"),
		Descending: rapid.Bool().Draw(t, "descending"),
		Offset:     rapid.IntRange(0, len(sortKeys)+1).Draw(t, "offset"),
		Limit:      rapid.IntRange(0, len(sortKeys)+1).Draw(t, "limit"),
	}
	bound := rapid.SampledFrom(bounds).Draw(t, "bound")
	if rapid.Bool().Draw(t, "by prefix") {
		q.Prefix = bound
	} else {
		q.UpTo = bound
	}
	return q
}

func TestQueryReturnsExpectedRange(t *testing.T) {
	eachBackend(t, func(t *testing.T, table *store.Table) {
		fill(t, table)
		rapid.Check(t, func(t *rapid.T) {
			q := drawQuery(t)
			records, err := store.Collect[thing](t.Context(), table, q)
			if err != nil {
				t.Fatalf("Collect(%+v) = %v, want success", q, err)
			}
			var got []string
			for _, r := range records {
				got = append(got, r.Name)
			}
			want := expectedNames(q)
			if !slices.Equal(got, want) {
				t.Fatalf("Collect(%+v) = %q, want %q", q, got, want)
			}
			keys, err := table.Keys(t.Context(), q)
			if err != nil || !slices.EqualFunc(keys, want, func(k store.Key, sk string) bool { return k == key("p", sk) }) {
				t.Fatalf("Keys(%+v) = %v, %v, want %q", q, keys, err, want)
			}
			if n, err := table.Count(t.Context(), q); err != nil || n != len(want) {
				t.Fatalf("Count(%+v) = %d, %v, want %d", q, n, err, len(want))
			}
		})
	})
}

func TestDueIndexIsQueried(t *testing.T) {
	eachBackend(t, func(t *testing.T, table *store.Table) {
		fill(t, table)
		list := func(q store.Query) string {
			t.Helper()
			q.Index, q.PK = store.DueIndex, "due"
			keys, err := table.Keys(t.Context(), q)
			if err != nil {
				t.Fatalf("Keys(%+v) = %v, want success", q, err)
			}
			var out []string
			for _, k := range keys {
				if k.PK != "p" {
					t.Errorf("key in the index = %v, want the partition p", k)
				}
				out = append(out, k.SK)
			}
			return strings.Join(out, " ")
		}
		for _, test := range []struct {
			q    store.Query
			want []string
		}{
			{store.Query{}, sortKeys},
			{store.Query{UpTo: "1"}, sortKeys[:6]},
			{store.Query{UpTo: "0zzz"}, sortKeys[:3]},
			{store.Query{After: "0"}, sortKeys[3:]},
			{store.Query{After: "0", UpTo: "2"}, sortKeys[3:9]},
			{store.Query{After: "2", UpTo: "2"}, nil},
			{store.Query{After: "3"}, nil},
			{store.Query{Limit: 4}, sortKeys[:4]},
			{store.Query{After: "0", Offset: 2, Limit: 2}, sortKeys[5:7]},
			{store.Query{Prefix: "1"}, sortKeys[3:6]},
		} {
			if got := list(test.q); got != strings.Join(test.want, " ") {
				t.Errorf("Keys(%+v) of the index = %s, want %s", test.q, got, strings.Join(test.want, " "))
			}
		}
		commit(t, table, // each of these writes but the last moves or removes an entry of the index
			store.Update(key("p", "a"), store.Set(store.At("dueSk"), "9")),
			store.Update(key("p", "a#1"), store.Remove(store.At("duePk"))),
			store.Delete(key("p", "a#2")),
			store.Put(key("p", "a#20"), thing{}),
			store.Update(key("p", "ab"), store.Set(store.At("name"), "stays")),
		)
		if got, want := list(store.Query{}), "a. ab b b#1 bé b\U0010FFFF c é a"; got != want {
			t.Errorf("Keys() of the index after the changes = %s, want %s", got, want)
		}
	})
}

func TestIndexHoldsOnlyKeys(t *testing.T) {
	eachBackend(t, func(t *testing.T, table *store.Table) {
		commit(t, table, store.Put(key("p"), thing{Name: "n", DuePK: "due", DueSK: "1"}))
		items := 0
		err := table.Each(t.Context(), store.Query{Index: store.DueIndex, PK: "due"}, func(item store.Item) (bool, error) {
			items++
			if len(item) != 4 || store.KeyOf(item) != key("p") {
				t.Errorf("item in the index = %v with %d attributes, want the 4 key attributes of %v",
					store.KeyOf(item), len(item), key("p"))
			}
			return true, nil
		})
		if err != nil || items != 1 {
			t.Errorf("Each() of the index = %v after %d items, want success after 1", err, items)
		}
	})
}

// smallPages is a backend whose pages have at most two items.
type smallPages struct{ store.Backend }

func (p smallPages) Query(ctx context.Context, q store.Query) ([]store.Item, string, error) {
	q.Limit = 2
	return p.Backend.Query(ctx, q)
}

// TestPagesSplitEqualSortKeys checks that a query misses and repeats no item if a page ends between items with the
// same sort key of the index.
func TestPagesSplitEqualSortKeys(t *testing.T) {
	_, client, name := storetest.NewDynamoDB(t)
	for backend, b := range map[string]store.Backend{"memory": memory.New(), "dynamodb": store.NewDynamoDB(client, name)} {
		table := storetest.NewWithBackend(t, smallPages{b})
		fill(t, table) // three entries share each sort key of the index
		for _, q := range []store.Query{
			{Index: store.DueIndex, PK: "due"},
			{Index: store.DueIndex, PK: "due", Descending: true},
			{Index: store.DueIndex, PK: "due", After: "0", UpTo: "2"},
			{PK: "p", Prefix: "a#"},
			{PK: "p", Prefix: "a", Descending: true, Offset: 1},
			{PK: "p", UpTo: "b", After: "a"},
		} {
			keys, err := table.Keys(t.Context(), q)
			if err != nil {
				t.Fatalf("%s: Keys(%+v) = %v, want success", backend, q, err)
			}
			var got []string
			for _, k := range keys {
				got = append(got, k.SK)
			}
			want := expectedNames(q)
			if q.Index != "" {
				want = slices.Clone(sortKeys)
				if q.UpTo != "" {
					want = want[3:9]
				}
				if q.Descending {
					slices.Reverse(want)
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s: Keys(%+v) = %q, want %q", backend, q, got, want)
			}
		}
	}
}

// TestQueryFollowsPages checks that queries of several pages visit the expected number of items, each once and in
// order. A page ends after 1 MB.
func TestQueryFollowsPages(t *testing.T) {
	eachBackend(t, func(t *testing.T, table *store.Table) {
		const items = 9
		for i := range items { // each item has 300 KB, so a page has three
			commit(t, table, store.Put(key("p", i), thing{Data: make([]byte, 300<<10), DuePK: "due", DueSK: "same"}))
		}
		for _, q := range []store.Query{
			{PK: "p"},
			{PK: "p", Descending: true},
			{PK: "p", After: "1", UpTo: "8"},
			{PK: "p", Offset: 5},
			{PK: "p", Descending: true, Offset: 4},
			{PK: "p", Offset: 8},
			{PK: "p", Offset: 9},
			{PK: "p", Limit: 5},
		} {
			want := 0
			for i := range items {
				if sk := fmt.Sprint(i); sk > q.After && (q.UpTo == "" || sk <= q.UpTo) {
					want++
				}
			}
			want -= q.Offset
			if q.Limit > 0 {
				want = min(want, q.Limit)
			}
			var seen []string
			var meter store.Meter
			err := table.Each(store.WithMeter(t.Context(), &meter), q, func(item store.Item) (bool, error) {
				seen = append(seen, store.KeyOf(item).SK)
				return true, nil
			})
			if err != nil || len(seen) != want {
				t.Errorf("Each(%+v) visits %d items, %v, want %d", q, len(seen), err, want)
			}
			if q.Descending {
				slices.Reverse(seen)
			}
			if !slices.IsSorted(seen) || len(slices.Compact(slices.Clone(seen))) != len(seen) {
				t.Errorf("Each(%+v) visits %q, want different items in order", q, seen)
			}
			if want > 4 && meter.Usage().Queries < 2 {
				t.Errorf("Each(%+v) reads %d items in one page, want more pages", q, want)
			}
		}
	})
}

// TestLimitSkipsExpiredItems checks that expired items do not count for the limit of a query.
func TestLimitSkipsExpiredItems(t *testing.T) {
	eachBackend(t, func(t *testing.T, table *store.Table) {
		var writes []store.Write
		for i := range 30 {
			item := thing{Count: int64(i)}
			if i%3 > 0 {
				item.TTL = storetest.Epoch.Unix()
			}
			writes = append(writes, store.Put(key("p", string(rune('A'+i))), item))
		}
		commit(t, table, writes...)
		got, err := store.Collect[thing](t.Context(), table, store.Query{PK: "p", Limit: 4})
		if err != nil || len(got) != 4 || got[3].Count != 9 {
			t.Errorf("Collect() with a limit of 4 = %+v, %v, want 4 items, the last with the count 9", got, err)
		}
	})
}

func TestVisitorStopsQuery(t *testing.T) {
	errStop := errors.New("stop")
	eachBackend(t, func(t *testing.T, table *store.Table) {
		fill(t, table)
		seen := 0
		err := table.Each(t.Context(), store.Query{PK: "p"}, func(store.Item) (bool, error) { seen++; return seen < 3, nil })
		if err != nil || seen != 3 {
			t.Errorf("Each() = %v after %d items, want success after 3", err, seen)
		}
		err = table.Each(t.Context(), store.Query{PK: "p"}, func(store.Item) (bool, error) { return true, errStop })
		if !errors.Is(err, errStop) {
			t.Errorf("Each() with a failing function = %v, want %v", err, errStop)
		}
	})
}

func TestUnsupportedQueriesAreRefused(t *testing.T) {
	eachBackend(t, func(t *testing.T, table *store.Table) {
		for _, q := range []store.Query{
			{},
			{PK: "p", Prefix: "a", UpTo: "b"},
			{PK: "p", Offset: -1},
			{PK: "p", Limit: -1},
			{Index: store.DueIndex, PK: "due", After: "1", Descending: true},
			{Index: store.DueIndex, PK: "due", After: "1", Prefix: "1"},
		} {
			if _, err := table.Keys(t.Context(), q); err == nil {
				t.Errorf("Keys(%+v) succeeds, want an error", q)
			}
		}
	})
}
