package counts

import (
	"math"
	"strings"
	"time"

	"github.com/DataDog/sketches-go/ddsketch"

	"github.com/gatewright/gatewright/shared/resource/analytics"
)

// These are the limits of a row. Names that exceed the limits count under Other. The code in frequent.go selects the
// names that a row keeps.
const (
	maxCallers    = 1_000 // pairs of a consumer and a status
	maxOperations = 200
	// maxNameBytes is the maximum length of an operation's name, which a caller chooses.
	maxNameBytes = 128
)

// MaxConsumerBytes is the maximum length of a consumer's name, also in requests for reports. Names from API keys have
// at most 128 bytes, but a CA may sign subjects of certificates of any length. Longer names count under Other.
const MaxConsumerBytes = 256

const (
	// Other is the name for callers and operations that exceed the capacity of a row. No operation has this name, and
	// the calls of a consumer with this name count here too.
	Other = "(other)"
	// Unnamed is the name for operations without a name.
	Unnamed = "(unnamed)"
)

// tally contains the counts of one interval of time.
type tally struct {
	calls      map[caller]counter
	operations map[operation]*operationStats
	// otherCalls and otherOperations are the counts under Other: calls by status, and operations by type.
	otherCalls      map[int]int64
	otherOperations map[string]*operationStats
}

// caller identifies the calls of one consumer with one response status. A consumer has a caller for each status.
type caller struct {
	consumer string
	status   int
}

// operation identifies the operations with one name and type. kind is the type (analytics.Operation.Type).
type operation struct{ name, kind string }

func newTally() *tally {
	return &tally{map[caller]counter{}, map[operation]*operationStats{}, map[int]int64{}, map[string]*operationStats{}}
}

// addCalls adds n to the calls of c. It reports whether c is new.
func (t *tally) addCalls(c caller, n counter) (isNew bool) {
	if c.consumer == Other {
		t.otherCalls[c.status] += n.count
		return false
	}
	before, exists := t.calls[c]
	t.calls[c] = before.plus(n)
	return !exists
}

// stats returns the measurements of an operation. If the operation is new, stats adds it with empty measurements.
func (t *tally) stats(o operation) (m *operationStats, isNew bool) {
	if o.name == Other {
		return t.otherOperation(o.kind), false
	}
	if m = t.operations[o]; m != nil {
		return m, false
	}
	m = newOperationStats()
	// Clone the name: it is a part of a document, which would otherwise stay in memory.
	t.operations[operation{strings.Clone(o.name), o.kind}] = m
	return m, true
}

// otherOperation returns the measurements of the operations of a type that count under Other. It adds them if there are
// none.
func (t *tally) otherOperation(kind string) *operationStats {
	if t.otherOperations[kind] == nil {
		t.otherOperations[kind] = newOperationStats()
	}
	return t.otherOperations[kind]
}

// add adds the counts of another tally, without a limit on the number of names.
func (t *tally) add(other *tally) {
	other.each(func(c caller, n counter) { t.addCalls(c, n) })
	for o, m := range other.operations {
		into, _ := t.stats(o)
		into.merge(m)
	}
	for kind, m := range other.otherOperations {
		t.otherOperation(kind).merge(m)
	}
}

// absorb adds the counts of another tally like add, but the other tally must not
// be used afterwards. This saves memory, because a report has many tallies.
func (t *tally) absorb(other *tally) {
	for o, m := range other.operations {
		if t.operations[o] == nil {
			t.operations[o] = m
			delete(other.operations, o)
		}
	}
	t.add(other)
}

// each calls fn for all calls, including those under Other.
func (t *tally) each(fn func(caller, counter)) {
	for c, n := range t.calls {
		fn(c, n)
	}
	for status, n := range t.otherCalls {
		fn(caller{Other, status}, counter{count: n})
	}
}

// merge adds the counts of another tally, and folds names into Other if there are too many.
func (t *tally) merge(other *tally) {
	t.add(other)
	if len(t.operations) > memoryFactor*maxOperations {
		t.trimOperations(maxOperations)
	}
	if len(t.calls) > memoryFactor*maxCallers {
		t.trimCallers(maxCallers)
	}
}

