package accounts_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/accounts"
	"github.com/gatewright/gatewright/shared/audit"
	"github.com/gatewright/gatewright/shared/auth"
	"github.com/gatewright/gatewright/shared/environment"
	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/ids"
	"github.com/gatewright/gatewright/shared/installation"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/storetest"
)

// another is another process of the fixture's installation.
func (f *fixture) another(t *testing.T, backend store.Backend) *accounts.Service {
	clock := func() time.Time { return f.now }
	return accounts.Open(installation.Parts{
		Table: storetest.Over(t, backend, storetest.Clock(clock), storetest.Pause(func(context.Context, int) error { return nil })),
		IDs:   ids.NewSource(storetest.Random(t), clock), Now: clock,
	})
}

// asked is the context of a request of a key's.
func (f *fixture) asked(t *testing.T, by auth.Principal) context.Context {
	return audit.With(t.Context(), &audit.Request{
		AccountID: by.AccountID, Action: "account-key.test", Time: f.now, RequestID: fmt.Sprint("request-", len(f.items.Items())),
	})
}

func (f *fixture) account(t *testing.T) (full auth.Principal, text string) {
	t.Helper()
	if _, text, err := f.Create(t.Context(), "acme"); err == nil {
		return f.bearer(t, text), text
	}
	t.Fatal("no account")
	return auth.Principal{}, ""
}

