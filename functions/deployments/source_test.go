package deployments_test

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatewright/gatewright/functions/functionstest"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/format/environment"
	"github.com/gatewright/gatewright/shared/resource/deployments"
)

// checkPosition checks that the line and column of a finding are the position of the last name in its JSON pointer. It
// reads the sources through the API.
func (fx fixture) checkPosition(id string, findingValue functionstest.Value) {
	fx.Helper()
	q := url.Values{"file": {findingValue.Text("file")}, "line": {fmt.Sprint(findingValue.Number("line"))}}
	excerptValue := fx.Call(fx.fullKey, "GET", statusesPath+"/"+id+"/source?"+q.Encode(), "").Want(200).JSON()
	lines := strings.Split(excerptValue.Text("text"), "\n")
	name := findingValue.Text("path")[strings.LastIndexByte(findingValue.Text("path"), '/')+1:]
	marked := lines[int(findingValue.Number("line")-excerptValue.Number("startLine"))][int(
		findingValue.Number("column"))-1:]
	if _, err := strconv.Atoi(name); err == nil {
		name = "{"
	}
	if !strings.HasPrefix(strings.TrimPrefix(marked, `"`), name) {
		fx.Errorf("position of %s is at %q, want it at %q", findingValue, marked, name)
	}
}

func TestSources(t *testing.T) {
	fx, main, feature := newDeployedFixture(t)
	fullKey, readerKey, otherAccountKey := fx.fullKey, fx.createReaderKey(), fx.CreateAccount("evil")
	previewsKey, blogKey := fx.createLimitedKey(nil, environment.Preview), fx.createLimitedKey([]string{"blog"})
	sourcePath := func(id, query string) string { return statusesPath + "/" + id + "/source?" + query }
	const routesFile = "file=config/routes.oas.json"
	fx.Run(t, []functionstest.Case{
		{
			"sources of the live build", readerKey, "GET", sourcePath(main.statusID, routesFile), "", 200,
			`"file":"config/routes.oas.json","startLine":1,"startColumn":1,"text":"{`,
		},
		{
			"whole file", readerKey, "GET", sourcePath(main.statusID, routesFile), "", 200,
			`"moreBefore":false,"moreAfter":false`,
		},
		{
			"lines around a position", readerKey, "GET", sourcePath(main.statusID, routesFile+"&line=3&column=7"), "", 200,
			`"startLine":1`,
		},
		{
			"position after the end", readerKey, "GET", sourcePath(main.statusID, routesFile+"&line=99999999&column=99999999"),
			"", 200, `"startLine":1`,
		},
		{
			"position before the beginning", readerKey, "GET", sourcePath(main.statusID, routesFile+"&line=0"), "", 400,
			"query.line",
		},
		{
			"visible environment type", previewsKey, "GET", sourcePath(feature.statusID, routesFile), "", 200,
			"openapi",
		},
		{
			"hidden environment type", previewsKey, "GET", sourcePath(main.statusID, routesFile), "", 404,
			"This upload does not exist",
		},
		{"hidden project", blogKey, "GET", sourcePath(main.statusID, routesFile), "", 404, "project"},
		{"another account", otherAccountKey, "GET", strings.Replace(sourcePath(main.statusID, routesFile), "acme", "evil",
			1), "", 404, "upload"},
		{"no file", fullKey, "GET", sourcePath(main.statusID, ""), "", 400, "query.file"},
		{
			"missing file", fullKey, "GET", sourcePath(main.statusID, "file=config/none.oas.json"), "", 404,
			"no such file that is shown",
		},
		{
			"file that is never shown", fullKey, "GET", sourcePath(main.statusID, "file=package.json"), "", 404,
			"no such file that is shown",
		},
		{
			"file in a parent folder", fullKey, "GET", sourcePath(main.statusID, "file=../config/routes.oas.json"), "", 404,
			"no such file that is shown",
		},
		{"no key", "", "GET", sourcePath(main.statusID, routesFile), "", 401, "Bearer"},
	})
}

