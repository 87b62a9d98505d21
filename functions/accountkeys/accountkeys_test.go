package accountkeys_test

import (
	"strings"
	"testing"
	"time"

	"github.com/gatewright/gatewright/functions/accountkeys"
	"github.com/gatewright/gatewright/functions/functionstest"
	"github.com/gatewright/gatewright/functions/platform"
	"github.com/gatewright/gatewright/shared/core/auth"
	"github.com/gatewright/gatewright/shared/format/environment"
)

const accountKeysPath = "/v1/accounts/acme/account-keys"

func newFixture(t *testing.T) (fx *functionstest.Fixture, fullKey string) {
	t.Helper()
	fx = functionstest.New(t, platform.Bind, accountkeys.Bind)
	return fx, fx.CreateAccount("acme")
}

// keyID returns the id of an account key.
func keyID(fx *functionstest.Fixture, key string) string {
	fx.Helper()
	return fx.Call(key, "GET", "/v1/who-am-i", "").Want(200).JSON().Text("sub")
}

// limitPermissions limits a key to previews of the project shop, and to the scopes account-keys:write and logs:read.
func limitPermissions(p *auth.Permissions) {
	p.Projects, p.Environments = []string{"shop"}, []environment.Kind{environment.Preview}
	p.Scopes = []auth.Scope{auth.AccountKeys.Write(), auth.Logs.Read()}
}

func TestResponses(t *testing.T) {
	fx, fullKey := newFixture(t)
	ciKey := fx.CreateKey("acme", limitPermissions)
	readerKey := fx.CreateKey("acme", func(p *auth.Permissions) { p.Scopes = []auth.Scope{auth.AccountKeys.Read()} })
	allProjectKey := fx.CreateKey("acme", func(p *auth.Permissions) { p.Projects = []string{"all"} })
	otherAccountKey := fx.CreateAccount("evil")
	fullKeyPath := accountKeysPath + "/" + keyID(fx, fullKey)
	createAs := func(name, key, body string, status int, want string) functionstest.Case {
		return functionstest.Case{name, key, "POST", accountKeysPath, body, status, want}
	}
	create := func(name, body string, status int, want string) functionstest.Case {
		return createAs(name, fullKey, body, status, want)
	}
	fx.Run(t, []functionstest.Case{
		create("no limits", `{"label":"a","scopes":"all"}`, 201,
			`"scopes":"all","projects":"all","environments":["production","preview","development"],"key":"gwa_`),
		create("limited permissions",
			`{"label":"a","scopes":["logs:read"],"projects":["shop"],"environments":["preview"],`+
				`"expiresOn":"2030-01-01T01:00:00+01:00"}`,
			201,
			`"expiresOn":"2030-01-01T00:00:00.000Z","lastUsedOn":null,"scopes":["logs:read"],"projects":["shop"],`+
				`"environments":["preview"],`),
		create("no permissions", `{"label":"a","scopes":[],"projects":[],"environments":[]}`, 201,
			`"scopes":[],"projects":[],"environments":[],`),
		createAs("permissions of the caller's key", ciKey,
			`{"label":"a","scopes":["account-keys:read","logs:read"],"projects":["shop"],"environments":["preview"]}`, 201, ""),
		createAs("more scopes", ciKey,
			`{"label":"a","scopes":["logs:write"],"projects":["shop"],"environments":["preview"]}`, 403, "scopes"),
		createAs("more projects", ciKey, `{"label":"a","scopes":[],"environments":["preview"]}`, 403, "projects"),
		createAs("more environments", ciKey, `{"label":"a","scopes":[],"projects":["shop"]}`, 403, "environments"),
		create("no label", `{"scopes":"all"}`, 400, "label"),
		create("an empty label", `{"label":"","scopes":"all"}`, 400, "body.label"),
		create("a long label", `{"label":"`+strings.Repeat("ä", 65)+`","scopes":"all"}`, 400, "128 bytes"),
		create("label with a line feed", `{"label":"a\nb","scopes":"all"}`, 400, "control"),
		create("label with a right-to-left override", `{"label":"a\u202e","scopes":[]}`, 400, "control"),
		create("label with a zero-width joiner", `{"label":"👩\u200d👧","scopes":[]}`, 201, ""),
		create("no scopes", `{"label":"a"}`, 400, "required property scopes"),
		create("an unknown scope", `{"label":"a","scopes":["keys:read"]}`, 400, "body.scopes: has one that there is not"),
		create("unknown scope with the list of scopes", `{"label":"a","scopes":["keys:read"]}`, 400,
			"account-keys, audit-logs"),
		create("all in a list", `{"label":"a","scopes":["all","logs:read"]}`, 400, "body.scopes"),
		create("only all in a list", `{"label":"a","scopes":["all"]}`, 400, "body.scopes"),
		create("a project called all", `{"label":"a","scopes":[],"projects":["all"]}`, 201, `"projects":["all"]`),
		createAs("all projects by a key of a project called all", allProjectKey,
			`{"label":"a","scopes":[],"environments":[]}`, 403, "projects"),
		create("null as scopes", `{"label":"a","scopes":null}`, 400, "body.scopes"),
		create("null as projects", `{"label":"a","scopes":[],"projects":null}`, 400, "body.projects"),
		create("null as environments", `{"label":"a","scopes":[],"environments":null}`, 400, "body.environments"),
		create("scopes as a text", `{"label":"a","scopes":"logs:read"}`, 400, "body.scopes"),
		create("scopes as a number", `{"label":"a","scopes":1}`, 400, "body.scopes"),
		create("invalid project", `{"label":"a","scopes":[],"projects":["Shop"]}`, 400, "body.projects"),
		create("star as project", `{"label":"a","scopes":[],"projects":["*"]}`, 400, "body.projects"),
		create("invalid environment", `{"label":"a","scopes":[],"environments":["PRODUCTION"]}`, 400, "body.environments"),
		create("expiry in the past", `{"label":"a","scopes":[],"expiresOn":"2020-01-01T00:00:00Z"}`, 400, "body.expiresOn"),
		create("invalid expiry", `{"label":"a","scopes":[],"expiresOn":"tomorrow"}`, 400, "body.expiresOn"),
		create("no body", ``, 400, ""),
		createAs("creation without the scope", readerKey, `{"label":"a","scopes":[]}`, 403, "account-keys:write"),
		{"another account", otherAccountKey, "GET", accountKeysPath, "", 404, "account"},
		{"no key", "", "GET", accountKeysPath, "", 401, ""},
		{"a page", fullKey, "GET", accountKeysPath + "?limit=1&offset=2", "", 200, `"limit":1,"offset":2,"total":4}`},
		{"list of a limited key", ciKey, "GET", accountKeysPath, "", 200, `"total":1}`},
		{"deletion of the last full key", fullKey, "DELETE", fullKeyPath, "", 409, "force=true"},
		{"forced deletion of the last full key", fullKey, "DELETE", fullKeyPath + "?force=true", "", 204, ""},
		{"invalid force", fullKey, "DELETE", fullKeyPath + "?force=please", "", 400, "query.force"},
		{"deletion of a key with more permissions", ciKey, "DELETE", fullKeyPath + "?force=true", "", 404, "account key"},
		{"deletion of the caller's key", ciKey, "DELETE", accountKeysPath + "/" + keyID(fx, ciKey), "", 204, ""},
		{"deletion of a missing key", fullKey, "DELETE", accountKeysPath + "/akey_none", "", 404, "account key"},
		{
			"deletion of another account's key", otherAccountKey, "DELETE", strings.Replace(fullKeyPath, "acme", "evil", 1), "",
			404, "account key",
		},
	})
}

