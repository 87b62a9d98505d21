package functions_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/functions"
	"github.com/gatewright/gatewright/shared/management/api"
)

// schema contains the parts of a JSON schema that the tests read.
type schema struct {
	Ref        string `json:"$ref"`
	Type       any
	Format     string
	Pattern    string
	Enum       []any
	MaxLength  *int
	MaxItems   *int
	Properties map[string]schema
	Items      *schema
	OneOf      []schema
	AnyOf      []schema
	AllOf      []schema
	// AdditionalProperties is a schema or a boolean in JSON. A boolean has no limits.
	AdditionalProperties mapValues
}

// mapValues is the schema of a map's values, or empty if there is none.
type mapValues struct{ *schema }

// UnmarshalJSON implements json.Unmarshaler.
func (v *mapValues) UnmarshalJSON(raw []byte) error {
	if v.schema = nil; raw[0] != '{' {
		return nil
	}
	return json.Unmarshal(raw, &v.schema)
}

// operationSpec has the description of an operation's requests in the OpenAPI document.
type operationSpec struct {
	OperationID string
	Parameters  []parameter
	RequestBody struct {
		Content map[string]struct{ Schema schema }
	}
}

// parameter is a parameter of a request.
type parameter struct {
	Name, In string
	Schema   schema
}

// matches reports whether a query parameter with this name belongs to the declared parameter: tag.plan belongs to tag.
func (p parameter) matches(name string) bool {
	prefix, _, _ := strings.Cut(name, ".")
	return p.In == "query" && p.Name == prefix
}

// readOpenAPI returns the operations of the OpenAPI document by id, and its schemas by name.
func readOpenAPI(t *testing.T) (operations map[string]operationSpec, schemas map[string]schema) {
	t.Helper()
	raw, err := api.Document(functions.APIGroups(), api.Examples{})
	if err != nil {
		t.Fatal(err)
	}
	var document struct {
		Paths      map[string]map[string]operationSpec
		Components struct{ Schemas map[string]schema }
	}
	if err := json.Unmarshal(raw, &document); err != nil {
		t.Fatal(err)
	}
	operations = map[string]operationSpec{}
	for _, methods := range document.Paths {
		for _, o := range methods {
			operations[o.OperationID] = o
		}
	}
	return operations, document.Components.Schemas
}

// boundedPattern matches a pattern that limits the number of characters of one kind.
var boundedPattern = regexp.MustCompile(`^\^(\[[^]]*\]|\\?.)\{\d+(,\d+)?\}\$$`)

