package relay_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/memory"
	"github.com/gatewright/gatewright/shared/core/store/storetest"
	"github.com/gatewright/gatewright/shared/dataplane/relay"
)

// holders returns the addresses of the relays that hold the tunnel, according to the rows that another relay reads.
// recent reports whether a relay holds the tunnel or has just released it.
func (fx *fixture) holders() (addresses []string, recent bool) {
	fx.Helper()
	rows, recent, err := relay.NewLeases(relay.Options{
		Table: storetest.NewWithBackend(fx.T, fx.backend, storetest.Clock(time.Now)), Now: time.Now, Log: fx.log,
	}, "rly_stranger", func(string) bool { return false }).OtherHolders(fx.Context(), ref)
	if err != nil {
		fx.Fatalf("OtherHolders() error = %v, want none", err)
	}
	for _, row := range rows {
		addresses = append(addresses, row.Address)
	}
	slices.Sort(addresses)
	return addresses, recent
}

// TestRowsNameTheRelaysOfATunnel checks the rows after agents and relays have started, stopped and died.
func TestRowsNameTheRelaysOfATunnel(t *testing.T) {
	withFixture(t, nil, func(fx *fixture) {
		a, b := fx.relay("a:443"), fx.relay("b:443")
		want := func(moment string, recent bool, addresses ...string) {
			fx.Helper()
			synctest.Wait()
			if got, r := fx.holders(); !slices.Equal(got, addresses) || r != recent {
				fx.Errorf("%s: addresses in the rows = %q, recent = %t, want %q and %t", moment, got, r, addresses, recent)
			}
		}
		want("before an agent has connected", false)
		stopFirst, stopSecond := fx.agent("a:443", 2), fx.agent("a:443", 2)
		want("with agents", true, "https://a:443")
		stopThird := fx.agent("b:443", 2)
		want("with agents at two relays", true, "https://a:443", "https://b:443")
		time.Sleep(3 * relay.LeaseDuration)
		want("much later", true, "https://a:443", "https://b:443")
		stopFirst()
		want("after one of two agents has disconnected", true, "https://a:443", "https://b:443")
		stopSecond()
		want("after the last agent of the first relay has disconnected", true, "https://b:443")
		b.kill()
		want("after the second relay has died", true, "https://b:443")
		time.Sleep(relay.LeaseDuration + relay.MaxClockSkew)
		want("after the lease of the dead relay has expired", false)
		stopThird()
		stopFourth := fx.agent("a:443", 2)
		want("with a new agent", true, "https://a:443")
		ctx, cancel := context.WithTimeout(fx.Context(), time.Second)
		defer cancel()
		a.Drain(ctx)
		want("after the first relay has drained", true)
		time.Sleep(relay.AgentWait + relay.MaxClockSkew)
		want("after the row of the drained relay has expired", false)
		stopFourth()
	})
}

// TestAgentConnectionsAreLogged checks that there is a log line when a tunnel's first connection begins and
// when its last connection ends. There must be no line for other connections, renewed rows, or failed writes.
func TestAgentConnectionsAreLogged(t *testing.T) {
	withFixture(t, nil, func(fx *fixture) {
		a := fx.relay("a:443")
		want := func(moment string, connected, disconnected int) {
			fx.Helper()
			synctest.Wait()
			logged := fx.logged.String()
			if c := strings.Count(logged, "a tunnel has an agent"); c != connected {
				fx.Errorf("%s: log lines about a tunnel with an agent = %d, want %d", moment, c, connected)
			}
			if d := strings.Count(logged, "a tunnel has no agent any more"); d != disconnected {
				fx.Errorf("%s: log lines about a tunnel without an agent = %d, want %d", moment, d, disconnected)
			}
		}
		want("at first", 0, 0)
		stopFirst, stopSecond := fx.agent("a:443", 2), fx.agent("a:443", 2)
		time.Sleep(3 * relay.LeaseDuration)
		want("with two agents", 1, 0)
		stopFirst()
		want("with one agent", 1, 0)
		a.table.dead.Store(true)
		stopSecond()
		time.Sleep(time.Minute)
		want("without an agent, while the table is down", 1, 1)
		stopThird := fx.agent("a:443", 2)
		want("with a third agent", 2, 1)
		stopThird()
		want("without the third agent", 2, 2)
	})
}

