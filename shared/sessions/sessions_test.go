package sessions_test

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/accounts"
	"github.com/gatewright/gatewright/shared/audit"
	"github.com/gatewright/gatewright/shared/auth"
	"github.com/gatewright/gatewright/shared/credential"
	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/ids"
	"github.com/gatewright/gatewright/shared/installation"
	"github.com/gatewright/gatewright/shared/operation/simulations"
	"github.com/gatewright/gatewright/shared/sessions"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/memory"
	"github.com/gatewright/gatewright/shared/store/storetest"
)

// world is an installation with the account acme, whose first key is key.
type world struct {
	*testing.T
	items *memory.Backend
	now   time.Time
	key   string
	asked int
}

// process is one of the world's, which knows nothing yet.
type process struct {
	*world
	*sessions.Service
	keys *accounts.Service
}

func newWorld(t *testing.T) (*world, *process) {
	t.Helper()
	w := &world{T: t, items: memory.New(), now: storetest.Epoch}
	p := w.process(w.items)
	_, key, err := p.keys.Create(t.Context(), "acme")
	if err != nil {
		t.Fatal(err)
	}
	w.key = key
	return w, p
}

func (w *world) process(backend store.Backend) *process {
	clock := func() time.Time { return w.now }
	parts := installation.Parts{
		Table: storetest.Over(w.T, backend, storetest.Clock(clock)), IDs: ids.NewSource(storetest.Random(w.T), clock), Now: clock,
		Log: slog.New(slog.DiscardHandler),
	}
	keys := accounts.Open(parts)
	return &process{w, sessions.Open(parts, keys), keys}
}

// request is the context of an audited request.
func (w *world) request() context.Context {
	w.asked++
	return audit.With(w.Context(), &audit.Request{AccountID: "a-1", Action: "session.test", Time: w.now, RequestID: fmt.Sprint("request-", w.asked)})
}

// begin makes a session of a key.
func (p *process) begin(key string) (auth.Session, string) {
	p.Helper()
	by, err := p.Authenticate(p.Context(), key)
	if err != nil {
		p.Fatal(err)
	}
	made, token, err := p.Create(p.request(), by)
	if err != nil {
		p.Fatal(err)
	}
	return made, token
}

// use asks with a session as a request does, and reports whether it was let pass.
func (p *process) use(token string, polled bool) bool {
	p.Helper()
	by, err := p.AuthenticateSession(p.Context(), token)
	switch {
	case fault.Is(err, fault.Unauthenticated):
		return false
	case err != nil:
		p.Fatal(err)
	}
	by.Session.Polled = polled
	p.NoteUse(p.Context(), by)()
	return true
}

