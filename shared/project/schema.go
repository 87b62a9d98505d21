package project

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/text/message"

	"github.com/gatewright/gatewright/thirdparty/jsonschema"
	"github.com/gatewright/gatewright/thirdparty/jsonschema/kind"
)

// schemaFiles are the OpenAPI Initiative's schemas of OpenAPI 3.0 (2021-09-28)
// and 3.1 (2022-10-07), unchanged, and our own of the files and extensions that
// contract 4.1 describes.
//
//go:embed schemas/*.json
var schemaFiles embed.FS

// schemas are the shapes a project's files have to have.
type schemas struct {
	openAPI30, openAPI31     *shape
	route, path              *shape
	policies, cors, settings *shape
}

// shape is a schema in the two ways in which a value is held against it.
type shape struct {
	// schema tells every violation. The library makes an error with the whole
	// place of each, and of each alternative: a hundred times the value's size.
	schema *jsonschema.Schema
	// negation is not(schema): it holds for what does not fit, which the library
	// finds without making an error.
	negation *jsonschema.Schema
}

// fits reports whether a value has the shape, at the cost of time alone.
func (s *shape) fits(value any) bool { return s.negation.Validate(value) != nil }

// maxWeight bounds the values of which violations are told one by one: the sum
// of their depths below the value that is checked and 8 for each. The library
// takes some 150 bytes for a unit when all of them are wrong. The largest part
// of the GitHub description weighs a tenth.
const maxWeight = 600_000

// weigh gives the weight of a value, or more than maxWeight.
func weigh(value any) int { return weighAt(value, 8) }

func weighAt(value any, each int) int {
	total := each
	switch v := value.(type) {
	case map[string]any:
		for _, child := range v {
			if total += weighAt(child, each+1); total > maxWeight {
				return total
			}
		}
	case []any:
		for _, child := range v {
			if total += weighAt(child, each+1); total > maxWeight {
				return total
			}
		}
	}
	return total
}

// mustLoadSchemas panics on schemas that do not compile: they are a part of the
// program, and its tests compile them.
func mustLoadSchemas() *schemas {
	s, err := loadSchemas()
	if err != nil {
		panic(fmt.Sprintf("project: %v", err))
	}
	return s
}

// loadSchemas compiles the embedded schemas, some 15 ms of work.
func loadSchemas() (*schemas, error) {
	s := &schemas{}
	c := jsonschema.NewCompiler()
	for name, into := range map[string]**shape{
		"openapi-3.0.json": &s.openAPI30,
		"openapi-3.1.json": &s.openAPI31,
		"route.json":       &s.route,
		"path.json":        &s.path,
		"policies.json":    &s.policies,
		"cors.json":        &s.cors,
		"settings.json":    &s.settings,
	} {
		data, err := schemaFiles.ReadFile("schemas/" + name)
		if err != nil {
			return nil, fmt.Errorf("read schema: %w", err)
		}
		tree, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
		if err != nil {
			return nil, fmt.Errorf("read schema %s: %w", name, err)
		}
		// A name alone would be that of a file in the working folder, which may be gone.
		url := "embedded:///" + name
		if err := c.AddResource(url, tree); err != nil {
			return nil, fmt.Errorf("load schema %s: %w", name, err)
		}
		if *into, err = newShape(c, url); err != nil {
			return nil, fmt.Errorf("compile schema %s: %w", name, err)
		}
	}
	return s, nil
}

func newShape(c *jsonschema.Compiler, url string) (*shape, error) {
	s := &shape{}
	var err error
	if s.schema, err = c.Compile(url); err != nil {
		return nil, err
	}
	negation := map[string]any{"not": map[string]any{"$ref": url}}
	if err = c.AddResource("not-"+url, negation); err != nil {
		return nil, err
	}
	s.negation, err = c.Compile("not-" + url)
	return s, err
}

// check reports where value, which stands at prefix in file, does not have the
// shape. Messages never repeat a value of the project's, only names.
func check(r *report, file, prefix string, s *shape, value any) bool {
	if weigh(value) > maxWeight {
		if s.fits(value) {
			return true
		}
		r.fail(file, prefix, "This has mistakes, and is too large for them to be told one by one. Divide it, or look for them with another validator.")
		return false
	}
	err := s.schema.Validate(value)
	if err == nil {
		return true
	}
	e, ok := errors.AsType[*jsonschema.ValidationError](err)
	if !ok {
		r.fail(file, prefix, "This cannot be checked. Write it as the documentation of the project's files shows.")
		return false
	}
	for _, leaf := range leaves(e) {
		at := prefix + pointer(leaf.InstanceLocation...)
		for name, text := range messages(leaf.ErrorKind) {
			if name != "" {
				r.fail(file, at+pointer(name), "%s", text)
			} else {
				r.fail(file, at, "%s", text)
			}
		}
	}
	return false
}

