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
	"github.com/gatewright/gatewright/shared/accounts"
	"github.com/gatewright/gatewright/shared/auth"
	"github.com/gatewright/gatewright/shared/environment"
)

const (
	whoAmI  = "/v1/who-am-i"
	list    = "/v1/accounts"
	openAPI = "/openapi"
)

func newWorld(t *testing.T) (w *functionstest.World, full string) {
	t.Helper()
	w = functionstest.New(t, platform.Bind)
	return w, w.Account("acme")
}

func TestAnswers(t *testing.T) {
	w, full := newWorld(t)
	other := w.Account("evil")
	reader := w.Key("acme", func(p *auth.Permissions) { p.Scopes = []auth.Scope{auth.Accounts.Read()} })
	nothing := w.Key("acme", func(p *auth.Permissions) { *p = auth.Permissions{} })
	limited := w.Key("acme", func(p *auth.Permissions) {
		p.Projects, p.Environments = []string{"shop"}, []environment.Kind{environment.Preview}
	})
	w.Run(t, []functionstest.Case{
		{"the caller", full, "GET", whoAmI, "", 200, `"account":"acme"}`},
		{"the caller, with a slash", full, "GET", whoAmI + "/", "", 200, `"account":"acme"}`},
		{"the caller, percent-encoded", full, "GET", "/v1/who%2Dam%2Di", "", 200, `"account":"acme"}`},
		{"another caller", other, "GET", whoAmI, "", 200, `"account":"evil"}`},
		{"a caller who may do nothing", nothing, "GET", whoAmI, "", 200, `"account":"acme"}`},
		{"parameters and bodies are not read", full, "GET", whoAmI + "?account=evil", `{`, 200, `"account":"acme"}`},
		{"nobody", "", "GET", whoAmI, "", 401, "Authorization: Bearer"},
		{"an unknown key", "gwa_0123456789ABCDEFGHIJKLMNOPQRSTUV_00000000", "GET", whoAmI, "", 401, "not valid"},
		{"no key at all", "garbage", "GET", whoAmI, "", 401, "not valid"},

		{"the list", reader, "GET", list, "", 200, `"name":"acme"}],"limit":1000,"offset":0,"total":1}`},
		{"the list with a slash", reader, "GET", list + "/?limit=5", "", 200, `"name":"acme"}],"limit":5,"offset":0,"total":1}`},
		{"the list of a limited key", limited, "GET", list, "", 200, `"name":"acme"}],"limit":1000,"offset":0,"total":1}`},
		{"another account's list", other, "GET", list, "", 200, `"name":"evil"}],"limit":1000,"offset":0,"total":1}`},
		{"a page after the last", reader, "GET", list + "?offset=1", "", 200, `{"data":[],"limit":1000,"offset":1,"total":1}`},
		{"a limit over the most", reader, "GET", list + "?limit=1001", "", 200, `"limit":1000,`},
		{"a limit of 0", reader, "GET", list + "?limit=0", "", 400, "query.limit"},
		{"a limit that is no number", reader, "GET", list + "?limit=ten", "", 400, "query.limit"},
		{"an offset below 0", reader, "GET", list + "?offset=-1", "", 400, "query.offset"},
		{"an offset without end", reader, "GET", list + "?offset=99999999999999999999999", "", 400, "query.offset"},
		{"the list without the scope", nothing, "GET", list, "", 403, "accounts:read"},
		{"the list by nobody", "", "GET", list, "", 401, "Bearer"},

		{"the description, by nobody", "", "GET", openAPI, "", 200, `"openapi": "3.1.0"`},
		{"the description with a slash", "", "GET", openAPI + "/", "", 200, `"openapi": "3.1.0"`},
		{"the description, by an unknown key", "garbage", "GET", openAPI, "", 200, `"openapi": "3.1.0"`},

		{"nothing", full, "GET", "/", "", 404, "GET /openapi lists them all"},
		{"a path with a dot", full, "GET", "/v1/../openapi", "", 404, "no such operation"},
		{"a path with two slashes", full, "GET", "//openapi", "", 404, "no such operation"},
	})
}

// TestCallerHasTheFieldsThatClientsExpectAlone: clients merge every field of it
// into their own arguments (contract 2.1).
func TestCallerHasTheFieldsThatClientsExpectAlone(t *testing.T) {
	w, full := newWorld(t)
	caller := w.Call(full, "GET", whoAmI, "").Want(200).JSON()
	if !strings.HasPrefix(caller.Text("sub"), "akey_") || caller.Text("account") != "acme" || caller.Len("") != 2 {
		t.Errorf("the caller is %s", caller)
	}
	second := w.Call(w.Key("acme", nil), "GET", whoAmI, "").Want(200).JSON()
	if second.Text("sub") == caller.Text("sub") {
		t.Error("two keys of an account are one caller")
	}
}

