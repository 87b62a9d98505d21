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

	"github.com/gatewright/gatewright/shared/relay"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/memory"
	"github.com/gatewright/gatewright/shared/store/storetest"
)

// holders gives the addresses that the rows tell a stranger of.
func (w *world) holders() (addresses []string, recent bool) {
	w.Helper()
	held, recent, err := relay.NewLeases(relay.Options{
		Table: storetest.Over(w.T, w.items, storetest.Clock(time.Now)), Now: time.Now, Log: w.log,
	}, "rly_stranger", func(string) bool { return false }).Others(w.Context(), ref)
	if err != nil {
		w.Fatal(err)
	}
	for _, row := range held {
		addresses = append(addresses, row.Address)
	}
	slices.Sort(addresses)
	return addresses, recent
}

// TestRowsSayWhichRelaysHoldATunnel follows them through the life of agents and relays.
func TestRowsSayWhichRelaysHoldATunnel(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		a, b := w.relay("a:443"), w.relay("b:443")
		want := func(when string, recent bool, addresses ...string) {
			w.Helper()
			synctest.Wait()
			if got, r := w.holders(); !slices.Equal(got, addresses) || r != recent {
				w.Errorf("%s the rows are of %q, recent: %t; want %q, %t", when, got, r, addresses, recent)
			}
		}
		want("before an agent is there", false)
		first, second := w.agent("a:443", 2), w.agent("a:443", 2)
		want("with agents", true, "https://a:443")
		third := w.agent("b:443", 2)
		want("with agents at two relays", true, "https://a:443", "https://b:443")
		time.Sleep(3 * relay.LeaseTime)
		want("much later", true, "https://a:443", "https://b:443")
		first()
		want("while another agent is there", true, "https://a:443", "https://b:443")
		second()
		want("when a relay's last agent has gone", true, "https://b:443")
		b.kill()
		want("when a relay has died", true, "https://b:443")
		time.Sleep(relay.LeaseTime + relay.ClockDifference)
		want("when its lease is over", false)
		third()
		fourth := w.agent("a:443", 2)
		want("with a new agent", true, "https://a:443")
		ctx, cancel := context.WithTimeout(w.Context(), time.Second)
		defer cancel()
		a.Drain(ctx)
		want("when the relay drains", true)
		time.Sleep(relay.Patience + relay.ClockDifference)
		want("and later", false)
		fourth()
	})
}

// TestLogSaysWhenAgentsComeAndGo counts a line each time that a tunnel has a first connection or has lost the
// last one: not one for each connection, nor for a row that is renewed or can't be written.
func TestLogSaysWhenAgentsComeAndGo(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		a := w.relay("a:443")
		want := func(when string, came, went int) {
			w.Helper()
			synctest.Wait()
			logged := w.logged.String()
			if c, g := strings.Count(logged, "a tunnel has an agent"), strings.Count(logged, "a tunnel has no agent any more"); c != came || g != went {
				w.Errorf("%s the log says %d times that an agent came, and %d times that the last one went; want %d and %d", when, c, g, came, went)
			}
		}
		want("at first", 0, 0)
		first, second := w.agent("a:443", 2), w.agent("a:443", 2)
		time.Sleep(3 * relay.LeaseTime)
		want("with two agents", 1, 0)
		first()
		want("with one agent", 1, 0)
		a.table.dead.Store(true)
		second()
		time.Sleep(time.Minute)
		want("without one, while the table is down", 1, 1)
		third := w.agent("a:443", 2)
		want("with another one", 2, 1)
		third()
		want("without it", 2, 2)
	})
}