func (f *fixture) bearer(t *testing.T, text string) auth.Principal {
	t.Helper()
	p, err := f.Authenticate(t.Context(), text)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func (f *fixture) key(t *testing.T, spec accounts.Spec) (accounts.Key, string) {
	t.Helper()
	key, text, err := f.CreateKey(t.Context(), "acme", spec)
	if err != nil {
		t.Fatal(err)
	}
	return key, text
}

func (f *fixture) listed(t *testing.T) (ids []string) {
	t.Helper()
	all, err := f.Keys(t.Context(), "acme")
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range all {
		ids = append(ids, k.ID)
	}
	return ids
}

func TestKeysAreListedNewestFirstUntilThirtyDaysAfterTheirEnd(t *testing.T) {
	f := newFixture(t)
	full, _ := f.account(t)
	f.now = f.now.Add(time.Second)
	end := f.now.Add(time.Hour)
	short, _ := f.key(t, accounts.Spec{Label: "short", ExpiresOn: &end, Permissions: auth.Full()})
	if got, want := f.listed(t), []string{short.ID, full.KeyID}; !slices.Equal(got, want) {
		t.Errorf("listed are %q, want %q", got, want)
	}
	f.now = end.Add(30*24*time.Hour - time.Second)
	if got := f.listed(t); !slices.Contains(got, short.ID) {
		t.Error("an expired key is gone too early")
	}
	f.now = end.Add(30 * 24 * time.Hour)
	if got, want := f.listed(t), []string{full.KeyID}; !slices.Equal(got, want) {
		t.Errorf("listed are %q, want %q", got, want)
	}
}

// TestRevokedKeyIsRefusedWithinAMinute by a process that knows it, and at once
// by any other.
func TestRevokedKeyIsRefusedWithinAMinute(t *testing.T) {
	f := newFixture(t)
	f.account(t)
	key, text := f.key(t, accounts.Spec{})
	f.bearer(t, text)
	f.now = f.now.Add(time.Second)
	if err := f.RevokeKey(t.Context(), "acme", key.ID, false); err != nil {
		t.Fatal(err)
	}
	if _, err := f.another(t, f.items).Authenticate(t.Context(), text); !fault.Is(err, fault.Unauthenticated) {
		t.Errorf("a process that does not know it answers %v", err)
	}
	for _, later := range []time.Duration{59 * time.Second, -time.Hour} {
		f.now = f.now.Add(later)
		if _, err := f.Authenticate(t.Context(), text); !fault.Is(err, fault.Unauthenticated) {
			t.Errorf("a process that knows it answers %v after %v", err, later)
		}
	}
	if slices.Contains(f.listed(t), key.ID) {
		t.Error("it is listed")
	}
	if err := f.RevokeKey(t.Context(), "acme", key.ID, true); !fault.Is(err, fault.NotFound) {
		t.Errorf("revoking it twice: %v", err)
	}
}

// TestKnownKeyIsRefusedWhileTheTableIsSilent: after its time a key is not
// believed for want of an answer.
func TestKnownKeyIsRefusedWhileTheTableIsSilent(t *testing.T) {
	f := newFixture(t)
	_, text := f.account(t)
	backend := &interrupted{Backend: f.items}
	s := f.another(t, backend)
	if _, err := s.Authenticate(t.Context(), text); err != nil {
		t.Fatal(err)
	}
	backend.silent = true
	f.now = f.now.Add(time.Minute)
	if _, err := s.Authenticate(t.Context(), text); err == nil {
		t.Error("it is believed")
	}
}

// interrupted has something happen before the next commit, once.
type interrupted struct {
	store.Backend
	before func()
	silent bool
}

func (i *interrupted) Read(ctx context.Context, keys []store.Key) ([]store.Item, error) {
	if i.silent {
		return nil, store.ErrLost
	}
	return i.Backend.Read(ctx, keys)
}

// Transact implements store.Backend.
func (i *interrupted) Transact(ctx context.Context, token string, writes []store.Write) error {
	if before := i.before; before != nil {
		i.before = nil
		before()
	}
	return i.Backend.Transact(ctx, token, writes)
}

// TestLastTwoFullKeysAreNotRevokedAtOnce: of two revocations one wins, whichever
// commits first.
func TestLastTwoFullKeysAreNotRevokedAtOnce(t *testing.T) {
	f := newFixture(t)
	full, _ := f.account(t)
	other, _ := f.key(t, accounts.Spec{Permissions: auth.Full()})
	f.key(t, accounts.Spec{}) // which may nothing
	f.now = f.now.Add(time.Second)
	late := f.another(t, &interrupted{Backend: f.items, before: func() {
		if err := f.RevokeKey(t.Context(), "acme", other.ID, false); err != nil {
			t.Error(err)
		}
	}})
	if err := late.RevokeKey(t.Context(), "acme", full.KeyID, false); !fault.Is(err, fault.Conflict) || !strings.Contains(err.Error(), "force") {
		t.Errorf("the last one is revoked: %v", err)
	}
	if got := f.listed(t); len(got) != 2 || !slices.Contains(got, full.KeyID) {
		t.Errorf("left are %q", got)
	}
	if err := f.RevokeKey(t.Context(), "acme", full.KeyID, true); err != nil {
		t.Errorf("with force: %v", err)
	}
}

// TestExpiredKeyIsNoOtherFullKey: what counts is what works.
func TestExpiredKeyIsNoOtherFullKey(t *testing.T) {
	f := newFixture(t)
	full, _ := f.account(t)
	end := f.now.Add(time.Hour)
	short, _ := f.key(t, accounts.Spec{ExpiresOn: &end, Permissions: auth.Full()})
	f.now = end
	if err := f.RevokeKey(t.Context(), "acme", full.KeyID, false); !fault.Is(err, fault.Conflict) {
		t.Errorf("got %v", err)
	}
	if err := f.RevokeKey(t.Context(), "acme", short.ID, false); err != nil {
		t.Errorf("the expired one: %v", err)
	}
}

func TestKeyMakesNoneThatMayMore(t *testing.T) {
	f := newFixture(t)
	f.account(t)
	end := f.now.Add(time.Hour)
	own := accounts.Spec{ExpiresOn: &end, Permissions: auth.Permissions{
		Projects: []string{"shop", "blog"}, Environments: []environment.Kind{environment.Preview, environment.Development},
		Scopes: []auth.Scope{auth.AccountKeys.Write(), auth.Logs.Read()},
	}}
	_, text := f.key(t, own)
	by := f.bearer(t, text)
	for name, c := range map[string]struct {
		change func(*accounts.Spec)
		want   string // "" for a good one
	}{
		"the same":            {func(*accounts.Spec) {}, ""},
		"less":                {func(s *accounts.Spec) { s.Permissions = auth.Permissions{Projects: []string{"blog"}} }, ""},
		"read of write":       {func(s *accounts.Spec) { s.Permissions.Scopes = []auth.Scope{auth.AccountKeys.Read()} }, ""},
		"nothing":             {func(s *accounts.Spec) { s.Permissions = auth.Permissions{} }, ""},
		"write of read":       {func(s *accounts.Spec) { s.Permissions.Scopes = []auth.Scope{auth.Logs.Write()} }, "scopes"},
		"everything":          {func(s *accounts.Spec) { s.Permissions = auth.Full() }, "scopes, projects, environments"},
		"another project":     {func(s *accounts.Spec) { s.Permissions.Projects = []string{"shop", "other"} }, "projects"},
		"all projects":        {func(s *accounts.Spec) { s.Permissions.Projects = []string{auth.AllProjects} }, "projects"},
		"another environment": {func(s *accounts.Spec) { s.Permissions.Environments = environment.Kinds() }, "environments"},
		"for longer":          {func(s *accounts.Spec) { s.ExpiresOn = new(end.Add(1)) }, "expiresOn"},
		"for ever":            {func(s *accounts.Spec) { s.ExpiresOn = nil }, "expiresOn"},
	} {
		t.Run(name, func(t *testing.T) {
			spec := own
			c.change(&spec)
			before := len(f.items.Items())
			_, _, err := f.CreateKeyFor(f.asked(t, by), by, spec)
			if c.want == "" && err != nil || c.want != "" && (!fault.Is(err, fault.Forbidden) || !strings.Contains(err.Error(), " in "+c.want+",")) {
				t.Errorf("got %v, want %q", err, c.want)
			}
			if wrote := len(f.items.Items()) - before; err != nil && wrote > 0 {
				t.Errorf("%d records for a key that was refused", wrote)
			}
		})
	}
}

// TestKeySeesAndRevokesNoneThatMayMore: it is no way to take them from others.
func TestKeySeesAndRevokesNoneThatMayMore(t *testing.T) {
	f := newFixture(t)
	full, _ := f.account(t)
	limited := auth.Permissions{Projects: []string{"shop"}, Environments: environment.Kinds(), Scopes: auth.Scopes()}
	_, text := f.key(t, accounts.Spec{Permissions: limited})
	by := f.bearer(t, text)
	less, _ := f.key(t, accounts.Spec{Permissions: auth.Permissions{Projects: []string{"shop"}}})
	elsewhere, _ := f.key(t, accounts.Spec{Permissions: auth.Permissions{Projects: []string{"blog"}}})
	seen, err := f.KeysFor(t.Context(), by)
	if err != nil || len(seen) != 2 {
		t.Errorf("it sees %v, %v", seen, err)
	}
	for id, want := range map[string]fault.Kind{full.KeyID: fault.NotFound, elsewhere.ID: fault.NotFound, "akey_none": fault.NotFound} {
		if err := f.RevokeKeyFor(f.asked(t, by), by, id, true); !fault.Is(err, want) {
			t.Errorf("%s: %v", id, err)
		}
	}
	f.now = f.now.Add(time.Second)
	if err := f.RevokeKeyFor(f.asked(t, by), by, less.ID, false); err != nil {
		t.Error(err)
	}
	f.now = f.now.Add(time.Second)
	if err := f.RevokeKeyFor(f.asked(t, by), by, by.KeyID, false); err != nil {
		t.Errorf("itself: %v", err)
	}
}

// TestRevokedKeyMakesAndRevokesNone, also where it is believed still, and when it is
// revoked while its request is on the way: whoever has stolen it would go on with
// another.
func TestRevokedKeyMakesAndRevokesNone(t *testing.T) {
	for name, c := range map[string]struct {
		between bool // the reads of its request, and the commit
		ask     func(ctx context.Context, s *accounts.Service, by auth.Principal, other string) error
	}{
		"makes one":        {false, makeOne},
		"makes one late":   {true, makeOne},
		"revokes one":      {false, revokeOther},
		"revokes one late": {true, revokeOther},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.account(t)
			stolen, text := f.key(t, accounts.Spec{Permissions: auth.Full()})
			other, _ := f.key(t, accounts.Spec{Permissions: auth.Full()})
			backend := &interrupted{Backend: f.items}
			s := f.another(t, backend)
			if _, err := s.Authenticate(t.Context(), text); err != nil {
				t.Fatal(err)
			}
			f.now = f.now.Add(time.Second)
			revoked := func() {
				if err := f.RevokeKey(t.Context(), "acme", stolen.ID, false); err != nil {
					t.Error(err)
				}
			}
			if c.between {
				backend.before = revoked
			} else {
				revoked()
			}
			by, err := s.Authenticate(t.Context(), text)
			if err != nil {
				t.Fatalf("it is believed no more: %v", err)
			}
			if err := c.ask(f.asked(t, by), s, by, other.ID); !fault.Is(err, fault.Unauthenticated) {
				t.Errorf("got %v", err)
			}
			if left := f.listed(t); len(left) != 2 {
				t.Errorf("%d keys are left, want the two that nobody has revoked", len(left))
			}
		})
	}
}

