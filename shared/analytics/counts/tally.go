package counts

import (
	"math"
	"strings"
	"time"

	"github.com/DataDog/sketches-go/ddsketch"

	"github.com/gatewright/gatewright/shared/analytics"
)

// Bounds of a row. What is beyond them counts under Other; frequent.go has what that is.
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
	calls      map[caller]number
	operations map[operation]*measured
	// What has no name here: calls by status, which has three digits, and operations by type.
	restCalls      map[int]int64
	restOperations map[string]*measured
}

type caller struct {
	consumer string
	status   int
}

// operation is what tells operations apart.
type operation struct{ name, kind string }

func newTally() *tally {
	return &tally{map[caller]number{}, map[operation]*measured{}, map[int]int64{}, map[string]*measured{}}
}

// call counts requests. It reports whether there is one more caller.
func (t *tally) call(by caller, n number) (isNew bool) {
	if by.consumer == Other {
		t.restCalls[by.status] += n.count
		return false
	}
	before, known := t.calls[by]
	t.calls[by] = before.plus(n)
	return !known
}

// at is where an operation is measured. It reports whether there is one more.
func (t *tally) at(o operation) (m *measured, isNew bool) {
	if o.name == Other {
		return t.rest(o.kind), false
	}
	if m = t.operations[o]; m != nil {
		return m, false
	}
	m = newMeasured()
	// A copy: the text is a part of a document, which would be kept with it.
	t.operations[operation{strings.Clone(o.name), o.kind}] = m
	return m, true
}

// rest is where operations of a type are measured that have no name here.
func (t *tally) rest(kind string) *measured {
	if t.restOperations[kind] == nil {
		t.restOperations[kind] = newMeasured()
	}
	return t.restOperations[kind]
}

// add adds what another tally has counted, whatever room there is.
func (t *tally) add(other *tally) {
	other.each(func(by caller, n number) { t.call(by, n) })
	for o, m := range other.operations {
		into, _ := t.at(o)
		into.merge(m)
	}
	for kind, m := range other.restOperations {
		t.rest(kind).merge(m)
	}
}

// take does what add does, and the other tally is of no use then: a report has many of them in memory.
func (t *tally) take(other *tally) {
	for o, m := range other.operations {
		if t.operations[o] == nil {
			t.operations[o] = m
			delete(other.operations, o)
		}
	}
	t.add(other)
}

// each gives all calls, those of the rest too.
func (t *tally) each(give func(caller, number)) {
	for by, n := range t.calls {
		give(by, n)
	}
	for status, n := range t.restCalls {
		give(caller{Other, status}, number{count: n})
	}
}

// merge adds what another tally has counted, within the bounds of memory.
func (t *tally) merge(other *tally) {
	t.add(other)
	if len(t.operations) > spare*maxOperations {
		t.trimOperations(maxOperations)
	}
	if len(t.calls) > spare*maxCalls {
		t.trimCallers(maxCalls)
	}
}

// measured is what was measured of one operation. Latencies are in milliseconds.
type measured struct {
	number
	failed          int64
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
	m.number = m.plus(other.number)
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
