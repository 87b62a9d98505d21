package bodies_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatewright/gatewright/shared/bodies"
)

const (
	mib    = 1 << 20
	budget = 16 * mib
	share  = budget / 4
)

var (
	first  = netip.MustParseAddr("192.0.2.1")
	second = netip.MustParseAddr("192.0.2.2")
)

// sender is a client that sends one body, in a bubble of synctest.
type sender struct {
	ctx   context.Context //nolint:containedctx // of its request
	to    *io.PipeWriter
	done  chan struct{}
	err   error
	bytes int
	// over says that the request has been answered.
	over func()
}

// send begins a request of a client, and reads its body up to 1 MiB.
func send(t *testing.T, b *bodies.Budget, client netip.Addr, account string) *sender {
	t.Helper()
	return sendTo(t, b, client, func(ctx context.Context) { bodies.Charge(ctx, account) })
}

// sendTo does the same for a request that charge makes one to a gateway route or to the management API.
func sendTo(t *testing.T, b *bodies.Budget, client netip.Addr, charge func(context.Context)) *sender {
	t.Helper()
	from, to := io.Pipe()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", nil)
	r, over := b.Begin(r, client, func() { _ = from.CloseWithError(os.ErrDeadlineExceeded) })
	charge(r.Context())
	s := &sender{ctx: r.Context(), to: to, done: make(chan struct{}), over: over}
	go func() {
		defer close(s.done)
		body, err := bodies.Read(r.Context(), from, -1, mib)
		_ = from.CloseWithError(err)
		s.bytes, s.err = len(body), err
	}()
	return s
}

// write sends n bytes, or fewer if the body is no longer read.
func (s *sender) write(n int) *sender {
	s.send(n)
	synctest.Wait()
	return s
}

// send sends n bytes, and does not wait until all of them count.
func (s *sender) send(n int) { _, _ = io.WriteString(s.to, strings.Repeat("x", n)) }

// end ends the body, and waits until it is read.
func (s *sender) end() error {
	_ = s.to.Close()
	<-s.done
	return s.err
}

// ended returns why the body has ended, nil while it is read.
func (s *sender) ended() error {
	select {
	case <-s.done:
		return s.err
	default:
		return nil
	}
}

// empty fails the test if the budget does not have all of its bytes back.
func empty(t *testing.T, b *bodies.Budget, all ...*sender) {
	t.Helper()
	for _, s := range all {
		_ = s.end()
		s.over()
	}
	if held := b.Held(); held != 0 {
		t.Errorf("Held() after all requests = %d, want 0", held)
	}
}

// TestNobodyHoldsMoreThanAQuarter: no client and no account holds more, and others have room meanwhile.
func TestNobodyHoldsMoreThanAQuarter(t *testing.T) {
	for name, account := range map[string]string{"one client": "", "ten clients, one account": "acme"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := bodies.New(budget)
				var all []*sender
				for i := range 10 {
					client := first
					if account != "" {
						client = netip.AddrFrom4([4]byte{198, 51, 100, byte(i)})
					}
					s := send(t, b, client, account).write(500_000)
					_ = s.end() // it has arrived, and is held until its request is answered
					all = append(all, s)
					if held := b.Held(); held > share {
						t.Fatalf("Held() with %d bodies = %d, want at most %d", i+1, held, int64(share))
					}
				}
				if err := all[9].err; !errors.Is(err, bodies.ErrBusy) {
					t.Errorf("Read(the 10th body of 500 KB) = %v, want ErrBusy", err)
				}
				other := send(t, b, netip.MustParseAddr("192.0.2.3"), "globex").write(mib)
				if err := other.end(); err != nil || other.bytes != mib {
					t.Errorf("Read(another client's body) = %d bytes, %v, want all of %d", other.bytes, err, mib)
				}
				empty(t, b, append(all, other)...)
			})
		})
	}
}

// TestTheSlowestBodyEndsFirst: a new body has room although slow ones hold the whole budget.
func TestTheSlowestBodyEndsFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bodies.New(budget)
		slow := send(t, b, first, "").write(600_000)
		slower := send(t, b, first, "").write(600_000)
		time.Sleep(6 * time.Second)
		slow.write(100_000) // which makes it the faster one
		slower.write(10_000)
		time.Sleep(time.Second)
		fresh := send(t, b, first, "").write(mib)
		if err := fresh.end(); err != nil {
			t.Errorf("Read(new body) = %v, want nil", err)
		}
		if err := slower.ended(); !errors.Is(err, bodies.ErrBusy) {
			t.Errorf("Read(slowest body) = %v, want ErrBusy", err)
		}
		if held := b.Held(); held > share {
			t.Errorf("Held() = %d, want at most %d", held, int64(share))
		}
		empty(t, b, slow, slower, fresh)
	})
}

// TestABodyEndsForNoClientThatHoldsMore: a client that holds little loses no body to clients that hold much.
func TestABodyEndsForNoClientThatHoldsMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bodies.New(budget)
		small := send(t, b, second, "").write(2000)
		time.Sleep(10 * time.Second)
		var all []*sender
		for i := range 30 {
			client := netip.AddrFrom4([4]byte{198, 51, 100, byte(i % 6)})
			all = append(all, send(t, b, client, "").write(900_000))
		}
		if held := b.Held(); held < budget/2 || held > budget {
			t.Errorf("Held() = %d, want %d to %d", held, int64(budget/2), int64(budget))
		}
		if err := small.write(2000).end(); err != nil || small.bytes != 4000 {
			t.Errorf("Read(small body) = %d bytes, %v, want 4000", small.bytes, err)
		}
		empty(t, b, append(all, small)...)
	})
}

