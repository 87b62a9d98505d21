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
	"github.com/gatewright/gatewright/shared/accounts"
	"github.com/gatewright/gatewright/shared/api"
	"github.com/gatewright/gatewright/shared/auth"
	"github.com/gatewright/gatewright/shared/credential"
	"github.com/gatewright/gatewright/shared/environment"
	"github.com/gatewright/gatewright/shared/installation"
	sharedsessions "github.com/gatewright/gatewright/shared/sessions"
)

const (
	path  = "/v1/session"
	whoAm = "/v1/who-am-i"
	shops = "/v1/projects"
)

func newWorld(t *testing.T) (w *functionstest.World, full string) {
	t.Helper()
	w = functionstest.New(t, platform.Bind, accountkeys.Bind, projects.Bind, sessions.Bind)
	return w, w.Account("acme")
}

// TestCallerReadsWhatItMay by its key, and by a session of it.
func TestCallerReadsWhatItMay(t *testing.T) {
	w, full := newWorld(t)
	end := w.Now.Add(time.Hour)
	limited := w.KeyOf("acme", accounts.Spec{Label: "desk", ExpiresOn: &end, Permissions: functionstest.Limited(func(p *auth.Permissions) {
		p.Projects, p.Environments, p.Scopes = []string{"shop"}, []environment.Kind{environment.Preview}, []auth.Scope{auth.Logs.Read()}
		p.Confirm = true
	})})
	w.Call(full, "GET", path, "").Want(200, `"account":"acme"`, `"scopes":"all","projects":"all","environments":["production","preview","development"],"confirmDestructive":false,"keyExpiresOn":null,"session":null`)
	w.Call(limited, "GET", path, "").Want(200, `"label":"desk","scopes":["logs:read"],"projects":["shop"],"environments":["preview"],"confirmDestructive":true,"keyExpiresOn":"2026-03-14T10:26:53.589Z","session":null`)
	w.Call(w.Session(full), "GET", path, "").Want(200, `"scopes":"all"`, `"session":{"createdOn":"2026-03-14T09:26:53.589Z","expiresOn":"2026-03-14T21:26:53.589Z","idleSeconds":1800}`)
	w.Call(w.Session(limited), "GET", path, "").Want(200, `"scopes":["logs:read"]`, `"expiresOn":"2026-03-14T10:26:53.589Z","idleSeconds":1800}`)
}

// TestCookieIsTheSessionsAlone: it holds the token, and its answer nothing of it or of the key; no script reads it, and
// no other site sends it.
func TestCookieIsTheSessionsAlone(t *testing.T) {
	w, full := newWorld(t)
	for range 2 { // a repeat makes another
		a := w.Call(full, "POST", path, "", "Idempotency-Key", "a").Want(201).WantHeader("Cache-Control", "no-store").WantHeader("Idempotent-Replayed", "")
		token, attributes, _ := strings.Cut(strings.TrimPrefix(a.Header.Get("Set-Cookie"), "__Host-gatewright-session="), ";")
		if attributes != " Path=/; HttpOnly; Secure; SameSite=Strict" {
			t.Errorf("the cookie has%s", attributes)
		}
		if strings.Contains(a.Body, token) || strings.Contains(a.Body, full) {
			t.Errorf("the answer has a secret: %s", a.Body)
		}
		for key, item := range w.Items.Items() {
			if strings.HasPrefix(key.PK, "answers#") {
				t.Fatalf("an answer with the cookie is kept: %s %v", key.PK, item)
			}
		}
	}
	first, second := w.Session(full), w.Session(full)
	if first == second {
		t.Error("two sessions have one token")
	}
}

func TestSessionIsEndedByItself(t *testing.T) {
	w, full := newWorld(t)
	session, other := w.Session(full), w.Session(full)
	w.Call(full, "DELETE", path, "").Want(409, "Make it with that session")
	w.Call(session, "GET", whoAm, "").Want(200)
	w.Call(session, "DELETE", path, "").Want(204).WantHeader("Set-Cookie", "__Host-gatewright-session=; Path=/; Max-Age=0; HttpOnly; Secure; SameSite=Strict")
	for range 2 {
		w.Call(session, "DELETE", path, "").Want(401, "has ended").WantHeader("WWW-Authenticate", "Bearer")
	}
	w.Call(session, "GET", whoAm, "").Want(401, "Sign in again")
	w.Call(other, "GET", whoAm, "").Want(200)
	w.Call(full, "GET", whoAm, "").Want(200)
}

// TestSessionMakesNoSession: a stolen one would outlive its end by another.
func TestSessionMakesNoSession(t *testing.T) {
	w, full := newWorld(t)
	w.Call(w.Session(full), "POST", path, "").Want(401, "No account key")
}

