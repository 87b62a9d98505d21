package functions_test

import (
	"maps"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/events"
	"github.com/gatewright/gatewright/shared/api"
)

// of gives the schema that a schema refers to.
func (s schema) of(schemas map[string]schema) schema {
	if name, ok := strings.CutPrefix(s.Ref, "#/components/schemas/"); ok {
		return schemas[name]
	}
	return s
}

// unknown lists the fields of a body that its schema does not have.
func unknown(at string, body any, s schema, schemas map[string]schema) (found []string) {
	s = s.of(schemas)
	switch body := body.(type) {
	case []any:
		for _, entry := range body {
			if s.Items != nil {
				found = append(found, unknown(at+"[]", entry, *s.Items, schemas)...)
			}
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(body)) {
			property, ok := s.Properties[name]
			switch {
			case ok:
				found = append(found, unknown(at+"."+name, body[name], property, schemas)...)
			case len(s.Properties) > 0:
				found = append(found, at+"."+name)
			}
		}
	}
	return found
}

// TestSamplesAskForWhatThereIs: a field or a parameter that is misspelled in a
// sample is ignored, as those of a client are, and would leave what it means
// untested, and be an example in the document.
func TestSamplesAskForWhatThereIs(t *testing.T) {
	book := samples(t)
	operations, schemas := requests(t)
	parameters := map[string]bool{}
	for _, g := range groups() {
		for _, d := range g.Declarations() {
			for _, name := range events.Parameters(d) {
				parameters[name] = true
			}
		}
	}
	asked := map[string]map[string]bool{} // which query parameters of each operation
	check := func(t *testing.T, d api.Declaration, r events.Request) {
		t.Helper()
		for name := range r.Names {
			if !parameters[name] {
				t.Errorf("%s: nothing has the parameter %s of its names", d.ID, name)
			}
		}
		query, err := url.ParseQuery(r.Query)
		if err != nil {
			t.Fatal(err)
		}
		for name := range query {
			if !slices.ContainsFunc(operations[d.ID].Parameters, func(p parameter) bool { return p.takes(name) }) {
				t.Errorf("%s: it has no parameter %s", d.ID, name)
			}
			if asked[d.ID] == nil {
				asked[d.ID] = map[string]bool{}
			}
			asked[d.ID][name] = true
		}
		for _, c := range operations[d.ID].RequestBody.Content {
			if found := unknown("body", decoded(t, string(r.Body)), c.Schema, schemas); len(found) > 0 {
				t.Errorf("%s: its body has no %v", d.ID, found)
			}
		}
	}
	for _, g := range groups() {
		for _, d := range g.Declarations() {
			for _, r := range append(variants(book, d), book.Making(d)...) {
				check(t, d, r)
			}
			for _, p := range operations[d.ID].Parameters {
				if isPart := slices.Contains([]string{"limit", "offset", "after"}, p.Name); p.In == "query" && !isPart && !slices.ContainsFunc(slices.Collect(maps.Keys(asked[d.ID])), p.takes) {
					t.Errorf("%s: no good request has the query parameter %s, and so no test of all operations: add one to \"also\"", d.ID, p.Name)
				}
			}
		}
	}
}
