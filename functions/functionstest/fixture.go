// Package functionstest is the harness for tests of one or more groups of operations. It has a Fixture (an installation
// in memory with the routes of the groups), callers (account keys with any permissions), calls, and checks of
// responses.
//
//	fx := functionstest.New(t, projects.Bind)
//	key := fx.CreateAccount("acme")
//	fx.Call(key, "GET", "/v1/projects", "").Want(200, `"total":0`)
//
// The fixture is not a fake: calls run the code of the product. The fixture replaces only the table, the bucket, the
// root key, DNS, the clock, the random numbers and the log. It records how a call uses the table, the bucket and the
// root key. So each call can compare these uses with the declaration of its operation.
//
// Read fixture.go, then call.go. uploads.go uploads archives, runs their builds and other durable operations, and has
// the client with which package events creates its sample objects. uses.go records uses. routing.go finds the group of
// a request, and dns.go has the TXT records of custom domains.
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

	"github.com/gatewright/gatewright/shared/base/ids"
	"github.com/gatewright/gatewright/shared/core/allowance"
	"github.com/gatewright/gatewright/shared/core/auth"
	"github.com/gatewright/gatewright/shared/core/blob"
	"github.com/gatewright/gatewright/shared/core/config"
	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/core/limits"
	"github.com/gatewright/gatewright/shared/core/store/memory"
	"github.com/gatewright/gatewright/shared/core/store/storetest"
	"github.com/gatewright/gatewright/shared/management/api"
	"github.com/gatewright/gatewright/shared/resource/accounts"
	"github.com/gatewright/gatewright/shared/resource/sessions"
)

// Bind is the type of the function Bind of each group, which returns the group's routes.
type Bind = func(installation.Parts) []api.Route

// Fixture is an installation in memory. Its clock does not advance unless a test changes Now, or calls FinishAll or
// UseLiveClock. Use a Fixture in only one goroutine.
type Fixture struct {
	testing.TB
	// Parts are the parts from which the fixture's services are created.
	Parts installation.Parts
	// Items are the contents of the table, Objects the contents of the bucket.
	Items   *memory.Backend
	Objects *blob.Memory
	// Now is the time of the clock. Tests can change it.
	Now time.Time
	// DNS returns the TXT records of a name. If it is nil, every custom domain has the records that prove its
	// ownership.
	DNS func(name string) []string
	// Uses has the uses of the table, the bucket and the root key since the last Clear.
	Uses *Uses

	routing    *Routing
	handler    http.Handler
	liveClock  bool
	background bool
	// singleServer makes one server handle the operations of all groups.
	singleServer bool
}

// rootKey is the root key of every fixture.
type rootKey struct{}

func (rootKey) Root(context.Context) ([]byte, error) {
	return []byte("the root key of every world, 32 B"[:32]), nil
}

// New creates an empty fixture that serves the operations of some groups. All fixtures that New creates in a test use
// the same sequence of random numbers.
func New(t testing.TB, binds ...Bind) *Fixture {
	t.Helper()
	return NewRouting(binds...).New(t)
}

// New works like the function New, for the groups of the routing.
func (r *Routing) New(t testing.TB) *Fixture {
	t.Helper()
	return newFixture(t, memory.New(), nil, storetest.Epoch, storetest.Random(t), r)
}

func newFixture(
	t testing.TB, items *memory.Backend, objects *blob.Memory, now time.Time, random io.Reader, routing *Routing,
) *Fixture {
	t.Helper()
	fx := &Fixture{TB: t, Items: items, Now: now, Uses: new(Uses), routing: routing}
	clock := func() time.Time {
		if fx.liveClock {
			return time.Now()
		}
		return fx.Now
	}
	fx.Objects = blob.NewMemory(clock)
	if objects != nil {
		fx.Objects.Restore(objects)
	}
	fx.Parts = installation.Parts{
		Config: config.Config{DeploymentURL: "http://{deployment}.gateway.test", APIURL: "http://api.test"},
		Table:  storetest.NewWithBackend(t, fx.Uses.wrapTable(items), storetest.Clock(clock)),
		DNS:    resolver{fx}, Bucket: fx.Uses.wrapBucket(fx.Objects), Key: fx.Uses.wrapKey(rootKey{}), Random: random,
		Now: clock,
		IDs: ids.NewSource(random, clock),
		Log: slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn})),
	}
	routing.load(fx.Parts)
	fx.Restart()
	return fx
}

