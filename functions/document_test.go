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
	"github.com/gatewright/gatewright/shared/core/auth"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/storetest"
	"github.com/gatewright/gatewright/shared/format/credential"
	"github.com/gatewright/gatewright/shared/management/api"
	"github.com/gatewright/gatewright/shared/testing/golden"
	"github.com/gatewright/gatewright/shared/thirdparty/jsonschema"
)

// The examples in the OpenAPI document are real requests and responses. Every operation gets its valid request from
// package events, in an installation with one object of each kind. Texts that differ from run to run, and texts that
// look like a real key, are replaced.

func TestOpenAPIDocumentIsUpToDate(t *testing.T) {
	p := newPopulatedFixture(t)
	out, err := api.Document(functions.APIGroups(),
		api.Examples{Operations: collectExamples(t, p), Problems: problems(t, p)})
	if err != nil {
		t.Fatal(err)
	}
	golden.Equal(t, openAPIFile, out)
	checkTools(t, out)
}

// collectExamples returns the example of every operation. Each request is sent to a new copy of the fixture.
func collectExamples(t *testing.T, p populatedFixture) map[string]api.Example {
	t.Helper()
	examples := map[string]api.Example{}
	for _, g := range groups() {
		for _, d := range g.Declarations() {
			if !d.SessionOnly {
				synctest.Test(t, func(t *testing.T) { examples[d.ID] = collectExample(t, p, d) })
			}
		}
	}
	return examples
}

// collectExample sends an operation its valid request, and returns the request and the response.
func collectExample(t *testing.T, p populatedFixture, d api.Declaration) api.Example {
	t.Helper()
	r := p.sampleSet.Request(d)
	_, resp, n := p.sendValid(t, d, r)
	n, err := n.Merge(r.Values)
	if err != nil {
		t.Fatal(err)
	}
	responseBody := resp.Body
	if d.ID == "openApi" {
		responseBody = outline(t, responseBody)
	}
	var masks masker
	example := api.Example{Path: map[string]string{}}
	for _, name := range events.Parameters(d) {
		example.Path[name] = masks.replace(n[name])
	}
	if _, body := requestTarget(t, d, r, n); body != "" {
		example.Request = json.RawMessage(masks.replace(body))
	}
	if responseBody != "" {
		example.Response = json.RawMessage(masks.replace(responseBody))
	}
	return example
}

