package environments_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/functions/deployments"
	"github.com/gatewright/gatewright/functions/environments"
	"github.com/gatewright/gatewright/functions/functionstest"
	"github.com/gatewright/gatewright/functions/projects"
	"github.com/gatewright/gatewright/functions/variables"
	"github.com/gatewright/gatewright/shared/core/auth"
	"github.com/gatewright/gatewright/shared/format/environment"
)

const (
	environmentsPath = "/v1/environments"
	shopListPath     = environmentsPath + "?accountName=acme&projectName=shop"
	branchesPath     = "/v1/accounts/acme/projects/shop/branches/"
)

// environmentBody returns the body of a request that creates an environment.
func environmentBody(project, branch, kind string) string {
	return `{"accountName":"acme","projectName":"` + project + `","branchName":"` + branch + `","environmentType":"` +
		kind + `"}`
}

// newFixture returns a fixture with two projects of acme. The project shop has environments for the branches main and
// feature/x, and the project blog has an environment for dev. mainName is the name of the environment of main.
func newFixture(t *testing.T) (fx *functionstest.Fixture, fullKey, mainName string) {
	t.Helper()
	fx = functionstest.New(t, projects.Bind, environments.Bind, variables.Bind, deployments.Bind)
	fullKey = fx.CreateAccount("acme")
	fx.Call(fullKey, "POST", "/v1/projects", `{"name":"shop"}`).Want(200)
	fx.Call(fullKey, "POST", "/v1/projects", `{"name":"blog"}`).Want(200)
	mainName = fx.Call(fullKey, "POST", environmentsPath, environmentBody("shop", "main", "production")).Want(200).
		JSON().Text("name")
	fx.Call(fullKey, "POST", environmentsPath, environmentBody("shop", "feature/x", "preview")).Want(200)
	fx.Call(fullKey, "POST", environmentsPath, environmentBody("blog", "dev", "preview")).Want(200)
	return fx, fullKey, mainName
}

// shopMainFields are the last fields of responses with the production environment of shop. featurePath is the path of a
// preview whose branch has a slash.
const (
	shopMainFields = `"accountName":"acme","projectName":"shop","branchName":"main","environmentType":"production"}`
	featurePath    = environmentsPath + "/feature%2Fx"
)

// create is a case that creates an environment. getAs is a case that reads a path.
func create(name, key, body string, status int, want string) functionstest.Case {
	return functionstest.Case{name, key, "POST", environmentsPath, body, status, want}
}

func getAs(name, key, path string, status int, want string) functionstest.Case {
	return functionstest.Case{name, key, "GET", path, "", status, want}
}

