package sessions_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gatewright/gatewright/functions/accountkeys"
	"github.com/gatewright/gatewright/functions/functionstest"
	"github.com/gatewright/gatewright/functions/platform"
	"github.com/gatewright/gatewright/functions/projects"
	"github.com/gatewright/gatewright/functions/sessions"
	"github.com/gatewright/gatewright/shared/core/auth"
	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/format/credential"
	"github.com/gatewright/gatewright/shared/format/environment"
	"github.com/gatewright/gatewright/shared/management/api"
	"github.com/gatewright/gatewright/shared/resource/accounts"
	sharedsessions "github.com/gatewright/gatewright/shared/resource/sessions"
)

const (
	sessionPath  = "/v1/session"
	whoAmIPath   = "/v1/who-am-i"
	projectsPath = "/v1/projects"
)

func newFixture(t *testing.T) (fx *functionstest.Fixture, fullKey string) {
	t.Helper()
	fx = functionstest.New(t, platform.Bind, accountkeys.Bind, projects.Bind, sessions.Bind)
	return fx, fx.CreateAccount("acme")
}

// TestCallerReadsItsPermissions checks that GET of the session returns the permissions of the caller's key, both for a
// call with the key and for a call with a session of the key.
func TestCallerReadsItsPermissions(t *testing.T) {
	fx, fullKey := newFixture(t)
	expiry := fx.Now.Add(time.Hour)
	limitedKey := fx.CreateKeyWith("acme", accounts.Spec{
		Label: "desk", ExpiresOn: &expiry,
		Permissions: functionstest.LimitedPermissions(func(p *auth.Permissions) {
			p.Projects, p.Environments, p.Scopes = []string{"shop"}, []environment.Kind{environment.Preview},
				[]auth.Scope{auth.Logs.Read()}
			p.Confirm = true
		}),
	})
	fx.Call(fullKey, "GET", sessionPath, "").Want(200, `"account":"acme"`,
		`"scopes":"all","projects":"all","environments":["production","preview","development"],"confirmDestructive":false,`+
			`"keyExpiresOn":null,"session":null`)
	fx.Call(limitedKey, "GET", sessionPath, "").Want(200,
		`"label":"desk","scopes":["logs:read"],"projects":["shop"],"environments":["preview"],"confirmDestructive":true,`+
			`"keyExpiresOn":"2026-03-14T10:26:53.589Z","session":null`)
	fx.Call(fx.CreateSession(fullKey), "GET", sessionPath, "").Want(200, `"scopes":"all"`,
		`"session":{"createdOn":"2026-03-14T09:26:53.589Z","expiresOn":"2026-03-14T21:26:53.589Z","idleSeconds":1800}`)
	fx.Call(fx.CreateSession(limitedKey), "GET", sessionPath, "").Want(200, `"scopes":["logs:read"]`,
		`"expiresOn":"2026-03-14T10:26:53.589Z","idleSeconds":1800}`)
}

// TestCookieContainsOnlyTheToken checks that the token is only in the cookie and not in the response body, and that the
// key is in neither. The cookie's attributes must prevent scripts from reading it and other sites from sending it.
func TestCookieContainsOnlyTheToken(t *testing.T) {
	fx, fullKey := newFixture(t)
	for range 2 { // the second request creates another session
		resp := fx.Call(fullKey, "POST", sessionPath, "", "Idempotency-Key", "a").Want(201).WantHeader("Cache-Control",
			"no-store").WantHeader("Idempotent-Replayed", "")
		token, attributes, _ := strings.Cut(strings.TrimPrefix(resp.Header.Get("Set-Cookie"), "__Host-gatewright-session="),
			";")
		if attributes != " Path=/; HttpOnly; Secure; SameSite=Strict" {
			t.Errorf("attributes of the cookie = %q, want Path=/; HttpOnly; Secure; SameSite=Strict", attributes)
		}
		if strings.Contains(token, fullKey) {
			t.Errorf("token = %s, want no account key in it", token)
		}
		if strings.Contains(resp.Body, token) || strings.Contains(resp.Body, fullKey) {
			t.Errorf("body = %s, want neither the token nor the key", resp.Body)
		}
		for key, item := range fx.Items.Items() {
			if strings.HasPrefix(key.PK, "answers#") {
				t.Fatalf("stored response with the cookie = %s %v, want none", key.PK, item)
			}
		}
	}
	first, second := fx.CreateSession(fullKey), fx.CreateSession(fullKey)
	if first == second {
		t.Error("CreateSession() returns the same token twice, want two different tokens")
	}
}

