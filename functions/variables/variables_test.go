package variables_test

import (
	"strings"
	"testing"

	"github.com/gatewright/gatewright/functions/functionstest"
	"github.com/gatewright/gatewright/functions/projects"
	"github.com/gatewright/gatewright/functions/variables"
	"github.com/gatewright/gatewright/shared/core/auth"
	"github.com/gatewright/gatewright/shared/format/environment"
)

const (
	mainPath           = "/v1/accounts/acme/projects/shop/branches/main/variables"
	featurePath        = "/v1/accounts/acme/projects/shop/branches/feature%2Fx/variables"
	missingProjectPath = "/v1/accounts/acme/projects/gone/branches/main/variables"
	foreignPath        = "/v1/accounts/evil/projects/shop/branches/main/variables"
)

// newFixture returns a fixture whose account acme has the project shop.
func newFixture(t *testing.T) (fx *functionstest.Fixture, fullKey string) {
	t.Helper()
	fx = functionstest.New(t, projects.Bind, variables.Bind)
	fullKey = fx.CreateAccount("acme")
	fx.Call(fullKey, "POST", "/v1/projects", `{"name":"shop"}`).Want(200)
	return fx, fullKey
}

// createOldVariable creates a variable of the branch main of shop, an hour before the requests of the cases.
func createOldVariable(fx *functionstest.Fixture, key string) {
	fx.Helper()
	fx.Call(key, "POST", mainPath, `{"name":"OLD","isSecret":false,"value":"old"}`).Want(201)
}

func limitToPreviews(p *auth.Permissions) { p.Environments = []environment.Kind{environment.Preview} }

const (
	// variableBody is the body of a request that creates a variable.
	variableBody = `{"name":"A","isSecret":false,"value":"1"}`
	// createdNow, updatedNow and unchanged are the ends of responses with a variable that is new, that was changed, and
	// that was not changed.
	createdNow = `"createdOn":"2026-03-14T10:26:53.589Z","updatedOn":"2026-03-14T10:26:53.589Z"}`
	updatedNow = `"createdOn":"2026-03-14T09:26:53.589Z","updatedOn":"2026-03-14T10:26:53.589Z"}`
	unchanged  = `"createdOn":"2026-03-14T09:26:53.589Z","updatedOn":"2026-03-14T09:26:53.589Z"}`
)

