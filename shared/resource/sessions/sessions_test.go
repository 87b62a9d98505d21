package sessions_test

import (
	"context"
	"encoding/hex"
	"fmt"
	"log/slog"
	"math/rand/v2"
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
	"github.com/gatewright/gatewright/shared/resource/accounts"
	"github.com/gatewright/gatewright/shared/resource/sessions"
	"github.com/gatewright/gatewright/shared/testing/simulations"
)

// fixture is an installation with the account acme, whose first key is key.
type fixture struct {
	*testing.T
	items    *memory.Backend
	now      time.Time
	key      string
	requests int
}

// process is a process of the fixture. Its cache is empty at first.
type process struct {
	*fixture
	*sessions.Service
	keys *accounts.Service
}

func newFixture(t *testing.T) (*fixture, *process) {
	t.Helper()
	fx := &fixture{T: t, items: memory.New(), now: storetest.Epoch}
	p := fx.newProcess(fx.items)
	_, key, err := p.keys.Create(t.Context(), "acme")
	if err != nil {
		t.Fatal(err)
	}
	fx.key = key
	return fx, p
}

func (fx *fixture) newProcess(backend store.Backend) *process {
	clock := func() time.Time { return fx.now }
	parts := installation.Parts{
		Table: storetest.NewWithBackend(fx.T, backend, storetest.Clock(clock)),
		IDs:   ids.NewSource(storetest.Random(fx.T), clock), Now: clock,
		Log: slog.New(slog.DiscardHandler),
	}
	keys := accounts.Open(parts)
	return &process{fx, sessions.Open(parts, keys), keys}
}

// request returns the context of an audited request.
func (fx *fixture) request() context.Context {
	fx.requests++
	return audit.WithRequest(fx.Context(), &audit.Request{
		AccountID: "a-1", Action: "session.test", Time: fx.now,
		RequestID: fmt.Sprint("request-", fx.requests),
	})
}

// createSession creates a session of a key.
func (p *process) createSession(key string) (auth.Session, string) {
	p.Helper()
	caller, err := p.Authenticate(p.Context(), key)
	if err != nil {
		p.Fatal(err)
	}
	session, token, err := p.Create(p.request(), caller)
	if err != nil {
		p.Fatal(err)
	}
	return session, token
}

// useSession makes a request with a session, and reports whether it was authenticated. If polled is true, the request
// does not count as use.
func (p *process) useSession(token string, polled bool) bool {
	p.Helper()
	caller, err := p.AuthenticateSession(p.Context(), token)
	switch {
	case fault.Is(err, fault.Unauthenticated):
		return false
	case err != nil:
		p.Fatal(err)
	}
	caller.Session.Polled = polled
	p.RecordUse(p.Context(), caller)()
	return true
}