func TestSessionDeletesItself(t *testing.T) {
	fx, fullKey := newFixture(t)
	session, otherSession := fx.CreateSession(fullKey), fx.CreateSession(fullKey)
	fx.Call(fullKey, "DELETE", sessionPath, "").Want(409, "Make it with that session")
	fx.Call(session, "GET", whoAmIPath, "").Want(200)
	fx.Call(session, "DELETE", sessionPath, "").Want(204).WantHeader("Set-Cookie",
		"__Host-gatewright-session=; Path=/; Max-Age=0; HttpOnly; Secure; SameSite=Strict")
	for range 2 {
		fx.Call(session, "DELETE", sessionPath, "").Want(401, "has ended").WantHeader("WWW-Authenticate", "Bearer")
	}
	fx.Call(session, "GET", whoAmIPath, "").Want(401, "Sign in again")
	fx.Call(otherSession, "GET", whoAmIPath, "").Want(200)
	fx.Call(fullKey, "GET", whoAmIPath, "").Want(200)
}

// TestSessionCannotCreateSession checks that a session cannot create another session, with which a stolen session could
// be extended.
func TestSessionCannotCreateSession(t *testing.T) {
	fx, fullKey := newFixture(t)
	fx.Call(fx.CreateSession(fullKey), "POST", sessionPath, "").Want(401, "No account key")
}

// TestSessionIsAuditedAsItsKey checks that the audit records of changes with a session name the session's key, and do
// not contain the token.
func TestSessionIsAuditedAsItsKey(t *testing.T) {
	fx, fullKey := newFixture(t)
	sub := fx.Call(fullKey, "GET", sessionPath, "").JSON().Text("sub")
	session := fx.CreateSession(fullKey)
	fx.Call(session, "POST", projectsPath, `{"name":"shop"}`).Want(200)
	fx.Call(session, "DELETE", sessionPath, "").Want(204)
	records := map[string]string{} // by action
	for key, item := range fx.Items.Items() {
		if strings.HasPrefix(key.PK, "audit-new#") {
			content, err := json.Marshal(item)
			if err != nil {
				t.Fatal(err)
			}
			record := string(content)
			for _, action := range []string{"session.create", "project.create", "session.delete"} {
				if strings.Contains(record, action) {
					records[action] = record
				}
			}
			if strings.Contains(record, session) {
				t.Errorf("the record %s contains the session's token, want it left out", record)
			}
		}
	}
	for _, action := range []string{"session.create", "project.create", "session.delete"} {
		if !strings.Contains(records[action], sub) {
			t.Errorf("%s is recorded as %q, want the key %s", action, records[action], sub)
		}
	}
}

