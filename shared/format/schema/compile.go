package schema

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gatewright/gatewright/shared/format/regex"
	"github.com/gatewright/gatewright/shared/thirdparty/jsonschema"
)

// node is a compiled schema. Absent keywords are nil.
type node struct {
	location       string
	never          bool // the schema is false
	types          jsonTypes
	enum, constant *valueSet
	format         *jsonschema.Format
	encoding       *jsonschema.Decoder

	minimum, maximum, exclusiveMinimum, exclusiveMaximum, multipleOf *number

	minLength, maxLength *int
	pattern              *pattern

	minProperties, maxProperties *int
	required                     []string
	properties                   map[string]*node
	patterns                     []patternNode
	// additional is for the properties that neither properties nor patterns have.
	additional, propertyNames, unevaluatedProperties *node
	dependentRequired                                []dependentNames
	dependentSchemas                                 []dependentNode

	minItems, maxItems, minContains, maxContains *int
	prefix                                       []*node
	// items is for the items after prefix.
	items, contains, unevaluatedItems *node
	// containsEvaluates is set if an item that matches contains counts as evaluated (2020-12).
	containsEvaluates, uniqueItems bool

	// ref has the targets of references.
	ref, allOf, anyOf, oneOf []*node
	not, test, then, other   *node // if and else are words of Go
}

type patternNode struct {
	pattern *pattern
	node    *node
}

type dependentNode struct {
	name string
	node *node
}

type dependentNames struct {
	name     string
	required []string
}

// pattern is a regular expression. instructions is the number of its RE2 instructions, 0 if it matches every text.
type pattern struct {
	jsonschema.Regexp
	instructions int
}

func newPattern(re jsonschema.Regexp) *pattern {
	if re == nil {
		return nil
	}
	p := &pattern{Regexp: re}
	if compiled, ok := re.(*regex.Regexp); ok {
		p.instructions = compiled.Instructions()
	}
	return p
}

// convert returns the node of a schema, and of all schemas that it needs.
func (d *Definitions) convert(s *jsonschema.Schema) (*node, error) {
	known := len(d.nodes)
	c := converter{nodes: d.nodes, resources: map[string]bool{}}
	root := c.node(s)
	if c.dynamic != "" && len(c.resources) > 1 {
		return nil, fmt.Errorf("%s: $dynamicRef and $recursiveRef are not supported in schemas with $id",
			location(c.dynamic))
	}
	if len(d.nodes) > known {
		if cycle := findCycle(root); cycle != nil {
			return nil, fmt.Errorf("%s: the schema applies itself to the same value, without an end",
				location(cycle.location))
		}
	}
	return root, nil
}

type converter struct {
	nodes map[*jsonschema.Schema]*node
	// dynamic is the location of a schema with $dynamicRef or $recursiveRef. They depend on how a schema was reached, but
	// only in schemas of several resources ($id).
	dynamic   string
	resources map[string]bool
}

// node returns the node of a schema, or nil for nil.
func (c *converter) node(s *jsonschema.Schema) *node {
	if s == nil {
		return nil
	}
	if n, known := c.nodes[s]; known {
		return n
	}
	n := &node{location: s.Location}
	c.nodes[s] = n
	if s.ID != "" {
		c.resources[s.ID] = true
	}
	if s.Bool != nil {
		n.never = !*s.Bool
		return n
	}
	n.types = newTypes(s.Types)
	n.enum, n.constant = newEnum(s.Enum), newConstant(s.Const)
	n.format, n.encoding = s.Format, s.ContentEncoding
	n.minimum, n.maximum = newNumber(s.Minimum), newNumber(s.Maximum)
	n.exclusiveMinimum, n.exclusiveMaximum = newNumber(s.ExclusiveMinimum), newNumber(s.ExclusiveMaximum)
	n.multipleOf = newNumber(s.MultipleOf)
	n.minLength, n.maxLength, n.pattern = s.MinLength, s.MaxLength, newPattern(s.Pattern)
	c.references(n, s)
	c.object(n, s)
	c.array(n, s)
	n.allOf, n.anyOf, n.oneOf = c.all(s.AllOf), c.all(s.AnyOf), c.all(s.OneOf)
	n.not, n.test, n.then, n.other = c.node(s.Not), c.node(s.If), c.node(s.Then), c.node(s.Else)
	return n
}

func (c *converter) all(schemas []*jsonschema.Schema) []*node {
	var out []*node
	for _, s := range schemas {
		out = append(out, c.node(s))
	}
	return out
}

