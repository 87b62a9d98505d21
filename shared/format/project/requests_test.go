package project_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/format/project"
)

// validated compiles a document whose only route, POST /a/{id}, validates its requests. members are further members of its
// operation, each with a comma behind it. It returns the route and the warnings.
func validated(t *testing.T, version, members string) (project.Route, []project.Problem) {
	t.Helper()
	a, result := compile(t, project.Files{
		"config/routes.oas.json": []byte(`{"openapi": "` + version + `", "info": {"title": "t", "version": "1"},
			"paths": {"/a/{id}": {"post": ` + strings.Replace(forwarded("save", members), `"handler"`,
			`"policies": {"inbound": ["v"]}, "handler"`, 1) + `}}}`),
		"config/policies.json": []byte(`{"policies": [{"name": "v", "policyType": "v-inbound", "handler": {
			"export": "V", "module": "$import(@gatewright/runtime)"}}]}`),
	}, project.Input{Catalog: validating{}})
	if len(result.Errors) > 0 || a == nil {
		t.Fatalf("Compile() errors = %+v, want none", result.Errors)
	}
	return a.Routes[0], result.Warnings
}

// TestDescribedParametersHaveDefaults checks the styles of parameters that the document does not declare, and what of a
// parameter becomes a part of the route's description.
func TestDescribedParametersHaveDefaults(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ parameter, want string }{
		{`"in": "path", "name": "id", "required": true`, `"in":"path","name":"id","required":true,"style":"simple"`},
		{`"in": "query", "name": "p"`, `"in":"query","name":"p","style":"form","explode":true`},
		{`"in": "query", "name": "p", "explode": false`, `"in":"query","name":"p","style":"form"`},
		{`"in": "query", "name": "p", "style": "pipeDelimited"`, `"in":"query","name":"p","style":"pipeDelimited"`},
		{`"in": "query", "name": "p", "style": "deepObject"`, `"in":"query","name":"p","style":"deepObject"`},
		{
			`"in": "query", "name": "p", "style": "deepObject", "explode": true`,
			`"in":"query","name":"p","style":"deepObject","explode":true`,
		},
		{
			`"in": "query", "name": "p", "allowEmptyValue": true`,
			`"in":"query","name":"p","style":"form","explode":true,"allowEmpty":true`,
		},
		{`"in": "header", "name": "X-A"`, `"in":"header","name":"X-A","style":"simple"`},
		{`"in": "header", "name": "X-A", "explode": true`, `"in":"header","name":"X-A","style":"simple","explode":true`},
		{`"in": "cookie", "name": "p"`, `"in":"cookie","name":"p","style":"form","explode":true`},
		{`"in": "cookie", "name": "p", "style": "cookie"`, `"in":"cookie","name":"p","style":"cookie","explode":true`},
	} {
		route, _ := validated(t, "3.2.0", `"parameters": [{`+tt.parameter+`, "schema": {"type": "array", "items": {}}}],`)
		if len(route.Request.Parameters) != 1 {
			t.Errorf("%s: parameters = %+v, want one", tt.parameter, route.Request.Parameters)
			continue
		}
		wantJSON(t, tt.parameter, route.Request.Parameters[0], `{`+tt.want+`,"schema":{"type":"array","items":{}}}`)
	}
	route, _ := validated(t, "3.1.0", `"parameters": [{"in": "path", "name": "id", "required": true, "schema": {}},
		{"in": "query", "name": "id", "schema": {}}, {"in": "query", "name": "id", "schema": {"type": "null"}}],`)
	wantJSON(t, "parameters of one name", route.Request.Parameters, `[
		{"in":"path","name":"id","required":true,"style":"simple"},
		{"in":"query","name":"id","style":"form","explode":true,"schema":{"type":"null"}}]`)
	const forms = "application/x-www-form-urlencoded"
	route, _ = validated(t, "3.2.0", `"parameters": [{"in": "querystring", "name": "q", "content": {"`+forms+`": {
		"schema": {"type": "object"}, "encoding": {"a": {"style": "deepObject", "explode": true}}}}}],`)
	wantJSON(t, "a whole query", route.Request.Parameters, `[{"in":"querystring","name":"q","contentType":"`+forms+
		`","schema":{"type":"object"},"encoding":{"a":{"style":"deepObject","explode":true}}}]`)
}

// TestDescribedEncodingsHaveDefaults checks the styles of the properties of a form: one of style, explode and allowReserved
// is enough for the style form.
func TestDescribedEncodingsHaveDefaults(t *testing.T) {
	t.Parallel()
	for encoding, want := range map[string]string{
		`{}`: `{}`, `{"contentType": "text/csv"}`: `{"contentType":"text/csv"}`,
		`{"style": "form"}`: `{"style":"form","explode":true}`, `{"explode": false}`: `{"style":"form"}`,
		`{"explode": true}`: `{"style":"form","explode":true}`, `{"allowReserved": true}`: `{"style":"form","explode":true}`,
		`{"style": "pipeDelimited"}`: `{"style":"pipeDelimited"}`, `{"style": "deepObject"}`: `{"style":"deepObject"}`,
	} {
		route, _ := validated(t, "3.1.0", `"requestBody": {"content": {"application/x-www-form-urlencoded": {
			"schema": {"type": "object", "properties": {"p": {}}}, "encoding": {"p": `+encoding+`}}}},`)
		wantJSON(t, "encoding "+encoding, route.Request.Body.Content[0].Encoding["p"], want)
	}
}

// TestDescribedMediaTypes checks the media types of a body: their letters, their parameters, and their order.
func TestDescribedMediaTypes(t *testing.T) {
	t.Parallel()
	route, warnings := validated(t, "3.1.0",
		`"requestBody": {"required": true, "content": {"*/*": {"schema": {"type": "null"}},
		"Application/JSON; v=1": {"schema": {"type": "object"}}, "application/json; v=2": {"schema": {"type": "array"}},
		"text/*": {}, "text/xml": {"schema": {"type": "object"}}, "application/a+json": {"schema": {"type": "object"}},
		"image/png": {"schema": {"type": "string"}}}},`)
	var got []string
	for _, m := range route.Request.Body.Content {
		got = append(got, m.Type+" "+string(m.Schema))
	}
	const want = `application/json {"anyOf":[{"type":"object"},{"type":"array"}]}; ` +
		`application/a+json {"type":"object"}; ` +
		`image/png ; text/xml ; text/* ; */* {"type":"null"}`
	var unchecked []string
	for _, w := range warnings {
		unchecked = append(unchecked, w.Path)
	}
	const at = "/paths/~1a~1{id}/post"
	if got, want := strings.Join(unchecked, "; "), at+"; "+at+"/requestBody/content/image~1png/schema; "+at+
		"/requestBody/content/text~1xml/schema"; got != want {
		t.Errorf("warnings at %s, want one for {id}, and one for each schema that is not checked: %s", got, want)
	}
	if text := strings.Join(got, "; "); text != want {
		t.Errorf("media types = %s, want %s", text, want)
	}
	if encoded, _ := json.Marshal(route.Request.Body); !strings.Contains(string(encoded), `"required":true`) {
		t.Errorf("body = %s, want it to be required", encoded)
	}
}