func TestResponses(t *testing.T) {
	fx, fullKey, mainName := newFixture(t)
	readerKey := fx.CreateKey("acme", func(p *auth.Permissions) { p.Scopes = []auth.Scope{auth.Deployments.Read()} })
	variablesKey := fx.CreateKey("acme", func(p *auth.Permissions) { p.Scopes = []auth.Scope{auth.Variables.Read()} })
	previewsKey := fx.CreateKey("acme", func(p *auth.Permissions) {
		p.Environments = []environment.Kind{environment.Preview}
	})
	blogKey := fx.CreateKey("acme", func(p *auth.Permissions) { p.Projects = []string{"blog"} })
	otherAccountKey := fx.CreateAccount("evil")
	get := func(name, path string, status int, want string) functionstest.Case {
		return getAs(name, readerKey, environmentsPath+path, status, want)
	}
	fx.Run(t, []functionstest.Case{
		create("an environment", fullKey, environmentBody("shop", "next", "preview"), 200,
			`"branchName":"next","environmentType":"preview"}`),
		create("branch with an environment", fullKey, environmentBody("shop", "main", "production"), 409,
			"has an environment already"),
		create("production for a branch of previews", fullKey, environmentBody("shop", "next", "production"), 400,
			"body.environmentType"),
		create("preview for a production branch", fullKey, environmentBody("shop", "production", "preview"), 400,
			"body.environmentType"),
		create("a working copy", fullKey, environmentBody("shop", "next", "development"), 400, "body.environmentType"),
		create("type in capitals", fullKey, environmentBody("shop", "next", "PREVIEW"), 400, "body.environmentType"),
		create("no branch", fullKey, environmentBody("shop", "", "preview"), 400, "body.branchName"),
		create("missing type", fullKey, `{"accountName":"acme","projectName":"shop","branchName":"next"}`, 400,
			"environmentType"),
		create("no body", fullKey, "", 400, "body"),
		create("missing project", fullKey, environmentBody("gone", "next", "preview"), 404, "project"),
		create("project that is hidden from the key", blogKey, environmentBody("shop", "next", "preview"), 404, "project"),
		create("type that is hidden from the key", previewsKey, environmentBody("shop", "production", "production"),
			404, "project"),
		create("creation in another account", otherAccountKey, environmentBody("shop", "next", "preview"), 404, "account"),
		create("creation without the scope", readerKey, environmentBody("shop", "next", "preview"), 403, "deployments:write"),
		create("creation without a key", "", environmentBody("shop", "next", "preview"), 401, ""),

		getAs("the list", readerKey, shopListPath, 200, `"total":2}`),
		getAs("the list of previews", previewsKey, shopListPath, 200, `"total":1}`),
		get("list without an account", "?projectName=shop", 200, `"total":2}`),
		getAs("a page", readerKey, shopListPath+"&limit=1&offset=1", 200, `"branchName":"feature/x"`),
		getAs("list without a project", readerKey, environmentsPath, 400, "query.projectName"),
		get("list with an empty project", "?projectName=", 400, "query.projectName"),
		get("list of a missing project", "?projectName=gone", 404, "project"),
		getAs("list of a hidden project", blogKey, shopListPath, 404, "project"),
		getAs("list of another account", otherAccountKey, shopListPath, 404, "account"),
		getAs("the list without the scope", variablesKey, shopListPath, 403, "deployments:read"),

		get("environment by name", "/"+mainName, 200,
			`{"name":"`+mainName+`","createdOn":"2026-03-14T09:26:53.589Z",`+shopMainFields),
		get("environment by branch", "/main", 200, shopMainFields),
		getAs("environment by a branch with a slash", readerKey, featurePath, 200, `"branchName":"feature/x"`),
		get("environment by branch and project", "/main?projectName=shop", 200, shopMainFields),
		get("environment by name in another project", "/"+mainName+"?projectName=blog", 404, "environment"),
		get("environment by branch in another project", "/main?projectName=blog", 404, "environment"),
		get("branch without an environment", "/gone", 404, "environment"),
		get("missing name", "/shop-main-0000000", 404, "environment"),
		get("name of 256 bytes", "/"+strings.Repeat("b", 256), 404, "environment"),
		get("name of 257 bytes", "/"+strings.Repeat("b", 257), 400, "path.environmentName"),
		getAs("hidden environment by name", previewsKey, environmentsPath+"/"+mainName, 404, "environment"),
		getAs("hidden environment by branch", previewsKey, environmentsPath+"/main", 404, "environment"),
		getAs("environment of a hidden project", blogKey, environmentsPath+"/"+mainName, 404, "environment"),
		getAs("environment of another account by name", otherAccountKey, environmentsPath+"/"+mainName, 404, "environment"),
		getAs("environment of another account by branch", otherAccountKey, environmentsPath+"/main", 404, "environment"),
		get("branch in another account", "/main?accountName=evil", 404, "account"),

		get("configuration", "/main/configurations", 200,
			`{"accountName":"acme","projectName":"shop","environmentType":"production","systemConfigurations":"ey`),
		getAs("a configuration of a preview", readerKey, featurePath+"/configurations", 200, `"environmentType":"preview"`),
		get("configuration of a missing environment", "/gone/configurations", 404, "environment"),
		getAs("configuration of a hidden environment", previewsKey, environmentsPath+"/main/configurations", 404,
			"environment"),
		getAs("a local configuration", variablesKey, environmentsPath+"/main/local-configurations", 200,
			`{"accountName":"acme","environmentType":"production","projectName":"shop","systemConfigurations":"ey`),
		getAs("local configuration of a missing environment", variablesKey, environmentsPath+"/gone/local-configurations",
			404, "environment"),
		getAs("local configuration of a hidden environment", previewsKey,
			environmentsPath+"/"+mainName+"/local-configurations", 404, "environment"),
		get("a local configuration without the scope", "/main/local-configurations", 403, "variables:read"),
	})
}

