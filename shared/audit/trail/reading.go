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
	"github.com/gatewright/gatewright/shared/store"
)

// reading is a list that is being read.
type reading struct {
	*Trail
	accountID string
	filter    Filter
	page      store.Page
	// length is the state of the chain that the list is of, by how many records it
	// had: what came behind it is waiting, or is newer than this list. Reading
	// records may take longer than the chain stands still, and has not to be begun
	// again when it moves on.
	length int64
	// waiting is what matches and was not chained when the chain had the length settled, newest first.
	waiting []audit.Entry
	settled int64
	// parts are where the page's entries are, skip how many stand in front of it there.
	parts []span
	skip  int
	// all are the numbers of all chained records by windows of the longest level,
	// nil before they are read. They say what is cheaper, and no more: those of
	// another length of the chain do as well.
	all map[time.Time]int
}

// errMoved ends an attempt to plan a list: the chain has moved on while its counters were read.
var errMoved = errors.New("the chain has moved on")

// seq is how long the chain is.
func (r *reading) seq(ctx context.Context) (int64, error) {
	var h head
	if err := r.table.Get(ctx, headKey(r.accountID), &h); err != nil && !errors.Is(err, store.ErrNotFound) {
		return 0, fmt.Errorf("read the end of an audit chain: %w", err)
	}
	return h.Seq, nil
}

