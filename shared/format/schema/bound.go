package schema

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/gatewright/gatewright/shared/thirdparty/jsonschema"
	"github.com/gatewright/gatewright/shared/thirdparty/jsonschema/kind"
)

// Work of the library, in units of some 50 ns.
const (
	// applicationWork is the work of applying a schema without keywords.
	applicationWork = 4
	// bytesPerUnit is the number of bytes of a string that are read in a unit.
	bytesPerUnit = 64
	// matchStepsPerUnit is the number of steps of pattern matching in a unit. A step tries one instruction on one byte. It
	// takes 10 to 25 ns if RE2 cannot use a fast algorithm.
	matchStepsPerUnit = 4
	// namesPerUnit is the number of names that are looked up in a unit, and scopesPerUnit the number of applied schemas that
	// the library searches for cycles in a unit.
	namesPerUnit, scopesPerUnit = 2, 16
	// plainWork and exactWork are the work of exact arithmetic with a plain integer and with another number. tooMuchWork
	// is the work of arithmetic with an unsafe number. It exceeds MaxWork.
	plainWork, exactWork, tooMuchWork = 8, 15, 1 << 40
	// smallList is the number of items up to which the library compares each item with each other one.
	smallList = 20
)

// maxApplications is the maximum depth of schemas that apply each other. Decode accepts 128 levels of values, and each
// level can apply several schemas.
const maxApplications = 4000

// Memory of errors, in bytes.
const (
	errorBytes = 200
	nameBytes  = 16
)

// bound bounds the work and the memory of a validation.
type bound struct {
	// work is the number of units that remain. memory is the number of bytes that remain for errors.
	work, memory int
}

var _ jsonschema.Bound = (*bound)(nil)

// Spend implements jsonschema.Bound.
func (b *bound) Spend(s *jsonschema.Schema, v any, depth int, records bool) bool {
	if b.IsSpent() {
		return false
	}
	b.work -= applicationWork + depth/scopesPerUnit
	if s.DynamicRef != nil || s.RecursiveRef != nil {
		b.work -= depth
	}
	if depth > maxApplications {
		b.work = -1
	}
	if s.Enum != nil {
		b.work -= comparisonWork(v, s.Enum.Values)
	}
	if s.Const != nil {
		b.work -= comparisonWork(v, []any{*s.Const})
	}
	switch v := v.(type) {
	case string:
		b.work -= textWork(s, v)
	case json.Number:
		b.work -= numberWork(s, string(v))
	case []any:
		if s.UniqueItems {
			b.work -= uniqueWork(v)
		}
		if records || s.UnevaluatedItems != nil {
			b.work -= 3 * len(v)
		}
	case map[string]any:
		b.work -= objectWork(s, v)
		if records || s.UnevaluatedProperties != nil {
			b.work -= 6 * len(v)
		}
	}
	return b.work >= 0
}

// Failed implements jsonschema.Bound.
func (b *bound) Failed(e *jsonschema.ValidationError) {
	b.memory -= errorBytes + nameBytes*len(e.InstanceLocation)
	switch k := e.ErrorKind.(type) {
	case *kind.Required:
		b.memory -= nameBytes * len(k.Missing)
	case *kind.DependentRequired:
		b.memory -= nameBytes * len(k.Missing)
	case *kind.Dependency:
		b.memory -= nameBytes * len(k.Missing)
	case *kind.AdditionalProperties:
		b.memory -= nameBytes * len(k.Properties)
	case *kind.MinContains:
		b.memory -= nameBytes * len(k.Got)
	case *kind.MaxContains:
		b.memory -= nameBytes * len(k.Got)
	}
}

// IsSpent implements jsonschema.Bound.
func (b *bound) IsSpent() bool { return b.work < 0 || b.memory < 0 }

