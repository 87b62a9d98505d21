package accounts_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/base/ids"
	"github.com/gatewright/gatewright/shared/core/audit"
	"github.com/gatewright/gatewright/shared/core/auth"
	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/memory"
	"github.com/gatewright/gatewright/shared/core/store/storetest"
	"github.com/gatewright/gatewright/shared/format/credential"
	"github.com/gatewright/gatewright/shared/format/environment"
	"github.com/gatewright/gatewright/shared/resource/accounts"
)

// fixture is a Service with a table in memory. A test sets the clock now.
type fixture struct {
	*accounts.Service
	table *store.Table
	items *memory.Backend
	now   time.Time
}

func newFixture(t *testing.T) *fixture {
	f := &fixture{items: memory.New(), now: storetest.Epoch}
	clock := func() time.Time { return f.now }
	f.table = storetest.NewWithBackend(t, f.items, storetest.Clock(clock))
	f.Service = accounts.Open(installation.Parts{
		Table: f.table, IDs: ids.NewSource(storetest.Random(t), clock),
		Now: clock,
	})
	return f
}

// newProcess returns the service of another process of the fixture's installation.
func (f *fixture) newProcess(t *testing.T, backend store.Backend) *accounts.Service {
	clock := func() time.Time { return f.now }
	return accounts.Open(installation.Parts{
		Table: storetest.NewWithBackend(t, backend, storetest.Clock(clock),
			storetest.Backoff(func(context.Context, int) error { return nil })),
		IDs: ids.NewSource(storetest.Random(t), clock), Now: clock,
	})
}

// requestContext returns the context of a request with a key.
func (f *fixture) requestContext(t *testing.T, caller auth.Principal) context.Context {
	return audit.WithRequest(t.Context(), &audit.Request{
		AccountID: caller.AccountID, Action: "account-key.test", Time: f.now,
		RequestID: fmt.Sprint("request-", len(f.items.Items())),
	})
}

// createAccount creates the account acme. It returns the first key of the account as a caller, and the text of the key.
func (f *fixture) createAccount(t *testing.T) (full auth.Principal, text string) {
	t.Helper()
	_, text, err := f.Create(t.Context(), "acme")
	if err != nil {
		t.Fatalf("Create(acme) error = %v, want none", err)
	}
	return f.authenticate(t, text), text
}

func (f *fixture) authenticate(t *testing.T, text string) auth.Principal {
	t.Helper()
	p, err := f.Authenticate(t.Context(), text)
	if err != nil {
		t.Fatalf("Authenticate() error = %v, want none", err)
	}
	return p
}

func (f *fixture) createKey(t *testing.T, spec accounts.Spec) (accounts.Key, string) {
	t.Helper()
	key, text, err := f.CreateKey(t.Context(), "acme", spec)
	if err != nil {
		t.Fatalf("CreateKey(acme, label %q) error = %v, want none", spec.Label, err)
	}
	return key, text
}

func (f *fixture) listKeyIDs(t *testing.T) (ids []string) {
	t.Helper()
	all, err := f.Keys(t.Context(), "acme")
	if err != nil {
		t.Fatalf("Keys(acme) error = %v, want none", err)
	}
	for _, k := range all {
		ids = append(ids, k.ID)
	}
	return ids
}

func TestFirstKeyAllowsEverything(t *testing.T) {
	f := newFixture(t)
	account, text, err := f.Create(t.Context(), "acme")
	if err != nil {
		t.Fatal(err)
	}
	p, err := f.Authenticate(t.Context(), text)
	if err != nil {
		t.Fatalf("Authenticate(first key) error = %v, want none", err)
	}
	if p.AccountID != account.ID || p.AccountName != "acme" || !p.CanSee("", "") {
		t.Errorf("Authenticate(first key) = %+v, want account %s named acme and access to every project", p, account.ID)
	}
	for _, s := range auth.Scopes() {
		if !p.Allows(s) {
			t.Errorf("the first key allows %s = false, want true", s)
		}
	}
}

func TestAccountNamesAreUniqueAndWellFormed(t *testing.T) {
	f := newFixture(t)
	if _, _, err := f.Create(t.Context(), "acme"); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]fault.Kind{
		"acme": fault.Conflict, "": fault.Invalid, "A": fault.Invalid, "a": fault.Invalid, "a/b": fault.Invalid,
		"a#b": fault.Invalid,
		"-ab": fault.Invalid, strings.Repeat("a", 64): fault.Invalid,
	} {
		if _, _, err := f.Create(t.Context(), name); fault.KindOf(err) != want || err == nil {
			t.Errorf("Create(%q) error = %v, want kind %v", name, err, want)
		}
	}
}

func TestKeyIsStoredAsHashOnly(t *testing.T) {
	f := newFixture(t)
	_, text, err := f.Create(t.Context(), "acme")
	if err != nil {
		t.Fatal(err)
	}
	body := strings.Split(text, "_")[1]
	for key, item := range f.items.Items() {
		content, err := json.Marshal(item)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(key.PK+key.SK+string(content), body) {
			t.Errorf("the item %v contains the key, want only its hash", key)
		}
	}
}

