package deployments_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/gatewright/gatewright/functions/functionstest"
	"github.com/gatewright/gatewright/shared/core/auth"
	"github.com/gatewright/gatewright/shared/format/environment"
	"github.com/gatewright/gatewright/shared/resource/deployments"
)

// The texts of the problems for objects that do not exist or that the key cannot see.
const (
	deploymentNotFound = "This deployment does not exist, or this key cannot see it."
	projectNotFound    = "This project does not exist"
)

// responseFixture is a fixture with two deployments, an empty project, and keys with limited permissions.
type responseFixture struct {
	fixture
	main, feature deployedBuild
	// mainPath is the path of the deployment main.
	mainPath                                                     string
	readerKey, previewsKey, blogKey, noScopeKey, otherAccountKey string
}

func newResponseFixture(t *testing.T) responseFixture {
	t.Helper()
	fx := responseFixture{}
	fx.fixture, fx.main, fx.feature = newDeployedFixture(t)
	fx.mainPath = "/v1/deployments/" + fx.main.name
	fx.readerKey, fx.otherAccountKey = fx.createReaderKey(), fx.CreateAccount("evil")
	fx.previewsKey, fx.blogKey = fx.createLimitedKey(nil, environment.Preview), fx.createLimitedKey([]string{"blog"})
	fx.noScopeKey = fx.CreateKey("acme", func(p *auth.Permissions) { p.Scopes = []auth.Scope{auth.Projects.Write()} })
	fx.Call(fx.fullKey, "POST", "/v1/projects", `{"name":"empty"}`).Want(200)
	return fx
}

// mainJSON returns the JSON of the deployment main in responses.
func (fx responseFixture) mainJSON() string {
	digits := fx.main.name[len("shop-main-"):]
	return `{"name":"` + fx.main.name + `","url":"http://` + fx.main.name + `.gateway.test","label":"main",` +
		`"urlParameter":"main","loggingId":"acme::shop::main::main::` + digits + `","accountName":"acme",` +
		`"projectName":"shop","branchName":"main","environmentType":"PRODUCTION","state":"STARTED","message":"",` +
		`"createdOn":"2026-03-14T09:26:53.589Z","updatedOn":"2026-03-14T09:26:53.589Z"}`
}

