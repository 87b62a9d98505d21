package counts

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/DataDog/sketches-go/ddsketch"

	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/resource/analytics"
)

// Callers selects the callers that a report covers.
type Callers struct {
	// All selects all calls, including those without a consumer.
	All bool
	// Names are the names of the selected consumers if All is false.
	Names []string
}

func (c Callers) includes(consumer string) bool { return c.All || slices.Contains(c.Names, consumer) }

// StatusCount is the number of calls with a response status.
type StatusCount struct {
	// Status has three digits.
	Status string
	Calls  int64
}

// CallerCount is the number of calls of a consumer.
type CallerCount struct {
	// Consumer is "" for calls without a consumer, and Other for consumers that exceeded the capacity.
	Consumer string
	// At is the beginning of the interval of the calls, zero for the whole window.
	At       time.Time
	Calls    int64
	ByStatus []StatusCount
}

// Statuses contains the numbers of calls of a window.
type Statuses struct {
	// Totals has one entry for each consumer, the consumer with the most calls first.
	Totals []CallerCount
	// Details contains the same numbers by time, the earliest first.
	Details []CallerCount
}

// maxDetails is the maximum number of pairs of a consumer and a status in all intervals of a
// report. Each pair has at most some 300 bytes, and the platform's limit for a response is 6 MB.
const maxDetails = 15_000

// Statuses returns the numbers of calls of a deployment by status.
func (r *Reader) Statuses(ctx context.Context, deployment string, w Window, callers Callers) (Statuses, error) {
	s, err := w.span()
	if err != nil {
		return Statuses{}, err
	}
	from, runs := s.cover(r.now())
	parts, err := r.parts(ctx, deployment, from, runs)
	if err != nil {
		return Statuses{}, err
	}
	// All parts are added up before any caller is folded, so that each caller counts with its sum, regardless of the
	// order of the parts.
	total, points := newTally(), map[int64]*tally{}
	for _, p := range parts {
		at := max(s.pointResolution.start(p.start), from)
		if points[at] == nil {
			points[at] = newTally()
		}
		p.each(func(c caller, n counter) {
			if callers.includes(c.consumer) {
				total.addCalls(c, n)
				points[at].addCalls(c, n)
			}
		})
	}
	total.trimCallers(maxCallers)
	trimDetails(points)
	out := Statuses{Totals: total.callers(time.Time{})}
	for at, t := range points {
		out.Details = append(out.Details, t.callers(time.Unix(at, 0).UTC())...)
	}
	slices.SortFunc(out.Totals, func(a, b CallerCount) int {
		return cmp.Or(cmp.Compare(b.Calls, a.Calls), strings.Compare(a.Consumer, b.Consumer))
	})
	slices.SortFunc(out.Details, func(a, b CallerCount) int {
		return cmp.Or(a.At.Compare(b.At), strings.Compare(a.Consumer, b.Consumer))
	})
	return out, nil
}

// trimDetails folds callers into Other until all intervals together have at most maxDetails callers. Intervals with
// few callers keep all of them.
func trimDetails(points map[int64]*tally) {
	for capacity := maxCallers; ; capacity-- {
		pairs := 0
		for _, t := range points {
			pairs += min(len(t.calls), capacity)
		}
		if pairs > maxDetails {
			continue
		}
		for _, t := range points {
			t.trimCallers(capacity)
		}
		return
	}
}

// callers returns the calls of a tally by consumer, in no order.
func (t *tally) callers(at time.Time) []CallerCount {
	byConsumer := map[string]map[int]int64{}
	t.each(func(c caller, n counter) {
		if byConsumer[c.consumer] == nil {
			byConsumer[c.consumer] = map[int]int64{}
		}
		byConsumer[c.consumer][c.status] = n.count
	})
	var out []CallerCount
	for consumer, statuses := range byConsumer {
		count := CallerCount{Consumer: consumer, At: at}
		for _, status := range slices.Sorted(maps.Keys(statuses)) {
			count.Calls += statuses[status]
			count.ByStatus = append(count.ByStatus, StatusCount{strconv.Itoa(status), statuses[status]})
		}
		out = append(out, count)
	}
	return out
}

// Latency contains quantiles of latencies, each within 1 % of the exact quantile. They are 0 if nothing was measured.
type Latency struct{ P50, P95, P99 time.Duration }

// OperationCount contains the measurements of the GraphQL operations with one name and type, or of all operations.
type OperationCount struct {
	// Name is Unnamed for operations without a name, and Other for operations that exceeded the capacity.
	Name string
	// Type is query, mutation or subscription, or "" for documents that could not be parsed.
	Type               string
	Operations, Failed int64
	Classes            [analytics.Classes]int64
	// ComplexityAvg and ComplexityMax are the average and the maximum complexity of these operations.
	ComplexityAvg   float64
	ComplexityMax   int64
	Total, Resolver Latency
}

