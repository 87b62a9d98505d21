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

// numbered names types in the order in which they come, so that no two of them
// ever have the same name.
func numbered() func(reflect.Type, string) string {
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

// schemaNames names the document's schemas. Names are public: generated clients
// are written in them, so that a type of one group must never rename that of
// another. They begin with their group's title, and what the type says again of
// it is left out: in Key buckets, bucket is KeyBucket, KeyBucketCreate is
// KeyBucketsCreate, token is KeyBucketsToken. Those of this package are of no group.
type schemaNames struct {
	// group is the title of the group whose operations are being described.
	group string
}

// of names a type, or what hint calls it if it has no name.
func (n *schemaNames) of(t reflect.Type, hint string) string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	name := huma.DefaultSchemaNamer(t, hint)
	if t.PkgPath() == reflect.TypeFor[Problem]().PkgPath() {
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
	for _, said := range []string{singular(group), singular(words[len(words)-1])} {
		rest, ok := strings.CutPrefix(name, said)
		switch {
		case ok && rest == "":
			return singular(group)
		case ok && unicode.IsUpper(rune(rest[0])):
			return group + rest
		}
	}
	return group + name
}

func singular(noun string) string {
	if stem, ok := strings.CutSuffix(noun, "ies"); ok {
		return stem + "y"
	}
	return strings.TrimSuffix(noun, "s")
}

// closeAnswers has every object of an answer list all of its fields, and no
// object of a request say that it takes more, though it does: generators take
// an object that says so for a map. What is absent is allowed all the same. A
// schema can't be both, so that one on both sides is an error.
func closeAnswers(doc *huma.OpenAPI) error {
	schemas := doc.Components.Schemas.Map()
	var requests, answers []*huma.Schema
	for _, op := range operations(doc) {
		if op.RequestBody != nil {
			requests = append(requests, within(op.RequestBody.Content)...)
		}
		for _, r := range op.Responses {
			answers = append(answers, within(r.Content)...)
		}
	}
	for _, r := range doc.Components.Responses {
		answers = append(answers, within(r.Content)...)
	}
	sent, answered := reach(schemas, requests), reach(schemas, answers)
	for _, name := range slices.Sorted(maps.Keys(answered)) {
		if sent[name] != nil {
			return fmt.Errorf("the schema %s is both sent and answered: declare a type for each", name)
		}
	}
	further(slices.AppendSeq(requests, maps.Values(sent)), nil)
	further(slices.AppendSeq(answers, maps.Values(answered)), false)
	return nil
}

// wordPatterns asks of every pattern that a request has to match for words: a 400
// tells those, since not everybody reads regular expressions. They are huma's own
// and so left out of the document.
func wordPatterns(doc *huma.OpenAPI) error {
	schemas := slices.Collect(maps.Values(doc.Components.Schemas.Map()))
	for _, op := range operations(doc) {
		for _, p := range op.Parameters {
			schemas = append(schemas, p.Schema)
		}
		if op.RequestBody != nil {
			schemas = append(schemas, within(op.RequestBody.Content)...)
		}
	}
	var wrong []error
	for _, s := range schemas {
		inside(s, func(s *huma.Schema) {
			if s.Pattern != "" && (s.PatternDescription == "" || strings.Contains(s.PatternDescription, ":")) {
				wrong = append(wrong, fmt.Errorf(`the pattern %s needs a patternDescription, without a colon, that goes on from "expected string to be"`, s.Pattern))
			}
			s.PatternDescription = ""
		})
	}
	return errors.Join(wrong...)
}

func within(content map[string]*huma.MediaType) (schemas []*huma.Schema) {
	for _, m := range content {
		schemas = append(schemas, m.Schema)
	}
	return schemas
}

// further says of all objects whether they have further fields. An object that
// lists none is a map of the caller's own, and stays one.
func further(schemas []*huma.Schema, may any) {
	for _, s := range schemas {
		inside(s, func(s *huma.Schema) {
			if open, ok := s.AdditionalProperties.(bool); ok && open && len(s.Properties) > 0 {
				s.AdditionalProperties = may
			}
		})
	}
}

// reach returns the schemas by name that others refer to, however far.
func reach(schemas map[string]*huma.Schema, from []*huma.Schema) map[string]*huma.Schema {
	found := map[string]*huma.Schema{}
	var follow func(*huma.Schema)
	follow = func(s *huma.Schema) {
		name, ok := strings.CutPrefix(s.Ref, schemaPrefix)
		if ok && found[name] == nil {
			found[name] = schemas[name]
			inside(schemas[name], follow)
		}
	}
	for _, s := range from {
		inside(s, follow)
	}
	return found
}

// inside visits a schema and those written within it.
func inside(s *huma.Schema, visit func(*huma.Schema)) {
	if s == nil {
		return
	}
	visit(s)
	parts := slices.Concat(s.OneOf, s.AnyOf, s.AllOf, slices.Collect(maps.Values(s.Properties)), []*huma.Schema{s.Items, s.Not})
	if more, ok := s.AdditionalProperties.(*huma.Schema); ok {
		parts = append(parts, more)
	}
	for _, s := range parts {
		inside(s, visit)
	}
}
