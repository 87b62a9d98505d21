package schema

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/gatewright/gatewright/shared/thirdparty/jsonschema"
	"github.com/gatewright/gatewright/shared/thirdparty/jsonschema/kind"
)

// Work of one unit, which takes some 50 ns.
const (
	// bytesPerUnit is the number of bytes of a string that are read in this time.
	bytesPerUnit = 64
	// matchStepsPerUnit is the number of steps of pattern matching in this time. A step tries
	// one instruction on one byte. It takes 10 to 25 ns if RE2 cannot use a fast algorithm.
	matchStepsPerUnit = 4
	// exactWork is the work of comparing numbers exactly.
	exactWork = 10
)

// maxEvaluationDepth is the maximum number of schemas within each other that are being applied. Decode accepts 128 levels
// of values, and each level can apply several schemas.
const maxEvaluationDepth = 10_000

// evaluator applies schemas to values. It counts its work, and stops when none remains: then work is negative, and no
// result has a meaning.
type evaluator struct {
	work, depth int
}

// spend subtracts work, and reports whether the evaluation may go on.
func (r *evaluator) spend(units int) bool {
	r.work -= units
	return r.work >= 0
}

// check reports whether a value is valid. If out is not nil, check goes on after the first violation, and adds the
// violations to it. at is the place of the value, and is used only together with out. If seen is not nil, check adds
// the properties and items to it that the schema has evaluated.
func (r *evaluator) check(n *node, value any, at *place, out *sink, seen *evaluated) bool {
	if !r.spend(1) {
		return false
	}
	if n.never {
		return out.add(at, &kind.FalseSchema{})
	}
	if r.depth == maxEvaluationDepth {
		r.work = -1
		return false
	}
	own := seen
	if n.unevaluatedProperties != nil || n.unevaluatedItems != nil {
		own = &evaluated{}
	}
	r.depth++
	valid := r.checkKeywords(n, value, at, out, own)
	r.depth--
	if own != seen {
		seen.merge(own)
	}
	return valid
}

// checkKeywords is check without its bounds. The keywords type, const and enum come first: if one of them fails, the
// other violations say nothing more.
func (r *evaluator) checkKeywords(n *node, value any, at *place, out *sink, seen *evaluated) bool {
	if of := typeOf(value); of == 0 || n.types != 0 && !n.types.allows(of) {
		return out.addType(at, of, n.types)
	}
	if n.constant != nil && !r.contains(n.constant, value) {
		return out.addConst(at, n.constant)
	}
	if n.enum != nil && !r.contains(n.enum, value) {
		return out.addEnum(at, n.enum)
	}
	valid := true
	switch v := value.(type) {
	case string:
		valid = r.checkString(n, v, at, out)
	case json.Number:
		valid = r.checkNumber(n, string(v), at, out)
	case []any:
		valid = r.checkArray(n, v, at, out, seen)
	case map[string]any:
		valid = r.checkObject(n, v, at, out, seen)
	}
	if !valid && out == nil || !r.checkInPlace(n, value, at, out, seen) && out == nil {
		return false
	}
	return r.checkUnevaluated(n, value, at, out, seen) && valid && r.work >= 0
}

// contains reports whether a value is one of a set.
func (r *evaluator) contains(set *valueSet, value any) bool {
	if text, ok := value.(string); ok {
		r.work -= len(text) / bytesPerUnit
		_, found := set.texts[text]
		return found
	}
	if len(set.others) == 0 || !r.spend(measure(value)) {
		return false
	}
	_, found := set.others[string(appendCanonical(nil, value))]
	return found
}

// checkNumber checks the keywords for numbers.
func (r *evaluator) checkNumber(n *node, text string, at *place, out *sink) bool {
	valid := n.format == nil || r.checkFormat(n, json.Number(text), at, out)
	if n.minimum == nil && n.maximum == nil && n.exclusiveMinimum == nil && n.exclusiveMaximum == nil &&
		n.multipleOf == nil {
		return valid
	}
	if !IsSafeNumber(text) || !r.spend(exactWork) {
		r.work = -1
		return false
	}
	if n.minimum != nil && n.minimum.compare(text) < 0 {
		valid = out.add(at, &kind.Minimum{Want: n.minimum.exact})
	}
	if n.maximum != nil && n.maximum.compare(text) > 0 {
		valid = out.add(at, &kind.Maximum{Want: n.maximum.exact})
	}
	if n.exclusiveMinimum != nil && n.exclusiveMinimum.compare(text) <= 0 {
		valid = out.add(at, &kind.ExclusiveMinimum{Want: n.exclusiveMinimum.exact})
	}
	if n.exclusiveMaximum != nil && n.exclusiveMaximum.compare(text) >= 0 {
		valid = out.add(at, &kind.ExclusiveMaximum{Want: n.exclusiveMaximum.exact})
	}
	if n.multipleOf != nil && !n.multipleOf.divides(text) {
		valid = out.add(at, &kind.MultipleOf{Want: n.multipleOf.exact})
	}
	return valid
}

