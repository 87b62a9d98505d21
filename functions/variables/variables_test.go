package variables_test

import (
	"strings"
	"testing"

	"github.com/gatewright/gatewright/functions/functionstest"
	"github.com/gatewright/gatewright/functions/projects"
	"github.com/gatewright/gatewright/functions/variables"
	"github.com/gatewright/gatewright/shared/auth"
	"github.com/gatewright/gatewright/shared/environment"
)

const (
	main    = "/v1/accounts/acme/projects/shop/branches/main/variables"
	feature = "/v1/accounts/acme/projects/shop/branches/feature%2Fx/variables"
	gone    = "/v1/accounts/acme/projects/gone/branches/main/variables"
	foreign = "/v1/accounts/evil/projects/shop/branches/main/variables"
)

// newWorld makes a world in which acme has the project shop.
func newWorld(t *testing.T) (w *functionstest.World, full string) {
	t.Helper()
	w = functionstest.New(t, projects.Bind, variables.Bind)
	full = w.Account("acme")
	w.Call(full, "POST", "/v1/projects", `{"name":"shop"}`).Want(200)
	return w, full
}

// makeOld gives the project's branch main its variable.
func makeOld(w *functionstest.World, key string) {
	w.Helper()
	w.Call(key, "POST", main, `{"name":"OLD","isSecret":false,"value":"old"}`).Want(201)
}

func onlyPreviews(p *auth.Permissions) { p.Environments = []environment.Kind{environment.Preview} }

