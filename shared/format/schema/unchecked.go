package schema

import (
	"slices"

	"github.com/gatewright/gatewright/shared/thirdparty/jsonschema"
)

// Patterns that package regex does not support match every text. Within not, for example, such a pattern would refuse
// every text. This file removes the keywords that would refuse valid values for this reason.

// acceptUnchecked changes the schemas that root consists of so that a pattern that is not checked never makes a value
// invalid. all are the schemas of root that no other root has. unchecked has the schemas that depend on such a pattern,
// and acceptUnchecked adds those of all.
func acceptUnchecked(all []*jsonschema.Schema, unchecked map[*jsonschema.Schema]bool) {
	dependents := map[*jsonschema.Schema][]*jsonschema.Schema{}
	var todo []*jsonschema.Schema
	for _, s := range all {
		parts := append(inPlace(s), children(s)...)
		for _, part := range parts {
			dependents[part] = append(dependents[part], s)
		}
		if hasUnchecked(s) || slices.ContainsFunc(parts, func(part *jsonschema.Schema) bool { return unchecked[part] }) {
			todo = append(todo, s)
		}
	}
	for len(todo) > 0 {
		s := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if !unchecked[s] {
			unchecked[s] = true
			todo = append(todo, dependents[s]...)
		}
	}
	for _, s := range all {
		if unchecked[s] {
			accept(s, unchecked)
		}
	}
}

// hasUnchecked reports whether a schema itself has a pattern that is not checked.
func hasUnchecked(s *jsonschema.Schema) bool {
	for pattern := range s.PatternProperties {
		if _, isUnchecked := pattern.(matchAll); isUnchecked {
			return true
		}
	}
	_, isUnchecked := s.Pattern.(matchAll)
	return isUnchecked
}

// accept changes the keywords of a schema for which more valid values of a part mean fewer valid values of the whole.
func accept(s *jsonschema.Schema, unchecked map[*jsonschema.Schema]bool) {
	if unchecked[s.Not] {
		s.Not = nil
	}
	if unchecked[s.If] {
		s.If, s.Then, s.Else = nil, nil, nil
	}
	if unchecked[s.Contains] {
		s.MaxContains = nil
	}
	if slices.ContainsFunc(s.OneOf, func(part *jsonschema.Schema) bool { return unchecked[part] }) {
		if len(s.AnyOf) == 0 {
			s.AnyOf = s.OneOf // a value can match several alternatives
		}
		s.OneOf = nil
	}
	for pattern := range s.PatternProperties {
		if _, isUnchecked := pattern.(matchAll); isUnchecked {
			allowed := true
			s.PatternProperties[pattern] = &jsonschema.Schema{Bool: &allowed, DraftVersion: s.DraftVersion}
		}
	}
}
