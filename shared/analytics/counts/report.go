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

	"github.com/gatewright/gatewright/shared/analytics"
	"github.com/gatewright/gatewright/shared/store"
)

// Callers are whose calls a report is about.
type Callers struct {
	// All is everybody, those without a consumer too.
	All bool
	// Names are consumers', where All is not set.
	Names []string
}

func (c Callers) has(consumer string) bool { return c.All || slices.Contains(c.Names, consumer) }

// StatusCount is how many calls were answered with a status.
type StatusCount struct {
	// Status is three digits.
	Status string
	Calls  int64
}

// CallerCount is how many calls a consumer made.
type CallerCount struct {
	// Consumer is "" for calls without one, and Other for those of consumers that had no room.
	Consumer string
	// At is the beginning of the time in which they were made, zero for all of the window.
	At       time.Time
	Calls    int64
	ByStatus []StatusCount
}

// Statuses are the calls of a window.
type Statuses struct {
	// Totals are one for each consumer, the one with the most calls first.
	Totals []CallerCount
	// Details are the same by time, the earliest first.
	Details []CallerCount
}

// maxDetails bounds the consumers and statuses of all times of a report, of some 300 bytes each at most: the platform carries 6 MB.
const maxDetails = 15_000

// Statuses counts the calls of a deployment by their statuses.
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
	// All are added up before any is folded, so that none has less room because it came later.
	total, points := newTally(), map[int64]*tally{}
	for _, p := range parts {
		at := max(s.point.start(p.start), from)
		if points[at] == nil {
			points[at] = newTally()
		}
		p.each(func(by caller, n number) {
			if callers.has(by.consumer) {
				total.call(by, n)
				points[at].call(by, n)
			}
		})
	}
	total.trimCallers(maxCalls)
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

// trimDetails folds callers until all times together have room for the rest. Those with the fewest keep all.
func trimDetails(points map[int64]*tally) {
	for room := maxCalls; ; room-- {
		pairs := 0
		for _, t := range points {
			pairs += min(len(t.calls), room)
		}
		if pairs > maxDetails {
			continue
		}
		for _, t := range points {
			t.trimCallers(room)
		}
		return
	}
}

// callers gives the calls of a tally by consumer, in no order.
func (t *tally) callers(at time.Time) []CallerCount {
	byConsumer := map[string]map[int]int64{}
	t.each(func(by caller, n number) {
		if byConsumer[by.consumer] == nil {
			byConsumer[by.consumer] = map[int]int64{}
		}
		byConsumer[by.consumer][by.status] = n.count
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

// Latency has quantiles, each within 1 % of the exact one, 0 where nothing was measured.
type Latency struct{ P50, P95, P99 time.Duration }

// OperationCount is what was measured of GraphQL operations of one name and type, or of all.
type OperationCount struct {
	// Name is Unnamed for operations without one, and Other for those that had no room.
	Name string
	// Type is query, mutation or subscription, "" for documents that could not be parsed.
	Type               string
	Operations, Failed int64
	Classes            [analytics.Classes]int64
	// Complexity is the average's and the largest.
	ComplexityAvg   float64
	ComplexityMax   int64
	Total, Resolver Latency
}

// Operations are the GraphQL operations of a window.
type Operations struct {
	Totals OperationCount
	// Each are the operations one by one, the one that was asked for most first.
	Each []OperationCount
}

// Operations reports the GraphQL operations of a deployment.
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
	each, all := newTally(), newMeasured()
	for _, p := range parts {
		for _, m := range p.operations {
			all.merge(m)
		}
		for _, m := range p.restOperations {
			all.merge(m)
		}
		each.take(p.tally) // all of them before any is folded, so that each counts with its sum
	}
	each.trimOperations(maxOperations)
	out := Operations{Totals: all.report(operation{})}
	for o, m := range each.operations {
		out.Each = append(out.Each, m.report(o))
	}
	for kind, m := range each.restOperations {
		out.Each = append(out.Each, m.report(operation{Other, kind}))
	}
	slices.SortFunc(out.Each, func(a, b OperationCount) int {
		return cmp.Or(cmp.Compare(b.Operations, a.Operations), strings.Compare(a.Name, b.Name), strings.Compare(a.Type, b.Type))
	})
	return out, nil
}

func (m *measured) report(o operation) OperationCount {
	out := OperationCount{
		Name: o.name, Type: o.kind, Operations: m.count, Failed: m.failed, Classes: m.classes, ComplexityMax: m.complexityMax,
		Total: latencyOf(m.total), Resolver: latencyOf(m.resolver),
	}
	if m.count > 0 {
		out.ComplexityAvg = float64(m.complexity) / float64(m.count)
	}
	return out
}

func latencyOf(s *ddsketch.DDSketch) Latency {
	at := func(q float64) time.Duration { return time.Duration(quantile(s, q) * float64(time.Millisecond)) }
	return Latency{P50: at(0.50), P95: at(0.95), P99: at(0.99)}
}

// recentFor is how far back calls are known one by one.
const recentFor = 24 * time.Hour

// Recent gives the newest calls of a deployment, at most limit and at most 1,000. Those of all callers are exactly the newest; of some callers,
// they are those among the newest 1,000 of each hour.
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

func (r *Reader) recent(ctx context.Context, deployment string, callers Callers, limit int) ([]RecentCall, error) {
	from := r.now().Add(-recentFor)
	var out []RecentCall
	take := func(calls []RecentCall) {
		for _, c := range calls {
			if !c.At.Before(from) && callers.has(c.Consumer) {
				out = append(out, c)
			}
		}
		out = newest(out, limit)
	}
	waiting, err := r.fresh(ctx, deployment)
	if err != nil {
		return nil, err
	}
	for _, f := range waiting {
		take(f.recent.calls)
	}
	oldest := hourly.start(from.Unix())
	var failed error
	// The newest hour first. It has a row more than 24 hours: they begin in the middle of one.
	err = store.Visit(ctx, r.table, store.Query{PK: callsPartition(deployment), Descending: true, Limit: 25}, func(hour row) bool {
		start, ok := spelled(hour.SK)
		if !ok || start < oldest || len(out) == limit && out[limit-1].At.Unix() >= start+int64(hourly.duration/time.Second) {
			return false
		}
		var p packedCalls
		var calls []RecentCall
		if failed = unpacked(hour.Data, &p); failed == nil {
			calls, failed = p.unpack()
		}
		take(calls)
		return failed == nil
	})
	if err != nil {
		return nil, err
	}
	return out, failed
}