// operationStats contains the measurements of one operation. Latencies are in milliseconds.
type operationStats struct {
	counter
	failed int64
	// classes are the numbers of operations with an error of each class.
	classes                       [analytics.Classes]int64
	complexity                    int64 // the sum of the complexities, at most math.MaxInt64
	complexityMax                 int64
	totalLatency, resolverLatency *ddsketch.DDSketch
}

func newOperationStats() *operationStats {
	return &operationStats{totalLatency: newSketch(), resolverLatency: newSketch()}
}

func (s *operationStats) add(o analytics.Operation) {
	s.count++
	if o.Failed {
		s.failed++
	}
	for _, c := range o.Classes {
		if int(c) < analytics.Classes {
			s.classes[c]++
		}
	}
	complexity := int64(max(o.Complexity, 0))
	s.complexity = saturatingAdd(s.complexity, complexity)
	s.complexityMax = max(s.complexityMax, complexity)
	addLatency(s.totalLatency, o.Total)
	if o.Resolver > 0 { // otherwise no upstream was called
		addLatency(s.resolverLatency, o.Resolver)
	}
}

func (s *operationStats) merge(other *operationStats) {
	s.counter = s.plus(other.counter)
	s.failed += other.failed
	for i, n := range other.classes {
		s.classes[i] += n
	}
	s.complexity = saturatingAdd(s.complexity, other.complexity)
	s.complexityMax = max(s.complexityMax, other.complexityMax)
	mergeSketch(s.totalLatency, other.totalLatency)
	mergeSketch(s.resolverLatency, other.resolverLatency)
}

// saturatingAdd returns the sum of two numbers that are not negative, or the largest int64 if the sum is larger. A
// caller can choose documents so complex that the sum of a thousand complexities overflows.
func saturatingAdd(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// Latencies are stored in sketches whose quantiles are within 1 % of the exact ones. 1,024 bins of 2 % cover almost
// nine powers of ten: latencies from 5 µs to maxLatency never need a merge of bins.
const (
	accuracy = 0.01
	maxBins  = 1_024
	// maxLatency replaces longer latencies. Upstreams report some of the latencies, so these can have any value. A
	// latency that is too long for a sketch would make the sketch merge the bins of the other latencies.
	maxLatency = time.Hour
)

func newSketch() *ddsketch.DDSketch {
	s, err := ddsketch.LogCollapsingLowestDenseDDSketch(accuracy, maxBins)
	if err != nil {
		panic(err) // the accuracy is a constant between 0 and 1
	}
	return s
}

// addLatency adds a latency. A negative latency means that a clock was set back.
func addLatency(s *ddsketch.DDSketch, d time.Duration) {
	if err := s.Add(float64(min(max(d, 0), maxLatency)) / float64(time.Millisecond)); err != nil {
		panic(err) // the sketch accepts every duration up to maxLatency
	}
}

func mergeSketch(into, from *ddsketch.DDSketch) {
	if err := into.MergeWith(from); err != nil {
		panic(err) // all sketches have the same accuracy
	}
}

// quantile returns the q-quantile of the latencies in milliseconds: at least the share q of all latencies are at most as
// long. It returns 0 if nothing was measured. If q is between two samples, the result is the greater one: the 95th
// percentile of two requests is the slower request. The sketch itself would return the lower sample, so quantile does
// not pass q to it.
func quantile(s *ddsketch.DDSketch, q float64) float64 {
	n := s.GetCount()
	if n == 0 {
		return 0
	}
	sketchQuantile := 1.0
	if n > 1 {
		// subtract half a rank: the result is between two ranks, so a rounding error does not select another sample
		sketchQuantile = min(1, (math.Ceil(q*n)-0.5)/(n-1))
	}
	v, err := s.GetValueAtQuantile(sketchQuantile)
	if err != nil {
		panic(err) // the sketch is not empty, and sketchQuantile is between 0 and 1
	}
	return v
}