// checkArray checks the keywords for arrays.
func (r *evaluator) checkArray(n *node, list []any, at *place, out *sink, seen *evaluated) bool {
	valid := true
	if n.minItems != nil && len(list) < *n.minItems {
		valid = out.add(at, &kind.MinItems{Want: *n.minItems})
	}
	if n.maxItems != nil && len(list) > *n.maxItems {
		valid = out.add(at, &kind.MaxItems{Want: *n.maxItems})
	}
	if n.uniqueItems && valid {
		if first, second := r.duplicates(list); second > 0 {
			valid = out.add(at, &kind.UniqueItems{Duplicates: [2]int{first, second}})
		}
	}
	for i := range list {
		if !valid && out == nil || r.work < 0 || out.isFull() {
			return false
		}
		item := n.items
		if i < len(n.prefix) {
			item = n.prefix[i]
		}
		if item != nil && !r.check(item, list[i], at.item(i, out), out, nil) {
			valid = false
		}
	}
	if n.items != nil {
		seen.addItems(len(list))
	} else {
		seen.addItems(min(len(n.prefix), len(list)))
	}
	return r.checkContains(n, list, at, out, seen) && valid
}

func (r *evaluator) checkContains(n *node, list []any, at *place, out *sink, seen *evaluated) bool {
	if n.contains == nil {
		return true
	}
	matching := 0
	for i := range list {
		if r.check(n.contains, list[i], nil, nil, nil) {
			matching++
			if n.containsEvaluates {
				seen.addItem(i)
			}
		}
	}
	switch {
	case n.minContains == nil && matching == 0:
		return out.add(at, &kind.Contains{})
	case n.minContains != nil && matching < *n.minContains:
		return out.add(at, &kind.MinContains{Want: *n.minContains})
	case n.maxContains != nil && matching > *n.maxContains:
		return out.add(at, &kind.MaxContains{Want: *n.maxContains})
	}
	return true
}

// duplicates returns the positions of two equal items. The second is 0 if there are none.
func (r *evaluator) duplicates(list []any) (first, second int) {
	known := make(map[string]int, len(list))
	for i, item := range list {
		if !r.spend(1 + measure(item)) {
			return 0, 0
		}
		key := string(appendCanonical(nil, item))
		if first, isKnown := known[key]; isKnown {
			return first, i
		}
		known[key] = i
	}
	return 0, 0
}

// checkObject checks the keywords for objects.
func (r *evaluator) checkObject(n *node, object map[string]any, at *place, out *sink, seen *evaluated) bool {
	valid := true
	if n.minProperties != nil && len(object) < *n.minProperties {
		valid = out.add(at, &kind.MinProperties{Want: *n.minProperties})
	}
	if n.maxProperties != nil && len(object) > *n.maxProperties {
		valid = out.add(at, &kind.MaxProperties{Want: *n.maxProperties})
	}
	if missing := r.missing(object, n.required, out); missing != nil {
		valid = out.add(at, &kind.Required{Missing: missing})
	}
	for _, dependent := range n.dependentRequired {
		if _, exists := object[dependent.name]; exists {
			if missing := r.missing(object, dependent.required, out); missing != nil {
				valid = out.add(at, &kind.DependentRequired{Prop: dependent.name, Missing: missing})
			}
		}
	}
	if !valid && out == nil {
		return false
	}
	if n.properties == nil && n.patterns == nil && n.additional == nil && n.propertyNames == nil {
		return valid
	}
	if out == nil {
		for name, value := range object {
			if !r.checkMember(n, name, value, at, out, seen) {
				return false
			}
		}
		return valid
	}
	r.work -= len(object)
	for _, name := range sortedNames(object) {
		if r.work < 0 || out.isFull() {
			return false
		}
		if !r.checkMember(n, name, object[name], at, out, seen) {
			valid = false
		}
	}
	return valid
}

// missing returns the names that an object does not have. Without out, it stops at the first one.
func (r *evaluator) missing(object map[string]any, names []string, out *sink) []string {
	r.work -= len(names) / 4
	var missing []string
	for _, name := range names {
		if _, exists := object[name]; !exists {
			missing = append(missing, name)
			if out == nil {
				break
			}
		}
	}
	return missing
}

