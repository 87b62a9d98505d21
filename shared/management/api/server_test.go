package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/base/ids"
	"github.com/gatewright/gatewright/shared/core/audit"
	"github.com/gatewright/gatewright/shared/core/auth"
	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/storetest"
	"github.com/gatewright/gatewright/shared/management/api"
)

// goodKey has all permissions. readKey can only read things, and its only project is shop.
const goodKey, readKey = "good", "reader"

// callers is an api.Authenticator with two known keys.
type callers struct{}

func (callers) Authenticate(_ context.Context, key string) (auth.Principal, error) {
	p := auth.Principal{AccountID: "a-1", AccountName: "acme", KeyID: "akey_1", Permissions: auth.Full()}
	switch key {
	case goodKey:
	case readKey:
		p.Permissions.Scopes = []auth.Scope{auth.KeyBuckets.Read()}
		p.Permissions.Projects = []string{"shop"}
	default:
		return auth.Principal{}, fault.New(fault.Unauthenticated, "no such key")
	}
	return p, nil
}

// TagQuery reads parameters whose names are not declared, with a resolver.
type TagQuery struct {
	Tags map[string]string `json:"-"`
}

// Resolve implements huma.Resolver.
func (q *TagQuery) Resolve(ctx huma.Context) []error {
	u := ctx.URL()
	q.Tags = map[string]string{}
	for name, values := range u.Query() {
		if tag, ok := strings.CutPrefix(name, "tag."); ok {
			q.Tags[tag] = values[0]
		}
	}
	return nil
}

type thingIn struct {
	Account string `path:"accountName"`
	Name    string `path:"name"`
	Count   int    `query:"count" minimum:"1" maximum:"9"`
	TagQuery
}

type thingOut struct {
	Body struct {
		Name string            `json:"name"`
		Tags map[string]string `json:"tags"`
	}
}

type changeIn struct {
	Account string `path:"accountName"`
	Name    string `path:"name"`
	Body    struct {
		Description api.Optional[string] `json:"description" required:"false" maxLength:"5"`
		Secret      string               `json:"secret" required:"false" pattern:"^[a-z]+$"`
		ID          string               `json:"id,omitempty" format:"uuid"`
		Link        string               `json:"link,omitempty" format:"uri"`
		Kind        string               `json:"kind,omitempty" enum:"big,small"`
		Own         own                  `json:"own,omitempty"`
	}
}

// own is an object whose schema does not list its fields.
type own struct {
	Name string `json:"name"`
}

// Schema implements huma.SchemaProvider.
func (own) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeObject, AdditionalProperties: true}
}

type changeOut struct {
	Body struct {
		Set  bool `json:"set"`
		Null bool `json:"null"`
	}
}

var (
	readThing = api.Operation[thingIn, thingOut]{
		ID: "Things_read", Method: "GET", Path: "/v1/accounts/{accountName}/things/{name}",
		Scope: auth.KeyBuckets.Read(), Errors: []int{404, 429},
	}
	changeThing = api.Operation[changeIn, changeOut]{
		ID: "Things_change", Method: "PATCH", Path: "/v1/accounts/{accountName}/things/{name}",
		Scope: auth.KeyBuckets.Write(), Audit: "key-bucket.update",
	}
	bulkThings = api.Operation[struct{}, api.NoContent]{
		ID: "Things_bulk", Method: "POST", Path: "/v1/accounts/{accountName}/things/$bulk", Status: 204,
		Scope: auth.KeyBuckets.Write(), Audit: "api-key.bulk-create",
	}
	projectThing = api.Operation[struct{}, api.NoContent]{
		ID: "Things_project", Method: "GET", Path: "/v1/accounts/{accountName}/projects/{projectName}", Status: 204,
		Polled: true,
	}
)

// fixture is a server with operations on things, and its table and log.
type fixture struct {
	server *api.Server
	table  *store.Table
	log    *bytes.Buffer
	// fail is the error that the operations return, except bulkThings. If it is nil, they succeed.
	fail error
	// url is the result of api.RequestURL in the last read.
	url string
}

