package functions_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/gatewright/gatewright/events"
	"github.com/gatewright/gatewright/functions"
	"github.com/gatewright/gatewright/internal/golden"
	"github.com/gatewright/gatewright/shared/api"
	"github.com/gatewright/gatewright/shared/auth"
	"github.com/gatewright/gatewright/shared/credential"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/storetest"
	"github.com/gatewright/gatewright/thirdparty/jsonschema"
)

// The OpenAPI document shows real exchanges: every operation is sent its good
// request of package events in an installation that has one of everything, and
// what comes back is its example. Only what differs from run to run, and what
// might be taken for somebody's key, is written anew.

func TestOpenAPIDocumentIsUpToDate(t *testing.T) {
	p := newPopulated(t)
	out, err := api.Document(functions.Described(), api.Examples{Operations: exchanges(t, p), Problems: problems(t, p)})
	if err != nil {
		t.Fatal(err)
	}
	golden.Equal(t, servedFile, out)
	toolsAreUpToDate(t, out)
}

// exchanges asks every operation, each in a copy of the world.
func exchanges(t *testing.T, p populated) map[string]api.Example {
	t.Helper()
	all := map[string]api.Example{}
	for _, g := range groups() {
		for _, d := range g.Declarations() {
			if !d.SessionAlone {
				synctest.Test(t, func(t *testing.T) { all[d.ID] = exchange(t, p, d) })
			}
		}
	}
	return all
}

// exchange sends an operation its good request.
func exchange(t *testing.T, p populated, d api.Declaration) api.Example {
	t.Helper()
	r := p.book.Request(d)
	_, a, n := p.good(t, d, r)
	n, err := n.With(r.Names)
	if err != nil {
		t.Fatal(err)
	}
	answer := a.Body
	if d.ID == "openApi" {
		answer = outline(t, answer)
	}
	var public placeholders
	example := api.Example{Path: map[string]string{}}
	for _, name := range events.Parameters(d) {
		example.Path[name] = public.text(n[name])
	}
	if _, body := target(t, d, r, n); body != "" {
		example.Request = json.RawMessage(public.text(body))
	}
	if answer != "" {
		example.Answer = json.RawMessage(public.text(answer))
	}
	return example
}