func TestSessionHasPermissionsOfItsKey(t *testing.T) {
	_, p := newFixture(t)
	limited := auth.Full()
	limited.Projects, limited.Scopes = []string{"shop"}, []auth.Scope{auth.Logs.Read()}
	_, key, err := p.keys.CreateKey(t.Context(), "acme", accounts.Spec{Label: "desk", Permissions: limited})
	if err != nil {
		t.Fatal(err)
	}
	session, token := p.createSession(key)
	caller, err := p.Authenticate(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	got, err := p.AuthenticateSession(t.Context(), token)
	if err != nil || got.Session == nil || *got.Session != session {
		t.Fatalf("session of AuthenticateSession() = %+v, %v, want %+v", got.Session, err, session)
	}
	got.Session = nil
	if fmt.Sprint(got) != fmt.Sprint(caller) {
		t.Errorf("AuthenticateSession() = %+v, want the principal of the key, %+v", got, caller)
	}
}

func TestTokenIsStoredAsHashOnly(t *testing.T) {
	fx, p := newFixture(t)
	_, token := p.createSession(fx.key)
	secret := strings.Split(token, "_")[1]
	if len(secret) < 43 {
		t.Errorf("secret of a token = %d digits, want at least 43 for 256 bits", len(secret))
	}
	const pieceLen = 12 // digits: other texts do not contain so many digits of the secret by chance
	for key, item := range fx.items.Items() {
		var attributes map[string]any
		if err := store.Decode(item, &attributes); err != nil {
			t.Fatal(err)
		}
		stored := fmt.Sprintf("%s%s%s", key.PK, key.SK, attributes)
		for i := 0; i+pieceLen <= len(secret); i++ {
			if piece := secret[i : i+pieceLen]; strings.Contains(stored, piece) ||
				strings.Contains(stored, hex.EncodeToString([]byte(piece))) {
				t.Errorf("item %s contains %q of the token, want only its hash", key.PK, piece)
				break
			}
		}
	}
	if !credential.Contains("cookie=" + token) {
		t.Error("credential.Contains(token in a cookie) = false, want true")
	}
}

// TestIdleSessionExpires checks that a session expires half an hour after its last use. Polling does not count as use.
func TestIdleSessionExpires(t *testing.T) {
	for _, polled := range []bool{false, true} {
		fx, p := newFixture(t)
		_, token := p.createSession(fx.key)
		start := fx.now
		for fx.now.Sub(start) < 25*time.Minute {
			fx.now = fx.now.Add(5 * time.Minute)
			if !p.useSession(token, polled) {
				t.Fatalf("polled %t: session ends after %v, want it open", polled, fx.now.Sub(start))
			}
		}
		fx.now = fx.now.Add(sessions.IdleTimeout - time.Minute)
		if got := p.useSession(token, polled); got == polled {
			t.Errorf("polled %t: session open = %t %v after the previous request, want %t",
				polled, got, sessions.IdleTimeout-time.Minute, !polled)
		}
		fx.now = fx.now.Add(sessions.IdleTimeout + time.Second)
		if p.useSession(token, false) {
			t.Errorf("polled %t: session is open after it was idle, want it ended", polled)
		}
	}
}

func TestSessionExpiresAfterTwelveHours(t *testing.T) {
	fx, p := newFixture(t)
	session, token := p.createSession(fx.key)
	for ; fx.now.Before(session.ExpiresOn); fx.now = fx.now.Add(10 * time.Minute) {
		if !p.useSession(token, false) {
			t.Fatalf("session of %v has ended at %v, want it open until %v", session.CreatedOn, fx.now, session.ExpiresOn)
		}
	}
	if got := session.ExpiresOn.Sub(session.CreatedOn); got != 12*time.Hour {
		t.Errorf("session lasts %v, want 12h", got)
	}
	if p.useSession(token, false) {
		t.Error("session is open after its expiry, want it ended")
	}
}

// TestSessionEndsWithItsKey checks that a process without the key in its cache
// refuses the session immediately, and other processes at most a minute later.
func TestSessionEndsWithItsKey(t *testing.T) {
	fx, p := newFixture(t)
	expiresOn := fx.now.Add(time.Hour)
	spec := accounts.Spec{Label: "short", ExpiresOn: &expiresOn, Permissions: auth.Full()}
	short, text, err := p.keys.CreateKey(t.Context(), "acme", spec)
	if err != nil {
		t.Fatal(err)
	}
	session, token := p.createSession(text)
	if !session.ExpiresOn.Equal(expiresOn) {
		t.Errorf("session expires on %v, want %v as its key", session.ExpiresOn, expiresOn)
	}
	_, other := p.createSession(fx.key)
	if err := p.keys.RevokeKey(t.Context(), "acme", short.ID, true); err != nil {
		t.Fatal(err)
	}
	if fx.newProcess(fx.items).useSession(token, false) {
		t.Error("session of a revoked key is open in a new process, want it ended")
	}
	fx.now = fx.now.Add(time.Minute)
	if p.useSession(token, false) {
		t.Error("session of a revoked key is open after a minute, want it ended")
	}
	if !p.useSession(other, false) {
		t.Error("session of another key has ended, want it open")
	}
}

// TestDeletedSessionIsRefusedEverywhere checks that processes that have just authenticated
// a session refuse it after its deletion. Another session of the same key stays valid.
func TestDeletedSessionIsRefusedEverywhere(t *testing.T) {
	fx, p := newFixture(t)
	_, token := p.createSession(fx.key)
	_, other := p.createSession(fx.key)
	second := fx.newProcess(fx.items)
	if !second.useSession(token, false) {
		t.Fatal("new session is refused, want it accepted")
	}
	caller, err := p.AuthenticateSession(t.Context(), token)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // a second deletion succeeds too
		if err := p.Delete(p.request(), *caller.Session); err != nil {
			t.Fatal(err)
		}
	}
	if second.useSession(token, false) {
		t.Error("deleted session is accepted by the second process, want it refused")
	}
	if p.useSession(token, false) {
		t.Error("deleted session is accepted by the process that deleted it, want it refused")
	}
	if !second.useSession(other, false) {
		t.Error("another session of the key has ended, want it open")
	}
}

func TestMalformedTokensNeedNoRead(t *testing.T) {
	fx, p := newFixture(t)
	_, token := p.createSession(fx.key)
	for _, text := range []string{
		"", "x", fx.key, token[:len(token)-1], token + "0", " " + token,
		strings.ToUpper(token),
	} {
		var m store.Meter
		_, err := p.AuthenticateSession(store.WithMeter(t.Context(), &m), text)
		if !fault.Is(err, fault.Unauthenticated) {
			t.Errorf("AuthenticateSession(%q) error = %v, want %v", text, err, fault.Unauthenticated)
		}
		if usage := m.Usage(); usage != (store.Usage{}) {
			t.Errorf("AuthenticateSession(%q) uses %+v, want no requests to the table", text, usage)
		}
	}
}

