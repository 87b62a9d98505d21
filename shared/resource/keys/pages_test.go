package keys_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/resource/keys"
)

// TestPageCostIsIndependentOfPosition checks the cost of pages. With After, each page up to the last but one must cost
// the same as the first, even if earlier consumers are created and deleted meanwhile. A page with a large Offset must
// cost much more: this shows that the costs are measured. The cost of a page with a prefix must depend only on the
// consumers with this prefix.
func TestPageCostIsIndependentOfPosition(t *testing.T) {
	t.Parallel()
	fx := newFixtureWithConsumers(t, *consumers)
	cost := func(f keys.Filter, p store.Page) (usage store.Usage, names []string, next string) {
		t.Helper()
		var m store.Meter
		got, next, _, err := fx.keys.ListConsumers(store.WithMeter(fx.Context(), &m), bucketAt(bucket), f, p, keys.Include{})
		noError(t, err)
		for _, c := range got {
			names = append(names, c.Name)
		}
		return m.Usage(), names, next
	}
	// alice is the first of all consumers. The loop ends before the last page, so that each page is followed by
	// another.
	page := store.Page{Limit: 100, After: "alice"}
	first, _, next := cost(keys.Filter{}, page)
	pages := 1
	for ; next != "" && pages < *consumers/page.Limit-1; pages++ {
		if pages%10 == 0 {
			fx.createConsumer("a" + fmt.Sprint(pages))
			noError(t, fx.keys.DeleteConsumer(fx.requestContext(), consumerAt(fmt.Sprintf("consumer-%06d", pages))))
		}
		page.After = next
		var usage store.Usage
		if usage, _, next = cost(keys.Filter{}, page); usage != first {
			t.Fatalf("page %d costs %+v, want %+v as the first", pages+1, usage, first)
		}
	}
	if want := fmt.Sprintf("consumer-%06d", pages*page.Limit-1); next != want {
		t.Errorf("position after page %d = %q, want %s", pages, next, want)
	}
	skipped, _, _ := cost(keys.Filter{}, store.Page{Limit: page.Limit, Offset: *consumers - page.Limit})
	if skipped.ReadUnits < 10*first.ReadUnits {
		t.Errorf("last page by offset costs %+v, want at least 10 times the read units of %+v", skipped, first)
	}
	earlyUsage, _, _ := cost(keys.Filter{NamePrefix: "consumer-00020"}, store.Page{Limit: 100})
	lastPrefix := fmt.Sprintf("consumer-%06d", *consumers-10)
	usage, names, next := cost(keys.Filter{NamePrefix: lastPrefix[:len(lastPrefix)-1]}, store.Page{Limit: 100})
	if usage != earlyUsage || usage.ReadUnits > 10 {
		t.Errorf("last prefix costs %+v, want %+v as an early one and at most 10 read units", usage, earlyUsage)
	}
	if len(names) != 9 || names[0] != lastPrefix || next != "" { // 9 of 10, because *consumers includes alice
		t.Errorf("names with prefix %s = %v, next %q, want 9 from %s and no next page",
			lastPrefix[:len(lastPrefix)-1], names, next, lastPrefix)
	}
}

// TestConsumerPagesLoseNothing creates and deletes consumers between the pages of a list, with different filters.
// Consumers that exist all the time must occur exactly once and in order, and the last page must have no next page.
func TestConsumerPagesLoseNothing(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		fx := newFixture(t)
		fx.createBucket()
		names := rapid.SliceOfNDistinct(rapid.StringMatching(`[a-c_-]{1,3}`), 0, 25, rapid.ID).Draw(rt, "names")
		existing := map[string]bool{} // by name: whether a consumer matches the filter; later only those that do
		filter := rapid.SampledFrom([]keys.Filter{
			{},
			{NamePrefix: "a"},
			{NamePrefix: "b-"},
			{NamePrefix: "A#%"},
			{Tags: map[string]string{"t": "1"}},
			{Tags: map[string]string{"t": "1"}, NamePrefix: "b"},
		}).Draw(rt, "filter")
		create := func(name string) {
			tags := map[string]string{"t": rapid.SampledFrom([]string{"1", "2"}).Draw(rt, "tag")}
			must[keys.Consumer](t)(fx.keys.CreateConsumer(fx.requestContext(), bucketAt(bucket),
				keys.NewConsumer{Name: name, Tags: tags}))
			existing[name] = strings.HasPrefix(name, filter.NamePrefix) && (filter.Tags == nil || tags["t"] == filter.Tags["t"])
		}
		for _, name := range names {
			create(name)
		}
		maps.DeleteFunc(existing, func(_ string, matches bool) bool { return !matches })
		permanent := maps.Clone(existing)
		var got []string
		page := store.Page{Limit: rapid.IntRange(1, 5).Draw(rt, "limit")}
		include := keys.Include{Keys: rapid.Bool().Draw(rt, "with keys"), Format: keys.None}
		if pageCapacity := rapid.IntRange(1, 5).Draw(rt, "page capacity"); pageCapacity < page.Limit {
			include.Fits = func() func(keys.Consumer) bool {
				remaining := pageCapacity
				return func(keys.Consumer) bool { remaining--; return remaining >= 0 }
			}
		}
		for done := false; !done; {
			found, next, total, err := fx.keys.ListConsumers(fx.Context(), bucketAt(bucket), filter, page, include)
			noError(t, err)
			for _, c := range found {
				got = append(got, c.Name)
			}
			after := 0
			for name := range existing {
				if len(got) > 0 && name > got[len(got)-1] {
					after++
				}
			}
			if total != len(existing) || len(found) > page.Limit {
				rt.Fatalf("page = %d of %d consumers, want at most %d of %d", len(found), total, page.Limit, len(existing))
			}
			if wantLast := after == 0 || len(got) == 0; (next == "") != wantLast {
				rt.Fatalf("position of the next page = %q with %d consumers after this page, want a last page: %t",
					next, after, wantLast)
			}
			page.After, done = next, next == ""
			for range rapid.IntRange(0, 3).Draw(rt, "changes") {
				name := rapid.StringMatching(`[a-c_-]{1,3}`).Draw(rt, "name")
				if _, err := fx.keys.ReadConsumer(fx.Context(), consumerAt(name), keys.Include{}); err == nil {
					noError(t, fx.keys.DeleteConsumer(fx.requestContext(), consumerAt(name)))
					delete(existing, name)
					delete(permanent, name)
				} else {
					create(name)
					if !existing[name] {
						delete(existing, name)
					}
				}
			}
		}
		if !slices.IsSorted(got) || len(slices.Compact(slices.Clone(got))) != len(got) {
			rt.Fatalf("names of all pages = %v, want them sorted without duplicates", got)
		}
		for name := range permanent {
			if !slices.Contains(got, name) {
				rt.Fatalf("permanent consumer %s is not on any page, want it in %v", name, got)
			}
		}
	})
}