func TestAnswers(t *testing.T) {
	w, full := newWorld(t)
	makeOld(w, full)
	reader := w.Key("acme", func(p *auth.Permissions) { p.Scopes = []auth.Scope{auth.Variables.Read(), auth.Projects.Write()} })
	readOnly := w.Key("acme", func(p *auth.Permissions) { p.Scopes = []auth.Scope{auth.Variables.Read()} })
	previews := w.Key("acme", onlyPreviews)
	otherProject := w.Key("acme", func(p *auth.Permissions) { p.Projects = []string{"other"} })
	otherAccount := w.Account("evil")
	w.Run(t, []functionstest.Case{
		{
			"a variable", full, "POST", main, `{"name":"A","isSecret":false,"value":"1"}`, 201,
			`{"name":"A","branch":"main","isSecret":false,"value":"1","createdOn":"2026-03-14T10:26:53.589Z","updatedOn":"2026-03-14T10:26:53.589Z"}`,
		},
		{
			"a secret is not echoed", full, "POST", main, `{"name":"A","isSecret":true,"value":"s3cret"}`, 201,
			`{"name":"A","branch":"main","isSecret":true,"value":"","createdOn":"2026-03-14T10:26:53.589Z","updatedOn":"2026-03-14T10:26:53.589Z"}`,
		},
		{
			"a branch with a slash", previews, "POST", feature, `{"name":"A","isSecret":false,"value":""}`, 201,
			`{"name":"A","branch":"feature/x","isSecret":false,"value":"","createdOn":"2026-03-14T10:26:53.589Z","updatedOn":"2026-03-14T10:26:53.589Z"}`,
		},
		{
			"another value", full, "PATCH", main + "/OLD", `{"value":"new"}`, 200,
			`{"name":"OLD","branch":"main","isSecret":false,"value":"new","createdOn":"2026-03-14T09:26:53.589Z","updatedOn":"2026-03-14T10:26:53.589Z"}`,
		},
		{
			"no value", full, "PATCH", main + "/OLD", `{"name":"ignored","isSecret":true}`, 200,
			`{"name":"OLD","branch":"main","isSecret":false,"value":"old","createdOn":"2026-03-14T09:26:53.589Z","updatedOn":"2026-03-14T09:26:53.589Z"}`,
		},
		{"a name in use", full, "POST", main, `{"name":"OLD","isSecret":false,"value":"1"}`, 409, "Update it"},
		{"a bad name", full, "POST", main, `{"name":"camelCase","isSecret":false,"value":"1"}`, 400, "name"},
		{"a reserved name", full, "POST", main, `{"name":"GATEWRIGHT_X","isSecret":false,"value":"1"}`, 400, "reserved"},
		{"a long value", full, "POST", main, `{"name":"A","isSecret":false,"value":"` + strings.Repeat("v", 5121) + `"}`, 400, "value"},
		{"a value of many bytes", full, "POST", main, `{"name":"A","isSecret":false,"value":"` + strings.Repeat("ä", 2561) + `"}`, 400, "value"},
		{"a NUL", full, "POST", main, `{"name":"A","isSecret":false,"value":"\u0000"}`, 400, "NUL"},
		{"a wrong type", full, "POST", main, `{"name":"A","isSecret":"yes","value":"1"}`, 400, "isSecret"},
		{"a missing field", full, "POST", main, `{"name":"A","value":"1"}`, 400, "isSecret"},
		{"no body", full, "POST", main, ``, 400, ""},
		{"a long branch", full, "POST", strings.Replace(main, "main", strings.Repeat("b", 256), 1), `{"name":"A","isSecret":false,"value":"1"}`, 400, "branchName"},
		{"a long new value", full, "PATCH", main + "/OLD", `{"value":"` + strings.Repeat("v", 5121) + `"}`, 400, "value"},
		{"an unknown variable", full, "PATCH", main + "/NEW", `{"value":"1"}`, 404, "variable"},
		{"an unknown project", full, "POST", gone, `{"name":"A","isSecret":false,"value":"1"}`, 404, "project"},
		{
			"the list", readOnly, "GET", main, "", 200,
			`{"data":[{"name":"OLD","branch":"main","isSecret":false,"value":"old","createdOn":"2026-03-14T09:26:53.589Z","updatedOn":"2026-03-14T09:26:53.589Z"}],"limit":1000,"offset":0,"total":1}`,
		},
		{"the list of a branch without any", readOnly, "GET", feature, "", 200, `{"data":[],"limit":1000,"offset":0,"total":0}`},
		{"a limit of 0", readOnly, "GET", main + "?limit=0", "", 400, "query.limit"},
		{"the list of a project that there is none of", readOnly, "GET", gone, "", 404, "project"},
		{"the list out of sight", previews, "GET", main, "", 404, "project"},
		{"another account's list", otherAccount, "GET", main, "", 404, "account"},
		{"a deletion without the scope", reader, "DELETE", main + "/OLD", "", 403, "variables:write"},
		{"a single one", readOnly, "GET", main + "/OLD", "", 200, `"value":"old"`},
		{"a single one that is not there", readOnly, "GET", main + "/NEW", "", 404, "variable"},
		{"a single one of no name", readOnly, "GET", main + "/camelCase", "", 404, "variable"},
		{"a single one out of sight", previews, "GET", main + "/OLD", "", 404, "variable"},
		{"a deletion", full, "DELETE", main + "/OLD", "", 204, ""},
		{"a deletion of what is not there", full, "DELETE", main + "/NEW", "", 404, "variable"},
		{"a deletion out of sight", previews, "DELETE", main + "/OLD", "", 404, "variable"},
		{"a deletion by who may only read", readOnly, "DELETE", main + "/OLD", "", 403, "variables:write"},
		{"no key", "", "POST", main, `{"name":"A","isSecret":false,"value":"1"}`, 401, ""},
		{"an unknown key", "garbage", "PATCH", main + "/OLD", `{"value":"1"}`, 401, ""},
		{"no scope", reader, "POST", main, `{"name":"A","isSecret":false,"value":"1"}`, 403, "variables:write"},
		{"no scope to update", reader, "PATCH", main + "/OLD", `{"value":"1"}`, 403, "variables:write"},
		{"another account's path", full, "POST", foreign, `{"name":"A","isSecret":false,"value":"1"}`, 404, "account"},
		{"another project's key", otherProject, "PATCH", main + "/OLD", `{"value":"1"}`, 404, "project"},
		{"another account's variable", otherAccount, "PATCH", strings.Replace(main, "acme", "evil", 1) + "/OLD", `{"value":"1"}`, 404, "variable"},
		{"an environment out of sight", previews, "POST", main, `{"name":"A","isSecret":false,"value":"1"}`, 404, "project"},
		{"a variable out of sight", previews, "PATCH", main + "/OLD", `{"value":"1"}`, 404, "variable"},
	})
}

func TestOutOfSightReadsLikeAbsent(t *testing.T) {
	w, full := newWorld(t)
	previews := w.Key("acme", onlyPreviews)
	without := w.Copy(t)
	makeOld(w, full)
	unseen := w.Copy(t).Call(previews, "PATCH", main+"/OLD", `{"value":"1"}`).Want(404)
	absent := without.Call(full, "PATCH", main+"/OLD", `{"value":"1"}`).Want(404)
	if unseen.Whole != absent.Whole {
		t.Errorf("unseen: %s\nabsent: %s", unseen.Whole, absent.Whole)
	}
}
