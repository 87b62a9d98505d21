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

	"github.com/gatewright/gatewright/shared/core/audit"
	"github.com/gatewright/gatewright/shared/core/store"
)

// listRequest is a list in progress.
type listRequest struct {
	*Trail
	accountID string
	filter    Filter
	page      store.Page
	// length is the number of chained records in the state that the list shows. Records
	// that are chained later count as pending, or are newer than this list. So the
	// chain can grow while records are read, and the read does not have to start again.
	length int64
	// pending has the matching records that were not chained when the chain had the length pendingLength, newest first.
	pending       []audit.Entry
	pendingLength int64
	// pageSpans has the time spans of the page's entries. skip is the number of entries in them before the page.
	pageSpans []span
	skip      int
	// all has the number of all chained records in each window of the longest level, nil before these numbers are
	// read. They only decide which plan is cheaper, so numbers for another length of the chain are good enough.
	all map[time.Time]int
}

// errChainGrown ends an attempt to plan a list because the chain has grown while its counters were read.
var errChainGrown = errors.New("the chain has moved on")

// chainLength returns the length of the chain.
func (r *listRequest) chainLength(ctx context.Context) (int64, error) {
	var h head
	if err := r.table.Get(ctx, headKey(r.accountID), &h); err != nil && !errors.Is(err, store.ErrNotFound) {
		return 0, fmt.Errorf("read the end of an audit chain: %w", err)
	}
	return h.Seq, nil
}

// plan counts the list's entries, and locates the entries of the page. All results are for one
// length of the chain, so plan fails if the chain grows while the counters are read, which
// takes little time. The records can be read later, because each has its number in the chain.
//
// Error: errChainGrown.
func (r *listRequest) plan(ctx context.Context) (total int, err error) {
	spans, err := r.spans(ctx, 0, r.filter.From, r.filter.To)
	if err != nil {
		return 0, err
	}
	after, err := r.chainLength(ctx)
	if err != nil {
		return 0, err
	}
	if after != r.length {
		return 0, errChainGrown
	}
	if err := r.removeChained(ctx); err != nil {
		return 0, err
	}
	total = len(r.pending)
	for i, s := range spans {
		if s.level == len(levels) {
			found, err := r.allBetween(ctx, s.from, s.to)
			if err != nil {
				return 0, err
			}
			spans[i].chained = len(found)
		}
		total += spans[i].chained
	}
	return total, r.locate(ctx, spans)
}

// readPage reads the planned page.
func (r *listRequest) readPage(ctx context.Context, total int) (ListPage, error) {
	entries, err := r.read(ctx, r.pageSpans, r.skip+r.page.Limit+1)
	if err != nil {
		return ListPage{}, err
	}
	out := ListPage{Entries: entries[min(r.skip, len(entries)):], Total: total}
	if len(out.Entries) > r.page.Limit {
		out.Entries, out.HasMore = out.Entries[:r.page.Limit], true
	}
	return out, nil
}

// readPending reads the records that are not chained yet, once for all attempts:
// there may be very many, and they may arrive faster than they are chained. A record
// that is chained during the read is in the chain, and may be in pending too.
func (r *listRequest) readPending(ctx context.Context) (err error) {
	if r.length, err = r.chainLength(ctx); err != nil {
		return err
	}
	r.pendingLength = r.length
	r.pending, err = inParallel(ctx, audit.Shards, func(ctx context.Context, n int) ([]audit.Entry, error) {
		found, err := audit.ListPendingInShard(ctx, r.table, store.Query{PK: audit.PendingPartition(r.accountID, n)})
		return slices.DeleteFunc(found, func(e audit.Entry) bool { return !r.filter.matches(e) }), err
	})
	slices.SortFunc(r.pending, newestFirst)
	return err
}

// removeChained removes the records from pending that have been chained meanwhile.
func (r *listRequest) removeChained(ctx context.Context) (err error) {
	if r.pendingLength == r.length {
		return nil
	}
	batches := slices.Collect(slices.Chunk(r.pending, store.MaxKeys))
	r.pending, err = inParallel(ctx, len(batches), func(ctx context.Context, n int) ([]audit.Entry, error) {
		links := make([]Link, len(batches[n]))
		requests := make([]*store.ReadRequest, len(links))
		for i, e := range batches[n] {
			requests[i] = store.Get(audit.ChainedKey(r.accountID, e), &links[i])
		}
		if err := r.table.Load(ctx, requests...); err != nil {
			return nil, fmt.Errorf("read which audit records are chained: %w", err)
		}
		var pending []audit.Entry
		for i, e := range batches[n] {
			if !requests[i].Found || links[i].Seq > r.length {
				pending = append(pending, e)
			}
		}
		return pending, nil
	})
	r.pendingLength = r.length
	return err
}