// TestKeyPagesLoseNothing creates and deletes keys between the pages of a list, with and without hidden keys of an
// earlier consumer with the same name. Keys that exist all the time must occur exactly once and in order.
func TestKeyPagesLoseNothing(t *testing.T) {
	for _, hidden := range []bool{false, true} {
		fx := newFixture(t)
		fx.createBucket()
		fx.createConsumer("alice")
		var permanent []string
		if hidden { // the keys of the deleted alice stay in the table for now
			fx.createKeys("alice", 50)
			noError(t, fx.keys.DeleteConsumer(fx.requestContext(), consumerAt("alice")))
			fx.createConsumer("alice")
		}
		fx.createKeys("alice", 21)
		for i, k := range fx.listKeys("alice") {
			if i%4 != 0 {
				permanent = append(permanent, k.ID)
			}
		}
		toDelete := fx.listKeys("alice")
		var got []string
		page := store.Page{Limit: 3}
		for n := 0; ; n++ {
			found, next, total, err := fx.keys.ListKeys(fx.Context(), consumerAt("alice"), page, keys.None)
			noError(t, err)
			for _, k := range found {
				got = append(got, k.ID)
			}
			if total != len(fx.listKeys("alice")) {
				t.Fatalf("ListKeys() with hidden keys %t: total = %d, want %d", hidden, total, len(fx.listKeys("alice")))
			}
			if next == "" {
				break
			}
			if n > len(toDelete) {
				t.Fatalf("ListKeys() returns a next position after %d pages, want a last page: %v", n+1, got)
			}
			page.After = next
			fx.createKey("alice", keys.NewKey{})
			if n*4 < len(toDelete) {
				noError(t, fx.keys.DeleteKey(fx.requestContext(), consumerAt("alice"), toDelete[n*4].ID))
			}
		}
		if slices.Reverse(got); !slices.IsSorted(got) || len(slices.Compact(slices.Clone(got))) != len(got) {
			t.Fatalf("IDs of all pages in reverse = %v, want them sorted without duplicates", got)
		}
		for _, id := range permanent {
			if !slices.Contains(got, id) {
				t.Errorf("permanent key %s is not on any page, want it in %v", id, got)
			}
		}
	}
}

// TestKeyPageCostIsIndependentOfPosition checks that the fifth page of a list of keys costs the same as the first, and
// that the last page does not need more read units.
func TestKeyPageCostIsIndependentOfPosition(t *testing.T) {
	fx := newFixture(t)
	fx.createBucket()
	fx.createConsumer("alice")
	for range 3 {
		fx.createKeys("alice", 1000)
		fx.finishOperations()
	}
	var costs []store.Usage
	for page := (store.Page{Limit: 500}); ; {
		var m store.Meter
		_, next, total, err := fx.keys.ListKeys(store.WithMeter(fx.Context(), &m), consumerAt("alice"), page, keys.None)
		noError(t, err)
		if costs = append(costs, m.Usage()); next == "" {
			if total != 3000 || len(costs) != 6 {
				t.Fatalf("ListKeys() = %d keys on %d pages, want 3000 on 6", total, len(costs))
			}
			break
		}
		page.After = next
	}
	// The last page may cost less, because no key follows it.
	if first, fifth := costs[0], costs[4]; first != fifth || costs[5].ReadUnits > first.ReadUnits {
		t.Errorf("first page costs %+v, fifth %+v, last %+v, want the fifth as the first and the last not more",
			first, fifth, costs[5])
	}
}