// TestABodyBelowTheRateEnds, however much arrived at once before. A body that is slow and steady, or pauses, does not end.
func TestABodyBelowTheRateEnds(t *testing.T) {
	for name, c := range map[string]struct {
		first, each int
		every       time.Duration
		times       int
		want        error
	}{
		"a megabyte, then a byte each 10 s":  {1_000_000, 1, 10 * time.Second, 3, bodies.ErrSlow},
		"nothing":                            {0, 0, 21 * time.Second, 1, bodies.ErrSlow},
		"half of the rate":                   {0, bodies.MinRate / 2, time.Second, 60, bodies.ErrSlow},
		"the rate":                           {0, bodies.MinRate, time.Second, 60, nil},
		"a pause after all that was on time": {0, 100_000, 19 * time.Second, 5, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := bodies.New(budget)
				s := send(t, b, first, "").write(c.first)
				for range c.times {
					time.Sleep(c.every)
					s.write(c.each)
				}
				err := s.end()
				if !errors.Is(err, c.want) {
					t.Errorf("Read() = %v, want %v", err, c.want)
				}
				if c.want != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
					t.Errorf("Read() = %v, want an os.ErrDeadlineExceeded", err)
				}
				empty(t, b, s)
			})
		})
	}
}

// TestPromisesHoldNothing: 700 bodies without a byte fit into one client's share, and leave room for the same client's
// next body.
func TestPromisesHoldNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bodies.New(budget)
		var all []*sender
		for range 700 {
			all = append(all, send(t, b, first, ""))
		}
		time.Sleep(time.Second)
		for i, s := range all {
			if err := s.ended(); err != nil {
				t.Errorf("Read(body %d, of which nothing arrives) = %v, want it to go on", i+1, err)
			}
		}
		s := send(t, b, first, "").write(mib)
		if err := s.end(); err != nil {
			t.Errorf("Read() beside bodies of which nothing arrives = %v, want nil", err)
		}
		empty(t, b, append(all, s)...)
	})
}

// TestBodiesThatAreTooLargeAreRefused: before a byte is read if the length is known, and also if they are over a share of the budget.
func TestBodiesThatAreTooLargeAreRefused(t *testing.T) {
	b := bodies.New(budget)
	counted, over := b.Begin(httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", nil), first, func() {})
	for name, ctx := range map[string]context.Context{"counted": counted.Context(), "in a Lambda": t.Context()} {
		for _, c := range []struct{ length, size, limit int64 }{{11, 0, 10}, {-1, 11, 10}, {11, 11, 10}} {
			_, err := bodies.Read(ctx, strings.NewReader(strings.Repeat("x", int(c.size))), c.length, c.limit)
			if over, ok := errors.AsType[*http.MaxBytesError](err); !ok || over.Limit != c.limit {
				t.Errorf("%s: Read(%d bytes, length %d) = %v, want a MaxBytesError of %d", name, c.size, c.length, err, c.limit)
			}
		}
		for _, length := range []int64{-1, 10} {
			if body, err := bodies.Read(ctx, strings.NewReader("0123456789"), length, 10); err != nil || string(body) != "0123456789" {
				t.Errorf("%s: Read(10 bytes, length %d) = %q, %v, want all", name, length, body, err)
			}
		}
	}
	_, err := bodies.Read(counted.Context(), strings.NewReader(strings.Repeat("x", 3*mib)), -1, 4*mib)
	if _, ok := errors.AsType[*http.MaxBytesError](err); !ok {
		t.Errorf("Read(more than a share) = %v, want a MaxBytesError", err)
	}
	if err := bodies.Take(counted.Context(), share+1); err == nil {
		t.Error("Take(more than a share) = nil, want an error")
	}
	over()
	if held := b.Held(); held != 0 {
		t.Errorf("Held() = %d, want 0", held)
	}
}

// TestWhatIsReadAfterTheAnswerHoldsNothing: neither a body that is still read then, nor one whose reading begins later.
func TestWhatIsReadAfterTheAnswerHoldsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bodies.New(budget)
		s := send(t, b, first, "acme").write(100_000)
		s.over()
		if held := b.Held(); held != 0 {
			t.Errorf("Held() after the answer = %d, want 0", held)
		}
		s.write(500_000)
		if err := s.end(); !errors.Is(err, bodies.ErrBusy) {
			t.Errorf("Read() after the answer = %v, want ErrBusy", err)
		}
		if bodies.TryTake(s.ctx, 1) || bodies.Take(s.ctx, 1) == nil {
			t.Error("Take() after the answer = nil, want an error")
		}
		if held := b.Held(); held != 0 {
			t.Errorf("Held() at the end = %d, want 0", held)
		}
	})
}

// TestReadersAtOnce is for the race detector: many bodies arrive at once and end each other.
func TestReadersAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bodies.New(budget)
		var all []*sender
		for i := range 200 {
			s := send(t, b, netip.AddrFrom4([4]byte{192, 0, 2, byte(i % 7)}), "")
			all = append(all, s)
			go func() {
				for range 10 {
					_, _ = io.WriteString(s.to, strings.Repeat("x", 60_000))
				}
				_ = s.to.Close()
				<-s.done
				s.over()
			}()
		}
		for _, s := range all {
			<-s.done
			if s.err != nil && !errors.Is(s.err, bodies.ErrBusy) {
				t.Errorf("Read() = %v, want nil or ErrBusy", s.err)
			}
			if held := b.Held(); held > budget {
				t.Errorf("Held() = %d, want at most %d", held, int64(budget))
			}
		}
		synctest.Wait()
		if held := b.Held(); held != 0 {
			t.Errorf("Held() after all requests = %d, want 0", held)
		}
	})
}