func (c *converter) references(n *node, s *jsonschema.Schema) {
	targets := []*jsonschema.Schema{s.Ref, s.RecursiveRef, nil}
	if s.DynamicRef != nil {
		targets[2] = s.DynamicRef.Ref
	}
	if s.RecursiveRef != nil || s.DynamicRef != nil {
		c.dynamic = s.Location
	}
	for _, target := range targets {
		if target != nil {
			n.ref = append(n.ref, c.node(target))
		}
	}
}

func (c *converter) object(n *node, s *jsonschema.Schema) {
	n.minProperties, n.maxProperties, n.required = s.MinProperties, s.MaxProperties, s.Required
	if len(s.Properties) > 0 {
		n.properties = map[string]*node{}
	}
	for name, property := range s.Properties {
		n.properties[name] = c.node(property)
	}
	for re, property := range s.PatternProperties {
		n.patterns = append(n.patterns, patternNode{newPattern(re), c.node(property)})
	}
	slices.SortFunc(n.patterns, func(a, b patternNode) int {
		return strings.Compare(a.pattern.String(), b.pattern.String())
	})
	n.additional = c.additional(s.AdditionalProperties, s.Location)
	n.propertyNames, n.unevaluatedProperties = c.node(s.PropertyNames), c.node(s.UnevaluatedProperties)
	for name, dependency := range s.Dependencies {
		switch dependency := dependency.(type) {
		case []string:
			n.dependentRequired = append(n.dependentRequired, dependentNames{name, dependency})
		case *jsonschema.Schema:
			n.dependentSchemas = append(n.dependentSchemas, dependentNode{name, c.node(dependency)})
		}
	}
	for name, required := range s.DependentRequired {
		n.dependentRequired = append(n.dependentRequired, dependentNames{name, required})
	}
	for name, dependency := range s.DependentSchemas {
		n.dependentSchemas = append(n.dependentSchemas, dependentNode{name, c.node(dependency)})
	}
	slices.SortFunc(n.dependentRequired, func(a, b dependentNames) int { return strings.Compare(a.name, b.name) })
	slices.SortFunc(n.dependentSchemas, func(a, b dependentNode) int { return strings.Compare(a.name, b.name) })
}

// additional returns the node of additionalProperties or additionalItems, which is nil, a boolean or a schema.
func (c *converter) additional(value any, location string) *node {
	switch value := value.(type) {
	case bool:
		return &node{location: location, never: !value}
	case *jsonschema.Schema:
		return c.node(value)
	}
	return nil
}

func (c *converter) array(n *node, s *jsonschema.Schema) {
	n.minItems, n.maxItems, n.uniqueItems = s.MinItems, s.MaxItems, s.UniqueItems
	n.contains, n.minContains, n.maxContains = c.node(s.Contains), s.MinContains, s.MaxContains
	n.containsEvaluates = s.DraftVersion >= 2020
	n.unevaluatedItems = c.node(s.UnevaluatedItems)
	n.prefix, n.items = c.all(s.PrefixItems), c.node(s.Items2020)
	switch items := s.Items.(type) { // before 2020-12
	case *jsonschema.Schema:
		n.items = c.node(items)
	case []*jsonschema.Schema:
		n.prefix, n.items = c.all(items), c.additional(s.AdditionalItems, s.Location)
	}
}

// inPlace returns the nodes that n applies to the same value.
func (n *node) inPlace() []*node {
	all := slices.Concat(n.ref, n.allOf, n.anyOf, n.oneOf, []*node{n.not, n.test, n.then, n.other})
	for _, d := range n.dependentSchemas {
		all = append(all, d.node)
	}
	return slices.DeleteFunc(all, func(n *node) bool { return n == nil })
}

// children returns the nodes that n applies to parts of the value.
func (n *node) children() []*node {
	all := slices.Concat(slices.Collect(maps.Values(n.properties)), n.prefix, []*node{
		n.additional, n.propertyNames,
		n.unevaluatedProperties, n.items, n.contains, n.unevaluatedItems,
	})
	for _, p := range n.patterns {
		all = append(all, p.node)
	}
	return slices.DeleteFunc(all, func(n *node) bool { return n == nil })
}

// findCycle returns a node that applies itself to the same value, directly or through others, or nil if there is none.
func findCycle(root *node) *node {
	open := map[*node]bool{} // false for nodes that are done
	todo := []*node{root}
	var visit func(n *node) *node
	visit = func(n *node) *node {
		if isOpen, seen := open[n]; isOpen {
			return n
		} else if seen {
			return nil
		}
		open[n] = true
		for _, next := range n.inPlace() {
			if cycle := visit(next); cycle != nil {
				return cycle
			}
		}
		open[n] = false
		todo = append(todo, n.children()...)
		return nil
	}
	for len(todo) > 0 {
		n := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if cycle := visit(n); cycle != nil {
			return cycle
		}
	}
	return nil
}