func makeOne(ctx context.Context, s *accounts.Service, by auth.Principal, _ string) error {
	_, _, err := s.CreateKeyFor(ctx, by, accounts.Spec{Label: "survivor", Permissions: auth.Full()})
	return err
}

func revokeOther(ctx context.Context, s *accounts.Service, by auth.Principal, other string) error {
	return s.RevokeKeyFor(ctx, by, other, true)
}

// commits counts the transactions that change something.
type commits struct {
	store.Backend
	n int
}

// Transact implements store.Backend.
func (c *commits) Transact(ctx context.Context, token string, writes []store.Write) error {
	err := c.Backend.Transact(ctx, token, writes)
	if err == nil {
		c.n++
	}
	return err
}

// TestUseIsNotedOnceADay however many processes and requests use the key.
func TestUseIsNotedOnceADay(t *testing.T) {
	f := newFixture(t)
	_, text := f.account(t)
	counted := &commits{Backend: f.items}
	fleet := []*accounts.Service{f.another(t, counted), f.another(t, counted), f.another(t, counted)}
	for day := range 3 {
		for range 40 {
			for _, s := range fleet {
				by, err := s.Authenticate(t.Context(), text)
				if err != nil {
					t.Fatal(err)
				}
				s.NoteUse(t.Context(), by)()
			}
			f.now = f.now.Add(10 * time.Second)
		}
		all, err := f.Keys(t.Context(), "acme")
		if want := f.now.UTC().Format(time.DateOnly); err != nil || all[0].LastUsedOn != want || counted.n != day+1 {
			t.Errorf("last used on %q, want %q; %d writes on %d days; %v", all[0].LastUsedOn, want, counted.n, day+1, err)
		}
		f.now = f.now.Add(24 * time.Hour)
	}
}