func TestDeploymentListResponses(t *testing.T) {
	fx := newResponseFixture(t)
	fx.Run(t, []functionstest.Case{
		{"list of all", fx.readerKey, "GET", deploymentsPath, "", 200, `"limit":1000,"offset":0,"total":2}`},
		{"list sorted from production", fx.readerKey, "GET", deploymentsPath, "", 200, `{"data":[` + fx.mainJSON() + `,`},
		{"list with a slash at the end", fx.readerKey, "GET", deploymentsPath + "/", "", 200, `"total":2}`},
		{
			"list with an encoded name", fx.readerKey, "GET", "/v1/accounts/acme/projects/sh%6Fp/deployments", "", 200,
			`"total":2}`,
		},
		{
			"first page", fx.readerKey, "GET", deploymentsPath + "?limit=1&offset=0", "", 200,
			`{"data":[` + fx.mainJSON() + `],"limit":1,"offset":0,"total":2}`,
		},
		{
			"second page", fx.readerKey, "GET", deploymentsPath + "?limit=1&offset=1", "", 200,
			`{"data":[{"name":"` + fx.feature.name + `"`,
		},
		{
			"page after the last one", fx.readerKey, "GET", deploymentsPath + "?offset=2", "", 200,
			`{"data":[],"limit":1000,"offset":2,"total":2}`,
		},
		{"maximum offset", fx.readerKey, "GET", deploymentsPath + "?offset=9223372036854775807", "", 200, `{"data":[],`},
		{"limit over the maximum", fx.readerKey, "GET", deploymentsPath + "?limit=1001", "", 200, `"limit":1000,`},
		{"limit of 0", fx.readerKey, "GET", deploymentsPath + "?limit=0", "", 400, "query.limit"},
		{"text as limit", fx.readerKey, "GET", deploymentsPath + "?limit=ten", "", 400, "query.limit"},
		{"limit with a fraction", fx.readerKey, "GET", deploymentsPath + "?limit=1.5", "", 400, "query.limit"},
		{
			"limit beyond 64 bits", fx.readerKey, "GET", deploymentsPath + "?limit=99999999999999999999999",
			"", 400, "query.limit",
		},
		{"negative offset", fx.readerKey, "GET", deploymentsPath + "?offset=-1", "", 400, "query.offset"},
		{"unknown parameter", fx.readerKey, "GET", deploymentsPath + "?order=name", "", 200, `"total":2}`},
		{
			"first deployment of a limited key", fx.previewsKey, "GET", deploymentsPath, "", 200,
			`{"data":[{"name":"` + fx.feature.name + `"`,
		},
		{"total of a limited key", fx.previewsKey, "GET", deploymentsPath, "", 200, `"total":1}`},
		{
			"list of an empty project", fx.readerKey, "GET", "/v1/accounts/acme/projects/empty/deployments", "", 200,
			`{"data":[],"limit":1000,"offset":0,"total":0}`,
		},
		{
			"list of a missing project", fx.readerKey, "GET", "/v1/accounts/acme/projects/none/deployments", "", 404,
			projectNotFound,
		},
		{
			"list of an invalid name", fx.readerKey, "GET", "/v1/accounts/acme/projects/a%2Fb/deployments", "", 404,
			projectNotFound,
		},
		{"list of a hidden project", fx.blogKey, "GET", deploymentsPath, "", 404, projectNotFound},
		{
			"project of another account", fx.otherAccountKey, "GET", "/v1/accounts/evil/projects/shop/deployments", "", 404,
			projectNotFound,
		},
		{"list in another account", fx.otherAccountKey, "GET", deploymentsPath, "", 404, "account"},
		{"list without the scope", fx.noScopeKey, "GET", deploymentsPath, "", 403, "deployments:read"},
		{"list without a key", "", "GET", deploymentsPath, "", 401, "Bearer"},
	})
}

func TestDeploymentResponses(t *testing.T) {
	fx := newResponseFixture(t)
	fx.Run(t, []functionstest.Case{
		{"deployment", fx.readerKey, "GET", fx.mainPath, "", 200, fx.mainJSON()},
		{"slash at the end", fx.readerKey, "GET", fx.mainPath + "/", "", 200, fx.mainJSON()},
		{
			"encoded name", fx.readerKey, "GET", "/v1/deployments/" + strings.ReplaceAll(fx.main.name, "-", "%2D"), "", 200,
			fx.mainJSON(),
		},
		{
			"preview", fx.previewsKey, "GET", "/v1/deployments/" + fx.feature.name, "", 200,
			`"label":"feature-x","urlParameter":"feature-x","loggingId":"acme::shop::feature/x::feature-x::`,
		},
		{
			"environment type of a preview", fx.previewsKey, "GET", "/v1/deployments/" + fx.feature.name, "", 200,
			`"branchName":"feature/x","environmentType":"PREVIEW"`,
		},
		{"hidden deployment", fx.previewsKey, "GET", fx.mainPath, "", 404, deploymentNotFound},
		{"deployment of a hidden project", fx.blogKey, "GET", fx.mainPath, "", 404, deploymentNotFound},
		{"deployment of another account", fx.otherAccountKey, "GET", fx.mainPath, "", 404, deploymentNotFound},
		{"missing deployment", fx.readerKey, "GET", "/v1/deployments/shop-main-0000000", "", 404, deploymentNotFound},
		{"invalid name", fx.readerKey, "GET", "/v1/deployments/a%2Fb", "", 404, deploymentNotFound},
		{
			"name in capitals", fx.readerKey, "GET", "/v1/deployments/" + strings.ToUpper(fx.main.name), "", 404,
			deploymentNotFound,
		},
		{"name of 64 bytes", fx.readerKey, "GET", "/v1/deployments/" + strings.Repeat("a", 64), "", 404, deploymentNotFound},
		{
			"name of 257 bytes", fx.readerKey, "GET", "/v1/deployments/" + strings.Repeat("a", 257), "", 400,
			"path.deploymentName",
		},
		{"no scope", fx.noScopeKey, "GET", fx.mainPath, "", 403, "deployments:read"},
		{"no key", "", "GET", fx.mainPath, "", 401, "Bearer"},
	})
}