// textWork returns the work of the keywords for strings.
func textWork(s *jsonschema.Schema, text string) int {
	work := 0
	if s.MinLength != nil || s.MaxLength != nil {
		work += 2 * len(text) / bytesPerUnit
	}
	if s.Format != nil {
		work += 4 + 8*len(text)/bytesPerUnit
	}
	if s.ContentEncoding != nil || s.ContentMediaType != nil {
		work += 2 * len(text) / bytesPerUnit
	}
	if s.Pattern != nil {
		work += matchWork(s.Pattern, 1, len(text))
	}
	return work
}

// matchWork returns the work of matching texts of a total length with a pattern.
func matchWork(re jsonschema.Regexp, texts, length int) int {
	if counted, ok := re.(interface{ Instructions() int }); ok {
		return 4*texts + length*counted.Instructions()/matchStepsPerUnit
	}
	return texts
}

// numberWork returns the work of the keywords for numbers.
func numberWork(s *jsonschema.Schema, text string) int {
	work := 0
	if s.Types != nil || s.Format != nil {
		work += readWork(text)
	}
	if s.Minimum != nil || s.Maximum != nil || s.ExclusiveMinimum != nil || s.ExclusiveMaximum != nil ||
		s.MultipleOf != nil {
		work += plainWork + readWork(text)
	}
	if s.MultipleOf != nil { // division of fractions
		work += exactWork + readWork(text) + (s.MultipleOf.Num().BitLen()+s.MultipleOf.Denom().BitLen())/32
	}
	return work
}

// readWork returns the work of reading a number exactly. The work depends on the exponent. It is 1 for a plain integer,
// which the library reads only for comparisons.
func readWork(text string) int {
	if len(text) < MaxNumberBytes && !strings.ContainsAny(text, ".eE") {
		return 1
	}
	if !IsSafeNumber(text) {
		return tooMuchWork
	}
	work := exactWork
	if at := strings.IndexAny(text, "eE"); at >= 0 {
		exponent, _ := strconv.Atoi(text[at+1:]) // a safe number has a small one
		work += max(exponent, -exponent) / 8
	}
	return work
}

// comparisonWork returns the work of comparing a value with the values of a schema.
func comparisonWork(v any, values []any) int {
	switch v := v.(type) {
	case string:
		return len(values)/8 + len(values)*(len(v)/1024)
	case json.Number:
		work, own := 0, readWork(string(v))
		for _, value := range values {
			if n, ok := value.(json.Number); ok && (own > 1 || readWork(string(n)) > 1) {
				work += exactWork + own + readWork(string(n))
			}
		}
		return work + len(values)/2
	case []any, map[string]any:
		return len(values) * measure(v)
	}
	return len(values) / 8
}

// uniqueWork returns the work of finding equal items. The library hashes the items of long lists.
func uniqueWork(list []any) int {
	if len(list) <= smallList {
		return measure(list) * (1 + len(list)/2)
	}
	return 2 * measure(list)
}

// measure returns the work of comparing or hashing a value.
func measure(value any) int {
	work := 1
	switch v := value.(type) {
	case string:
		work += len(v) / bytesPerUnit
	case json.Number:
		work += plainWork + 2*readWork(string(v))
	case []any:
		for _, item := range v {
			work += measure(item)
		}
	case map[string]any:
		for name, member := range v {
			work += 4 + len(name)/bytesPerUnit + measure(member)
		}
	}
	return work
}

// objectWork returns the work of the keywords for objects.
func objectWork(s *jsonschema.Schema, object map[string]any) int {
	length := 0
	for name := range object {
		length += len(name)
	}
	work := 1 + len(object)/2 + length/bytesPerUnit + len(s.Required)/namesPerUnit
	for re := range s.PatternProperties {
		work += matchWork(re, len(object), length)
	}
	for _, required := range s.DependentRequired {
		work += 2 + len(required)/namesPerUnit
	}
	for _, dependency := range s.Dependencies {
		required, _ := dependency.([]string)
		work += 2 + len(required)/namesPerUnit
	}
	return work + 2*len(s.DependentSchemas)
}
