package deployments_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/gatewright/gatewright/functions/functionstest"
	"github.com/gatewright/gatewright/shared/auth"
	"github.com/gatewright/gatewright/shared/deployments"
	"github.com/gatewright/gatewright/shared/environment"
)

func TestDeployments(t *testing.T) {
	w, main, feature := deployed(t)
	full, reader, other := w.full, w.reader(), w.Account("evil")
	previews, blog := w.limited(nil, environment.Preview), w.limited([]string{"blog"})
	noScope := w.Key("acme", func(p *auth.Permissions) { p.Scopes = []auth.Scope{auth.Projects.Write()} })
	w.Call(full, "POST", "/v1/projects", `{"name":"empty"}`).Want(200)
	one := "/v1/deployments/" + main.name
	const (
		absent = "This deployment does not exist, or this key cannot see it."
		empty  = `{"data":[],"limit":1000,"offset":0,"total":0}`
	)
	digits := main.name[len("shop-main-"):]
	whole := `{"name":"` + main.name + `","url":"http://` + main.name + `.gateway.test","label":"main","urlParameter":"main","loggingId":"acme::shop::main::main::` + digits + `",` +
		`"accountName":"acme","projectName":"shop","branchName":"main","environmentType":"PRODUCTION","state":"STARTED","message":"",` +
		`"createdOn":"2026-03-14T09:26:53.589Z","updatedOn":"2026-03-14T09:26:53.589Z"}`
	w.Run(t, []functionstest.Case{
		{"the list", reader, "GET", list, "", 200, `"limit":1000,"offset":0,"total":2}`},
		{"the list begins with production", reader, "GET", list, "", 200, `{"data":[` + whole + `,`},
		{"the list with a slash", reader, "GET", list + "/", "", 200, `"total":2}`},
		{"the list of an encoded name", reader, "GET", "/v1/accounts/acme/projects/sh%6Fp/deployments", "", 200, `"total":2}`},
		{"a page", reader, "GET", list + "?limit=1&offset=0", "", 200, `{"data":[` + whole + `],"limit":1,"offset":0,"total":2}`},
		{"the next page", reader, "GET", list + "?limit=1&offset=1", "", 200, `{"data":[{"name":"` + feature.name + `"`},
		{"a page after the last", reader, "GET", list + "?offset=2", "", 200, `{"data":[],"limit":1000,"offset":2,"total":2}`},
		{"a large offset", reader, "GET", list + "?offset=9223372036854775807", "", 200, `{"data":[],`},
		{"a limit over the most", reader, "GET", list + "?limit=1001", "", 200, `"limit":1000,`},
		{"a limit of 0", reader, "GET", list + "?limit=0", "", 400, "query.limit"},
		{"a limit that is no number", reader, "GET", list + "?limit=ten", "", 400, "query.limit"},
		{"a limit with a fraction", reader, "GET", list + "?limit=1.5", "", 400, "query.limit"},
		{"a limit without end", reader, "GET", list + "?limit=99999999999999999999999", "", 400, "query.limit"},
		{"an offset below 0", reader, "GET", list + "?offset=-1", "", 400, "query.offset"},
		{"an unknown parameter is ignored", reader, "GET", list + "?order=name", "", 200, `"total":2}`},
		{"the list of a limited key", previews, "GET", list, "", 200, `{"data":[{"name":"` + feature.name + `"`},
		{"the list of a limited key counts no more", previews, "GET", list, "", 200, `"total":1}`},
		{"the list of an empty project", reader, "GET", "/v1/accounts/acme/projects/empty/deployments", "", 200, empty},
		{"the list of no project", reader, "GET", "/v1/accounts/acme/projects/none/deployments", "", 404, "This project does not exist"},
		{"the list of no name", reader, "GET", "/v1/accounts/acme/projects/a%2Fb/deployments", "", 404, "This project does not exist"},
		{"the list of a project out of sight", blog, "GET", list, "", 404, "This project does not exist"},
		{"the list of another account's", other, "GET", "/v1/accounts/evil/projects/shop/deployments", "", 404, "This project does not exist"},
		{"the list in another account", other, "GET", list, "", 404, "account"},
		{"the list without the scope", noScope, "GET", list, "", 403, "deployments:read"},
		{"the list by nobody", "", "GET", list, "", 401, "Bearer"},

		{"one", reader, "GET", one, "", 200, whole},
		{"one with a slash", reader, "GET", one + "/", "", 200, whole},
		{"one of an encoded name", reader, "GET", "/v1/deployments/" + strings.ReplaceAll(main.name, "-", "%2D"), "", 200, whole},
		{"a preview", previews, "GET", "/v1/deployments/" + feature.name, "", 200, `"label":"feature-x","urlParameter":"feature-x","loggingId":"acme::shop::feature/x::feature-x::`},
		{"a preview's kind", previews, "GET", "/v1/deployments/" + feature.name, "", 200, `"branchName":"feature/x","environmentType":"PREVIEW"`},
		{"one out of sight", previews, "GET", one, "", 404, absent},
		{"one of a project out of sight", blog, "GET", one, "", 404, absent},
		{"another account's", other, "GET", one, "", 404, absent},
		{"none", reader, "GET", "/v1/deployments/shop-main-0000000", "", 404, absent},
		{"no name", reader, "GET", "/v1/deployments/a%2Fb", "", 404, absent},
		{"a name with a capital", reader, "GET", "/v1/deployments/" + strings.ToUpper(main.name), "", 404, absent},
		{"a long name", reader, "GET", "/v1/deployments/" + strings.Repeat("a", 64), "", 404, absent},
		{"a name that is too long for any", reader, "GET", "/v1/deployments/" + strings.Repeat("a", 257), "", 400, "path.deploymentName"},
		{"one without the scope", noScope, "GET", one, "", 403, "deployments:read"},
		{"one by nobody", "", "GET", one, "", 401, "Bearer"},

		{"again", full, "POST", one + "/deploy", "", 200, `{"status":"request enqueued","deploymentId":"`},
		{"again, and no body is read", full, "POST", one + "/deploy/", `{"branchName":`, 200, `"request enqueued"`},
		{"again without the scope", reader, "POST", one + "/deploy", "", 403, "deployments:write"},
		{"again out of sight", previews, "POST", one + "/deploy", "", 404, absent},
		{"again, another account's", other, "POST", one + "/deploy", "", 404, absent},
		{"nothing again", full, "POST", "/v1/deployments/shop-main-0000000/deploy", "", 404, absent},

		{"a deletion without the scope", reader, "DELETE", one, "", 403, "deployments:write"},
		{"a deletion out of sight", previews, "DELETE", one, "", 404, absent},
		{"a deletion of another account's", other, "DELETE", one, "", 404, absent},
		{"a deletion of nothing", full, "DELETE", "/v1/deployments/shop-main-0000000", "", 404, absent},
		{"a deletion of no name", full, "DELETE", "/v1/deployments/a%2Fb", "", 404, absent},
		{"a deletion from a project", full, "DELETE", list + "/" + main.name, "", 200, ""},
		{"a deletion from another project", full, "DELETE", "/v1/accounts/acme/projects/empty/deployments/" + main.name, "", 404, absent},
		{"a deletion from a project out of sight", blog, "DELETE", list + "/" + main.name, "", 404, "This project does not exist"},
		{"a deletion from a project without the scope", reader, "DELETE", list + "/" + main.name, "", 403, "deployments:write"},
	})
}

