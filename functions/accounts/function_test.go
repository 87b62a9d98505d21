package accounts_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/lambda"

	"github.com/gatewright/gatewright/functions/accounts"
	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/base/ids"
	"github.com/gatewright/gatewright/shared/core/auth"
	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/memory"
	sharedaccounts "github.com/gatewright/gatewright/shared/resource/accounts"
)

// function is the handler of the function, with its service and its log. call takes and returns JSON, as with Lambda.
type function struct {
	call    lambda.Handler
	service *sharedaccounts.Service
	log     strings.Builder
}

func newFunction(t *testing.T) *function {
	t.Helper()
	now := func() time.Time { return time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC) }
	random := rand.NewChaCha8([32]byte{1})
	table := store.New(memory.New(), store.Options{Random: random, Now: now})
	f := &function{service: sharedaccounts.Open(installation.Parts{
		Table: table, IDs: ids.NewSource(random, now),
		Now: now,
	})}
	f.call = lambda.NewHandler(accounts.Handler(f.service, fakeRootKey{}, slog.New(slog.NewJSONHandler(&f.log, nil))))
	return f
}

func TestNewAccountHasFullAccessKey(t *testing.T) {
	f := newFunction(t)
	payload, err := f.call.Invoke(t.Context(), []byte(`{"name":"acme"}`))
	if err != nil {
		t.Fatalf("Invoke(name acme) error = %v, want none", err)
	}
	var out accounts.Out
	if err := json.Unmarshal(payload, &out); err != nil {
		t.Fatal(err)
	}
	p, err := f.service.Authenticate(t.Context(), out.Key)
	if err != nil {
		t.Fatalf("Authenticate(new key) error = %v, want none", err)
	}
	if p.AccountName != "acme" || out.Name != "acme" || p.AccountID != out.ID {
		t.Errorf("Authenticate(new key) = %+v, and the response names %s %q, want the account acme in both",
			p, out.ID, out.Name)
	}
	if !slices.Equal(p.Permissions.Scopes, auth.Full().Scopes) {
		t.Errorf("scopes of the new key = %v, want %v", p.Permissions.Scopes, auth.Full().Scopes)
	}
}

func TestLogDoesNotContainKey(t *testing.T) {
	f := newFunction(t)
	payload, err := f.call.Invoke(t.Context(), []byte(`{"name":"acme"}`))
	if err != nil {
		t.Fatal(err)
	}
	var out accounts.Out
	if err := json.Unmarshal(payload, &out); err != nil {
		t.Fatal(err)
	}
	if log := f.log.String(); !strings.Contains(log, out.ID) || strings.Contains(log, out.Key) ||
		strings.Contains(log, "gwa_") {
		t.Errorf("log = %s, want the id %s and no key", log, out.ID)
	}
}

func TestInvalidNameErrorGivesAdvice(t *testing.T) {
	f := newFunction(t)
	if _, err := f.call.Invoke(t.Context(), []byte(`{"name":"acme"}`)); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ payload, want string }{
		"name in use":      {`{"name":"acme"}`, "There is an account named acme already. Choose another name."},
		"no name":          {`{}`, "lower-case letters"},
		"name in capitals": {`{"name":"Acme"}`, "lower-case letters"},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := f.call.Invoke(t.Context(), []byte(c.payload))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("Invoke(%s) = %s, error %v, want an error that contains %q", c.payload, out, err, c.want)
			}
		})
	}
}

// failingService is a Service whose calls fail with an internal error.
type failingService struct{ accounts.Service }

func (failingService) Create(context.Context, string) (sharedaccounts.Account, string, error) {
	return sharedaccounts.Account{}, "", errors.New("table arn:aws:dynamodb:… is gone")
}

func TestInternalErrorIsOnlyLogged(t *testing.T) {
	var log strings.Builder
	_, err := accounts.Handler(failingService{}, fakeRootKey{}, slog.New(slog.NewJSONHandler(&log, nil)))(t.Context(),
		accounts.In{Name: "acme"})
	if err == nil || strings.Contains(err.Error(), "arn:") || !strings.Contains(log.String(), "arn:") {
		t.Errorf("Handler() error = %v, log = %s, want an error whose cause (arn:) is only in the log",
			err, log.String())
	}
}

