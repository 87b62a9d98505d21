package projects_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/functions/functionstest"
	"github.com/gatewright/gatewright/functions/keybuckets"
	"github.com/gatewright/gatewright/functions/projects"
	"github.com/gatewright/gatewright/shared/core/auth"
	"github.com/gatewright/gatewright/shared/format/environment"
)

const (
	projectsPath = "/v1/projects"
	shopPath     = "/v1/accounts/acme/projects/shop"
	bucketsPath  = "/v1/accounts/acme/key-buckets"
)

// newFixture returns a fixture whose account acme has the projects shop, blog and docs.
func newFixture(t *testing.T) (fx *functionstest.Fixture, fullKey string) {
	t.Helper()
	fx = functionstest.New(t, keybuckets.Bind, projects.Bind)
	fullKey = fx.CreateAccount("acme")
	for _, name := range []string{"shop", "blog", "docs"} {
		fx.Call(fullKey, "POST", projectsPath, `{"name":"`+name+`"}`).Want(200)
	}
	return fx, fullKey
}

// callers has an account key for each kind of caller.
type callers struct {
	fullKey, readerKey, noScopeKey string // with all scopes, with only the scope for reading, and with an unrelated scope
	twoProjectsKey, noProjectKey   string // limited to two projects, and to no project
	previewsKey                    string // limited to preview environments
	otherAccountKey                string // of another account
}

func TestResponses(t *testing.T) {
	fx, fullKey := newFixture(t)
	c := callers{
		fullKey:        fullKey,
		readerKey:      fx.CreateKey("acme", func(p *auth.Permissions) { p.Scopes = []auth.Scope{auth.Projects.Read()} }),
		noScopeKey:     fx.CreateKey("acme", func(p *auth.Permissions) { p.Scopes = []auth.Scope{auth.Deployments.Write()} }),
		twoProjectsKey: fx.CreateKey("acme", func(p *auth.Permissions) { p.Projects = []string{"shop", "new"} }),
		noProjectKey: fx.CreateKey("acme", func(p *auth.Permissions) {
			p.Projects, p.Environments = []string{}, []environment.Kind{}
		}),
		previewsKey: fx.CreateKey("acme", func(p *auth.Permissions) {
			p.Environments = []environment.Kind{environment.Preview}
		}),
		otherAccountKey: fx.CreateAccount("evil"),
	}
	fx.Run(t, slices.Concat(creationCases(c), listCases(c), projectCases(c)))
	fx.Call(fullKey, "DELETE", projectsPath, "").Want(405, "does not take DELETE").WantHeader("Allow", "GET, HEAD, POST")
}

// creationCases returns cases of requests that create a project. badName is in the responses that refuse a name.
func creationCases(c callers) []functionstest.Case {
	const (
		newProject = `","name":"new","accountName":"acme","type":"managed-edge","productType":"api-gateway",` +
			`"createdOn":"2026-03-14T10:26:53.589Z","updatedOn":"2026-03-14T10:26:53.589Z"}`
		badName = "Choose another name"
	)
	longest := strings.Repeat("p", 63)
	return []functionstest.Case{
		{"a project", c.fullKey, "POST", projectsPath, `{"name":"new"}`, 200, newProject},
		{"a path that ends in a slash", c.fullKey, "POST", projectsPath + "/", `{"name":"new"}`, 200, newProject},
		{
			"a project of the named account", c.fullKey, "POST", projectsPath + "?accountName=acme", `{"name":"new"}`, 200,
			newProject,
		},
		{"an encoded account", c.fullKey, "POST", projectsPath + "?accountName=ac%6De", `{"name":"new"}`, 200, newProject},
		{
			"empty account", c.fullKey, "POST", projectsPath + "?accountName=", `{"name":"new"}`, 200,
			newProject,
		},
		{
			"unknown fields", c.fullKey, "POST", projectsPath,
			`{"name":"new","id":"mine","accountName":"evil","type":"self-hosted","createdOn":"never"}`, 200, newProject,
		},
		{"project of a limited key", c.twoProjectsKey, "POST", projectsPath, `{"name":"new"}`, 200, newProject},
		{
			"key of one environment type", c.previewsKey, "POST", projectsPath, `{"name":"new"}`, 200,
			newProject,
		},
		{"the shortest name", c.fullKey, "POST", projectsPath, `{"name":"0"}`, 200, `"name":"0"`},
		{"the longest name", c.fullKey, "POST", projectsPath, `{"name":"` + longest + `"}`, 200, longest},
		{"a name in use", c.fullKey, "POST", projectsPath, `{"name":"shop"}`, 422, badName},
		{
			"a name in use by another account", c.otherAccountKey, "POST", projectsPath, `{"name":"shop"}`, 200,
			`"accountName":"evil"`,
		},
		{"an empty name", c.fullKey, "POST", projectsPath, `{"name":""}`, 422, badName},
		{"a capital", c.fullKey, "POST", projectsPath, `{"name":"New"}`, 422, badName},
		{"an underscore", c.fullKey, "POST", projectsPath, `{"name":"n_w"}`, 422, badName},
		{"a slash", c.fullKey, "POST", projectsPath, `{"name":"n/w"}`, 422, badName},
		{"a hyphen at the end", c.fullKey, "POST", projectsPath, `{"name":"new-"}`, 422, badName},
		{"a hyphen at the beginning", c.fullKey, "POST", projectsPath, `{"name":"-new"}`, 422, badName},
		{"a name that is too long", c.fullKey, "POST", projectsPath, `{"name":"p` + longest + `"}`, 422, badName},
		{
			"name of 1025 characters", c.fullKey, "POST", projectsPath, `{"name":"` + strings.Repeat("p", 1025) + `"}`, 400,
			"body.name",
		},
		{"number as name", c.fullKey, "POST", projectsPath, `{"name":17}`, 400, "body.name"},
		{"null as name", c.fullKey, "POST", projectsPath, `{"name":null}`, 400, "body.name"},
		{"no name", c.fullKey, "POST", projectsPath, `{}`, 400, "name to be present"},
		{"a list", c.fullKey, "POST", projectsPath, `[{"name":"new"}]`, 400, "expected object"},
		{"no body", c.fullKey, "POST", projectsPath, "", 400, "body"},
		{"no JSON", c.fullKey, "POST", projectsPath, `{"name":`, 400, "JSON"},
		{"a NUL", c.fullKey, "POST", projectsPath, `{"name":"\u0000"}`, 400, "NUL"},
		{
			"project in another account", c.fullKey, "POST", projectsPath + "?accountName=evil", `{"name":"new"}`, 404,
			"account",
		},
		{
			"new project that is hidden from the key", c.twoProjectsKey, "POST", projectsPath, `{"name":"blog-next"}`, 403,
			"limited to some projects",
		},
		{
			"existing project that is hidden from the key", c.twoProjectsKey, "POST", projectsPath, `{"name":"blog"}`, 403,
			"limited to some projects",
		},
		{
			"key without projects", c.noProjectKey, "POST", projectsPath, `{"name":"new"}`, 403,
			"limited to some projects",
		},
		{"key without the scope", c.readerKey, "POST", projectsPath, `{"name":"new"}`, 403, "projects:write"},
		{"no key", "", "POST", projectsPath, `{"name":"new"}`, 401, "Bearer"},
	}
}

