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
	"github.com/gatewright/gatewright/shared/auth"
	"github.com/gatewright/gatewright/shared/environment"
)

const (
	all         = "/v1/environments"
	ofShop      = all + "?accountName=acme&projectName=shop"
	ofVariables = "/v1/accounts/acme/projects/shop/branches/"
)

func body(project, branch, kind string) string {
	return `{"accountName":"acme","projectName":"` + project + `","branchName":"` + branch + `","environmentType":"` + kind + `"}`
}

// newWorld makes a world in which acme's project shop has environments of main and
// of feature/x, and the project blog one of dev.
func newWorld(t *testing.T) (w *functionstest.World, full, main string) {
	t.Helper()
	w = functionstest.New(t, projects.Bind, environments.Bind, variables.Bind, deployments.Bind)
	full = w.Account("acme")
	w.Call(full, "POST", "/v1/projects", `{"name":"shop"}`).Want(200)
	w.Call(full, "POST", "/v1/projects", `{"name":"blog"}`).Want(200)
	main = w.Call(full, "POST", all, body("shop", "main", "production")).Want(200).JSON().Text("name")
	w.Call(full, "POST", all, body("shop", "feature/x", "preview")).Want(200)
	w.Call(full, "POST", all, body("blog", "dev", "preview")).Want(200)
	return w, full, main
}

func TestAnswers(t *testing.T) {
	w, full, main := newWorld(t)
	reader := w.Key("acme", func(p *auth.Permissions) { p.Scopes = []auth.Scope{auth.Deployments.Read()} })
	values := w.Key("acme", func(p *auth.Permissions) { p.Scopes = []auth.Scope{auth.Variables.Read()} })
	previews := w.Key("acme", func(p *auth.Permissions) { p.Environments = []environment.Kind{environment.Preview} })
	blog := w.Key("acme", func(p *auth.Permissions) { p.Projects = []string{"blog"} })
	other := w.Account("evil")
	const (
		shopMain = `"accountName":"acme","projectName":"shop","branchName":"main","environmentType":"production"}`
		feature  = all + "/feature%2Fx"
	)
	w.Run(t, []functionstest.Case{
		{"an environment", full, "POST", all, body("shop", "next", "preview"), 200, `"branchName":"next","environmentType":"preview"}`},
		{"a branch that has one", full, "POST", all, body("shop", "main", "production"), 409, "has an environment already"},
		{"another kind than the branch's", full, "POST", all, body("shop", "next", "production"), 400, "body.environmentType"},
		{"production under another kind", full, "POST", all, body("shop", "production", "preview"), 400, "body.environmentType"},
		{"a working copy", full, "POST", all, body("shop", "next", "development"), 400, "body.environmentType"},
		{"a kind in capitals", full, "POST", all, body("shop", "next", "PREVIEW"), 400, "body.environmentType"},
		{"no branch", full, "POST", all, body("shop", "", "preview"), 400, "body.branchName"},
		{"no kind", full, "POST", all, `{"accountName":"acme","projectName":"shop","branchName":"next"}`, 400, "environmentType"},
		{"no body", full, "POST", all, "", 400, "body"},
		{"a project that there is none of", full, "POST", all, body("gone", "next", "preview"), 404, "project"},
		{"a project out of sight", blog, "POST", all, body("shop", "next", "preview"), 404, "project"},
		{"a kind out of sight", previews, "POST", all, body("shop", "production", "production"), 404, "project"},
		{"another account's", other, "POST", all, body("shop", "next", "preview"), 404, "account"},
		{"without the scope", reader, "POST", all, body("shop", "next", "preview"), 403, "deployments:write"},
		{"by nobody", "", "POST", all, body("shop", "next", "preview"), 401, ""},

		{"the list", reader, "GET", ofShop, "", 200, `"total":2}`},
		{"the list of previews", previews, "GET", ofShop, "", 200, `"total":1}`},
		{"the list of the key's own account", reader, "GET", all + "?projectName=shop", "", 200, `"total":2}`},
		{"a page", reader, "GET", ofShop + "&limit=1&offset=1", "", 200, `"branchName":"feature/x"`},
		{"the list of no project", reader, "GET", all, "", 400, "query.projectName"},
		{"the list of an empty name", reader, "GET", all + "?projectName=", "", 400, "query.projectName"},
		{"the list of a project that there is none of", reader, "GET", all + "?projectName=gone", "", 404, "project"},
		{"the list of a project out of sight", blog, "GET", ofShop, "", 404, "project"},
		{"another account's list", other, "GET", ofShop, "", 404, "account"},
		{"the list without the scope", values, "GET", ofShop, "", 403, "deployments:read"},

		{"one by its name", reader, "GET", all + "/" + main, "", 200, `{"name":"` + main + `","createdOn":"2026-03-14T09:26:53.589Z",` + shopMain},
		{"one by its branch", reader, "GET", all + "/main", "", 200, shopMain},
		{"one by a branch with a slash", reader, "GET", feature, "", 200, `"branchName":"feature/x"`},
		{"one by its branch, in its project", reader, "GET", all + "/main?projectName=shop", "", 200, shopMain},
		{"one by its name, in another project", reader, "GET", all + "/" + main + "?projectName=blog", "", 404, "environment"},
		{"one by its branch, in another project", reader, "GET", all + "/main?projectName=blog", "", 404, "environment"},
		{"a branch without one", reader, "GET", all + "/gone", "", 404, "environment"},
		{"a name that none has", reader, "GET", all + "/shop-main-0000000", "", 404, "environment"},
		{"no name at all", reader, "GET", all + "/" + strings.Repeat("b", 256), "", 404, "environment"},
		{"too long a name", reader, "GET", all + "/" + strings.Repeat("b", 257), "", 400, "path.environmentName"},
		{"one out of sight by its name", previews, "GET", all + "/" + main, "", 404, "environment"},
		{"one out of sight by its branch", previews, "GET", all + "/main", "", 404, "environment"},
		{"one of a project out of sight", blog, "GET", all + "/" + main, "", 404, "environment"},
		{"another account's by its name", other, "GET", all + "/" + main, "", 404, "environment"},
		{"another account's by its branch", other, "GET", all + "/main", "", 404, "environment"},
		{"one of another account's name", reader, "GET", all + "/main?accountName=evil", "", 404, "account"},

		{"a configuration", reader, "GET", all + "/main/configurations", "", 200, `{"accountName":"acme","projectName":"shop","environmentType":"production","systemConfigurations":"ey`},
		{"a configuration of a preview", reader, "GET", feature + "/configurations", "", 200, `"environmentType":"preview"`},
		{"a configuration of none", reader, "GET", all + "/gone/configurations", "", 404, "environment"},
		{"a configuration out of sight", previews, "GET", all + "/main/configurations", "", 404, "environment"},
		{"a local configuration", values, "GET", all + "/main/local-configurations", "", 200, `{"accountName":"acme","environmentType":"production","projectName":"shop","systemConfigurations":"ey`},
		{"a local configuration of none", values, "GET", all + "/gone/local-configurations", "", 404, "environment"},
		{"a local configuration out of sight", previews, "GET", all + "/" + main + "/local-configurations", "", 404, "environment"},
		{"a local configuration without the scope", reader, "GET", all + "/main/local-configurations", "", 403, "variables:read"},
	})
}

