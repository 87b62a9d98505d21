package schema

import (
	"encoding/json"
	"slices"

	"github.com/gatewright/gatewright/shared/thirdparty/jsonschema"
)

// Shape describes the types that a schema expects, for values that are sent as texts without types, such as query
// parameters. It joins the alternatives of a schema, so that it can allow more than the schema.
type Shape struct {
	// schemas are the schemas that apply to the value, or can apply to it.
	schemas []*jsonschema.Schema
	types   jsonTypes
}

// Shape returns the shape of the values of a schema.
func (s *Schema) Shape() *Shape { return newShape([]*jsonschema.Schema{s.root}) }

// newShape returns the shape of values to which at least one of these schemas applies.
func newShape(roots []*jsonschema.Schema) *Shape {
	shape := &Shape{}
	known := map[*jsonschema.Schema]jsonTypes{}
	for _, root := range roots {
		if types := possibleTypes(root, known); types != anyType {
			shape.types |= types
		}
	}
	if shape.types == 0 {
		shape.types = anyType
	}
	todo, seen := slices.Clone(roots), map[*jsonschema.Schema]bool{}
	for len(todo) > 0 {
		s := todo[0]
		todo = todo[1:]
		if seen[s] || isNever(s) {
			continue
		}
		seen[s] = true
		shape.schemas = append(shape.schemas, s)
		for _, part := range inPlace(s) {
			if part != s.Not && part != s.If {
				todo = append(todo, part)
			}
		}
	}
	return shape
}

// Allows reports whether a value can have a JSON type: "null", "boolean", "number", "integer", "string", "array" or
// "object".
func (s *Shape) Allows(name string) bool { return s.types.allows(typeOf(name)) }

// IsUnrestricted reports whether no keyword restricts the types of values.
func (s *Shape) IsUnrestricted() bool { return s.types == anyType }

// Work returns the work of computing the shape, in units of MaxWork.
func (s *Shape) Work() int { return 10 * (1 + len(s.schemas)) }

// HasPatterns reports whether the shapes of properties depend on patterns for their names.
func (s *Shape) HasPatterns() bool {
	return slices.ContainsFunc(s.schemas, func(s *jsonschema.Schema) bool { return len(s.PatternProperties) > 0 })
}

// PrefixLength returns the number of items that can have shapes of their own. All later items have the same shape.
func (s *Shape) PrefixLength() int {
	length := 0
	for _, part := range s.schemas {
		length = max(length, len(prefixItems(part)))
	}
	return length
}

// Item returns the shape of the items of an array. i is the position of the item.
func (s *Shape) Item(i int) *Shape {
	var roots []*jsonschema.Schema
	for _, part := range s.schemas {
		if prefix := prefixItems(part); i < len(prefix) {
			roots = append(roots, prefix[i])
		} else if rest := restItems(part); rest != nil {
			roots = append(roots, rest)
		}
	}
	return newShape(roots)
}

// Property returns the shape of a property of an object.
func (s *Shape) Property(name string) *Shape {
	var roots []*jsonschema.Schema
	for _, part := range s.schemas {
		isKnown := false
		if property := part.Properties[name]; property != nil {
			roots, isKnown = append(roots, property), true
		}
		for re, property := range part.PatternProperties {
			if len(name) <= maxMatchedName && re.MatchString(name) {
				roots, isKnown = append(roots, property), true
			}
		}
		if additional, ok := part.AdditionalProperties.(*jsonschema.Schema); ok && !isKnown {
			roots = append(roots, additional)
		}
	}
	return newShape(roots)
}

// maxMatchedName is the maximum length of a name that is matched with patterns to find its shape.
const maxMatchedName = 256

// Properties returns the names of the properties that the schema declares, in order.
func (s *Shape) Properties() []string {
	var names []string
	for _, part := range s.schemas {
		for name := range part.Properties {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// IsFreeForm reports whether objects can have properties that the schema does not name: if it has additionalProperties
// or patternProperties, or names no property.
func (s *Shape) IsFreeForm() bool {
	isClosed := false
	for _, part := range s.schemas {
		isClosed = isClosed || len(part.Properties) > 0
		switch additional := part.AdditionalProperties.(type) {
		case bool:
			if additional {
				return true
			}
			isClosed = true
		case *jsonschema.Schema:
			if !isNever(additional) {
				return true
			}
			isClosed = true
		}
		if len(part.PatternProperties) > 0 {
			return true
		}
	}
	return !isClosed
}

// isNever reports whether no value is valid.
func isNever(s *jsonschema.Schema) bool { return s.Bool != nil && !*s.Bool }

// jsonTypes is a set of JSON types.
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

// typeOf returns the type with a name, or 0.
func typeOf(name string) jsonTypes {
	switch name {
	case "null":
		return nullType
	case "boolean":
		return booleanType
	case "number":
		return numberType
	case "integer":
		return integerType
	case "string":
		return stringType
	case "array":
		return arrayType
	case "object":
		return objectType
	}
	return 0
}

// typeOfValue returns the type of a value of a schema.
func typeOfValue(value any) jsonTypes {
	switch value.(type) {
	case nil:
		return nullType
	case bool:
		return booleanType
	case json.Number:
		return numberType
	case string:
		return stringType
	case []any:
		return arrayType
	}
	return objectType
}

// allows reports whether the set has a type. Numbers contain integers.
func (t jsonTypes) allows(of jsonTypes) bool {
	return t&of != 0 || of == integerType && t&numberType != 0
}

// and returns the intersection. Numbers contain integers.
func (t jsonTypes) and(other jsonTypes) jsonTypes {
	both := t & other
	const numbers = numberType | integerType
	if both&numberType == 0 && t&numbers != 0 && other&numbers != 0 {
		both |= integerType
	}
	return both
}

// possibleTypes returns the types that a value can have. It can return more types than valid values have. known has the
// results for schemas, so that a schema that is applied twice is searched once.
func possibleTypes(s *jsonschema.Schema, known map[*jsonschema.Schema]jsonTypes) jsonTypes {
	if isNever(s) {
		return 0
	}
	if types, ok := known[s]; ok {
		return types
	}
	types := anyType
	if s.Types != nil && !s.Types.IsEmpty() {
		types = 0
		for _, name := range s.Types.ToStrings() {
			types |= typeOf(name)
		}
	}
	if s.Enum != nil {
		types = types.and(typesOf(s.Enum.Values))
	}
	if s.Const != nil {
		types = types.and(typesOf([]any{*s.Const}))
	}
	for _, part := range slices.Concat(s.AllOf, []*jsonschema.Schema{s.Ref, s.RecursiveRef}) {
		if part != nil {
			types = types.and(possibleTypes(part, known))
		}
	}
	for _, alternatives := range [][]*jsonschema.Schema{s.AnyOf, s.OneOf} {
		var union jsonTypes
		for _, part := range alternatives {
			union |= possibleTypes(part, known)
		}
		if len(alternatives) > 0 {
			types = types.and(union)
		}
	}
	known[s] = types
	return types
}

func typesOf(values []any) jsonTypes {
	var types jsonTypes
	for _, value := range values {
		types |= typeOfValue(value)
	}
	return types
}