// TestOnlyRelayOfItsInstallationWritesNothing has no address.
func TestOnlyRelayOfItsInstallationWritesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		has := false
		l := relay.NewLeases(relay.Options{Now: time.Now, Log: slog.New(slog.DiscardHandler)}, "rly_1", func(string) bool { return has })
		want := func(when string, expected bool) {
			t.Helper()
			if held, recent, err := l.Others(t.Context(), ref); len(held) > 0 || recent || err != nil || l.Expects(ref) != expected {
				t.Errorf("%s it knows of %v, recent: %t, %v, expected: %t", when, held, recent, err, l.Expects(ref))
			}
		}
		want("when it begins", true) // the one before it may have had agents
		time.Sleep(relay.Patience)
		l.Settle(t.Context(), ref)
		want("without an agent", false)
		has = true
		l.Settle(t.Context(), ref)
		has = false
		want("when an agent has left, before anybody says so,", true)
		l.Settle(t.Context(), ref)
		want("when an agent has just left", true)
		time.Sleep(relay.Patience)
		want("long after an agent has left", false)
	})
}

// late is a table that fails as networks make tables fail: calls that are refused, calls that
// have their effect and seem not to, and calls that have it much later.
type late struct {
	*memory.Backend

	mu    sync.Mutex
	fates []fate // of the next calls; those after them work
	later []func()
}

func (l *late) next() (f fate) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.fates) > 0 {
		f, l.fates = l.fates[0], l.fates[1:]
	}
	return f
}

type fate int

const (
	made fate = iota
	refused
	lost
	delayed
)

func (l *late) Transact(ctx context.Context, token string, writes []store.Write) error {
	switch l.next() {
	case refused:
		return errDown
	case lost:
		_ = l.Backend.Transact(ctx, token, writes)
		return fmt.Errorf("%w: %w", store.ErrLost, errDown)
	case delayed:
		l.mu.Lock()
		defer l.mu.Unlock()
		l.later = append(l.later, func() { _ = l.Backend.Transact(context.WithoutCancel(ctx), token, writes) })
		return fmt.Errorf("%w: %w", store.ErrLost, errDown)
	case made:
	}
	return l.Backend.Transact(ctx, token, writes)
}

// arrive has a call that was delayed have its effect.
func (l *late) arrive(which int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.later) > 0 {
		i := which % len(l.later)
		l.later[i]()
		l.later = slices.Delete(l.later, i, i+1)
	}
}

// TestRowsComeToSayWhatIsSo plays relays that get and lose a tunnel, die and come back at the
// same address, with clocks of their own, over a table that fails and is late. Whatever has
// happened: while the table works again and a lease has passed, the rows name those relays
// that hold the tunnel, and no other; and no row of a living relay was ever changed by another.
func TestRowsComeToSayWhatIsSo(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		clock := storetest.Epoch
		fates := rapid.SliceOfN(rapid.SampledFrom([]fate{made, refused, lost, delayed}), 0, 40).Draw(rt, "fates")
		table := &late{Backend: memory.New(), fates: fates}
		var all []*player
		join := func(address string) {
			p := &player{id: fmt.Sprint("rly_", len(all)), address: address, skew: time.Duration(rapid.IntRange(-7, 7).Draw(rt, "skew")) * time.Second}
			now := func() time.Time { return clock.Add(p.skew) }
			p.Leases = relay.NewLeases(relay.Options{
				Table:   store.New(table, store.Options{Random: storetest.Random(&named{t, p.id}), Now: now, Pause: giveUp}),
				Address: address, Now: now, Log: slog.New(slog.DiscardHandler),
			}, p.id, func(string) bool { return p.has })
			all = append(all, p)
		}
		join("https://a")
		join("https://b")
		for range rapid.IntRange(1, 25).Draw(rt, "steps") {
			p := all[rapid.IntRange(0, len(all)-1).Draw(rt, "relay")]
			switch what := rapid.IntRange(0, 5).Draw(rt, "what"); {
			case what == 0:
				clock = clock.Add(time.Duration(rapid.IntRange(1, 60).Draw(rt, "seconds")) * time.Second)
			case what == 1:
				table.arrive(rapid.IntRange(0, 9).Draw(rt, "which"))
			case p.dead:
			case what == 2:
				p.SettleAll(t.Context())
			case what == 3 && len(all) < 6:
				p.dead = true
				join(p.address)
			default:
				p.has = !p.has
				p.Settle(t.Context(), ref)
			}
		}
		table.fates = nil // it works again
		settle := func() {
			for _, p := range all {
				if !p.dead {
					p.SettleAll(t.Context())
				}
			}
		}
		settle()
		for len(table.later) > 0 { // what was on its way arrives when all is settled
			table.arrive(0)
		}
		check := func(when string, dead bool) {
			for _, reader := range all {
				held, _, err := reader.Others(t.Context(), ref)
				if err != nil {
					rt.Fatal(err)
				}
				for _, p := range all {
					if p == reader || p.dead && !dead {
						continue
					}
					listed := slices.ContainsFunc(held, func(w relay.Row) bool { return w.ID == p.id && w.Address == p.address })
					if want := p.has && !p.dead; listed != want {
						rt.Errorf("%s the row of %s that %s reads says %t, want %t", when, p.id, reader.id, listed, want)
					}
				}
			}
		}
		check("at once", false)
		for past := time.Duration(0); past <= relay.LeaseTime+2*relay.ClockDifference; past += relay.RenewEvery {
			clock = clock.Add(relay.RenewEvery)
			settle()
		}
		check("a lease later", true)
	})
}