func TestSessionMayWhatItsKeyMay(t *testing.T) {
	_, p := newWorld(t)
	limited := auth.Full()
	limited.Projects, limited.Scopes = []string{"shop"}, []auth.Scope{auth.Logs.Read()}
	_, key, err := p.keys.CreateKey(t.Context(), "acme", accounts.Spec{Label: "desk", Permissions: limited})
	if err != nil {
		t.Fatal(err)
	}
	made, token := p.begin(key)
	by, err := p.Authenticate(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	got, err := p.AuthenticateSession(t.Context(), token)
	if err != nil || got.Session == nil || *got.Session != made {
		t.Fatalf("%+v, %v, want the session %+v", got.Session, err, made)
	}
	got.Session = nil
	if fmt.Sprint(got) != fmt.Sprint(by) {
		t.Errorf("got %+v, want the key's %+v", got, by)
	}
}

func TestTokenIsStoredAsAHashAlone(t *testing.T) {
	w, p := newWorld(t)
	_, token := p.begin(w.key)
	secret := strings.Split(token, "_")[1]
	if len(secret) < 43 {
		t.Errorf("a token of %d digits has less than 256 bits", len(secret))
	}
	const part = 12 // digits: no other text has so many of them by chance
	for key, item := range w.items.Items() {
		content, err := json.Marshal(item)
		if err != nil {
			t.Fatal(err)
		}
		stored := key.PK + key.SK + string(content)
		for at := 0; at+part <= len(secret); at++ {
			if piece := secret[at : at+part]; strings.Contains(stored, piece) || strings.Contains(stored, hex.EncodeToString([]byte(piece))) {
				t.Errorf("%q of the token stands in %s", piece, key.PK)
				break
			}
		}
	}
	if !credential.Within("cookie=" + token) {
		t.Error("logs do not know it for a secret")
	}
}

// TestSessionEndsWhenNobodyUsesIt for half an hour; being polled is no use.
func TestSessionEndsWhenNobodyUsesIt(t *testing.T) {
	for _, polled := range []bool{false, true} {
		w, p := newWorld(t)
		_, token := p.begin(w.key)
		begun := w.now
		for w.now.Sub(begun) < 25*time.Minute {
			w.now = w.now.Add(5 * time.Minute)
			if !p.use(token, polled) {
				t.Fatalf("polled %v: it has ended after %v", polled, w.now.Sub(begun))
			}
		}
		w.now = w.now.Add(sessions.Idle - time.Minute)
		if got := p.use(token, polled); got == polled {
			t.Errorf("polled %v: let pass %v, %v after it was last used", polled, got, sessions.Idle-time.Minute)
		}
		w.now = w.now.Add(sessions.Idle + time.Second)
		if p.use(token, false) {
			t.Errorf("polled %v: it is let pass after it was idle", polled)
		}
	}
}

func TestSessionEndsAfterTwelveHoursOfUse(t *testing.T) {
	w, p := newWorld(t)
	made, token := p.begin(w.key)
	for ; w.now.Before(made.EndsOn); w.now = w.now.Add(10 * time.Minute) {
		if !p.use(token, false) {
			t.Fatalf("it has ended at %v, made at %v", w.now, made.CreatedOn)
		}
	}
	if got := made.EndsOn.Sub(made.CreatedOn); got != 12*time.Hour {
		t.Errorf("it lasts %v", got)
	}
	if p.use(token, false) {
		t.Error("it is let pass after its end")
	}
}

// TestSessionEndsWithItsKey in every process that does not believe the key yet, and in the others half a minute later.
func TestSessionEndsWithItsKey(t *testing.T) {
	w, p := newWorld(t)
	end := w.now.Add(time.Hour)
	spec := accounts.Spec{Label: "short", ExpiresOn: &end, Permissions: auth.Full()}
	short, text, err := p.keys.CreateKey(t.Context(), "acme", spec)
	if err != nil {
		t.Fatal(err)
	}
	made, token := p.begin(text)
	if !made.EndsOn.Equal(end) {
		t.Errorf("it ends on %v, and its key on %v", made.EndsOn, end)
	}
	_, other := p.begin(w.key)
	if err := p.keys.RevokeKey(t.Context(), "acme", short.ID, true); err != nil {
		t.Fatal(err)
	}
	if w.process(w.items).use(token, false) {
		t.Error("its key is revoked, and another process lets it pass")
	}
	w.now = w.now.Add(time.Minute)
	if p.use(token, false) {
		t.Error("its key is revoked, and it is let pass after a minute")
	}
	if !p.use(other, false) {
		t.Error("a session of another key has ended, too")
	}
}

// TestSignedOutIsOverEverywhereAtOnce, in processes that have just let it pass, and another session of the key is not.
func TestSignedOutIsOverEverywhereAtOnce(t *testing.T) {
	w, p := newWorld(t)
	_, token := p.begin(w.key)
	_, other := p.begin(w.key)
	tab := w.process(w.items)
	if !tab.use(token, false) {
		t.Fatal("it is not let pass")
	}
	by, err := p.AuthenticateSession(t.Context(), token)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // which is safe to repeat
		if err := p.Delete(p.request(), *by.Session); err != nil {
			t.Fatal(err)
		}
	}
	if tab.use(token, false) || p.use(token, false) {
		t.Error("it is let pass after its end")
	}
	if !tab.use(other, false) {
		t.Error("another session of the key has ended, too")
	}
}

func TestTextsThatAreNoTokensCostNoRead(t *testing.T) {
	w, p := newWorld(t)
	_, token := p.begin(w.key)
	for _, text := range []string{"", "x", w.key, token[:len(token)-1], token + "0", " " + token, strings.ToUpper(token)} {
		var m store.Meter
		if _, err := p.AuthenticateSession(store.WithMeter(t.Context(), &m), text); !fault.Is(err, fault.Unauthenticated) || m.Usage().Reads != 0 {
			t.Errorf("%q: %v after %d reads", text, err, m.Usage().Reads)
		}
	}
}

