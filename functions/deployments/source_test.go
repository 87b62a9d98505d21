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
	"github.com/gatewright/gatewright/shared/deployments"
	"github.com/gatewright/gatewright/shared/environment"
	"github.com/gatewright/gatewright/shared/store"
)

// marked checks that a finding's line and column are those of the last name of its pointer, in the sources that the API shows.
func (w world) marked(id string, found functionstest.Value) {
	w.Helper()
	q := url.Values{"file": {found.Text("file")}, "line": {fmt.Sprint(found.Number("line"))}}
	shown := w.Call(w.full, "GET", statuses+"/"+id+"/source?"+q.Encode(), "").Want(200).JSON()
	lines := strings.Split(shown.Text("text"), "\n")
	name := found.Text("path")[strings.LastIndexByte(found.Text("path"), '/')+1:]
	at := lines[int(found.Number("line")-shown.Number("startLine"))][int(found.Number("column"))-1:]
	if _, err := strconv.Atoi(name); err == nil {
		name = "{"
	}
	if !strings.HasPrefix(strings.TrimPrefix(at, `"`), name) {
		w.Errorf("%s is said to be where %q begins", found, at)
	}
}

func TestSources(t *testing.T) {
	w, main, feature := deployed(t)
	full, reader, other := w.full, w.reader(), w.Account("evil")
	previews, blog := w.limited(nil, environment.Preview), w.limited([]string{"blog"})
	at := func(id, query string) string { return statuses + "/" + id + "/source?" + query }
	const routes = "file=config/routes.oas.json"
	w.Run(t, []functionstest.Case{
		{"of what is served", reader, "GET", at(main.statusID, routes), "", 200, `"file":"config/routes.oas.json","startLine":1,"startColumn":1,"text":"{`},
		{"all of it", reader, "GET", at(main.statusID, routes), "", 200, `"moreBefore":false,"moreAfter":false`},
		{"around a line", reader, "GET", at(main.statusID, routes+"&line=3&column=7"), "", 200, `"startLine":1`},
		{"behind the end", reader, "GET", at(main.statusID, routes+"&line=99999999&column=99999999"), "", 200, `"startLine":1`},
		{"before the beginning", reader, "GET", at(main.statusID, routes+"&line=0"), "", 400, "query.line"},
		{"of an environment that the key sees", previews, "GET", at(feature.statusID, routes), "", 200, "openapi"},
		{"of an environment that it does not see", previews, "GET", at(main.statusID, routes), "", 404, "This upload does not exist"},
		{"of a project that it does not see", blog, "GET", at(main.statusID, routes), "", 404, "project"},
		{"of another account", other, "GET", strings.Replace(at(main.statusID, routes), "acme", "evil", 1), "", 404, "upload"},
		{"without a file", full, "GET", at(main.statusID, ""), "", 400, "query.file"},
		{"of a file that is not there", full, "GET", at(main.statusID, "file=config/none.oas.json"), "", 404, "no such file that is shown"},
		{"of a file that is not shown", full, "GET", at(main.statusID, "file=package.json"), "", 404, "no such file that is shown"},
		{"of a file above", full, "GET", at(main.statusID, "file=../config/routes.oas.json"), "", 404, "no such file that is shown"},
		{"by nobody", "", "GET", at(main.statusID, routes), "", 401, "Bearer"},
	})
}

// TestSourcesThatAreNotThere: before an archive, of one that is none, and once they were removed.
func TestSourcesThatAreNotThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		source := func(id string) string { return statuses + "/" + id + "/source?file=config/routes.oas.json" }
		id, address := w.issue("main")
		w.Call(w.full, "GET", source(id), "").Want(404, "no sources of this build")
		w.Upload(address, []byte("text"))
		w.Call(w.full, "GET", source(id), "").Want(404, "no such file that is shown")

		failed := w.deploy("main", bad()).Text("buildId")
		w.Call(w.full, "GET", source(failed), "").Want(200, "$env(UNSET)")
		w.deploy("main", good())
		w.Now = w.Now.Add(25 * time.Hour)
		w.Settle()
		w.Call(w.full, "GET", source(failed), "").Want(404, "no sources of this build")
	})
}

// TestRoutesThatCannotBeRead: what another release has built, and what is gone before it could be read.
func TestRoutesThatCannotBeRead(t *testing.T) {
	w, main, _ := deployed(t)
	at := "/v1/deployments/" + main.name + "/routes"
	for suffix, want := range map[string]struct {
		status int
		says   string
	}{
		".99":   {409, "built by a release that this one cannot read"},
		"-gone": {409, "was replaced meanwhile"},
	} {
		c := w.Copy(t)
		record, err := deployments.Read(t.Context(), c.Parts.Table, main.name)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Parts.Table.Commit(store.Decide(t.Context()), store.Update(deployments.Key(main.name), store.Set(store.At("served", "artifact"), record.Served.Artifact+suffix))); err != nil {
			t.Fatal(err)
		}
		c.Call(w.full, "GET", at, "").Want(want.status, want.says)
	}
}

func TestRoutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		files := good()
		files["config/policies.json"] = `{"policies":[
			{"name":"limit","policyType":"rate-limit-inbound","handler":{"export":"RateLimitInboundPolicy","module":"$import(@gatewright/runtime)","options":{"rateLimitBy":"ip","requestsAllowed":10,"timeWindowMinutes":1}}},
			{"name":"seen","policyType":"graphql-analytics-outbound","handler":{"export":"GraphQLAnalyticsOutboundPolicy","module":"$import(@gatewright/graphql)","options":{}}},
			{"name":"key","policyType":"api-key-inbound","handler":{"export":"ApiKeyInboundPolicy","module":"$import(@gatewright/runtime)","options":{}}}]}`
		files["config/routes.oas.json"] = strings.NewReplacer(`"inbound":[]`, `"inbound":["key","limit"],"outbound":["seen"]`, `"get":{`, `"post":{"x-graphql":true,`).
			Replace(files["config/routes.oas.json"])
		if s := w.deploy("main", files); s.Text("status") != "SUCCESS" {
			t.Fatalf("status %s", s)
		}
		name := w.Call(w.full, "GET", list, "").Want(200).JSON().At("data.0").Text("name")
		at := "/v1/deployments/" + name + "/routes"
		w.Call(w.reader(), "GET", at, "").Want(200, `"method":"POST","path":"/a"`, `"handler":"urlForwardHandler"`, `"file":"config/routes.oas.json","pointer":"/paths/~1a/post"`,
			`"policies":[{"name":"key","policyType":"api-key-inbound","direction":"inbound"},{"name":"limit","policyType":"rate-limit-inbound","direction":"inbound"},{"name":"seen","policyType":"graphql-analytics-outbound","direction":"outbound"}]`)
		w.Call(w.full, "GET", at+"?offset=1000", "").Want(200, `"data":[]`)
		w.Call(w.Account("evil"), "GET", at, "").Want(404, "deployment")
		w.Call(w.limited(nil, environment.Preview), "GET", at, "").Want(404, "deployment")
	})
}