// outline returns the beginning of the document, as an example of the operation that returns the document. The whole
// document cannot be an example in itself.
func outline(t *testing.T, document string) string {
	t.Helper()
	var header struct {
		OpenAPI string `json:"openapi"`
		Info    struct {
			Title   string `json:"title"`
			Version string `json:"version"`
		} `json:"info"`
	}
	if err := json.Unmarshal([]byte(document), &header); err != nil {
		t.Fatal(err)
	}
	header.Info.Version = api.Version // the golden file in this binary can have an older version
	out, err := json.Marshal(header)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// failingQueries is a backend whose queries fail.
type failingQueries struct {
	store.Backend
	err error
}

// Query implements store.Backend.
func (q failingQueries) Query(context.Context, store.Query) ([]store.Item, string, error) {
	return nil, "", q.err
}

// problems causes a problem of each status, and returns the problem documents.
func problems(t *testing.T, p populatedFixture) map[int]json.RawMessage {
	t.Helper()
	byStatus := map[int]json.RawMessage{}
	synctest.Test(t, func(t *testing.T) {
		fx := p.Copy(t)
		readerKey := fx.CreateKey("acme", func(p *auth.Permissions) { p.Scopes = []auth.Scope{auth.KeyBuckets.Read()} })
		const bucketsPath = "/v1/accounts/acme/key-buckets"
		existingBucket := fmt.Sprintf(`{"name":%q}`, p.values["bucketName"])
		for _, c := range []struct {
			status                  int
			key, method, path, body string
			tableError              error
		}{
			{http.StatusBadRequest, p.key, http.MethodPost, bucketsPath, `{"name":"Shop"}`, nil},
			{http.StatusUnauthorized, "", http.MethodGet, bucketsPath, "", nil},
			{http.StatusForbidden, readerKey, http.MethodPost, bucketsPath, existingBucket, nil},
			{http.StatusNotFound, p.key, http.MethodGet, bucketsPath + "/no-such-bucket", "", nil},
			{http.StatusConflict, p.key, http.MethodPost, bucketsPath, existingBucket, nil},
			{http.StatusPreconditionFailed, p.key, http.MethodPatch, bucketsPath + "/" + p.values["bucketName"], `{}`, nil},
			{
				http.StatusRequestEntityTooLarge, p.key, http.MethodPost, bucketsPath, strings.Repeat(" ", api.MaxBodyBytes+1),
				nil,
			},
			{http.StatusUnprocessableEntity, p.key, http.MethodPost, "/v1/projects", `{"name":"-"}`, nil},
			{http.StatusTooManyRequests, p.key, http.MethodGet, bucketsPath, "", store.ErrRetryable},
			{http.StatusInternalServerError, p.key, http.MethodGet, bucketsPath, "", errors.New("the table is gone")},
		} {
			if c.tableError != nil {
				fx.Parts.Table = storetest.NewWithBackend(t, failingQueries{fx.Items, c.tableError}, storetest.Clock(fx.Parts.Now))
				fx.Restart()
			}
			var masks masker
			byStatus[c.status] = json.RawMessage(masks.replace(fx.Call(c.key, c.method, c.path, c.body, "If-Match",
				`"another"`).Want(c.status).Body))
		}
	})
	return byStatus
}

// masker replaces random parts of texts with placeholders. Equal parts of one example get equal placeholders.
type masker struct{ ids, uuids []string }

var (
	credentials = regexp.MustCompile(`\b(gw[a-z])_[0-9A-Za-z]{32}_[0-9a-f]{8}\b`)
	masked      = regexp.MustCompile(`\*{4}[0-9a-f]{8}\b`)
	prefixedID  = regexp.MustCompile(`\b([a-z]{3,5})_([0-9A-Za-z]{24,32})\b`)
	uuid        = regexp.MustCompile(`\b[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}\b`)
	buildDigits = regexp.MustCompile(`(\bshop-main-|::)[0-9a-f]{7}\b`)
	gatewayHost = regexp.MustCompile(`\bhttp://([a-z0-9-]+)\.gateway\.test\b`)
)

const base62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

func (m *masker) replace(s string) string {
	// The checksum is wrong, so scanners for secrets do not report these as keys.
	s = credentials.ReplaceAllString(s, "${1}_0123456789ABCDEFGHIJKLMNOPQRSTUV_00000000")
	s = masked.ReplaceAllString(s, "****00000000")
	s = prefixedID.ReplaceAllStringFunc(s, func(id string) string {
		i := indexOf(&m.ids, id)
		prefix, random, _ := strings.Cut(id, "_")
		return prefix + "_" + (base62 + base62)[i:i+len(random)]
	})
	s = uuid.ReplaceAllStringFunc(s, func(id string) string {
		return fmt.Sprintf("%02x1e8f1e-7c1d-4a55-9d0c-3f0f4c6f2a11", 11+indexOf(&m.uuids, id))
	})
	s = buildDigits.ReplaceAllString(s, "${1}0123abc")
	return gatewayHost.ReplaceAllString(s, "https://$1.apis.example.com")
}

// indexOf returns the index of an id in ids. If the id is new, indexOf appends it.
func indexOf(ids *[]string, id string) int {
	i := slices.Index(*ids, id)
	if i < 0 {
		i = len(*ids)
		*ids = append(*ids, id)
	}
	return i
}

// servedDocument is the OpenAPI document that the API serves. It validates values against the schemas in the document.
type servedDocument struct {
	t        *testing.T
	document any
	schemas  *jsonschema.Compiler
}

const openAPIFile = "platform/openapi.json"

func readServedDocument(t *testing.T) *servedDocument {
	t.Helper()
	raw, err := os.ReadFile(openAPIFile)
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
	if err := c.AddResource(openAPIFile, document); err != nil {
		t.Fatal(err)
	}
	return &servedDocument{t, document, c}
}

// lookup returns a value of the document, or nil if there is none. names are the names on the path to the value.
func (s *servedDocument) lookup(names ...string) any {
	node := s.document
	for _, name := range names {
		object, _ := node.(map[string]any)
		node = object[name]
	}
	return node
}

// schema compiles a schema of the document. names are the names on the path to the schema.
func (s *servedDocument) schema(names ...string) *jsonschema.Schema {
	s.t.Helper()
	var pointer strings.Builder
	for _, name := range names {
		pointer.WriteString("/" + url.PathEscape(strings.NewReplacer("~", "~0", "/", "~1").Replace(name)))
	}
	out, err := s.schemas.Compile(openAPIFile + "#" + pointer.String())
	if err != nil {
		s.t.Fatal(err)
	}
	return out
}

// checkExample checks an example against the schema next to it. names are the names on the path to the object that has
// both.
func (s *servedDocument) checkExample(names ...string) {
	s.t.Helper()
	example := s.lookup(append(slices.Clone(names), "example")...)
	if example == nil {
		s.t.Errorf("%s has no example, want one", strings.Join(names, " "))
		return
	}
	if err := s.schema(append(slices.Clone(names), "schema")...).Validate(example); err != nil {
		s.t.Errorf("example of %s = %v, want one that matches its schema: %v", strings.Join(names, " "), example, err)
	}
}

// responsePath returns the path of the description of an operation's JSON response. Cards have other media types. It
// returns nil if the response has no body or no description.
func (s *servedDocument) responsePath(d api.Declaration) []string {
	path := []string{"paths", d.Path, strings.ToLower(d.Method), "responses", strconv.Itoa(d.Status), "content"}
	content, _ := s.lookup(path...).(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(content)) {
		if name == "application/json" || strings.HasSuffix(name, "+json") {
			return append(path, name)
		}
	}
	if content != nil {
		s.t.Errorf("%s has no response with JSON, want one", d.ID)
	}
	return nil
}

// TestEveryOperationHasExamples checks that each path parameter, request body, JSON response and problem in the
// document has an example, and that the examples of bodies match their schemas.
func TestEveryOperationHasExamples(t *testing.T) {
	s := readServedDocument(t)
	for _, g := range groups() {
		for _, d := range g.Declarations() {
			operationPath := func(names ...string) []string {
				return append([]string{"paths", d.Path, strings.ToLower(d.Method)}, names...)
			}
			parameters, _ := s.lookup(operationPath("parameters")...).([]any)
			for _, p := range parameters {
				p, _ := p.(map[string]any)
				if p["in"] == "path" && p["example"] == nil {
					t.Errorf("path parameter %v of %s has no example, want one", p["name"], d.ID)
				}
			}
			if d.TakesBody {
				s.checkExample(operationPath("requestBody", "content", "application/json")...)
			}
			if responsePath := s.responsePath(d); responsePath != nil {
				s.checkExample(responsePath...)
			}
		}
	}
	responses, _ := s.lookup("components", "responses").(map[string]any)
	for name := range responses {
		s.checkExample("components", "responses", name, "content", "application/problem+json")
	}
	if len(responses) < 9 {
		t.Errorf("number of responses = %d, want 9 or more", len(responses))
	}
}

// TestDocumentDeclaresRequiredKey checks that the document declares the accepted credentials and the required scope of
// each operation.
func TestDocumentDeclaresRequiredKey(t *testing.T) {
	s := readServedDocument(t)
	if defaults, want := s.lookup("security"), []any{
		map[string]any{"accountKey": []any{}},
		map[string]any{"session": []any{}},
	}; !reflect.DeepEqual(defaults, want) {
		t.Errorf("security of the document = %v, want %v", defaults, want)
	}
	if name := s.lookup("components", "securitySchemes", "session", "name"); name != credential.SessionCookie {
		t.Errorf("cookie of the scheme session = %v, want %s", name, credential.SessionCookie)
	}
	forEachOperation(t, inDocument, func(t *testing.T, d api.Declaration) {
		field := func(name string) any { return s.lookup("paths", d.Path, strings.ToLower(d.Method), name) }
		var security, scope any // nil for the document's default
		onlyScheme := func(schemeName string) any { return []any{map[string]any{schemeName: []any{}}} }
		switch {
		case d.Public:
			security = []any{}
		case d.SessionOnly:
			security = onlyScheme("session")
		case !d.AcceptsSession():
			security = onlyScheme("accountKey")
		}
		if d.Scope != "" && !d.Public {
			scope = string(d.Scope)
		}
		if !reflect.DeepEqual(field("security"), security) || field("x-required-scope") != scope {
			t.Errorf("%s: security = %v, x-required-scope = %v, want %v and %v",
				d.ID, field("security"), field("x-required-scope"), security, scope)
		}
	})
}

// TestDocumentDeclaresEffect checks that the document declares the effect of each operation. Clients use it to decide
// whether a person has to confirm a call.
func TestDocumentDeclaresEffect(t *testing.T) {
	s := readServedDocument(t)
	forEachOperation(t, inDocument, func(t *testing.T, d api.Declaration) {
		effect := s.lookup("paths", d.Path, strings.ToLower(d.Method), "x-effect")
		if isRead := effect == "reads"; effect != string(d.Effect()) || isRead == d.Mutates() {
			t.Errorf("x-effect of %s = %v, want %s", d.ID, effect, d.Effect())
		}
	})
}

// TestResponsesMatchSchemas sends every valid request. Its response must match the schema in the document, and must
// have no other fields.
func TestResponsesMatchSchemas(t *testing.T) {
	s, p := readServedDocument(t), newPopulatedFixture(t)
	forEachOperation(t, anyOperation, func(t *testing.T, d api.Declaration) {
		path := s.responsePath(d)
		if path == nil {
			t.Skip("its response has no body")
		}
		schema := s.schema(append(path, "schema")...)
		for _, r := range variants(p.sampleSet, d) {
			_, resp, _ := p.sendValid(t, d, r)
			document, err := jsonschema.UnmarshalJSON(strings.NewReader(resp.Body))
			if err != nil {
				t.Fatal(err)
			}
			if err := schema.Validate(document); err != nil {
				t.Errorf("response of %s = %s, want one that matches its schema: %v", d.ID, resp.Body, err)
			}
		}
	})
}

// TestEveryListHasAnEnvelope checks that no response to a GET request is a JSON array. If such a list got pages later,
// its clients would break (contract 1.3). A list with an envelope must have the parameters limit and offset, unless it
// is in unpagedLists.
func TestEveryListHasAnEnvelope(t *testing.T) {
	s := readServedDocument(t)
	operations, schemas := readOpenAPI(t)
	for _, g := range groups() {
		for _, d := range g.Declarations() {
			raw, err := json.Marshal(s.lookup("paths", d.Path, strings.ToLower(d.Method), "responses", strconv.Itoa(d.Status),
				"content", "application/json", "schema"))
			if err != nil {
				t.Fatal(err)
			}
			var responseSchema schema
			if err := json.Unmarshal(raw, &responseSchema); err != nil {
				t.Fatal(err)
			}
			responseSchema = responseSchema.resolve(schemas)
			if strings.Contains(fmt.Sprint(responseSchema.Type), "array") && d.Method == http.MethodGet {
				t.Errorf("%s returns an array, want the envelope of api.List", d.ID)
			}
			if data := responseSchema.Properties["data"]; !strings.Contains(fmt.Sprint(data.resolve(schemas).Type), "array") ||
				unpagedLists[d.ID] != "" {
				continue
			}
			for _, parameterName := range []string{"limit", "offset"} {
				if !slices.ContainsFunc(operations[d.ID].Parameters, func(p parameter) bool {
					return p.matches(parameterName)
				}) && d.Method == http.MethodGet {
					t.Errorf("list %s has no parameter %s, want it: embed api.Page", d.ID, parameterName)
				}
			}
		}
	}
}

// TestBranchParametersAllowSlashes checks that parameters for branches can contain slashes. A branch can be feature/x,
// and platforms decode paths before they route requests.
func TestBranchParametersAllowSlashes(t *testing.T) {
	forEachOperation(t, anyOperation, func(t *testing.T, d api.Declaration) {
		if slices.Contains(events.Parameters(d), "branchName") && d.SlashParameter != "{branchName}" {
			t.Errorf(`SlashParameter of %s = %q, want {branchName}: add the tag slashes:"true" to its field`,
				d.ID, d.SlashParameter)
		}
	})
}

// TestInvalidExamplesAreRejected checks that the validation of examples finds errors, such as a field that is not in
// the schema.
func TestInvalidExamplesAreRejected(t *testing.T) {
	s := readServedDocument(t).schema("components", "schemas", "PlatformCaller")
	if err := s.Validate(map[string]any{"sub": "akey_1"}); err != nil {
		t.Errorf("Validate(valid caller) error = %v, want none", err)
	}
	for name, invalid := range map[string]map[string]any{
		"a missing field": {}, "another type": {"sub": 1.0}, "unknown field": {"sub": "akey_1", "url": "https://example.com"},
	} {
		if s.Validate(invalid) == nil {
			t.Errorf("Validate(%s) = nil, want an error", name)
		}
	}
}

// TestDocumentContainsNoValidKey checks that every key in the document has a wrong checksum.
func TestDocumentContainsNoValidKey(t *testing.T) {
	raw, err := os.ReadFile(openAPIFile)
	if err != nil {
		t.Fatal(err)
	}
	found := credentials.FindAllSubmatch(raw, -1)
	if len(found) == 0 {
		t.Error("the document shows no key, want one or more")
	}
	for _, m := range found {
		if credential.WellFormed(string(m[1]), string(m[0])) {
			t.Errorf("WellFormed(%s) = true, want no valid key in the document", m[0])
		}
	}
}

// TestEveryFieldIsDescribed checks that every field in the document has a description, because authors of clients only
// have the document.
func TestEveryFieldIsDescribed(t *testing.T) {
	raw, err := api.Document(functions.APIGroups(), api.Examples{})
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
				t.Errorf("%s.%s has no description, want one: add a doc tag", name, field)
			}
		}
	}
}
