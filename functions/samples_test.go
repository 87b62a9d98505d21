package functions_test

import (
	"maps"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/events"
	"github.com/gatewright/gatewright/shared/management/api"
)

// resolve returns the schema to which s refers, or s itself.
func (s schema) resolve(schemas map[string]schema) schema {
	if name, ok := strings.CutPrefix(s.Ref, "#/components/schemas/"); ok {
		return schemas[name]
	}
	return s
}

// unknownFields returns the fields of a body that are not in its schema.
func unknownFields(location string, body any, s schema, schemas map[string]schema) (found []string) {
	s = s.resolve(schemas)
	switch body := body.(type) {
	case []any:
		for _, entry := range body {
			if s.Items != nil {
				found = append(found, unknownFields(location+"[]", entry, *s.Items, schemas)...)
			}
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(body)) {
			property, ok := s.Properties[name]
			switch {
			case ok:
				found = append(found, unknownFields(location+"."+name, body[name], property, schemas)...)
			case len(s.Properties) > 0:
				found = append(found, location+"."+name)
			}
		}
	}
	return found
}

// TestSamplesUseOnlyDeclaredNames checks that samples have no misspelled fields or parameters. The API would ignore
// them, so the intended field would not be tested, and the misspelled one would be in an example of the document. It
// also checks that a sample has each query parameter, except for those of pages.
func TestSamplesUseOnlyDeclaredNames(t *testing.T) {
	sampleSet := samples(t)
	operations, schemas := readOpenAPI(t)
	parameters := map[string]bool{}
	for _, g := range groups() {
		for _, d := range g.Declarations() {
			for _, name := range events.Parameters(d) {
				parameters[name] = true
			}
		}
	}
	sampledParameters := map[string]map[string]bool{} // the query parameters in samples, by operation
	check := func(t *testing.T, d api.Declaration, r events.Request) {
		t.Helper()
		for name := range r.Values {
			if !parameters[name] {
				t.Errorf("%s: a sample names %s, want a path parameter", d.ID, name)
			}
		}
		query, err := url.ParseQuery(r.Query)
		if err != nil {
			t.Fatal(err)
		}
		for name := range query {
			if !slices.ContainsFunc(operations[d.ID].Parameters, func(p parameter) bool { return p.matches(name) }) {
				t.Errorf("%s: a sample has the query parameter %s, want one of the operation", d.ID, name)
			}
			if sampledParameters[d.ID] == nil {
				sampledParameters[d.ID] = map[string]bool{}
			}
			sampledParameters[d.ID][name] = true
		}
		for _, c := range operations[d.ID].RequestBody.Content {
			if found := unknownFields("body", decodeJSON(t, string(r.Body)), c.Schema, schemas); len(found) > 0 {
				t.Errorf("%s: unknown fields of a sample = %v, want none", d.ID, found)
			}
		}
	}
	for _, g := range groups() {
		for _, d := range g.Declarations() {
			for _, r := range append(variants(sampleSet, d), sampleSet.CreationRequests(d)...) {
				check(t, d, r)
			}
			for _, p := range operations[d.ID].Parameters {
				if isPaging := slices.Contains([]string{"limit", "offset", "after"}, p.Name); p.In == "query" && !isPaging &&
					!slices.ContainsFunc(slices.Collect(maps.Keys(sampledParameters[d.ID])), p.matches) {
					t.Errorf("%s: no sample has the query parameter %s, want one: add a request to \"also\"", d.ID, p.Name)
				}
			}
		}
	}
}
