package platform_test

import (
	"encoding/json"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/gatewright/gatewright/functions/functionstest"
	"github.com/gatewright/gatewright/functions/platform"
	"github.com/gatewright/gatewright/shared/core/auth"
	"github.com/gatewright/gatewright/shared/format/environment"
	"github.com/gatewright/gatewright/shared/resource/accounts"
)

const (
	whoAmI       = "/v1/who-am-i"
	accountsPath = "/v1/accounts"
	openAPI      = "/openapi"
)

func newFixture(t *testing.T) (fx *functionstest.Fixture, fullKey string) {
	t.Helper()
	fx = functionstest.New(t, platform.Bind)
	return fx, fx.CreateAccount("acme")
}

func TestResponses(t *testing.T) {
	fx, fullKey := newFixture(t)
	otherAccountKey := fx.CreateAccount("evil")
	readerKey := fx.CreateKey("acme", func(p *auth.Permissions) { p.Scopes = []auth.Scope{auth.Accounts.Read()} })
	noPermissionsKey := fx.CreateKey("acme", func(p *auth.Permissions) { *p = auth.Permissions{} })
	limitedKey := fx.CreateKey("acme", func(p *auth.Permissions) {
		p.Projects, p.Environments = []string{"shop"}, []environment.Kind{environment.Preview}
	})
	fx.Run(t, []functionstest.Case{
		{"the caller", fullKey, "GET", whoAmI, "", 200, `"account":"acme"}`},
		{"the caller, with a slash", fullKey, "GET", whoAmI + "/", "", 200, `"account":"acme"}`},
		{"the caller, percent-encoded", fullKey, "GET", "/v1/who%2Dam%2Di", "", 200, `"account":"acme"}`},
		{"another caller", otherAccountKey, "GET", whoAmI, "", 200, `"account":"evil"}`},
		{"caller without permissions", noPermissionsKey, "GET", whoAmI, "", 200, `"account":"acme"}`},
		{"ignored parameters and body", fullKey, "GET", whoAmI + "?account=evil", `{`, 200, `"account":"acme"}`},
		{"no key", "", "GET", whoAmI, "", 401, "Authorization: Bearer"},
		{"an unknown key", "gwa_0123456789ABCDEFGHIJKLMNOPQRSTUV_00000000", "GET", whoAmI, "", 401, "not valid"},
		{"invalid key", "garbage", "GET", whoAmI, "", 401, "not valid"},

		{"the list", readerKey, "GET", accountsPath, "", 200, `"name":"acme"}],"limit":1000,"offset":0,"total":1}`},
		{
			"the list with a slash", readerKey, "GET", accountsPath + "/?limit=5", "", 200,
			`"name":"acme"}],"limit":5,"offset":0,"total":1}`,
		},
		{
			"the list of a limited key", limitedKey, "GET", accountsPath, "", 200,
			`"name":"acme"}],"limit":1000,"offset":0,"total":1}`,
		},
		{
			"list with another account's key", otherAccountKey, "GET", accountsPath, "", 200,
			`"name":"evil"}],"limit":1000,"offset":0,"total":1}`,
		},
		{
			"a page after the last", readerKey, "GET", accountsPath + "?offset=1", "", 200,
			`{"data":[],"limit":1000,"offset":1,"total":1}`,
		},
		{"limit over the maximum", readerKey, "GET", accountsPath + "?limit=1001", "", 200, `"limit":1000,`},
		{"a limit of 0", readerKey, "GET", accountsPath + "?limit=0", "", 400, "query.limit"},
		{"text as limit", readerKey, "GET", accountsPath + "?limit=ten", "", 400, "query.limit"},
		{"negative offset", readerKey, "GET", accountsPath + "?offset=-1", "", 400, "query.offset"},
		{
			"offset beyond 64 bits", readerKey, "GET", accountsPath + "?offset=99999999999999999999999", "", 400,
			"query.offset",
		},
		{"the list without the scope", noPermissionsKey, "GET", accountsPath, "", 403, "accounts:read"},
		{"list without a key", "", "GET", accountsPath, "", 401, "Bearer"},

		{"the OpenAPI document without a key", "", "GET", openAPI, "", 200, `"openapi": "3.1.0"`},
		{"the OpenAPI document with a slash", "", "GET", openAPI + "/", "", 200, `"openapi": "3.1.0"`},
		{"the OpenAPI document with an invalid key", "garbage", "GET", openAPI, "", 200, `"openapi": "3.1.0"`},

		{"unknown path", fullKey, "GET", "/", "", 404, "GET /openapi lists them all"},
		{"a path with a .. segment", fullKey, "GET", "/v1/../openapi", "", 404, "no such operation"},
		{"a path with two slashes", fullKey, "GET", "//openapi", "", 404, "no such operation"},
	})
}

// TestWhoAmIHasOnlyExpectedFields checks that the response of GET /v1/who-am-i has exactly the fields sub and account.
// Clients merge all fields of this response into their own arguments (contract 2.1).
func TestWhoAmIHasOnlyExpectedFields(t *testing.T) {
	fx, fullKey := newFixture(t)
	caller := fx.Call(fullKey, "GET", whoAmI, "").Want(200).JSON()
	if !strings.HasPrefix(caller.Text("sub"), "akey_") || caller.Text("account") != "acme" || caller.Len("") != 2 {
		t.Errorf("GET %s = %s, want akey_… of acme and no other fields", whoAmI, caller)
	}
	second := fx.Call(fx.CreateKey("acme", nil), "GET", whoAmI, "").Want(200).JSON()
	if second.Text("sub") == caller.Text("sub") {
		t.Errorf("sub of another key = %s, want another than the first key's", second.Text("sub"))
	}
}