// TestLocalConfigurationIsStringsAndNoSecret: a null crashes clients.
func TestLocalConfigurationIsStringsAndNoSecret(t *testing.T) {
	w, full, main := newWorld(t)
	for _, v := range []string{
		`{"name":"ORIGIN","isSecret":false,"value":"https://a.example"}`,
		`{"name":"EMPTY","isSecret":false,"value":""}`,
		`{"name":"TOKEN","isSecret":true,"value":"s3cret"}`,
	} {
		w.Call(full, "POST", ofVariables+"main/variables", v).Want(201)
	}
	w.Call(full, "POST", ofVariables+"other/variables", `{"name":"OTHER","isSecret":false,"value":"x"}`).Want(201)
	for _, name := range []string{main, "main"} {
		answer := w.Call(full, "GET", all+"/"+name+"/local-configurations", "").Want(200)
		var got map[string]*string
		if err := json.Unmarshal([]byte(answer.Body), &got); err != nil {
			t.Fatal(err)
		}
		for name, want := range map[string]string{
			"accountName": "acme", "projectName": "shop", "environmentType": "production", "ORIGIN": "https://a.example", "EMPTY": "", "TOKEN": "",
		} {
			if got[name] == nil || *got[name] != want {
				t.Errorf("%s of %s", name, answer.Body)
			}
		}
		if len(got) != 7 || strings.Contains(answer.Body, "s3cret") {
			t.Errorf("answered %s", answer.Body)
		}
	}
}

func TestBranchOfSeveralProjectsIsToBeNamedWithItsOwn(t *testing.T) {
	w, full, _ := newWorld(t)
	w.Call(full, "POST", all, body("blog", "main", "production")).Want(200)
	blog := w.Key("acme", func(p *auth.Permissions) { p.Projects = []string{"blog"} })
	w.Call(full, "GET", all+"/main", "").Want(409, "projectName")
	w.Call(full, "GET", all+"/main?projectName=blog", "").Want(200, `"projectName":"blog"`)
	w.Call(blog, "GET", all+"/main", "").Want(200, `"projectName":"blog"`)
}

func TestProductionIsListedFirst(t *testing.T) {
	w, full, _ := newWorld(t)
	w.Call(full, "POST", all, body("shop", "a", "preview")).Want(200)
	got := w.Call(full, "GET", ofShop, "").Want(200).JSON().Texts("data", "branchName")
	if want := []string{"main", "a", "feature/x"}; !slices.Equal(got, want) {
		t.Errorf("listed %q, want %q", got, want)
	}
}

// TestUploadTakesTheEnvironmentThatIsThere: its name was told to somebody.
func TestUploadTakesTheEnvironmentThatIsThere(t *testing.T) {
	w, full, main := newWorld(t)
	w.Call(full, "POST", "/v1/deployments/sources", `{"accountName":"acme","projectName":"shop","branchName":"main"}`).Want(200)
	w.Call(full, "POST", "/v1/deployments/sources", `{"accountName":"acme","projectName":"shop","branchName":"new"}`).Want(200)
	w.Call(full, "GET", all+"/main", "").Want(200, `"name":"`+main+`"`)
	w.Call(full, "GET", all+"/new", "").Want(200, `"environmentType":"preview"`)
}