// Operations contains the GraphQL operations of a window.
type Operations struct {
	Totals OperationCount
	// Each has one entry for each operation, the most frequent first.
	Each []OperationCount
}

// Operations returns the GraphQL operations of a deployment.
func (r *Reader) Operations(ctx context.Context, deployment string, w Window) (Operations, error) {
	s, err := w.span()
	if err != nil {
		return Operations{}, err
	}
	from, runs := s.cover(r.now())
	parts, err := r.parts(ctx, deployment, from, runs)
	if err != nil {
		return Operations{}, err
	}
	each, all := newTally(), newOperationStats()
	for _, p := range parts {
		for _, m := range p.operations {
			all.merge(m)
		}
		for _, m := range p.otherOperations {
			all.merge(m)
		}
		each.absorb(p.tally) // all parts are added before any operation is folded, so that each counts with its sum
	}
	each.trimOperations(maxOperations)
	out := Operations{Totals: all.operationCount(operation{})}
	for o, m := range each.operations {
		out.Each = append(out.Each, m.operationCount(o))
	}
	for kind, m := range each.otherOperations {
		out.Each = append(out.Each, m.operationCount(operation{Other, kind}))
	}
	slices.SortFunc(out.Each, func(a, b OperationCount) int {
		return cmp.Or(cmp.Compare(b.Operations, a.Operations), strings.Compare(a.Name, b.Name),
			strings.Compare(a.Type, b.Type))
	})
	return out, nil
}

func (s *operationStats) operationCount(o operation) OperationCount {
	out := OperationCount{
		Name: o.name, Type: o.kind, Operations: s.count, Failed: s.failed, Classes: s.classes, ComplexityMax: s.complexityMax,
		Total: latencyOf(s.totalLatency), Resolver: latencyOf(s.resolverLatency),
	}
	if s.count > 0 {
		out.ComplexityAvg = float64(s.complexity) / float64(s.count)
	}
	return out
}

func latencyOf(s *ddsketch.DDSketch) Latency {
	atQuantile := func(q float64) time.Duration { return time.Duration(quantile(s, q) * float64(time.Millisecond)) }
	return Latency{P50: atQuantile(0.50), P95: atQuantile(0.95), P99: atQuantile(0.99)}
}

// recentPeriod is how long single calls are available.
const recentPeriod = 24 * time.Hour

// Recent returns the newest calls of a deployment, newest first: at most limit and at most 1,000 calls. If callers
// selects all calls, the result is complete, with the exceptions of maxRecent. Otherwise it contains only those calls
// of the selected callers that are among the newest 1,000 calls of their hour.
func (r *Reader) Recent(ctx context.Context, deployment string, callers Callers, limit int) ([]RecentCall, error) {
	for attempt := 1; ; attempt++ {
		before, err := r.version(ctx, deployment)
		if err != nil {
			return nil, err
		}
		found, err := r.recent(ctx, deployment, callers, min(limit, maxRecent))
		if err != nil {
			return nil, err
		}
		after, err := r.version(ctx, deployment)
		if err != nil || before == after || attempt == readAttempts {
			return found, err
		}
	}
}

// recent is an attempt of Recent. It does not detect rollups during the reading.
func (r *Reader) recent(ctx context.Context, deployment string, callers Callers, limit int) ([]RecentCall, error) {
	from := r.now().Add(-recentPeriod)
	var out []RecentCall
	collect := func(calls []RecentCall) {
		for _, c := range calls {
			if !c.At.Before(from) && callers.includes(c.Consumer) {
				out = append(out, c)
			}
		}
		out = newest(out, limit)
	}
	pending, err := r.pending(ctx, deployment)
	if err != nil {
		return nil, err
	}
	for _, counts := range pending {
		collect(counts.recent.calls)
	}
	oldest := hourly.start(from.Unix())
	var decodeErr error
	// The newest hour comes first. The limit is 25 rows and not 24, because the period begins in the middle of an
	// hour.
	err = store.Visit(ctx, r.table, store.Query{PK: callsPartition(deployment), Descending: true, Limit: 25},
		func(hour row) bool {
			start, ok := parseTime(hour.SK)
			if !ok || start < oldest || len(out) == limit && out[limit-1].At.Unix() >= start+int64(hourly.duration/time.Second) {
				return false
			}
			var p packedCalls
			var calls []RecentCall
			if decodeErr = decodeRow(hour.Data, &p); decodeErr == nil {
				calls, decodeErr = p.unpack()
			}
			collect(calls)
			return decodeErr == nil
		})
	if err != nil {
		return nil, err
	}
	return out, decodeErr
}
