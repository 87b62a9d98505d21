package analytics_test

import (
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatewright/gatewright/functions/analytics"
	"github.com/gatewright/gatewright/functions/deployments"
	"github.com/gatewright/gatewright/functions/functionstest"
	"github.com/gatewright/gatewright/functions/projects"
	"github.com/gatewright/gatewright/shared/core/auth"
	"github.com/gatewright/gatewright/shared/format/environment"
	sharedanalytics "github.com/gatewright/gatewright/shared/resource/analytics"
	"github.com/gatewright/gatewright/shared/resource/analytics/counts"
)

// newFixture returns a fixture with a deployment of the account acme, and the deployment's name.
func newFixture(t *testing.T) (fx *functionstest.Fixture, fullKey, name string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		fx = functionstest.New(t, projects.Bind, deployments.Bind, analytics.Bind)
		fullKey = fx.CreateAccount("acme")
		upload := fx.Call(fullKey, "POST", "/v1/deployments/sources",
			`{"accountName":"acme","projectName":"shop","branchName":"main"}`).Want(200).JSON()
		archive, err := functionstest.Pack(functionstest.Project("http://upstream.test"))
		if err != nil {
			t.Fatal(err)
		}
		fx.Upload(upload.Text("uploadUrl"), archive)
		name = fx.Call(fullKey, "GET", "/v1/accounts/acme/projects/shop/deployments", "").Want(200).JSON().Texts("data",
			"name")[0]
	})
	return fx.Copy(t), fullKey, name
}

