package schema

import (
	"encoding/json"
	"slices"
	"strconv"

	"github.com/gatewright/gatewright/shared/thirdparty/jsonschema"
)

// jsonTypes is a set of JSON types. 0 stands for all types in the keyword type.
type jsonTypes uint8

const (
	nullType jsonTypes = 1 << iota
	booleanType
	numberType
	integerType
	stringType
	arrayType
	objectType
	anyType = nullType | booleanType | numberType | stringType | arrayType | objectType
)

// typeNames are the names of the types, in the order of their bits.
var typeNames = [...]string{"null", "boolean", "number", "integer", "string", "array", "object"}

func newTypes(types *jsonschema.Types) jsonTypes {
	if types == nil {
		return 0
	}
	var t jsonTypes
	for _, name := range types.ToStrings() {
		t |= 1 << slices.Index(typeNames[:], name)
	}
	return t
}

// names returns the names of the types.
func (t jsonTypes) names() []string {
	var out []string
	for i, name := range typeNames {
		if t&(1<<i) != 0 {
			out = append(out, name)
		}
	}
	return out
}

// typeOf returns the type of a value: integerType or numberType for a number. It returns 0 for a value that Decode does
// not return.
func typeOf(value any) jsonTypes {
	switch v := value.(type) {
	case nil:
		return nullType
	case bool:
		return booleanType
	case json.Number:
		if IsInteger(string(v)) {
			return integerType
		}
		return numberType
	case string:
		return stringType
	case []any:
		return arrayType
	case map[string]any:
		return objectType
	}
	return 0
}

// allows reports whether t, a keyword's set, has the type of a value.
func (t jsonTypes) allows(of jsonTypes) bool {
	return t&of != 0 || of == integerType && t&numberType != 0
}

// possibleTypes returns the types that a value can have. It can return more types than valid values have. known has the
// results for nodes, so that a schema that is applied twice is searched once.
func (n *node) possibleTypes(known map[*node]jsonTypes) jsonTypes {
	if n.never {
		return 0
	}
	if types, ok := known[n]; ok {
		return types
	}
	types := anyType
	if n.types != 0 {
		types = n.types
	}
	for _, values := range []*valueSet{n.enum, n.constant} {
		if values != nil {
			types = types.and(values.types())
		}
	}
	for _, part := range slices.Concat(n.ref, n.allOf) {
		types = types.and(part.possibleTypes(known))
	}
	for _, alternatives := range [][]*node{n.anyOf, n.oneOf} {
		var union jsonTypes
		for _, part := range alternatives {
			union |= part.possibleTypes(known)
		}
		if len(alternatives) > 0 {
			types = types.and(union)
		}
	}
	known[n] = types
	return types
}

// and returns the intersection. Numbers contain integers.
func (t jsonTypes) and(other jsonTypes) jsonTypes {
	both := t & other
	if (t|other)&integerType != 0 && t&(numberType|integerType) != 0 && other&(numberType|integerType) != 0 &&
		both&numberType == 0 {
		both |= integerType
	}
	return both
}

// valueSet are the values of enum or const.
type valueSet struct {
	values []any
	texts  map[string]struct{}
	// others has the values that are not strings, in the spelling of appendCanonical.
	others map[string]struct{}
}

func newEnum(enum *jsonschema.Enum) *valueSet {
	if enum == nil {
		return nil
	}
	s := &valueSet{values: enum.Values, texts: map[string]struct{}{}, others: map[string]struct{}{}}
	for _, value := range enum.Values {
		if text, ok := value.(string); ok {
			s.texts[text] = struct{}{}
		} else {
			s.others[string(appendCanonical(nil, value))] = struct{}{}
		}
	}
	return s
}

func newConstant(value *any) *valueSet {
	if value == nil {
		return nil
	}
	return newEnum(&jsonschema.Enum{Values: []any{*value}})
}

func (s *valueSet) types() jsonTypes {
	var t jsonTypes
	for _, value := range s.values {
		t |= typeOf(value)
	}
	return t
}

// appendCanonical appends a spelling of a value that is the same for all equal values, and only for these.
func appendCanonical(dst []byte, value any) []byte {
	switch v := value.(type) {
	case nil:
		return append(dst, "null"...)
	case bool:
		return strconv.AppendBool(dst, v)
	case json.Number:
		return appendNumber(dst, string(v))
	case string:
		return strconv.AppendQuote(dst, v)
	case []any:
		dst = append(dst, '[')
		for _, item := range v {
			dst = append(appendCanonical(dst, item), ',')
		}
		return append(dst, ']')
	case map[string]any:
		dst = append(dst, '{')
		for _, name := range sortedNames(v) {
			dst = append(strconv.AppendQuote(dst, name), ':')
			dst = append(appendCanonical(dst, v[name]), ',')
		}
		return append(dst, '}')
	}
	return dst
}

// measure returns the work of appendCanonical.
func measure(value any) int {
	work := 1
	switch v := value.(type) {
	case string:
		work += len(v) / bytesPerUnit
	case []any:
		for _, item := range v {
			work += measure(item)
		}
	case map[string]any:
		for name, member := range v {
			work += 2 + len(name)/bytesPerUnit + measure(member)
		}
	}
	return work
}
