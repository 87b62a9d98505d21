package trail_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/audit"
	"github.com/gatewright/gatewright/shared/audit/trail"
	"github.com/gatewright/gatewright/shared/operation/simulations"
	"github.com/gatewright/gatewright/shared/store"
)

// history is what was written, by the positions of the records. It knows of no table.
type history map[string]change

// listed are the positions of those that a list has, newest first.
func (h history) listed(f trail.Filter) (out []string) {
	for at, c := range h {
		when, _, _ := strings.Cut(at, "#")
		if when >= audit.Timestamp(f.From) && when < audit.Timestamp(f.To) && (f.Action == "" || string(c.action) == f.Action) &&
			(f.Actor == "" || c.actor == f.Actor || c.email == f.Actor) && (f.Success == nil || *f.Success != c.failure) {
			out = append(out, at)
		}
	}
	slices.Sort(out)
	slices.Reverse(out)
	return out
}

// behind are those of positions that stand behind one; all behind "".
func behind(positions []string, after string) []string {
	return slices.DeleteFunc(slices.Clone(positions), func(at string) bool { return after != "" && at >= after })
}

// wrong says what of a page is of no state between those before and after it was asked for: what was listed then, newest first.
func wrong(found trail.Found, p store.Page, before, after []string) string {
	var has []string
	for _, e := range found.Entries {
		has = append(has, trail.Position(e))
	}
	if !slices.IsSortedFunc(has, func(a, b string) int { return strings.Compare(b, a) }) || len(slices.Compact(slices.Clone(has))) != len(has) {
		return "its entries are in no order, or come twice"
	}
	for _, at := range has {
		if !slices.Contains(after, at) {
			return at + " was never written, or is of no such list"
		}
	}
	if found.Total < len(before) || found.Total > len(after) {
		return "its total was never true"
	}
	if found.HasMore && len(has) != p.Limit || len(has) > p.Limit {
		return "it is no whole page, and there are more"
	}
	least, most := behind(before, p.After), behind(after, p.After)
	if p.After == "" && len(has) != min(p.Limit, max(0, found.Total-p.Offset)) || p.After == "" && found.HasMore != (found.Total > p.Offset+p.Limit) {
		return "its entries are not those that its total says"
	}
	if !found.HasMore && p.Offset+len(has) < len(least) {
		return "it is the last page, and there are more"
	}
	if found.HasMore && p.Offset+len(has) >= len(most) {
		return "there are to be more, and there are none"
	}
	if len(has) == 0 {
		return ""
	}
	if p.Offset > slices.Index(most, has[0]) {
		return "it begins too early"
	}
	skipped := 0 // of those that were there before it, in front of it
	for _, at := range least {
		switch {
		case at > has[0]:
			skipped++
		case at < has[len(has)-1]:
		case !slices.Contains(has, at):
			return "it lacks " + at + ", which was there"
		}
	}
	if skipped > p.Offset {
		return "it begins too late"
	}
	return ""
}

// TestAPageIsOfOneStateBesideWhoeverWrites: a page and its numbers are of one state between the beginning of its request and its end, and
// a walk has each record that was there before it once, whatever is written and chained meanwhile, at each of its reads.
func TestAPageIsOfOneStateBesideWhoeverWrites(t *testing.T) {
	const span = 3 * time.Hour
	for seed := range uint64(simulations.Runs(12)) {
		r := rand.New(rand.NewPCG(seed, 0))
		w := newWorld(t)
		all := history{}
		write := func(n int) {
			for range n {
				c := some(r, span)
				if r.IntN(2) == 0 {
					c.ago /= 100 // most are of the last minutes
				}
				all[w.commit(c)[0]] = c
			}
		}
		chain := func(n int) {
			r.Shuffle(len(w.stream), func(i, j int) { w.stream[i], w.stream[j] = w.stream[j], w.stream[i] })
			taken := w.stream[:min(n, len(w.stream))]
			w.stream = slices.Clone(w.stream[len(taken):])
			if failed := w.HandleStream(t.Context(), taken); failed != nil {
				t.Fatalf("%d records failed", len(failed))
			}
		}
		write(r.IntN(400))
		chain(r.IntN(500))
		// Of each request some reads have something happen in front of them; the chain moves on less often than a list is begun anew.
		const most = 8
		left, often, b := 0, 1+r.IntN(40), &busy{Backend: w.items}
		b.step = func() {
			if left == 0 || r.IntN(often) > 0 {
				return
			}
			left--
			write(r.IntN(3))
			chain(r.IntN(6))
		}
		list := w.over(b)
		for range 5 {
			f := trail.Filter{From: w.now.Add(-time.Duration(r.Int64N(int64(span)))), To: w.now.Add(time.Minute)}
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
			p := store.Page{Limit: 10 + r.IntN(60), Offset: r.IntN(2) * r.IntN(60)}
			first, offset, seen := all.listed(f), p.Offset, map[string]bool{}
			for {
				left = most
				before := all.listed(f)
				found, err := list.List(t.Context(), acme, f, p)
				if err != nil {
					t.Fatalf("seed %d: %+v %+v: %v", seed, f, p, err)
				}
				if why := wrong(found, p, before, all.listed(f)); why != "" {
					t.Fatalf("seed %d: %+v of %+v has %d of %d, more %v: %s", seed, p, f, len(found.Entries), found.Total, found.HasMore, why)
				}
				for _, e := range found.Entries {
					if at := trail.Position(e); seen[at] {
						t.Fatalf("seed %d: %s comes twice in a walk of %+v", seed, at, f)
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
					t.Fatalf("seed %d: a walk of %+v from %d on lacks %s, the %d. of %d", seed, f, offset, at, i, len(first))
				}
			}
		}
	}
}