func TestResponses(t *testing.T) {
	fx, fullKey := newFixture(t)
	createOldVariable(fx, fullKey)
	projectsWriterKey := fx.CreateKey("acme", func(p *auth.Permissions) {
		p.Scopes = []auth.Scope{auth.Variables.Read(), auth.Projects.Write()}
	})
	readerKey := fx.CreateKey("acme", func(p *auth.Permissions) { p.Scopes = []auth.Scope{auth.Variables.Read()} })
	previewsKey, otherAccountKey := fx.CreateKey("acme", limitToPreviews), fx.CreateAccount("evil")
	otherProjectKey := fx.CreateKey("acme", func(p *auth.Permissions) { p.Projects = []string{"other"} })
	create := func(name, key, body string, status int, want string) functionstest.Case {
		return functionstest.Case{name, key, "POST", mainPath, body, status, want}
	}
	update := func(name, key, body string, status int, want string) functionstest.Case {
		return functionstest.Case{name, key, "PATCH", mainPath + "/OLD", body, status, want}
	}
	fx.Run(t, []functionstest.Case{
		create("a variable", fullKey, variableBody, 201,
			`{"name":"A","branch":"main","isSecret":false,"value":"1",`+createdNow),
		create("secret", fullKey, `{"name":"A","isSecret":true,"value":"s3cret"}`, 201,
			`{"name":"A","branch":"main","isSecret":true,"value":"",`+createdNow),
		{
			"a branch with a slash", previewsKey, "POST", featurePath, `{"name":"A","isSecret":false,"value":""}`, 201,
			`{"name":"A","branch":"feature/x","isSecret":false,"value":"",` + createdNow,
		},
		update("another value", fullKey, `{"value":"new"}`, 200,
			`{"name":"OLD","branch":"main","isSecret":false,"value":"new",`+updatedNow),
		update("change without a value", fullKey, `{"name":"ignored","isSecret":true}`, 200,
			`{"name":"OLD","branch":"main","isSecret":false,"value":"old",`+unchanged),
		create("a name in use", fullKey, `{"name":"OLD","isSecret":false,"value":"1"}`, 409, "Update it"),
		create("invalid name", fullKey, `{"name":"camelCase","isSecret":false,"value":"1"}`, 400, "name"),
		create("a reserved name", fullKey, `{"name":"GATEWRIGHT_X","isSecret":false,"value":"1"}`, 400, "reserved"),
		create("a long value", fullKey, `{"name":"A","isSecret":false,"value":"`+strings.Repeat("v", 5121)+`"}`, 400,
			"value"),
		create("value of 5122 bytes in 2561 characters", fullKey,
			`{"name":"A","isSecret":false,"value":"`+strings.Repeat("ä", 2561)+`"}`, 400, "value"),
		create("a NUL", fullKey, `{"name":"A","isSecret":false,"value":"\u0000"}`, 400, "NUL"),
		create("a wrong type", fullKey, `{"name":"A","isSecret":"yes","value":"1"}`, 400, "isSecret"),
		create("no isSecret", fullKey, `{"name":"A","value":"1"}`, 400, "isSecret"),
		create("no body", fullKey, ``, 400, ""),
		{
			"a long branch", fullKey, "POST", strings.Replace(mainPath, "main", strings.Repeat("b", 256), 1), variableBody, 400,
			"branchName",
		},
		update("a long new value", fullKey, `{"value":"`+strings.Repeat("v", 5121)+`"}`, 400, "value"),
		{"an unknown variable", fullKey, "PATCH", mainPath + "/NEW", `{"value":"1"}`, 404, "variable"},
		{"an unknown project", fullKey, "POST", missingProjectPath, variableBody, 404, "project"},
		{
			"the list", readerKey, "GET", mainPath, "", 200,
			`{"data":[{"name":"OLD","branch":"main","isSecret":false,` +
				`"value":"old",` + unchanged + `],"limit":1000,"offset":0,"total":1}`,
		},
		{
			"list of a branch without variables", readerKey, "GET", featurePath, "", 200,
			`{"data":[],"limit":1000,"offset":0,"total":0}`,
		},
		{"a limit of 0", readerKey, "GET", mainPath + "?limit=0", "", 400, "query.limit"},
		{"list of a missing project", readerKey, "GET", missingProjectPath, "", 404, "project"},
		{"list of a hidden environment", previewsKey, "GET", mainPath, "", 404, "project"},
		{"list of another account", otherAccountKey, "GET", mainPath, "", 404, "account"},
		{"a deletion without the scope", projectsWriterKey, "DELETE", mainPath + "/OLD", "", 403, "variables:write"},
		{"single variable", readerKey, "GET", mainPath + "/OLD", "", 200, `"value":"old"`},
		{"missing variable", readerKey, "GET", mainPath + "/NEW", "", 404, "variable"},
		{"variable with an invalid name", readerKey, "GET", mainPath + "/camelCase", "", 404, "variable"},
		{"variable of a hidden environment", previewsKey, "GET", mainPath + "/OLD", "", 404, "variable"},
		{"a deletion", fullKey, "DELETE", mainPath + "/OLD", "", 204, ""},
		{"deletion of a missing variable", fullKey, "DELETE", mainPath + "/NEW", "", 404, "variable"},
		{"deletion in a hidden environment", previewsKey, "DELETE", mainPath + "/OLD", "", 404, "variable"},
		{"deletion by a reader key", readerKey, "DELETE", mainPath + "/OLD", "", 403, "variables:write"},
		create("no key", "", variableBody, 401, ""),
		update("an unknown key", "garbage", `{"value":"1"}`, 401, ""),
		create("creation without the scope", projectsWriterKey, variableBody, 403, "variables:write"),
		update("update without the scope", projectsWriterKey, `{"value":"1"}`, 403, "variables:write"),
		{"creation in another account", fullKey, "POST", foreignPath, variableBody, 404, "account"},
		update("update with a key of another project", otherProjectKey, `{"value":"1"}`, 404, "project"),
		{
			"update of another account's variable", otherAccountKey, "PATCH",
			strings.Replace(mainPath, "acme", "evil", 1) + "/OLD", `{"value":"1"}`, 404, "variable",
		},
		create("creation in a hidden environment", previewsKey, variableBody, 404, "project"),
		update("update in a hidden environment", previewsKey, `{"value":"1"}`, 404, "variable"),
	})
}

func TestHiddenVariableLooksMissing(t *testing.T) {
	fx, fullKey := newFixture(t)
	previewsKey := fx.CreateKey("acme", limitToPreviews)
	withoutVariable := fx.Copy(t)
	createOldVariable(fx, fullKey)
	hidden := fx.Copy(t).Call(previewsKey, "PATCH", mainPath+"/OLD", `{"value":"1"}`).Want(404)
	missing := withoutVariable.Call(fullKey, "PATCH", mainPath+"/OLD", `{"value":"1"}`).Want(404)
	if hidden.Dump != missing.Dump {
		t.Errorf("PATCH of a hidden variable =\n%s\nwant the same as for a missing one\n%s", hidden.Dump, missing.Dump)
	}
}