// newestFirst compares two entries by position, newest first. Positions begin
// with the time, so most comparisons need only the timestamps.
func newestFirst(a, b audit.Entry) int {
	if order := strings.Compare(b.Timestamp, a.Timestamp); order != 0 {
		return order
	}
	return strings.Compare(Position(b), Position(a))
}

// span is a part of the list's time range.
type span struct {
	level    int
	from, to time.Time
	// chained is the number of the list's entries in the chain in this span.
	chained int
}

// spans divides a time range into the windows of a level, newest first, and the remainders at both ends into windows of the
// next level. No counter covers the last remainders, which are shorter than a minute: plan counts their records one by one.
func (r *listRequest) spans(ctx context.Context, level int, from, to time.Time) (out []span, err error) {
	if level == len(levels) {
		return []span{{level: level, from: from, to: to}}, nil
	}
	l := levels[level]
	first, last := from.Truncate(l.window), to.Truncate(l.window)
	if first.Before(from) {
		first = first.Add(l.window)
	}
	if last.Before(first) { // the range is within one window
		return r.spans(ctx, level+1, from, to)
	}
	var counted map[time.Time]int
	if first.Before(last) {
		if counted, err = r.counts(ctx, r.accountID, r.filter, l, first, last); err != nil {
			return nil, err
		}
	}
	if last.Before(to) {
		if out, err = r.spans(ctx, level+1, last, to); err != nil {
			return nil, err
		}
	}
	for window := last.Add(-l.window); !window.Before(first); window = window.Add(-l.window) {
		out = append(out, span{level, window, window.Add(l.window), counted[window]})
	}
	if from.Before(first) {
		rest, err := r.spans(ctx, level+1, from, first)
		if err != nil {
			return nil, err
		}
		out = append(out, rest...)
	}
	return out, nil
}

// entriesBetween returns the entries whose times are in from
// (included) .. to (excluded). entries must be sorted newest first.
func entriesBetween(entries []audit.Entry, from, to time.Time) []audit.Entry {
	index := func(at time.Time) int {
		n, _ := slices.BinarySearchFunc(entries, audit.Timestamp(at), func(e audit.Entry, at string) int {
			if e.Timestamp >= at {
				return -1
			}
			return 1
		})
		return n
	}
	return entries[index(to):index(from)]
}

// locate finds the spans that contain the page's entries and the first entry after the page, if it exists.
func (r *listRequest) locate(ctx context.Context, spans []span) error {
	skip, want := r.page.Offset, r.page.Limit+1
	var read []span
	for expected := 0; len(spans) > 0 && expected < skip+want; {
		s := spans[0]
		spans = spans[1:]
		reached := r.page.After == "" || audit.Timestamp(s.to) <= r.page.After // the page begins before this span
		n := s.chained + len(entriesBetween(r.pending, s.from, s.to))
		switch {
		case n == 0 || r.page.After != "" && Position(audit.Entry{Timestamp: audit.Timestamp(s.from)}) > r.page.After:
			continue // the span has no entries, or none after the position
		case reached && len(read) == 0 && skip >= n:
			skip -= n
			continue
		}
		finer, err := r.subdivide(ctx, s, reached && len(read) == 0 && skip > 0)
		if err != nil {
			return err
		}
		if finer != nil {
			spans = append(finer, spans...)
			continue
		}
		read = append(read, s)
		if reached {
			expected += n
		}
	}
	r.pageSpans, r.skip = read, skip
	return nil
}

// maxUndividedRecords is the maximum number of records in a span that is not subdivided: its records are read instead.
const maxUndividedRecords = 100

