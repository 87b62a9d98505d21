package project

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/text/message"

	"github.com/gatewright/gatewright/shared/thirdparty/jsonschema"
	"github.com/gatewright/gatewright/shared/thirdparty/jsonschema/kind"
)

// schemaFiles are the OpenAPI Initiative's schemas of OpenAPI 3.0 (2021-09-28), 3.1 (2022-10-07) and 3.2
// (2025-11-23), unchanged, and our own schemas of the files and extensions that contract 4.1 describes.
//
//go:embed schemas/*.json
var schemaFiles embed.FS

// schemas are the required shapes of a project's files.
type schemas struct {
	openAPI30, openAPI31, openAPI32 *shape
	route, path                     *shape
	policies, cors, settings        *shape
}

// shape is a schema in two forms, for two methods of validation.
type shape struct {
	// schema reports every violation. For each violation and each alternative, the library creates an
	// error with the whole path of the value. These errors can take a hundred times the value's size.
	schema *jsonschema.Schema
	// negation is the schema {"not": schema}. A value that violates
	// schema is valid for negation, so validating it creates no errors.
	negation *jsonschema.Schema
	// parts has the shapes of the objects of OpenAPI, by the members of components that have such objects. It is nil for
	// other schemas.
	parts map[string]*shape
}

// partDefinitions are the definitions of objects in the schemas of OpenAPI, by the members of components that have such
// objects: in the schema of OpenAPI 3.0, and in those of later versions.
var partDefinitions = map[string][2]string{
	"schemas": {"Schema", "schema"}, "responses": {"Response", "response"}, "parameters": {"Parameter", "parameter"},
	"examples": {"Example", "example"}, "requestBodies": {"RequestBody", "request-body"},
	"headers": {"Header", "header"}, "securitySchemes": {"SecurityScheme", "security-scheme"},
	"links": {"Link", "link"}, "callbacks": {"Callback", "callbacks"}, "pathItems": {"PathItem", "path-item"},
	"mediaTypes": {"MediaType", "media-type"},
}

// matches reports whether a value has the shape. It needs time but hardly any memory.
func (s *shape) matches(value any) bool { return s.negation.Validate(value) != nil }

// maxWeight is the maximum weight of a value whose violations are listed individually. The weight is a sum over the
// value and all values inside it: each adds 8 plus its depth. If all of them are invalid, the library needs some 150
// bytes for each unit of weight. The largest part of GitHub's OpenAPI document weighs a tenth of the maximum.
const maxWeight = 600_000

// weigh returns the weight of a value. It stops adding above maxWeight, so it returns less for a heavier value.
func weigh(value any) int { return weighAt(value, 8) }

func weighAt(value any, weight int) int {
	total := weight
	switch v := value.(type) {
	case map[string]any:
		for _, child := range v {
			if total += weighAt(child, weight+1); total > maxWeight {
				return total
			}
		}
	case []any:
		for _, child := range v {
			if total += weighAt(child, weight+1); total > maxWeight {
				return total
			}
		}
	}
	return total
}

// mustLoadSchemas panics if the schemas do not compile: they are a part of the program, and its tests compile them.
func mustLoadSchemas() *schemas {
	s, err := loadSchemas()
	if err != nil {
		panic(fmt.Sprintf("project: %v", err))
	}
	return s
}

// loadSchemas compiles the embedded schemas in some 15 ms.
func loadSchemas() (*schemas, error) {
	s := &schemas{}
	c := jsonschema.NewCompiler()
	for name, dst := range map[string]**shape{
		"openapi-3.0.json": &s.openAPI30,
		"openapi-3.1.json": &s.openAPI31,
		"openapi-3.2.json": &s.openAPI32,
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
		removeFormats(tree)
		// Without a scheme, the name would refer to a file in the working folder, which can be deleted.
		url := "embedded:///" + name
		if err := c.AddResource(url, tree); err != nil {
			return nil, fmt.Errorf("load schema %s: %w", name, err)
		}
		if *dst, err = newShape(c, url); err != nil {
			return nil, fmt.Errorf("compile schema %s: %w", name, err)
		}
		if strings.HasPrefix(name, "openapi") {
			if (*dst).parts, err = newParts(c, url, name == "openapi-3.0.json"); err != nil {
				return nil, fmt.Errorf("compile schema %s: %w", name, err)
			}
		}
	}
	return s, nil
}