// fakeRootKey is a RootKey that exists, or whose calls fail with err.
type fakeRootKey struct{ err error }

func (r fakeRootKey) Root(context.Context) ([]byte, error) { return make([]byte, 32), r.err }

// TestAccountNeedsRootKey checks that no account is created without a root key: no other function would create one.
func TestAccountNeedsRootKey(t *testing.T) {
	f := newFunction(t)
	handle := accounts.Handler(f.service, fakeRootKey{errors.New("AccessDenied")}, slog.New(slog.DiscardHandler))
	if _, err := handle(t.Context(), accounts.In{Name: "acme"}); err == nil ||
		strings.Contains(err.Error(), "AccessDenied") {
		t.Errorf("Handler() without the root key: error = %v, want an error without AccessDenied", err)
	}
	if _, err := f.service.Find(t.Context(), "acme"); !fault.Is(err, fault.NotFound) {
		t.Errorf("Find(acme) error = %v, want NotFound", err)
	}
}

// TestKeysAreCreatedListedAndRevoked calls the actions on keys, which need no account key.
func TestKeysAreCreatedListedAndRevoked(t *testing.T) {
	f := newFunction(t)
	invoke := func(payload string, result any) {
		t.Helper()
		out, err := f.call.Invoke(t.Context(), []byte(payload))
		if err == nil {
			err = json.Unmarshal(out, result)
		}
		if err != nil {
			t.Fatalf("Invoke(%s) error = %v, want none", payload, err)
		}
	}
	var first, created, revoked accounts.Out
	var list accounts.KeyList
	invoke(`{"name":"acme"}`, &first)
	invoke(`{"do":"create-key","name":"acme","label":"ci","scopes":"logs:read","projects":"shop",`+
		`"environments":"preview","expiresOn":"2027-01-01T00:00:00Z"}`, &created)
	if p, err := f.service.Authenticate(t.Context(), created.Key); err != nil || !p.Allows(auth.Logs.Read()) ||
		p.CanSeeProject("blog") || p.ExpiresOn == nil {
		t.Errorf("Authenticate(created key) = %+v, %v, want logs:read for the project shop with an expiry", p, err)
	}
	invoke(`{"do":"list-keys","name":"acme"}`, &list)
	if len(list.Keys) != 2 {
		t.Errorf("list-keys = %+v, want 2 keys", list.Keys)
	}
	if _, err := f.call.Invoke(t.Context(), []byte(`{"do":"revoke-key","name":"acme","id":"`+
		list.Keys[1].ID+`"}`)); err == nil || !strings.Contains(err.Error(), "force") {
		t.Errorf("revoke-key of the last key with full access: error = %v, want an error that names force", err)
	}
	invoke(`{"do":"revoke-key","name":"acme","id":"`+list.Keys[1].ID+`","force":true}`, &revoked)
	invoke(`{"do":"revoke-key","name":"acme","id":"`+created.ID+`"}`, &revoked)
	invoke(`{"do":"list-keys","name":"acme"}`, &list)
	if len(list.Keys) != 0 || revoked.Key != "" {
		t.Errorf("list-keys after revoke-key = %+v, and revoke-key = %+v, want no key in either", list.Keys, revoked)
	}
	for payload, want := range map[string]string{
		`{"do":"create-key","name":"acme","scopes":"everything","projects":"A"}`: "scopes: ",
		`{"do":"create-key","name":"nobody","scopes":"all"}`:                     "no account",
		`{"do":"revoke-key","name":"acme","id":""}`:                              "account key",
		`{"do":"drop-keys","name":"acme"}`: "create-key, list-keys, revoke-key, " +
			"list-limits, set-limit and reset-limit",
	} {
		if _, err := f.call.Invoke(t.Context(), []byte(payload)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Invoke(%s) error = %v, want an error that contains %q", payload, err, want)
		}
	}
	if log := f.log.String(); strings.Contains(log, "gwa_") {
		t.Errorf("log = %s, want no key in it", log)
	}
}