func newFixture(t *testing.T) *fixture {
	f := &fixture{table: storetest.New(t), log: &bytes.Buffer{}}
	now := func() time.Time { return storetest.Epoch }
	f.server = api.Open(installation.Parts{
		Table: f.table, Log: slog.New(slog.NewTextHandler(f.log, nil)),
		IDs: ids.NewSource(storetest.Random(t), now), Now: now,
	}, callers{}, []api.Route{
		readThing.HandledBy(func(ctx context.Context, in *thingIn) (*thingOut, error) {
			f.url = api.RequestURL(ctx)
			if f.fail != nil {
				return nil, f.fail
			}
			out := &thingOut{}
			out.Body.Name, out.Body.Tags = in.Name, in.Tags
			return out, nil
		}),
		changeThing.HandledBy(func(ctx context.Context, in *changeIn) (*changeOut, error) {
			if f.fail != nil {
				return nil, f.fail
			}
			if in.Name == "panic" {
				panic("secret-cause")
			}
			out := &changeOut{}
			out.Body.Set, out.Body.Null = in.Body.Description.Set || in.Body.Own.Name != "", in.Body.Description.Null
			return out, f.table.Commit(ctx, audit.Record(ctx, audit.Resource{Type: "thing", ID: in.Name}))
		}),
		bulkThings.HandledBy(func(context.Context, *struct{}) (*api.NoContent, error) { return &api.NoContent{}, nil }),
		projectThing.HandledBy(func(context.Context, *struct{}) (*api.NoContent, error) { return &api.NoContent{}, f.fail }),
	})
	return f
}

// do sends a request and returns the response and its body. header has names and values in turn.
func (f *fixture) do(t *testing.T, method, target, key, body string, header ...string) (*http.Response, string) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, target, strings.NewReader(body))
	if key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	f.server.ServeHTTP(w, r)
	raw, err := io.ReadAll(w.Result().Body)
	if err != nil {
		t.Fatal(err)
	}
	return w.Result(), string(raw)
}

const thing = "/v1/accounts/acme/things/"

// requestCase is a request and the status of its response.
type requestCase struct {
	name, method, target, key, body string
	want                            int
}

// requestsByAddress returns requests that differ in method, path, query and key.
func requestsByAddress() []requestCase {
	return []requestCase{
		{"a read", "GET", thing + "x", goodKey, "", 200},
		{"a trailing slash", "GET", thing + "x/", goodKey, "", 200},
		{"no key", "GET", thing + "x", "", "", 401},
		{"an unknown key", "GET", thing + "x", "other", "", 401},
		{"another account", "GET", "/v1/accounts/globex/things/x", goodKey, "", 404},
		{"another account without the scope", "PATCH", "/v1/accounts/globex/things/x", readKey, "{}", 404},
		{"a missing scope", "PATCH", thing + "x", readKey, "{}", 403},
		{"a project outside the key's", "GET", "/v1/accounts/acme/projects/blog", readKey, "", 404},
		{"a project of the key's", "GET", "/v1/accounts/acme/projects/shop", readKey, "", 204},
		{"no such path", "GET", "/v1/nothing", goodKey, "", 404},
		{"an empty segment in the path", "GET", "/v1//accounts/acme/things/x", goodKey, "", 404},
		{"a .. segment in the path", "GET", "/v1/accounts/../accounts/acme/things/x", goodKey, "", 404},
		{"another method", "PUT", thing + "x", goodKey, "", 405},
		{"an encoded slash", "GET", thing + "feature%2Fx", goodKey, "", 200},
		{"a dollar sign in the path", "POST", thing + "$bulk", goodKey, "", 204},
		{"an encoded dollar sign in the path", "POST", thing + "%24bulk", goodKey, "", 204},
		{"a control character in the path", "GET", thing + "a%00b", goodKey, "", 400},
		{"invalid UTF-8 in the path", "GET", thing + "a%ffb", goodKey, "", 400},
		{"invalid UTF-8 in the query", "GET", thing + "x?tag.a=%ff", goodKey, "", 400},
		{"an invalid escape in the query", "GET", thing + "x?a=%zz", goodKey, "", 400},
		{"a parameter out of bounds", "GET", thing + "x?count=10", goodKey, "", 400},
		{"a parameter of another type", "GET", thing + "x?count=many", goodKey, "", 400},
		{"an empty parameter", "GET", thing + "x?count=", goodKey, "", 400},
		{"a parameter without an equals sign", "GET", thing + "x?count", goodKey, "", 400},
		{"an empty parameter and another value", "GET", thing + "x?count=2&count=", goodKey, "", 400},
		{"an empty unknown parameter", "GET", thing + "x?tag.a=", goodKey, "", 200},
		{"a control character in the path, and no key", "GET", thing + "a%00b", "", "", 401},
		{"an invalid escape in the query, and no key", "GET", thing + "x?a=%zz", "", "", 401},
		{"a control character in another account's path", "GET", "/v1/accounts/globex/things/a%00b", goodKey, "", 400},
		{"a huge number", "GET", thing + "x?count=99999999999999999999999", goodKey, "", 400},
	}
}

