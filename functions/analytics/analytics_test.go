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
	sharedanalytics "github.com/gatewright/gatewright/shared/analytics"
	"github.com/gatewright/gatewright/shared/analytics/counts"
	"github.com/gatewright/gatewright/shared/auth"
	"github.com/gatewright/gatewright/shared/environment"
)

// newWorld makes a world with a deployment of acme's.
func newWorld(t *testing.T) (w *functionstest.World, full, name string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w = functionstest.New(t, projects.Bind, deployments.Bind, analytics.Bind)
		full = w.Account("acme")
		made := w.Call(full, "POST", "/v1/deployments/sources", `{"accountName":"acme","projectName":"shop","branchName":"main"}`).Want(200).JSON()
		archive, err := functionstest.Pack(functionstest.Project("http://upstream.test"))
		if err != nil {
			t.Fatal(err)
		}
		w.Upload(made.Text("uploadUrl"), archive)
		name = w.Call(full, "GET", "/v1/accounts/acme/projects/shop/deployments", "").Want(200).JSON().Texts("data", "name")[0]
	})
	return w.Copy(t), full, name
}

// count has a gateway count, and write it.
func count(t *testing.T, w *functionstest.World, name string) {
	t.Helper()
	c := counts.New(counts.Options{Table: w.Parts.Table, Now: w.Parts.Now, Random: w.Parts.Random, Log: slog.New(slog.DiscardHandler)})
	at := sharedanalytics.Deployment{AccountID: "a", Project: "shop", Environment: "production", Name: name}
	for i, call := range []sharedanalytics.Call{
		{Consumer: "acme-inc", Method: "GET", Route: "/todos/{id}", Status: 200},
		{Consumer: "acme-inc", Method: "POST", Route: "/todos", Status: 201},
		{Consumer: "globex", Method: "GET", Route: "/todos/{id}", Status: 404},
		{Method: "GET", Route: "/todos/{id}", Status: 401},
		{Consumer: "acme-inc", Method: "GET", Route: "/todos/{id}", Status: 200},
	} {
		call.Deployment, call.At = at, w.Now.Add(time.Duration(i)*time.Second)
		c.Call(call)
	}
	for i := range 4 {
		o := sharedanalytics.Operation{
			Deployment: at, Route: "/graphql", Name: "List", Type: "query", At: w.Now,
			Total: time.Duration(i+1) * 10 * time.Millisecond, Resolver: time.Duration(i+1) * time.Millisecond, Complexity: 2 * i,
		}
		if i == 3 {
			o.Failed, o.Classes = true, []sharedanalytics.Class{sharedanalytics.ClassResolver, sharedanalytics.ClassAuth}
		}
		c.Operation(o)
	}
	c.Operation(sharedanalytics.Operation{Deployment: at, Route: "/graphql", At: w.Now, Failed: true, Classes: []sharedanalytics.Class{sharedanalytics.ClassSyntax}})
	if err := c.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestAnswers(t *testing.T) {
	w, full, name := newWorld(t)
	empty := w.Copy(t)
	count(t, w, name)
	w.Now = w.Now.Add(10 * time.Second)
	reader := w.Key("acme", func(p *auth.Permissions) { p.Scopes = []auth.Scope{auth.Analytics.Read()} })
	unscoped := w.Key("acme", func(p *auth.Permissions) { p.Scopes = []auth.Scope{auth.Deployments.Write()} })
	previews := w.Key("acme", func(p *auth.Permissions) { p.Environments = []environment.Kind{environment.Preview} })
	blog := w.Key("acme", func(p *auth.Permissions) { p.Projects = []string{"blog"} })
	other := w.Account("evil")
	one := "/v1/deployments/" + name
	recent, stats, graphql := one+"/recent-calls?consumers=", one+"/stats-by-status-code?filter=last-hour&consumers=", one+"/graphql-operations?filter="
	const absent = "This deployment does not exist, or this key cannot see it."
	last := `{"consumer":"acme-inc","method":"GET","routePath":"/todos/{id}","statusCode":"200","policy":"","timeStamp":"` + w.Now.Add(-6*time.Second).UTC().Format("2006-01-02T15:04:05.000Z") + `","city":"","country":""}`
	point := w.Now.UTC().Truncate(5 * time.Minute).Format("2006-01-02T15:04:05.000Z")
	cases := []functionstest.Case{
		{"the last calls", full, "GET", recent + "*", "", 200, `{"data":[` + last + `,{"consumer":"","method":"GET"`},
		{"by a reader", reader, "GET", recent + "*", "", 200, `"data":[` + last},
		{"a consumer's", reader, "GET", recent + "globex", "", 200, `{"data":[{"consumer":"globex","method":"GET","routePath":"/todos/{id}","statusCode":"404"`},
		{"two consumers'", reader, "GET", recent + "globex&consumers=acme-inc&limit=3", "", 200, `"statusCode":"404"`},
		{"one of them", reader, "GET", recent + "*&limit=1", "", 200, `{"data":[` + last + `]}`},
		{"a thousand", reader, "GET", recent + "*&limit=1001", "", 200, `"data":[` + last},
		{"nobody's", reader, "GET", recent + "nobody", "", 200, `{"data":[]}`},
		{"without consumers", reader, "GET", one + "/recent-calls", "", 400, "query.consumers"},
		{"of an empty one", reader, "GET", recent, "", 400, "query.consumers: is empty"},
		{"of an empty one beside", reader, "GET", recent + "a&consumers=", "", 400, "query.consumers: is empty"},
		{"of the longest name that counts", reader, "GET", recent + strings.Repeat("a", counts.MaxConsumerBytes), "", 200, `{"data":[]}`},
		{"of a long name", reader, "GET", recent + strings.Repeat("a", counts.MaxConsumerBytes+1), "", 400, "query.consumers"},
		{"of many", reader, "GET", recent + "a" + strings.Repeat("&consumers=a", 100), "", 400, "query.consumers"},
		{"a limit of 0", reader, "GET", recent + "*&limit=0", "", 400, "query.limit"},

		{"by status", reader, "GET", stats + "*", "", 200, `{"data":{"stats":[{"consumer":"acme-inc","totalCalls":3,"callsByStatusCode":[{"statusCode":"200","totalCalls":2},{"statusCode":"201","totalCalls":1}]},` +
			`{"consumer":"","totalCalls":1,"callsByStatusCode":[{"statusCode":"401","totalCalls":1}]},{"consumer":"globex","totalCalls":1,`},
		{"by status and time", reader, "GET", stats + "globex", "", 200, `"details":[{"consumer":"globex","timeStamp":"` + point + `","totalCalls":1,"callsByStatusCode":[{"statusCode":"404","totalCalls":1}]}]}}`},
		{"nobody's by status", reader, "GET", stats + "nobody", "", 200, `{"data":{"stats":[],"details":[]}}`},
		{"without a filter", reader, "GET", one + "/stats-by-status-code?consumers=*", "", 400, "query.filter"},
		{"with an unknown filter", reader, "GET", one + "/stats-by-status-code?consumers=*&filter=last-year", "", 400, "query.filter"},
		{"by status, without consumers", reader, "GET", one + "/stats-by-status-code?filter=last-hour", "", 400, "query.consumers"},

		{"the operations", reader, "GET", graphql + "last-hour", "", 200, `"operations":5,"errors":2,"successRate":0.6,`},
		{"their errors", reader, "GET", graphql + "last-hour", "", 200, `"errorClasses":{"syntax":1,"validation":0,"auth":1,"timeout":0,"resolver":1}},"operations":[{"operation":"List","type":"query","operations":4,"errors":1,"errorRate":0.25,"complexity":{"avg":3,"max":6},`},
		{"those without a name", reader, "GET", graphql + "last-hour", "", 200, `{"operation":"(unnamed)","type":"","operations":1,"errors":1,"errorRate":1,`},
		{"the operations without a filter", reader, "GET", one + "/graphql-operations", "", 400, "query.filter"},
	}
	for _, filter := range []string{"last-24-hours", "last-7-days", "last-30-days", "last-3-months"} {
		cases = append(cases,
			functionstest.Case{filter, reader, "GET", graphql + filter, "", 200, `"operations":5,`},
			functionstest.Case{"by status, " + filter, reader, "GET", one + "/stats-by-status-code?consumers=*&filter=" + filter, "", 200, `"totalCalls":3,`})
	}
	for _, path := range []string{"/recent-calls?consumers=*", "/stats-by-status-code?consumers=*&filter=last-hour", "/graphql-operations?filter=last-hour"} {
		cases = append(cases,
			functionstest.Case{path + " of another account's", other, "GET", one + path, "", 404, absent},
			functionstest.Case{path + " of none", full, "GET", "/v1/deployments/shop-main-0000000" + path, "", 404, absent},
			functionstest.Case{path + " of no name", full, "GET", "/v1/deployments/a%2Fb" + path, "", 404, absent},
			functionstest.Case{path + " of an environment out of sight", previews, "GET", one + path, "", 404, absent},
			functionstest.Case{path + " of a project out of sight", blog, "GET", one + path, "", 404, absent},
			functionstest.Case{path + " without the scope", unscoped, "GET", one + path, "", 403, "analytics:read"},
			functionstest.Case{path + " by nobody", "", "GET", one + path, "", 401, "Bearer"})
	}
	w.Run(t, cases)

	got := empty.Call(full, "GET", graphql+"last-3-months", "").Want(200)
	const nothing = `{"data":{"totals":{"operations":0,"errors":0,"successRate":1,"p50Ms":0,"p95Ms":0,"p99Ms":0,"resolverP50Ms":0,"resolverP95Ms":0,"resolverP99Ms":0,` +
		`"errorClasses":{"syntax":0,"validation":0,"auth":0,"timeout":0,"resolver":0}},"operations":[]}}`
	if strings.TrimSpace(got.Body) != nothing {
		t.Errorf("of what was never asked: %s", got.Body)
	}
}

// TestLatenciesAreInMilliseconds, within two percent.
func TestLatenciesAreInMilliseconds(t *testing.T) {
	w, full, name := newWorld(t)
	count(t, w, name)
	got := w.Call(full, "GET", "/v1/deployments/"+name+"/graphql-operations?filter=last-hour", "").Want(200).JSON()
	for path, want := range map[string]float64{
		"data.operations.0.p50Ms": 20, "data.operations.0.p95Ms": 40, "data.operations.0.resolverP95Ms": 4, "data.totals.p95Ms": 40, "data.totals.resolverP99Ms": 4,
	} {
		if ms := got.Number(path); ms < want*0.98 || ms > want*1.02 {
			t.Errorf("%s is %v, want %v", path, ms, want)
		}
	}
}

// TestDeletedDeploymentHasNoCounts, whoever asks.
func TestDeletedDeploymentHasNoCounts(t *testing.T) {
	w, full, name := newWorld(t)
	count(t, w, name)
	w.Call(full, "DELETE", "/v1/deployments/"+name, "").Want(200)
	w.Call(full, "GET", "/v1/deployments/"+name+"/recent-calls?consumers=*", "").Want(404)
}
