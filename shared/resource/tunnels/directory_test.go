package tunnels_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/memory"
	"github.com/gatewright/gatewright/shared/core/store/storetest"
	"github.com/gatewright/gatewright/shared/format/environment"
	"github.com/gatewright/gatewright/shared/format/tunnel"
	"github.com/gatewright/gatewright/shared/resource/tunnels"
)

// countingBackend counts the calls of Read, which fail while failing is not 0.
type countingBackend struct {
	*memory.Backend
	reads, failing atomic.Int64
	// delay is the duration of a read, in a synctest bubble.
	delay time.Duration
}

var errUnavailable = errors.New("the table is down")

func (c *countingBackend) Read(ctx context.Context, keys []store.Key) ([]store.Item, error) {
	c.reads.Add(1)
	if c.failing.Load() > 0 {
		return nil, errUnavailable
	}
	if c.delay > 0 {
		select {
		case <-time.After(c.delay):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	return c.Backend.Read(ctx, keys)
}

// directoryFixture is a directory over a table with counted reads, with its own clock.
type directoryFixture struct {
	*fixture
	*tunnels.Directory
	*countingBackend
	clockOffset atomic.Int64 // the time since epoch, in nanoseconds
}

func (fx *fixture) newDirectoryFixture() *directoryFixture {
	c := &directoryFixture{fixture: fx, countingBackend: &countingBackend{Backend: fx.items}}
	parts := fx.parts
	parts.Table = storetest.NewWithBackend(fx.T, c.countingBackend, storetest.Clock(epoch))
	parts.Now = func() time.Time { return epoch().Add(time.Duration(c.clockOffset.Load())) }
	c.Directory = tunnels.OpenDirectory(parts)
	return c
}

func (fx *directoryFixture) advance(d time.Duration) { fx.clockOffset.Add(int64(d)) }

var shopCaller = tunnel.Caller{Project: "shop", Environment: "production"}

// findRef returns the result of Find for a caller: the ref, or a text for the error.
func (fx *directoryFixture) findRef(account, name string, caller tunnel.Caller) string {
	fx.fixture.Helper()
	ref, err := fx.Find(fx.fixture.Context(), account, name, caller)
	switch {
	case errors.Is(err, tunnels.ErrNoService):
		return "no service"
	case errors.Is(err, tunnels.ErrNotAllowed):
		return "not allowed"
	case err != nil:
		fx.fixture.Fatal(err)
	}
	return ref
}

func TestFindChecksAccountNameAndCaller(t *testing.T) {
	fx := newFixture(t)
	created, otherTunnel := fx.create(acme, "office"), fx.create(otherAccount, "office")
	spec := service("Stock", "http://a")
	spec.Configurations = append(spec.Configurations, tunnels.Configuration{
		Project: "blog", AccessibleBy: []environment.Kind{environment.Preview, environment.Development},
	})
	inaccessible := service("nobodys", "http://b")
	inaccessible.Configurations = nil
	fx.runOperation(fx.configure(created.ID, spec, inaccessible).ID)
	started, err := fx.Configure(fx.requestContext(), otherAccount, otherTunnel.ID,
		[]tunnels.Spec{{Name: "theirs", Endpoint: "http://c", Configurations: []tunnels.Configuration{
			{Project: "theirs", AccessibleBy: []environment.Kind{environment.Production}},
		}}})
	if err != nil {
		t.Fatal(err)
	}
	fx.runOperation(started.ID)
	c := fx.newDirectoryFixture()
	wantRef := "a-1/" + created.ID
	for _, tt := range []struct {
		name, account, service, project, environment, want string
	}{
		{"a listed caller", "a-1", "Stock", "shop", "production", wantRef},
		{"a caller of another environment", "a-1", "Stock", "shop", "preview", "not allowed"},
		{"a caller of another project", "a-1", "Stock", "blog", "production", "not allowed"},
		{"a preview of the other project", "a-1", "Stock", "blog", "preview", wantRef},
		{"a working copy, as tunnels spell it", "a-1", "Stock", "blog", "working-copy", wantRef},
		{"a working copy, as projects spell it", "a-1", "Stock", "blog", "development", "not allowed"},
		{"a kind in capitals", "a-1", "Stock", "shop", "PRODUCTION", "not allowed"},
		{"a project in capitals", "a-1", "Stock", "SHOP", "production", "not allowed"},
		{"no caller", "a-1", "Stock", "", "", "not allowed"},
		{"a service without permitted callers", "a-1", "nobodys", "shop", "production", "not allowed"},
		{"a service in lower case", "a-1", "stock", "shop", "production", "no service"},
		{"a service of another account", "a-1", "theirs", "shop", "production", "no service"},
		{"a service of the caller's account", "a-2", "theirs", "theirs", "production", "a-2/" + otherTunnel.ID},
		{"another account's caller", "a-2", "Stock", "shop", "production", "no service"},
		{"another account within the name", "a-1", "../a-2/theirs", "theirs", "production", "no service"},
		{"no name", "a-1", "", "shop", "production", "no service"},
		{"a separator of the table's keys", "a-1", "Stock#x", "shop", "production", "no service"},
		{"a long name", "a-1", strings.Repeat("x", 1<<20), "shop", "production", "no service"},
		{"no account", "", "Stock", "shop", "production", "no service"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := c.findRef(tt.account, tt.service,
				tunnel.Caller{Project: tt.project, Environment: tt.environment}); got != tt.want {
				t.Errorf("Find() = %q, want %q", got, tt.want)
			}
		})
	}
}

func TestFindIsCachedForStaleness(t *testing.T) {
	fx := newFixture(t)
	created := fx.create(acme, "office")
	fx.runOperation(fx.configure(created.ID, service("orders", "http://a")).ID)
	c := fx.newDirectoryFixture()
	check := func(name, want string, cost int64) {
		t.Helper()
		before := c.reads.Load()
		if got := c.findRef("a-1", name, shopCaller); got != want {
			t.Errorf("Find(%s) = %q, want %q", name, got, want)
		}
		if n := c.reads.Load() - before; n != cost {
			t.Errorf("Find(%s) takes %d reads, want %d", name, n, cost)
		}
	}
	wantRef := "a-1/" + created.ID
	check("orders", wantRef, 1)
	check("orders", wantRef, 0)
	check("missing", "no service", 1)
	check("missing", "no service", 0)
	check("an invalid name", "no service", 0)
	c.advance(tunnels.Staleness - 1)
	check("orders", wantRef, 0)
	c.advance(1)
	check("orders", wantRef, 1)
	c.advance(-time.Hour) // the clock was set back
	check("orders", wantRef, 1)
}

func TestChangeIsVisibleWithinStaleness(t *testing.T) {
	fx := newFixture(t)
	created, other := fx.create(acme, "office"), fx.create(acme, "other")
	c := fx.newDirectoryFixture()
	checkAfterStaleness := func(want string) {
		t.Helper()
		c.advance(tunnels.Staleness)
		if got := c.findRef("a-1", "orders", shopCaller); got != want {
			t.Errorf("Find() = %q, want %q", got, want)
		}
	}
	checkAfterStaleness("no service")
	fx.runOperation(fx.configure(created.ID, service("orders", "http://a")).ID)
	checkAfterStaleness("a-1/" + created.ID)
	restricted := service("orders", "http://a")
	restricted.Configurations[0].Project = "blog"
	fx.runOperation(fx.configure(created.ID, restricted).ID)
	checkAfterStaleness("not allowed")
	fx.runOperation(fx.configure(created.ID).ID)
	fx.runOperation(fx.configure(other.ID, service("orders", "http://b")).ID)
	checkAfterStaleness("a-1/" + other.ID)
	teardown, err := fx.Delete(fx.requestContext(), acme, other.ID)
	if err != nil {
		t.Fatal(err)
	}
	fx.runOperation(teardown.ID)
	checkAfterStaleness("no service")
}

// TestServicesReturnsServicesOfTunnel checks that Services returns the services in the latest configuration of a
// tunnel. It returns ErrNoTunnel for a deleted tunnel, but an empty list for a tunnel without services, whose agents
// may stay connected.
func TestServicesReturnsServicesOfTunnel(t *testing.T) {
	fx := newFixture(t)
	created, other := fx.create(acme, "office"), fx.create(acme, "other")
	spec := service("Stock", "http://a:8080/base")
	spec.Configurations[0].AccessibleBy = environment.Kinds()
	c := fx.newDirectoryFixture()
	checkServices := func(ref, want string) {
		t.Helper()
		c.advance(tunnels.Staleness)
		got, err := c.Services(t.Context(), ref)
		text := fmt.Sprint(got)
		if errors.Is(err, tunnels.ErrNoTunnel) {
			text, err = "no tunnel", nil
		}
		if err != nil || text != want {
			t.Errorf("Services(%s) = %v, %v, want %s", ref, text, err, want)
		}
	}
	checkServices("a-1/"+created.ID, "[]")
	fx.configure(created.ID, spec)
	fx.configure(other.ID, service("orders", "http://b"))
	checkServices("a-1/"+created.ID, "[{Stock http://a:8080/base [{shop [production preview working-copy]}]}]")
	checkServices("a-1/"+other.ID, "[{orders http://b [{shop [production]}]}]")
	if got, err := c.Services(t.Context(), "a-2/"+other.ID); !errors.Is(err, tunnels.ErrNoTunnel) {
		t.Errorf("Services(tunnel in another account) = %v, %v, want %v", got, err, tunnels.ErrNoTunnel)
	}
	for _, invalidRef := range []string{"", "/", "a-1", "a-1/", "/" + created.ID, "a-2/" + created.ID, created.ID} {
		checkServices(invalidRef, "no tunnel")
	}
	fx.configure(other.ID)
	checkServices("a-1/"+other.ID, "[]")
	for _, id := range []string{created.ID, other.ID} {
		if _, err := fx.Delete(fx.requestContext(), acme, id); err != nil {
			t.Fatal(err)
		}
		checkServices("a-1/"+id, "no tunnel")
	}
}

// TestConcurrentLookupsShareOneRead checks that concurrent lookups of a service wait for the same read, and that the
// read continues when the caller that started it is canceled.
func TestConcurrentLookupsShareOneRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fx := newFixture(t)
		created := fx.create(acme, "office")
		fx.runOperation(fx.configure(created.ID, service("orders", "http://a")).ID)
		c := fx.newDirectoryFixture()
		c.delay = time.Second
		var wg sync.WaitGroup
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			defer cancel()
			if _, err := c.Find(ctx, "a-1", "orders", shopCaller); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Find() of a canceled request: error = %v, want %v", err, context.DeadlineExceeded)
			}
		})
		synctest.Wait()
		for range 100 {
			wg.Go(func() {
				if got := c.findRef("a-1", "orders", shopCaller); got != "a-1/"+created.ID {
					t.Errorf("Find(orders) = %q, want %q", got, "a-1/"+created.ID)
				}
			})
		}
		wg.Wait()
		if n := c.reads.Load(); n != 1 {
			t.Errorf("%d reads for all lookups, want 1", n)
		}
	})
}

