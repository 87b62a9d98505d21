package bodies_test

import (
	"context"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatewright/gatewright/shared/bodies"
)

// crowd is an attack from many addresses. Each sends 33 KB of a body at once, and then 325 bytes a second. When its body ends, it
// begins the next one.
func crowd(t *testing.T, b *bodies.Budget, addresses int) (stop func()) {
	t.Helper()
	over, all := make(chan struct{}), sync.WaitGroup{}
	for i := range addresses {
		all.Go(func() {
			client := netip.AddrFrom4([4]byte{198, 51, byte(i / 250), byte(i % 250)})
			time.Sleep(time.Duration(i) * 7 * time.Millisecond)
			for s := (*sender)(nil); ; {
				if s == nil {
					s = send(t, b, client, "acme")
					s.send(33_000)
				}
				select {
				case <-over:
					_ = s.end()
					s.over()
					return
				case <-s.done:
					s.over()
					s = nil
					time.Sleep(200 * time.Millisecond)
				case <-time.After(200 * time.Millisecond):
					s.send(65)
				}
			}
		})
	}
	return func() { close(over); all.Wait() }
}

// TestACrowdLeavesRoomForOthers: many addresses that hold little memory each do not keep out a large body that arrives at once and is
// repeated after a refusal, and do not end bodies that arrive at 12 KB a second with pauses.
func TestACrowdLeavesRoomForOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bodies.New(2 * budget)
		stop := crowd(t, b, 110)
		time.Sleep(3 * time.Second)
		large, steady := 0, 0
		for range 40 {
			time.Sleep(time.Second)
			s := send(t, b, first, "acme").write(300_000)
			if s.end() == nil {
				large++
			}
			s.over()
			s = send(t, b, second, "acme")
			for range 8 {
				s.write(3750)
				time.Sleep(300 * time.Millisecond)
			}
			if s.end() == nil {
				steady++
			}
			s.over()
		}
		stop()
		// New bodies of the crowd compete with the large body, so some of its attempts are refused.
		if large == 0 {
			t.Errorf("Read(300 KB at once) = nil for %d of 40 bodies, want some", large)
		}
		// The crowd's goroutines run in any order, so that the number differs: 19 to 37, and below 8 where a burst ranks above them.
		if steady < 8 {
			t.Errorf("Read(30 KB at 12 KB a second) = nil for %d of 40 bodies, want at least 8", steady)
		}
	})
}

// TestRoutesLeaveRoomForTheAPI: whole bodies of gateway routes, held while an upstream is slow, keep no account's owner out of the
// management API. On an account's routes, one client leaves room for the others.
func TestRoutesLeaveRoomForTheAPI(t *testing.T) {
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
				if held := b.Held(); held > budget/4*3 {
					t.Errorf("Held() = %d, want at most %d", held, budget/4*3)
				}
				for who, client := range map[string]netip.Addr{"another address": first, "a client's own address": netip.AddrFrom4([4]byte{198, 51, 100, 0})} {
					s := sendTo(t, b, client, owner).write(300_000)
					if err := s.end(); err != nil {
						t.Errorf("Read(the owner's body from %s) = %v, want nil", who, err)
					}
					s.over()
				}
				if len(accounts) == 1 {
					s := send(t, b, first, "acme").write(300_000)
					if err := s.end(); err != nil {
						t.Errorf("Read(another client's body) = %v, want nil", err)
					}
					all = append(all, s)
				}
				empty(t, b, all...)
			})
		})
	}
}
