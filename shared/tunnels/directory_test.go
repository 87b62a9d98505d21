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

	"github.com/gatewright/gatewright/shared/environment"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/memory"
	"github.com/gatewright/gatewright/shared/store/storetest"
	"github.com/gatewright/gatewright/shared/tunnel"
	"github.com/gatewright/gatewright/shared/tunnels"
)

// counting counts what a table is asked to read, and fails while it is told to.
type counting struct {
	*memory.Backend
	reads, failing atomic.Int64
	// delay is how long a read takes, in a synctest bubble.
	delay time.Duration
}

var errDown = errors.New("the table is down")

func (c *counting) Read(ctx context.Context, keys []store.Key) ([]store.Item, error) {
	c.reads.Add(1)
	if c.failing.Load() > 0 {
		return nil, errDown
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

// carrier is a directory over a table whose reads are counted, by a clock of its own.
type carrier struct {
	*world
	*tunnels.Directory
	*counting
	ahead atomic.Int64
}

func (w *world) carrier() *carrier {
	c := &carrier{world: w, counting: &counting{Backend: w.items}}
	parts := w.parts
	parts.Table = storetest.Over(w.T, c.counting, storetest.Clock(epoch))
	parts.Now = func() time.Time { return epoch().Add(time.Duration(c.ahead.Load())) }
	c.Directory = tunnels.OpenDirectory(parts)
	return c
}

func (c *carrier) later(d time.Duration) { c.ahead.Add(int64(d)) }

var shop = tunnel.Caller{Project: "shop", Environment: "production"}

// find tells what a caller is answered: a ref, or why there is none.
func (c *carrier) find(account, name string, who tunnel.Caller) string {
	c.world.Helper()
	ref, err := c.Find(c.world.Context(), account, name, who)
	switch {
	case errors.Is(err, tunnels.ErrNoService):
		return "no service"
	case errors.Is(err, tunnels.ErrNotAllowed):
		return "not allowed"
	case err != nil:
		c.world.Fatal(err)
	}
	return ref
}

func TestServiceIsFoundByItsExactNameInItsAccountByItsCallers(t *testing.T) {
	w := newWorld(t)
	made, theirs := w.create(acme, "office"), w.create(evil, "office")
	spec := service("Stock", "http://a")
	spec.Configurations = append(spec.Configurations, tunnels.Configuration{
		Project: "blog", AccessibleBy: []environment.Kind{environment.Preview, environment.Development},
	})
	nobodys := service("nobodys", "http://b")
	nobodys.Configurations = nil
	w.run(w.configure(made.ID, spec, nobodys).ID)
	begun, err := w.Configure(w.request(), evil, theirs.ID, []tunnels.Spec{{Name: "theirs", Endpoint: "http://c", Configurations: []tunnels.Configuration{
		{Project: "theirs", AccessibleBy: []environment.Kind{environment.Production}},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	w.run(begun.ID)
	c := w.carrier()
	its := "a-1/" + made.ID
	for _, tt := range []struct {
		name, account, service, project, environment, want string
	}{
		{"a caller that is listed", "a-1", "Stock", "shop", "production", its},
		{"one of another environment", "a-1", "Stock", "shop", "preview", "not allowed"},
		{"one of another project", "a-1", "Stock", "blog", "production", "not allowed"},
		{"the other project's preview", "a-1", "Stock", "blog", "preview", its},
		{"a working copy, as tunnels spell it", "a-1", "Stock", "blog", "working-copy", its},
		{"a working copy, as projects spell it", "a-1", "Stock", "blog", "development", "not allowed"},
		{"a kind in capitals", "a-1", "Stock", "shop", "PRODUCTION", "not allowed"},
		{"a project in capitals", "a-1", "Stock", "SHOP", "production", "not allowed"},
		{"nobody", "a-1", "Stock", "", "", "not allowed"},
		{"a service of nobody's", "a-1", "nobodys", "shop", "production", "not allowed"},
		{"small letters for capitals", "a-1", "stock", "shop", "production", "no service"},
		{"a service of another account", "a-1", "theirs", "shop", "production", "no service"},
		{"its own account", "a-2", "theirs", "theirs", "production", "a-2/" + theirs.ID},
		{"another account's caller", "a-2", "Stock", "shop", "production", "no service"},
		{"another account within the name", "a-1", "../a-2/theirs", "theirs", "production", "no service"},
		{"no name", "a-1", "", "shop", "production", "no service"},
		{"a separator of the table's", "a-1", "Stock#x", "shop", "production", "no service"},
		{"a long name", "a-1", strings.Repeat("x", 1<<20), "shop", "production", "no service"},
		{"no account", "", "Stock", "shop", "production", "no service"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := c.find(tt.account, tt.service, tunnel.Caller{Project: tt.project, Environment: tt.environment}); got != tt.want {
				t.Errorf("it is answered %q, want %q", got, tt.want)
			}
		})
	}
}

func TestFindCostsOneReadAndNoneUntilItMayHaveChanged(t *testing.T) {
	w := newWorld(t)
	made := w.create(acme, "office")
	w.run(w.configure(made.ID, service("orders", "http://a")).ID)
	c := w.carrier()
	ask := func(name, want string, cost int64) {
		t.Helper()
		before := c.reads.Load()
		if got := c.find("a-1", name, shop); got != want {
			t.Errorf("%s is answered %q, want %q", name, got, want)
		}
		if n := c.reads.Load() - before; n != cost {
			t.Errorf("%s costs %d reads, want %d", name, n, cost)
		}
	}
	its := "a-1/" + made.ID
	ask("orders", its, 1)
	ask("orders", its, 0)
	ask("missing", "no service", 1)
	ask("missing", "no service", 0)
	ask("no name", "no service", 0)
	c.later(tunnels.Staleness - 1)
	ask("orders", its, 0)
	c.later(1)
	ask("orders", its, 1)
	c.later(-time.Hour) // the clock is set back
	ask("orders", its, 1)
}

func TestChangeIsSeenByThoseWhoCarryWithinStaleness(t *testing.T) {
	w := newWorld(t)
	made, other := w.create(acme, "office"), w.create(acme, "other")
	c := w.carrier()
	later := func(want string) {
		t.Helper()
		c.later(tunnels.Staleness)
		if got := c.find("a-1", "orders", shop); got != want {
			t.Errorf("it is answered %q, want %q", got, want)
		}
	}
	later("no service")
	w.run(w.configure(made.ID, service("orders", "http://a")).ID)
	later("a-1/" + made.ID)
	closed := service("orders", "http://a")
	closed.Configurations[0].Project = "blog"
	w.run(w.configure(made.ID, closed).ID)
	later("not allowed")
	w.run(w.configure(made.ID).ID)
	w.run(w.configure(other.ID, service("orders", "http://b")).ID)
	later("a-1/" + other.ID)
	gone, err := w.Delete(w.request(), acme, other.ID)
	if err != nil {
		t.Fatal(err)
	}
	w.run(gone.ID)
	later("no service")
}

// TestAgentsAreToldTheirTunnelsServicesAlone, and that it is gone from its deletion on: a tunnel
// that has no services (yet) is another matter, since its agents may stay.
func TestAgentsAreToldTheirTunnelsServicesAlone(t *testing.T) {
	w := newWorld(t)
	made, other := w.create(acme, "office"), w.create(acme, "other")
	spec := service("Stock", "http://a:8080/base")
	spec.Configurations[0].AccessibleBy = environment.Kinds()
	c := w.carrier()
	services := func(ref, want string) {
		t.Helper()
		c.later(tunnels.Staleness)
		got, err := c.Services(t.Context(), ref)
		text := fmt.Sprint(got)
		if errors.Is(err, tunnels.ErrNoTunnel) {
			text, err = "no tunnel", nil
		}
		if err != nil || text != want {
			t.Errorf("%s leads to %v, %v, want %s", ref, text, err, want)
		}
	}
	services("a-1/"+made.ID, "[]")
	w.configure(made.ID, spec)
	w.configure(other.ID, service("orders", "http://b"))
	services("a-1/"+made.ID, "[{Stock http://a:8080/base [{shop [production preview working-copy]}]}]")
	services("a-1/"+other.ID, "[{orders http://b [{shop [production]}]}]")
	if got, err := c.Services(t.Context(), "a-2/"+other.ID); !errors.Is(err, tunnels.ErrNoTunnel) {
		t.Errorf("another account's agents are told %v, %v", got, err)
	}
	for _, none := range []string{"", "/", "a-1", "a-1/", "/" + made.ID, "a-2/" + made.ID, made.ID} {
		services(none, "no tunnel")
	}
	w.configure(other.ID)
	services("a-1/"+other.ID, "[]")
	for _, id := range []string{made.ID, other.ID} {
		if _, err := w.Delete(w.request(), acme, id); err != nil {
			t.Fatal(err)
		}
		services("a-1/"+id, "no tunnel")
	}
}

// TestManyWhoAskAtOnceAreOneRead, which does not end with the one who asked first.
func TestManyWhoAskAtOnceAreOneRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		made := w.create(acme, "office")
		w.run(w.configure(made.ID, service("orders", "http://a")).ID)
		c := w.carrier()
		c.delay = time.Second
		var all sync.WaitGroup
		all.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			defer cancel()
			if _, err := c.Find(ctx, "a-1", "orders", shop); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("who has gone is answered %v", err)
			}
		})
		synctest.Wait()
		for range 100 {
			all.Go(func() {
				if got := c.find("a-1", "orders", shop); got != "a-1/"+made.ID {
					t.Errorf("it is answered %q", got)
				}
			})
		}
		all.Wait()
		if n := c.reads.Load(); n != 1 {
			t.Errorf("they cost %d reads", n)
		}
	})
}

