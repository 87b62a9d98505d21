package accounts_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/core/auth"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/storetest"
	"github.com/gatewright/gatewright/shared/format/environment"
	"github.com/gatewright/gatewright/shared/resource/accounts"
)

func TestKeysAreListedNewestFirstUntilThirtyDaysAfterExpiry(t *testing.T) {
	f := newFixture(t)
	full, _ := f.createAccount(t)
	f.now = f.now.Add(time.Second)
	expiresOn := f.now.Add(time.Hour)
	short, _ := f.createKey(t, accounts.Spec{Label: "short", ExpiresOn: &expiresOn, Permissions: auth.Full()})
	if got, want := f.listKeyIDs(t), []string{short.ID, full.KeyID}; !slices.Equal(got, want) {
		t.Errorf("Keys() = %q, want %q", got, want)
	}
	f.now = expiresOn.Add(30*24*time.Hour - time.Second)
	if got := f.listKeyIDs(t); !slices.Contains(got, short.ID) {
		t.Errorf("Keys() just before 30 days after the expiry = %q, want key %s listed", got, short.ID)
	}
	f.now = expiresOn.Add(30 * 24 * time.Hour)
	if got, want := f.listKeyIDs(t), []string{full.KeyID}; !slices.Equal(got, want) {
		t.Errorf("Keys() 30 days after the expiry = %q, want %q", got, want)
	}
}

// TestRevokedKeyIsRefusedWithinAMinute checks that a process that has cached a revoked key refuses the key within a
// minute, and also after its clock was set back. All other processes refuse the key immediately.
func TestRevokedKeyIsRefusedWithinAMinute(t *testing.T) {
	f := newFixture(t)
	f.createAccount(t)
	key, text := f.createKey(t, accounts.Spec{})
	f.authenticate(t, text)
	f.now = f.now.Add(time.Second)
	if err := f.RevokeKey(t.Context(), "acme", key.ID, false); err != nil {
		t.Fatalf("RevokeKey(%s) error = %v, want none", key.ID, err)
	}
	if _, err := f.newProcess(t, f.items).Authenticate(t.Context(), text); !fault.Is(err, fault.Unauthenticated) {
		t.Errorf("Authenticate(revoked key) in a new process: error = %v, want %v", err, fault.Unauthenticated)
	}
	for _, advance := range []time.Duration{59 * time.Second, -time.Hour} {
		f.now = f.now.Add(advance)
		if _, err := f.Authenticate(t.Context(), text); !fault.Is(err, fault.Unauthenticated) {
			t.Errorf("Authenticate(revoked key) in a process that cached it, clock moved by %v: error = %v, want %v",
				advance, err, fault.Unauthenticated)
		}
	}
	if slices.Contains(f.listKeyIDs(t), key.ID) {
		t.Errorf("Keys() lists the revoked key %s, want it absent", key.ID)
	}
	if err := f.RevokeKey(t.Context(), "acme", key.ID, true); !fault.Is(err, fault.NotFound) {
		t.Errorf("second RevokeKey(%s) error = %v, want %v", key.ID, err, fault.NotFound)
	}
}

// TestCachedKeyExpiresWhenTableIsUnavailable checks that a cached key expires even if the table does not respond.
func TestCachedKeyExpiresWhenTableIsUnavailable(t *testing.T) {
	f := newFixture(t)
	_, text := f.createAccount(t)
	backend := &interruptedBackend{Backend: f.items}
	s := f.newProcess(t, backend)
	if _, err := s.Authenticate(t.Context(), text); err != nil {
		t.Fatalf("Authenticate() before the table's outage: error = %v, want none", err)
	}
	backend.unavailable = true
	f.now = f.now.Add(time.Minute)
	if _, err := s.Authenticate(t.Context(), text); err == nil {
		t.Error("Authenticate(cached key) a minute into the table's outage: no error, want one")
	}
}

// interruptedBackend calls beforeCommit before the next commit, once. If unavailable is true, its reads fail.
type interruptedBackend struct {
	store.Backend
	beforeCommit func()
	unavailable  bool
}

func (i *interruptedBackend) Read(ctx context.Context, keys []store.Key) ([]store.Item, error) {
	if i.unavailable {
		return nil, store.ErrOutcomeUnknown
	}
	return i.Backend.Read(ctx, keys)
}

