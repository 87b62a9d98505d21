package api

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/danielgtaylor/huma/v2"
)

const schemaPrefix = "#/components/schemas/"

// numberedNames returns a function that names types by numbers, in the order of its calls, so that no two types have
// the same name.
func numberedNames() func(reflect.Type, string) string {
	names := map[reflect.Type]string{}
	return func(t reflect.Type, _ string) string {
		for t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		if names[t] == "" {
			names[t] = strconv.Itoa(len(names))
		}
		return names[t]
	}
}

// schemaNames names the document's schemas. Names are public, because generated clients use them: a new type
// in one group must not change the name of a type in another group. Each name begins with the title of its
// group. The part of the type's name that repeats the title is left out: in the group Key buckets, the type bucket
// has the name KeyBucket, KeyBucketCreate has KeyBucketsCreate, and token has KeyBucketsToken. The types of this
// package belong to no group, except lists: the name of a list is the name of its entries' type, followed by List.
type schemaNames struct {
	// group is the title of the group whose operations are currently described.
	group string
}

// name returns the name of a type's schema. hint is the name to use for a type without a name.
func (n *schemaNames) name(t reflect.Type, hint string) string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	name := huma.DefaultSchemaNamer(t, hint)
	if t.PkgPath() == reflect.TypeFor[Problem]().PkgPath() {
		// huma writes List or CursorList before the name of the entries' type. Here, List follows that name.
		entry, ok := strings.CutPrefix(strings.TrimPrefix(name, "Cursor"), "List")
		if !ok || !strings.Contains(t.Name(), "[") {
			return name
		}
		name = entry + "List"
	}
	words := strings.FieldsFunc(n.group, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	for i, w := range words {
		words[i] = strings.ToUpper(w[:1]) + w[1:]
	}
	if len(words) == 0 {
		return name
	}
	group := strings.Join(words, "")
	for _, prefix := range []string{singular(group), singular(words[len(words)-1])} {
		rest, ok := strings.CutPrefix(name, prefix)
		switch {
		case ok && rest == "":
			return singular(group)
		case ok && unicode.IsUpper(rune(rest[0])):
			return group + rest
		}
	}
	return group + name
}

func singular(plural string) string {
	if stem, ok := strings.CutSuffix(plural, "ies"); ok {
		return stem + "y"
	}
	return strings.TrimSuffix(plural, "s")
}

// closeResponses sets additionalProperties of objects in responses to false, because their schemas list all
// fields. It removes additionalProperties from objects in requests, which do accept further fields, because
// generators treat an object with additionalProperties: true as a map. JSON Schema allows further fields by
// default. closeResponses returns an error for a schema that is used in requests and in responses.
func closeResponses(doc *huma.OpenAPI) error {
	schemas := doc.Components.Schemas.Map()
	var requests, outputs []*huma.Schema
	for _, op := range operations(doc) {
		if op.RequestBody != nil {
			requests = append(requests, contentSchemas(op.RequestBody.Content)...)
		}
		for _, r := range op.Responses {
			outputs = append(outputs, contentSchemas(r.Content)...)
		}
	}
	for _, r := range doc.Components.Responses {
		outputs = append(outputs, contentSchemas(r.Content)...)
	}
	requestSchemas, responseSchemas := reachable(schemas, requests), reachable(schemas, outputs)
	for _, name := range slices.Sorted(maps.Keys(responseSchemas)) {
		if requestSchemas[name] != nil {
			return fmt.Errorf("the schema %s is both sent and answered: declare a type for each", name)
		}
	}
	setAdditional(slices.AppendSeq(requests, maps.Values(requestSchemas)), nil)
	setAdditional(slices.AppendSeq(outputs, maps.Values(responseSchemas)), false)
	return nil
}

// checkPatternDescriptions returns an error for a pattern in parameters, bodies of requests or components if it has no
// description, or one with a colon: a 400 shows the description up to the first colon (redactMessage), because not all
// users can read regular expressions. Descriptions of patterns are an extension of huma, so checkPatternDescriptions
// removes them from the document.
func checkPatternDescriptions(doc *huma.OpenAPI) error {
	schemas := slices.Collect(maps.Values(doc.Components.Schemas.Map()))
	for _, op := range operations(doc) {
		for _, p := range op.Parameters {
			schemas = append(schemas, p.Schema)
		}
		if op.RequestBody != nil {
			schemas = append(schemas, contentSchemas(op.RequestBody.Content)...)
		}
	}
	var errs []error
	for _, s := range schemas {
		visitSchemas(s, func(s *huma.Schema) {
			if s.Pattern != "" && (s.PatternDescription == "" || strings.Contains(s.PatternDescription, ":")) {
				errs = append(errs,
					fmt.Errorf(`the pattern %s needs a patternDescription, without a colon, that goes on from "expected string to be"`,
						s.Pattern))
			}
			s.PatternDescription = ""
		})
	}
	return errors.Join(errs...)
}

// contentSchemas returns the schemas of the bodies in content.
func contentSchemas(content map[string]*huma.MediaType) (schemas []*huma.Schema) {
	for _, m := range content {
		schemas = append(schemas, m.Schema)
	}
	return schemas
}

// setAdditional replaces additionalProperties: true in the schemas and in the schemas inside them. It does not
// change an object without listed fields, which is a map with names that the caller chooses.
func setAdditional(schemas []*huma.Schema, additional any) {
	for _, s := range schemas {
		visitSchemas(s, func(s *huma.Schema) {
			if open, ok := s.AdditionalProperties.(bool); ok && open && len(s.Properties) > 0 {
				s.AdditionalProperties = additional
			}
		})
	}
}

// reachable returns the schemas to which the schemas in from refer, directly or indirectly, by their names.
func reachable(schemas map[string]*huma.Schema, from []*huma.Schema) map[string]*huma.Schema {
	found := map[string]*huma.Schema{}
	var follow func(*huma.Schema)
	follow = func(s *huma.Schema) {
		name, ok := strings.CutPrefix(s.Ref, schemaPrefix)
		if ok && found[name] == nil {
			found[name] = schemas[name]
			visitSchemas(schemas[name], follow)
		}
	}
	for _, s := range from {
		visitSchemas(s, follow)
	}
	return found
}

// visitSchemas calls visit with a schema and all schemas inside it. It does not follow references.
func visitSchemas(s *huma.Schema, visit func(*huma.Schema)) {
	if s == nil {
		return
	}
	visit(s)
	parts := slices.Concat(s.OneOf, s.AnyOf, s.AllOf, slices.Collect(maps.Values(s.Properties)),
		[]*huma.Schema{s.Items, s.Not})
	if values, ok := s.AdditionalProperties.(*huma.Schema); ok {
		parts = append(parts, values)
	}
	for _, s := range parts {
		visitSchemas(s, visit)
	}
}