// TestSessionIsValidOnlyForSameOrigin sends requests with different Sec-Fetch-Site and Origin headers.
func TestSessionIsValidOnlyForSameOrigin(t *testing.T) {
	fx, fullKey := newFixture(t)
	session, second := fx.CreateSession(fullKey), fx.CreateSession(fullKey)
	otherAccountKey := fx.CreateAccount("globex")
	cookie := "__Host-gatewright-session=" + session
	sameOrigin := []string{"Sec-Fetch-Site", "same-origin"}
	for name, c := range map[string]struct {
		method string
		fields []string
		want   int
	}{
		"same origin":                   {"GET", append(sameOrigin, "Cookie", cookie), 200},
		"change from the same origin":   {"POST", append(sameOrigin, "Cookie", cookie), 200},
		"several cookies":               {"GET", append(sameOrigin, "Cookie", "a=1; "+cookie+"; b=2"), 200},
		"second Cookie field":           {"GET", append(sameOrigin, "Cookie", "a=1", "Cookie", cookie), 200},
		"no Sec-Fetch-Site":             {"GET", []string{"Cookie", cookie}, 401},
		"change without Sec-Fetch-Site": {"POST", []string{"Cookie", cookie}, 401},
		"another site":                  {"GET", []string{"Sec-Fetch-Site", "cross-site", "Cookie", cookie}, 401},
		"another origin of the site":    {"GET", []string{"Sec-Fetch-Site", "same-site", "Cookie", cookie}, 401},
		"change from another port": {
			"POST", []string{"Sec-Fetch-Site", "same-site", "Cookie", cookie, "Origin", "http://127.0.0.1:9001"}, 401,
		},
		"typed address":                  {"GET", []string{"Sec-Fetch-Site", "none", "Cookie", cookie}, 401},
		"change from a typed address":    {"POST", []string{"Sec-Fetch-Site", "none", "Cookie", cookie}, 401},
		"Sec-Fetch-Site in another case": {"GET", []string{"Sec-Fetch-Site", "Same-Origin", "Cookie", cookie}, 401},
		"two values in Sec-Fetch-Site": {
			"GET", []string{"Sec-Fetch-Site", "same-origin, same-origin", "Cookie", cookie}, 401,
		},
		"repeated Sec-Fetch-Site": {
			"GET", append(sameOrigin, "Sec-Fetch-Site", "same-origin", "Cookie", cookie), 401,
		},
		"two different Sec-Fetch-Site": {"GET", append(sameOrigin, "Sec-Fetch-Site", "cross-site", "Cookie", cookie), 401},
		"empty Sec-Fetch-Site":         {"GET", []string{"Sec-Fetch-Site", "", "Cookie", cookie}, 401},
		"repeated session":             {"GET", append(sameOrigin, "Cookie", cookie+"; "+cookie), 401},
		"two sessions": {
			"GET", append(sameOrigin, "Cookie", cookie, "Cookie", "__Host-gatewright-session="+second), 401,
		},
		"quoted session": {
			"GET", append(sameOrigin, "Cookie", `__Host-gatewright-session="`+session+`"`), 401,
		},
		"cookie of another name":      {"GET", append(sameOrigin, "Cookie", "gatewright-session="+session), 401},
		"cookie name in another case": {"GET", append(sameOrigin, "Cookie", "__host-gatewright-session="+session), 401},
		"truncated session":           {"GET", append(sameOrigin, "Cookie", cookie[:len(cookie)-1]), 401},
		"empty session":               {"GET", append(sameOrigin, "Cookie", "__Host-gatewright-session="), 401},
		"account key as session":      {"GET", append(sameOrigin, "Cookie", "__Host-gatewright-session="+fullKey), 401},
		"session as account key":      {"GET", append(sameOrigin, "Authorization", "Bearer "+session), 401},
		"valid account key":           {"GET", []string{"Authorization", "Bearer " + fullKey, "Cookie", cookie}, 200},
		"invalid account key": {
			"GET", append(sameOrigin, "Authorization", "Bearer gwa_x", "Cookie", cookie), 401,
		},
		"empty Authorization":             {"GET", append(sameOrigin, "Authorization", "", "Cookie", cookie), 401},
		"Authorization of another scheme": {"GET", append(sameOrigin, "Authorization", "Basic eDp5", "Cookie", cookie), 401},
		"two account keys": {
			"GET", append(sameOrigin, "Authorization", "Bearer "+fullKey, "Authorization", "Bearer "+fullKey, "Cookie", cookie),
			401,
		},
		"key of another account": {
			"GET", append(sameOrigin, "Authorization", "Bearer "+otherAccountKey, "Cookie", cookie), 200,
		},
		"allowed origin": {
			"GET", []string{"Sec-Fetch-Site", "cross-site", "Origin", "https://trusted.test", "Cookie", cookie}, 401,
		},
	} {
		t.Run(name, func(t *testing.T) {
			fixture := fx.Copy(t)
			fixture.Now = fx.Now.Add(time.Minute)
			fixture.Parts.Config.Origins = []string{"https://trusted.test"}
			fixture.Restart()
			target, body := whoAmIPath, ""
			if c.method == "POST" {
				target, body = projectsPath, `{"name":"shop"}`
			}
			fixture.Call("", c.method, target, body, c.fields...).Want(c.want)
		})
	}
}