// Transact implements store.Backend.
func (i *interruptedBackend) Transact(ctx context.Context, token string, writes []store.Write) error {
	if before := i.beforeCommit; before != nil {
		i.beforeCommit = nil
		before()
	}
	return i.Backend.Transact(ctx, token, writes)
}

// TestConcurrentRevocationsKeepOneFullKey revokes one of two full keys while the revocation of the other one is in
// progress. The revocation that commits last must fail.
func TestConcurrentRevocationsKeepOneFullKey(t *testing.T) {
	f := newFixture(t)
	full, _ := f.createAccount(t)
	other, _ := f.createKey(t, accounts.Spec{Permissions: auth.Full()})
	f.createKey(t, accounts.Spec{}) // without permissions
	f.now = f.now.Add(time.Second)
	second := f.newProcess(t, &interruptedBackend{Backend: f.items, beforeCommit: func() {
		if err := f.RevokeKey(t.Context(), "acme", other.ID, false); err != nil {
			t.Errorf("RevokeKey(one of two full keys) error = %v, want none", err)
		}
	}})
	if err := second.RevokeKey(t.Context(), "acme", full.KeyID, false); !fault.Is(err, fault.Conflict) ||
		!strings.Contains(err.Error(), "force") {
		t.Errorf("RevokeKey(last full key) error = %v, want %v that mentions force", err, fault.Conflict)
	}
	if got := f.listKeyIDs(t); len(got) != 2 || !slices.Contains(got, full.KeyID) {
		t.Errorf("Keys() = %q, want 2 keys with %s", got, full.KeyID)
	}
	if err := f.RevokeKey(t.Context(), "acme", full.KeyID, true); err != nil {
		t.Errorf("RevokeKey(last full key, force) error = %v, want none", err)
	}
}

// TestExpiredKeyDoesNotCountAsRemainingFullKey checks that a revocation counts only unexpired keys as remaining full keys.
func TestExpiredKeyDoesNotCountAsRemainingFullKey(t *testing.T) {
	f := newFixture(t)
	full, _ := f.createAccount(t)
	expiresOn := f.now.Add(time.Hour)
	short, _ := f.createKey(t, accounts.Spec{ExpiresOn: &expiresOn, Permissions: auth.Full()})
	f.now = expiresOn
	if err := f.RevokeKey(t.Context(), "acme", full.KeyID, false); !fault.Is(err, fault.Conflict) {
		t.Errorf("RevokeKey(last full key that does not expire) error = %v, want %v", err, fault.Conflict)
	}
	if err := f.RevokeKey(t.Context(), "acme", short.ID, false); err != nil {
		t.Errorf("RevokeKey(expired full key) error = %v, want none", err)
	}
}

// TestKeyCannotCreateMorePowerfulKey checks that a key creates no key with a permission that it lacks, or with a later
// expiry. The error must name the fields that exceed the permissions of the key.
func TestKeyCannotCreateMorePowerfulKey(t *testing.T) {
	f := newFixture(t)
	f.createAccount(t)
	expiresOn := f.now.Add(time.Hour)
	callerSpec := accounts.Spec{ExpiresOn: &expiresOn, Permissions: auth.Permissions{
		Projects: []string{"shop", "blog"}, Environments: []environment.Kind{environment.Preview, environment.Development},
		Scopes: []auth.Scope{auth.AccountKeys.Write(), auth.Logs.Read()},
	}}
	_, text := f.createKey(t, callerSpec)
	caller := f.authenticate(t, text)
	for name, c := range map[string]struct {
		change func(*accounts.Spec)
		want   string // "" for a valid spec
	}{
		"equal permissions": {func(*accounts.Spec) {}, ""},
		"fewer permissions": {
			func(s *accounts.Spec) { s.Permissions = auth.Permissions{Projects: []string{"blog"}} }, "",
		},
		"read scope of a write scope": {
			func(s *accounts.Spec) { s.Permissions.Scopes = []auth.Scope{auth.AccountKeys.Read()} }, "",
		},
		"no permissions": {func(s *accounts.Spec) { s.Permissions = auth.Permissions{} }, ""},
		"write scope of a read scope": {
			func(s *accounts.Spec) { s.Permissions.Scopes = []auth.Scope{auth.Logs.Write()} }, "scopes",
		},
		"full access": {
			func(s *accounts.Spec) { s.Permissions = auth.Full() }, "scopes, projects, environments",
		},
		"another project": {
			func(s *accounts.Spec) { s.Permissions.Projects = []string{"shop", "other"} }, "projects",
		},
		"all projects": {
			func(s *accounts.Spec) { s.Permissions.Projects = []string{auth.AllProjects} }, "projects",
		},
		"another environment": {
			func(s *accounts.Spec) { s.Permissions.Environments = environment.Kinds() }, "environments",
		},
		"a later expiry": {func(s *accounts.Spec) { s.ExpiresOn = new(expiresOn.Add(1)) }, "expiresOn"},
		"no expiry":      {func(s *accounts.Spec) { s.ExpiresOn = nil }, "expiresOn"},
	} {
		t.Run(name, func(t *testing.T) {
			spec := callerSpec
			c.change(&spec)
			before := len(f.items.Items())
			_, _, err := f.CreateKeyFor(f.requestContext(t, caller), caller, spec)
			if c.want == "" && err != nil ||
				c.want != "" && (!fault.Is(err, fault.Forbidden) || !strings.Contains(err.Error(), " in "+c.want+",")) {
				t.Errorf("CreateKeyFor() error = %v, want %v that names %q (no error if empty)", err, fault.Forbidden, c.want)
			}
			if written := len(f.items.Items()) - before; err != nil && written > 0 {
				t.Errorf("refused CreateKeyFor() writes %d items, want 0", written)
			}
		})
	}
}

