package validationpeer_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

// descriptions are the files with the operations.
var descriptions = []string{"testdata/v30.oas.json", "testdata/v31.oas.json"}

// operation is an operation of a description.
type operation struct {
	id               string
	description      int
	template, method string
	parameters       []*parameter
	bodies           []mediaType
	bodyRequired     bool
	pool             *pool
}

// parameter is a parameter, and its valid values.
type parameter struct {
	In, Name, Style string
	Explode         *bool
	Required        bool
	Schema          any
	Content         map[string]mediaType
	Examples        map[string]struct{ Value any }
}

// mediaType is a media type of bodies, and its valid values.
type mediaType struct {
	name     string
	Schema   any
	Encoding map[string]struct {
		Style, ContentType string
		Explode            bool
	}
	Examples map[string]struct{ Value any }
}

// values returns the valid values in the order of their names.
func values(examples map[string]struct{ Value any }) []any {
	var out []any
	for _, name := range slices.Sorted(maps.Keys(examples)) {
		out = append(out, examples[name].Value)
	}
	return out
}

// explodes reports whether lists and objects are written as several parameters or pairs.
func (p *parameter) explodes() bool {
	if p.Explode != nil {
		return *p.Explode
	}
	return p.Style == "form"
}

// decode decodes JSON with its numbers as they are written.
func decode(t *testing.T, raw []byte, into any) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if err := d.Decode(into); err != nil {
		t.Fatal(err)
	}
}

// readOperations returns the operations of all descriptions.
func readOperations(t *testing.T) []*operation {
	t.Helper()
	var out []*operation
	for i, file := range descriptions {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var document struct {
			Paths      map[string]map[string]json.RawMessage
			Components struct{ RequestBodies map[string]json.RawMessage }
		}
		decode(t, raw, &document)
		var tree any
		decode(t, raw, &tree)
		shared := newPool(t, tree)
		for _, template := range slices.Sorted(maps.Keys(document.Paths)) {
			item := document.Paths[template]
			for _, method := range slices.Sorted(maps.Keys(item)) {
				if method == "parameters" {
					continue
				}
				op := &operation{description: i, template: template, method: strings.ToUpper(method), pool: shared}
				op.read(t, item["parameters"], item[method], document.Components.RequestBodies)
				out = append(out, op)
			}
		}
	}
	return out
}

// read reads an operation and the parameters of its path item.
func (op *operation) read(t *testing.T, inherited, raw json.RawMessage, bodies map[string]json.RawMessage) {
	t.Helper()
	var declared struct {
		OperationID string
		Parameters  []*parameter
		RequestBody json.RawMessage
	}
	decode(t, raw, &declared)
	op.id, op.parameters = declared.OperationID, declared.Parameters
	var others []*parameter
	if inherited != nil {
		decode(t, inherited, &others)
	}
	for _, p := range others {
		if !slices.ContainsFunc(op.parameters, func(own *parameter) bool { return own.In == p.In && own.Name == p.Name }) {
			op.parameters = append(op.parameters, p)
		}
	}
	for _, p := range op.parameters {
		if p.Style == "" {
			p.Style = map[string]string{"path": "simple", "header": "simple", "query": "form", "cookie": "form"}[p.In]
		}
		for _, m := range p.Content {
			p.Examples = m.Examples
		}
	}
	if declared.RequestBody == nil {
		return
	}
	var body struct {
		Ref      string `json:"$ref"`
		Required bool
		Content  map[string]mediaType
	}
	decode(t, declared.RequestBody, &body)
	if name, isRef := strings.CutPrefix(body.Ref, "#/components/requestBodies/"); isRef {
		decode(t, bodies[name], &body)
	}
	op.bodyRequired = body.Required
	for _, name := range slices.Sorted(maps.Keys(body.Content)) {
		m := body.Content[name]
		m.name = name
		op.bodies = append(op.bodies, m)
	}
}