// TestSessionIsCreatedOnlyForSameOrigin checks that pages of other origins cannot create a session. Otherwise such a
// page, even one that a deployment of the installation serves, could sign its visitors in to the account of the page's
// author. Programs send no Sec-Fetch-Site, and can create sessions.
func TestSessionIsCreatedOnlyForSameOrigin(t *testing.T) {
	fx, fullKey := newFixture(t)
	fx.Parts.Config.Origins = []string{"https://trusted.test"}
	fx.Restart()
	for name, c := range map[string]struct {
		fields []string
		want   int
	}{
		"request without browser fields": {nil, 201},
		"same origin": {
			[]string{"Sec-Fetch-Site", "same-origin", "Origin", "https://example.com"},
			201,
		},
		"another site":                   {[]string{"Sec-Fetch-Site", "cross-site"}, 403},
		"another origin of the site":     {[]string{"Sec-Fetch-Site", "same-site"}, 403},
		"typed address":                  {[]string{"Sec-Fetch-Site", "none"}, 403},
		"Sec-Fetch-Site in another case": {[]string{"Sec-Fetch-Site", "Cross-Site"}, 403},
		"empty Sec-Fetch-Site":           {[]string{"Sec-Fetch-Site", ""}, 403},
		"two different Sec-Fetch-Site": {
			[]string{"Sec-Fetch-Site", "same-origin", "Sec-Fetch-Site", "cross-site"},
			403,
		},
		"allowed origin": {
			[]string{"Sec-Fetch-Site", "cross-site", "Origin", "https://trusted.test"},
			403,
		},
		"another site in an older browser": {[]string{"Origin", "https://globex.example"}, 403},
	} {
		t.Run(name, func(t *testing.T) {
			resp := fx.Copy(t).Call(fullKey, "POST", sessionPath, "", c.fields...)
			if resp.Status != c.want {
				t.Fatalf("POST %s with %q: status = %d, want %d", sessionPath, c.fields, resp.Status, c.want)
			}
			if cookie := resp.Header.Get("Set-Cookie"); (cookie != "") != (c.want == 201) {
				t.Errorf("POST %s with %q: Set-Cookie = %q, want one only with status 201", sessionPath, c.fields, cookie)
			}
		})
	}
}

// TestSessionIsLimitedToItsAccount checks that a session cannot see other accounts, and has only the scopes of its key.
func TestSessionIsLimitedToItsAccount(t *testing.T) {
	fx, fullKey := newFixture(t)
	fx.CreateAccount("globex")
	session := fx.CreateSession(fullKey)
	fx.Call(session, "GET", "/v1/accounts/globex/account-keys", "").Want(404)
	fx.Call(session, "GET", "/v1/accounts/acme/account-keys", "").Want(200)
	readerSession := fx.CreateSession(fx.CreateKey("acme", func(p *auth.Permissions) {
		p.Scopes = []auth.Scope{auth.Projects.Read()}
	}))
	fx.Call(readerSession, "POST", projectsPath, `{"name":"shop"}`).Want(403, "projects:write")
}

// TestPollingDoesNotExtendSession checks that a session expires half an hour after its last use, even if its page
// polls.
func TestPollingDoesNotExtendSession(t *testing.T) {
	for _, c := range []struct {
		fields []string
		want   int
	}{{nil, 200}, {[]string{"Gatewright-Idle", "true"}, 401}, {[]string{"Gatewright-Idle", "false"}, 200}} {
		fx, fullKey := newFixture(t)
		session := fx.CreateSession(fullKey)
		fx.EnableBackground()
		for range 5 {
			fx.Now = fx.Now.Add(5 * time.Minute)
			fx.Call(session, "GET", whoAmIPath, "", c.fields...).Want(200)
		}
		fx.Now = fx.Now.Add(sharedsessions.IdleTimeout - time.Minute)
		fx.Call(session, "GET", whoAmIPath, "").Want(c.want)
	}
}

// TestAcceptsSession checks which declarations accept a session.
func TestAcceptsSession(t *testing.T) {
	for name, c := range map[string]struct {
		d    api.Declaration
		want bool
	}{
		"protected operation":     {api.Declaration{}, true},
		"public operation":        {api.Declaration{Public: true}, false},
		"operation for keys only": {api.Declaration{KeyOnly: true}, false},
		"MCP":                     {api.Declaration{ContainsRequests: true}, false},
	} {
		if got := c.d.AcceptsSession(); got != c.want {
			t.Errorf("%s: AcceptsSession() = %v, want %v", name, got, c.want)
		}
	}
}

// TestServerWithoutSessionsIgnoresCookie checks that a server whose authenticator does not support sessions ignores the
// cookie.
func TestServerWithoutSessionsIgnoresCookie(t *testing.T) {
	fx, fullKey := newFixture(t)
	session := fx.CreateSession(fullKey)
	server := api.Open(fx.Parts, keyAuthenticator(fx.Parts), platform.Bind(fx.Parts))
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, whoAmIPath, nil)
	r.Header.Set("Cookie", credential.SessionCookie+"="+session)
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	recorder := httptest.NewRecorder()
	server.ServeHTTP(recorder, r)
	if recorder.Code != http.StatusUnauthorized {
		t.Errorf("status of a request with the cookie = %d, want 401", recorder.Code)
	}
}

// keyAuthenticator returns an authenticator that accepts account keys, but no sessions.
func keyAuthenticator(p installation.Parts) api.Authenticator { return accounts.Open(p) }
