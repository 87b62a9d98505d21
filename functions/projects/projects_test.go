package projects_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/functions/functionstest"
	"github.com/gatewright/gatewright/functions/keybuckets"
	"github.com/gatewright/gatewright/functions/projects"
	"github.com/gatewright/gatewright/shared/auth"
	"github.com/gatewright/gatewright/shared/environment"
)

const (
	all     = "/v1/projects"
	shop    = "/v1/accounts/acme/projects/shop"
	buckets = "/v1/accounts/acme/key-buckets"
)

// newWorld makes a world in which acme has the projects shop, blog and docs.
func newWorld(t *testing.T) (w *functionstest.World, full string) {
	t.Helper()
	w = functionstest.New(t, keybuckets.Bind, projects.Bind)
	full = w.Account("acme")
	for _, name := range []string{"shop", "blog", "docs"} {
		w.Call(full, "POST", all, `{"name":"`+name+`"}`).Want(200)
	}
	return w, full
}

func TestProjects(t *testing.T) {
	w, full := newWorld(t)
	reader := w.Key("acme", func(p *auth.Permissions) { p.Scopes = []auth.Scope{auth.Projects.Read()} })
	noScope := w.Key("acme", func(p *auth.Permissions) { p.Scopes = []auth.Scope{auth.Deployments.Write()} })
	shopAndNew := w.Key("acme", func(p *auth.Permissions) { p.Projects = []string{"shop", "new"} })
	none := w.Key("acme", func(p *auth.Permissions) { p.Projects, p.Environments = []string{}, []environment.Kind{} })
	previews := w.Key("acme", func(p *auth.Permissions) { p.Environments = []environment.Kind{environment.Preview} })
	other := w.Account("evil")
	const (
		made = `","name":"new","accountName":"acme","type":"managed-edge","productType":"api-gateway",` +
			`"createdOn":"2026-03-14T10:26:53.589Z","updatedOn":"2026-03-14T10:26:53.589Z"}`
		badName = "Choose another name"
		empty   = `{"data":[],"limit":1000,"offset":0,"total":0}`
	)
	longest := strings.Repeat("p", 63)
	w.Run(t, []functionstest.Case{
		{"a project", full, "POST", all, `{"name":"new"}`, 200, made},
		{"a project, with a slash", full, "POST", all + "/", `{"name":"new"}`, 200, made},
		{"a project of the named account", full, "POST", all + "?accountName=acme", `{"name":"new"}`, 200, made},
		{"an encoded account", full, "POST", all + "?accountName=ac%6De", `{"name":"new"}`, 200, made},
		{"an empty account is the key's own", full, "POST", all + "?accountName=", `{"name":"new"}`, 200, made},
		{"unknown fields are ignored", full, "POST", all, `{"name":"new","id":"mine","accountName":"evil","type":"self-hosted","createdOn":"never"}`, 200, made},
		{"a project of the key's", shopAndNew, "POST", all, `{"name":"new"}`, 200, made},
		{"a project by a key of one kind of environment", previews, "POST", all, `{"name":"new"}`, 200, made},
		{"the shortest name", full, "POST", all, `{"name":"0"}`, 200, `"name":"0"`},
		{"the longest name", full, "POST", all, `{"name":"` + longest + `"}`, 200, longest},
		{"a name in use", full, "POST", all, `{"name":"shop"}`, 422, badName},
		{"a name in use by another account", other, "POST", all, `{"name":"shop"}`, 200, `"accountName":"evil"`},
		{"an empty name", full, "POST", all, `{"name":""}`, 422, badName},
		{"a capital", full, "POST", all, `{"name":"New"}`, 422, badName},
		{"an underscore", full, "POST", all, `{"name":"n_w"}`, 422, badName},
		{"a slash", full, "POST", all, `{"name":"n/w"}`, 422, badName},
		{"a hyphen at the end", full, "POST", all, `{"name":"new-"}`, 422, badName},
		{"a hyphen at the beginning", full, "POST", all, `{"name":"-new"}`, 422, badName},
		{"a name that is too long", full, "POST", all, `{"name":"p` + longest + `"}`, 422, badName},
		{"a name that is no name", full, "POST", all, `{"name":"` + strings.Repeat("p", 1025) + `"}`, 400, "body.name"},
		{"a name of another type", full, "POST", all, `{"name":17}`, 400, "body.name"},
		{"a name of null", full, "POST", all, `{"name":null}`, 400, "body.name"},
		{"no name", full, "POST", all, `{}`, 400, "name to be present"},
		{"a list", full, "POST", all, `[{"name":"new"}]`, 400, "expected object"},
		{"no body", full, "POST", all, "", 400, "body"},
		{"no JSON", full, "POST", all, `{"name":`, 400, "JSON"},
		{"a NUL", full, "POST", all, `{"name":"\u0000"}`, 400, "NUL"},
		{"another account's project", full, "POST", all + "?accountName=evil", `{"name":"new"}`, 404, "account"},
		{"a project that is none of the key's", shopAndNew, "POST", all, `{"name":"blog-next"}`, 403, "limited to some projects"},
		{"a project in use that is none of the key's", shopAndNew, "POST", all, `{"name":"blog"}`, 403, "limited to some projects"},
		{"a project by a key of none", none, "POST", all, `{"name":"new"}`, 403, "limited to some projects"},
		{"a project without the scope", reader, "POST", all, `{"name":"new"}`, 403, "projects:write"},
		{"a project by nobody", "", "POST", all, `{"name":"new"}`, 401, "Bearer"},

		{"the list", reader, "GET", all, "", 200, `"limit":1000,"offset":0,"total":3}`},
		{"the list with a slash", reader, "GET", all + "/?accountName=acme", "", 200, `"total":3}`},
		{"a page", reader, "GET", all + "?limit=1&offset=1", "", 200, `"name":"docs","accountName":"acme","type":"managed-edge"`},
		{"a page tells its bounds", reader, "GET", all + "?limit=1&offset=1", "", 200, `"limit":1,"offset":1,"total":3}`},
		{"a page after the last", reader, "GET", all + "?offset=3", "", 200, `{"data":[],"limit":1000,"offset":3,"total":3}`},
		{"a limit over the most", reader, "GET", all + "?limit=1001", "", 200, `"limit":1000,`},
		{"a limit of 0", reader, "GET", all + "?limit=0", "", 400, "query.limit"},
		{"a limit that is no number", reader, "GET", all + "?limit=ten", "", 400, "query.limit"},
		{"an offset below 0", reader, "GET", all + "?offset=-1", "", 400, "query.offset"},
		{"an offset with a fraction", reader, "GET", all + "?offset=0.5", "", 400, "query.offset"},
		{"the list of a limited key", shopAndNew, "GET", all, "", 200, `"limit":1000,"offset":0,"total":1}`},
		{"the list of a key of no project", none, "GET", all, "", 200, empty},
		{"the list of a key of one kind of environment", previews, "GET", all, "", 200, `"total":3}`},
		{"another account's list", reader, "GET", all + "?accountName=evil", "", 404, "account"},
		{"no account of that name", reader, "GET", all + "?accountName=a%2Fb", "", 404, "account"},
		{"an account's name that is none", reader, "GET", all + "?accountName=" + strings.Repeat("a", 257), "", 400, "query.accountName"},
		{"an account with nothing", other, "GET", all, "", 200, empty},
		{"the list without the scope", noScope, "GET", all, "", 403, "projects:read"},
		{"the list by nobody", "", "GET", all, "", 401, "Bearer"},

		{"a single project is not below the list", full, "GET", all + "/shop", "", 404, "There is no such operation"},
		{"a single project", reader, "GET", shop, "", 200, `"name":"shop"`},
		{"a single project of a key of one kind of environment", previews, "GET", shop, "", 200, `"name":"shop"`},
		{"no project of the name", reader, "GET", shop + "-next", "", 404, "project"},
		{"no name of a project", reader, "GET", shop + "_", "", 404, "project"},
		{"a project out of sight", none, "GET", shop, "", 404, "project"},
		{"another account's project by its path", other, "GET", shop, "", 404, "account"},
		{"a project without the scope to read", noScope, "GET", shop, "", 403, "projects:read"},
		{"a deletion", full, "DELETE", shop, "", 200, `"status":"in-progress","message":"The project is being deleted."}`},
		{"a deletion by a key of the project alone", shopAndNew, "DELETE", shop, "", 200, "in-progress"},
		{"a deletion by a key of one kind of environment", previews, "DELETE", shop, "", 403, "all environments"},
		{"a deletion of nothing by a key of one kind of environment", previews, "DELETE", shop + "-next", "", 404, "project"},
		{"a deletion of no project", full, "DELETE", shop + "-next", "", 404, "project"},
		{"a deletion of a project out of sight", shopAndNew, "DELETE", "/v1/accounts/acme/projects/blog", "", 404, "project"},
		{"a deletion by another account", other, "DELETE", shop, "", 404, "account"},
		{"a deletion by who may only read", reader, "DELETE", shop, "", 403, "projects:write"},
		{"a deletion by nobody", "", "DELETE", shop, "", 401, "Bearer"},
		{"no operation", full, "GET", shop + "/operations/pdel_0123456789abcdefABCDEFgh", "", 404, "operation"},
		{"no id of an operation", full, "GET", shop + "/operations/" + strings.Repeat("x", 257), "", 400, "path.operationId"},
	})
	w.Call(full, "DELETE", all, "").Want(405, "does not take DELETE").WantHeader("Allow", "GET, HEAD, POST")
}

