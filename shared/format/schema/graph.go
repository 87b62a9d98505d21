package schema

import (
	"fmt"
	"maps"
	"slices"

	"github.com/gatewright/gatewright/shared/thirdparty/jsonschema"
)

// inPlace returns the schemas that a schema applies to the same value.
func inPlace(s *jsonschema.Schema) []*jsonschema.Schema {
	all := slices.Concat(s.AllOf, s.AnyOf, s.OneOf, slices.Collect(maps.Values(s.DependentSchemas)),
		[]*jsonschema.Schema{s.Ref, s.RecursiveRef, s.Not, s.If, s.Then, s.Else})
	if s.DynamicRef != nil {
		all = append(all, s.DynamicRef.Ref)
	}
	for _, dependency := range s.Dependencies {
		if dependent, ok := dependency.(*jsonschema.Schema); ok {
			all = append(all, dependent)
		}
	}
	return slices.DeleteFunc(all, func(s *jsonschema.Schema) bool { return s == nil })
}

// children returns the schemas that a schema applies to parts of the value.
func children(s *jsonschema.Schema) []*jsonschema.Schema {
	all := slices.Concat(slices.Collect(maps.Values(s.Properties)), slices.Collect(maps.Values(s.PatternProperties)),
		s.PrefixItems, []*jsonschema.Schema{s.PropertyNames, s.UnevaluatedProperties, s.Contains, s.UnevaluatedItems})
	all = append(all, restItems(s))
	for _, additional := range []any{s.AdditionalProperties, s.AdditionalItems} {
		if a, ok := additional.(*jsonschema.Schema); ok {
			all = append(all, a)
		}
	}
	if list, ok := s.Items.([]*jsonschema.Schema); ok {
		all = append(all, list...)
	}
	return slices.DeleteFunc(all, func(s *jsonschema.Schema) bool { return s == nil })
}

// restItems returns the schema of the items that have no schema of their own, or nil.
func restItems(s *jsonschema.Schema) *jsonschema.Schema {
	if s.Items2020 != nil {
		return s.Items2020
	}
	if items, ok := s.Items.(*jsonschema.Schema); ok { // before 2020-12
		return items
	}
	rest, _ := s.AdditionalItems.(*jsonschema.Schema)
	return rest
}

// prefixItems returns the schemas of the first items.
func prefixItems(s *jsonschema.Schema) []*jsonschema.Schema {
	if list, ok := s.Items.([]*jsonschema.Schema); ok { // before 2020-12
		return list
	}
	return s.PrefixItems
}

// checkCycles returns an error if a schema applies itself to the same value, directly or through others: the validation
// of a value would not end. known are the schemas that were checked before. checkCycles returns the other schemas.
func checkCycles(root *jsonschema.Schema, known map[*jsonschema.Schema]bool) ([]*jsonschema.Schema, error) {
	open := map[*jsonschema.Schema]bool{} // true for schemas that are being visited, false for visited ones
	todo := []*jsonschema.Schema{root}
	var visit func(s *jsonschema.Schema) error
	visit = func(s *jsonschema.Schema) error {
		isOpen, seen := open[s]
		switch {
		case isOpen:
			return fmt.Errorf("%s: the schema applies itself to the same value, without an end", location(s.Location))
		case seen, known[s]:
			return nil
		}
		open[s] = true
		for _, next := range inPlace(s) {
			if err := visit(next); err != nil {
				return err
			}
		}
		open[s] = false
		todo = append(todo, children(s)...)
		return nil
	}
	for len(todo) > 0 {
		s := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if err := visit(s); err != nil {
			return nil, err
		}
	}
	for s := range open {
		known[s] = true
	}
	return slices.Collect(maps.Keys(open)), nil
}
