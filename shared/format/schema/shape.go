package schema

import "slices"

// Shape says which forms a schema expects, for formats that do not say which type a value has. It joins the
// alternatives of a schema, so that it can allow more than the schema.
type Shape struct {
	// nodes are the schemas that apply to the value, or can apply to it.
	nodes []*node
	types jsonTypes
}

// Shape returns the shape of the values of a schema.
func (s *Schema) Shape() *Shape { return newShape([]*node{s.root}) }

// newShape returns the shape of values to which some of these schemas apply.
func newShape(roots []*node) *Shape {
	s := &Shape{}
	known := map[*node]jsonTypes{}
	for _, root := range roots {
		if types := root.possibleTypes(known); types != anyType {
			s.types |= types
		}
	}
	if s.types == 0 {
		s.types = anyType
	}
	todo, seen := slices.Clone(roots), map[*node]bool{}
	for len(todo) > 0 {
		n := todo[0]
		todo = todo[1:]
		if seen[n] || n.never {
			continue
		}
		seen[n] = true
		s.nodes = append(s.nodes, n)
		todo = append(todo, slices.Concat(n.ref, n.allOf, n.anyOf, n.oneOf)...)
		for _, next := range []*node{n.then, n.other} {
			if next != nil {
				todo = append(todo, next)
			}
		}
		for _, d := range n.dependentSchemas {
			todo = append(todo, d.node)
		}
	}
	return s
}

// Allows reports whether a value can have a JSON type: "null", "boolean", "number", "integer", "string", "array" or
// "object".
func (s *Shape) Allows(name string) bool {
	return s.types.allows(1 << slices.Index(typeNames[:], name))
}

// IsUnrestricted reports whether no keyword restricts the types of values.
func (s *Shape) IsUnrestricted() bool { return s.types == anyType }

// Work returns the work of making the shape, in the unit of Work.
func (s *Shape) Work() int { return 10 * (1 + len(s.nodes)) }

// HasPatterns reports whether the shapes of properties depend on patterns for their names.
func (s *Shape) HasPatterns() bool {
	return slices.ContainsFunc(s.nodes, func(n *node) bool { return len(n.patterns) > 0 })
}

// PrefixLength returns the number of items that can have shapes of their own. All later items have the same shape.
func (s *Shape) PrefixLength() int {
	length := 0
	for _, n := range s.nodes {
		length = max(length, len(n.prefix))
	}
	return length
}

// Item returns the shape of the items of an array. i is the position of the item.
func (s *Shape) Item(i int) *Shape {
	var roots []*node
	for _, n := range s.nodes {
		if i < len(n.prefix) {
			roots = append(roots, n.prefix[i])
		} else if n.items != nil {
			roots = append(roots, n.items)
		}
	}
	return newShape(roots)
}

// Property returns the shape of a property of an object.
func (s *Shape) Property(name string) *Shape {
	var roots []*node
	for _, n := range s.nodes {
		known := false
		if property := n.properties[name]; property != nil {
			roots, known = append(roots, property), true
		}
		for _, p := range n.patterns {
			if p.pattern.instructions > 0 && p.pattern.MatchString(name) {
				roots, known = append(roots, p.node), true
			}
		}
		if !known && n.additional != nil {
			roots = append(roots, n.additional)
		}
	}
	return newShape(roots)
}

// Properties returns the names of the properties that the schema declares, in order.
func (s *Shape) Properties() []string {
	var names []string
	for _, n := range s.nodes {
		for name := range n.properties {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// IsFreeForm reports whether objects can have properties that the schema does not name: if it has additionalProperties
// or patternProperties, or names no property.
func (s *Shape) IsFreeForm() bool {
	names := false
	for _, n := range s.nodes {
		names = names || len(n.properties) > 0
		if n.additional != nil && !n.additional.never || len(n.patterns) > 0 {
			return true
		}
	}
	return !names && !slices.ContainsFunc(s.nodes, func(n *node) bool { return n.additional != nil })
}