func TestRedeploymentResponses(t *testing.T) {
	fx := newResponseFixture(t)
	fx.Run(t, []functionstest.Case{
		{"deployment", fx.fullKey, "POST", fx.mainPath + "/deploy", "", 200, `{"status":"request enqueued","deploymentId":"`},
		{"ignored body", fx.fullKey, "POST", fx.mainPath + "/deploy/", `{"branchName":`, 200, `"request enqueued"`},
		{"no scope", fx.readerKey, "POST", fx.mainPath + "/deploy", "", 403, "deployments:write"},
		{"hidden deployment", fx.previewsKey, "POST", fx.mainPath + "/deploy", "", 404, deploymentNotFound},
		{"deployment of another account", fx.otherAccountKey, "POST", fx.mainPath + "/deploy", "", 404, deploymentNotFound},
		{"missing deployment", fx.fullKey, "POST", "/v1/deployments/shop-main-0000000/deploy", "", 404, deploymentNotFound},
	})
}

func TestDeletionResponses(t *testing.T) {
	fx := newResponseFixture(t)
	fx.Run(t, []functionstest.Case{
		{"no scope", fx.readerKey, "DELETE", fx.mainPath, "", 403, "deployments:write"},
		{"hidden deployment", fx.previewsKey, "DELETE", fx.mainPath, "", 404, deploymentNotFound},
		{"deployment of another account", fx.otherAccountKey, "DELETE", fx.mainPath, "", 404, deploymentNotFound},
		{"missing deployment", fx.fullKey, "DELETE", "/v1/deployments/shop-main-0000000", "", 404, deploymentNotFound},
		{"invalid name", fx.fullKey, "DELETE", "/v1/deployments/a%2Fb", "", 404, deploymentNotFound},
		{"deployment of its project", fx.fullKey, "DELETE", deploymentsPath + "/" + fx.main.name, "", 200, ""},
		{
			"deployment of another project", fx.fullKey, "DELETE", "/v1/accounts/acme/projects/empty/deployments/" +
				fx.main.name,
			"", 404, deploymentNotFound,
		},
		{
			"deployment of a hidden project", fx.blogKey, "DELETE", deploymentsPath + "/" + fx.main.name,
			"", 404, projectNotFound,
		},
		{
			"deployment of its project without the scope", fx.readerKey, "DELETE", deploymentsPath + "/" + fx.main.name, "", 403,
			"deployments:write",
		},
	})
}

func TestDeletedDeploymentIsNotFound(t *testing.T) {
	fx, main, feature := newDeployedFixture(t)
	deploymentPath := "/v1/deployments/" + main.name
	if deleted := fx.Call(fx.fullKey, "DELETE", deploymentPath, "").Want(200); deleted.Body != "" {
		t.Errorf("DELETE %s: body = %s, want none", deploymentPath, deleted.Body) // contract 1.5
	}
	missing := fx.Call(fx.fullKey, "GET", "/v1/deployments/shop-main-0000000", "").Want(404)
	for _, resp := range []functionstest.Response{
		fx.Call(fx.fullKey, "DELETE", deploymentPath, ""), fx.Call(fx.fullKey, "DELETE", deploymentsPath+"/"+main.name, ""),
		fx.Call(fx.fullKey, "GET", deploymentPath, ""), fx.Call(fx.fullKey, "POST", deploymentPath+"/deploy", ""),
	} {
		resp.Want(404, missing.JSON().Text("detail"))
	}
	remaining := fx.Call(fx.fullKey, "GET", deploymentsPath, "").Want(200).JSON()
	if names := remaining.Texts("data", "name"); !slices.Equal(names, []string{feature.name}) {
		t.Errorf("remaining deployments = %q, want only %s", names, feature.name)
	}
	fx.Call(fx.fullKey, "GET", "/v1/projects", "").Want(200, `"name":"shop"`)
}