// TestKeyCannotListOrRevokeMorePowerfulKeys checks that a key neither lists nor revokes keys with permissions that it lacks.
func TestKeyCannotListOrRevokeMorePowerfulKeys(t *testing.T) {
	f := newFixture(t)
	full, _ := f.createAccount(t)
	limited := auth.Permissions{Projects: []string{"shop"}, Environments: environment.Kinds(), Scopes: auth.Scopes()}
	_, text := f.createKey(t, accounts.Spec{Permissions: limited})
	caller := f.authenticate(t, text)
	weaker, _ := f.createKey(t, accounts.Spec{Permissions: auth.Permissions{Projects: []string{"shop"}}})
	otherProject, _ := f.createKey(t, accounts.Spec{Permissions: auth.Permissions{Projects: []string{"blog"}}})
	visible, err := f.KeysFor(t.Context(), caller)
	if err != nil || len(visible) != 2 {
		t.Errorf("KeysFor(limited key) = %v, %v, want 2 keys and no error", visible, err)
	}
	for _, k := range visible {
		if k.ID != caller.KeyID && k.ID != weaker.ID {
			t.Errorf("KeysFor(limited key) lists %s, want only itself, %s, and %s", k.ID, caller.KeyID, weaker.ID)
		}
	}
	for id, want := range map[string]fault.Kind{
		full.KeyID: fault.NotFound, otherProject.ID: fault.NotFound,
		"akey_none": fault.NotFound,
	} {
		if err := f.RevokeKeyFor(f.requestContext(t, caller), caller, id, true); !fault.Is(err, want) {
			t.Errorf("RevokeKeyFor(limited key, %s) error = %v, want %v", id, err, want)
		}
	}
	f.now = f.now.Add(time.Second)
	if err := f.RevokeKeyFor(f.requestContext(t, caller), caller, weaker.ID, false); err != nil {
		t.Errorf("RevokeKeyFor(weaker key) error = %v, want none", err)
	}
	f.now = f.now.Add(time.Second)
	if err := f.RevokeKeyFor(f.requestContext(t, caller), caller, caller.KeyID, false); err != nil {
		t.Errorf("RevokeKeyFor(own key) error = %v, want none", err)
	}
}