// leaves finds the violations that caused e: the errors without causes, apart
// from those of alternatives that the author cannot have meant, and from those
// that follow from others.
func leaves(e *jsonschema.ValidationError) []*jsonschema.ValidationError {
	out := collect(nil, e)
	if !slices.ContainsFunc(out, unevaluated) {
		return out
	}
	failed := map[string]bool{}
	for _, l := range out {
		if !unevaluated(l) {
			failed[pointer(l.InstanceLocation...)] = true
		}
	}
	// What a failed part of an object would have allowed counts as not
	// evaluated: such refusals say nothing beside the part's own.
	return slices.DeleteFunc(out, func(l *jsonschema.ValidationError) bool {
		return unevaluated(l) && failed[pointer(l.InstanceLocation[:len(l.InstanceLocation)-1]...)]
	})
}

// collect appends the errors without causes, and of alternatives what was meant.
func collect(out []*jsonschema.ValidationError, e *jsonschema.ValidationError) []*jsonschema.ValidationError {
	switch e.ErrorKind.(type) {
	case *kind.OneOf, *kind.AnyOf:
		return append(out, meant(e)...)
	}
	if len(e.Causes) == 0 {
		return append(out, e)
	}
	for _, c := range e.Causes {
		out = collect(out, c)
	}
	return out
}

func unevaluated(e *jsonschema.ValidationError) bool {
	_, ok := e.ErrorKind.(*kind.FalseSchema)
	return ok && len(e.InstanceLocation) > 0
}

// meant picks the alternative that an author meant when none fits: not the
// reference when there is no $ref, else the one that fits deepest. When two are
// equally close, it answers the alternatives themselves.
func meant(e *jsonschema.ValidationError) []*jsonschema.ValidationError {
	var best [][]*jsonschema.ValidationError
	deepest := -1
	for _, branch := range e.Causes {
		found := leaves(branch)
		depth := len(e.InstanceLocation)
		for _, l := range found {
			if required, ok := l.ErrorKind.(*kind.Required); ok && slices.Contains(required.Missing, "$ref") && len(e.Causes) > 1 {
				depth = -1
				break
			}
			depth = max(depth, len(l.InstanceLocation))
		}
		switch {
		case depth > deepest:
			deepest, best = depth, append(best[:0:0], found)
		case depth == deepest:
			best = append(best, found)
		}
	}
	if len(best) == 1 {
		return best[0]
	}
	if merged := merge(best); merged != nil {
		return merged
	}
	return []*jsonschema.ValidationError{{InstanceLocation: e.InstanceLocation, ErrorKind: e.ErrorKind}}
}

// merge makes one violation of alternatives that differ only in the values of
// one property, or in the one that they lack. It answers nil for others.
func merge(branches [][]*jsonschema.ValidationError) []*jsonschema.ValidationError {
	var values kind.Enum
	var missing lacks
	var at []string
	for i, found := range branches {
		var distinct *jsonschema.ValidationError
		for _, leaf := range found {
			switch leaf.ErrorKind.(type) {
			case *kind.Enum, *kind.Const:
				distinct = leaf
			case *kind.Required:
				if distinct == nil && len(found) == 1 {
					distinct = leaf
				}
			}
		}
		if distinct == nil || i > 0 && !slices.Equal(distinct.InstanceLocation, at) {
			return nil
		}
		at = distinct.InstanceLocation
		switch k := distinct.ErrorKind.(type) {
		case *kind.Enum:
			values.Want = append(values.Want, k.Want...)
		case *kind.Const:
			values.Want = append(values.Want, k.Want)
		case *kind.Required:
			missing.names = append(missing.names, k.Missing...)
		}
	}
	switch {
	case len(values.Want) > 0 && len(missing.names) == 0:
		return []*jsonschema.ValidationError{{InstanceLocation: at, ErrorKind: &values}}
	case len(missing.names) > 0 && len(values.Want) == 0:
		return []*jsonschema.ValidationError{{InstanceLocation: at, ErrorKind: &missing}}
	}
	return nil
}

// lacks is a violation: one of the properties is required.
type lacks struct{ names []string }

var _ jsonschema.ErrorKind = (*lacks)(nil)

