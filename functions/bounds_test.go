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
	"github.com/gatewright/gatewright/shared/api"
)

// schema is what is read of a JSON schema.
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
	// AdditionalProperties is a schema or a boolean, which says nothing of texts.
	AdditionalProperties mapValues
}

// mapValues are the schema of a map's values, empty where it has none.
type mapValues struct{ *schema }

// UnmarshalJSON implements json.Unmarshaler.
func (v *mapValues) UnmarshalJSON(raw []byte) error {
	if v.schema = nil; raw[0] != '{' {
		return nil
	}
	return json.Unmarshal(raw, &v.schema)
}

// described is what the OpenAPI document says of an operation's requests.
type described struct {
	OperationID string
	Parameters  []parameter
	RequestBody struct {
		Content map[string]struct{ Schema schema }
	}
}

// parameter is one of a request.
type parameter struct {
	Name, In string
	Schema   schema
}

// takes reports whether the parameter is of a query and may be called name: tag
// is also tag.plan.
func (p parameter) takes(name string) bool {
	before, _, _ := strings.Cut(name, ".")
	return p.In == "query" && p.Name == before
}

// requests reads the OpenAPI document: its operations by id, and its schemas.
func requests(t *testing.T) (operations map[string]described, schemas map[string]schema) {
	t.Helper()
	raw, err := api.Document(functions.Described(), api.Examples{})
	if err != nil {
		t.Fatal(err)
	}
	var document struct {
		Paths      map[string]map[string]described
		Components struct{ Schemas map[string]schema }
	}
	if err := json.Unmarshal(raw, &document); err != nil {
		t.Fatal(err)
	}
	operations = map[string]described{}
	for _, methods := range document.Paths {
		for _, o := range methods {
			operations[o.OperationID] = o
		}
	}
	return operations, document.Components.Schemas
}

// short is a pattern of one kind of character, so many times at most.
var short = regexp.MustCompile(`^\^(\[[^]]*\]|\\?.)\{\d+(,\d+)?\}\$$`)