// TestNoteBringsNoRevokedKeyBack to the list, or to life.
func TestNoteBringsNoRevokedKeyBack(t *testing.T) {
	f := newFixture(t)
	f.account(t)
	key, text := f.key(t, accounts.Spec{})
	by := f.bearer(t, text)
	f.now = f.now.Add(time.Second)
	if err := f.RevokeKey(t.Context(), "acme", key.ID, false); err != nil {
		t.Fatal(err)
	}
	before := len(f.items.Items())
	f.NoteUse(t.Context(), by)()
	if after := len(f.items.Items()); after != before {
		t.Errorf("%d records, before it were %d", after, before)
	}
}

// earlier is a key as the release before keys were listed has written it: by the
// hash of its text alone, with every scope of that time.
func (f *fixture) earlier(t *testing.T, by auth.Principal, text string, scopes ...auth.Scope) {
	t.Helper()
	type permissions struct {
		Projects     []string           `dynamodbav:"projects"`
		Environments []environment.Kind `dynamodbav:"environments"`
		Scopes       []auth.Scope       `dynamodbav:"scopes"`
	}
	record := struct {
		ID          string      `dynamodbav:"id"`
		AccountID   string      `dynamodbav:"accountId"`
		AccountName string      `dynamodbav:"accountName"`
		Label       string      `dynamodbav:"label"`
		CreatedOn   time.Time   `dynamodbav:"createdOn"`
		Permissions permissions `dynamodbav:"permissions"`
	}{
		"akey_earlier", by.AccountID, by.AccountName, "Full access key of acme", f.now,
		permissions{[]string{"*"}, environment.Kinds(), scopes},
	}
	if err := f.table.Commit(t.Context(), store.Put(store.Key{PK: "credential#" + accounts.Hash(text), SK: "."}, record)); err != nil {
		t.Fatal(err)
	}
}