// TestMissingSources reads sources before an archive has arrived, after an invalid archive, and after the sources were
// removed.
func TestMissingSources(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fx := newFixture(t)
		sourcePath := func(id string) string { return statusesPath + "/" + id + "/source?file=config/routes.oas.json" }
		id, address := fx.issueUpload("main")
		fx.Call(fx.fullKey, "GET", sourcePath(id), "").Want(404, "no sources of this build")
		fx.Upload(address, []byte("text"))
		fx.Call(fx.fullKey, "GET", sourcePath(id), "").Want(404, "no such file that is shown")

		failedBuild := fx.deploy("main", invalidProject()).Text("buildId")
		fx.Call(fx.fullKey, "GET", sourcePath(failedBuild), "").Want(200, "$env(UNSET)")
		fx.deploy("main", validProject())
		fx.Now = fx.Now.Add(25 * time.Hour)
		fx.FinishAll()
		fx.Call(fx.fullKey, "GET", sourcePath(failedBuild), "").Want(404, "no sources of this build")
	})
}

// TestUnreadableRoutes checks that the response to a read of the routes is 409 if the artifact has the format of
// another release, or if it was deleted meanwhile.
func TestUnreadableRoutes(t *testing.T) {
	fx, main, _ := newDeployedFixture(t)
	routesPath := "/v1/deployments/" + main.name + "/routes"
	for suffix, want := range map[string]struct {
		status  int
		message string
	}{
		".99":   {409, "built by a release that this one cannot read"},
		"-gone": {409, "was replaced meanwhile"},
	} {
		c := fx.Copy(t)
		record, err := deployments.Read(t.Context(), c.Parts.Table, main.name)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Parts.Table.Commit(store.WithReadSet(t.Context()),
			store.Update(deployments.Key(main.name),
				store.Set(store.At("served", "artifact"), record.Served.Artifact+suffix))); err != nil {
			t.Fatal(err)
		}
		c.Call(fx.fullKey, "GET", routesPath, "").Want(want.status, want.message)
	}
}

func TestRoutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fx := newFixture(t)
		files := validProject()
		files["config/policies.json"] = `{"policies":[
			{"name":"limit","policyType":"rate-limit-inbound","handler":{"export":"RateLimitInboundPolicy","module":"$import(@gatewright/runtime)","options":{"rateLimitBy":"ip","requestsAllowed":10,"timeWindowMinutes":1}}},
			{"name":"seen","policyType":"graphql-analytics-outbound","handler":{"export":"GraphQLAnalyticsOutboundPolicy","module":"$import(@gatewright/graphql)","options":{}}},
			{"name":"key","policyType":"api-key-inbound","handler":{"export":"ApiKeyInboundPolicy","module":"$import(@gatewright/runtime)","options":{}}}]}`
		files["config/routes.oas.json"] = strings.NewReplacer(`"inbound":[]`, `"inbound":["key","limit"],"outbound":["seen"]`,
			`"get":{`, `"post":{"x-graphql":true,`).
			Replace(files["config/routes.oas.json"])
		if s := fx.deploy("main", files); s.Text("status") != "SUCCESS" {
			t.Fatalf("deploy(main) = %s, want SUCCESS", s)
		}
		name := fx.Call(fx.fullKey, "GET", deploymentsPath, "").Want(200).JSON().At("data.0").Text("name")
		routesPath := "/v1/deployments/" + name + "/routes"
		fx.Call(fx.createReaderKey(), "GET", routesPath, "").Want(200, `"method":"POST","path":"/a"`,
			`"handler":"urlForwardHandler"`, `"file":"config/routes.oas.json","pointer":"/paths/~1a/post"`,
			`"policies":[{"name":"key","policyType":"api-key-inbound","direction":"inbound"},{"name":"limit",`+
				`"policyType":"rate-limit-inbound","direction":"inbound"},{"name":"seen",`+
				`"policyType":"graphql-analytics-outbound","direction":"outbound"}]`)
		fx.Call(fx.fullKey, "GET", routesPath+"?offset=1000", "").Want(200, `"data":[]`)
		fx.Call(fx.CreateAccount("evil"), "GET", routesPath, "").Want(404, "deployment")
		fx.Call(fx.createLimitedKey(nil, environment.Preview), "GET", routesPath, "").Want(404, "deployment")
	})
}
