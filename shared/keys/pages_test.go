package keys_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/gatewright/gatewright/shared/keys"
	"github.com/gatewright/gatewright/shared/store"
)

// TestPagesCostTheSameWhereverTheyAre: behind a position the last page of a bucket
// is read for what the first one is, while others come and go in front of it; and
// a prefix is read for what has it, wherever that stands in the list.
func TestPagesCostTheSameWhereverTheyAre(t *testing.T) {
	t.Parallel()
	w := crowded(t, *consumers)
	cost := func(f keys.Filter, p store.Page) (used store.Usage, names []string, next string) {
		t.Helper()
		var m store.Meter
		got, next, _, err := w.keys.ListConsumers(store.WithMeter(w.Context(), &m), in(bucket), f, p, keys.Include{})
		must0(t, err)
		for _, c := range got {
			names = append(names, c.Name)
		}
		return m.Usage(), names, next
	}
	// alice stands before all others, one of which is left for behind the last page.
	page := store.Page{Limit: 100, After: "alice"}
	first, _, next := cost(keys.Filter{}, page)
	pages := 1
	for ; next != "" && pages < *consumers/page.Limit-1; pages++ {
		if pages%10 == 0 {
			w.consumer("a" + fmt.Sprint(pages))
			must0(t, w.keys.DeleteConsumer(w.request(), of(fmt.Sprintf("consumer-%06d", pages))))
		}
		page.After = next
		var used store.Usage
		if used, _, next = cost(keys.Filter{}, page); used != first {
			t.Fatalf("page %d costs %+v, the first one %+v", pages+1, used, first)
		}
	}
	if want := fmt.Sprintf("consumer-%06d", pages*page.Limit-1); next != want {
		t.Errorf("behind page %d stands %q, want %s", pages, next, want)
	}
	skipped, _, _ := cost(keys.Filter{}, store.Page{Limit: page.Limit, Offset: *consumers - page.Limit})
	if skipped.ReadUnits < 10*first.ReadUnits {
		t.Errorf("by its offset the last page costs %+v: the first one's %+v has nothing to be compared with", skipped, first)
	}
	early, _, _ := cost(keys.Filter{NamePrefix: "consumer-00020"}, store.Page{Limit: 100})
	late := fmt.Sprintf("consumer-%06d", *consumers-10)
	used, names, next := cost(keys.Filter{NamePrefix: late[:len(late)-1]}, store.Page{Limit: 100})
	if used != early || used.ReadUnits > 10 {
		t.Errorf("10 names by the last prefix cost %+v, by an early one %+v", used, early)
	}
	if len(names) != 9 || names[0] != late || next != "" { // one less than ten: alice is among the crowd
		t.Errorf("%s* is %v, and %q behind it", late[:len(late)-1], names, next)
	}
}

// TestPagesByPositionLoseNothing: who is there from the first page to the last comes
// once, in order, whatever comes and goes between the pages, by every filter; and
// the last page tells that it is.
func TestPagesByPositionLoseNothing(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(t)
		w.bucket()
		names := rapid.SliceOfNDistinct(rapid.StringMatching(`[a-c_-]{1,3}`), 0, 25, rapid.ID).Draw(rt, "names")
		there := map[string]bool{} // those of the filter that are there
		filter := rapid.SampledFrom([]keys.Filter{
			{}, {NamePrefix: "a"}, {NamePrefix: "b-"}, {NamePrefix: "A#%"}, {Tags: map[string]string{"t": "1"}}, {Tags: map[string]string{"t": "1"}, NamePrefix: "b"},
		}).Draw(rt, "filter")
		create := func(name string) {
			tags := map[string]string{"t": rapid.SampledFrom([]string{"1", "2"}).Draw(rt, "tag")}
			must[keys.Consumer](t)(w.keys.CreateConsumer(w.request(), in(bucket), keys.NewConsumer{Name: name, Tags: tags}))
			there[name] = strings.HasPrefix(name, filter.NamePrefix) && (filter.Tags == nil || tags["t"] == filter.Tags["t"])
		}
		for _, name := range names {
			create(name)
		}
		maps.DeleteFunc(there, func(_ string, in bool) bool { return !in })
		throughout := maps.Clone(there)
		var got []string
		page := store.Page{Limit: rapid.IntRange(1, 5).Draw(rt, "limit")}
		include := keys.Include{Keys: rapid.Bool().Draw(rt, "with keys"), Format: keys.None}
		if room := rapid.IntRange(1, 5).Draw(rt, "room"); room < page.Limit {
			include.Fits = func() func(keys.Consumer) bool {
				left := room
				return func(keys.Consumer) bool { left--; return left >= 0 }
			}
		}
		for ended := false; !ended; {
			found, next, total, err := w.keys.ListConsumers(w.Context(), in(bucket), filter, page, include)
			must0(t, err)
			for _, c := range found {
				got = append(got, c.Name)
			}
			behind := 0
			for name := range there {
				if len(got) > 0 && name > got[len(got)-1] {
					behind++
				}
			}
			if total != len(there) || len(found) > page.Limit || (next == "") != (behind == 0 || len(got) == 0) {
				rt.Fatalf("%d of %d, next %q with %d behind; there are %v", len(found), total, next, behind, there)
			}
			page.After, ended = next, next == ""
			for range rapid.IntRange(0, 3).Draw(rt, "changes") {
				name := rapid.StringMatching(`[a-c_-]{1,3}`).Draw(rt, "name")
				if _, err := w.keys.ReadConsumer(w.Context(), of(name), keys.Include{}); err == nil {
					must0(t, w.keys.DeleteConsumer(w.request(), of(name)))
					delete(there, name)
					delete(throughout, name)
				} else {
					create(name)
					if !there[name] {
						delete(there, name)
					}
				}
			}
		}
		if !slices.IsSorted(got) || len(slices.Compact(slices.Clone(got))) != len(got) {
			rt.Fatalf("the pages have %v", got)
		}
		for name := range throughout {
			if !slices.Contains(got, name) {
				rt.Fatalf("%s was there throughout, and is not on any page: %v", name, got)
			}
		}
	})
}