const earlierText = "gwa_0123456789ABCDEFGHIJKLMNOPQRSTUV_73ffd956"

// allOfEarlier are the scopes of the release before keys were listed.
func allOfEarlier() []auth.Scope {
	return slices.DeleteFunc(auth.Scopes(), func(s auth.Scope) bool { return s.Resource() == auth.AccountKeys })
}

// TestKeyOfAnEarlierReleaseIsListedFromItsFirstUseOn, and can be revoked from then on.
func TestKeyOfAnEarlierReleaseIsListedFromItsFirstUseOn(t *testing.T) {
	f := newFixture(t)
	full, _ := f.account(t)
	f.earlier(t, full, earlierText, allOfEarlier()...)
	p := f.bearer(t, earlierText)
	if !p.Permissions.IsFull() {
		t.Error("a key that allowed everything no longer does")
	}
	wait := f.NoteUse(t.Context(), p)
	all, err := f.Keys(t.Context(), "acme") // it is there before its first request goes on
	i := slices.IndexFunc(all, func(k accounts.Key) bool { return k.ID == "akey_earlier" })
	if err != nil || i < 0 {
		t.Fatalf("listed are %+v, %v", all, err)
	}
	wait()
	if k := all[i]; !k.Permissions.IsFull() || k.Label != "Full access key of acme" || k.LastUsedOn == "" || !k.CreatedOn.Equal(storetest.Epoch) {
		t.Errorf("listed as %+v", k)
	}
	f.now = f.now.Add(time.Second)
	if err := f.RevokeKey(t.Context(), "acme", "akey_earlier", false); err != nil {
		t.Fatal(err)
	}
	if _, err := f.another(t, f.items).Authenticate(t.Context(), earlierText); !fault.Is(err, fault.Unauthenticated) {
		t.Errorf("it opens after its revocation: %v", err)
	}
}

// TestOnlyAllOfAnEarlierReleaseBecomesAll: no key gets more than was asked for.
func TestOnlyAllOfAnEarlierReleaseBecomesAll(t *testing.T) {
	f := newFixture(t)
	full, _ := f.account(t)
	some := allOfEarlier()[1:]
	f.earlier(t, full, earlierText, some...)
	if p := f.bearer(t, earlierText); !slices.Equal(p.Permissions.Scopes, some) {
		t.Errorf("some became %v", p.Permissions.Scopes)
	}
	_, text := f.key(t, accounts.Spec{Permissions: auth.Permissions{Scopes: allOfEarlier()}})
	if p := f.bearer(t, text); p.Allows(auth.AccountKeys.Read()) {
		t.Error("a key of this release got a scope that it was made without")
	}
}

// TestFullKeyIsFullInReleasesToCome: it is stored as all, not as what all is today.
func TestFullKeyIsFullInReleasesToCome(t *testing.T) {
	f := newFixture(t)
	f.account(t)
	for key, item := range f.items.Items() {
		if record, err := json.Marshal(item); err != nil || strings.Contains(string(record), "key-buckets") {
			t.Errorf("%s lists scopes: %s, %v", key.PK, record, err)
		}
	}
}
