package trail

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/gatewright/gatewright/shared/audit"
	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/store"
)

// MaxSpan is the longest time that one list is over (contract 2.2).
const MaxSpan = 30 * 24 * time.Hour

// Filter says which records a list has. All of it has to match.
type Filter struct {
	// Action is the exact action, Actor who did it, by email or sub; "" is any.
	Action, Actor string
	// Success is what came of it; nil is anything.
	Success *bool
	// From and To bound the records' times, From alone included. Records older than
	// audit.Retention are in no list.
	From, To time.Time
}

// matches reports whether the filter lets an entry through.
func (f Filter) matches(e audit.Entry) bool {
	at := e.Timestamp
	return at >= audit.Timestamp(f.From) && at < audit.Timestamp(f.To) &&
		(f.Action == "" || f.Action == string(e.Action)) &&
		(f.Success == nil || outcome(f.Success) == outcome(e.Success)) &&
		(f.Actor == "" || slices.Contains(actors(e), f.Actor))
}

// narrow reports whether records of its time may not match.
func (f Filter) narrow() bool { return f.Action != "" || f.Actor != "" || f.Success != nil }

// Found is a page of a list.
type Found struct {
	Entries []audit.Entry
	// Total is how many there are in all, HasMore whether there are some behind the
	// page: both of the one state that the entries are of.
	Total   int
	HasMore bool
}

// Next is where the page behind this one begins, for store.Page; "" where there is
// none.
func (f Found) Next() string {
	if !f.HasMore {
		return ""
	}
	return Position(f.Entries[len(f.Entries)-1])
}

// Position says where an entry stands, for store.Page.
func Position(e audit.Entry) string { return audit.WaitingKey("", e).SK }

// Between gives the times of a list whose bounds are asked for, each nil for none:
// without an end it goes up to now, without a beginning over the 30 days before its
// end. Up to now is a little longer, for clocks that are ahead of this one, and
// begins with a whole window of the counters.
//
// Fault: Invalid, naming the field.
func (t *Trail) Between(startDate, endDate *time.Time) (from, to time.Time, err error) {
	now, whole := t.now(), levels[0].every
	to = now
	if endDate != nil {
		to = *endDate
	}
	from = to.Add(-MaxSpan)
	if startDate != nil {
		from = *startDate
	}
	switch {
	case !from.Before(to) && endDate == nil:
		err = fault.InvalidField("startDate", "lies in the future")
	case !from.Before(to):
		err = fault.InvalidField("startDate", "has to be before endDate")
	case to.Sub(from) > MaxSpan && endDate == nil:
		err = fault.InvalidField("startDate", "lies more than 30 days back: give an endDate too, at most 30 days later")
	case to.Sub(from) > MaxSpan:
		err = fault.InvalidField("endDate", "lies more than 30 days behind startDate: ask for one part after the other")
	}
	if endDate == nil {
		to = now.Truncate(whole).Add(2 * whole)
	}
	if startDate == nil {
		from = from.Truncate(whole)
	}
	return from, to, err
}

// listAttempts is how often a list is begun while its account's chain moves on.
const listAttempts = 12

// List gives the records of an account, newest first. It shows what is committed
// when it begins, chained or not. What it costs depends on the length of the page
// and on how long the time is, not on how many records there are.
//
// Fault: Throttled.
func (t *Trail) List(ctx context.Context, accountID string, f Filter, p store.Page) (Found, error) {
	if oldest := t.now().Add(-audit.Retention); f.From.Before(oldest) {
		f.From = oldest
	}
	f.From, f.To = ceil(f.From), ceil(f.To)
	for attempt := 1; attempt <= listAttempts; attempt++ {
		r := &reading{Trail: t, accountID: accountID, filter: f, page: p}
		before, err := r.seq(ctx)
		if err != nil {
			return Found{}, err
		}
		total, err := r.plan(ctx)
		if err != nil {
			return Found{}, err
		}
		// A record that was moved meanwhile may have been counted twice, or never.
		if after, err := r.seq(ctx); err != nil || after == before {
			if err != nil {
				return Found{}, err
			}
			r.length = before
			return r.found(ctx, total)
		}
	}
	busy := fault.New(fault.Throttled, "The account's audit log is being written too fast to be read. Repeat the request after the time in Retry-After.")
	busy.RetryAfter = time.Second
	return Found{}, busy
}

// ceil is the first millisecond that is not before t: records have no finer times.
func ceil(t time.Time) time.Time {
	if down := t.UTC().Truncate(time.Millisecond); down.Before(t) {
		return down.Add(time.Millisecond)
	}
	return t.UTC()
}

// reading is one attempt at a list.
type reading struct {
	*Trail
	accountID string
	filter    Filter
	page      store.Page
	waiting   []audit.Entry // what matches and is not chained yet, newest first
	// length is how long the chain was when that was read: what came behind it is
	// waiting, or is newer than this list. Reading records may take longer than the
	// chain stands still, and has not to be begun again when it moves on.
	length int64
	// parts are where the page's entries are, skip how many stand in front of it there.
	parts []span
	skip  int
	// all are the numbers of all chained records by windows of the longest level,
	// nil before they are read.
	all map[time.Time]int
}