// requestsByBody returns requests that differ in their bodies.
func requestsByBody() []requestCase {
	deep := strings.Repeat("[", 40) + strings.Repeat("]", 40)
	return []requestCase{
		{"a body", "PATCH", thing + "x", goodKey, `{"description":"a"}`, 200},
		{"an unknown field", "PATCH", thing + "x", goodKey, `{"createdOn":1}`, 200},
		{"no body", "PATCH", thing + "x", goodKey, "", 400},
		{"white space for a body", "PATCH", thing + "x", goodKey, " \n", 400},
		{"invalid JSON", "PATCH", thing + "x", goodKey, "{", 400},
		{"two JSON values", "PATCH", thing + "x", goodKey, "{}{}", 400},
		{"an array", "PATCH", thing + "x", goodKey, "[]", 400},
		{"a wrong type", "PATCH", thing + "x", goodKey, `{"description":1}`, 400},
		{"a text that is too long", "PATCH", thing + "x", goodKey, `{"description":"abcdef"}`, 400},
		{"one name twice", "PATCH", thing + "x", goodKey, `{"secret":"a","secret":"b"}`, 400},
		{"one name twice, once escaped", "PATCH", thing + "x", goodKey, `{"secret":"a","\u0073ecret":"b"}`, 400},
		{"one name twice, once in other case", "PATCH", thing + "x", goodKey, `{"secret":"a","SECRET":"b"}`, 400},
		{"a name in other case", "PATCH", thing + "x", goodKey, `{"Secret":"a"}`, 400},
		{"a name in other case, escaped", "PATCH", thing + "x", goodKey, `{"\u0053ecret":"a"}`, 400},
		{"a long s for an s", "PATCH", thing + "x", goodKey, `{"\u017fecret":"a"}`, 400},
		{"a Kelvin sign for a k", "PATCH", thing + "x", goodKey, `{"\u212aind":"big"}`, 400},
		{"a dotted capital I, which does not fold to i", "PATCH", thing + "x", goodKey, `{"\u0130d":1}`, 200},
		{"a field's name at another place", "PATCH", thing + "x", goodKey, `{"x":{"SECRET":1,"secret":1}}`, 200},
		{"a number beyond all types", "PATCH", thing + "x", goodKey, `{"x":1e999}`, 400},
		{"invalid UTF-8", "PATCH", thing + "x", goodKey, "{\"secret\":\"\xff\"}", 400},
		{"NUL", "PATCH", thing + "x", goodKey, `{"description":"\u0000"}`, 400},
		{"half a surrogate pair", "PATCH", thing + "x", goodKey, `{"description":"\ud800"}`, 400},
		{"half a surrogate pair in a name", "PATCH", thing + "x", goodKey, `{"\udc00":1}`, 400},
		{"U+FFFD", "PATCH", thing + "x", goodKey, "{\"description\":\"\ufffd\"}", 200},
		{"U+FFFD, escaped", "PATCH", thing + "x", goodKey, `{"description":"\ufffd"}`, 200},
		{"a body that is too deep", "PATCH", thing + "x", goodKey, `{"x":` + deep + `}`, 400},
		{"an unclosed array", "PATCH", thing + "x", goodKey, `{"x":[1`, 400},
		{
			"a body that is too large", "PATCH", thing + "x", goodKey,
			`{"x":"` + strings.Repeat("a", api.MaxBodyBytes) + `"}`, 413,
		},
		{"a panic", "PATCH", thing + "panic", goodKey, "{}", 500},
	}
}

