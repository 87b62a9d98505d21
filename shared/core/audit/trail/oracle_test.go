package trail_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/core/audit"
	"github.com/gatewright/gatewright/shared/core/audit/trail"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/testing/simulations"
)

// history has the written records by their positions. It does not use the table.
type history map[string]change

// positions returns the positions of the records that match a filter, newest first.
func (h history) positions(f trail.Filter) (out []string) {
	for at, c := range h {
		timestamp, _, _ := strings.Cut(at, "#")
		if timestamp >= audit.Timestamp(f.From) && timestamp < audit.Timestamp(f.To) &&
			(f.Action == "" || string(c.action) == f.Action) &&
			(f.Actor == "" || c.actor == f.Actor || c.email == f.Actor) && (f.Success == nil || *f.Success != c.failure) {
			out = append(out, at)
		}
	}
	slices.Sort(out)
	slices.Reverse(out)
	return out
}

// positionsAfter returns the positions that are greater than after, or all positions if after is "".
func positionsAfter(positions []string, after string) []string {
	return slices.DeleteFunc(slices.Clone(positions), func(at string) bool { return after != "" && at >= after })
}

// pageProblem returns a description of the first part of a page that matches no state between the start and the end
// of its request, or "" if there is none. before has the positions of all matching records at the start of the
// request, newest first. after has those at its end.
func pageProblem(found trail.ListPage, p store.Page, before, after []string) string {
	var got []string
	for _, e := range found.Entries {
		got = append(got, trail.Position(e))
	}
	if !slices.IsSortedFunc(got, func(a, b string) int {
		return strings.Compare(b, a)
	}) || len(slices.Compact(slices.Clone(got))) != len(got) {
		return "its entries are not sorted, or one of them is there twice"
	}
	for _, at := range got {
		if !slices.Contains(after, at) {
			return at + " was never written, or does not match the filter"
		}
	}
	if found.Total < len(before) || found.Total > len(after) {
		return "its total was at no time the number of matching records"
	}
	if found.HasMore && len(got) != p.Limit || len(got) > p.Limit {
		return "it has more entries than its limit, or fewer although more follow"
	}
	minimum, maximum := positionsAfter(before, p.After), positionsAfter(after, p.After)
	if p.After == "" && len(got) != min(p.Limit, max(0, found.Total-p.Offset)) ||
		p.After == "" && found.HasMore != (found.Total > p.Offset+p.Limit) {
		return "its number of entries or its HasMore does not match its total"
	}
	if !found.HasMore && p.Offset+len(got) < len(minimum) {
		return "it has HasMore = false, but more records follow"
	}
	if found.HasMore && p.Offset+len(got) >= len(maximum) {
		return "it has HasMore = true, but no record follows"
	}
	if len(got) == 0 {
		return ""
	}
	if p.Offset > slices.Index(maximum, got[0]) {
		return "it begins too early"
	}
	skipped := 0 // the number of records before the page that existed at the start
	for _, at := range minimum {
		switch {
		case at > got[0]:
			skipped++
		case at < got[len(got)-1]:
		case !slices.Contains(got, at):
			return "it lacks " + at + ", which existed at the start"
		}
	}
	if skipped > p.Offset {
		return "it begins too late"
	}
	return ""
}

// randomFilter draws a filter for records that are at most span old.
func randomFilter(r *rand.Rand, now time.Time, span time.Duration) trail.Filter {
	f := trail.Filter{From: now.Add(-time.Duration(r.Int64N(int64(span)))), To: now.Add(time.Minute)}
	if r.IntN(3) == 0 {
		f.From, f.To = f.From.Truncate(time.Minute), f.From.Add(time.Duration(r.Int64N(int64(span))))
	}
	if r.IntN(3) == 0 {
		f.Action = []string{"key-bucket.create", "consumer.delete", "none"}[r.IntN(3)]
	}
	if r.IntN(3) == 0 {
		f.Actor = []string{"akey_1", "akey_2", "a@example.com"}[r.IntN(3)]
	}
	if r.IntN(3) == 0 {
		f.Success = new(bool)
		*f.Success = r.IntN(2) == 0
	}
	return f
}

// TestPageIsConsistentDuringWrites checks that a page, its Total and its HasMore describe one
// state between the start and the end of the request. All pages together must have each record
// that existed at the beginning once, no matter what is written and chained before each read.
func TestPageIsConsistentDuringWrites(t *testing.T) {
	const span = 3 * time.Hour
	for seed := range uint64(simulations.Runs(6)) {
		r := rand.New(rand.NewPCG(seed, 0))
		fx := newFixture(t)
		all := history{}
		write := func(n int) {
			for range n {
				c := randomChange(r, span)
				if r.IntN(2) == 0 {
					c.age /= 100 // most records are from the last minutes
				}
				all[fx.commit(c)[0]] = c
			}
		}
		chain := func(n int) {
			r.Shuffle(len(fx.stream), func(i, j int) { fx.stream[i], fx.stream[j] = fx.stream[j], fx.stream[i] })
			taken := fx.stream[:min(n, len(fx.stream))]
			fx.stream = slices.Clone(fx.stream[len(taken):])
			if failed := fx.HandleStream(t.Context(), taken); failed != nil {
				t.Fatalf("HandleStream() returns %d failed records, want 0", len(failed))
			}
		}
		write(r.IntN(400))
		chain(r.IntN(500))
		// Records are written or chained before some reads of each request.
		// This happens less often than maxListAttempts, so a list succeeds.
		const maxSteps = 8
		remaining, interval, b := 0, 1+r.IntN(40), &hookedBackend{Backend: fx.items}
		b.hook = func() {
			if remaining == 0 || r.IntN(interval) > 0 {
				return
			}
			remaining--
			write(r.IntN(3))
			chain(r.IntN(6))
		}
		hooked := fx.withBackend(b)
		for range 5 {
			f := randomFilter(r, fx.now, span)
			p := store.Page{Limit: 10 + r.IntN(60), Offset: r.IntN(2) * r.IntN(60)}
			first, offset, seen := all.positions(f), p.Offset, map[string]bool{}
			for {
				remaining = maxSteps
				before := all.positions(f)
				found, err := hooked.List(t.Context(), acme, f, p)
				if err != nil {
					t.Fatalf("seed %d: List(%s, %+v) = %v, want success", seed, describe(f), p, err)
				}
				if problem := pageProblem(found, p, before, all.positions(f)); problem != "" {
					t.Fatalf("seed %d: List(%s, %+v) = %d entries, total %d, more %t, want a consistent page: %s",
						seed, describe(f), p, len(found.Entries), found.Total, found.HasMore, problem)
				}
				for _, e := range found.Entries {
					if at := trail.Position(e); seen[at] {
						t.Fatalf("seed %d: List(%s) of all pages returns %s twice, want it once", seed, describe(f), at)
					} else {
						seen[at] = true
					}
				}
				if !found.HasMore {
					break
				}
				p.Offset, p.After = 0, found.Next()
			}
			for i, at := range first {
				if !seen[at] && i >= offset {
					t.Fatalf("seed %d: List(%s) of all pages from offset %d lacks %s, the record at index %d of %d, want all records",
						seed, describe(f), offset, at, i, len(first))
				}
			}
		}
	}
}