// seq is how long the chain is.
func (r *reading) seq(ctx context.Context) (int64, error) {
	var h head
	if err := r.table.Get(ctx, headKey(r.accountID), &h); err != nil && !errors.Is(err, store.ErrNotFound) {
		return 0, fmt.Errorf("read the end of an audit chain: %w", err)
	}
	return h.Seq, nil
}

// plan counts the list's entries, and finds out where those of the page are: all
// that has to be of one state of the chain, in short reads.
func (r *reading) plan(ctx context.Context) (total int, err error) {
	r.length = math.MaxInt64
	if err := r.wait(ctx); err != nil {
		return 0, err
	}
	spans, err := r.spans(ctx, 0, r.filter.From, r.filter.To)
	if err != nil {
		return 0, err
	}
	total = len(r.waiting)
	for _, s := range spans {
		total += s.chained
	}
	return total, r.locate(ctx, spans)
}

// found reads the page that was planned.
func (r *reading) found(ctx context.Context, total int) (Found, error) {
	entries, err := r.read(ctx, r.parts, r.skip+r.page.Limit+1)
	if err != nil {
		return Found{}, err
	}
	out := Found{Entries: entries[min(r.skip, len(entries)):], Total: total}
	if len(out.Entries) > r.page.Limit {
		out.Entries, out.HasMore = out.Entries[:r.page.Limit], true
	}
	return out, nil
}

// wait reads the records that are not chained yet.
func (r *reading) wait(ctx context.Context) error {
	found, err := inParallel(ctx, audit.Shards, func(ctx context.Context, n int) ([]audit.Entry, error) {
		return audit.NewOf(ctx, r.table, store.Query{PK: audit.Waiting(r.accountID, n)})
	})
	if err != nil {
		return err
	}
	r.waiting = slices.DeleteFunc(found, func(e audit.Entry) bool { return !r.filter.matches(e) })
	slices.SortFunc(r.waiting, newestFirst)
	return nil
}

func newestFirst(a, b audit.Entry) int { return strings.Compare(Position(b), Position(a)) }

// span is a part of the list's time.
type span struct {
	level    int
	from, to time.Time
	// chained and waiting are how many entries of the list it has.
	chained, waiting int
}

// spans divides a time into the windows of a level, newest first, and what
// sticks out of them into those of the next one; in the end records are counted
// one by one, of less than a minute.
func (r *reading) spans(ctx context.Context, at int, from, to time.Time) (out []span, err error) {
	if at == len(levels) {
		found, err := r.between(ctx, from, to)
		return []span{r.span(at, from, to, len(found))}, err
	}
	l := levels[at]
	first, last := from.Truncate(l.every), to.Truncate(l.every)
	if first.Before(from) {
		first = first.Add(l.every)
	}
	if last.Before(first) { // within one window
		return r.spans(ctx, at+1, from, to)
	}
	var n map[time.Time]int
	if first.Before(last) {
		if n, err = r.counts(ctx, r.accountID, r.filter, l, first, last); err != nil {
			return nil, err
		}
	}
	if last.Before(to) {
		if out, err = r.spans(ctx, at+1, last, to); err != nil {
			return nil, err
		}
	}
	for window := last.Add(-l.every); !window.Before(first); window = window.Add(-l.every) {
		out = append(out, r.span(at, window, window.Add(l.every), n[window]))
	}
	if from.Before(first) {
		rest, err := r.spans(ctx, at+1, from, first)
		if err != nil {
			return nil, err
		}
		out = append(out, rest...)
	}
	return out, nil
}

func (r *reading) span(level int, from, to time.Time, chained int) span {
	waiting := len(within(r.waiting, from, to))
	return span{level, from, to, chained, waiting}
}

// within are those of entries, newest first, whose times lie from .. to.
func within(entries []audit.Entry, from, to time.Time) []audit.Entry {
	before := func(at time.Time) int {
		n, _ := slices.BinarySearchFunc(entries, audit.Timestamp(at), func(e audit.Entry, at string) int {
			if e.Timestamp >= at {
				return -1
			}
			return 1
		})
		return n
	}
	return entries[before(to):before(from)]
}

// locate finds the parts that have the page's entries and one more, if there is one.
func (r *reading) locate(ctx context.Context, spans []span) error {
	skip, want := r.page.Offset, r.page.Limit+1
	var read []span
	for expected := 0; len(spans) > 0 && expected < skip+want; {
		s := spans[0]
		spans = spans[1:]
		begun := r.page.After == "" || audit.Timestamp(s.to) <= r.page.After // the page begins before it
		n := s.chained + s.waiting
		switch {
		case n == 0 || r.page.After != "" && Position(audit.Entry{Timestamp: audit.Timestamp(s.from)}) > r.page.After:
			continue // it has nothing, or nothing behind the position
		case begun && len(read) == 0 && skip >= n:
			skip -= n
			continue
		}
		finer, err := r.finer(ctx, s, begun && len(read) == 0 && skip > 0)
		if err != nil {
			return err
		}
		if finer != nil {
			spans = append(finer, spans...)
			continue
		}
		read = append(read, s)
		if begun {
			expected += n
		}
	}
	r.parts, r.skip = read, skip
	return nil
}

