// Package functionstest is the harness in which groups are tested, one by one or
// all at once: a world (an installation in memory with the routes of some
// groups), callers (account keys with any permissions), calls, and expectations
// of their answers.
//
//	w := functionstest.New(t, variables.Bind)
//	key := w.Account("acme")
//	w.Call(key, "GET", "/v1/projects", "").Want(200, `"total":0`)
//
// What it is not: a fake. Everything between the request and the table is the
// product's own; only the table, the bucket and the clock are in memory. The
// world records what each call did outside its process, so that a declaration
// can be compared with it.
//
// Read world.go, then call.go; samples.go fills a world with what the sample
// events of package events need, and builds what is uploaded; uses.go records.
package functionstest

import (
	"context"
	"crypto/sha256"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/accounts"
	"github.com/gatewright/gatewright/shared/allowance"
	"github.com/gatewright/gatewright/shared/api"
	"github.com/gatewright/gatewright/shared/auth"
	"github.com/gatewright/gatewright/shared/blob"
	"github.com/gatewright/gatewright/shared/config"
	"github.com/gatewright/gatewright/shared/ids"
	"github.com/gatewright/gatewright/shared/installation"
	"github.com/gatewright/gatewright/shared/limits"
	"github.com/gatewright/gatewright/shared/sessions"
	"github.com/gatewright/gatewright/shared/store/memory"
	"github.com/gatewright/gatewright/shared/store/storetest"
)

// Bind gives the routes of a group, as each group's Bind does.
type Bind = func(installation.Parts) []api.Route

// World is an installation in memory whose clock stands still unless it is
// moved, or Live. It is used by one goroutine.
type World struct {
	testing.TB
	// Parts are what the services of the world are made of.
	Parts installation.Parts
	// Items is what the table holds, Objects what the bucket holds.
	Items   *memory.Backend
	Objects *blob.Memory
	// Now is what the clock shows; tests move it.
	Now time.Time
	// DNS answers for TXT records; nil has each name prove the custom domains at it.
	DNS func(name string) []string
	// Uses is what has been done outside the process since it was last cleared.
	Uses *Uses

	routing *Routing
	handler http.Handler
	live    bool
	asides  bool
	// whole has one server answer the operations of all groups.
	whole bool
}

// rootKey is the root key of every world.
type rootKey struct{}

func (rootKey) Root(context.Context) ([]byte, error) {
	return []byte("the root key of every world, 32 B"[:32]), nil
}

// New makes an empty world that answers the operations of some groups. The
// random numbers of two worlds of one test are the same.
func New(t testing.TB, binds ...Bind) *World {
	t.Helper()
	return Routes(binds...).New(t)
}

// New is the function New for the groups of the routing.
func (r *Routing) New(t testing.TB) *World {
	t.Helper()
	return newWorld(t, memory.New(), nil, storetest.Epoch, storetest.Random(t), r)
}

func newWorld(t testing.TB, items *memory.Backend, objects *blob.Memory, now time.Time, random io.Reader, routing *Routing) *World {
	t.Helper()
	w := &World{TB: t, Items: items, Now: now, Uses: new(Uses), routing: routing}
	clock := func() time.Time {
		if w.live {
			return time.Now()
		}
		return w.Now
	}
	w.Objects = blob.NewMemory(clock)
	if objects != nil {
		w.Objects.Restore(objects)
	}
	w.Parts = installation.Parts{
		Config: config.Config{DeploymentURL: "http://{deployment}.gateway.test", APIURL: "http://api.test"},
		Table:  storetest.Over(t, w.Uses.table(items), storetest.Clock(clock)),
		DNS:    names{w}, Bucket: w.Uses.bucket(w.Objects), Key: w.Uses.key(rootKey{}), Random: random, Now: clock,
		IDs: ids.NewSource(random, clock), Log: slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn})),
	}
	routing.learn(w.Parts)
	w.Restart()
	return w
}

// Live has the world's clock run instead of standing at Now, with that of the
// synctest bubble that the world is in. Copies stand still again.
func (w *World) Live() *World {
	w.live = true
	return w
}

// Asides has the world do what a process does beside a request, of which most tests
// want to see nothing: it notes the use of keys and counts their requests. Copies do not.
func (w *World) Asides() *World {
	w.asides = true
	w.Restart()
	return w
}

// Whole has one server answer the operations of all groups, as in the process that
// other requests make theirs in (api.Within). Copies do not.
func (w *World) Whole() *World {
	w.whole = true
	w.Restart()
	return w
}

// Copy returns a world of the same content an hour later, in which nothing is cached yet: what
// happens in one is not seen in the other. Its random numbers begin anew, the
// same in every copy of one test.
func (w *World) Copy(t testing.TB) *World {
	t.Helper()
	return newWorld(t, w.Items.Clone(), w.Objects, w.Parts.Now().Add(time.Hour), rand.NewChaCha8(sha256.Sum256([]byte("a copy"))), w.routing)
}

// Restart ends the processes of the world and starts them anew: nothing is
// cached, and ids of requests begin from the first, so that two worlds with
// different pasts answer the same request with the same bytes.
func (w *World) Restart() {
	parts := w.Parts
	known := sessions.Open(parts, accounts.Open(parts))
	var callers api.Authenticator = known
	if w.asides {
		parts.Rates = allowance.NewRates(parts.Table, parts.Now)
	} else {
		callers = struct {
			api.Authenticator
			api.SessionAuthenticator
		}{known, known}
	}
	parts.IDs = ids.NewSource(rand.NewChaCha8(sha256.Sum256([]byte(parts.Now().String()))), parts.Now)
	w.handler = w.routing.serve(w.Parts, parts, callers, w.whole)
}

// Account makes an account and gives its full-access key.
func (w *World) Account(name string) (key string) {
	w.Helper()
	_, key, err := accounts.Open(w.Parts).Create(w.Context(), name)
	if err != nil {
		w.Fatalf("make the account %s: %v", name, err)
	}
	return key
}

// Limit gives an account a value of its own of a limit.
func (w *World) Limit(account string, l limits.Limit, value int64) {
	w.Helper()
	if err := accounts.Open(w.Parts).SetLimit(w.Context(), account, l.Name, value); err != nil {
		w.Fatalf("set a limit of %s: %v", account, err)
	}
}

// Session exchanges a key for a session, in a world that has the group of sessions, and gives its token.
func (w *World) Session(key string) (token string) {
	w.Helper()
	cookie, err := http.ParseSetCookie(w.Call(key, http.MethodPost, "/v1/session", "").Want(http.StatusCreated).Header.Get("Set-Cookie"))
	if err != nil {
		w.Fatal(err)
	}
	return cookie.Value
}

// Key makes a key of an account that allows what full access does after limit
// has changed it; nil changes nothing.
func (w *World) Key(account string, limit func(*auth.Permissions)) (key string) {
	w.Helper()
	return w.KeyOf(account, accounts.Spec{Permissions: Limited(limit)})
}

// KeyOf makes a key of an account as spec says.
func (w *World) KeyOf(account string, spec accounts.Spec) (key string) {
	w.Helper()
	_, key, err := accounts.Open(w.Parts).CreateKey(w.Context(), account, spec)
	if err != nil {
		w.Fatalf("make a key of %s: %v", account, err)
	}
	return key
}

// Limited returns full permissions as limit has changed them.
func Limited(limit func(*auth.Permissions)) auth.Permissions {
	p := auth.Full()
	if limit != nil {
		limit(&p)
	}
	return p
}