func TestStatusOfRequests(t *testing.T) {
	for _, c := range append(requestsByAddress(), requestsByBody()...) {
		t.Run(c.name, func(t *testing.T) {
			f := newFixture(t)
			r, body := f.do(t, c.method, c.target, c.key, c.body)
			if r.StatusCode != c.want {
				t.Fatalf("%s %.100s = %d %s, want %d", c.method, c.target, r.StatusCode, body, c.want)
			}
			if r.Header.Get("X-Request-Id") == "" {
				t.Error("X-Request-Id = \"\", want an ID")
			}
			if c.want >= 400 {
				checkProblem(t, r, body)
			}
		})
	}
}

func TestParametersAreDecodedOnce(t *testing.T) {
	for target, want := range map[string]string{
		"feature%2Fx": "feature/x",
		"50%25":       "50%",
		"%2525":       "%25",
		"a+b":         "a+b",
	} {
		_, body := newFixture(t).do(t, "GET", thing+target, goodKey, "")
		var out struct{ Name string }
		if err := json.Unmarshal([]byte(body), &out); err != nil || out.Name != want {
			t.Errorf("GET %s: name = %q, %v, want %q", target, out.Name, err, want)
		}
	}
}

func TestResolversReadTheQuery(t *testing.T) {
	_, body := newFixture(t).do(t, "GET", thing+"x?tag.account=foo&tag.env=b%2Fc", goodKey, "")
	if !strings.Contains(body, `"tags":{"account":"foo","env":"b/c"}`) {
		t.Errorf("response body = %s, want the tags account=foo and env=b/c of the query", body)
	}
}

func TestMethodNotAllowedHasAllow(t *testing.T) {
	r, _ := newFixture(t).do(t, "DELETE", thing+"x", goodKey, "")
	if got := r.Header.Get("Allow"); got != "GET, HEAD, PATCH" {
		t.Errorf("Allow = %q, want \"GET, HEAD, PATCH\"", got)
	}
}

func TestUnauthorizedHasWWWAuthenticate(t *testing.T) {
	r, _ := newFixture(t).do(t, "GET", thing+"x", "", "")
	if got := r.Header.Get("WWW-Authenticate"); got != "Bearer" {
		t.Errorf("WWW-Authenticate = %q, want \"Bearer\"", got)
	}
}

// TestNamesOfParametersAreExact checks that a parameter's name with other capitals
// is refused. Otherwise it would be ignored without notice, like an unknown name.
func TestNamesOfParametersAreExact(t *testing.T) {
	f := newFixture(t)
	for query, want := range map[string]int{
		"count=3": 200, "Count=3": 400, "COUNT=": 400, "count=3&Count=4": 400,
		"counts=3": 200, "tag.Count=3": 200,
	} {
		r, body := f.do(t, "GET", thing+"x?"+query, goodKey, "")
		if r.StatusCode != want || want == 400 && !strings.Contains(body, "write it as count") {
			t.Errorf("GET with ?%s = %d %s, want %d, and \"write it as count\" with 400", query, r.StatusCode, body, want)
		}
	}
}

// TestTwoAuthorizationFieldsAreRefused checks that a request with two
// keys is refused, because a proxy may have checked either of them.
func TestTwoAuthorizationFieldsAreRefused(t *testing.T) {
	f := newFixture(t)
	for _, keys := range [][]string{
		{goodKey, goodKey},
		{goodKey, "gwa_another"},
		{"gwa_another", goodKey},
		{"", goodKey},
	} {
		r := httptest.NewRequestWithContext(t.Context(), "GET", thing+"x", nil)
		for _, key := range keys {
			r.Header.Add("Authorization", "Bearer "+key)
		}
		w := httptest.NewRecorder()
		f.server.ServeHTTP(w, r)
		if w.Code != 401 || !strings.Contains(w.Body.String(), "more than one Authorization header") ||
			strings.Contains(w.Body.String(), goodKey) {
			t.Errorf("request with the keys %q = %d %s, want 401 with \"more than one Authorization header\", without the key",
				keys, w.Code, w.Body)
		}
	}
}