// TestPagesOfKeysByPositionLoseNothing: so it is with the keys of a consumer, of
// which new ones stand in front, and while a large deletion hides some behind them.
func TestPagesOfKeysByPositionLoseNothing(t *testing.T) {
	for _, hidden := range []bool{false, true} {
		w := newWorld(t)
		w.bucket()
		w.consumer("alice")
		var throughout []string
		if hidden { // those of an earlier alice, which are being removed meanwhile
			w.bulk("alice", 50)
			must0(t, w.keys.DeleteConsumer(w.request(), of("alice")))
			w.consumer("alice")
		}
		w.bulk("alice", 21)
		for i, k := range w.list("alice") {
			if i%4 != 0 {
				throughout = append(throughout, k.ID)
			}
		}
		doomed := w.list("alice")
		var got []string
		page := store.Page{Limit: 3}
		for n := 0; ; n++ {
			found, next, total, err := w.keys.ListKeys(w.Context(), of("alice"), page, keys.None)
			must0(t, err)
			for _, k := range found {
				got = append(got, k.ID)
			}
			if total != len(w.list("alice")) {
				t.Fatalf("the total is %d of %d", total, len(w.list("alice")))
			}
			if next == "" {
				break
			}
			if n > len(doomed) {
				t.Fatalf("the pages have no end: %v", got)
			}
			page.After = next
			w.key("alice", keys.NewKey{})
			if n*4 < len(doomed) {
				must0(t, w.keys.DeleteKey(w.request(), of("alice"), doomed[n*4].ID))
			}
		}
		if slices.Reverse(got); !slices.IsSorted(got) || len(slices.Compact(slices.Clone(got))) != len(got) {
			t.Fatalf("the pages have %v", got)
		}
		for _, id := range throughout {
			if !slices.Contains(got, id) {
				t.Errorf("%s was there throughout, and is on no page", id)
			}
		}
	}
}

// TestPagesOfKeysCostTheSameWhereverTheyAre, as those of consumers.
func TestPagesOfKeysCostTheSameWhereverTheyAre(t *testing.T) {
	w := newWorld(t)
	w.bucket()
	w.consumer("alice")
	for range 3 {
		w.bulk("alice", 1000)
		w.settle()
	}
	var costs []store.Usage
	for page := (store.Page{Limit: 500}); ; {
		var m store.Meter
		_, next, total, err := w.keys.ListKeys(store.WithMeter(w.Context(), &m), of("alice"), page, keys.None)
		must0(t, err)
		if costs = append(costs, m.Usage()); next == "" {
			if total != 3000 || len(costs) != 6 {
				t.Fatalf("%d keys on %d pages", total, len(costs))
			}
			break
		}
		page.After = next
	}
	// The last page alone has no key behind it.
	if first, fifth := costs[0], costs[4]; first != fifth || costs[5].ReadUnits > first.ReadUnits {
		t.Errorf("the first page costs %+v, the fifth %+v, the last %+v", first, fifth, costs[5])
	}
}