// unbounded lists where a request may hold a text or a list of any length.
func unbounded(at string, s schema, schemas map[string]schema) (found []string) {
	s = s.of(schemas)
	is := func(kind string) bool { return strings.Contains(fmt.Sprint(s.Type), kind) }
	formats := []string{"date-time", "date", "time", "uuid", "ipv4", "ipv6"} // which are short by what they mean
	if is("string") && s.MaxLength == nil && s.Enum == nil && !slices.Contains(formats, s.Format) && !short.MatchString(s.Pattern) {
		found = append(found, at)
	}
	if is("array") {
		if s.MaxItems == nil {
			found = append(found, at+"[]")
		}
		if s.Items != nil {
			found = append(found, unbounded(at+"[]", *s.Items, schemas)...)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		found = append(found, unbounded(at+"."+name, s.Properties[name], schemas)...)
	}
	// A map's own texts are bounded by its service, as a whole.
	if each := s.AdditionalProperties.schema; each != nil && fmt.Sprint(each.Type) != "string" {
		found = append(found, unbounded(at+".*", *each, schemas)...)
	}
	for _, one := range slices.Concat(s.OneOf, s.AnyOf, s.AllOf) {
		found = append(found, unbounded(at, one, schemas)...)
	}
	return found
}

// TestEveryInputHasABound: no text that a request may hold is without one in
// its declaration, so that none reaches a service, let alone the table, that is
// longer than anything of its kind can be. Formats bound themselves; objects of
// the caller's own are bounded by their services, as a whole.
func TestEveryInputHasABound(t *testing.T) {
	operations, schemas := requests(t)
	each(t, inDocument, func(t *testing.T, d api.Declaration) {
		o, ok := operations[d.ID]
		if !ok {
			t.Fatal("the document does not have it")
		}
		var found []string
		for _, p := range o.Parameters {
			found = append(found, unbounded(p.In+"."+p.Name, p.Schema, schemas)...)
		}
		for _, c := range o.RequestBody.Content {
			found = append(found, unbounded("body", c.Schema, schemas)...)
		}
		if len(found) > 0 {
			t.Errorf("give these a maxLength, a pattern with a bound, an enum or a format: %v", found)
		}
	})
}

// TestObjectsOfTheCallersOwnAreBounded: a schema can't bound what has no schema,
// such as tags and metadata; a text in it of a tenth of the largest body is
// refused by the service.
func TestObjectsOfTheCallersOwnAreBounded(t *testing.T) {
	p := newPopulated(t)
	operations, schemas := requests(t)
	resolved := func(s schema) schema { return s.of(schemas) }
	large := strings.Repeat("a", api.MaxBodyBytes/10)
	each(t, func(d api.Declaration) bool { return d.TakesBody }, func(t *testing.T, d api.Declaration) {
		r := p.book.Request(d)
		for _, c := range operations[d.ID].RequestBody.Content {
			of := resolved(c.Schema)
			isList := of.Items != nil
			if isList {
				of = resolved(*of.Items)
			}
			for name, property := range of.Properties {
				property = resolved(property)
				if len(property.Properties) > 0 || property.Type != nil && !strings.Contains(fmt.Sprint(property.Type), "object") {
					continue
				}
				_, body := target(t, d, r, p.names)
				fields := map[string]any{}
				if !isList {
					fields, _ = decoded(t, body).(map[string]any)
				}
				fields[name] = map[string]any{"a": large}
				var whole any = fields
				if isList {
					whole = []any{fields}
				}
				raw, err := json.Marshal(whole)
				if err != nil {
					t.Fatal(err)
				}
				w := p.Copy(t)
				path, _ := target(t, d, r, p.names)
				if a := w.Call(p.key, d.Method, path, string(raw)); a.Status < http.StatusBadRequest || a.Status >= http.StatusInternalServerError {
					t.Errorf("%s with a text of %d bytes is answered %d", name, len(large), a.Status)
				}
			}
		}
	})
}

// TestLongInputIsNoFailureOfOurs: whatever is 2,100 characters long in a path or
// a query is refused or not found; the table takes keys of 2,048 bytes. So is what
// its declaration lets pass, 256 of the characters that take most room in a key.
func TestLongInputIsNoFailureOfOurs(t *testing.T) {
	p := newPopulated(t)
	operations, _ := requests(t)
	texts := []string{strings.Repeat("a", 2100)}
	for _, unit := range []string{"😀", "%", "/"} {
		texts = append(texts, strings.Repeat(unit, 256))
	}
	each(t, every, func(t *testing.T, d api.Declaration) {
		for _, parameter := range operations[d.ID].Parameters {
			for _, long := range texts {
				w, n, r := p.Copy(t), maps.Clone(p.names), p.book.Request(d)
				var headers []string
				switch parameter.In {
				case "header":
					headers = []string{parameter.Name, long}
				case "path":
					r.Names = maps.Clone(r.Names)
					delete(r.Names, parameter.Name)
					n[parameter.Name] = long
				case "query":
					name := parameter.Name
					if name == "tag" {
						name = "tag.plan"
					}
					r.Query = name + "=" + url.QueryEscape(long)
				default:
					t.Fatalf("%s is of a %s: have this test send it", parameter.Name, parameter.In)
				}
				path, body := target(t, d, r, n)
				a := w.Call(p.key, d.Method, path, body, headers...)
				// A filter of a possible length finds nothing.
				if a.Status != http.StatusBadRequest && a.Status != http.StatusNotFound && (parameter.In != "query" || a.Status != d.Status) {
					t.Errorf("a %s %s of %d bytes is answered %d %s", parameter.In, parameter.Name, len(long), a.Status, a.Body)
				}
			}
		}
	})
}

// TestLongHeadersAreNoFailureOfOurs: nothing that a header holds becomes a key, and
// what of it is recorded is cut. What an operation declares is bounded.
func TestLongHeadersAreNoFailureOfOurs(t *testing.T) {
	p := newPopulated(t)
	long := strings.Repeat("a", 2100)
	each(t, every, func(t *testing.T, d api.Declaration) {
		path, body := target(t, d, p.book.Request(d), p.names)
		for _, name := range []string{"User-Agent", "X-Request-Id", "Traceparent", "Tracestate", "Idempotency-Key", "If-Match", "If-None-Match", "X-Forwarded-For"} {
			want := d.Status
			if name == "Idempotency-Key" && d.Repeatable() || name == "If-Match" && d.Conditional() || name == "If-None-Match" && d.Single {
				want = http.StatusBadRequest
			}
			if a := p.Copy(t).Call(p.key, d.Method, path, body, name, long); a.Status != want {
				t.Errorf("a long %s is answered %d %s", name, a.Status, a.Body)
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