func (r *evaluator) checkMember(n *node, name string, value any, at *place, out *sink, seen *evaluated) bool {
	if !r.spend(1) {
		return false
	}
	valid, known := true, false
	if property := n.properties[name]; property != nil {
		known = true
		valid = r.check(property, value, at.member(name, out), out, nil)
	}
	for _, p := range n.patterns {
		if !valid && out == nil {
			return false
		}
		if r.matches(p.pattern, name) {
			known = true
			valid = r.check(p.node, value, at.member(name, out), out, nil) && valid
		}
	}
	if !known && n.additional != nil {
		known = true
		if n.additional.never {
			valid = out.add(at, &kind.AdditionalProperties{Properties: []string{name}}) && valid
		} else {
			valid = r.check(n.additional, value, at.member(name, out), out, nil) && valid
		}
	}
	if n.propertyNames != nil && !r.check(n.propertyNames, name, nil, nil, nil) {
		valid = out.add(at, &kind.PropertyNames{Property: name})
	}
	if known {
		seen.addProperty(name)
	}
	return valid
}

// checkUnevaluated checks unevaluatedProperties and unevaluatedItems.
func (r *evaluator) checkUnevaluated(n *node, value any, at *place, out *sink, seen *evaluated) bool {
	valid := true
	switch v := value.(type) {
	case map[string]any:
		if n.unevaluatedProperties == nil {
			break
		}
		r.work -= len(v)
		for _, name := range sortedNames(v) {
			if r.work < 0 || !valid && out == nil || out.isFull() {
				return false
			}
			if !seen.hasProperty(name) {
				valid = r.check(n.unevaluatedProperties, v[name], at.member(name, out), out, nil) && valid
				seen.addProperty(name)
			}
		}
	case []any:
		for i := 0; i < len(v) && n.unevaluatedItems != nil; i++ {
			if r.work < 0 || !valid && out == nil || out.isFull() {
				return false
			}
			if !seen.hasItem(i) {
				valid = r.check(n.unevaluatedItems, v[i], at.item(i, out), out, nil) && valid
				seen.addItem(i)
			}
		}
	}
	return valid
}

// sortedNames returns the names of an object's members in order.
func sortedNames(object map[string]any) []string { return slices.Sorted(maps.Keys(object)) }

// checkInPlace checks the keywords that apply schemas to the same value.
func (r *evaluator) checkInPlace(n *node, value any, at *place, out *sink, seen *evaluated) bool {
	valid := true
	for _, parts := range [...][]*node{n.ref, n.allOf} {
		for _, part := range parts {
			if !r.check(part, value, at, out, seen) {
				if valid = false; out == nil {
					return false
				}
			}
		}
	}
	if n.not != nil && r.check(n.not, value, nil, nil, nil) {
		valid = out.add(at, &kind.Not{})
	}
	if len(n.anyOf) > 0 && r.countMatches(n.anyOf, value, seen, seen != nil) == 0 {
		valid = r.addAlternatives(n.anyOf, value, at, out, &kind.AnyOf{})
	}
	if len(n.oneOf) > 0 {
		switch r.countMatches(n.oneOf, value, seen, true) {
		case 0:
			valid = r.addAlternatives(n.oneOf, value, at, out, &kind.OneOf{})
		case 1:
		default:
			valid = out.add(at, &kind.OneOf{Subschemas: []int{0, 1}})
		}
	}
	if n.test != nil {
		inner := seen.fresh()
		branch := n.other
		if r.check(n.test, value, nil, nil, inner) {
			branch = n.then
			seen.merge(inner)
		}
		if branch != nil && !r.check(branch, value, at, out, seen) {
			valid = false
		}
	}
	if object, ok := value.(map[string]any); ok {
		for _, dependent := range n.dependentSchemas {
			if _, exists := object[dependent.name]; exists && !r.check(dependent.node, value, at, out, seen) {
				valid = false
			}
		}
	}
	return valid
}

// countMatches returns the number of alternatives that a value matches. If all is not set, it stops after the first one.
func (r *evaluator) countMatches(alternatives []*node, value any, seen *evaluated, all bool) int {
	matching := 0
	for _, alternative := range alternatives {
		inner := seen.fresh()
		if r.check(alternative, value, nil, nil, inner) {
			seen.merge(inner)
			if matching++; !all {
				break
			}
		}
	}
	return matching
}

// addAlternatives adds the violations of alternatives, none of which a value matches, to out. It returns false.
func (r *evaluator) addAlternatives(all []*node, value any, at *place, out *sink, k jsonschema.ErrorKind) bool {
	if out == nil {
		return false
	}
	e := out.newError(at, k)
	for _, alternative := range all {
		branch := out.branch()
		r.check(alternative, value, at, branch, nil)
		if len(branch.errors) > 0 {
			e.Causes = append(e.Causes, &jsonschema.ValidationError{
				InstanceLocation: e.InstanceLocation, ErrorKind: &kind.Group{},
				Causes: branch.errors,
			})
		}
	}
	out.errors = append(out.errors, e)
	return false
}
