package graphql

import (
	"slices"
	"strings"
)

// cost is what a selection set asks for.
type cost struct {
	depth, complexity int
	// free is how many selections there are that complexity does not count: __typename,
	// spreads and inline fragments.
	free int
	// lists is how many lists of the introspection are nested in one another.
	lists int
}

// with is the cost of two sets side by side.
func (c cost) with(other cost) cost {
	return cost{
		depth: max(c.depth, other.depth), complexity: saturate(c.complexity, other.complexity), free: saturate(c.free, other.free),
		lists: max(c.lists, other.lists),
	}
}

// walk counts a document. Each fragment is counted once, in whatever order its spreads come: 20
// fragments that spread the next one twice would otherwise be a million visits.
type walk struct {
	*outline
	ignored []string
	byName  map[string]*definition // the fragments
	// done has the cost of fragments that were counted, and of one that is being counted the
	// mark that its cost is not known yet.
	done        map[string]*cost
	introspects Location
	loops       Location
	refused     *Error
}

// maxLists is how many lists of the introspection may be nested in one another. Tools ask for
// one, such as the fields of all types; GraphQL.js refuses three in the same way.
const maxLists = 2

func newWalk(o *outline, ignored []string) (*walk, *Error) {
	w := &walk{outline: o, ignored: ignored}
	if len(o.fragments) > 0 {
		w.byName = make(map[string]*definition, len(o.fragments))
		w.done = make(map[string]*cost, len(o.fragments))
	}
	for i := range o.fragments {
		f := &o.fragments[i]
		if _, twice := w.byName[f.name]; twice {
			return nil, refuse(CodeValidation, f.at, "The document has two fragments of one name. Give each its own.")
		}
		w.byName[f.name] = f
	}
	return w, nil
}

// document counts all operations, and looks at fragments that none of them uses.
func (w *walk) document() (*Document, *Error) {
	d := &Document{Operations: make([]Operation, len(w.operations))}
	for i, o := range w.operations {
		c := w.set(o.first, o.end)
		d.Operations[i] = Operation{
			// Cloned, so that what is remembered does not hold the text.
			Name: strings.Clone(o.name), Type: string(o.operation), At: o.at,
			Depth: c.depth, Complexity: c.complexity, Free: c.free,
		}
	}
	for _, f := range w.fragments {
		w.fragment(f.name, f.at)
	}
	if w.refused != nil {
		return nil, w.refused
	}
	d.Introspects, d.Loops, d.Tokens = w.introspects, w.loops, w.tokens
	return d, nil
}

// set is the cost of the selections from first on, up to end.
func (w *walk) set(first, end int) cost {
	var sum cost
	for i := first; i < end && w.refused == nil; i = int(w.selections[i].end) {
		switch s := &w.selections[i]; s.kind {
		case field:
			sum = sum.with(w.field(s, i))
		case inline:
			sum = sum.with(w.set(i+1, int(s.end))).with(cost{free: 1})
		case spread:
			sum = sum.with(w.fragment(s.name, s.at())).with(cost{free: 1})
		}
	}
	return sum
}

// field is the cost of a field, by its index too.
func (w *walk) field(f *selection, i int) cost {
	c := w.set(i+1, int(f.end))
	if f.name == typenameField {
		c.free = saturate(c.free, 1)
	} else {
		c.complexity = saturate(c.complexity, 1)
	}
	if int(f.end) > i+1 {
		c.depth++
	}
	switch f.name {
	case "fields", "interfaces", "possibleTypes", "inputFields":
		c.lists++
	case schemaField, typeField:
		if w.introspects == (Location{}) {
			w.introspects = f.at()
		}
		if c.lists > maxLists {
			w.loops = f.at()
		}
		c.depth = 0
	default:
		if slices.Contains(w.ignored, f.name) {
			c.depth = 0
		}
	}
	return c
}

// fragment is the cost of a spread.
func (w *walk) fragment(name string, at Location) cost {
	if known, seen := w.done[name]; seen {
		if known == nil {
			w.refused = refuse(CodeValidation, at, "A fragment of the document spreads itself, by way of others or not. Take one of the spreads out.")
			return cost{}
		}
		return *known
	}
	f, there := w.byName[name]
	if !there {
		w.refused = refuse(CodeValidation, at, "The document has no fragment of the name that is spread here. Add it, or correct the name.")
		return cost{}
	}
	w.done[name] = nil
	c := w.set(f.first, f.end)
	w.done[name] = &c
	return c
}