// listCases returns cases of requests for the list of projects.
func listCases(c callers) []functionstest.Case {
	const empty = `{"data":[],"limit":1000,"offset":0,"total":0}`
	return []functionstest.Case{
		{"the list", c.readerKey, "GET", projectsPath, "", 200, `"limit":1000,"offset":0,"total":3}`},
		{
			"the list, with a path that ends in a slash", c.readerKey, "GET", projectsPath + "/?accountName=acme", "", 200,
			`"total":3}`,
		},
		{
			"a page", c.readerKey, "GET", projectsPath + "?limit=1&offset=1", "", 200,
			`"name":"docs","accountName":"acme","type":"managed-edge"`,
		},
		{
			"limit and offset of a page", c.readerKey, "GET", projectsPath + "?limit=1&offset=1", "", 200,
			`"limit":1,"offset":1,"total":3}`,
		},
		{
			"a page after the last", c.readerKey, "GET", projectsPath + "?offset=3", "", 200,
			`{"data":[],"limit":1000,"offset":3,"total":3}`,
		},
		{"limit over the maximum", c.readerKey, "GET", projectsPath + "?limit=1001", "", 200, `"limit":1000,`},
		{"a limit of 0", c.readerKey, "GET", projectsPath + "?limit=0", "", 400, "query.limit"},
		{"text as limit", c.readerKey, "GET", projectsPath + "?limit=ten", "", 400, "query.limit"},
		{"negative offset", c.readerKey, "GET", projectsPath + "?offset=-1", "", 400, "query.offset"},
		{"an offset with a fraction", c.readerKey, "GET", projectsPath + "?offset=0.5", "", 400, "query.offset"},
		{"the list of a limited key", c.twoProjectsKey, "GET", projectsPath, "", 200, `"limit":1000,"offset":0,"total":1}`},
		{"list of a key without projects", c.noProjectKey, "GET", projectsPath, "", 200, empty},
		{"list of a key of one environment type", c.previewsKey, "GET", projectsPath, "", 200, `"total":3}`},
		{"list of another account", c.readerKey, "GET", projectsPath + "?accountName=evil", "", 404, "account"},
		{"missing account", c.readerKey, "GET", projectsPath + "?accountName=a%2Fb", "", 404, "account"},
		{
			"account of 257 characters", c.readerKey, "GET", projectsPath + "?accountName=" + strings.Repeat("a", 257), "",
			400, "query.accountName",
		},
		{"account without projects", c.otherAccountKey, "GET", projectsPath, "", 200, empty},
		{"the list without the scope", c.noScopeKey, "GET", projectsPath, "", 403, "projects:read"},
		{"list without a key", "", "GET", projectsPath, "", 401, "Bearer"},
	}
}