// countingBackend counts the transactions.
type countingBackend struct {
	store.Backend
	n int
}

// Transact implements store.Backend.
func (c *countingBackend) Transact(ctx context.Context, token string, writes []store.Write) error {
	c.n++
	return c.Backend.Transact(ctx, token, writes)
}

func TestSessionUseIsWrittenOncePerMinute(t *testing.T) {
	fx, p := newFixture(t)
	_, token := p.createSession(fx.key)
	backend := &countingBackend{Backend: fx.items}
	proc := fx.newProcess(backend)
	proc.useSession(token, false) // writes the key's day of use, which is not counted below
	backend.n = 0
	for range 10 * 60 {
		fx.now = fx.now.Add(time.Second)
		if !proc.useSession(token, false) {
			t.Fatalf("session has ended at %v, want it open", fx.now)
		}
	}
	if backend.n != 10 {
		t.Errorf("%d writes in ten minutes, want 10", backend.n)
	}
}

// interruptedBackend calls a function before the next transaction, once.
type interruptedBackend struct {
	store.Backend
	beforeCommit func()
}

// Transact implements store.Backend.
func (i *interruptedBackend) Transact(ctx context.Context, token string, writes []store.Write) error {
	if beforeCommit := i.beforeCommit; beforeCommit != nil {
		i.beforeCommit = nil
		beforeCommit()
	}
	return i.Backend.Transact(ctx, token, writes)
}

// TestUseDoesNotRestoreEndedSession ends the session, or lets it expire
// without being deleted, between its authentication and the write of its use.
func TestUseDoesNotRestoreEndedSession(t *testing.T) {
	for name, endSession := range map[string]func(p *process, caller auth.Principal){
		"signed out": func(p *process, caller auth.Principal) {
			if err := p.Delete(p.request(), *caller.Session); err != nil {
				p.Fatal(err)
			}
		},
		"idle": func(p *process, _ auth.Principal) { p.now = p.now.Add(sessions.IdleTimeout) },
	} {
		fx, p := newFixture(t)
		_, token := p.createSession(fx.key)
		p.useSession(token, false)
		fx.now = fx.now.Add(2 * time.Minute)
		backend := &interruptedBackend{Backend: fx.items}
		second := fx.newProcess(backend)
		caller, err := second.AuthenticateSession(t.Context(), token)
		if err != nil {
			t.Fatal(err)
		}
		if name == "idle" { // the clock advances between the authentication and RecordUse
			endSession(p, caller)
		} else {
			backend.beforeCommit = func() { endSession(p, caller) }
		}
		second.RecordUse(t.Context(), caller)()
		for i, proc := range []*process{p, second} {
			if proc.useSession(token, false) {
				t.Errorf("%s: process %d accepts the ended session after RecordUse(), want it refused", name, i+1)
			}
		}
	}
}

// TestConcurrentProcessesSimulation makes two processes use and poll a session. The first process sometimes ends the
// session between a read and a write of the second. An ended session must not be authenticated again, and no session
// may end more than about a minute early.
func TestConcurrentProcessesSimulation(t *testing.T) {
	for seed := range uint64(simulations.Runs(40)) {
		random := rand.New(rand.NewPCG(seed, 1))
		fx, first := newFixture(t)
		backend := &interruptedBackend{Backend: fx.items}
		processes := []*process{first, fx.newProcess(backend)}
		session, token := first.createSession(fx.key)
		lastUsed, signedOut := fx.now, false
		for range 60 {
			fx.now = fx.now.Add(time.Duration(random.Int64N(int64(12 * time.Minute))))
			if random.IntN(25) == 0 {
				fx.now = fx.now.Add(sessions.IdleTimeout)
			}
			wantEnded := signedOut || !fx.now.Before(session.ExpiresOn) || fx.now.Sub(lastUsed) >= sessions.IdleTimeout
			if random.IntN(20) == 0 && !signedOut {
				backend.beforeCommit = func() {
					signedOut = true
					if err := first.Delete(first.request(), session); err != nil {
						t.Fatal(err)
					}
				}
			}
			polled := random.IntN(3) == 0
			accepted := processes[random.IntN(2)].useSession(token, polled)
			switch {
			case wantEnded && accepted:
				t.Fatalf("seed %d: session of %v is accepted at %v, last used at %v, signed out %t, want it refused",
					seed, session.CreatedOn, fx.now, lastUsed, signedOut)
			case !wantEnded && !accepted && fx.now.Sub(lastUsed) < sessions.IdleTimeout-time.Minute-time.Second:
				t.Fatalf("seed %d: session of %v is refused at %v, last used at %v, want it accepted",
					seed, session.CreatedOn, fx.now, lastUsed)
			case accepted && !polled:
				lastUsed = fx.now
			case !accepted:
				signedOut = true
			}
		}
	}
}
