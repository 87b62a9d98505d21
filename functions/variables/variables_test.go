package variables_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gatewright/gatewright/functions/variables"
	"github.com/gatewright/gatewright/shared/api"
	"github.com/gatewright/gatewright/shared/auth"
	"github.com/gatewright/gatewright/shared/environment"
	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/ids"
	"github.com/gatewright/gatewright/shared/installation"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/storetest"
)

// callers is an api.Authenticator with a key for each case.
type callers struct{}

func (callers) Authenticate(_ context.Context, key string) (auth.Principal, error) {
	p := auth.Principal{AccountID: "a-1", AccountName: "acme", KeyID: "akey_1", Permissions: auth.Full()}
	switch key {
	case "full":
	case "reader":
		p.Permissions.Scopes = []auth.Scope{auth.Variables.Read(), auth.Projects.Write()}
	case "previews":
		p.Permissions.Environments = []environment.Kind{environment.Preview}
	case "other-project":
		p.Permissions.Projects = []string{"other"}
	case "other-account":
		p.AccountID, p.AccountName = "a-2", "evil"
	default:
		return auth.Principal{}, fault.New(fault.Unauthenticated, "no such key")
	}
	return p, nil
}

type root struct{}

func (root) Root(context.Context) ([]byte, error) {
	return []byte("0123456789abcdef0123456789abcdef"), nil
}

const (
	main    = "/v1/accounts/acme/projects/shop/branches/main/variables"
	feature = "/v1/accounts/acme/projects/shop/branches/feature%2Fx/variables"
	gone    = "/v1/accounts/acme/projects/gone/branches/main/variables"
	foreign = "/v1/accounts/evil/projects/shop/branches/main/variables"
)

// newServer answers the group's operations over a table with one project and
// one variable on its branch main.
func newServer(t *testing.T) http.Handler {
	table := storetest.New(t)
	now := func() time.Time { return storetest.Epoch }
	if err := table.Commit(t.Context(), store.Put(store.ProjectKey("a-1", "shop"), struct{}{})); err != nil {
		t.Fatal(err)
	}
	server := api.NewServer(api.Config{
		Authenticator: callers{}, Audit: table, Log: slog.New(slog.DiscardHandler),
		IDs: ids.NewSource(storetest.Random(t), now), Now: now,
	}, variables.Bind(installation.Parts{Table: table, Key: root{}, Now: now}))
	if got := call(server, "POST", main, "full", `{"name":"OLD","isSecret":false,"value":"old"}`); got.Code != http.StatusCreated {
		t.Fatalf("setting up answers %d %s", got.Code, got.Body)
	}
	return server
}

