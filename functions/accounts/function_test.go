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
	sharedaccounts "github.com/gatewright/gatewright/shared/accounts"
	"github.com/gatewright/gatewright/shared/auth"
	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/ids"
	"github.com/gatewright/gatewright/shared/installation"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/memory"
)

// function is the handler as Lambda calls it, and what it has logged.
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
	f := &function{service: sharedaccounts.Open(installation.Parts{Table: table, IDs: ids.NewSource(random, now), Now: now})}
	f.call = lambda.NewHandler(accounts.Handler(f.service, root{}, slog.New(slog.NewJSONHandler(&f.log, nil))))
	return f
}

func TestAccountIsMadeWithAKeyThatAllowsEverything(t *testing.T) {
	f := newFunction(t)
	payload, err := f.call.Invoke(t.Context(), []byte(`{"name":"acme"}`))
	if err != nil {
		t.Fatal(err)
	}
	var out accounts.Out
	if err := json.Unmarshal(payload, &out); err != nil {
		t.Fatal(err)
	}
	p, err := f.service.Authenticate(t.Context(), out.Key)
	if err != nil {
		t.Fatal(err)
	}
	if p.AccountName != "acme" || out.Name != "acme" || p.AccountID != out.ID {
		t.Errorf("the key is of %+v, answered was %s", p, out.Name)
	}
	if !slices.Equal(p.Permissions.Scopes, auth.Full().Scopes) {
		t.Errorf("its scopes are %v", p.Permissions.Scopes)
	}
}

func TestLogNeverHoldsTheKey(t *testing.T) {
	f := newFunction(t)
	payload, err := f.call.Invoke(t.Context(), []byte(`{"name":"acme"}`))
	if err != nil {
		t.Fatal(err)
	}
	var out accounts.Out
	if err := json.Unmarshal(payload, &out); err != nil {
		t.Fatal(err)
	}
	if log := f.log.String(); !strings.Contains(log, out.ID) || strings.Contains(log, out.Key) || strings.Contains(log, "gwa_") {
		t.Errorf("the log holds %s", log)
	}
}

func TestRefusedNamesSayWhatToDo(t *testing.T) {
	f := newFunction(t)
	if _, err := f.call.Invoke(t.Context(), []byte(`{"name":"acme"}`)); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ payload, want string }{
		"in use":   {`{"name":"acme"}`, "There is an account named acme already. Choose another name."},
		"no name":  {`{}`, "lower-case letters"},
		"capitals": {`{"name":"Acme"}`, "lower-case letters"},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := f.call.Invoke(t.Context(), []byte(c.payload))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("answer %s, error %v, want one with %q", out, err, c.want)
			}
		})
	}
}

// broken fails with what must stay inside.
type broken struct{ accounts.Service }

func (broken) Create(context.Context, string) (sharedaccounts.Account, string, error) {
	return sharedaccounts.Account{}, "", errors.New("table arn:aws:dynamodb:… is gone")
}

func TestInnerFailuresStayInTheLog(t *testing.T) {
	var log strings.Builder
	_, err := accounts.Handler(broken{}, root{}, slog.New(slog.NewJSONHandler(&log, nil)))(t.Context(), accounts.In{Name: "acme"})
	if err == nil || strings.Contains(err.Error(), "arn:") || !strings.Contains(log.String(), "arn:") {
		t.Errorf("error %v, log %s", err, log.String())
	}
}

// root is a root key that is there, or not.
type root struct{ err error }

func (r root) Root(context.Context) ([]byte, error) { return make([]byte, 32), r.err }

// TestNoAccountComesBeforeTheRootKey: the other functions may not make one.
func TestNoAccountComesBeforeTheRootKey(t *testing.T) {
	f := newFunction(t)
	handle := accounts.Handler(f.service, root{errors.New("AccessDenied")}, slog.New(slog.DiscardHandler))
	if _, err := handle(t.Context(), accounts.In{Name: "acme"}); err == nil || strings.Contains(err.Error(), "AccessDenied") {
		t.Errorf("error %v", err)
	}
	if _, err := f.service.Find(t.Context(), "acme"); !fault.Is(err, fault.NotFound) {
		t.Errorf("the account is there: %v", err)
	}
}