func TestProjectsAreListedInTheOrderOfTheirNames(t *testing.T) {
	w, full := newWorld(t)
	got := w.Call(full, "GET", all, "").Want(200).JSON().Texts("data", "name")
	if want := []string{"blog", "docs", "shop"}; !slices.Equal(got, want) {
		t.Errorf("listed are %q, want %q", got, want)
	}
}

func TestProjectHasABucketForEachKindOfEnvironment(t *testing.T) {
	w, full := newWorld(t)
	w.Call(full, "POST", all, `{"name":"new"}`).Want(200)
	for bucket, kind := range map[string]string{
		"new-production": "PRODUCTION", "new-preview": "PREVIEW", "new-working-copy": "WORKING_COPY",
	} {
		w.Call(full, "GET", buckets+"/"+bucket, "").Want(200, `"environmentType":"`+kind+`"`, `"project":"new"`)
	}
}

// TestRefusedProjectLeavesNothing: neither itself nor a bucket.
func TestRefusedProjectLeavesNothing(t *testing.T) {
	w, full := newWorld(t)
	before := w.Call(full, "GET", buckets, "").Want(200).Body
	w.Call(full, "POST", all, `{"name":"shop"}`).Want(422)
	w.Call(full, "POST", all, `{"name":"New"}`).Want(422)
	w.Call(full, "GET", all, "").Want(200, `"total":3}`)
	w.Call(full, "GET", buckets, "").Want(200, strings.TrimSpace(before))
}

// TestBucketThatIsThereBecomesTheProjects: what made it, such as an earlier
// project of the name, has keys in use.
func TestBucketThatIsThereBecomesTheProjects(t *testing.T) {
	w, full := newWorld(t)
	made := w.Call(full, "POST", buckets, `{"name":"new-production","description":"ours","tags":{"project":"new","environmentType":"PRODUCTION"}}`).Want(200).JSON().Text("id")
	w.Call(full, "POST", all, `{"name":"new"}`).Want(200)
	w.Call(full, "GET", buckets+"/new-production", "").Want(200, made, `"description":"ours"`)
	w.Call(full, "GET", buckets+"/new-preview", "").Want(200, `"project":"new"`)
}