// TestErrorsNeverRepeatValues sends a marker in many places where clients could send a secret, and checks that neither
// the response nor the log contains the marker.
func TestErrorsNeverRepeatValues(t *testing.T) {
	const marker = "S3CR3T"
	f := newFixture(t)
	for _, body := range []string{
		`{"secret":"S3CR3T"}`, `{"secret":["S3CR3T"]}`, `{"secret":"S3CR3T`, `{"description":"S3CR3T-too-long"}`,
		`{"id":"S3CR3T"}`, `{"link":":S3CR3T %"}`, `{"kind":"S3CR3T"}`, `"S3CR3T"`, `S3CR3T`, `{"x":S3CR3T}`,
		`{"S3CR3T":1,"S3CR3T":2}`,
		`{"secret":"a","SECRET":["S3CR3T"]}`,
	} {
		r, response := f.do(t, "PATCH", thing+"x", goodKey, body)
		if r.StatusCode != http.StatusBadRequest || strings.Contains(response, marker) {
			t.Errorf("PATCH %s = %d %s, want 400 without the value", body, r.StatusCode, response)
		}
	}
	for _, key := range []string{"", goodKey} {
		if _, response := f.do(t, "GET", thing+"x?count=S3CR3T", key, "", "X-Any", marker); strings.Contains(response,
			marker) {
			t.Errorf("response body with the key %q = %s, want no value of the request", key, response)
		}
	}
	if strings.Contains(f.log.String(), marker) {
		t.Errorf("log = %s, want no value of a request", f.log)
	}
}

// TestEveryAttemptToChangeIsRecordedOnce checks that each change that a known caller requests has one audit record,
// whether it succeeds or not. A change without a key must have none.
func TestEveryAttemptToChangeIsRecordedOnce(t *testing.T) {
	for _, c := range []struct {
		name, key, target, body string
		fail                    error
		success                 bool
		records                 int
	}{
		{"a success", goodKey, thing + "x", "{}", nil, true, 1},
		{"a bad body", goodKey, thing + "x", "{", nil, false, 1},
		{"a bad field", goodKey, thing + "x", `{"description":7}`, nil, false, 1},
		{"a missing scope", readKey, thing + "x", "{}", nil, false, 1},
		{"a fault", goodKey, thing + "x", "{}", fault.Missing("thing"), false, 1},
		{"another account", goodKey, "/v1/accounts/globex/things/x", "{}", nil, false, 1},
		{"a panic", goodKey, thing + "panic", "{}", nil, false, 1},
		{"no key", "", thing + "x", "{}", nil, false, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFixture(t)
			f.fail = c.fail
			f.do(t, "PATCH", c.target, c.key, c.body)
			entries, err := audit.ListPending(t.Context(), f.table, "a-1")
			if err != nil || len(entries) != c.records {
				t.Fatalf("audit records = %d, %v, want %d and no error", len(entries), err, c.records)
			}
			for _, e := range entries {
				if *e.Success != c.success || e.Action != "key-bucket.update" || e.Actor.Sub != "akey_1" ||
					(e.Error == nil) != c.success {
					t.Errorf("audit record: %s by %s, success %t, with an error %t, want key-bucket.update by akey_1, %t, %t",
						e.Action, e.Actor.Sub, *e.Success, e.Error != nil, c.success, !c.success)
				}
			}
		})
	}
}

func TestReadsAreNotRecorded(t *testing.T) {
	f := newFixture(t)
	f.do(t, "GET", thing+"x", goodKey, "")
	entries, err := audit.ListPending(t.Context(), f.table, "a-1")
	if err != nil || len(entries) != 0 {
		t.Errorf("audit records of a read = %d, %v, want 0 and no error", len(entries), err)
	}
}

func FuzzBodyNeverCauses500(f *testing.F) {
	for _, s := range []string{
		"", "{}", "[", `{"a":"\u0000"}`, `{"description":null}`, "1e999", `"\ud800"`,
		`{"id":1e400}`,
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, body string) {
		r, response := newFixture(t).do(t, "PATCH", thing+"x", goodKey, body)
		if r.StatusCode >= 500 {
			t.Fatalf("PATCH %q = %d %s, want less than 500", body, r.StatusCode, response)
		}
	})
}