// TestLimitsAreListedAndSet lists, sets and resets the limit of projects. An invalid call must change nothing, and must
// return an error on one line that says what is wrong and does not repeat an unknown name.
func TestLimitsAreListedAndSet(t *testing.T) {
	f := newFunction(t)
	invoke := func(payload string) (out accounts.Limits) {
		t.Helper()
		response, err := f.call.Invoke(t.Context(), []byte(payload))
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(response, &out); err != nil {
			t.Fatal(err)
		}
		return out
	}
	projectLimit := func(result accounts.Limits) accounts.Limit {
		return result.Limits[slices.IndexFunc(result.Limits, func(l accounts.Limit) bool { return l.Name == "projects" })]
	}
	invoke(`{"name":"acme"}`)
	if l := projectLimit(invoke(`{"do":"list-limits","name":"acme"}`)); l.Custom || l.Value != 1000 ||
		l.UpperBound != nil {
		t.Errorf("list-limits: projects = %+v, want the default 1000 without an upper bound", l)
	}
	if l := projectLimit(invoke(`{"do":"set-limit","name":"acme","limit":"projects","value":5}`)); !l.Custom ||
		l.Value != 5 {
		t.Errorf("set-limit projects 5 = %+v, want a custom limit of 5", l)
	}
	for payload, want := range map[string]string{
		`{"do":"set-limit","name":"acme","limit":"projects"}`:                   "value: is needed",
		`{"do":"set-limit","name":"acme","limit":"projects","value":null}`:      "value: is needed",
		`{"do":"set-limit","name":"acme","limit":"projects","value":0}`:         "projects can be 1 to",
		`{"do":"reset-limit","name":"acme","limit":"projects","value":7}`:       "value: is not for reset-limit",
		`{"do":"reset-limit","name":"acme","limit":"hunter2"}`:                  "limit: is none of account-keys, ",
		`{"do":"reset-limit","name":"nobody","limit":"projects"}`:               "no account",
		`{"do":"list-limits","name":"nobody"}`:                                  "no account",
		`{"do":"set-limit","name":"acme","limit":"projects","value":1.5}`:       "cannot unmarshal",
		`{"do":"set-limit","name":"acme","limit":"projects","value":"7"}`:       "cannot unmarshal",
		`{"do":"set-limit","name":"acme","limit":"projects","value":1e30}`:      "cannot unmarshal",
		`{"do":"set-limit","name":"acme","limit":"PROJECTS","value":7}`:         "limit: is none of account-keys, ",
		`{"do":"set-limit","name":"acme","limit":"","value":7}`:                 "limit: is none of account-keys, ",
		`{"do":"set-limit","name":"acme","limit":"projects","value":-1}`:        "projects can be 1 to",
		`{"do":"set-limit","name":"acme","limit":"projects","value":10001}`:     "projects can be 1 to",
		`{"do":"set-limit","name":"acme","limit":"hunter2","value":5}`:          "limit: is none of account-keys, ",
		`{"do":"set-limit","name":"acme","limit":"gateway-requests","value":5}`: "limit: is none of account-keys, ",
		`{"do":"set-limit","name":"nobody","limit":"projects","value":5}`:       "no account",
	} {
		if _, err := f.call.Invoke(t.Context(), []byte(payload)); err == nil || !strings.Contains(err.Error(), want) ||
			strings.ContainsAny(err.Error(), "\n") || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("Invoke(%s) error = %v, want an error on one line that contains %q, and not hunter2",
				payload, err, want)
		}
	}
	if l := projectLimit(invoke(`{"do":"list-limits","name":"acme"}`)); l.Value != 5 {
		t.Errorf("list-limits after refused calls: projects = %+v, want 5", l)
	}
	if l := projectLimit(invoke(`{"do":"reset-limit","name":"acme","limit":"projects"}`)); l.Custom || l.Value != 1000 {
		t.Errorf("reset-limit projects = %+v, want the default 1000", l)
	}
}
