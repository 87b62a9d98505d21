package counts

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// A row has room for some names, and callers may choose them: whoever sends a name a request must not hide what is asked for all day. So a row keeps
// those that are frequent, in whatever order they come. It can't know all: a name that it does not keep begins at nothing when it comes again.
//
// Half of the room is for the names with the highest counts: what is known to be frequent stays, however many others come once. But what comes a
// little at a time would then never outgrow what was frequent once. The other half is for the names that have most left of their counts: each time some
// are folded into the rest, what the largest of them had left is taken from all that stay (the algorithm of Misra and Gries; Agarwal and others,
// "Mergeable Summaries", 2012, show that it holds for any order of merges). So a name is kept if it has more than one in h+1 of all that was counted, where
// h is half of the room, and no more than that share is missing from its count. A name that was folded has counted under the rest: nothing is lost.

// spare is how many times the names of a row a tally has in memory before some are folded: seldom, and as many at once.
const spare = 2

// number is how often a name was counted.
type number struct {
	// count is since the name is kept: what was folded of it before counts under the rest.
	count int64
	// spent is what of count was taken when other names were folded. It is never more than count.
	spent int64
}

func (n number) left() int64 { return n.count - n.spent }

func (n number) plus(other number) number {
	return number{n.count + other.count, n.spent + other.spent}
}

// less is what remains when an amount is taken.
func (n number) less(amount int64) number { return number{n.count, n.spent + min(amount, n.left())} }

// named is a name with its number.
type named[N any] struct {
	name N
	number
}

// beyond chooses those of all that have no room, and says what is taken from the others. order decides between names with the same numbers.
func beyond[N any](all []named[N], room int, order func(a, b N) int) (folded []named[N], taken int64) {
	if len(all) <= room {
		return nil, 0
	}
	slices.SortFunc(all, func(a, b named[N]) int {
		return cmp.Or(cmp.Compare(b.left(), a.left()), cmp.Compare(b.count, a.count), order(a.name, b.name))
	})
	all = all[(room+1)/2:]
	slices.SortFunc(all, func(a, b named[N]) int {
		return cmp.Or(cmp.Compare(b.count, a.count), cmp.Compare(b.left(), a.left()), order(a.name, b.name))
	})
	folded = all[room/2:]
	for _, f := range folded {
		taken = max(taken, f.left())
	}
	return folded, taken
}

func (c caller) compare(other caller) int {
	return cmp.Or(strings.Compare(c.consumer, other.consumer), cmp.Compare(c.status, other.status))
}

func (o operation) compare(other operation) int {
	return cmp.Or(strings.Compare(o.name, other.name), strings.Compare(o.kind, other.kind))
}

// trim folds what a row has no room for. What is packed is trimmed.
func (t *tally) trim() {
	t.trimOperations(maxOperations)
	t.trimCallers(maxCalls)
}

// trimOperations folds operations into the rest until there are no more than room, and gives how many it has folded.
func (t *tally) trimOperations(room int) int {
	if len(t.operations) <= room {
		return 0
	}
	all := make([]named[operation], 0, len(t.operations))
	for o, m := range t.operations {
		all = append(all, named[operation]{o, m.number})
	}
	folded, taken := beyond(all, room, operation.compare)
	for _, f := range folded {
		t.rest(f.name.kind).merge(t.operations[f.name])
		delete(t.operations, f.name)
	}
	for _, m := range t.operations {
		m.number = m.less(taken)
	}
	return len(folded)
}

// trimCallers folds callers into the rest until there are no more than room, and gives how many it has folded.
func (t *tally) trimCallers(room int) int {
	if len(t.calls) <= room {
		return 0
	}
	all := make([]named[caller], 0, len(t.calls))
	for by, n := range t.calls {
		all = append(all, named[caller]{by, n})
	}
	folded, taken := beyond(all, room, caller.compare)
	for _, f := range folded {
		t.restCalls[f.name.status] += f.count
		delete(t.calls, f.name)
	}
	for by, n := range t.calls {
		t.calls[by] = n.less(taken)
	}
	return len(folded)
}

// halveOperations folds half of the operations of those tallies that have the most. It reports whether there was anything to do.
func halveOperations(tallies []*tally) bool {
	most := 0
	for _, t := range tallies {
		most = max(most, len(t.operations))
	}
	for _, t := range tallies {
		t.trimOperations(most / 2)
	}
	return most > 0
}

// halveCallers folds half of the callers of those tallies that have the most. It reports whether there was anything to do.
func halveCallers(tallies []*tally) bool {
	most := 0
	for _, t := range tallies {
		most = max(most, len(t.calls))
	}
	for _, t := range tallies {
		t.trimCallers(most / 2)
	}
	return most > 0
}

// inOrder lists the callers of a tally: by name and status.
func (t *tally) inOrder() []caller { return slices.SortedFunc(maps.Keys(t.calls), caller.compare) }