// counted counts the transactions.
type counted struct {
	store.Backend
	n int
}

// Transact implements store.Backend.
func (c *counted) Transact(ctx context.Context, token string, writes []store.Write) error {
	c.n++
	return c.Backend.Transact(ctx, token, writes)
}

func TestUseIsWrittenOnceAMinute(t *testing.T) {
	w, p := newWorld(t)
	_, token := p.begin(w.key)
	backend := &counted{Backend: w.items}
	busy := w.process(backend)
	busy.use(token, false) // which notes the day of the key
	backend.n = 0
	for range 10 * 60 {
		w.now = w.now.Add(time.Second)
		if !busy.use(token, false) {
			t.Fatal("it has ended")
		}
	}
	if backend.n != 10 {
		t.Errorf("%d writes in ten minutes", backend.n)
	}
}

// interleaved has something happen before the next transaction, once.
type interleaved struct {
	store.Backend
	before func()
}

// Transact implements store.Backend.
func (i *interleaved) Transact(ctx context.Context, token string, writes []store.Write) error {
	if before := i.before; before != nil {
		i.before = nil
		before()
	}
	return i.Backend.Transact(ctx, token, writes)
}

// TestUseBringsNoSessionBack that was ended, or that has run out and is not deleted yet, between its look-up and the note of its use.
func TestUseBringsNoSessionBack(t *testing.T) {
	for name, end := range map[string]func(p *process, by auth.Principal){
		"signed out": func(p *process, by auth.Principal) {
			if err := p.Delete(p.request(), *by.Session); err != nil {
				p.Fatal(err)
			}
		},
		"idle": func(p *process, _ auth.Principal) { p.now = p.now.Add(sessions.Idle) },
	} {
		w, p := newWorld(t)
		_, token := p.begin(w.key)
		p.use(token, false)
		w.now = w.now.Add(2 * time.Minute)
		backend := &interleaved{Backend: w.items}
		late := w.process(backend)
		by, err := late.AuthenticateSession(t.Context(), token)
		if err != nil {
			t.Fatal(err)
		}
		if name == "idle" { // the clock goes on between the look-up and the note
			end(p, by)
		} else {
			backend.before = func() { end(p, by) }
		}
		late.NoteUse(t.Context(), by)()
		if p.use(token, false) || late.use(token, false) {
			t.Errorf("%s: the note of its use has brought it back", name)
		}
	}
}

// TestTwoTabsSimulated: two processes use, poll and end sessions, one between what another reads and writes. None that has ended
// is let pass again, and none ends before its time.
func TestTwoTabsSimulated(t *testing.T) {
	for seed := range uint64(simulations.Runs(40)) {
		random := rand.New(rand.NewPCG(seed, 1))
		w, first := newWorld(t)
		backend := &interleaved{Backend: w.items}
		tabs := []*process{first, w.process(backend)}
		made, token := first.begin(w.key)
		used, over := w.now, false
		for range 60 {
			w.now = w.now.Add(time.Duration(random.Int64N(int64(12 * time.Minute))))
			if random.IntN(25) == 0 {
				w.now = w.now.Add(sessions.Idle)
			}
			ended := over || !w.now.Before(made.EndsOn) || w.now.Sub(used) >= sessions.Idle
			if random.IntN(20) == 0 && !over {
				backend.before = func() {
					over = true
					if err := first.Delete(first.request(), made); err != nil {
						t.Fatal(err)
					}
				}
			}
			polled := random.IntN(3) == 0
			passed := tabs[random.IntN(2)].use(token, polled)
			switch {
			case ended && passed:
				t.Fatalf("let pass at %v, made at %v, last used at %v, signed out %v", w.now, made.CreatedOn, used, over)
			case !ended && !passed && w.now.Sub(used) < sessions.Idle-time.Minute-time.Second:
				t.Fatalf("refused at %v, made at %v, last used at %v", w.now, made.CreatedOn, used)
			case passed && !polled:
				used = w.now
			case !passed:
				over = true
			}
		}
	}
}