func TestDeletedDeploymentIsGone(t *testing.T) {
	w, main, feature := deployed(t)
	one := "/v1/deployments/" + main.name
	if gone := w.Call(w.full, "DELETE", one, "").Want(200); gone.Body != "" {
		t.Errorf("the deletion answers %s", gone.Body) // contract 1.5
	}
	absent := w.Call(w.full, "GET", "/v1/deployments/shop-main-0000000", "").Want(404)
	for _, answer := range []functionstest.Answer{
		w.Call(w.full, "DELETE", one, ""), w.Call(w.full, "DELETE", list+"/"+main.name, ""),
		w.Call(w.full, "GET", one, ""), w.Call(w.full, "POST", one+"/deploy", ""),
	} {
		answer.Want(404, absent.JSON().Text("detail"))
	}
	left := w.Call(w.full, "GET", list, "").Want(200).JSON()
	if names := left.Texts("data", "name"); !slices.Equal(names, []string{feature.name}) {
		t.Errorf("left are %q, want %s", names, feature.name)
	}
	w.Call(w.full, "GET", "/v1/projects", "").Want(200, `"name":"shop"`)
}

// TestDeletionEndsABuildOnItsWay without an effect.
func TestDeletionEndsABuildOnItsWay(t *testing.T) {
	w, main, _ := deployed(t)
	one := "/v1/deployments/" + main.name
	id := w.Call(w.full, "POST", one+"/deploy", "").Want(200).JSON().Text("deploymentId")
	w.Call(w.full, "DELETE", one, "").Want(200)
	w.Finish(id)
	w.Call(w.full, "GET", statuses+"/"+id, "").Want(200, `"status":"ERROR","url":""`, "deleted while it was built")
	w.Call(w.full, "GET", one, "").Want(404)
}