func TestTableErrorIsReturned(t *testing.T) {
	fx := newFixture(t)
	created := fx.create(acme, "office")
	fx.runOperation(fx.configure(created.ID, service("orders", "http://a")).ID)
	c := fx.newDirectoryFixture()
	c.failing.Store(1)
	_, findErr := c.Find(t.Context(), "a-1", "orders", shopCaller)
	_, servicesErr := c.Services(t.Context(), "a-1/"+created.ID)
	_, authorizeErr := c.Authenticate(t.Context(), created.Token)
	for call, err := range map[string]error{"a service": findErr, "a tunnel": servicesErr, "a token": authorizeErr} {
		if !errors.Is(err, errUnavailable) {
			t.Errorf("lookup of %s with a failing table: error = %v, want %v", call, err, errUnavailable)
		}
	}
	c.failing.Store(0)
	if got := c.findRef("a-1", "orders", shopCaller); got != "a-1/"+created.ID {
		t.Errorf("Find(orders) after the failure = %q, want %q", got, "a-1/"+created.ID)
	}
}

// TestUnresponsiveTableTimesOut checks that Find fails with DeadlineExceeded if the table does not respond.
func TestUnresponsiveTableTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newFixture(t).newDirectoryFixture()
		c.delay = time.Hour
		if _, err := c.Find(t.Context(), "a-1", "orders", shopCaller); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Find() without a response of the table: error = %v, want %v", err, context.DeadlineExceeded)
		}
	})
}

// TestCacheIsBounded checks that at most MaxCached results are cached when more names are requested.
func TestCacheIsBounded(t *testing.T) {
	fx := newFixture(t)
	c := fx.newDirectoryFixture()
	for i := range tunnels.MaxCached + 10 {
		c.findRef("a-1", fmt.Sprintf("name-%d", i), shopCaller)
	}
	if n := c.CachedServices(); n != tunnels.MaxCached {
		t.Errorf("%d services cached, want %d", n, tunnels.MaxCached)
	}
}
