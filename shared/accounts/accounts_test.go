package accounts_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/accounts"
	"github.com/gatewright/gatewright/shared/audit"
	"github.com/gatewright/gatewright/shared/auth"
	"github.com/gatewright/gatewright/shared/credential"
	"github.com/gatewright/gatewright/shared/environment"
	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/ids"
	"github.com/gatewright/gatewright/shared/installation"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/memory"
	"github.com/gatewright/gatewright/shared/store/storetest"
)

type fixture struct {
	*accounts.Service
	table *store.Table
	items *memory.Backend
	now   time.Time
}

func newFixture(t *testing.T) *fixture {
	f := &fixture{items: memory.New(), now: storetest.Epoch}
	clock := func() time.Time { return f.now }
	f.table = storetest.Over(t, f.items, storetest.Clock(clock))
	f.Service = accounts.Open(installation.Parts{Table: f.table, IDs: ids.NewSource(storetest.Random(t), clock), Now: clock})
	return f
}

func TestFirstKeyAllowsEverything(t *testing.T) {
	f := newFixture(t)
	account, text, err := f.Create(t.Context(), "acme")
	if err != nil {
		t.Fatal(err)
	}
	p, err := f.Authenticate(t.Context(), text)
	if err != nil {
		t.Fatal(err)
	}
	if p.AccountID != account.ID || p.AccountName != "acme" || !p.MaySee("", "") {
		t.Errorf("%+v", p)
	}
	for _, s := range auth.Scopes() {
		if !p.Allows(s) {
			t.Errorf("lacks %s", s)
		}
	}
}

func TestAccountNamesAreUniqueAndWellFormed(t *testing.T) {
	f := newFixture(t)
	if _, _, err := f.Create(t.Context(), "acme"); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]fault.Kind{
		"acme": fault.Conflict, "": fault.Invalid, "A": fault.Invalid, "a": fault.Invalid, "a/b": fault.Invalid, "a#b": fault.Invalid,
		"-ab": fault.Invalid, strings.Repeat("a", 64): fault.Invalid,
	} {
		if _, _, err := f.Create(t.Context(), name); fault.KindOf(err) != want || err == nil {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestKeyIsStoredAsAHashAlone(t *testing.T) {
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
			t.Errorf("the key stands in %s", key.PK)
		}
	}
}

func TestExpiredKeyIsRefusedEvenWhenItIsRemembered(t *testing.T) {
	f := newFixture(t)
	if _, _, err := f.Create(t.Context(), "acme"); err != nil {
		t.Fatal(err)
	}
	end := f.now.Add(time.Hour)
	spec := accounts.Spec{Label: "short", ExpiresOn: &end, Permissions: auth.Permissions{
		Projects: []string{"shop"}, Environments: []environment.Kind{environment.Preview}, Scopes: []auth.Scope{auth.Logs.Read()},
	}}
	key, text, err := f.CreateKey(t.Context(), "acme", spec)
	if err != nil {
		t.Fatal(err)
	}
	p, err := f.Authenticate(t.Context(), text)
	if err != nil || p.KeyID != key.ID || p.Label != "short" || !p.Allows(auth.Logs.Read()) || p.Allows(auth.Logs.Write()) || p.SeesProject("blog") {
		t.Fatalf("%+v, %v", p, err)
	}
	f.now = end
	if _, err := f.Authenticate(t.Context(), text); !fault.Is(err, fault.Unauthenticated) {
		t.Errorf("at its expiry: %v", err)
	}
}

func TestUnknownKeysAreRefused(t *testing.T) {
	f := newFixture(t)
	other := credential.New(credential.AccountKey, ids.NewSource(storetest.Random(t), func() time.Time { return f.now }))
	consumer := credential.New(credential.ConsumerKey, ids.NewSource(storetest.Random(t), func() time.Time { return f.now }))
	for _, text := range []string{"", "x", other, consumer, other + " "} {
		if _, err := f.Authenticate(t.Context(), text); !fault.Is(err, fault.Unauthenticated) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestKnownCallerCostsNoRead is a row of the ledger: one read cold, none warm,
// none for a mistyped key.
func TestKnownCallerCostsNoRead(t *testing.T) {
	f := newFixture(t)
	_, text, err := f.Create(t.Context(), "acme")
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []int{1, 0, 0} {
		var m store.Meter
		if _, err := f.Authenticate(store.WithMeter(t.Context(), &m), text); err != nil {
			t.Fatal(err)
		}
		if m.Usage().Reads != want {
			t.Errorf("call %d reads %d times", i+1, m.Usage().Reads)
		}
	}
	var m store.Meter
	if _, err := f.Authenticate(store.WithMeter(t.Context(), &m), text[:len(text)-1]+"x"); err == nil || m.Usage().Reads != 0 {
		t.Errorf("a mistyped key: %v after %d reads", err, m.Usage().Reads)
	}
}

func TestBadKeySpecsAreRefused(t *testing.T) {
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
			t.Errorf("%s: %v", name, err)
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
	entries, err := audit.New(t.Context(), f.table, account.ID)
	if err != nil || len(entries) != 2 {
		t.Fatalf("%d entries, %v", len(entries), err)
	}
	actions := map[audit.Action]bool{entries[0].Action: true, entries[1].Action: true}
	if !actions["account.create"] || !actions["account-key.create"] {
		t.Errorf("%v", actions)
	}
}