// UseLiveClock makes the fixture use time.Now as its clock. In a synctest bubble, that is the clock of the bubble.
// Copies of the fixture do not use time.Now: their clocks begin an hour after the time at which they were made.
func (fx *Fixture) UseLiveClock() *Fixture {
	fx.liveClock = true
	return fx
}

// EnableBackground makes the fixture also do what a process does in addition to a request: record when keys and
// sessions were last used, and count requests for rate limits. This is off by default, because it adds reads and writes
// of the table to each call. Copies do not do it.
func (fx *Fixture) EnableBackground() *Fixture {
	fx.background = true
	fx.Restart()
	return fx
}

// UseSingleServer makes one server handle the operations of all groups, as in a process that serves requests within
// requests (api.WithCall). Copies have one server for each group again.
func (fx *Fixture) UseSingleServer() *Fixture {
	fx.singleServer = true
	fx.Restart()
	return fx
}

// Copy returns a fixture with the same table and bucket, an hour later and with empty caches. Changes in one fixture
// are not visible in the other. All copies, in all tests, use the same sequence of random numbers.
func (fx *Fixture) Copy(t testing.TB) *Fixture {
	t.Helper()
	return newFixture(t, fx.Items.Clone(), fx.Objects, fx.Parts.Now().Add(time.Hour),
		rand.NewChaCha8(sha256.Sum256([]byte("a copy"))), fx.routing)
}

// Restart replaces the processes of the fixture. The new processes have empty caches, and the sequence of their request
// IDs depends only on the time of the restart. So two fixtures with the same items return the same bytes for the same
// read at the same time, even if different requests came before the restart.
func (fx *Fixture) Restart() {
	parts := fx.Parts
	service := sessions.Open(parts, accounts.Open(parts))
	var authenticator api.Authenticator = service
	if fx.background {
		parts.Rates = allowance.NewRates(parts.Table, parts.Now)
	} else {
		authenticator = struct {
			api.Authenticator
			api.SessionAuthenticator
		}{service, service}
	}
	parts.IDs = ids.NewSource(rand.NewChaCha8(sha256.Sum256([]byte(parts.Now().String()))), parts.Now)
	fx.handler = fx.routing.handler(fx.Parts, parts, authenticator, fx.singleServer)
}

// CreateAccount creates an account and returns its full-access key.
func (fx *Fixture) CreateAccount(name string) (key string) {
	fx.Helper()
	_, key, err := accounts.Open(fx.Parts).Create(fx.Context(), name)
	if err != nil {
		fx.Fatalf("create the account %s: %v", name, err)
	}
	return key
}

// SetLimit sets an account's own value of a limit.
func (fx *Fixture) SetLimit(account string, l limits.Limit, value int64) {
	fx.Helper()
	if err := accounts.Open(fx.Parts).SetLimit(fx.Context(), account, l.Name, value); err != nil {
		fx.Fatalf("set a limit of %s: %v", account, err)
	}
}

// CreateSession exchanges a key for a session and returns its token. The fixture must have the group of sessions.
func (fx *Fixture) CreateSession(key string) (token string) {
	fx.Helper()
	cookie, err := http.ParseSetCookie(fx.Call(key, http.MethodPost, "/v1/session",
		"").Want(http.StatusCreated).Header.Get("Set-Cookie"))
	if err != nil {
		fx.Fatal(err)
	}
	return cookie.Value
}

// CreateKey creates a key of an account. limit, if not nil, changes the key's permissions, which are initially full
// access.
func (fx *Fixture) CreateKey(account string, limit func(*auth.Permissions)) (key string) {
	fx.Helper()
	return fx.CreateKeyWith(account, accounts.Spec{Permissions: LimitedPermissions(limit)})
}

// CreateKeyWith creates a key of an account according to spec.
func (fx *Fixture) CreateKeyWith(account string, spec accounts.Spec) (key string) {
	fx.Helper()
	_, key, err := accounts.Open(fx.Parts).CreateKey(fx.Context(), account, spec)
	if err != nil {
		fx.Fatalf("create a key of %s: %v", account, err)
	}
	return key
}

// LimitedPermissions returns full permissions, changed by limit if it is not nil.
func LimitedPermissions(limit func(*auth.Permissions)) auth.Permissions {
	p := auth.Full()
	if limit != nil {
		limit(&p)
	}
	return p
}
