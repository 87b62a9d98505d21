package schema

import (
	"fmt"
	"math/big"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/gatewright/gatewright/shared/thirdparty/jsonschema"
	"github.com/gatewright/gatewright/shared/thirdparty/jsonschema/kind"
)

// Bounds of the texts of Requirement.
const (
	// maxListed is the maximum number of values or names in a list.
	maxListed = 10
	// maxListedBytes is the maximum length of a value, a name or a pattern, without the "…" after a shortened one.
	maxListedBytes = 100
)

// Requirement returns what a violated keyword requires, in words that follow "must", such as "be 0 or more". The words
// have parts of the schema, and no part of the value, but for its type. Long lists and long values of the schema are
// shortened.
func Requirement(k jsonschema.ErrorKind) string {
	switch k := k.(type) {
	case *kind.Type:
		return typeRequirement(k)
	case *kind.Enum:
		if len(k.Want) == 1 {
			return "be " + literal(k.Want[0])
		}
		return "be one of " + listLiterals(k.Want)
	case *kind.Const:
		return "be " + literal(k.Want)
	case *kind.FalseSchema:
		return "not be sent here"
	case *kind.Not:
		return "not have the form that the schema excludes"
	case *kind.AnyOf:
		return "have one of the forms that the schema allows"
	case *kind.OneOf:
		if k.Subschemas != nil {
			return "have exactly one of the forms that the schema allows, not several"
		}
		return "have one of the forms that the schema allows"
	}
	if text := objectRequirement(k); text != "" {
		return text
	}
	if text := arrayRequirement(k); text != "" {
		return text
	}
	return scalarRequirement(k)
}

func typeRequirement(k *kind.Type) string {
	want := Article(k.Want)
	if len(k.Want) == 1 && k.Want[0] == "integer" && k.Got == "number" {
		return "be an integer, not a number with a fraction"
	}
	return "be " + want + ", not " + Article([]string{k.Got})
}

func objectRequirement(k jsonschema.ErrorKind) string {
	switch k := k.(type) {
	case *kind.Required:
		return "have " + properties(k.Missing, " and ")
	case *MissingOneOf:
		return "have " + strings.Replace(properties(k.Names, " or "), "the properties", "one of the properties", 1)
	case *kind.DependentRequired:
		return fmt.Sprintf("have %s, as it has %s", properties(k.Missing, " and "), quote(k.Prop))
	case *kind.Dependency:
		return fmt.Sprintf("have %s, as it has %s", properties(k.Missing, " and "), quote(k.Prop))
	case *kind.MinProperties:
		return "have at least " + count(k.Want, "property", "properties")
	case *kind.MaxProperties:
		return "have at most " + count(k.Want, "property", "properties")
	}
	return ""
}

func arrayRequirement(k jsonschema.ErrorKind) string {
	switch k := k.(type) {
	case *kind.MinItems:
		return "have at least " + count(k.Want, "item", "items")
	case *kind.MaxItems:
		return "have at most " + count(k.Want, "item", "items")
	case *kind.UniqueItems:
		return fmt.Sprintf("have no two equal items, such as the items %d and %d", k.Duplicates[0], k.Duplicates[1])
	case *kind.Contains:
		return "contain an item that matches the schema of contains"
	case *kind.MinContains:
		return "contain at least " + count(k.Want, "item", "items") + " that match the schema of contains"
	case *kind.MaxContains:
		return "contain at most " + count(k.Want, "item", "items") + " that match the schema of contains"
	}
	return ""
}

func scalarRequirement(k jsonschema.ErrorKind) string {
	switch k := k.(type) {
	case *kind.MinLength:
		return "have at least " + count(k.Want, "character", "characters")
	case *kind.MaxLength:
		return "have at most " + count(k.Want, "character", "characters")
	case *kind.Pattern:
		return "match the pattern " + shorten(k.Want)
	case *kind.Format:
		return "have the format " + formatDescription(k.Want)
	case *kind.ContentEncoding:
		return "be encoded as " + k.Want
	case *kind.Minimum:
		return "be " + decimalText(k.Want) + " or more"
	case *kind.Maximum:
		return "be " + decimalText(k.Want) + " or less"
	case *kind.ExclusiveMinimum:
		return "be more than " + decimalText(k.Want)
	case *kind.ExclusiveMaximum:
		return "be less than " + decimalText(k.Want)
	case *kind.MultipleOf:
		return "be a multiple of " + decimalText(k.Want)
	}
	return "match the keyword " + strings.Join(k.KeywordPath(), ".")
}

// formatDescription returns the name of a format, with an example if the name alone is not clear.
func formatDescription(name string) string {
	switch name {
	case "date":
		return "date, such as 2026-01-31"
	case "date-time":
		return "date-time, such as 2026-01-31T12:00:00Z"
	case "time":
		return "time, such as 12:00:00Z"
	case "duration":
		return "duration, such as P1DT12H"
	case "byte":
		return "byte: base64"
	}
	return name
}

// properties returns names as "the property "a"" or "the properties "a" and "b"".
func properties(names []string, last string) string {
	if len(names) == 1 {
		return "the property " + quote(names[0])
	}
	return "the properties " + QuoteList(names, last)
}

func count(n int, singular, plural string) string {
	if n == 1 {
		return "1 " + singular
	}
	return strconv.Itoa(n) + " " + plural
}

// QuoteList returns a list of names in quotation marks. last is the text before the last name, such as " and ". It counts
// the names after the tenth instead of listing them: `"a", "b" and 3 more`.
func QuoteList(names []string, last string) string {
	var out []string
	for _, name := range names[:min(len(names), maxListed)] {
		out = append(out, quote(name))
	}
	if len(names) > maxListed {
		return strings.Join(out, ", ") + last + strconv.Itoa(len(names)-maxListed) + " more"
	}
	if len(out) < 2 {
		return strings.Join(out, "")
	}
	return strings.Join(out[:len(out)-1], ", ") + last + out[len(out)-1]
}

func quote(text string) string { return strconv.Quote(shorten(text)) }

// shorten returns a text of the schema. It cuts a text after maxListedBytes, and adds "…".
func shorten(text string) string {
	if len(text) <= maxListedBytes {
		return text
	}
	end := maxListedBytes
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + "…"
}

func listLiterals(values []any) string {
	var out []string
	for _, v := range values[:min(len(values), maxListed)] {
		out = append(out, literal(v))
	}
	text := strings.Join(out, ", ")
	if len(values) > maxListed {
		text += " and " + strconv.Itoa(len(values)-maxListed) + " more"
	}
	return text
}

// literal returns a value of a schema as text.
func literal(value any) string {
	switch v := value.(type) {
	case string:
		return quote(v)
	case nil:
		return "null"
	case map[string]any, []any:
		return "a fixed value"
	default:
		return shorten(fmt.Sprint(v))
	}
}

// Article returns names of JSON types with their articles: "a string or an object".
func Article(types []string) string {
	out := make([]string, len(types))
	for i, name := range types {
		switch name {
		case "array", "object", "integer":
			out[i] = "an " + name
		case "null":
			out[i] = name
		default:
			out[i] = "a " + name
		}
	}
	return strings.Join(out, " or ")
}

// decimalText returns a number of a schema as JSON writes it.
func decimalText(n *big.Rat) string {
	if n.IsInt() && n.Num().BitLen() < 64 {
		return n.Num().String()
	}
	float, _ := n.Float64()
	if float > 1e-6 && float < 1e21 || float < -1e-6 && float > -1e21 {
		return strconv.FormatFloat(float, 'f', -1, 64)
	}
	return strconv.FormatFloat(float, 'g', -1, 64)
}