func TestExpiredKeyIsNobody(t *testing.T) {
	w, _ := newWorld(t)
	soon := w.Now.Add(time.Hour)
	key := w.KeyOf("acme", accounts.Spec{ExpiresOn: &soon, Permissions: auth.Full()})
	w.Call(key, "GET", whoAmI, "").Want(200)
	w.Now = soon
	w.Call(key, "GET", whoAmI, "").Want(401, "not valid").WantHeader("WWW-Authenticate", "Bearer")
	w.Call(key, "GET", openAPI, "").Want(200)
}

// TestDescriptionIsTheReviewedOne: it is public, JSON and of version 1.0.0
// (specification 4.1 and 9), and describes what answers here.
func TestDescriptionIsTheReviewedOne(t *testing.T) {
	w, _ := newWorld(t)
	answer := w.Call("", "GET", openAPI, "").Want(200).WantHeader("Content-Type", "application/json")
	golden, err := os.ReadFile("openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	if answer.Body != string(golden) {
		t.Error("it is not openapi.json")
	}
	document := answer.JSON()
	if version := document.Text("info.version"); version != "1.0.0" {
		t.Errorf("it is of version %q", version)
	}
	var described struct {
		Paths map[string]map[string]struct{ OperationID string } // by path and method
	}
	if err := json.Unmarshal(golden, &described); err != nil {
		t.Fatal(err)
	}
	for _, d := range platform.Group.Declarations() {
		there, ok := described.Paths[d.Path][strings.ToLower(d.Method)]
		if d.Hidden {
			if ok {
				t.Errorf("it describes %s %s, which is for people and their browsers", d.Method, d.Path)
			}
			continue
		}
		if there.OperationID != d.ID {
			t.Errorf("%s %s is described as %q, want %s", d.Method, d.Path, there.OperationID, d.ID)
		}
	}
}

// TestDescriptionIsAnsweredAsAsked: in JSON to all who do not prefer YAML, under an ETag of its own, and to HEAD
// as to GET.
func TestDescriptionIsAnsweredAsAsked(t *testing.T) {
	w, _ := newWorld(t)
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
		answer := w.Call("", "GET", openAPI, "", "Accept", accept).Want(200).WantHeader("Content-Type", want).WantHeader("Vary", "Accept")
		tag := answer.Header.Get("ETag")
		if before := tags[want]; tag == "" || before != "" && before != tag {
			t.Errorf("%s is answered under the ETag %s, and was under %s", accept, tag, before)
		}
		tags[want] = tag
		w.Call("", "GET", openAPI, "", "Accept", accept, "If-None-Match", "W/"+tag).Want(304).WantHeader("ETag", tag).WantHeader("Vary", "Accept")
		w.Call("", "HEAD", openAPI, "", "Accept", accept).Want(200).WantHeader("Content-Type", want).WantHeader("ETag", tag)
	}
	if tags["application/json"] == tags["application/yaml"] {
		t.Error("both forms have one ETag")
	}
}

// TestDescriptionInYAMLSaysTheSame: JSON is YAML too, so that one reader reads both.
func TestDescriptionInYAMLSaysTheSame(t *testing.T) {
	w, _ := newWorld(t)
	read := func(accept string) (document map[string]any) {
		t.Helper()
		if err := yaml.Unmarshal([]byte(w.Call("", "GET", openAPI, "", "Accept", accept).Want(200).Body), &document); err != nil {
			t.Fatal(err)
		}
		return document
	}
	if inJSON, inYAML := read("application/json"), read("application/yaml"); !reflect.DeepEqual(inJSON, inYAML) {
		t.Error("the YAML says something else than the JSON")
	}
}

func TestOtherMethodsAreNotAllowed(t *testing.T) {
	w, full := newWorld(t)
	for _, path := range []string{whoAmI, list, openAPI} {
		for _, method := range []string{"POST", "PUT", "PATCH", "DELETE", "OPTIONS"} {
			w.Call(full, method, path, "{}").Want(405, "does not take "+method).WantHeader("Allow", "GET, HEAD")
		}
	}
}

// TestAnswersOfCallersAreNotStored: shared caches would show them to others.
func TestAnswersOfCallersAreNotStored(t *testing.T) {
	w, full := newWorld(t)
	for _, path := range []string{whoAmI, list} {
		w.Call(full, "GET", path, "").Want(200).WantHeader("Cache-Control", "no-store")
		w.Call("garbage", "GET", path, "").Want(401).WantHeader("Cache-Control", "no-store")
	}
}