// subdivide divides a span that has too many records to read them for a filter, or
// to skip them one by one. It returns nil if the span should be read.
func (r *listRequest) subdivide(ctx context.Context, s span, skipping bool) (out []span, err error) {
	if s.level > 0 || s.chained == 0 || !skipping && !r.filter.hasConditions() {
		return nil, nil
	}
	if r.all == nil {
		all := Filter{From: r.filter.From, To: r.filter.To}
		if r.all, err = r.counts(ctx, r.accountID, all, levels[0], all.From, all.To); err != nil {
			return nil, err
		}
	}
	if r.all[s.from] <= maxUndividedRecords {
		return nil, nil
	}
	if out, err = r.spans(ctx, s.level+1, s.from, s.to); err != nil {
		return nil, err
	}
	// Counters only grow: if the finer counters have the same sum, they are for the same length of the chain.
	for _, finer := range out {
		s.chained -= finer.chained
	}
	if s.chained != 0 {
		return nil, errChainGrown
	}
	return out, nil
}

// read returns at least the first n entries of spans, in the list's order, or all if there
// are fewer. Between the entries after the first n, other entries can be missing.
func (r *listRequest) read(ctx context.Context, spans []span, n int) (out []audit.Entry, err error) {
	if len(spans) == 0 {
		return nil, nil
	}
	pending := r.pending
	if r.page.After != "" {
		at, exact := slices.BinarySearchFunc(pending, r.page.After, func(e audit.Entry, after string) int {
			return strings.Compare(after, Position(e))
		})
		if exact {
			at++
		}
		pending = pending[at:]
	}
	for _, s := range spans {
		out = append(out, entriesBetween(pending, s.from, s.to)...)
	}
	out = out[:min(n, len(out))]
	parts := spans
	if !r.filter.hasConditions() { // all records between the spans are in the list
		parts = []span{{from: spans[len(spans)-1].from, to: spans[0].to, chained: math.MaxInt}}
	}
	found, err := inParallel(ctx, len(parts), func(ctx context.Context, i int) ([]audit.Entry, error) {
		switch s := parts[i]; {
		case s.chained == 0:
			return nil, nil
		case s.chained > n: // the number of all entries may be much greater than n
			return r.newest(ctx, s.from, s.to, n)
		default:
			return r.allBetween(ctx, s.from, s.to)
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

// newest returns the newest matching chained records in a time range: at least n, or all if there are fewer.
func (r *listRequest) newest(ctx context.Context, from, to time.Time, n int) ([]audit.Entry, error) {
	before := audit.Timestamp(to)
	if r.page.After != "" && r.page.After < before {
		before = r.page.After
	}
	return inParallel(ctx, audit.ChainedShards, func(ctx context.Context, shard int) (out []audit.Entry, err error) {
		q := store.Query{PK: audit.ChainedPartition(r.accountID, shard), After: before, Descending: true, Limit: n}
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
			q.Limit *= 2 // if many records do not match, or were chained later, read more at a time
		}
	})
}

// allBetween returns all matching chained records in a time range.
func (r *listRequest) allBetween(ctx context.Context, from, to time.Time) ([]audit.Entry, error) {
	return inParallel(ctx, audit.ChainedShards, func(ctx context.Context, shard int) (out []audit.Entry, err error) {
		q := store.Query{
			PK: audit.ChainedPartition(r.accountID, shard), After: audit.Timestamp(from),
			UpTo: audit.Timestamp(to),
		}
		return out, r.visit(ctx, q, func(e audit.Entry, chained bool) bool {
			if chained && r.filter.matches(e) {
				out = append(out, e)
			}
			return true
		})
	})
}

// visit calls the given function for each record of a query. chained is whether the record was already chained when the
// page was planned.
func (r *listRequest) visit(ctx context.Context, q store.Query, visit func(e audit.Entry, chained bool) bool) error {
	var decodeErr error
	err := store.Visit(ctx, r.table, q, func(l Link) bool {
		e, err := l.entry()
		if err != nil {
			decodeErr = err
			return false
		}
		return visit(e, l.Seq <= r.length)
	})
	if err = errors.Join(err, decodeErr); err != nil {
		return fmt.Errorf("list chained audit records: %w", err)
	}
	return nil
}

// maxParallel is the maximum number of concurrent queries.
const maxParallel = 16

// inParallel makes n reads, up to maxParallel at the same time, and returns their joined results.
func inParallel(
	ctx context.Context, n int, read func(ctx context.Context, i int) ([]audit.Entry, error),
) ([]audit.Entry, error) {
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