// TestExpiredKeyIsRefusedEvenIfCached checks that a cached key is refused from its expiry on. It also checks what the
// key allows before.
func TestExpiredKeyIsRefusedEvenIfCached(t *testing.T) {
	f := newFixture(t)
	if _, _, err := f.Create(t.Context(), "acme"); err != nil {
		t.Fatal(err)
	}
	expiresOn := f.now.Add(time.Hour)
	spec := accounts.Spec{Label: "short", ExpiresOn: &expiresOn, Permissions: auth.Permissions{
		Projects: []string{"shop"}, Environments: []environment.Kind{environment.Preview},
		Scopes: []auth.Scope{auth.Logs.Read()},
	}}
	key, text, err := f.CreateKey(t.Context(), "acme", spec)
	if err != nil {
		t.Fatal(err)
	}
	p, err := f.Authenticate(t.Context(), text)
	if err != nil || p.KeyID != key.ID || p.Label != "short" {
		t.Fatalf("Authenticate(short key) = key %s %q, %v, want key %s \"short\" and no error",
			p.KeyID, p.Label, err, key.ID)
	}
	if read, write := p.Allows(auth.Logs.Read()), p.Allows(auth.Logs.Write()); !read || write {
		t.Fatalf("the short key may read logs: %t, and write them: %t, want true and false", read, write)
	}
	if p.CanSeeProject("blog") {
		t.Fatal(`CanSeeProject("blog") of a key for "shop" = true, want false`)
	}
	f.now = expiresOn
	if _, err := f.Authenticate(t.Context(), text); !fault.Is(err, fault.Unauthenticated) {
		t.Errorf("Authenticate(cached key at its expiry) error = %v, want %v", err, fault.Unauthenticated)
	}
}

func TestUnknownKeysAreRefused(t *testing.T) {
	f := newFixture(t)
	other := credential.New(credential.AccountKey, ids.NewSource(storetest.Random(t), func() time.Time { return f.now }))
	consumer := credential.New(credential.ConsumerKey, ids.NewSource(storetest.Random(t), func() time.Time {
		return f.now
	}))
	for _, text := range []string{"", "x", other, consumer, other + " "} {
		if _, err := f.Authenticate(t.Context(), text); !fault.Is(err, fault.Unauthenticated) {
			t.Errorf("Authenticate(%q) error = %v, want %v", text, err, fault.Unauthenticated)
		}
	}
}

// TestCachedKeyNeedsNoRead checks the number of reads: one for the first request, none for later ones, and none for a mistyped key.
func TestCachedKeyNeedsNoRead(t *testing.T) {
	f := newFixture(t)
	_, text, err := f.Create(t.Context(), "acme")
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []int{1, 0, 0} {
		var m store.Meter
		if _, err := f.Authenticate(store.WithMeter(t.Context(), &m), text); err != nil {
			t.Fatalf("Authenticate call %d: error = %v, want none", i+1, err)
		}
		if m.Usage().Reads != want {
			t.Errorf("Authenticate call %d makes %d reads, want %d", i+1, m.Usage().Reads, want)
		}
	}
	var m store.Meter
	if _, err := f.Authenticate(store.WithMeter(t.Context(), &m), text[:len(text)-1]+"x"); err == nil ||
		m.Usage().Reads != 0 {
		t.Errorf("Authenticate(mistyped key) error = %v after %d reads, want an error after 0 reads", err, m.Usage().Reads)
	}
}

func TestInvalidKeySpecsAreRefused(t *testing.T) {
	f := newFixture(t)
	if _, _, err := f.Create(t.Context(), "acme"); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		account string
		spec    accounts.Spec
		want    fault.Kind
	}{
		"no such account": {"globex", accounts.Spec{}, fault.NotFound},
		"a long label":    {"acme", accounts.Spec{Label: strings.Repeat("a", 129)}, fault.Invalid},
		"a past expiry":   {"acme", accounts.Spec{ExpiresOn: &f.now}, fault.Invalid},
	} {
		if _, _, err := f.CreateKey(t.Context(), c.account, c.spec); !fault.Is(err, c.want) {
			t.Errorf("CreateKey(%s) error = %v, want %v", name, err, c.want)
		}
	}
}

func TestAccountsAndKeysAreAudited(t *testing.T) {
	f := newFixture(t)
	account, _, err := f.Create(t.Context(), "acme")
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := f.CreateKey(t.Context(), "acme", accounts.Spec{}); err != nil {
		t.Fatal(err)
	}
	entries, err := audit.ListPending(t.Context(), f.table, account.ID)
	if err != nil || len(entries) != 2 {
		t.Fatalf("ListPending() = %d entries, %v, want 2 entries and no error", len(entries), err)
	}
	actions := map[audit.Action]bool{entries[0].Action: true, entries[1].Action: true}
	if !actions["account.create"] || !actions["account-key.create"] {
		t.Errorf("audited actions = %v, want account.create and account-key.create", actions)
	}
}
