package consumers_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gatewright/gatewright/functions/consumers"
	"github.com/gatewright/gatewright/shared/api"
	"github.com/gatewright/gatewright/shared/audit"
	"github.com/gatewright/gatewright/shared/auth"
	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/ids"
	"github.com/gatewright/gatewright/shared/installation"
	"github.com/gatewright/gatewright/shared/keys"
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
	list  = "/v1/accounts/acme/key-buckets/orders/consumers"
	alice = list + "/alice"
)

// world answers the group's operations over a table with one bucket, orders,
// and one consumer, alice.
type world struct {
	testing.TB
	http.Handler
	verifier *keys.Verifier
}

func newWorld(t *testing.T) *world {
	t.Helper()
	table := storetest.New(t)
	now := func() time.Time { return storetest.Epoch }
	source := ids.NewSource(storetest.Random(t), now)
	parts := installation.Parts{Table: table, Key: root{}, IDs: source, Now: now}
	service := keys.Open(parts)
	w := &world{TB: t, verifier: keys.OpenVerifier(parts)}
	w.Handler = api.NewServer(api.Config{
		Authenticator: callers{}, Audit: table, Log: slog.New(slog.DiscardHandler), IDs: source, Now: now,
	}, consumers.Bind(parts))
	ctx := audit.With(t.Context(), &audit.Request{AccountID: "a-1", RequestID: "setting-up", Time: now()})
	owner := keys.Owner{AccountID: "a-1", Account: "acme", Viewer: auth.Principal{Permissions: auth.Full()}}
	if _, err := service.CreateBucket(ctx, owner, keys.NewBucket{Name: "orders"}); err != nil {
		t.Fatal(err)
	}
	w.do("POST", list, `{"name":"alice","description":"first","tags":{"org":"1"},"metadata":{"plan":3},
		"managers":["new@example.com",{"email":"Boss@example.com","sub":"boss","id":"ignored"}]}`, 200)
	return w
}

// call sends one request.
func (w *world) call(method, target, key, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	if key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	rec := httptest.NewRecorder()
	w.ServeHTTP(rec, r)
	return rec
}

// do sends one request that has to answer the status, and gives its JSON.
func (w *world) do(method, target, body string, status int) object {
	w.Helper()
	got := w.call(method, target, "full", body)
	if got.Code != status {
		w.Fatalf("%s %s: got %d %s, want %d", method, target, got.Code, got.Body, status)
	}
	if status == http.StatusNoContent {
		if got.Body.Len() > 0 {
			w.Fatalf("%s %s: a 204 with the body %s", method, target, got.Body)
		}
		return nil
	}
	var out object
	if err := json.Unmarshal(got.Body.Bytes(), &out); err != nil {
		w.Fatal(err)
	}
	return out
}

// object is decoded JSON.
type object map[string]any

// at follows names and indexes.
func (o object) at(path ...any) any {
	var v any = map[string]any(o)
	for _, p := range path {
		switch p := p.(type) {
		case string:
			m, _ := v.(map[string]any)
			v = m[p]
		case int:
			l, _ := v.([]any)
			if p >= len(l) {
				return nil
			}
			v = l[p]
		}
	}
	return v
}

func (o object) text(path ...any) string {
	s, _ := o.at(path...).(string)
	return s
}

// size is the length of the list at the path, -1 for none.
func (o object) size(path ...any) int {
	l, ok := o.at(path...).([]any)
	if !ok {
		return -1
	}
	return len(l)
}

func (w *world) opens(text string) bool {
	w.Helper()
	_, err := w.verifier.Verify(w.Context(), keys.BucketRef{AccountID: "a-1", Name: "orders"}, text)
	return err == nil
}