// TestSessionIsRecordedAsItsKey in the audit record of what it does.
func TestSessionIsRecordedAsItsKey(t *testing.T) {
	w, full := newWorld(t)
	sub := w.Call(full, "GET", path, "").JSON().Text("sub")
	session := w.Session(full)
	w.Call(session, "POST", shops, `{"name":"shop"}`).Want(200)
	w.Call(session, "DELETE", path, "").Want(204)
	actors := map[string]string{}
	for key, item := range w.Items.Items() {
		if strings.HasPrefix(key.PK, "audit-new#") {
			content, err := json.Marshal(item)
			if err != nil {
				t.Fatal(err)
			}
			text := string(content)
			for _, action := range []string{"session.create", "project.create", "session.delete"} {
				if strings.Contains(text, action) {
					actors[action] = text
				}
			}
			if strings.Contains(text, session) {
				t.Errorf("the token stands in %s", text)
			}
		}
	}
	for _, action := range []string{"session.create", "project.create", "session.delete"} {
		if !strings.Contains(actors[action], sub) {
			t.Errorf("%s is recorded as %q, want the key %s", action, actors[action], sub)
		}
	}
}

// TestSessionCountsForItsOwnPagesAlone asks by raw requests.
func TestSessionCountsForItsOwnPagesAlone(t *testing.T) {
	w, full := newWorld(t)
	session, second := w.Session(full), w.Session(full)
	other := w.Account("globex")
	cookie := "__Host-gatewright-session=" + session
	same := []string{"Sec-Fetch-Site", "same-origin"}
	for name, c := range map[string]struct {
		method string
		fields []string
		want   int
	}{
		"a page of the API's own":              {"GET", append(same, "Cookie", cookie), 200},
		"a change of it":                       {"POST", append(same, "Cookie", cookie), 200},
		"beside other cookies":                 {"GET", append(same, "Cookie", "a=1; "+cookie+"; b=2"), 200},
		"in a second field":                    {"GET", append(same, "Cookie", "a=1", "Cookie", cookie), 200},
		"nothing said":                         {"GET", []string{"Cookie", cookie}, 401},
		"a change with nothing said":           {"POST", []string{"Cookie", cookie}, 401},
		"another site":                         {"GET", []string{"Sec-Fetch-Site", "cross-site", "Cookie", cookie}, 401},
		"another port or name of the site":     {"GET", []string{"Sec-Fetch-Site", "same-site", "Cookie", cookie}, 401},
		"a change of another port":             {"POST", []string{"Sec-Fetch-Site", "same-site", "Cookie", cookie, "Origin", "http://127.0.0.1:9001"}, 401},
		"typed in":                             {"GET", []string{"Sec-Fetch-Site", "none", "Cookie", cookie}, 401},
		"a change that is typed in":            {"POST", []string{"Sec-Fetch-Site", "none", "Cookie", cookie}, 401},
		"another spelling":                     {"GET", []string{"Sec-Fetch-Site", "Same-Origin", "Cookie", cookie}, 401},
		"two in a field":                       {"GET", []string{"Sec-Fetch-Site", "same-origin, same-origin", "Cookie", cookie}, 401},
		"two fields":                           {"GET", append(same, "Sec-Fetch-Site", "same-origin", "Cookie", cookie), 401},
		"two that differ":                      {"GET", append(same, "Sec-Fetch-Site", "cross-site", "Cookie", cookie), 401},
		"an empty one":                         {"GET", []string{"Sec-Fetch-Site", "", "Cookie", cookie}, 401},
		"two cookies":                          {"GET", append(same, "Cookie", cookie+"; "+cookie), 401},
		"two sessions":                         {"GET", append(same, "Cookie", cookie, "Cookie", "__Host-gatewright-session="+second), 401},
		"a quoted one":                         {"GET", append(same, "Cookie", `__Host-gatewright-session="`+session+`"`), 401},
		"another name":                         {"GET", append(same, "Cookie", "gatewright-session="+session), 401},
		"another case":                         {"GET", append(same, "Cookie", "__host-gatewright-session="+session), 401},
		"a part of it":                         {"GET", append(same, "Cookie", cookie[:len(cookie)-1]), 401},
		"none":                                 {"GET", append(same, "Cookie", "__Host-gatewright-session="), 401},
		"a key as a session":                   {"GET", append(same, "Cookie", "__Host-gatewright-session="+full), 401},
		"a session as a key":                   {"GET", append(same, "Authorization", "Bearer "+session), 401},
		"beside a key that counts":             {"GET", []string{"Authorization", "Bearer " + full, "Cookie", cookie}, 200},
		"beside a bad key":                     {"GET", append(same, "Authorization", "Bearer gwa_x", "Cookie", cookie), 401},
		"beside an empty Authorization":        {"GET", append(same, "Authorization", "", "Cookie", cookie), 401},
		"beside another scheme":                {"GET", append(same, "Authorization", "Basic eDp5", "Cookie", cookie), 401},
		"beside two keys":                      {"GET", append(same, "Authorization", "Bearer "+full, "Authorization", "Bearer "+full, "Cookie", cookie), 401},
		"beside the key of another account":    {"GET", append(same, "Authorization", "Bearer "+other, "Cookie", cookie), 200},
		"of a page that the installation lets": {"GET", []string{"Sec-Fetch-Site", "cross-site", "Origin", "https://trusted.test", "Cookie", cookie}, 401},
	} {
		t.Run(name, func(t *testing.T) {
			c2 := w.Copy(t)
			c2.Now = w.Now.Add(time.Minute)
			c2.Parts.Config.Origins = []string{"https://trusted.test"}
			c2.Restart()
			target, body := whoAm, ""
			if c.method == "POST" {
				target, body = shops, `{"name":"shop"}`
			}
			c2.Call("", c.method, target, body, c.fields...).Want(c.want)
		})
	}
}