// TestDeletionCancelsRunningBuild deletes a deployment during a build, and checks that the build has no effect.
func TestDeletionCancelsRunningBuild(t *testing.T) {
	fx, main, _ := newDeployedFixture(t)
	deploymentPath := "/v1/deployments/" + main.name
	id := fx.Call(fx.fullKey, "POST", deploymentPath+"/deploy", "").Want(200).JSON().Text("deploymentId")
	fx.Call(fx.fullKey, "DELETE", deploymentPath, "").Want(200)
	fx.Finish(id)
	fx.Call(fx.fullKey, "GET", statusesPath+"/"+id, "").Want(200, `"status":"ERROR","url":""`,
		"deleted while it was built")
	fx.Call(fx.fullKey, "GET", deploymentPath, "").Want(404)
}

// TestDeletedDeploymentNameIsNotReused checks that a new deployment of the same branch has another name. Clients with
// the old address must not reach it.
func TestDeletedDeploymentNameIsNotReused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fx := newFixture(t)
		first := fx.deploy("main", validProject()).Text("url")
		name := fx.Call(fx.fullKey, "GET", deploymentsPath, "").Want(200).JSON().Text("data.0.name")
		fx.Call(fx.fullKey, "DELETE", "/v1/deployments/"+name, "").Want(200)
		if second := fx.deploy("main", validProject()).Text("url"); second == first || second == "" {
			t.Errorf("deploy(main) after the deletion of %s: url = %s, want another one", first, second)
		}
	})
}

func TestRedeployUsesNewVariables(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fx := newFixture(t)
		s := fx.deploy("main", functionstest.Project("$env(UPSTREAM)"))
		if s.Text("status") != "ERROR" || !strings.Contains(s.Text("buildResult.errors.0.message"), "UPSTREAM") {
			t.Fatalf("deploy(main) = %s, want ERROR that names UPSTREAM", s)
		}
		deploymentPath := "/v1/deployments/" + fx.Call(fx.fullKey, "GET", deploymentsPath, "").
			Want(200, `"state":"FAILED"`).JSON().Text("data.0.name")
		fx.Call(fx.fullKey, "POST", shopPath+"/branches/main/variables",
			`{"name":"UPSTREAM","isSecret":false,"value":"http://upstream.test"}`).Want(201)
		id := fx.Call(fx.fullKey, "POST", deploymentPath+"/deploy", "").Want(200).JSON().Text("deploymentId")
		fx.Call(fx.fullKey, "GET", statusesPath+"/"+id, "").Want(200, `"status":"IN_PROGRESS","url":"","buildId":"`+id)
		fx.Call(fx.fullKey, "GET", deploymentPath, "").Want(200, `"state":"BUILDING"`)
		fx.Finish(id)
		fx.Call(fx.fullKey, "GET", statusesPath+"/"+id, "").Want(200, `"status":"SUCCESS","url":"http://`)
		fx.Call(fx.fullKey, "GET", deploymentPath, "").Want(200, `"state":"STARTED"`)
	})
}

// TestRedeployNeedsSources checks that a redeploy is refused while no archive is stored, and also after a build that
// could not store one.
func TestRedeployNeedsSources(t *testing.T) {
	fx := newFixture(t)
	id, _ := fx.issueUpload("main")
	arrival := deployments.Arrival{StatusID: id, ETag: "of an archive that has been replaced", UploadedOn: fx.Now}
	if _, err := deployments.Open(fx.Parts).Claim(t.Context(), arrival); err != nil {
		t.Fatal(err)
	}
	listed := fx.Call(fx.fullKey, "GET", deploymentsPath, "").Want(200, `"state":"BUILDING"`).JSON()
	redeployPath := "/v1/deployments/" + listed.Text("data.0.name") + "/deploy"
	fx.Call(fx.fullKey, "GET", statusesPath+"/"+id, "").Want(200, `"status":"IN_PROGRESS","url":""`)
	fx.Call(fx.fullKey, "POST", redeployPath, "").Want(409, "Upload them first")
	fx.Finish(id)
	fx.Call(fx.fullKey, "GET", statusesPath+"/"+id, "").Want(200, `"status":"ERROR","url":""`,
		"replaced before it could be read")
	fx.Call(fx.fullKey, "POST", redeployPath, "").Want(409, "Upload them first")
}