// projectCases returns cases of requests on one project.
func projectCases(c callers) []functionstest.Case {
	return []functionstest.Case{
		{
			"project below the list", c.fullKey, "GET", projectsPath + "/shop", "", 404,
			"There is no such operation",
		},
		{"a single project", c.readerKey, "GET", shopPath, "", 200, `"name":"shop"`},
		{"project by a key of one environment type", c.previewsKey, "GET", shopPath, "", 200, `"name":"shop"`},
		{"missing project", c.readerKey, "GET", shopPath + "-next", "", 404, "project"},
		{"invalid name", c.readerKey, "GET", shopPath + "_", "", 404, "project"},
		{"hidden project", c.noProjectKey, "GET", shopPath, "", 404, "project"},
		{"project of another account", c.otherAccountKey, "GET", shopPath, "", 404, "account"},
		{"a project without the scope to read", c.noScopeKey, "GET", shopPath, "", 403, "projects:read"},
		{
			"a deletion", c.fullKey, "DELETE", shopPath, "", 200,
			`"status":"in-progress","message":"The project is being deleted."}`,
		},
		{"deletion by a key of the project", c.twoProjectsKey, "DELETE", shopPath, "", 200, "in-progress"},
		{"deletion by a key of one environment type", c.previewsKey, "DELETE", shopPath, "", 403, "all environments"},
		{
			"deletion of a missing project by a key of one environment type", c.previewsKey, "DELETE", shopPath + "-next", "",
			404, "project",
		},
		{"deletion of a missing project", c.fullKey, "DELETE", shopPath + "-next", "", 404, "project"},
		{
			"deletion of a hidden project", c.twoProjectsKey, "DELETE", "/v1/accounts/acme/projects/blog", "", 404,
			"project",
		},
		{"a deletion by another account", c.otherAccountKey, "DELETE", shopPath, "", 404, "account"},
		{"deletion by a reader key", c.readerKey, "DELETE", shopPath, "", 403, "projects:write"},
		{"deletion without a key", "", "DELETE", shopPath, "", 401, "Bearer"},
		{"missing operation", c.fullKey, "GET", shopPath + "/operations/pdel_0123456789abcdefABCDEFgh", "", 404, "operation"},
		{
			"invalid id of an operation", c.fullKey, "GET", shopPath + "/operations/" + strings.Repeat("x", 257), "", 400,
			"path.operationId",
		},
	}
}

func TestProjectsAreSortedByName(t *testing.T) {
	fx, fullKey := newFixture(t)
	got := fx.Call(fullKey, "GET", projectsPath, "").Want(200).JSON().Texts("data", "name")
	if want := []string{"blog", "docs", "shop"}; !slices.Equal(got, want) {
		t.Errorf("names of the listed projects = %q, want %q", got, want)
	}
}

func TestProjectHasBucketForEachEnvironment(t *testing.T) {
	fx, fullKey := newFixture(t)
	fx.Call(fullKey, "POST", projectsPath, `{"name":"new"}`).Want(200)
	for bucket, kind := range map[string]string{
		"new-production": "PRODUCTION", "new-preview": "PREVIEW", "new-working-copy": "WORKING_COPY",
	} {
		fx.Call(fullKey, "GET", bucketsPath+"/"+bucket, "").Want(200, `"environmentType":"`+kind+`"`, `"project":"new"`)
	}
}

// TestRefusedProjectLeavesNothing checks that a refused creation creates neither the project nor a bucket.
func TestRefusedProjectLeavesNothing(t *testing.T) {
	fx, fullKey := newFixture(t)
	before := fx.Call(fullKey, "GET", bucketsPath, "").Want(200).Body
	fx.Call(fullKey, "POST", projectsPath, `{"name":"shop"}`).Want(422)
	fx.Call(fullKey, "POST", projectsPath, `{"name":"New"}`).Want(422)
	fx.Call(fullKey, "GET", projectsPath, "").Want(200, `"total":3}`)
	fx.Call(fullKey, "GET", bucketsPath, "").Want(200, strings.TrimSpace(before))
}

// TestProjectAdoptsExistingBucket checks that a new project uses an existing bucket with the name of one of its default
// buckets, and does not change it. Keys of this bucket may be in use.
func TestProjectAdoptsExistingBucket(t *testing.T) {
	fx, fullKey := newFixture(t)
	bucketID := fx.Call(fullKey, "POST", bucketsPath,
		`{"name":"new-production","description":"ours","tags":{"project":"new","environmentType":"PRODUCTION"}}`).Want(
		200).JSON().Text("id")
	fx.Call(fullKey, "POST", projectsPath, `{"name":"new"}`).Want(200)
	fx.Call(fullKey, "GET", bucketsPath+"/new-production", "").Want(200, bucketID, `"description":"ours"`)
	fx.Call(fullKey, "GET", bucketsPath+"/new-preview", "").Want(200, `"project":"new"`)
}