// TestKeysAreMadeListedAndRevoked for who holds none of them.
func TestKeysAreMadeListedAndRevoked(t *testing.T) {
	f := newFunction(t)
	ask := func(payload string, into any) {
		t.Helper()
		out, err := f.call.Invoke(t.Context(), []byte(payload))
		if err == nil {
			err = json.Unmarshal(out, into)
		}
		if err != nil {
			t.Fatalf("%s: %v", payload, err)
		}
	}
	var first, made, revoked accounts.Out
	var list accounts.Listed
	ask(`{"name":"acme"}`, &first)
	ask(`{"do":"create-key","name":"acme","label":"ci","scopes":"logs:read","projects":"shop","environments":"preview","expiresOn":"2027-01-01T00:00:00Z"}`, &made)
	if p, err := f.service.Authenticate(t.Context(), made.Key); err != nil || !p.Allows(auth.Logs.Read()) || p.SeesProject("blog") || p.ExpiresOn == nil {
		t.Errorf("made is %+v, %v", p, err)
	}
	ask(`{"do":"list-keys","name":"acme"}`, &list)
	if len(list.Keys) != 2 {
		t.Errorf("listed are %+v", list.Keys)
	}
	if _, err := f.call.Invoke(t.Context(), []byte(`{"do":"revoke-key","name":"acme","id":"`+list.Keys[1].ID+`"}`)); err == nil || !strings.Contains(err.Error(), "force") {
		t.Errorf("the last full key: %v", err)
	}
	ask(`{"do":"revoke-key","name":"acme","id":"`+list.Keys[1].ID+`","force":true}`, &revoked)
	ask(`{"do":"revoke-key","name":"acme","id":"`+made.ID+`"}`, &revoked)
	ask(`{"do":"list-keys","name":"acme"}`, &list)
	if len(list.Keys) != 0 || revoked.Key != "" {
		t.Errorf("left are %+v, answered %+v", list.Keys, revoked)
	}
	for payload, want := range map[string]string{
		`{"do":"create-key","name":"acme","scopes":"everything","projects":"A"}`: "scopes: ",
		`{"do":"create-key","name":"nobody","scopes":"all"}`:                     "no account",
		`{"do":"revoke-key","name":"acme","id":""}`:                              "account key",
		`{"do":"drop-keys","name":"acme"}`:                                       "create-key, list-keys, revoke-key, list-limits, set-limit and reset-limit",
	} {
		if _, err := f.call.Invoke(t.Context(), []byte(payload)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", payload, err, want)
		}
	}
	if log := f.log.String(); strings.Contains(log, "gwa_") {
		t.Errorf("the log holds a key: %s", log)
	}
}

// TestLimitsAreListedAndSet by what operators call; a bad call is one line that says what to do, and changes nothing.
func TestLimitsAreListedAndSet(t *testing.T) {
	f := newFunction(t)
	ask := func(payload string) (out accounts.Limits) {
		t.Helper()
		answer, err := f.call.Invoke(t.Context(), []byte(payload))
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(answer, &out); err != nil {
			t.Fatal(err)
		}
		return out
	}
	projects := func(all accounts.Limits) accounts.Limit {
		return all.Limits[slices.IndexFunc(all.Limits, func(l accounts.Limit) bool { return l.Name == "projects" })]
	}
	ask(`{"name":"acme"}`)
	if l := projects(ask(`{"do":"list-limits","name":"acme"}`)); l.Own || l.Value != 1000 || l.AtMost != nil {
		t.Errorf("at first %+v", l)
	}
	if l := projects(ask(`{"do":"set-limit","name":"acme","limit":"projects","value":5}`)); !l.Own || l.Value != 5 {
		t.Errorf("set to %+v", l)
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
		if _, err := f.call.Invoke(t.Context(), []byte(payload)); err == nil || !strings.Contains(err.Error(), want) || strings.ContainsAny(err.Error(), "\n") || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v, want %q", payload, err, want)
		}
	}
	if l := projects(ask(`{"do":"list-limits","name":"acme"}`)); l.Value != 5 {
		t.Errorf("refused calls have made it %+v", l)
	}
	if l := projects(ask(`{"do":"reset-limit","name":"acme","limit":"projects"}`)); l.Own || l.Value != 1000 {
		t.Errorf("back to %+v", l)
	}
}
