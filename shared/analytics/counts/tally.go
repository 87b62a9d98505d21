package counts

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/DataDog/sketches-go/ddsketch"

	"github.com/gatewright/gatewright/shared/analytics"
)

// Bounds of a tally, and so of a row. What is beyond them counts under Other.
const (
	maxCalls      = 1_000 // pairs of a consumer and a status
	maxOperations = 200
	// maxNameBytes bounds the name of an operation, which a caller chooses.
	maxNameBytes = 128
)

// MaxConsumerBytes bounds the name of a consumer, and what may be asked for: of keys they have 128 bytes, but subjects of certificates are
// whatever their CA has signed. Longer ones count under Other.
const MaxConsumerBytes = 256

const (
	// Other is what callers and operations are counted under that a row has no room for. No consumer and no operation has this name.
	Other = "(other)"
	// Unnamed is what an operation without a name is called.
	Unnamed = "(unnamed)"
)

// tally is what was counted in one interval of time.
type tally struct {
	calls      map[caller]int64
	operations map[operation]*measured
}

type caller struct {
	consumer string
	status   int
}

// operation is what tells operations apart.
type operation struct{ name, kind string }

func newTally() *tally {
	return &tally{calls: map[caller]int64{}, operations: map[operation]*measured{}}
}

// call counts n requests. room is whether there may be another caller. It reports whether there is one more.
func (t *tally) call(by caller, n int64, room bool) (isNew bool) {
	_, known := t.calls[by]
	if !known && (len(t.calls) >= maxCalls || !room) {
		by.consumer = Other // statuses have three digits: that bounds these
		_, known = t.calls[by]
	}
	t.calls[by] += n
	return !known
}

// at is where an operation is measured. room is whether there may be another one.
func (t *tally) at(o operation, room bool) (m *measured, isNew bool) {
	if m = t.operations[o]; m != nil {
		return m, false
	}
	if len(t.operations) >= maxOperations || !room {
		o.name = Other
		if m = t.operations[o]; m != nil {
			return m, false
		}
	}
	m = newMeasured()
	// A copy: the text is a part of a document, which would be kept with it.
	t.operations[operation{strings.Clone(o.name), o.kind}] = m
	return m, true
}

// merge adds what another tally has counted.
func (t *tally) merge(other *tally) {
	for by, n := range other.calls {
		t.call(by, n, true)
	}
	// In an order of their own: which of them find room must not depend on chance.
	for _, o := range other.largest() {
		m, _ := t.at(o, true)
		m.merge(other.operations[o])
	}
}

// largest lists the operations, those that were asked for most first.
func (t *tally) largest() []operation {
	return slices.SortedFunc(maps.Keys(t.operations), func(a, b operation) int {
		return cmp.Or(
			cmp.Compare(t.operations[b].count, t.operations[a].count),
			strings.Compare(a.name, b.name), strings.Compare(a.kind, b.kind),
		)
	})
}

// shrink counts the smaller half of the operations under Other, and of the callers where there are no operations. It reports whether there was
// anything to do: what is left in the end has room in any row.
func (t *tally) shrink() bool {
	all := slices.DeleteFunc(t.largest(), func(o operation) bool { return o.name == Other })
	if len(all) == 0 {
		return t.shrinkCallers()
	}
	for _, o := range all[len(all)/2:] {
		m := t.operations[o]
		delete(t.operations, o)
		rest, _ := t.at(operation{Other, o.kind}, true)
		rest.merge(m)
	}
	return true
}

func (t *tally) shrinkCallers() bool {
	all := slices.SortedFunc(maps.Keys(t.calls), func(a, b caller) int {
		return cmp.Or(cmp.Compare(t.calls[b], t.calls[a]), strings.Compare(a.consumer, b.consumer), cmp.Compare(a.status, b.status))
	})
	all = slices.DeleteFunc(all, func(by caller) bool { return by.consumer == Other })
	for _, by := range all[len(all)/2:] {
		n := t.calls[by]
		delete(t.calls, by)
		t.calls[caller{Other, by.status}] += n
	}
	return len(all) > 0
}

// measured is what was measured of one operation. Latencies are in milliseconds.
type measured struct {
	count, failed   int64
	classes         [analytics.Classes]int64
	complexity      int64 // the sum, as far as it can be counted
	complexityMax   int64
	total, resolver *ddsketch.DDSketch
}

func newMeasured() *measured { return &measured{total: newSketch(), resolver: newSketch()} }

func (m *measured) add(o analytics.Operation) {
	m.count++
	if o.Failed {
		m.failed++
	}
	for _, c := range o.Classes {
		if int(c) < analytics.Classes {
			m.classes[c]++
		}
	}
	complexity := int64(max(o.Complexity, 0))
	m.complexity = sum(m.complexity, complexity)
	m.complexityMax = max(m.complexityMax, complexity)
	measure(m.total, o.Total)
	if o.Resolver > 0 { // no upstream was asked otherwise
		measure(m.resolver, o.Resolver)
	}
}

func (m *measured) merge(other *measured) {
	m.count += other.count
	m.failed += other.failed
	for i, n := range other.classes {
		m.classes[i] += n
	}
	m.complexity = sum(m.complexity, other.complexity)
	m.complexityMax = max(m.complexityMax, other.complexityMax)
	merge(m.total, other.total)
	merge(m.resolver, other.resolver)
}

// sum adds what is not negative, up to the largest number: a caller can have a document be of a complexity of which a thousand are beyond it.
func sum(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// Latencies are kept in sketches whose quantiles are within 1 % of the exact ones. 1,024 bins of 2 % reach over nine powers of ten:
// from microseconds to hours none is ever put together with another.
const (
	accuracy = 0.01
	maxBins  = 1_024
	// longest is what longer latencies count as. Upstreams tell some of them: beyond a sketch's reach, one would hide all others.
	longest = time.Hour
)

func newSketch() *ddsketch.DDSketch {
	s, err := ddsketch.LogCollapsingLowestDenseDDSketch(accuracy, maxBins)
	if err != nil {
		panic(err) // the accuracy is a constant between 0 and 1
	}
	return s
}

// measure adds a latency. What is below zero is a clock that was set back.
func measure(s *ddsketch.DDSketch, d time.Duration) {
	if err := s.Add(float64(min(max(d, 0), longest)) / float64(time.Millisecond)); err != nil {
		panic(err) // no duration is beyond what a sketch takes
	}
}

func merge(into, from *ddsketch.DDSketch) {
	if err := into.MergeWith(from); err != nil {
		panic(err) // all are of the same accuracy
	}
}

// quantile is the latency in milliseconds that the share q of all is not above, 0 where nothing was measured. The sketch's own quantile is
// the sample below where q falls between two: of two requests, the 95th percentile would be the faster one.
func quantile(s *ddsketch.DDSketch, q float64) float64 {
	n := s.GetCount()
	if n == 0 {
		return 0
	}
	share := 1.0
	if n > 1 {
		share = min(1, (math.Ceil(q*n)-0.5)/(n-1)) // half a rank less is between two of the sorted samples, whatever is rounded
	}
	v, err := s.GetValueAtQuantile(share)
	if err != nil {
		panic(err) // it is not empty, and q is between 0 and 1
	}
	return v
}