// TestSessionBeginsOnOwnPagesAlone: a page of another origin cannot sign its visitor in to the account of the page's
// author, even if it is a deployment at a sibling name. Programs send no Sec-Fetch-Site.
func TestSessionBeginsOnOwnPagesAlone(t *testing.T) {
	w, full := newWorld(t)
	w.Parts.Config.Origins = []string{"https://trusted.test"}
	w.Restart()
	for name, c := range map[string]struct {
		fields []string
		want   int
	}{
		"a program":                              {nil, 201},
		"a page of the API's own":                {[]string{"Sec-Fetch-Site", "same-origin", "Origin", "https://example.com"}, 201},
		"another site":                           {[]string{"Sec-Fetch-Site", "cross-site"}, 403},
		"another name or port of the site":       {[]string{"Sec-Fetch-Site", "same-site"}, 403},
		"no page":                                {[]string{"Sec-Fetch-Site", "none"}, 403},
		"another spelling":                       {[]string{"Sec-Fetch-Site", "Cross-Site"}, 403},
		"an empty field":                         {[]string{"Sec-Fetch-Site", ""}, 403},
		"two fields":                             {[]string{"Sec-Fetch-Site", "same-origin", "Sec-Fetch-Site", "cross-site"}, 403},
		"a page that GATEWRIGHT_ORIGINS lets in": {[]string{"Sec-Fetch-Site", "cross-site", "Origin", "https://trusted.test"}, 403},
		"another site in an older browser":       {[]string{"Origin", "https://globex.example"}, 403},
	} {
		t.Run(name, func(t *testing.T) {
			a := w.Copy(t).Call(full, "POST", path, "", c.fields...)
			if a.Status != c.want {
				t.Fatalf("POST %s with %q: status = %d, want %d", path, c.fields, a.Status, c.want)
			}
			if cookie := a.Header.Get("Set-Cookie"); (cookie != "") != (c.want == 201) {
				t.Errorf("POST %s with %q: Set-Cookie = %q, want one only with status 201", path, c.fields, cookie)
			}
		})
	}
}

// TestSessionIsOfItsAccountAlone: it sees as little of another as its key.
func TestSessionIsOfItsAccountAlone(t *testing.T) {
	w, full := newWorld(t)
	w.Account("globex")
	session := w.Session(full)
	w.Call(session, "GET", "/v1/accounts/globex/account-keys", "").Want(404)
	w.Call(session, "GET", "/v1/accounts/acme/account-keys", "").Want(200)
	reader := w.Session(w.Key("acme", func(p *auth.Permissions) { p.Scopes = []auth.Scope{auth.Projects.Read()} }))
	w.Call(reader, "POST", shops, `{"name":"shop"}`).Want(403, "projects:write")
}

// TestPollingKeepsNoSession: half an hour after its last use it is over, however often its page has asked by itself.
func TestPollingKeepsNoSession(t *testing.T) {
	for _, c := range []struct {
		fields []string
		want   int
	}{{nil, 200}, {[]string{"Gatewright-Idle", "true"}, 401}, {[]string{"Gatewright-Idle", "false"}, 200}} {
		w, full := newWorld(t)
		session := w.Session(full)
		w.Asides()
		for range 5 {
			w.Now = w.Now.Add(5 * time.Minute)
			w.Call(session, "GET", whoAm, "", c.fields...).Want(200)
		}
		w.Now = w.Now.Add(sharedsessions.Idle - time.Minute)
		w.Call(session, "GET", whoAm, "").Want(c.want)
	}
}

// TestWhatTakesNoSessionSaysSo: of a declaration alone.
func TestWhatTakesNoSessionSaysSo(t *testing.T) {
	for name, c := range map[string]struct {
		d    api.Declaration
		want bool
	}{
		"an operation":      {api.Declaration{}, true},
		"a public one":      {api.Declaration{Public: true}, false},
		"one of keys alone": {api.Declaration{KeyAlone: true}, false},
		"MCP":               {api.Declaration{Carries: true}, false},
	} {
		if got := c.d.TakesSession(); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestNobodysSessionsCountWhereCallersHaveNone: a server whose callers know no sessions passes them by.
func TestNobodysSessionsCountWhereCallersHaveNone(t *testing.T) {
	w, full := newWorld(t)
	session := w.Session(full)
	server := api.Open(w.Parts, accountsOnly(w.Parts), platform.Bind(w.Parts))
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, whoAm, nil)
	r.Header.Set("Cookie", credential.SessionCookie+"="+session)
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	out := httptest.NewRecorder()
	server.ServeHTTP(out, r)
	if out.Code != http.StatusUnauthorized {
		t.Errorf("answered %d", out.Code)
	}
}

func accountsOnly(p installation.Parts) api.Authenticator { return accounts.Open(p) }