// unbounded returns the places at which the schema allows a text or a list of any length.
func unbounded(location string, s schema, schemas map[string]schema) (found []string) {
	s = s.resolve(schemas)
	isType := func(typ string) bool { return strings.Contains(fmt.Sprint(s.Type), typ) }
	formats := []string{"date-time", "date", "time", "uuid", "ipv4", "ipv6"} // these formats limit the length
	if isType("string") && s.MaxLength == nil && s.Enum == nil && !slices.Contains(formats, s.Format) &&
		!boundedPattern.MatchString(s.Pattern) {
		found = append(found, location)
	}
	if isType("array") {
		if s.MaxItems == nil {
			found = append(found, location+"[]")
		}
		if s.Items != nil {
			found = append(found, unbounded(location+"[]", *s.Items, schemas)...)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		found = append(found, unbounded(location+"."+name, s.Properties[name], schemas)...)
	}
	// For maps of strings, the service limits the whole map.
	if values := s.AdditionalProperties.schema; values != nil && fmt.Sprint(values.Type) != "string" {
		found = append(found, unbounded(location+".*", *values, schemas)...)
	}
	for _, alternative := range slices.Concat(s.OneOf, s.AnyOf, s.AllOf) {
		found = append(found, unbounded(location, alternative, schemas)...)
	}
	return found
}

// TestEveryInputIsBounded checks that declarations limit the length of every text and list in a request. Exceptions are
// texts with a format that limits the length, and objects without a schema, which services limit as a whole.
func TestEveryInputIsBounded(t *testing.T) {
	operations, schemas := readOpenAPI(t)
	forEachOperation(t, inDocument, func(t *testing.T, d api.Declaration) {
		o, ok := operations[d.ID]
		if !ok {
			t.Fatalf("the OpenAPI document has no operation %s, want one", d.ID)
		}
		var found []string
		for _, p := range o.Parameters {
			found = append(found, unbounded(p.In+"."+p.Name, p.Schema, schemas)...)
		}
		for _, c := range o.RequestBody.Content {
			found = append(found, unbounded("body", c.Schema, schemas)...)
		}
		if len(found) > 0 {
			t.Errorf("unbounded inputs of %s = %v, want a maxLength, a pattern with a bound, an enum or a format for each",
				d.ID, found)
		}
	})
}

// TestFreeFormObjectsAreBounded checks that services limit objects without a schema, such as tags and metadata. It
// sends texts with a tenth of the maximum size of a body, which must be refused.
func TestFreeFormObjectsAreBounded(t *testing.T) {
	p := newPopulatedFixture(t)
	operations, schemas := readOpenAPI(t)
	resolve := func(s schema) schema { return s.resolve(schemas) }
	large := strings.Repeat("a", api.MaxBodyBytes/10)
	forEachOperation(t, func(d api.Declaration) bool { return d.TakesBody }, func(t *testing.T, d api.Declaration) {
		r := p.sampleSet.Request(d)
		for _, c := range operations[d.ID].RequestBody.Content {
			bodySchema := resolve(c.Schema)
			isList := bodySchema.Items != nil
			if isList {
				bodySchema = resolve(*bodySchema.Items)
			}
			for name, property := range bodySchema.Properties {
				property = resolve(property)
				if len(property.Properties) > 0 || property.Type != nil && !strings.Contains(fmt.Sprint(property.Type), "object") {
					continue
				}
				_, body := requestTarget(t, d, r, p.values)
				fields := map[string]any{}
				if !isList {
					fields, _ = decodeJSON(t, body).(map[string]any)
				}
				fields[name] = map[string]any{"a": large}
				var document any = fields
				if isList {
					document = []any{fields}
				}
				raw, err := json.Marshal(document)
				if err != nil {
					t.Fatal(err)
				}
				fx := p.Copy(t)
				path, _ := requestTarget(t, d, r, p.values)
				if resp := fx.Call(p.key, d.Method, path, string(raw)); resp.Status < http.StatusBadRequest ||
					resp.Status >= http.StatusInternalServerError {
					t.Errorf("%s with a text of %d bytes: status = %d, want 400 to 499", name, len(large), resp.Status)
				}
			}
		}
	})
}

// TestLongParametersCauseNoInternalError sends long path, query and header parameters. They must be refused or not
// found, but a query parameter can also be a filter that matches nothing. Some have 2,100 characters, more than the
// 2,048 bytes of a table key. Others have 256 characters, which declarations allow, of the kind that needs the most
// bytes in a table key.
func TestLongParametersCauseNoInternalError(t *testing.T) {
	p := newPopulatedFixture(t)
	operations, _ := readOpenAPI(t)
	texts := []string{strings.Repeat("a", 2100)}
	for _, unit := range []string{"😀", "%", "/"} {
		texts = append(texts, strings.Repeat(unit, 256))
	}
	forEachOperation(t, anyOperation, func(t *testing.T, d api.Declaration) {
		for _, parameter := range operations[d.ID].Parameters {
			for _, long := range texts {
				fx, n, r := p.Copy(t), maps.Clone(p.values), p.sampleSet.Request(d)
				var headers []string
				switch parameter.In {
				case "header":
					headers = []string{parameter.Name, long}
				case "path":
					r.Values = maps.Clone(r.Values)
					delete(r.Values, parameter.Name)
					n[parameter.Name] = long
				case "query":
					name := parameter.Name
					if name == "tag" {
						name = "tag.plan"
					}
					r.Query = name + "=" + url.QueryEscape(long)
				default:
					t.Fatalf("%s: location = %q, want one that this test can send: extend the test", parameter.Name, parameter.In)
				}
				path, body := requestTarget(t, d, r, n)
				resp := fx.Call(p.key, d.Method, path, body, headers...)
				// A valid filter that matches nothing gets 200.
				if resp.Status != http.StatusBadRequest && resp.Status != http.StatusNotFound &&
					(parameter.In != "query" || resp.Status != d.Status) {
					t.Errorf("%s %s of %d bytes = %d %s, want 400 or 404, or %d for a filter",
						parameter.In, parameter.Name, len(long), resp.Status, resp.Body, d.Status)
				}
			}
		}
	})
}

// TestLongHeadersCauseNoInternalError sends long headers. A declared header must be refused with 400, any other header
// must not change the status, and a long key must be refused with 401.
func TestLongHeadersCauseNoInternalError(t *testing.T) {
	p := newPopulatedFixture(t)
	long := strings.Repeat("a", 2100)
	forEachOperation(t, anyOperation, func(t *testing.T, d api.Declaration) {
		path, body := requestTarget(t, d, p.sampleSet.Request(d), p.values)
		for _, name := range []string{
			"User-Agent", "X-Request-Id", "Traceparent", "Tracestate", "Idempotency-Key",
			"If-Match", "If-None-Match", "X-Forwarded-For",
		} {
			want := d.Status
			if name == "Idempotency-Key" && d.TakesIdempotencyKey() || name == "If-Match" && d.AcceptsIfMatch() ||
				name == "If-None-Match" && d.Single {
				want = http.StatusBadRequest
			}
			if resp := p.Copy(t).Call(p.key, d.Method, path, body, name, long); resp.Status != want {
				t.Errorf("header %s of %d bytes = %d %s, want %d", name, len(long), resp.Status, resp.Body, want)
			}
		}
		if d.Public {
			return
		}
		for _, key := range []string{long, p.key + long, "gwa_" + long} {
			p.Copy(t).Call(key, d.Method, path, body).Want(http.StatusUnauthorized)
		}
	})
}
