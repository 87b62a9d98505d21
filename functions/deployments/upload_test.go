package deployments_test

import (
	"cmp"
	"net/url"
	"path"
	"regexp"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/functions/functionstest"
	"github.com/gatewright/gatewright/shared/environment"
)

func TestUploadAddresses(t *testing.T) {
	w := newWorld(t)
	full, reader := w.full, w.reader()
	shopOnly, previews := w.limited([]string{"shop"}), w.limited(nil, environment.Preview)
	none := w.limited([]string{}, []environment.Kind{}...)
	const (
		made    = `"uploadUrl":"https://uploads.example.test/uploads/`
		noName  = "neither begin nor end with -"
		noField = "expected required property"
	)
	long := strings.Repeat("b", 256)
	w.Run(t, []functionstest.Case{
		{"for a branch", full, "POST", sources, `{"accountName":"acme","projectName":"shop","branchName":"main"}`, 200, made},
		{"for a branch with a slash", full, "POST", sources, `{"accountName":"acme","projectName":"shop","branchName":"feature/x"}`, 200, made},
		{"for the longest branch", full, "POST", sources, `{"accountName":"acme","projectName":"shop","branchName":"` + long[1:] + `"}`, 200, made},
		{"with a slash at the end", full, "POST", sources + "/", `{"accountName":"acme","projectName":"shop","branchName":"main"}`, 200, made},
		{"unknown fields are ignored", full, "POST", sources, `{"accountName":"acme","projectName":"shop","branchName":"main","uploadUrl":"mine","region":1}`, 200, made},
		{"of the key's project", shopOnly, "POST", sources, `{"accountName":"acme","projectName":"shop","branchName":"main"}`, 200, made},
		{"of the key's kind of environment", previews, "POST", sources, `{"accountName":"acme","projectName":"shop","branchName":"feature/x"}`, 200, made},
		{"no body", full, "POST", sources, "", 400, "body"},
		{"a list", full, "POST", sources, `[]`, 400, "expected object"},
		{"no field", full, "POST", sources, `{}`, 400, "and 2 more"},
		{"no branch", full, "POST", sources, `{"accountName":"acme","projectName":"shop"}`, 400, noField + " branchName"},
		{"an empty branch", full, "POST", sources, `{"accountName":"acme","projectName":"shop","branchName":""}`, 400, "body.branchName"},
		{"a long branch", full, "POST", sources, `{"accountName":"acme","projectName":"shop","branchName":"` + long + `"}`, 400, "body.branchName"},
		{"a branch of many bytes", full, "POST", sources, `{"accountName":"acme","projectName":"shop","branchName":"` + strings.Repeat("ä", 128) + `"}`, 400, "body.branchName"},
		{"a branch with a tab", full, "POST", sources, `{"accountName":"acme","projectName":"shop","branchName":"a\tb"}`, 400, "body.branchName"},
		{"a branch of another type", full, "POST", sources, `{"accountName":"acme","projectName":"shop","branchName":17}`, 400, "body.branchName"},
		{"a branch of null", full, "POST", sources, `{"accountName":"acme","projectName":"shop","branchName":null}`, 400, "body.branchName"},
		{"a project of another type", full, "POST", sources, `{"accountName":"acme","projectName":["shop"],"branchName":"main"}`, 400, "body.projectName"},
		{"a project with a capital", full, "POST", sources, `{"accountName":"acme","projectName":"Shop","branchName":"main"}`, 400, noName},
		{"a project without a name", full, "POST", sources, `{"accountName":"acme","projectName":"","branchName":"main"}`, 400, noName},
		{"a long project", full, "POST", sources, `{"accountName":"acme","projectName":"` + strings.Repeat("p", 64) + `","branchName":"main"}`, 400, noName},
		{"another account", full, "POST", sources, `{"accountName":"evil","projectName":"shop","branchName":"main"}`, 404, "account"},
		{"another project than the key's", shopOnly, "POST", sources, `{"accountName":"acme","projectName":"blog","branchName":"main"}`, 404, "project"},
		{"another kind of environment than the key's", previews, "POST", sources, `{"accountName":"acme","projectName":"shop","branchName":"main"}`, 404, "project"},
		{"by a key of no project", none, "POST", sources, `{"accountName":"acme","projectName":"shop","branchName":"main"}`, 404, "project"},
		{"without the scope", reader, "POST", sources, `{"accountName":"acme","projectName":"shop","branchName":"main"}`, 403, "deployments:write"},
		{"by nobody", "", "POST", sources, `{"accountName":"acme","projectName":"shop","branchName":"main"}`, 401, "Bearer"},

		{"for an environment", full, "POST", sourceURL, `{"accountName":"acme","projectName":"shop","environment":"main","repositoryUrl":"","sha":""}`, 200, made},
		{"for an environment under its other name", full, "POST", sourceURL, `{"accountName":"acme","projectName":"shop","branchName":"main","sha":"9b6f8a2"}`, 200, made},
		{"no environment", full, "POST", sourceURL, `{"accountName":"acme","projectName":"shop"}`, 400, "body.environment"},
		{"an empty environment", full, "POST", sourceURL, `{"accountName":"acme","projectName":"shop","environment":""}`, 400, "body.environment"},
		{"an environment with a tab", full, "POST", sourceURL, `{"accountName":"acme","projectName":"shop","environment":"a\tb"}`, 400, "body.environment"},
		{"the environment counts before the branch", previews, "POST", sourceURL, `{"accountName":"acme","projectName":"shop","environment":"feature/x","branchName":"main"}`, 200, made},
		{"a bad branch is named as it was sent", full, "POST", sourceURL, `{"accountName":"acme","projectName":"shop","branchName":"a\tb"}`, 400, "body.branchName"},
		{"a sha of another type", full, "POST", sourceURL, `{"accountName":"acme","projectName":"shop","environment":"main","sha":1}`, 400, "body.sha"},
		{"a long sha", full, "POST", sourceURL, `{"accountName":"acme","projectName":"shop","environment":"main","sha":"` + strings.Repeat("a", 65) + `"}`, 400, "body.sha"},
		{"an environment of another account", full, "POST", sourceURL, `{"accountName":"evil","projectName":"shop","environment":"main"}`, 404, "account"},
		{"an environment without the scope", reader, "POST", sourceURL, `{"accountName":"acme","projectName":"shop","environment":"main"}`, 403, "deployments:write"},

		{"the earlier form", full, "POST", shop + "/sources", "", 200, made},
		{"the earlier form reads no body", full, "POST", shop + "/sources", `{"branchName":`, 200, made},
		{"the earlier form with a slash", full, "POST", shop + "/sources/", "", 200, made},
		{"the earlier form of an encoded name", full, "POST", "/v1/accounts/acme/projects/sh%6Fp/sources", "", 200, made},
		{"the earlier form of a bad name", full, "POST", "/v1/accounts/acme/projects/sh%2Fop/sources", "", 400, "path.projectName"},
		{"the earlier form deploys main", previews, "POST", shop + "/sources", "", 404, "project"},
		{"the earlier form of another account", full, "POST", "/v1/accounts/evil/projects/shop/sources", "", 404, "account"},
		{"the earlier form without the scope", reader, "POST", shop + "/sources", "", 403, "deployments:write"},
	})
}