// TestLocalConfigurationContainsNoSecrets checks that the value of a secret is an empty string. Clients would crash if
// it were null. Variables of other branches must not be in the configuration.
func TestLocalConfigurationContainsNoSecrets(t *testing.T) {
	fx, fullKey, mainName := newFixture(t)
	for _, v := range []string{
		`{"name":"ORIGIN","isSecret":false,"value":"https://a.example"}`,
		`{"name":"EMPTY","isSecret":false,"value":""}`,
		`{"name":"TOKEN","isSecret":true,"value":"s3cret"}`,
	} {
		fx.Call(fullKey, "POST", branchesPath+"main/variables", v).Want(201)
	}
	fx.Call(fullKey, "POST", branchesPath+"other/variables", `{"name":"OTHER","isSecret":false,"value":"x"}`).Want(201)
	for _, name := range []string{mainName, "main"} {
		resp := fx.Call(fullKey, "GET", environmentsPath+"/"+name+"/local-configurations", "").Want(200)
		var got map[string]*string
		if err := json.Unmarshal([]byte(resp.Body), &got); err != nil {
			t.Fatal(err)
		}
		for name, want := range map[string]string{
			"accountName": "acme", "projectName": "shop", "environmentType": "production", "ORIGIN": "https://a.example",
			"EMPTY": "", "TOKEN": "",
		} {
			if got[name] == nil || *got[name] != want {
				t.Errorf("local configuration = %s, want %s = %q", resp.Body, name, want)
			}
		}
		if len(got) != 7 || strings.Contains(resp.Body, "s3cret") {
			t.Errorf("local configuration = %s, want 7 fields without the secret value", resp.Body)
		}
	}
}

func TestAmbiguousBranchNeedsProjectName(t *testing.T) {
	fx, fullKey, _ := newFixture(t)
	fx.Call(fullKey, "POST", environmentsPath, environmentBody("blog", "main", "production")).Want(200)
	blogKey := fx.CreateKey("acme", func(p *auth.Permissions) { p.Projects = []string{"blog"} })
	fx.Call(fullKey, "GET", environmentsPath+"/main", "").Want(409, "projectName")
	fx.Call(fullKey, "GET", environmentsPath+"/main?projectName=blog", "").Want(200, `"projectName":"blog"`)
	fx.Call(blogKey, "GET", environmentsPath+"/main", "").Want(200, `"projectName":"blog"`)
}

func TestProductionIsListedFirst(t *testing.T) {
	fx, fullKey, _ := newFixture(t)
	fx.Call(fullKey, "POST", environmentsPath, environmentBody("shop", "a", "preview")).Want(200)
	got := fx.Call(fullKey, "GET", shopListPath, "").Want(200).JSON().Texts("data", "branchName")
	if want := []string{"main", "a", "feature/x"}; !slices.Equal(got, want) {
		t.Errorf("GET %s: branches = %q, want %q", shopListPath, got, want)
	}
}

// TestUploadUsesExistingEnvironment checks that an upload uses the existing environment of its branch, because clients
// may already use its name.
func TestUploadUsesExistingEnvironment(t *testing.T) {
	fx, fullKey, mainName := newFixture(t)
	fx.Call(fullKey, "POST", "/v1/deployments/sources",
		`{"accountName":"acme","projectName":"shop","branchName":"main"}`).Want(200)
	fx.Call(fullKey, "POST", "/v1/deployments/sources",
		`{"accountName":"acme","projectName":"shop","branchName":"new"}`).Want(200)
	fx.Call(fullKey, "GET", environmentsPath+"/main", "").Want(200, `"name":"`+mainName+`"`)
	fx.Call(fullKey, "GET", environmentsPath+"/new", "").Want(200, `"environmentType":"preview"`)
}
