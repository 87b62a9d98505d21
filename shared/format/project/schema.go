package project

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gatewright/gatewright/shared/format/schema"
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
	// names are the names of all properties in the schema.
	names []string
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
		repairLink(tree)
		// Without a scheme, the name would refer to a file in the working folder, which can be deleted.
		url := "embedded:///" + name
		if err := c.AddResource(url, tree); err != nil {
			return nil, fmt.Errorf("load schema %s: %w", name, err)
		}
		if *dst, err = newShape(c, url); err != nil {
			return nil, fmt.Errorf("compile schema %s: %w", name, err)
		}
		(*dst).names = propertyNames(tree)
		if strings.HasPrefix(name, "openapi") {
			if (*dst).parts, err = newParts(c, url, name == "openapi-3.0.json"); err != nil {
				return nil, fmt.Errorf("compile schema %s: %w", name, err)
			}
			for _, part := range (*dst).parts {
				part.names = (*dst).names
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

// repairLink corrects a mistake in the schema of OpenAPI 3.1: it calls the server of a link "body".
func repairLink(schema any) {
	object, _ := schema.(map[string]any)
	definitions, _ := object["$defs"].(map[string]any)
	link, _ := definitions["link"].(map[string]any)
	properties, _ := link["properties"].(map[string]any)
	if server, isWrong := properties["body"]; isWrong {
		delete(properties, "body")
		properties["server"] = server
	}
}

// propertyNames returns the names of all properties in a schema, sorted and distinct.
func propertyNames(schema any) (names []string) {
	switch v := schema.(type) {
	case map[string]any:
		properties, _ := v["properties"].(map[string]any)
		names = slices.Collect(maps.Keys(properties))
		for _, child := range v {
			names = append(names, propertyNames(child)...)
		}
	case []any:
		for _, child := range v {
			names = append(names, propertyNames(child)...)
		}
	}
	return distinctNames(names, nil)
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
	for _, leaf := range schema.Leaves(e) {
		at := prefix + pointer(leaf.InstanceLocation...)
		switch k := leaf.ErrorKind.(type) {
		case *kind.AdditionalProperties:
			for _, name := range k.Properties {
				r.failUnknown(file, at+pointer(name), s)
			}
		case *kind.FalseSchema:
			r.failUnknown(file, at, s)
		case *kind.PropertyNames:
			r.fail(file, at+pointer(k.Property), "The name of this property has a form that is not allowed here. Rename it.")
		default:
			r.fail(file, at, "%s", violationText(k))
		}
	}
	return false
}

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

// violationText returns the text about a violation of a value, which says what to do.
func violationText(k jsonschema.ErrorKind) string {
	switch k := k.(type) {
	case *kind.Required:
		return fmt.Sprintf("Add %s: it is required here.", schema.QuoteList(k.Missing, " and "))
	case *schema.MissingOneOf:
		return fmt.Sprintf("Add %s: one of them is required here.", schema.QuoteList(k.Names, " or "))
	case *kind.Type:
		return fmt.Sprintf("This has to be %s, and is %s.", schema.Article(k.Want), schema.Article([]string{k.Got}))
	case *kind.Pattern:
		return fmt.Sprintf("This has to be %s.", patternDescriptions[k.Want])
	case *kind.UniqueItems:
		return fmt.Sprintf("The entries %d and %d are equal. Remove one of them.", k.Duplicates[0], k.Duplicates[1])
	case *kind.OneOf, *kind.AnyOf:
		return "This has none of the forms, or more than one, that are allowed here. Compare it with the OpenAPI " +
			"specification."
	case *kind.Not:
		return "These properties exclude each other. Remove one of them."
	default:
		return fmt.Sprintf("This has to %s.", schema.Requirement(k))
	}
}
