package trail_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/gatewright/gatewright/shared/core/audit"
	"github.com/gatewright/gatewright/shared/core/audit/trail"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/testing/simulations"
)

// checkList compares a page of List with a simple search in all existing entries, and returns the page.
func (fx *fixture) checkList(
	t testing.TB, name string, all []audit.Entry, f trail.Filter, p store.Page,
) trail.ListPage {
	t.Helper()
	var want []string
	for _, e := range all {
		at, err := e.Time()
		if err != nil {
			t.Fatal(err)
		}
		isActor := e.Actor.Sub == f.Actor || e.Actor.Email != nil && *e.Actor.Email == f.Actor
		if !at.Before(f.From) && at.Before(f.To) && (f.Action == "" || f.Action == string(e.Action)) &&
			(f.Actor == "" || isActor) && (f.Success == nil || *f.Success == *e.Success) {
			want = append(want, e.Timestamp+"#"+e.RequestID)
		}
	}
	slices.SortFunc(want, func(a, b string) int { return strings.Compare(b, a) })
	total := len(want)
	if p.After != "" {
		want = slices.DeleteFunc(want, func(at string) bool { return at >= p.After })
	}
	want = want[min(p.Offset, len(want)):]
	more := len(want) > p.Limit
	want = want[:min(p.Limit, len(want))]
	found, err := fx.List(t.Context(), acme, f, p)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range found.Entries {
		got = append(got, trail.Position(e))
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" || found.Total != total || found.HasMore != more {
		t.Fatalf("%s: List(%s, %+v) = total %d, more %t; want total %d, more %t and the entries (-want +got)\n%s",
			name, describe(f), p, found.Total, found.HasMore, total, more, diff)
	}
	return found
}

// describe returns a filter for messages, with the value of Success in place of its address.
func describe(f trail.Filter) string {
	success := "any"
	if f.Success != nil {
		success = fmt.Sprint(*f.Success)
	}
	f.Success = nil
	return fmt.Sprintf("%+v with success %s", f, success)
}

// TestListMatchesRecords compares lists with a simple search, while a random part of the
// records is chained. The lists have random combinations of filters, bounds and pages.
func TestListMatchesRecords(t *testing.T) {
	simulations.SkipUnderRace(t)
	for seed := range uint64(simulations.Runs(3)) {
		r := rand.New(rand.NewPCG(seed, 3))
		fx := newFixture(t)
		maxAge := []time.Duration{time.Minute, 5 * time.Hour, 29 * 24 * time.Hour}[r.IntN(3)]
		fx.now = fx.now.Add(time.Duration(r.Int64N(int64(8 * time.Hour))))
		var all []audit.Entry
		for range 4 {
			for range r.IntN(150) {
				fx.record(randomChange(r, maxAge))
			}
			pending, err := audit.ListPending(t.Context(), fx.table, acme)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, pending...)
			events := fx.takeEvents()
			r.Shuffle(len(events), func(i, j int) { events[i], events[j] = events[j], events[i] })
			late := events[r.IntN(len(events)+1):] // these records stay pending, and must be listed
			if failed := fx.HandleStream(t.Context(), events[:len(events)-len(late)]); failed != nil {
				t.Fatalf("HandleStream() returns the failed records %v, want none", failed)
			}
			all = slices.CompactFunc(sorted(all), func(a, b audit.Entry) bool { return a.RequestID == b.RequestID })
			for range 12 {
				f := trail.Filter{From: fx.now.Add(-maxAge), To: fx.now.Add(time.Hour)}
				if r.IntN(2) == 0 {
					f.From = fx.now.Add(-time.Duration(r.Int64N(int64(maxAge))))
					f.To = f.From.Add(time.Duration(r.Int64N(int64(maxAge))))
				}
				if r.IntN(2) == 0 {
					f.Action = []string{"consumer.create", "consumer.delete", "no.such"}[r.IntN(3)]
				}
				if r.IntN(2) == 0 {
					f.Actor = []string{"akey_1", "a@example.com", "nobody"}[r.IntN(3)]
				}
				if r.IntN(2) == 0 {
					f.Success = new(r.IntN(2) == 0)
				}
				p := store.Page{Limit: 1 + r.IntN(30), Offset: r.IntN(2) * r.IntN(200)}
				name := fmt.Sprint("seed ", seed)
				found := fx.checkList(t, name, all, f, p)
				for found.HasMore { // list all pages
					p = store.Page{Limit: 40, After: trail.Position(found.Entries[len(found.Entries)-1])}
					found = fx.checkList(t, name, all, f, p)
				}
			}
		}
	}
}

func sorted(all []audit.Entry) []audit.Entry {
	slices.SortFunc(all, func(a, b audit.Entry) int { return strings.Compare(trail.Position(a), trail.Position(b)) })
	return all
}