func call(h http.Handler, method, target, key, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	r.Header.Set("Content-Type", "text/plain;charset=UTF-8")
	if key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestAnswers(t *testing.T) {
	tests := []struct {
		name, method, path, key, body string
		status                        int
		want                          string // JSON, or a part of a problem's detail
	}{
		{
			"a variable", "POST", main, "full", `{"name":"A","isSecret":false,"value":"1"}`, 201,
			`{"name":"A","branch":"main","isSecret":false,"value":"1","createdOn":"2026-03-14T09:26:53.589Z","updatedOn":"2026-03-14T09:26:53.589Z"}`,
		},
		{
			"a secret is not echoed", "POST", main, "full", `{"name":"A","isSecret":true,"value":"s3cret"}`, 201,
			`{"name":"A","branch":"main","isSecret":true,"value":"","createdOn":"2026-03-14T09:26:53.589Z","updatedOn":"2026-03-14T09:26:53.589Z"}`,
		},
		{
			"a branch with a slash", "POST", feature, "previews", `{"name":"A","isSecret":false,"value":""}`, 201,
			`{"name":"A","branch":"feature/x","isSecret":false,"value":"","createdOn":"2026-03-14T09:26:53.589Z","updatedOn":"2026-03-14T09:26:53.589Z"}`,
		},
		{
			"another value", "PATCH", main + "/OLD", "full", `{"value":"new"}`, 200,
			`{"name":"OLD","branch":"main","isSecret":false,"value":"new","createdOn":"2026-03-14T09:26:53.589Z","updatedOn":"2026-03-14T09:26:53.589Z"}`,
		},
		{
			"no value", "PATCH", main + "/OLD", "full", `{"name":"ignored","isSecret":true}`, 200,
			`{"name":"OLD","branch":"main","isSecret":false,"value":"old","createdOn":"2026-03-14T09:26:53.589Z","updatedOn":"2026-03-14T09:26:53.589Z"}`,
		},
		{"a name in use", "POST", main, "full", `{"name":"OLD","isSecret":false,"value":"1"}`, 409, "Update it"},
		{"a bad name", "POST", main, "full", `{"name":"camelCase","isSecret":false,"value":"1"}`, 400, "name"},
		{"a reserved name", "POST", main, "full", `{"name":"GATEWRIGHT_X","isSecret":false,"value":"1"}`, 400, "reserved"},
		{"a long value", "POST", main, "full", `{"name":"A","isSecret":false,"value":"` + strings.Repeat("v", 5121) + `"}`, 400, "value"},
		{"a value of many bytes", "POST", main, "full", `{"name":"A","isSecret":false,"value":"` + strings.Repeat("ä", 2561) + `"}`, 400, "value"},
		{"a NUL", "POST", main, "full", `{"name":"A","isSecret":false,"value":"\u0000"}`, 400, "NUL"},
		{"a wrong type", "POST", main, "full", `{"name":"A","isSecret":"yes","value":"1"}`, 400, "isSecret"},
		{"a missing field", "POST", main, "full", `{"name":"A","value":"1"}`, 400, "isSecret"},
		{"no body", "POST", main, "full", ``, 400, ""},
		{"a long branch", "POST", strings.Replace(main, "main", strings.Repeat("b", 256), 1), "full", `{"name":"A","isSecret":false,"value":"1"}`, 400, "branchName"},
		{"a long new value", "PATCH", main + "/OLD", "full", `{"value":"` + strings.Repeat("v", 5121) + `"}`, 400, "value"},
		{"an unknown variable", "PATCH", main + "/NEW", "full", `{"value":"1"}`, 404, "variable"},
		{"an unknown project", "POST", gone, "full", `{"name":"A","isSecret":false,"value":"1"}`, 404, "project"},
		{"no key", "POST", main, "", `{"name":"A","isSecret":false,"value":"1"}`, 401, ""},
		{"an unknown key", "PATCH", main + "/OLD", "garbage", `{"value":"1"}`, 401, ""},
		{"no scope", "POST", main, "reader", `{"name":"A","isSecret":false,"value":"1"}`, 403, "variables:write"},
		{"no scope to update", "PATCH", main + "/OLD", "reader", `{"value":"1"}`, 403, "variables:write"},
		{"another account's path", "POST", foreign, "full", `{"name":"A","isSecret":false,"value":"1"}`, 404, "account"},
		{"another project's key", "PATCH", main + "/OLD", "other-project", `{"value":"1"}`, 404, "project"},
		{"another account's variable", "PATCH", strings.Replace(main, "acme", "evil", 1) + "/OLD", "other-account", `{"value":"1"}`, 404, "variable"},
		{"an environment out of sight", "POST", main, "previews", `{"name":"A","isSecret":false,"value":"1"}`, 404, "project"},
		{"a variable out of sight", "PATCH", main + "/OLD", "previews", `{"value":"1"}`, 404, "variable"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := call(newServer(t), tt.method, tt.path, tt.key, tt.body)
			if got.Code != tt.status {
				t.Fatalf("status %d, want %d: %s", got.Code, tt.status, got.Body)
			}
			if tt.status < 300 {
				if body := strings.TrimSpace(got.Body.String()); body != tt.want {
					t.Errorf("answers %s\nwant    %s", body, tt.want)
				}
				return
			}
			var problem struct{ Detail string }
			if err := json.Unmarshal(got.Body.Bytes(), &problem); err != nil || !strings.Contains(problem.Detail, tt.want) {
				t.Errorf("the problem %s does not speak of %q (%v)", got.Body, tt.want, err)
			}
		})
	}
}

func TestOutOfSightReadsLikeAbsent(t *testing.T) {
	server := newServer(t)
	body := func(target, key string) string {
		got := call(server, "PATCH", target, key, `{"value":"1"}`)
		var problem map[string]any
		if err := json.Unmarshal(got.Body.Bytes(), &problem); err != nil {
			t.Fatal(err)
		}
		delete(problem, "instance")
		delete(problem, "trace")
		text, _ := json.Marshal(problem)
		return string(text)
	}
	if unseen, absent := body(main+"/OLD", "previews"), body(main+"/NEW", "full"); unseen != absent {
		t.Errorf("unseen: %s\nabsent: %s", unseen, absent)
	}
}