// fewRecords are read rather than looked for in finer windows.
const fewRecords = 100

// finer divides a span whose records are too many to be read for those that
// match, or to be skipped one by one; nil where it is to be read.
func (r *reading) finer(ctx context.Context, s span, skipping bool) (out []span, err error) {
	if s.level > 0 || s.chained == 0 || !skipping && !r.filter.narrow() {
		return nil, nil
	}
	if r.all == nil {
		all := Filter{From: r.filter.From, To: r.filter.To}
		if r.all, err = r.counts(ctx, r.accountID, all, levels[0], all.From, all.To); err != nil {
			return nil, err
		}
	}
	if r.all[s.from] <= fewRecords {
		return nil, nil
	}
	return r.spans(ctx, s.level+1, s.from, s.to)
}

// read gives the first n entries of spans, in the list's order.
func (r *reading) read(ctx context.Context, spans []span, n int) (out []audit.Entry, err error) {
	if len(spans) == 0 {
		return nil, nil
	}
	for _, s := range spans {
		out = append(out, within(r.waiting, s.from, s.to)...)
	}
	if r.filter.narrow() {
		found, err := inParallel(ctx, len(spans), func(ctx context.Context, i int) ([]audit.Entry, error) {
			if spans[i].chained == 0 {
				return nil, nil
			}
			return r.between(ctx, spans[i].from, spans[i].to)
		})
		if err != nil {
			return nil, err
		}
		out = append(out, found...)
	} else {
		found, err := r.newest(ctx, spans[len(spans)-1].from, spans[0].to, n)
		if err != nil {
			return nil, err
		}
		out = append(out, found...)
	}
	slices.SortFunc(out, newestFirst)
	if r.page.After != "" {
		out = slices.DeleteFunc(out, func(e audit.Entry) bool { return Position(e) >= r.page.After })
	}
	return out, nil
}

// newest gives the newest chained records of a time, the first n of the list at
// least. It is for a list without filters.
func (r *reading) newest(ctx context.Context, from, to time.Time, n int) ([]audit.Entry, error) {
	behind := audit.Timestamp(to)
	if r.page.After != "" && r.page.After < behind {
		behind = r.page.After
	}
	return inParallel(ctx, audit.ChainedShards, func(ctx context.Context, shard int) (out []audit.Entry, err error) {
		q := store.Query{PK: audit.Chained(r.accountID, shard), After: behind, Descending: true, Limit: n}
		for {
			later, last := 0, ""
			err := r.visit(ctx, q, func(e audit.Entry, chained bool) bool {
				last = Position(e)
				switch {
				case e.Timestamp < audit.Timestamp(from):
					return false
				case !chained:
					later++
				default:
					out = append(out, e)
				}
				return true
			})
			if err != nil || later == 0 || len(out) == n {
				return out, err
			}
			q.After, q.Limit = last, n-len(out) // those behind them
		}
	})
}

// between gives all chained records of a time that match.
func (r *reading) between(ctx context.Context, from, to time.Time) ([]audit.Entry, error) {
	return inParallel(ctx, audit.ChainedShards, func(ctx context.Context, shard int) (out []audit.Entry, err error) {
		q := store.Query{PK: audit.Chained(r.accountID, shard), After: audit.Timestamp(from), UpTo: audit.Timestamp(to)}
		return out, r.visit(ctx, q, func(e audit.Entry, chained bool) bool {
			if chained && r.filter.matches(e) {
				out = append(out, e)
			}
			return true
		})
	})
}

// visit tells of each chained record whether it was when the page was planned.
func (r *reading) visit(ctx context.Context, q store.Query, visit func(e audit.Entry, chained bool) bool) error {
	var broken error
	err := store.Visit(ctx, r.table, q, func(l Link) bool {
		e, err := l.entry()
		if err != nil {
			broken = err
			return false
		}
		return visit(e, l.Seq <= r.length)
	})
	if err = errors.Join(err, broken); err != nil {
		return fmt.Errorf("list chained audit records: %w", err)
	}
	return nil
}

// maxParallel is how many queries run at a time.
const maxParallel = 16

// inParallel joins what n reads give.
func inParallel(ctx context.Context, n int, read func(ctx context.Context, i int) ([]audit.Entry, error)) ([]audit.Entry, error) {
	found := make([][]audit.Entry, n)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(maxParallel)
	for i := range n {
		group.Go(func() (err error) {
			found[i], err = read(ctx, i)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return slices.Concat(found...), nil
}
