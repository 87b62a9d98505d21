package keybuckets_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gatewright/gatewright/functions/keybuckets"
	"github.com/gatewright/gatewright/shared/api"
	"github.com/gatewright/gatewright/shared/auth"
	"github.com/gatewright/gatewright/shared/environment"
	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/ids"
	"github.com/gatewright/gatewright/shared/installation"
	"github.com/gatewright/gatewright/shared/store/storetest"
)

// callers is an api.Authenticator with a key for each case.
type callers struct{}

func (callers) Authenticate(_ context.Context, key string) (auth.Principal, error) {
	p := auth.Principal{AccountID: "a-1", AccountName: "acme", KeyID: "akey_1", Permissions: auth.Full()}
	switch key {
	case "full":
	case "reader":
		p.Permissions.Scopes = []auth.Scope{auth.KeyBuckets.Read()}
	case "shop":
		p.Permissions.Projects = []string{"shop"}
		p.Permissions.Environments = []environment.Kind{environment.Production}
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
	buckets = "/v1/accounts/acme/key-buckets"
	orders  = buckets + "/orders"
)

// newServer answers the group's operations over a table with one bucket.
func newServer(t *testing.T) http.Handler {
	t.Helper()
	table := storetest.New(t)
	now := func() time.Time { return storetest.Epoch }
	source := ids.NewSource(storetest.Random(t), now)
	server := api.NewServer(api.Config{
		Authenticator: callers{}, Audit: table, Log: slog.New(slog.DiscardHandler), IDs: source, Now: now,
	}, keybuckets.Bind(installation.Parts{Table: table, Key: root{}, IDs: source, Now: now}))
	if got := call(server, "POST", buckets, "full", `{"name":"orders","description":"d","tags":{"team":"a"}}`); got.Code != http.StatusOK {
		t.Fatalf("setting up answers %d %s", got.Code, got.Body)
	}
	return server
}

func call(h http.Handler, method, target, key, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	if key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestAnswers(t *testing.T) {
	for _, test := range []struct {
		name, method, path, key, body string
		status                        int
		want                          string // a part of the answer
	}{
		{"a bucket", "POST", buckets, "full", `{"name":"new-bucket","tags":{"a":"b"}}`, 200, `"name":"new-bucket","tags":{"a":"b"},"isRetrievable":true,"createdOn":"2026-03-14T09:26:53.589Z","updatedOn":"2026-03-14T09:26:53.589Z"}`},
		{"a bucket that forgets", "POST", buckets, "full", `{"name":"new-bucket","isRetrievable":false,"description":null}`, 200, `"isRetrievable":false`},
		{"ids and dates are ignored", "POST", buckets, "full", `{"name":"new-bucket","id":"mine","createdOn":"never","token":"x"}`, 200, `"id":"bckt_`},
		{"a name in use", "POST", buckets, "full", `{"name":"orders"}`, 409, "Choose another name"},
		{"a short name", "POST", buckets, "full", `{"name":"abcd"}`, 400, "body.name"},
		{"no name", "POST", buckets, "full", `{}`, 400, "body"},
		{"a name of another type", "POST", buckets, "full", `{"name":17}`, 400, "body.name"},
		{"a tag of another type", "POST", buckets, "full", `{"name":"new-bucket","tags":{"a":1}}`, 400, "body.tags"},
		{"a NUL", "POST", buckets, "full", `{"name":"new-bucket","description":"\u0000"}`, 400, "NUL"},
		{"no JSON", "POST", buckets, "full", `{`, 400, "JSON"},
		{"an unplaced bucket of a limited key", "POST", buckets, "shop", `{"name":"new-bucket"}`, 403, "environmentType"},
		{"a placed bucket of a limited key", "POST", buckets, "shop", `{"name":"new-bucket","tags":{"project":"shop","environmentType":"PRODUCTION"}}`, 200, "bckt_"},
		{"the list", "GET", buckets, "reader", "", 200, `"limit":1000,"offset":0,"total":1}`},
		{"the list with a slash", "GET", buckets + "/", "reader", "", 200, `"name":"orders"`},
		{"the list of a limited key", "GET", buckets, "shop", "", 200, `{"data":[],"limit":1000,"offset":0,"total":0}`},
		{"one bucket has its token", "GET", orders, "reader", "", 200, `"token":"gwb_`},
		{"an invisible bucket", "GET", orders, "shop", "", 404, "cannot see it"},
		{"an absent bucket", "GET", buckets + "/absent", "full", "", 404, "cannot see it"},
		{"no name at all", "GET", buckets + "/a%2Fb", "full", "", 404, "cannot see it"},
		{"another account", "GET", "/v1/accounts/evil/key-buckets/orders", "full", "", 404, "account"},
		{"a foreign bucket", "GET", "/v1/accounts/evil/key-buckets/orders", "other-account", "", 404, "key bucket"},
		{"new tags", "PATCH", orders, "full", `{"tags":{"b":"2"},"name":"ignored"}`, 200, `"name":"orders","description":"d","tags":{"b":"2"}`},
		{"a description cleared", "PATCH", orders, "full", `{"description":null}`, 200, `"name":"orders","tags":{"team":"a"}`},
		{"a change without the scope", "PATCH", orders, "reader", `{}`, 403, "key-buckets:write"},
		{"a deletion without the scope", "DELETE", orders, "reader", "", 403, "key-buckets:write"},
		{"a deletion", "DELETE", orders, "full", "", 204, ""},
		{"nobody", "GET", orders, "", "", 401, "Bearer"},
		{"another method", "PUT", orders, "full", "{}", 405, "Allow"},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := newServer(t)
			got := call(h, test.method, test.path, test.key, test.body)
			if got.Code != test.status || !strings.Contains(got.Body.String(), test.want) {
				t.Fatalf("got %d %s, want %d and %s", got.Code, got.Body, test.status, test.want)
			}
			if test.want == "" && got.Body.Len() > 0 {
				t.Fatalf("got a body: %s", got.Body)
			}
		})
	}
}

func TestDeletedBucketAnswersLikeAnAbsentOne(t *testing.T) {
	h := newServer(t)
	var made struct{ ID string }
	if err := json.Unmarshal(call(h, "GET", orders, "full", "").Body.Bytes(), &made); err != nil {
		t.Fatal(err)
	}
	if got := call(h, "GET", buckets+"/"+made.ID, "full", ""); got.Code != http.StatusOK {
		t.Fatalf("by its id: %d %s", got.Code, got.Body)
	}
	call(h, "DELETE", buckets+"/"+made.ID, "full", "")
	for _, name := range []string{"orders", made.ID} {
		if got := call(h, "GET", buckets+"/"+name, "full", ""); got.Code != http.StatusNotFound {
			t.Errorf("%s: %d %s", name, got.Code, got.Body)
		}
	}
	if got := call(h, "POST", buckets, "full", `{"name":"orders"}`); got.Code != http.StatusOK {
		t.Fatalf("the name is not free: %d %s", got.Code, got.Body)
	}
}
