package graphql

import (
	"slices"
	"strings"
)

// cost is the cost of a selection set.
type cost struct {
	depth, complexity int
	// uncounted is the number of selections that complexity does not count: __typename, spreads and inline fragments.
	uncounted int
	// lists is the nesting depth of the introspection fields that return lists: fields, interfaces, possibleTypes and
	// inputFields.
	lists int
}

// plus returns the cost of two selection sets of the same parent.
func (c cost) plus(other cost) cost {
	return cost{
		depth: max(c.depth, other.depth), complexity: addSaturated(c.complexity, other.complexity),
		uncounted: addSaturated(c.uncounted, other.uncounted),
		lists:     max(c.lists, other.lists),
	}
}

// costWalker computes the cost of a document. It visits each fragment only once. Otherwise, 20 fragments that each
// spread the next one twice would cause a million visits.
type costWalker struct {
	*outline
	ignored []string
	byName  map[string]*definition // the fragments
	// costs has the cost of each visited fragment, by its name. The cost is nil while the fragment is being visited.
	costs               map[string]*cost
	introspectionAt     Location
	deepIntrospectionAt Location
	refused             *Error
}

// maxLists is the maximum nesting of introspection fields that return lists (cost.lists). Tools request one level,
// such as the fields of all types. GraphQL.js also refuses three.
const maxLists = 2

func newCostWalker(o *outline, ignored []string) (*costWalker, *Error) {
	w := &costWalker{outline: o, ignored: ignored}
	if len(o.fragments) > 0 {
		w.byName = make(map[string]*definition, len(o.fragments))
		w.costs = make(map[string]*cost, len(o.fragments))
	}
	for i := range o.fragments {
		f := &o.fragments[i]
		if _, duplicate := w.byName[f.name]; duplicate {
			return nil, refuse(CodeValidation, f.at, "The document has two fragments of one name. Give each its own.")
		}
		w.byName[f.name] = f
	}
	return w, nil
}

// document computes the cost of all operations, and checks the fragments that no operation uses.
func (w *costWalker) document() (*Document, *Error) {
	d := &Document{Operations: make([]Operation, len(w.operations))}
	for i, o := range w.operations {
		c := w.selectionSet(o.first, o.end)
		d.Operations[i] = Operation{
			// Clone the name, so that the cache does not keep the whole document in memory.
			Name: strings.Clone(o.name), Type: string(o.operation), At: o.at,
			Depth: c.depth, Complexity: c.complexity, Uncounted: c.uncounted,
		}
	}
	for _, f := range w.fragments {
		w.fragment(f.name, f.at)
	}
	if w.refused != nil {
		return nil, w.refused
	}
	d.IntrospectionAt, d.DeepIntrospectionAt, d.Tokens = w.introspectionAt, w.deepIntrospectionAt, w.tokens
	return d, nil
}

// selectionSet returns the cost of the selections with the indices from first up to, but not including, end.
func (w *costWalker) selectionSet(first, end int) cost {
	var sum cost
	for i := first; i < end && w.refused == nil; i = int(w.selections[i].end) {
		switch s := &w.selections[i]; s.kind {
		case field:
			sum = sum.plus(w.field(s, i))
		case inline:
			sum = sum.plus(w.selectionSet(i+1, int(s.end))).plus(cost{uncounted: 1})
		case spread:
			sum = sum.plus(w.fragment(s.name, s.at())).plus(cost{uncounted: 1})
		}
	}
	return sum
}

// field returns the cost of the field f, which is the selection with the index i.
func (w *costWalker) field(f *selection, i int) cost {
	c := w.selectionSet(i+1, int(f.end))
	if f.name == typenameField {
		c.uncounted = addSaturated(c.uncounted, 1)
	} else {
		c.complexity = addSaturated(c.complexity, 1)
	}
	if int(f.end) > i+1 {
		c.depth++
	}
	switch f.name {
	case "fields", "interfaces", "possibleTypes", "inputFields":
		c.lists++
	case schemaField, typeField:
		if w.introspectionAt == (Location{}) {
			w.introspectionAt = f.at()
		}
		if c.lists > maxLists {
			w.deepIntrospectionAt = f.at()
		}
		c.depth = 0
	default:
		if slices.Contains(w.ignored, f.name) {
			c.depth = 0
		}
	}
	return c
}

// fragment returns the cost of the fragment with a name. at is the place for an error.
func (w *costWalker) fragment(name string, at Location) cost {
	if cached, visited := w.costs[name]; visited {
		if cached == nil {
			w.refused = refuse(CodeValidation, at, "A fragment of the document spreads itself, by way of others or not. Take "+
				"one of the spreads out.")
			return cost{}
		}
		return *cached
	}
	f, exists := w.byName[name]
	if !exists {
		w.refused = refuse(CodeValidation, at,
			"The document has no fragment of the name that is spread here. Add it, or correct the name.")
		return cost{}
	}
	w.costs[name] = nil
	c := w.selectionSet(f.first, f.end)
	w.costs[name] = &c
	return c
}