// TestStatusIDIsTheLastSegmentOfTheAddress: clients of POST
// /v1/deployments/sources know no other way to it (contract 3.2).
func TestStatusIDIsTheLastSegmentOfTheAddress(t *testing.T) {
	w := newWorld(t)
	id, address := w.issue("main")
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	if !u.IsAbs() || path.Base(u.Path) != id || len(id) != len("00000000-0000-0000-0000-000000000000") {
		t.Errorf("the address %s is of %s", address, id)
	}
	if again, _ := w.issue("main"); again == id {
		t.Error("a second address has the first one's id")
	}
}

func TestFirstUploadMakesTheProject(t *testing.T) {
	w := newWorld(t)
	w.Call(w.full, "GET", list, "").Want(404, "project")
	w.issue("main")
	w.Call(w.full, "GET", "/v1/projects", "").Want(200, `"name":"shop"`, `"total":1}`)
	// What has not been uploaded is nothing to show.
	w.Call(w.full, "GET", list, "").Want(200, `{"data":[],"limit":1000,"offset":0,"total":0}`)
}

// TestReservedNameIsNoDeploymentYet: the first address reserves a name, under
// which there is nothing before an archive has come.
func TestReservedNameIsNoDeploymentYet(t *testing.T) {
	w := newWorld(t)
	w.issue("main")
	reserved := ""
	for key := range w.Items.Items() {
		reserved = cmp.Or(regexp.MustCompile(`shop-main-[0-9a-f]{7}`).FindString(key.PK+" "+key.SK), reserved)
	}
	if reserved == "" {
		t.Fatal("no name is reserved")
	}
	one := "/v1/deployments/" + reserved
	w.Call(w.full, "GET", one, "").Want(404)
	w.Call(w.full, "POST", one+"/deploy", "").Want(404)
	w.Call(w.full, "DELETE", one, "").Want(404)
}

func TestRefusedUploadMakesNothing(t *testing.T) {
	w := newWorld(t)
	w.Call(w.full, "POST", sources, `{"accountName":"acme","projectName":"shop","branchName":""}`).Want(400)
	w.Call(w.reader(), "POST", sources, `{"accountName":"acme","projectName":"shop","branchName":"main"}`).Want(403)
	w.Call(w.full, "GET", "/v1/projects", "").Want(200, `"total":0}`)
}

func TestPathsTellWhichMethodsTheyTake(t *testing.T) {
	w := newWorld(t)
	for path, allow := range map[string]string{
		// Those of {deploymentName} too.
		sources:                                 "DELETE, GET, HEAD, POST",
		sourceURL:                               "DELETE, GET, HEAD, POST",
		shop + "/sources":                       "POST",
		statuses + "/x":                         "GET, HEAD",
		list:                                    "GET, HEAD",
		list + "/x":                             "DELETE",
		"/v1/deployments/x":                     "DELETE, GET, HEAD",
		"/v1/deployments/x/deploy":              "POST",
		"/v1/deployments/x%2Fy/deploy":          "POST",
		"/v1/deployments/x/deploy/":             "POST",
		"/v1/accounts/a/projects/p%2Fq/sources": "POST",
	} {
		w.Call(w.full, "PUT", path, "{}").Want(405, "does not take PUT").WantHeader("Allow", allow)
	}
}