// KeywordPath and LocalizedString are what the library asks of a kind.
func (*lacks) KeywordPath() []string { return []string{"oneOf"} }

// LocalizedString is never shown: messages has the text.
func (*lacks) LocalizedString(*message.Printer) string { return "" }

// patternWords says in words what the patterns of the schemas ask for.
var patternWords = map[string]string{
	`^3\.0\.\d(-.+)?$`:             "a version of OpenAPI 3.0, such as 3.0.3",
	`^3\.1\.\d+(-.+)?$`:            "a version of OpenAPI 3.1, such as 3.1.0",
	`^[0-9]{4}-[0-9]{2}-[0-9]{2}$`: "a date such as 2026-01-31",
	`^[Bb][Ee][Aa][Rr][Ee][Rr]$`:   `the word "bearer"`,
	`^[a-zA-Z0-9._-]+$`:            "of letters, digits, dots, hyphens and underscores",
}

// messages says what to do about a violation, by the property it concerns, ""
// for the value itself.
func messages(k jsonschema.ErrorKind) map[string]string {
	one := func(format string, args ...any) map[string]string {
		return map[string]string{"": fmt.Sprintf(format, args...)}
	}
	switch k := k.(type) {
	case *kind.Required:
		return one("Add %s: it is required here.", quoted(k.Missing, " and "))
	case *lacks:
		return one("Add %s: one of them is required here.", quoted(k.names, " or "))
	case *kind.AdditionalProperties:
		out := map[string]string{}
		for _, name := range k.Properties {
			out[name] = unknownProperty
		}
		return out
	case *kind.FalseSchema:
		return one(unknownProperty)
	case *kind.Type:
		return one("This has to be %s, and is %s.", article(k.Want), article([]string{k.Got}))
	case *kind.Enum:
		return one("This has to be one of %s.", literals(k.Want))
	case *kind.Const:
		return one("This has to be %s.", literals([]any{k.Want}))
	case *kind.Pattern:
		return one("This has to be %s.", patternWords[k.Want])
	case *kind.PropertyNames:
		return one("The name of this property has a form that is not allowed here. Rename it.")
	case *kind.MinLength:
		return one("This has to have at least %d characters.", k.Want)
	case *kind.MaxLength:
		return one("This has to have at most %d characters.", k.Want)
	case *kind.MinItems:
		return one("This has to have at least %d entries.", k.Want)
	case *kind.MaxItems:
		return one("This has to have at most %d entries.", k.Want)
	case *kind.MinProperties:
		return one("This has to have at least %d properties.", k.Want)
	case *kind.MaxProperties:
		return one("This has to have at most %d properties.", k.Want)
	case *kind.UniqueItems:
		return one("The entries %d and %d are equal. Remove one of them.", k.Duplicates[0], k.Duplicates[1])
	case *kind.Minimum:
		return one("This has to be %s or more.", k.Want.RatString())
	case *kind.Maximum:
		return one("This has to be %s or less.", k.Want.RatString())
	case *kind.ExclusiveMinimum:
		return one("This has to be more than %s.", k.Want.RatString())
	case *kind.ExclusiveMaximum:
		return one("This has to be less than %s.", k.Want.RatString())
	case *kind.OneOf, *kind.AnyOf:
		return one("This has none of the forms, or more than one, that are allowed here. Compare it with the OpenAPI specification.")
	case *kind.Not:
		return one("These properties exclude each other. Remove one of them.")
	default:
		return one("This breaks the rule %q here.", strings.Join(k.KeywordPath(), "."))
	}
}

const unknownProperty = "There is no such property here. Correct its name or remove it."

func quoted(names []string, last string) string {
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = fmt.Sprintf("%q", n)
	}
	if len(out) < 2 {
		return strings.Join(out, "")
	}
	return strings.Join(out[:len(out)-1], ", ") + last + out[len(out)-1]
}

func literals(values []any) string {
	out := make([]string, len(values))
	for i, v := range values {
		switch v := v.(type) {
		case string:
			out[i] = fmt.Sprintf("%q", v)
		case map[string]any, []any:
			out[i] = "a fixed value"
		default:
			out[i] = fmt.Sprint(v)
		}
	}
	return strings.Join(out, ", ")
}

func article(kinds []string) string {
	out := make([]string, len(kinds))
	for i, k := range kinds {
		switch k {
		case "array", "object", "integer":
			out[i] = "an " + k
		case "null":
			out[i] = k
		default:
			out[i] = "a " + k
		}
	}
	return strings.Join(out, " or ")
}
