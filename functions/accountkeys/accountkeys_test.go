package accountkeys_test

import (
	"strings"
	"testing"
	"time"

	"github.com/gatewright/gatewright/functions/accountkeys"
	"github.com/gatewright/gatewright/functions/functionstest"
	"github.com/gatewright/gatewright/functions/platform"
	"github.com/gatewright/gatewright/shared/auth"
	"github.com/gatewright/gatewright/shared/environment"
)

const all = "/v1/accounts/acme/account-keys"

func newWorld(t *testing.T) (w *functionstest.World, full string) {
	t.Helper()
	w = functionstest.New(t, platform.Bind, accountkeys.Bind)
	return w, w.Account("acme")
}

// own is the id of a caller's key.
func own(w *functionstest.World, key string) string {
	w.Helper()
	return w.Call(key, "GET", "/v1/who-am-i", "").Want(200).JSON().Text("sub")
}

func limited(p *auth.Permissions) {
	p.Projects, p.Environments = []string{"shop"}, []environment.Kind{environment.Preview}
	p.Scopes = []auth.Scope{auth.AccountKeys.Write(), auth.Logs.Read()}
}

func TestAnswers(t *testing.T) {
	w, full := newWorld(t)
	ci := w.Key("acme", limited)
	reader := w.Key("acme", func(p *auth.Permissions) { p.Scopes = []auth.Scope{auth.AccountKeys.Read()} })
	ofAll := w.Key("acme", func(p *auth.Permissions) { p.Projects = []string{"all"} })
	other := w.Account("evil")
	fullKey := all + "/" + own(w, full)
	w.Run(t, []functionstest.Case{
		{"all of everything", full, "POST", all, `{"label":"a","scopes":"all"}`, 201, `"scopes":"all","projects":"all","environments":["production","preview","development"],"key":"gwa_`},
		{"limits", full, "POST", all, `{"label":"a","scopes":["logs:read"],"projects":["shop"],"environments":["preview"],"expiresOn":"2030-01-01T01:00:00+01:00"}`, 201, `"expiresOn":"2030-01-01T00:00:00.000Z","lastUsedOn":null,"scopes":["logs:read"],"projects":["shop"],"environments":["preview"],`},
		{"nothing", full, "POST", all, `{"label":"a","scopes":[],"projects":[],"environments":[]}`, 201, `"scopes":[],"projects":[],"environments":[],`},
		{"as much as itself", ci, "POST", all, `{"label":"a","scopes":["account-keys:read","logs:read"],"projects":["shop"],"environments":["preview"]}`, 201, ""},
		{"more scopes", ci, "POST", all, `{"label":"a","scopes":["logs:write"],"projects":["shop"],"environments":["preview"]}`, 403, "scopes"},
		{"more projects", ci, "POST", all, `{"label":"a","scopes":[],"environments":["preview"]}`, 403, "projects"},
		{"more environments", ci, "POST", all, `{"label":"a","scopes":[],"projects":["shop"]}`, 403, "environments"},
		{"no label", full, "POST", all, `{"scopes":"all"}`, 400, "label"},
		{"an empty label", full, "POST", all, `{"label":"","scopes":"all"}`, 400, "body.label"},
		{"a long label", full, "POST", all, `{"label":"` + strings.Repeat("ä", 65) + `","scopes":"all"}`, 400, "128 bytes"},
		{"a label of lines", full, "POST", all, `{"label":"a\nb","scopes":"all"}`, 400, "control"},
		{"a label that turns its line around", full, "POST", all, `{"label":"a\u202e","scopes":[]}`, 400, "control"},
		{"a label of a family", full, "POST", all, `{"label":"👩\u200d👧","scopes":[]}`, 201, ""},
		{"no scopes", full, "POST", all, `{"label":"a"}`, 400, "required property scopes"},
		{"an unknown scope", full, "POST", all, `{"label":"a","scopes":["keys:read"]}`, 400, "body.scopes: has one that there is not"},
		{"what scopes there are", full, "POST", all, `{"label":"a","scopes":["keys:read"]}`, 400, "account-keys, audit-logs"},
		{"all in a list", full, "POST", all, `{"label":"a","scopes":["all","logs:read"]}`, 400, "body.scopes"},
		{"all in a list alone", full, "POST", all, `{"label":"a","scopes":["all"]}`, 400, "body.scopes"},
		{"a project called all", full, "POST", all, `{"label":"a","scopes":[],"projects":["all"]}`, 201, `"projects":["all"]`},
		{"all but a project called all", ofAll, "POST", all, `{"label":"a","scopes":[],"environments":[]}`, 403, "projects"},
		{"no list of scopes", full, "POST", all, `{"label":"a","scopes":null}`, 400, "body.scopes"},
		{"no list of projects", full, "POST", all, `{"label":"a","scopes":[],"projects":null}`, 400, "body.projects"},
		{"no list of environments", full, "POST", all, `{"label":"a","scopes":[],"environments":null}`, 400, "body.environments"},
		{"scopes as a text", full, "POST", all, `{"label":"a","scopes":"logs:read"}`, 400, "body.scopes"},
		{"scopes as a number", full, "POST", all, `{"label":"a","scopes":1}`, 400, "body.scopes"},
		{"a bad project", full, "POST", all, `{"label":"a","scopes":[],"projects":["Shop"]}`, 400, "body.projects"},
		{"a star", full, "POST", all, `{"label":"a","scopes":[],"projects":["*"]}`, 400, "body.projects"},
		{"a bad environment", full, "POST", all, `{"label":"a","scopes":[],"environments":["PRODUCTION"]}`, 400, "body.environments"},
		{"an end that has been", full, "POST", all, `{"label":"a","scopes":[],"expiresOn":"2020-01-01T00:00:00Z"}`, 400, "body.expiresOn"},
		{"an end that is no time", full, "POST", all, `{"label":"a","scopes":[],"expiresOn":"tomorrow"}`, 400, "body.expiresOn"},
		{"no body", full, "POST", all, ``, 400, ""},
		{"a scope that only looks", reader, "POST", all, `{"label":"a","scopes":[]}`, 403, "account-keys:write"},
		{"another account", other, "GET", all, "", 404, "account"},
		{"no key", "", "GET", all, "", 401, ""},
		{"a page", full, "GET", all + "?limit=1&offset=2", "", 200, `"limit":1,"offset":2,"total":4}`},
		{"what a limited key sees", ci, "GET", all, "", 200, `"total":1}`},
		{"the last one", full, "DELETE", fullKey, "", 409, "force=true"},
		{"the last one by force", full, "DELETE", fullKey + "?force=true", "", 204, ""},
		{"force of no kind", full, "DELETE", fullKey + "?force=please", "", 400, "query.force"},
		{"one that may more", ci, "DELETE", fullKey + "?force=true", "", 404, "account key"},
		{"itself", ci, "DELETE", all + "/" + own(w, ci), "", 204, ""},
		{"none", full, "DELETE", all + "/akey_none", "", 404, "account key"},
		{"another account's", other, "DELETE", strings.Replace(fullKey, "acme", "evil", 1), "", 404, "account key"},
	})
}

