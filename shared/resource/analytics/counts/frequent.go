package counts

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// A row has capacity for a limited number of names, and callers may choose the names. A caller that sends a new name
// with each request must not displace a name that is requested all day. So a row keeps frequent names, regardless of
// the order of arrival. It cannot keep the counts of all names: a name that was dropped starts at zero when it occurs
// again.
//
// Half of the capacity is for the names with the highest counts, so that a frequent name stays, even if many others
// occur once. With this half alone, a name that occurs rarely but steadily could never displace a name that was
// frequent once. The other half is for the names with the highest remaining counts: when names are folded into
// Other, the largest remaining count among them is subtracted from the remaining counts of all names that stay. This is
// the algorithm of Misra and Gries; Agarwal and others, "Mergeable Summaries", 2012, show that it is correct for any
// order of merges. A name is kept if its share of all counts is more than one in h+1, where h is half of the capacity.
// Its count is too low by at most this share, one in h+1, of all counts. A folded name counts under Other, so no count
// is lost.

// memoryFactor is the maximum number of names of a tally in memory, as a multiple of
// the names of a row. So a tally folds names rarely, and many at once.
const memoryFactor = 2

// counter is the count of a name.
type counter struct {
	// count is the number of events since the row has kept the name. Earlier events count under Other.
	count int64
	// subtracted is the part of count that was taken away when other names were folded. It is never more than count.
	subtracted int64
}

func (c counter) remaining() int64 { return c.count - c.subtracted }

func (c counter) plus(other counter) counter {
	return counter{c.count + other.count, c.subtracted + other.subtracted}
}

// subtract returns the counter after amount was subtracted from its remaining count, which does not become negative.
func (c counter) subtract(amount int64) counter {
	return counter{c.count, c.subtracted + min(amount, c.remaining())}
}

// namedCounter is a name with its counter.
type namedCounter[N any] struct {
	name N
	counter
}

// excess returns the names that exceed the capacity, and the amount to subtract from the others. order sorts names with
// equal counters.
func excess[N any](
	all []namedCounter[N], capacity int, order func(a, b N) int,
) (folded []namedCounter[N], subtracted int64) {
	if len(all) <= capacity {
		return nil, 0
	}
	slices.SortFunc(all, func(a, b namedCounter[N]) int {
		return cmp.Or(cmp.Compare(b.remaining(), a.remaining()), cmp.Compare(b.count, a.count), order(a.name, b.name))
	})
	all = all[(capacity+1)/2:]
	slices.SortFunc(all, func(a, b namedCounter[N]) int {
		return cmp.Or(cmp.Compare(b.count, a.count), cmp.Compare(b.remaining(), a.remaining()), order(a.name, b.name))
	})
	folded = all[capacity/2:]
	for _, f := range folded {
		subtracted = max(subtracted, f.remaining())
	}
	return folded, subtracted
}

func (c caller) compare(other caller) int {
	return cmp.Or(strings.Compare(c.consumer, other.consumer), cmp.Compare(c.status, other.status))
}

func (o operation) compare(other operation) int {
	return cmp.Or(strings.Compare(o.name, other.name), strings.Compare(o.kind, other.kind))
}

// trim folds the names that exceed the capacity of a row into Other. A tally is trimmed before it is packed.
func (t *tally) trim() {
	t.trimOperations(maxOperations)
	t.trimCallers(maxCallers)
}

// trimOperations folds operations into Other until at most capacity are left, and returns the number of folded operations.
func (t *tally) trimOperations(capacity int) int {
	if len(t.operations) <= capacity {
		return 0
	}
	all := make([]namedCounter[operation], 0, len(t.operations))
	for o, m := range t.operations {
		all = append(all, namedCounter[operation]{o, m.counter})
	}
	folded, subtracted := excess(all, capacity, operation.compare)
	for _, f := range folded {
		t.otherOperation(f.name.kind).merge(t.operations[f.name])
		delete(t.operations, f.name)
	}
	for _, m := range t.operations {
		m.counter = m.subtract(subtracted)
	}
	return len(folded)
}

// trimCallers folds callers into Other until at most capacity are left, and returns the number of folded callers.
func (t *tally) trimCallers(capacity int) int {
	if len(t.calls) <= capacity {
		return 0
	}
	all := make([]namedCounter[caller], 0, len(t.calls))
	for c, n := range t.calls {
		all = append(all, namedCounter[caller]{c, n})
	}
	folded, subtracted := excess(all, capacity, caller.compare)
	for _, f := range folded {
		t.otherCalls[f.name.status] += f.count
		delete(t.calls, f.name)
	}
	for c, n := range t.calls {
		t.calls[c] = n.subtract(subtracted)
	}
	return len(folded)
}

// halveOperations folds operations into Other until no tally has more than half of the largest number of operations. It
// returns false if there were none.
func halveOperations(tallies []*tally) bool {
	largest := 0
	for _, t := range tallies {
		largest = max(largest, len(t.operations))
	}
	for _, t := range tallies {
		t.trimOperations(largest / 2)
	}
	return largest > 0
}

// halveCallers folds callers into Other until no tally has more than half of the largest number of callers. It returns
// false if there were none.
func halveCallers(tallies []*tally) bool {
	largest := 0
	for _, t := range tallies {
		largest = max(largest, len(t.calls))
	}
	for _, t := range tallies {
		t.trimCallers(largest / 2)
	}
	return largest > 0
}

// sortedCallers returns the callers of a tally, sorted by name and status.
func (t *tally) sortedCallers() []caller {
	return slices.SortedFunc(maps.Keys(t.calls), caller.compare)
}