func TestTableThatDoesNotAnswerIsNoAnswer(t *testing.T) {
	w := newWorld(t)
	made := w.create(acme, "office")
	w.run(w.configure(made.ID, service("orders", "http://a")).ID)
	c := w.carrier()
	c.failing.Store(1)
	_, found := c.Find(t.Context(), "a-1", "orders", shop)
	_, led := c.Services(t.Context(), "a-1/"+made.ID)
	_, whose := c.Authorize(t.Context(), made.Token)
	for what, err := range map[string]error{"a service": found, "a tunnel": led, "a token": whose} {
		if !errors.Is(err, errDown) {
			t.Errorf("%s is answered %v", what, err)
		}
	}
	c.failing.Store(0)
	if got := c.find("a-1", "orders", shop); got != "a-1/"+made.ID {
		t.Errorf("afterwards it is answered %q", got)
	}
}

// TestTableThatIsSilentIsNoAnswer, for somebody who would wait for ever.
func TestTableThatIsSilentIsNoAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newWorld(t).carrier()
		c.delay = time.Hour
		if _, err := c.Find(t.Context(), "a-1", "orders", shop); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("it is answered %v", err)
		}
	})
}

// TestAnswersAreForgotten before they fill the memory, whoever asks for how many names.
func TestAnswersAreForgotten(t *testing.T) {
	w := newWorld(t)
	c := w.carrier()
	for i := range tunnels.MaxRemembered + 10 {
		c.find("a-1", fmt.Sprintf("name-%d", i), shop)
	}
	if n := c.Remembered(); n != tunnels.MaxRemembered {
		t.Errorf("%d are remembered", n)
	}
}