// TestRevokedKeyCannotCreateOrRevoke checks that a revoked key can neither create nor revoke keys, even if it is still
// cached or is revoked during the request. Otherwise a thief could create another key.
func TestRevokedKeyCannotCreateOrRevoke(t *testing.T) {
	for name, c := range map[string]struct {
		beforeCommit bool // revoke the key between the reads of the request and its commit
		request      func(ctx context.Context, s *accounts.Service, caller auth.Principal, other string) error
	}{
		"create after the revocation":  {false, createFullKey},
		"create during the revocation": {true, createFullKey},
		"revoke after the revocation":  {false, revokeOther},
		"revoke during the revocation": {true, revokeOther},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.createAccount(t)
			stolen, text := f.createKey(t, accounts.Spec{Permissions: auth.Full()})
			other, _ := f.createKey(t, accounts.Spec{Permissions: auth.Full()})
			backend := &interruptedBackend{Backend: f.items}
			s := f.newProcess(t, backend)
			if _, err := s.Authenticate(t.Context(), text); err != nil {
				t.Fatalf("Authenticate(stolen key before its revocation) error = %v, want none", err)
			}
			f.now = f.now.Add(time.Second)
			revoke := func() {
				if err := f.RevokeKey(t.Context(), "acme", stolen.ID, false); err != nil {
					t.Errorf("RevokeKey(stolen key) error = %v, want none", err)
				}
			}
			if c.beforeCommit {
				backend.beforeCommit = revoke
			} else {
				revoke()
			}
			caller, err := s.Authenticate(t.Context(), text)
			if err != nil {
				t.Fatalf("Authenticate(cached key) error = %v, want none", err)
			}
			if err := c.request(f.requestContext(t, caller), s, caller, other.ID); !fault.Is(err, fault.Unauthenticated) {
				t.Errorf("request with a revoked key: error = %v, want %v", err, fault.Unauthenticated)
			}
			if remaining := f.listKeyIDs(t); len(remaining) != 2 {
				t.Errorf("Keys() after the revocation = %q, want the two keys that are not revoked", remaining)
			}
		})
	}
}

// createFullKey is a request that creates a key with full access.
func createFullKey(ctx context.Context, s *accounts.Service, caller auth.Principal, _ string) error {
	_, _, err := s.CreateKeyFor(ctx, caller, accounts.Spec{Label: "second", Permissions: auth.Full()})
	return err
}

// revokeOther is a request that revokes another key.
func revokeOther(ctx context.Context, s *accounts.Service, caller auth.Principal, other string) error {
	return s.RevokeKeyFor(ctx, caller, other, true)
}

// countingBackend counts the transactions that succeed.
type countingBackend struct {
	store.Backend
	n int
}

// Transact implements store.Backend.
func (c *countingBackend) Transact(ctx context.Context, token string, writes []store.Write) error {
	err := c.Backend.Transact(ctx, token, writes)
	if err == nil {
		c.n++
	}
	return err
}

// TestUseIsRecordedOncePerDay checks that the use of a key is written once a
// day, although several processes use the key for many requests.
func TestUseIsRecordedOncePerDay(t *testing.T) {
	f := newFixture(t)
	_, text := f.createAccount(t)
	backend := &countingBackend{Backend: f.items}
	processes := []*accounts.Service{f.newProcess(t, backend), f.newProcess(t, backend), f.newProcess(t, backend)}
	for day := range 3 {
		for range 40 {
			for _, s := range processes {
				caller, err := s.Authenticate(t.Context(), text)
				if err != nil {
					t.Fatalf("Authenticate() on day %d: error = %v, want none", day+1, err)
				}
				s.RecordUse(t.Context(), caller)()
			}
			f.now = f.now.Add(10 * time.Second)
		}
		all, err := f.Keys(t.Context(), "acme")
		if want := f.now.UTC().Format(time.DateOnly); err != nil || all[0].LastUsedOn != want {
			t.Errorf("Keys() = %+v, %v, want the key last used on %s and no error", all, err, want)
		}
		if backend.n != day+1 {
			t.Errorf("%d writes in %d days, want one a day", backend.n, day+1)
		}
		f.now = f.now.Add(24 * time.Hour)
	}
}

// TestRecordUseDoesNotRestoreRevokedKey checks that RecordUse creates no item for a key that was revoked during the
// request.
func TestRecordUseDoesNotRestoreRevokedKey(t *testing.T) {
	f := newFixture(t)
	f.createAccount(t)
	key, text := f.createKey(t, accounts.Spec{})
	caller := f.authenticate(t, text)
	f.now = f.now.Add(time.Second)
	if err := f.RevokeKey(t.Context(), "acme", key.ID, false); err != nil {
		t.Fatal(err)
	}
	before := len(f.items.Items())
	f.RecordUse(t.Context(), caller)()
	if after := len(f.items.Items()); after != before {
		t.Errorf("%d items after RecordUse() of a revoked key, want %d", after, before)
	}
}