// TestKeyWorksUntilItIsRevoked also checks that the list shows when a key was last used, and does not contain the key.
func TestKeyWorksUntilItIsRevoked(t *testing.T) {
	fx, fullKey := newFixture(t)
	fx.EnableBackground()
	created := fx.Call(fullKey, "POST", accountKeysPath, `{"label":"ci","scopes":["account-keys:read"]}`).Want(201).JSON()
	fx.Call(fullKey, "GET", accountKeysPath, "").Want(200, `"label":"ci"`, `"lastUsedOn":null`,
		`"lastUsedOn":"`+fx.Now.Format(time.DateOnly)+`"`)
	fx.Now = fx.Now.Add(25 * time.Hour)
	resp := fx.Call(created.Text("key"), "GET", accountKeysPath, "").Want(200)
	if strings.Contains(resp.Body, "gwa_") {
		t.Errorf("GET %s: body = %s, want no key in it", accountKeysPath, resp.Body)
	}
	lastUsed := fx.Call(fullKey, "GET", accountKeysPath, "").Want(200).JSON().Text("data.0.lastUsedOn")
	if lastUsed != fx.Now.Format(time.DateOnly) {
		t.Errorf("GET %s: lastUsedOn = %q, want %s", accountKeysPath, lastUsed, fx.Now.Format(time.DateOnly))
	}
	fx.Call(fullKey, "DELETE", accountKeysPath+"/"+created.Text("id"), "").Want(204)
	fx.Now = fx.Now.Add(time.Minute)
	fx.Call(created.Text("key"), "GET", accountKeysPath, "").Want(401, "revoked")
	fx.Call(fullKey, "GET", accountKeysPath, "").Want(200, `"total":1}`)
	fx.Call(fullKey, "DELETE", accountKeysPath+"/"+created.Text("id"), "").Want(404)
}

// TestKeyCannotCreateLongerLivedKey checks that a key cannot create a key that expires later than itself, even if the
// new key has no permission.
func TestKeyCannotCreateLongerLivedKey(t *testing.T) {
	fx, fullKey := newFixture(t)
	shortLivedKey := fx.Call(fullKey, "POST", accountKeysPath,
		`{"label":"a","scopes":"all","expiresOn":"2027-01-01T00:00:00Z"}`).Want(201).JSON().Text("key")
	for _, c := range []struct {
		expiry string
		status int
	}{
		{"", 403},
		{`,"expiresOn":null`, 403},
		{`,"expiresOn":"2027-01-01T00:00:00.001Z"`, 403},
		{`,"expiresOn":"2027-01-01T00:00:00Z"`, 201},
	} {
		fx.Copy(t).Call(shortLivedKey, "POST", accountKeysPath, `{"label":"b","scopes":[]`+c.expiry+`}`).Want(c.status)
	}
}