// TestKeyWorksUntilItIsRevoked, shows the day of its use, and is shown once.
func TestKeyWorksUntilItIsRevoked(t *testing.T) {
	w, full := newWorld(t)
	w.Asides()
	made := w.Call(full, "POST", all, `{"label":"ci","scopes":["account-keys:read"]}`).Want(201).JSON()
	w.Call(full, "GET", all, "").Want(200, `"label":"ci"`, `"lastUsedOn":null`, `"lastUsedOn":"`+w.Now.Format(time.DateOnly)+`"`)
	w.Now = w.Now.Add(25 * time.Hour)
	a := w.Call(made.Text("key"), "GET", all, "").Want(200)
	if text := a.Body; strings.Contains(text, "gwa_") {
		t.Errorf("the list shows a key: %s", text)
	}
	if last := w.Call(full, "GET", all, "").Want(200).JSON().Text("data.0.lastUsedOn"); last != w.Now.Format(time.DateOnly) {
		t.Errorf("it was last used on %q", last)
	}
	w.Call(full, "DELETE", all+"/"+made.Text("id"), "").Want(204)
	w.Now = w.Now.Add(time.Minute)
	w.Call(made.Text("key"), "GET", all, "").Want(401, "revoked")
	w.Call(full, "GET", all, "").Want(200, `"total":1}`)
	w.Call(full, "DELETE", all+"/"+made.Text("id"), "").Want(404)
}

// TestKeyMakesNoneThatLivesLonger also where nothing else is more.
func TestKeyMakesNoneThatLivesLonger(t *testing.T) {
	w, full := newWorld(t)
	short := w.Call(full, "POST", all, `{"label":"a","scopes":"all","expiresOn":"2027-01-01T00:00:00Z"}`).Want(201).JSON().Text("key")
	for _, c := range []struct {
		end    string
		status int
	}{{"", 403}, {`,"expiresOn":null`, 403}, {`,"expiresOn":"2027-01-01T00:00:00.001Z"`, 403}, {`,"expiresOn":"2027-01-01T00:00:00Z"`, 201}} {
		w.Copy(t).Call(short, "POST", all, `{"label":"b","scopes":[]`+c.end+`}`).Want(c.status)
	}
}