// storeLegacyKey stores a key like a release that had no list of keys: only by the hash of its text, and with a list of
// scopes.
func (f *fixture) storeLegacyKey(t *testing.T, caller auth.Principal, text string, scopes ...auth.Scope) {
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
		"akey_earlier", caller.AccountID, caller.AccountName, "Full access key of acme", f.now,
		permissions{[]string{"*"}, environment.Kinds(), scopes},
	}
	if err := f.table.Commit(t.Context(), store.Put(store.Key{PK: "credential#" + accounts.Hash(text), SK: "."},
		record)); err != nil {
		t.Fatal(err)
	}
}

const legacyKeyText = "gwa_0123456789ABCDEFGHIJKLMNOPQRSTUV_73ffd956"

// legacyScopes returns the scopes of the release before the list of keys.
func legacyScopes() []auth.Scope {
	return slices.DeleteFunc(auth.Scopes(), func(s auth.Scope) bool { return s.Resource() == auth.AccountKeys })
}

// TestLegacyKeyIsListedAfterFirstUse checks that a key of an earlier release is listed after its first use, and can
// then be revoked.
func TestLegacyKeyIsListedAfterFirstUse(t *testing.T) {
	f := newFixture(t)
	full, _ := f.createAccount(t)
	f.storeLegacyKey(t, full, legacyKeyText, legacyScopes()...)
	p := f.authenticate(t, legacyKeyText)
	if !p.Permissions.IsFull() {
		t.Error("IsFull() of a legacy key with all scopes = false, want true")
	}
	wait := f.RecordUse(t.Context(), p)
	all, err := f.Keys(t.Context(), "acme") // RecordUse lists the key before the request continues
	i := slices.IndexFunc(all, func(k accounts.Key) bool { return k.ID == "akey_earlier" })
	if err != nil || i < 0 {
		t.Fatalf("Keys() = %+v, %v, want akey_earlier listed and no error", all, err)
	}
	wait()
	if k := all[i]; !k.Permissions.IsFull() || k.Label != "Full access key of acme" || k.LastUsedOn == "" ||
		!k.CreatedOn.Equal(storetest.Epoch) {
		t.Errorf("Keys() lists the legacy key as %+v, want a full key with its label, its last use and creation at %s",
			k, storetest.Epoch)
	}
	f.now = f.now.Add(time.Second)
	if err := f.RevokeKey(t.Context(), "acme", "akey_earlier", false); err != nil {
		t.Fatalf("RevokeKey(legacy key) error = %v, want none", err)
	}
	if _, err := f.newProcess(t, f.items).Authenticate(t.Context(), legacyKeyText); !fault.Is(err, fault.Unauthenticated) {
		t.Errorf("Authenticate(revoked legacy key) error = %v, want %v", err, fault.Unauthenticated)
	}
}

// TestOnlyAllLegacyScopesBecomeFullAccess checks that no key gets more scopes than were requested for it.
func TestOnlyAllLegacyScopesBecomeFullAccess(t *testing.T) {
	f := newFixture(t)
	full, _ := f.createAccount(t)
	partial := legacyScopes()[1:]
	f.storeLegacyKey(t, full, legacyKeyText, partial...)
	if p := f.authenticate(t, legacyKeyText); !slices.Equal(p.Permissions.Scopes, partial) {
		t.Errorf("scopes of a legacy key without one scope = %v, want %v", p.Permissions.Scopes, partial)
	}
	_, text := f.createKey(t, accounts.Spec{Permissions: auth.Permissions{Scopes: legacyScopes()}})
	if p := f.authenticate(t, text); p.Allows(auth.AccountKeys.Read()) {
		t.Error("Allows(account-keys:read) of a current key without this scope = true, want false")
	}
}

// TestFullKeyStoresNoScopeList checks that a key with full access is stored without the list of today's scopes.
func TestFullKeyStoresNoScopeList(t *testing.T) {
	f := newFixture(t)
	f.createAccount(t)
	for key, item := range f.items.Items() {
		if record, err := json.Marshal(item); err != nil || strings.Contains(string(record), "key-buckets") {
			t.Errorf("item %v = %s, %v, want no list of scopes and no error", key, record, err)
		}
	}
}