// outline is the beginning of the document, which can't hold itself.
func outline(t *testing.T, document string) string {
	t.Helper()
	var begins struct {
		OpenAPI string `json:"openapi"`
		Info    struct {
			Title   string `json:"title"`
			Version string `json:"version"`
		} `json:"info"`
	}
	if err := json.Unmarshal([]byte(document), &begins); err != nil {
		t.Fatal(err)
	}
	begins.Info.Version = api.Version // what is served is the golden as it was when this was compiled
	out, err := json.Marshal(begins)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// broken is a backend whose queries fail.
type broken struct {
	store.Backend
	err error
}

// Query implements store.Backend.
func (b broken) Query(context.Context, store.Query) ([]store.Item, string, error) {
	return nil, "", b.err
}

// problems provokes one problem of each status.
func problems(t *testing.T, p populated) map[int]json.RawMessage {
	t.Helper()
	all := map[int]json.RawMessage{}
	synctest.Test(t, func(t *testing.T) {
		w := p.Copy(t)
		reader := w.Key("acme", func(p *auth.Permissions) { p.Scopes = []auth.Scope{auth.KeyBuckets.Read()} })
		const buckets = "/v1/accounts/acme/key-buckets"
		taken := fmt.Sprintf(`{"name":%q}`, p.names["bucketName"])
		for _, c := range []struct {
			status                  int
			key, method, path, body string
			broken                  error
		}{
			{http.StatusBadRequest, p.key, http.MethodPost, buckets, `{"name":"Shop"}`, nil},
			{http.StatusUnauthorized, "", http.MethodGet, buckets, "", nil},
			{http.StatusForbidden, reader, http.MethodPost, buckets, taken, nil},
			{http.StatusNotFound, p.key, http.MethodGet, buckets + "/no-such-bucket", "", nil},
			{http.StatusConflict, p.key, http.MethodPost, buckets, taken, nil},
			{http.StatusPreconditionFailed, p.key, http.MethodPatch, buckets + "/" + p.names["bucketName"], `{}`, nil},
			{http.StatusRequestEntityTooLarge, p.key, http.MethodPost, buckets, strings.Repeat(" ", api.MaxBodyBytes+1), nil},
			{http.StatusUnprocessableEntity, p.key, http.MethodPost, "/v1/projects", `{"name":"-"}`, nil},
			{http.StatusTooManyRequests, p.key, http.MethodGet, buckets, "", store.ErrRepeat},
			{http.StatusInternalServerError, p.key, http.MethodGet, buckets, "", errors.New("the table is gone")},
		} {
			if c.broken != nil {
				w.Parts.Table = storetest.Over(t, broken{w.Items, c.broken}, storetest.Clock(w.Parts.Now))
				w.Restart()
			}
			var public placeholders
			all[c.status] = json.RawMessage(public.text(w.Call(c.key, c.method, c.path, c.body, "If-Match", `"another"`).Want(c.status).Body))
		}
	})
	return all
}

// placeholders writes anew what a text has from chance. The same goes for the
// same within one example, so that it still agrees with itself.
type placeholders struct{ ids, uuids []string }

var (
	credentials = regexp.MustCompile(`\b(gw[a-z])_[0-9A-Za-z]{32}_[0-9a-f]{8}\b`)
	masked      = regexp.MustCompile(`\*{4}[0-9a-f]{8}\b`)
	prefixedID  = regexp.MustCompile(`\b([a-z]{3,5})_([0-9A-Za-z]{24,32})\b`)
	uuid        = regexp.MustCompile(`\b[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}\b`)
	buildDigits = regexp.MustCompile(`(\bshop-main-|::)[0-9a-f]{7}\b`)
	gatewayHost = regexp.MustCompile(`\bhttp://([a-z0-9-]+)\.gateway\.test\b`)
)

const base62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

func (p *placeholders) text(s string) string {
	// A checksum of zeros is wrong, so that no scanner takes these for keys.
	s = credentials.ReplaceAllString(s, "${1}_0123456789ABCDEFGHIJKLMNOPQRSTUV_00000000")
	s = masked.ReplaceAllString(s, "****00000000")
	s = prefixedID.ReplaceAllStringFunc(s, func(id string) string {
		i := place(&p.ids, id)
		prefix, random, _ := strings.Cut(id, "_")
		return prefix + "_" + (base62 + base62)[i:i+len(random)]
	})
	s = uuid.ReplaceAllStringFunc(s, func(id string) string {
		return fmt.Sprintf("%02x1e8f1e-7c1d-4a55-9d0c-3f0f4c6f2a11", 11+place(&p.uuids, id))
	})
	s = buildDigits.ReplaceAllString(s, "${1}0123abc")
	return gatewayHost.ReplaceAllString(s, "https://$1.apis.example.com")
}

// place is where an id stands among those seen, at their end if it is new.
func place(seen *[]string, id string) int {
	i := slices.Index(*seen, id)
	if i < 0 {
		i = len(*seen)
		*seen = append(*seen, id)
	}
	return i
}

// served is the document that is served, for validating by its own schemas.
type served struct {
	t        *testing.T
	document any
	schemas  *jsonschema.Compiler
}

const servedFile = "platform/openapi.json"

func readServed(t *testing.T) *served {
	t.Helper()
	raw, err := os.ReadFile(servedFile)
	if err != nil {
		t.Fatal(err)
	}
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.AssertFormat()
	if err := c.AddResource(servedFile, document); err != nil {
		t.Fatal(err)
	}
	return &served{t, document, c}
}

// at follows names into the document, nil where they lead nowhere.
func (s *served) at(names ...string) any {
	v := s.document
	for _, name := range names {
		object, _ := v.(map[string]any)
		v = object[name]
	}
	return v
}

// schema compiles the schema that stands at names.
func (s *served) schema(names ...string) *jsonschema.Schema {
	s.t.Helper()
	var pointer strings.Builder
	for _, name := range names {
		pointer.WriteString("/" + url.PathEscape(strings.NewReplacer("~", "~0", "/", "~1").Replace(name)))
	}
	out, err := s.schemas.Compile(servedFile + "#" + pointer.String())
	if err != nil {
		s.t.Fatal(err)
	}
	return out
}

// valid checks the example of what has a schema and an example.
func (s *served) valid(names ...string) {
	s.t.Helper()
	example := s.at(append(slices.Clone(names), "example")...)
	if example == nil {
		s.t.Errorf("%s has no example", strings.Join(names, " "))
		return
	}
	if err := s.schema(append(slices.Clone(names), "schema")...).Validate(example); err != nil {
		s.t.Errorf("%s: %v", strings.Join(names, " "), err)
	}
}

// answer leads to what the document says of an operation's answer, in JSON: cards have a media
// type of their own. It is nil for an operation without a body, or without a place there.
func (s *served) answer(d api.Declaration) []string {
	at := []string{"paths", d.Path, strings.ToLower(d.Method), "responses", strconv.Itoa(d.Status), "content"}
	content, _ := s.at(at...).(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(content)) {
		if name == "application/json" || strings.HasSuffix(name, "+json") {
			return append(at, name)
		}
	}
	if content != nil {
		s.t.Errorf("%s answers no JSON", d.ID)
	}
	return nil
}

// TestEveryOperationHasExamples that are valid by the schemas beside them.
func TestEveryOperationHasExamples(t *testing.T) {
	s := readServed(t)
	for _, g := range groups() {
		for _, d := range g.Declarations() {
			at := func(names ...string) []string {
				return append([]string{"paths", d.Path, strings.ToLower(d.Method)}, names...)
			}
			parameters, _ := s.at(at("parameters")...).([]any)
			for _, p := range parameters {
				p, _ := p.(map[string]any)
				if p["in"] == "path" && p["example"] == nil {
					t.Errorf("%s has no example of %v", d.ID, p["name"])
				}
			}
			if d.TakesBody {
				s.valid(at("requestBody", "content", "application/json")...)
			}
			if answer := s.answer(d); answer != nil {
				s.valid(answer...)
			}
		}
	}
	responses, _ := s.at("components", "responses").(map[string]any)
	for name := range responses {
		s.valid("components", "responses", name, "content", "application/problem+json")
	}
	if len(responses) < 9 {
		t.Errorf("it has %d responses", len(responses))
	}
}

// TestDocumentSaysWhatKeyAnOperationNeeds: none, any, or one with a scope.
func TestDocumentSaysWhatKeyAnOperationNeeds(t *testing.T) {
	s := readServed(t)
	if all, want := s.at("security"), []any{map[string]any{"accountKey": []any{}}, map[string]any{"session": []any{}}}; !reflect.DeepEqual(all, want) {
		t.Errorf("of all it says %v, want %v", all, want)
	}
	if name := s.at("components", "securitySchemes", "session", "name"); name != credential.SessionCookie {
		t.Errorf("a session is in the cookie %v, want %s", name, credential.SessionCookie)
	}
	each(t, inDocument, func(t *testing.T, d api.Declaration) {
		at := func(name string) any { return s.at("paths", d.Path, strings.ToLower(d.Method), name) }
		var security, scope any // nil, where it is as the document says for all
		only := func(scheme string) any { return []any{map[string]any{scheme: []any{}}} }
		switch {
		case d.Public:
			security = []any{}
		case d.SessionAlone:
			security = only("session")
		case !d.TakesSession():
			security = only("accountKey")
		}
		if d.Scope != "" && !d.Public {
			scope = string(d.Scope)
		}
		if !reflect.DeepEqual(at("security"), security) || at("x-required-scope") != scope {
			t.Errorf("it says %v and %v, want %v and %v", at("security"), at("x-required-scope"), security, scope)
		}
	})
}

// TestDocumentSaysWhatAnOperationDoes: who asks before a call goes by it.
func TestDocumentSaysWhatAnOperationDoes(t *testing.T) {
	s := readServed(t)
	each(t, inDocument, func(t *testing.T, d api.Declaration) {
		effect := s.at("paths", d.Path, strings.ToLower(d.Method), "x-effect")
		if reads := effect == "reads"; effect != string(d.Effect()) || reads == d.Mutates() {
			t.Errorf("it says %v, and the operation %s", effect, d.Effect())
		}
	})
}

// TestAnswersFitTheirSchemas takes every good request there is: what the
// document says of an answer holds, and an answer has no field beside it.
func TestAnswersFitTheirSchemas(t *testing.T) {
	s, p := readServed(t), newPopulated(t)
	each(t, every, func(t *testing.T, d api.Declaration) {
		at := s.answer(d)
		if at == nil {
			t.Skip("it answers no body")
		}
		schema := s.schema(append(at, "schema")...)
		for _, r := range variants(p.book, d) {
			_, a, _ := p.good(t, d, r)
			answer, err := jsonschema.UnmarshalJSON(strings.NewReader(a.Body))
			if err != nil {
				t.Fatal(err)
			}
			if err := schema.Validate(answer); err != nil {
				t.Error(err)
			}
		}
	})
}

// TestEveryListHasItsEnvelope: a list can grow, and one that is answered as it
// is can never be paged without breaking its clients (contract 1.3).
func TestEveryListHasItsEnvelope(t *testing.T) {
	s := readServed(t)
	operations, schemas := requests(t)
	for _, g := range groups() {
		for _, d := range g.Declarations() {
			raw, err := json.Marshal(s.at("paths", d.Path, strings.ToLower(d.Method), "responses", strconv.Itoa(d.Status), "content", "application/json", "schema"))
			if err != nil {
				t.Fatal(err)
			}
			var answer schema
			if err := json.Unmarshal(raw, &answer); err != nil {
				t.Fatal(err)
			}
			answer = answer.of(schemas)
			if strings.Contains(fmt.Sprint(answer.Type), "array") && d.Method == http.MethodGet {
				t.Errorf("%s answers a list without its envelope: answer api.List", d.ID)
			}
			if data := answer.Properties["data"]; !strings.Contains(fmt.Sprint(data.of(schemas).Type), "array") || newestOnly[d.ID] != "" {
				continue
			}
			for _, part := range []string{"limit", "offset"} {
				if !slices.ContainsFunc(operations[d.ID].Parameters, func(p parameter) bool { return p.takes(part) }) && d.Method == http.MethodGet {
					t.Errorf("%s answers a list and takes no %s: embed api.Page", d.ID, part)
				}
			}
		}
	}
}

// TestNoParameterOfABranchLacksItsSlashes: a branch may be feature/x, which
// platforms decode before they route.
func TestNoParameterOfABranchLacksItsSlashes(t *testing.T) {
	each(t, every, func(t *testing.T, d api.Declaration) {
		if slices.Contains(events.Parameters(d), "branchName") && d.Slashed != "{branchName}" {
			t.Error(`give the field of {branchName} the tag slashes:"true"`)
		}
	})
}

// TestExamplesCanBeInvalid keeps the test above honest, and shows that answers
// are closed: a field that the schema does not list is refused.
func TestExamplesCanBeInvalid(t *testing.T) {
	s := readServed(t).schema("components", "schemas", "PlatformCaller")
	if err := s.Validate(map[string]any{"sub": "akey_1"}); err != nil {
		t.Error(err)
	}
	for name, bad := range map[string]map[string]any{
		"a missing field": {}, "another type": {"sub": 1.0}, "a field more": {"sub": "akey_1", "url": "https://example.com"},
	} {
		if s.Validate(bad) == nil {
			t.Errorf("%s is valid", name)
		}
	}
}

// TestDocumentHoldsNobodysKey asks every key in the document for a checksum
// that is wrong.
func TestDocumentHoldsNobodysKey(t *testing.T) {
	raw, err := os.ReadFile(servedFile)
	if err != nil {
		t.Fatal(err)
	}
	found := credentials.FindAllSubmatch(raw, -1)
	if len(found) == 0 {
		t.Error("it shows no key at all")
	}
	for _, m := range found {
		if credential.WellFormed(string(m[1]), string(m[0])) {
			t.Errorf("%s is a real key's form", m[0])
		}
	}
}

// TestEveryFieldIsDescribed: the document is all that a client's author has.
func TestEveryFieldIsDescribed(t *testing.T) {
	raw, err := api.Document(functions.Described(), api.Examples{})
	if err != nil {
		t.Fatal(err)
	}
	var document struct {
		Components struct {
			Schemas map[string]struct {
				Properties map[string]struct{ Description string }
			}
		}
	}
	if err := json.Unmarshal(raw, &document); err != nil {
		t.Fatal(err)
	}
	for name, schema := range document.Components.Schemas {
		for field, property := range schema.Properties {
			if property.Description == "" {
				t.Errorf("%s.%s has no description: give it a doc tag", name, field)
			}
		}
	}
}