// TestDeletedDeploymentsNameIsNotUsedAgain: a late reader of the old address
// must not reach the new deployment.
func TestDeletedDeploymentsNameIsNotUsedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		first := w.deploy("main", good()).Text("url")
		name := w.Call(w.full, "GET", list, "").Want(200).JSON().Text("data.0.name")
		w.Call(w.full, "DELETE", "/v1/deployments/"+name, "").Want(200)
		if second := w.deploy("main", good()).Text("url"); second == first || second == "" {
			t.Errorf("after the deletion of %s it is at %s", first, second)
		}
	})
}

func TestRedeployTakesNewVariables(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		s := w.deploy("main", functionstest.Project("$env(UPSTREAM)"))
		if s.Text("status") != "ERROR" || !strings.Contains(s.Text("buildResult.errors.0.message"), "UPSTREAM") {
			t.Fatalf("status %s", s)
		}
		one := "/v1/deployments/" + w.Call(w.full, "GET", list, "").Want(200, `"state":"FAILED"`).JSON().Text("data.0.name")
		w.Call(w.full, "POST", shop+"/branches/main/variables", `{"name":"UPSTREAM","isSecret":false,"value":"http://upstream.test"}`).Want(201)
		id := w.Call(w.full, "POST", one+"/deploy", "").Want(200).JSON().Text("deploymentId")
		w.Call(w.full, "GET", statuses+"/"+id, "").Want(200, `"status":"IN_PROGRESS","url":"","buildId":"`+id)
		w.Call(w.full, "GET", one, "").Want(200, `"state":"BUILDING"`)
		w.Finish(id)
		w.Call(w.full, "GET", statuses+"/"+id, "").Want(200, `"status":"SUCCESS","url":"http://`)
		w.Call(w.full, "GET", one, "").Want(200, `"state":"STARTED"`)
	})
}

// TestRedeployNeedsSources: until an archive is stored there is nothing to
// build again, while it is on its way and when it was never there.
func TestRedeployNeedsSources(t *testing.T) {
	w := newWorld(t)
	id, _ := w.issue("main")
	arrival := deployments.Arrival{StatusID: id, ETag: "of an archive that has been replaced", On: w.Now}
	if _, err := deployments.Open(w.Parts).Claim(t.Context(), arrival); err != nil {
		t.Fatal(err)
	}
	shown := w.Call(w.full, "GET", list, "").Want(200, `"state":"BUILDING"`).JSON()
	again := "/v1/deployments/" + shown.Text("data.0.name") + "/deploy"
	w.Call(w.full, "GET", statuses+"/"+id, "").Want(200, `"status":"IN_PROGRESS","url":""`)
	w.Call(w.full, "POST", again, "").Want(409, "Upload them first")
	w.Finish(id)
	w.Call(w.full, "GET", statuses+"/"+id, "").Want(200, `"status":"ERROR","url":""`, "replaced before it could be read")
	w.Call(w.full, "POST", again, "").Want(409, "Upload them first")
}