// recordCalls counts calls and GraphQL operations of a deployment as a gateway does, and writes the counts.
func recordCalls(t *testing.T, fx *functionstest.Fixture, name string) {
	t.Helper()
	c := counts.New(counts.Options{
		Table: fx.Parts.Table, Now: fx.Parts.Now, Random: fx.Parts.Random,
		Log: slog.New(slog.DiscardHandler),
	})
	deployment := sharedanalytics.Deployment{AccountID: "a", Project: "shop", Environment: "production", Name: name}
	for i, call := range []sharedanalytics.Call{
		{Consumer: "acme-inc", Method: "GET", Route: "/todos/{id}", Status: 200},
		{Consumer: "acme-inc", Method: "POST", Route: "/todos", Status: 201},
		{Consumer: "globex", Method: "GET", Route: "/todos/{id}", Status: 404},
		{Method: "GET", Route: "/todos/{id}", Status: 401},
		{Consumer: "acme-inc", Method: "GET", Route: "/todos/{id}", Status: 200},
	} {
		call.Deployment, call.At = deployment, fx.Now.Add(time.Duration(i)*time.Second)
		c.Call(call)
	}
	for i := range 4 {
		o := sharedanalytics.Operation{
			Deployment: deployment, Route: "/graphql", Name: "List", Type: "query", At: fx.Now,
			Total: time.Duration(i+1) * 10 * time.Millisecond, Resolver: time.Duration(i+1) * time.Millisecond,
			Complexity: 2 * i,
		}
		if i == 3 {
			o.Failed, o.Classes = true, []sharedanalytics.Class{sharedanalytics.ClassResolver, sharedanalytics.ClassAuth}
		}
		c.Operation(o)
	}
	c.Operation(sharedanalytics.Operation{
		Deployment: deployment, Route: "/graphql", At: fx.Now, Failed: true,
		Classes: []sharedanalytics.Class{sharedanalytics.ClassSyntax},
	})
	if err := c.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestResponses(t *testing.T) {
	fx, fullKey, name := newFixture(t)
	recordCalls(t, fx, name)
	fx.Now = fx.Now.Add(10 * time.Second)
	readerKey := fx.CreateKey("acme", func(p *auth.Permissions) { p.Scopes = []auth.Scope{auth.Analytics.Read()} })
	base := "/v1/deployments/" + name
	recentPath, statsPath, graphqlPath := base+"/recent-calls?consumers=",
		base+"/stats-by-status-code?filter=last-hour&consumers=", base+"/graphql-operations?filter="
	lastCall := `{"consumer":"acme-inc","method":"GET","routePath":"/todos/{id}","statusCode":"200","policy":"",` +
		`"timeStamp":"` + fx.Now.Add(-6*time.Second).UTC().Format("2006-01-02T15:04:05.000Z") + `","city":"","country":""}`
	timestamp := fx.Now.UTC().Truncate(5 * time.Minute).Format("2006-01-02T15:04:05.000Z")
	get := func(name, path string, status int, want string) functionstest.Case {
		return functionstest.Case{name, readerKey, "GET", path, "", status, want}
	}
	cases := []functionstest.Case{
		{
			"recent calls", fullKey, "GET", recentPath + "*", "", 200,
			`{"data":[` + lastCall + `,{"consumer":"","method":"GET"`,
		},
		get("recent calls with a reader key", recentPath+"*", 200, `"data":[`+lastCall),
		get("recent calls of a consumer", recentPath+"globex", 200,
			`{"data":[{"consumer":"globex","method":"GET","routePath":"/todos/{id}","statusCode":"404"`),
		get("recent calls of two consumers", recentPath+"globex&consumers=acme-inc&limit=3", 200, `"statusCode":"404"`),
		get("limit of 1", recentPath+"*&limit=1", 200, `{"data":[`+lastCall+`]}`),
		get("limit over the maximum", recentPath+"*&limit=1001", 200, `"data":[`+lastCall),
		get("recent calls of an unknown consumer", recentPath+"nobody", 200, `{"data":[]}`),
		get("recent calls without consumers", base+"/recent-calls", 400, "query.consumers"),
		get("empty consumer", recentPath, 400, "query.consumers: is empty"),
		get("empty second consumer", recentPath+"a&consumers=", 400, "query.consumers: is empty"),
		get("consumer with the longest name", recentPath+strings.Repeat("a", counts.MaxConsumerBytes), 200, `{"data":[]}`),
		get("consumer with a too long name", recentPath+strings.Repeat("a", counts.MaxConsumerBytes+1), 400,
			"query.consumers"),
		get("too many consumers", recentPath+"a"+strings.Repeat("&consumers=a", 100), 400, "query.consumers"),
		get("a limit of 0", recentPath+"*&limit=0", 400, "query.limit"),

		get("calls by status", statsPath+"*", 200,
			`{"data":{"stats":[{"consumer":"acme-inc","totalCalls":3,"callsByStatusCode":[{"statusCode":"200","totalCalls":2},`+
				`{"statusCode":"201","totalCalls":1}]},{"consumer":"","totalCalls":1,"callsByStatusCode":[{"statusCode":"401",`+
				`"totalCalls":1}]},{"consumer":"globex","totalCalls":1,`),
		get("calls by status and time", statsPath+"globex", 200,
			`"details":[{"consumer":"globex",`+
				`"timeStamp":"`+timestamp+`","totalCalls":1,"callsByStatusCode":[{"statusCode":"404","totalCalls":1}]}]}}`),
		get("calls by status of an unknown consumer", statsPath+"nobody", 200, `{"data":{"stats":[],"details":[]}}`),
		get("calls by status without a filter", base+"/stats-by-status-code?consumers=*", 400, "query.filter"),
		get("calls by status with an unknown filter", base+"/stats-by-status-code?consumers=*&filter=last-year", 400,
			"query.filter"),
		get("calls by status without consumers", base+"/stats-by-status-code?filter=last-hour", 400, "query.consumers"),

		get("GraphQL operations", graphqlPath+"last-hour", 200, `"operations":5,"errors":2,"successRate":0.6,`),
		get("errors of GraphQL operations", graphqlPath+"last-hour", 200,
			`"errorClasses":{"syntax":1,"validation":0,"auth":1,"timeout":0,"resolver":1}},"operations":[{"operation":"List",`+
				`"type":"query","operations":4,"errors":1,"errorRate":0.25,"complexity":{"avg":3,"max":6},`),
		get("GraphQL operations without a name", graphqlPath+"last-hour", 200,
			`{"operation":"(unnamed)","type":"","operations":1,"errors":1,"errorRate":1,`),
		get("GraphQL operations without a filter", base+"/graphql-operations", 400, "query.filter"),
	}
	for _, filter := range []string{"last-24-hours", "last-7-days", "last-30-days", "last-3-months"} {
		cases = append(cases,
			get("GraphQL operations, "+filter, graphqlPath+filter, 200, `"operations":5,`),
			get("calls by status, "+filter, base+"/stats-by-status-code?consumers=*&filter="+filter, 200, `"totalCalls":3,`))
	}
	fx.Run(t, cases)
}

// TestHiddenDeploymentHasNoAnalytics calls each operation with keys that cannot see the deployment, and for deployments
// that do not exist.
func TestHiddenDeploymentHasNoAnalytics(t *testing.T) {
	fx, fullKey, name := newFixture(t)
	unscopedKey := fx.CreateKey("acme", func(p *auth.Permissions) { p.Scopes = []auth.Scope{auth.Deployments.Write()} })
	previewsKey := fx.CreateKey("acme", func(p *auth.Permissions) {
		p.Environments = []environment.Kind{environment.Preview}
	})
	blogKey := fx.CreateKey("acme", func(p *auth.Permissions) { p.Projects = []string{"blog"} })
	otherAccountKey := fx.CreateAccount("evil")
	base := "/v1/deployments/" + name
	const notFound = "This deployment does not exist, or this key cannot see it."
	var cases []functionstest.Case
	for _, path := range []string{
		"/recent-calls?consumers=*", "/stats-by-status-code?consumers=*&filter=last-hour",
		"/graphql-operations?filter=last-hour",
	} {
		cases = append(cases,
			functionstest.Case{path + " of another account", otherAccountKey, "GET", base + path, "", 404, notFound},
			functionstest.Case{
				path + " of a missing deployment", fullKey, "GET", "/v1/deployments/shop-main-0000000" + path, "",
				404, notFound,
			},
			functionstest.Case{path + " of an invalid name", fullKey, "GET", "/v1/deployments/a%2Fb" + path, "", 404, notFound},
			functionstest.Case{path + " of a hidden environment", previewsKey, "GET", base + path, "", 404, notFound},
			functionstest.Case{path + " of a hidden project", blogKey, "GET", base + path, "", 404, notFound},
			functionstest.Case{path + " without the scope", unscopedKey, "GET", base + path, "", 403, "analytics:read"},
			functionstest.Case{path + " without a key", "", "GET", base + path, "", 401, "Bearer"})
	}
	fx.Run(t, cases)
}

// TestGraphQLOperationsWithoutCalls checks the totals of a deployment that no client has called.
func TestGraphQLOperationsWithoutCalls(t *testing.T) {
	fx, fullKey, name := newFixture(t)
	got := fx.Call(fullKey, "GET", "/v1/deployments/"+name+"/graphql-operations?filter=last-3-months", "").Want(200)
	const emptyTotals = `{"data":{"totals":{"operations":0,"errors":0,"successRate":1,"p50Ms":0,"p95Ms":0,"p99Ms":0,` +
		`"resolverP50Ms":0,"resolverP95Ms":0,"resolverP99Ms":0,` +
		`"errorClasses":{"syntax":0,"validation":0,"auth":0,"timeout":0,"resolver":0}},"operations":[]}}`
	if strings.TrimSpace(got.Body) != emptyTotals {
		t.Errorf("GET last-3-months without operations: body = %s, want %s", got.Body, emptyTotals)
	}
}

// TestLatenciesAreInMilliseconds checks that latencies are in milliseconds, with an error of at most 2%.
func TestLatenciesAreInMilliseconds(t *testing.T) {
	fx, fullKey, name := newFixture(t)
	recordCalls(t, fx, name)
	got := fx.Call(fullKey, "GET", "/v1/deployments/"+name+"/graphql-operations?filter=last-hour", "").Want(200).JSON()
	for path, want := range map[string]float64{
		"data.operations.0.p50Ms": 20, "data.operations.0.p95Ms": 40, "data.operations.0.resolverP95Ms": 4,
		"data.totals.p95Ms": 40, "data.totals.resolverP99Ms": 4,
	} {
		if ms := got.Number(path); ms < want*0.98 || ms > want*1.02 {
			t.Errorf("GET graphql-operations: %s = %v, want %v within 2%%", path, ms, want)
		}
	}
}

// TestDeletedDeploymentHasNoCounts checks that each operation responds with 404 after the deployment was deleted.
func TestDeletedDeploymentHasNoCounts(t *testing.T) {
	fx, fullKey, name := newFixture(t)
	recordCalls(t, fx, name)
	fx.Call(fullKey, "DELETE", "/v1/deployments/"+name, "").Want(200)
	for _, path := range []string{
		"/recent-calls?consumers=*", "/stats-by-status-code?consumers=*&filter=last-hour",
		"/graphql-operations?filter=last-hour",
	} {
		fx.Call(fullKey, "GET", "/v1/deployments/"+name+path, "").Want(404)
	}
}