// TestSingleRelayExpectsAgent checks when a relay without an address expects
// an agent. Such a relay has no table, so it reads no rows.
func TestSingleRelayExpectsAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		connected := false
		l := relay.NewLeases(relay.Options{Now: time.Now, Log: slog.New(slog.DiscardHandler)}, "rly_1", func(string) bool {
			return connected
		})
		want := func(moment string, expected bool) {
			t.Helper()
			if rows, recent, err := l.OtherHolders(t.Context(), ref); len(rows) > 0 || recent || err != nil ||
				l.ExpectsAgent(ref) != expected {
				t.Errorf("%s: OtherHolders() = %v, recent %t, %v, ExpectsAgent() = %t, want no rows, false, no error, and %t",
					moment, rows, recent, err, l.ExpectsAgent(ref), expected)
			}
		}
		want("after the start", true) // the previous relay may have had agents
		time.Sleep(relay.AgentWait)
		l.WriteIfDue(t.Context(), ref)
		want("without an agent", false)
		connected = true
		l.WriteIfDue(t.Context(), ref)
		connected = false
		want("after an agent has disconnected, before WriteIfDue is called", true)
		l.WriteIfDue(t.Context(), ref)
		want("just after an agent has disconnected", true)
		time.Sleep(relay.AgentWait)
		want("long after an agent has disconnected", false)
	})
}

// faultyTable is a table with the failures of a network: refused calls, calls
// that take effect but return an error, and calls that take effect much later.
type faultyTable struct {
	*memory.Backend

	mu      sync.Mutex
	faults  []fault // faults of the next calls; later calls succeed
	delayed []func()
}

// nextFault removes and returns the fault of the next call.
func (t *faultyTable) nextFault() (f fault) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.faults) > 0 {
		f, t.faults = t.faults[0], t.faults[1:]
	}
	return f
}

type fault int

const (
	noFault fault = iota
	requestRefused
	responseLost
	delayed
)

func (t *faultyTable) Transact(ctx context.Context, token string, writes []store.Write) error {
	switch t.nextFault() {
	case requestRefused:
		return errTableDown
	case responseLost:
		_ = t.Backend.Transact(ctx, token, writes)
		return fmt.Errorf("%w: %w", store.ErrOutcomeUnknown, errTableDown)
	case delayed:
		t.mu.Lock()
		defer t.mu.Unlock()
		t.delayed = append(t.delayed, func() { _ = t.Backend.Transact(context.WithoutCancel(ctx), token, writes) })
		return fmt.Errorf("%w: %w", store.ErrOutcomeUnknown, errTableDown)
	case noFault:
	}
	return t.Backend.Transact(ctx, token, writes)
}

// applyDelayed performs one of the delayed calls, if there are any.
func (t *faultyTable) applyDelayed(index int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.delayed) > 0 {
		i := index % len(t.delayed)
		t.delayed[i]()
		t.delayed = slices.Delete(t.delayed, i, i+1)
	}
}

// TestRowsConverge simulates relays with different clocks and a faulty table. The relays get and lose a tunnel, die,
// and restart at the same address. Then the table works again, and all live relays write their rows. The rows of live
// relays must be correct immediately. When the leases have expired, the rows must name exactly the relays that hold
// the tunnel.
func TestRowsConverge(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		clock := storetest.Epoch
		faults := rapid.SliceOfN(rapid.SampledFrom([]fault{noFault, requestRefused, responseLost, delayed}), 0,
			40).Draw(rt, "faults")
		table := &faultyTable{Backend: memory.New(), faults: faults}
		var relays []*simulatedRelay
		// join starts a relay at an address.
		join := func(address string) {
			p := &simulatedRelay{
				id: fmt.Sprint("rly_", len(relays)), address: address,
				skew: time.Duration(rapid.IntRange(-7, 7).Draw(rt, "skew")) * time.Second,
			}
			now := func() time.Time { return clock.Add(p.skew) }
			p.Leases = relay.NewLeases(relay.Options{
				Table:   store.New(table, store.Options{Random: storetest.Random(&named{t, p.id}), Now: now, Backoff: noRetry}),
				Address: address, Now: now, Log: slog.New(slog.DiscardHandler),
			}, p.id, func(string) bool { return p.connected })
			relays = append(relays, p)
		}
		join("https://a")
		join("https://b")
		for range rapid.IntRange(1, 25).Draw(rt, "steps") {
			p := relays[rapid.IntRange(0, len(relays)-1).Draw(rt, "relay")]
			switch action := rapid.IntRange(0, 5).Draw(rt, "action"); {
			case action == 0:
				clock = clock.Add(time.Duration(rapid.IntRange(1, 60).Draw(rt, "seconds")) * time.Second)
			case action == 1:
				table.applyDelayed(rapid.IntRange(0, 9).Draw(rt, "delayed call"))
			case p.dead:
			case action == 2:
				p.WriteAllDue(t.Context())
			case action == 3 && len(relays) < 6:
				p.dead = true
				join(p.address)
			default:
				p.connected = !p.connected
				p.WriteIfDue(t.Context(), ref)
			}
		}
		table.faults = nil // the table works again
		writeAll := func() {
			for _, p := range relays {
				if !p.dead {
					p.WriteAllDue(t.Context())
				}
			}
		}
		writeAll()
		for len(table.delayed) > 0 { // delayed calls arrive after all rows were written
			table.applyDelayed(0)
		}
		// check compares the rows with the relays. It checks the rows of dead relays only if checkDead is set.
		check := func(moment string, checkDead bool) {
			for _, reader := range relays {
				rows, _, err := reader.OtherHolders(t.Context(), ref)
				if err != nil {
					rt.Fatalf("%s: OtherHolders() of %s: error = %v, want none", moment, reader.id, err)
				}
				for _, p := range relays {
					if p == reader || p.dead && !checkDead {
						continue
					}
					listed := slices.ContainsFunc(rows, func(r relay.Row) bool { return r.ID == p.id && r.Address == p.address })
					if want := p.connected && !p.dead; listed != want {
						rt.Errorf("%s: row of %s read by %s: listed = %t, want %t", moment, p.id, reader.id, listed, want)
					}
				}
			}
		}
		check("immediately", false)
		for waited := time.Duration(0); waited <= relay.LeaseDuration+2*relay.MaxClockSkew; waited += relay.RenewInterval {
			clock = clock.Add(relay.RenewInterval)
			writeAll()
		}
		check("after the leases have expired", true)
	})
}

