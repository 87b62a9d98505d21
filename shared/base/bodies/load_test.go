package bodies_test

import (
	"context"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatewright/gatewright/shared/base/bodies"
)

// startSlowClients starts an attack from many addresses. Each address sends 33 KB of a body at once, and then 325 bytes
// a second. When its body is aborted, it begins the next one.
func startSlowClients(t *testing.T, b *bodies.Budget, addresses int) (stop func()) {
	t.Helper()
	quit, wg := make(chan struct{}), sync.WaitGroup{}
	for i := range addresses {
		wg.Go(func() {
			client := netip.AddrFrom4([4]byte{198, 51, byte(i / 250), byte(i % 250)})
			time.Sleep(time.Duration(i) * 7 * time.Millisecond)
			for s := (*sender)(nil); ; {
				if s == nil {
					s = send(t, b, client, "acme")
					s.send(33_000)
				}
				select {
				case <-quit:
					_ = s.end()
					s.finish()
					return
				case <-s.done:
					s.finish()
					s = nil
					time.Sleep(200 * time.Millisecond)
				case <-time.After(200 * time.Millisecond):
					s.send(65)
				}
			}
		})
	}
	return func() { close(quit); wg.Wait() }
}

// TestManySlowClientsLeaveCapacityForOthers checks that many addresses that hold little memory each leave memory for
// others. Of 40 large bodies that are sent without pauses, some must succeed. Of 40 bodies that arrive at 12 KB a
// second with pauses, at least 8 must succeed.
func TestManySlowClientsLeaveCapacityForOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bodies.New(2 * budget)
		stop := startSlowClients(t, b, 110)
		time.Sleep(3 * time.Second)
		large, steady := 0, 0
		for range 40 {
			time.Sleep(time.Second)
			s := send(t, b, first, "acme").write(300_000)
			if s.end() == nil {
				large++
			}
			s.finish()
			s = send(t, b, second, "acme")
			for range 8 {
				s.write(3750)
				time.Sleep(300 * time.Millisecond)
			}
			if s.end() == nil {
				steady++
			}
			s.finish()
		}
		stop()
		// New bodies of the slow clients compete with the large body, so that some of its attempts are refused.
		if large == 0 {
			t.Errorf("Read(300 KB at once) = nil for %d of 40 bodies, want some", large)
		}
		// The slow clients' goroutines run in any order, so the number varies from 19 to 37. It would be below 8 if a burst
		// had a higher rate than a steady body.
		if steady < 8 {
			t.Errorf("Read(30 KB at 12 KB a second) = nil for %d of 40 bodies, want at least 8", steady)
		}
	})
}

// TestRoutesLeaveCapacityForTheAPI checks that whole bodies of gateway routes, held while an upstream is slow, do not
// lock an account's owner out of the management API. On the routes of one account, one client must leave memory for
// other clients.
func TestRoutesLeaveCapacityForTheAPI(t *testing.T) {
	owner := func(ctx context.Context) { bodies.ChargeAPI(ctx, "acme") }
	for name, accounts := range map[string][]string{
		"one client of one account":    {"acme"},
		"two clients of one account":   {"acme", "acme"},
		"six clients of four accounts": {"acme", "acme", "globex", "initech", "umbrella", "umbrella"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := bodies.New(budget)
				var all []*sender
				for i, account := range accounts {
					for size := 900_000; size > 100; {
						s := send(t, b, netip.AddrFrom4([4]byte{198, 51, 100, byte(i)}), account).write(size)
						if s.end() != nil {
							size /= 2
						}
						all = append(all, s)
					}
				}
				if inUse := b.InUse(); inUse > budget/4*3 {
					t.Errorf("InUse() = %d, want at most %d", inUse, budget/4*3)
				}
				for label, client := range map[string]netip.Addr{
					"another address":        first,
					"a client's own address": netip.AddrFrom4([4]byte{198, 51, 100, 0}),
				} {
					s := sendTo(t, b, client, owner).write(300_000)
					if err := s.end(); err != nil {
						t.Errorf("Read(the owner's body from %s) = %v, want nil", label, err)
					}
					s.finish()
				}
				if len(accounts) == 1 {
					s := send(t, b, first, "acme").write(300_000)
					if err := s.end(); err != nil {
						t.Errorf("Read(another client's body) = %v, want nil", err)
					}
					all = append(all, s)
				}
				checkReleased(t, b, all...)
			})
		})
	}
}