// plan counts the list's entries, and finds out where those of the page are. All of it is of one length of the
// chain: its counters are read, which is short, while it has that length, and its records, which say behind how
// many others they came, at any time.
//
// Error: errMoved.
func (r *reading) plan(ctx context.Context) (total int, err error) {
	spans, err := r.spans(ctx, 0, r.filter.From, r.filter.To)
	if err != nil {
		return 0, err
	}
	after, err := r.seq(ctx)
	if err != nil {
		return 0, err
	}
	if after != r.length {
		return 0, errMoved
	}
	if err := r.settle(ctx); err != nil {
		return 0, err
	}
	total = len(r.waiting)
	for i, s := range spans {
		if s.level == len(levels) {
			found, err := r.between(ctx, s.from, s.to)
			if err != nil {
				return 0, err
			}
			spans[i].chained = len(found)
		}
		total += spans[i].chained
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

// wait reads the records that are not chained yet, once for all attempts: there may be very many, faster
// than they are chained. Those that are chained while it reads are in the chain, and may be here too.
func (r *reading) wait(ctx context.Context) (err error) {
	if r.length, err = r.seq(ctx); err != nil {
		return err
	}
	r.settled = r.length
	r.waiting, err = inParallel(ctx, audit.Shards, func(ctx context.Context, n int) ([]audit.Entry, error) {
		found, err := audit.NewOf(ctx, r.table, store.Query{PK: audit.Waiting(r.accountID, n)})
		return slices.DeleteFunc(found, func(e audit.Entry) bool { return !r.filter.matches(e) }), err
	})
	slices.SortFunc(r.waiting, newestFirst)
	return err
}

// settle leaves out of those that wait what the chain has by now.
func (r *reading) settle(ctx context.Context) (err error) {
	if r.settled == r.length {
		return nil
	}
	batches := slices.Collect(slices.Chunk(r.waiting, store.MaxKeys))
	r.waiting, err = inParallel(ctx, len(batches), func(ctx context.Context, n int) ([]audit.Entry, error) {
		links := make([]Link, len(batches[n]))
		wanted := make([]*store.Wanted, len(links))
		for i, e := range batches[n] {
			wanted[i] = store.Want(audit.ChainedKey(r.accountID, e), &links[i])
		}
		if err := r.table.Load(ctx, wanted...); err != nil {
			return nil, fmt.Errorf("read which audit records are chained: %w", err)
		}
		var waiting []audit.Entry
		for i, e := range batches[n] {
			if !wanted[i].Found || links[i].Seq > r.length {
				waiting = append(waiting, e)
			}
		}
		return waiting, nil
	})
	r.settled = r.length
	return err
}

// newestFirst is the order of positions, which begin with the time: most are told apart by it, without making them.
func newestFirst(a, b audit.Entry) int {
	if later := strings.Compare(b.Timestamp, a.Timestamp); later != 0 {
		return later
	}
	return strings.Compare(Position(b), Position(a))
}

// span is a part of the list's time.
type span struct {
	level    int
	from, to time.Time
	// chained is how many entries of the list it has in the chain.
	chained int
}

// spans divides a time into the windows of a level, newest first, and what
// sticks out of them into those of the next one; what is left in the end, of less than a
// minute, no counter has: plan counts its records one by one.
func (r *reading) spans(ctx context.Context, at int, from, to time.Time) (out []span, err error) {
	if at == len(levels) {
		return []span{{level: at, from: from, to: to}}, nil
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
		out = append(out, span{at, window, window.Add(l.every), n[window]})
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
		n := s.chained + len(within(r.waiting, s.from, s.to))
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
	if out, err = r.spans(ctx, s.level+1, s.from, s.to); err != nil {
		return nil, err
	}
	// Counters only grow: finer ones that give the same number are of the same length of the chain.
	for _, finer := range out {
		s.chained -= finer.chained
	}
	if s.chained != 0 {
		return nil, errMoved
	}
	return out, nil
}

// read gives the first n entries of spans, in the list's order.
func (r *reading) read(ctx context.Context, spans []span, n int) (out []audit.Entry, err error) {
	if len(spans) == 0 {
		return nil, nil
	}
	waiting := r.waiting
	if r.page.After != "" {
		at, there := slices.BinarySearchFunc(waiting, r.page.After, func(e audit.Entry, after string) int { return strings.Compare(after, Position(e)) })
		if there {
			at++
		}
		waiting = waiting[at:]
	}
	for _, s := range spans {
		out = append(out, within(waiting, s.from, s.to)...)
	}
	out = out[:min(n, len(out))]
	parts := spans
	if !r.filter.narrow() { // everything in between is of the list
		parts = []span{{from: spans[len(spans)-1].from, to: spans[0].to, chained: math.MaxInt}}
	}
	found, err := inParallel(ctx, len(parts), func(ctx context.Context, i int) ([]audit.Entry, error) {
		switch s := parts[i]; {
		case s.chained == 0:
			return nil, nil
		case s.chained > n: // all of them may be very many more
			return r.newest(ctx, s.from, s.to, n)
		default:
			return r.between(ctx, s.from, s.to)
		}
	})
	if err != nil {
		return nil, err
	}
	out = append(out, found...)
	slices.SortFunc(out, newestFirst)
	if r.page.After != "" {
		out = slices.DeleteFunc(out, func(e audit.Entry) bool { return Position(e) >= r.page.After })
	}
	return out, nil
}

// newest gives the newest chained records of a time that match, the first n of the list at least.
func (r *reading) newest(ctx context.Context, from, to time.Time, n int) ([]audit.Entry, error) {
	behind := audit.Timestamp(to)
	if r.page.After != "" && r.page.After < behind {
		behind = r.page.After
	}
	return inParallel(ctx, audit.ChainedShards, func(ctx context.Context, shard int) (out []audit.Entry, err error) {
		q := store.Query{PK: audit.Chained(r.accountID, shard), After: behind, Descending: true, Limit: n}
		for {
			visited, older := 0, false
			err := r.visit(ctx, q, func(e audit.Entry, chained bool) bool {
				visited++
				q.After = Position(e)
				older = e.Timestamp < audit.Timestamp(from)
				if !older && chained && r.filter.matches(e) {
					out = append(out, e)
				}
				return !older && len(out) < n
			})
			if err != nil || older || len(out) == n || visited < q.Limit {
				return out, err
			}
			q.Limit *= 2 // of many that do not match, or came later, more are read at a time
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