// simulatedRelay is a relay that only reads and writes rows.
type simulatedRelay struct {
	relay.Leases
	id, address     string
	connected, dead bool
	skew            time.Duration
}

// noRetry is a store.BackoffFunc that makes no second attempt.
func noRetry(context.Context, int) error { return errors.New("no further attempt") }

// TestExpiredLeasesAreRemoved checks that a lease is removed when no request waits for the agent any more
// and the row says that the relay no longer has the tunnel.
func TestExpiredLeasesAreRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := &faultyTable{Backend: memory.New()}
		connected := true
		newLeases := func(id string) relay.Leases {
			return relay.NewLeases(relay.Options{
				Table:   store.New(table, store.Options{Random: storetest.Random(&named{t, id}), Now: time.Now, Backoff: noRetry}),
				Address: "https://a", Now: time.Now, Log: slog.New(slog.DiscardHandler),
			}, id, func(string) bool { return connected && id == "rly_1" })
		}
		l, other := newLeases("rly_1"), newLeases("rly_2")
		want := func(moment string, refs int, wantHeld, recent bool) {
			t.Helper()
			l.WriteAllDue(t.Context())
			rows, r, err := other.OtherHolders(t.Context(), ref)
			if err != nil || len(l.Refs()) != refs || (len(rows) > 0) != wantHeld || r != recent {
				t.Errorf("%s: tunnels with a lease = %d, held: %t, recent: %t, error = %v, want %d, %t, %t and no error",
					moment, len(l.Refs()), len(rows) > 0, r, err, refs, wantHeld, recent)
			}
		}
		l.WriteIfDue(t.Context(), ref)
		want("with an agent", 1, true, true)
		time.Sleep(relay.LeaseDuration + relay.MaxClockSkew)
		want("much later", 1, true, true)
		table.faults = []fault{requestRefused, requestRefused, requestRefused}
		connected = false
		l.WriteIfDue(t.Context(), ref)
		want("with a row that can't be written", 1, true, true)
		time.Sleep(2 * relay.AgentWait)
		want("with a row that still can't be written", 1, true, true)
		want("after the row was written", 1, false, true)
		want("after the lease was removed", 0, false, true)
		time.Sleep(relay.MaxClockSkew)
		want("after the row has expired", 0, false, false)
		connected = true
		l.WriteIfDue(t.Context(), ref)
		connected = false
		l.WriteIfDue(t.Context(), ref)
		want("just after the agent has disconnected", 1, false, true)
		time.Sleep(relay.AgentWait - time.Nanosecond)
		want("while requests wait for the agent", 1, false, true)
		time.Sleep(time.Nanosecond)
		want("when requests no longer wait for the agent", 0, false, true)
		// A row is valid for MaxClockSkew longer than its lease.
		connected = true
		l.WriteIfDue(t.Context(), ref)
		connected = false // the relay dies: WriteIfDue is not called
		time.Sleep(relay.LeaseDuration + relay.MaxClockSkew - time.Second)
		if rows, recent, err := other.OtherHolders(t.Context(), ref); len(rows) != 1 || !recent || err != nil {
			t.Errorf("OtherHolders() before the row has expired = %v, recent %t, %v, want one row and true", rows, recent, err)
		}
		time.Sleep(time.Second)
		if rows, recent, err := other.OtherHolders(t.Context(), ref); len(rows) != 0 || recent || err != nil {
			t.Errorf("OtherHolders() after the row has expired = %v, recent %t, %v, want no rows and false", rows, recent, err)
		}
	})
}