// removeFormats removes the keyword "format" from a schema. The library would assert it in the schema of OpenAPI 3.0,
// with Go's syntax of regular expressions, although patterns have the syntax of ECMA-262. The schemas of later
// versions do not assert formats.
func removeFormats(schema any) {
	switch v := schema.(type) {
	case map[string]any:
		if _, isKeyword := v["format"].(string); isKeyword { // a property called format is an object
			delete(v, "format")
		}
		for _, child := range v {
			removeFormats(child)
		}
	case []any:
		for _, child := range v {
			removeFormats(child)
		}
	}
}

// newParts returns the shapes of the objects of a version of OpenAPI.
func newParts(c *jsonschema.Compiler, url string, is30 bool) (map[string]*shape, error) {
	out := map[string]*shape{}
	for member, names := range partDefinitions {
		fragment := "#/$defs/" + names[1]
		if is30 {
			fragment = "#/definitions/" + names[0]
		}
		var err error
		if out[member], err = newShape(c, url+fragment); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func newShape(c *jsonschema.Compiler, url string) (*shape, error) {
	s := &shape{}
	var err error
	if s.schema, err = c.Compile(url); err != nil {
		return nil, err
	}
	negation := map[string]any{"not": map[string]any{"$ref": url}}
	negationURL := "not-" + strings.ReplaceAll(url, "#", "") // the URL of a resource has no fragment
	if err = c.AddResource(negationURL, negation); err != nil {
		return nil, err
	}
	s.negation, err = c.Compile(negationURL)
	return s, err
}

// check validates value against a schema. It reports each violation, or one problem for a value above maxWeight. It
// returns false if there is a violation. prefix is the pointer of value in file. Messages repeat only names, never a
// value of the project.
func check(r *report, file, prefix string, s *shape, value any) bool {
	if weigh(value) > maxWeight {
		if s.matches(value) {
			return true
		}
		r.fail(file, prefix, "This has mistakes, and is too large for them to be told one by one. Divide it, or look for "+
			"them with another validator.")
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

// leaves returns the violations that caused e: the errors without causes. It omits the violations
// of alternatives that the author cannot have meant, and violations that only follow from others.
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
	// If a part of a schema fails, the library also refuses the properties that this part would have
	// allowed, as not evaluated. Such a violation adds nothing to the violation in the part itself.
	return slices.DeleteFunc(out, func(l *jsonschema.ValidationError) bool {
		return unevaluated(l) && failed[pointer(l.InstanceLocation[:len(l.InstanceLocation)-1]...)]
	})
}

// collect appends the errors without causes. For alternatives (oneOf,
// anyOf), it appends the errors of the alternative that the author meant.
func collect(out []*jsonschema.ValidationError, e *jsonschema.ValidationError) []*jsonschema.ValidationError {
	switch e.ErrorKind.(type) {
	case *kind.OneOf, *kind.AnyOf:
		return append(out, intendedViolations(e)...)
	case *kind.PropertyNames: // its causes do not have the place of the name
		return append(out, e)
	}
	if len(e.Causes) == 0 {
		return append(out, e)
	}
	for _, c := range e.Causes {
		out = collect(out, c)
	}
	return out
}

// unevaluated reports whether e is about a property or an item that no part of the schema allows.
func unevaluated(e *jsonschema.ValidationError) bool {
	_, ok := e.ErrorKind.(*kind.FalseSchema)
	return ok && len(e.InstanceLocation) > 0
}

// intendedViolations returns the violations of the alternative that the author probably meant. A value without
// $ref is not meant to be a reference. Of the other alternatives, the author meant the one whose violations are
// deepest in the value. If several are equally deep, intendedViolations returns one violation for all of them.
func intendedViolations(e *jsonschema.ValidationError) []*jsonschema.ValidationError {
	var best [][]*jsonschema.ValidationError
	deepest := -1
	for _, branch := range e.Causes {
		found := leaves(branch)
		depth := len(e.InstanceLocation)
		for _, l := range found {
			if required, ok := l.ErrorKind.(*kind.Required); ok && slices.Contains(required.Missing, "$ref") &&
				len(e.Causes) > 1 {
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

// merge combines alternatives into one violation if they differ only in the
// values of one property or in the missing property. Otherwise it returns nil.
func merge(branches [][]*jsonschema.ValidationError) []*jsonschema.ValidationError {
	var values kind.Enum
	var missing missingOneOf
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

// missingOneOf is the violation of a schema that requires at least one of several properties.
type missingOneOf struct{ names []string }

var _ jsonschema.ErrorKind = (*missingOneOf)(nil)

// KeywordPath implements jsonschema.ErrorKind.
func (*missingOneOf) KeywordPath() []string { return []string{"oneOf"} }

// LocalizedString implements jsonschema.ErrorKind. Its text is never shown: messages returns the text instead.
func (*missingOneOf) LocalizedString(*message.Printer) string { return "" }

// patternDescriptions describes what the patterns of the schemas match.
var patternDescriptions = map[string]string{
	`^3\.0\.\d(-.+)?$`:              "a version of OpenAPI 3.0, such as 3.0.3",
	`^3\.1\.\d+(-.+)?$`:             "a version of OpenAPI 3.1, such as 3.1.0",
	`^3\.2\.\d+(-.+)?$`:             "a version of OpenAPI 3.2, such as 3.2.0",
	`^[^#]*$`:                       "without a fragment",
	`^[^{}]+$`:                      "a name without braces",
	"^[a-zA-Z0-9!#$%&'*+.^_`|~-]+$": "a method, such as COPY",
	`^[0-9]{4}-[0-9]{2}-[0-9]{2}$`:  "a date such as 2026-01-31",
	`^[Bb][Ee][Aa][Rr][Ee][Rr]$`:    `the word "bearer"`,
	`^[a-zA-Z0-9._-]+$`:             "of letters, digits, dots, hyphens and underscores",
}

// messages returns the messages about a violation, which say what to do. The keys are
// the names of the properties that the messages are about, or "" for the value itself.
func messages(k jsonschema.ErrorKind) map[string]string {
	single := func(format string, args ...any) map[string]string {
		return map[string]string{"": fmt.Sprintf(format, args...)}
	}
	switch k := k.(type) {
	case *kind.Required:
		return single("Add %s: it is required here.", quoteList(k.Missing, " and "))
	case *missingOneOf:
		return single("Add %s: one of them is required here.", quoteList(k.names, " or "))
	case *kind.AdditionalProperties:
		out := map[string]string{}
		for _, name := range k.Properties {
			out[name] = unknownProperty
		}
		return out
	case *kind.FalseSchema:
		return single(unknownProperty)
	case *kind.Type:
		return single("This has to be %s, and is %s.", article(k.Want), article([]string{k.Got}))
	case *kind.Enum:
		return single("This has to be one of %s.", literals(k.Want))
	case *kind.Const:
		return single("This has to be %s.", literals([]any{k.Want}))
	case *kind.Pattern:
		return single("This has to be %s.", patternDescriptions[k.Want])
	case *kind.PropertyNames:
		return map[string]string{k.Property: "The name of this property has a form that is not allowed here. Rename it."}
	case *kind.MinLength:
		return single("This has to have at least %d characters.", k.Want)
	case *kind.MaxLength:
		return single("This has to have at most %d characters.", k.Want)
	case *kind.MinItems:
		return single("This has to have at least %d entries.", k.Want)
	case *kind.MaxItems:
		return single("This has to have at most %d entries.", k.Want)
	case *kind.MinProperties:
		return single("This has to have at least %d properties.", k.Want)
	case *kind.MaxProperties:
		return single("This has to have at most %d properties.", k.Want)
	case *kind.UniqueItems:
		return single("The entries %d and %d are equal. Remove one of them.", k.Duplicates[0], k.Duplicates[1])
	case *kind.Minimum:
		return single("This has to be %s or more.", k.Want.RatString())
	case *kind.Maximum:
		return single("This has to be %s or less.", k.Want.RatString())
	case *kind.ExclusiveMinimum:
		return single("This has to be more than %s.", k.Want.RatString())
	case *kind.ExclusiveMaximum:
		return single("This has to be less than %s.", k.Want.RatString())
	case *kind.OneOf, *kind.AnyOf:
		return single("This has none of the forms, or more than one, that are allowed here. Compare it with the OpenAPI " +
			"specification.")
	case *kind.Not:
		return single("These properties exclude each other. Remove one of them.")
	default:
		return single("This breaks the rule %q here.", strings.Join(k.KeywordPath(), "."))
	}
}

const unknownProperty = "There is no such property here. Correct its name or remove it."

func quoteList(names []string, last string) string {
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