func TestExpiredKeyIsUnauthorized(t *testing.T) {
	fx, _ := newFixture(t)
	expiry := fx.Now.Add(time.Hour)
	key := fx.CreateKeyWith("acme", accounts.Spec{ExpiresOn: &expiry, Permissions: auth.Full()})
	fx.Call(key, "GET", whoAmI, "").Want(200)
	fx.Now = expiry
	fx.Call(key, "GET", whoAmI, "").Want(401, "not valid").WantHeader("WWW-Authenticate", "Bearer")
	fx.Call(key, "GET", openAPI, "").Want(200)
}

// TestOpenAPIDocumentIsGolden checks that the served document equals openapi.json, that it needs no key, and that its
// info.version is 1.0.0. It also checks that the document has all operations of the group except the hidden operations
// (specification 4.1 and 9).
func TestOpenAPIDocumentIsGolden(t *testing.T) {
	fx, _ := newFixture(t)
	resp := fx.Call("", "GET", openAPI, "").Want(200).WantHeader("Content-Type", "application/json")
	golden, err := os.ReadFile("openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	if resp.Body != string(golden) {
		t.Errorf("GET %s differs from openapi.json, want the same", openAPI)
	}
	document := resp.JSON()
	if version := document.Text("info.version"); version != "1.0.0" {
		t.Errorf("info.version = %q, want 1.0.0", version)
	}
	var parsed struct {
		Paths map[string]map[string]struct{ OperationID string } // by path and method
	}
	if err := json.Unmarshal(golden, &parsed); err != nil {
		t.Fatal(err)
	}
	for _, d := range platform.Group.Declarations() {
		operation, ok := parsed.Paths[d.Path][strings.ToLower(d.Method)]
		if d.Hidden {
			if ok {
				t.Errorf("the document has the hidden operation %s %s, want it left out", d.Method, d.Path)
			}
			continue
		}
		if operation.OperationID != d.ID {
			t.Errorf("operationId of %s %s = %q, want %q", d.Method, d.Path, operation.OperationID, d.ID)
		}
	}
}

// TestOpenAPIContentNegotiation checks that GET and HEAD return JSON unless the client prefers YAML, and that JSON and
// YAML have different ETags.
func TestOpenAPIContentNegotiation(t *testing.T) {
	fx, _ := newFixture(t)
	tags := map[string]string{}
	for accept, want := range map[string]string{
		"application/json":                   "application/json",
		"*/*":                                "application/json",
		"text/html":                          "application/json",
		"application/json, application/yaml": "application/json",
		"application/yaml;q=0.5, application/json": "application/json",
		"application/yaml;q=0":                     "application/json",
		"application/yaml":                         "application/yaml",
		"application/yaml, */*;q=0.5":              "application/yaml",
		"text/yaml":                                "application/yaml",
		"application/x-yaml":                       "application/yaml",
	} {
		resp := fx.Call("", "GET", openAPI, "", "Accept", accept).Want(200).WantHeader("Content-Type", want).
			WantHeader("Vary", "Accept")
		tag := resp.Header.Get("ETag")
		if before := tags[want]; tag == "" || before != "" && before != tag {
			t.Errorf("Accept: %s: ETag = %q, want an ETag that is not empty and equals the earlier ETag of %s, if any: %q",
				accept, tag, want, before)
		}
		tags[want] = tag
		fx.Call("", "GET", openAPI, "", "Accept", accept, "If-None-Match", "W/"+tag).Want(304).WantHeader("ETag", tag).
			WantHeader("Vary", "Accept")
		fx.Call("", "HEAD", openAPI, "", "Accept", accept).Want(200).WantHeader("Content-Type", want).WantHeader("ETag", tag)
	}
	if tags["application/json"] == tags["application/yaml"] {
		t.Errorf("ETag of JSON and of YAML = %s, want different ones", tags["application/json"])
	}
}

// TestYAMLDocumentEqualsJSON checks that both forms of the document have the same content. JSON is also YAML, so one
// parser reads both.
func TestYAMLDocumentEqualsJSON(t *testing.T) {
	fx, _ := newFixture(t)
	read := func(accept string) (document map[string]any) {
		t.Helper()
		err := yaml.Unmarshal([]byte(fx.Call("", "GET", openAPI, "", "Accept", accept).Want(200).Body), &document)
		if err != nil {
			t.Fatal(err)
		}
		return document
	}
	if inJSON, inYAML := read("application/json"), read("application/yaml"); !reflect.DeepEqual(inJSON, inYAML) {
		t.Error("the YAML document differs from the JSON document, want the same content")
	}
}

func TestOtherMethodsAreNotAllowed(t *testing.T) {
	fx, fullKey := newFixture(t)
	for _, path := range []string{whoAmI, accountsPath, openAPI} {
		for _, method := range []string{"POST", "PUT", "PATCH", "DELETE", "OPTIONS"} {
			fx.Call(fullKey, method, path, "{}").Want(405, "does not take "+method).WantHeader("Allow", "GET, HEAD")
		}
	}
}

// TestAuthenticatedResponsesAreNotCached checks that responses that depend on the caller forbid caches to store them.
func TestAuthenticatedResponsesAreNotCached(t *testing.T) {
	fx, fullKey := newFixture(t)
	for _, path := range []string{whoAmI, accountsPath} {
		fx.Call(fullKey, "GET", path, "").Want(200).WantHeader("Cache-Control", "no-store")
		fx.Call("garbage", "GET", path, "").Want(401).WantHeader("Cache-Control", "no-store")
	}
}