// player is a relay, of which nothing but its rows is there.
type player struct {
	relay.Leases
	id, address string
	has, dead   bool
	skew        time.Duration
}

// giveUp is a store.Pause that makes no second attempt.
func giveUp(context.Context, int) error { return errors.New("no more") }

// TestLeasesAreForgottenWhenAllIsSaid: when nobody waits for the agent any more, and the row says that it left.
func TestLeasesAreForgottenWhenAllIsSaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := &late{Backend: memory.New()}
		has := true
		leases := func(id string) relay.Leases {
			return relay.NewLeases(relay.Options{
				Table:   store.New(table, store.Options{Random: storetest.Random(&named{t, id}), Now: time.Now, Pause: giveUp}),
				Address: "https://a", Now: time.Now, Log: slog.New(slog.DiscardHandler),
			}, id, func(string) bool { return has && id == "rly_1" })
		}
		l, other := leases("rly_1"), leases("rly_2")
		want := func(when string, refs int, held, recent bool) {
			t.Helper()
			l.SettleAll(t.Context())
			rows, r, err := other.Others(t.Context(), ref)
			if err != nil || len(l.Refs()) != refs || (len(rows) > 0) != held || r != recent {
				t.Errorf("%s %d are remembered, held: %t, recent: %t, %v", when, len(l.Refs()), len(rows) > 0, r, err)
			}
		}
		l.Settle(t.Context(), ref)
		want("with an agent", 1, true, true)
		time.Sleep(relay.LeaseTime + relay.ClockDifference)
		want("much later", 1, true, true)
		table.fates = []fate{refused, refused, refused}
		has = false
		l.Settle(t.Context(), ref)
		want("with a row that can't be written", 1, true, true)
		time.Sleep(2 * relay.Patience)
		want("and still can't", 1, true, true)
		want("with one that can, late", 1, false, true)
		want("and forgotten", 0, false, true)
		time.Sleep(relay.ClockDifference)
		want("later", 0, false, false)
		has = true
		l.Settle(t.Context(), ref)
		has = false
		l.Settle(t.Context(), ref)
		want("when it has just left", 1, false, true)
		time.Sleep(relay.Patience - time.Nanosecond)
		want("while it is waited for", 1, false, true)
		time.Sleep(time.Nanosecond)
		want("and no more", 0, false, true)
		// A row holds for as long as clocks may differ beyond its lease.
		has = true
		l.Settle(t.Context(), ref)
		has = false // it dies
		time.Sleep(relay.LeaseTime + relay.ClockDifference - time.Second)
		if rows, recent, _ := other.Others(t.Context(), ref); len(rows) != 1 || !recent {
			t.Errorf("the lease of one that died is over too early: %v", rows)
		}
		time.Sleep(time.Second)
		if rows, recent, _ := other.Others(t.Context(), ref); len(rows) != 0 || recent {
			t.Errorf("the lease of one that died goes on: %v", rows)
		}
	})
}
