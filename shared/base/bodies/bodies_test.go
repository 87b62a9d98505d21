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

	"github.com/gatewright/gatewright/shared/base/bodies"
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

// sender is a client that sends one body, in a synctest bubble.
type sender struct {
	ctx   context.Context //nolint:containedctx // the context of its request
	pipe  *io.PipeWriter
	done  chan struct{}
	err   error
	bytes int
	// finish reports that the response has been sent.
	finish func()
}

// send begins a request of a client, and reads its body up to 1 MiB.
func send(t *testing.T, b *bodies.Budget, client netip.Addr, account string) *sender {
	t.Helper()
	return sendTo(t, b, client, func(ctx context.Context) { bodies.Charge(ctx, account) })
}

// sendTo is like send, with a function that charges the request to an account: as a request to a gateway route or to
// the management API.
func sendTo(t *testing.T, b *bodies.Budget, client netip.Addr, charge func(context.Context)) *sender {
	t.Helper()
	from, to := io.Pipe()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", nil)
	r, finish := b.Begin(r, client, func() { _ = from.CloseWithError(os.ErrDeadlineExceeded) })
	charge(r.Context())
	s := &sender{ctx: r.Context(), pipe: to, done: make(chan struct{}), finish: finish}
	go func() {
		defer close(s.done)
		body, err := bodies.Read(r.Context(), from, -1, mib)
		_ = from.CloseWithError(err)
		s.bytes, s.err = len(body), err
	}()
	return s
}

// write sends n bytes, or fewer if the body is no longer read. It waits until the sent bytes count.
func (s *sender) write(n int) *sender {
	s.send(n)
	synctest.Wait()
	return s
}

// send sends n bytes, and does not wait until all of them count.
func (s *sender) send(n int) { _, _ = io.WriteString(s.pipe, strings.Repeat("x", n)) }

// end ends the body, and waits until the body has been read.
func (s *sender) end() error {
	_ = s.pipe.Close()
	<-s.done
	return s.err
}

// result returns the error with which reading the body has ended. It returns nil while the body is being read.
func (s *sender) result() error {
	select {
	case <-s.done:
		return s.err
	default:
		return nil
	}
}

// checkReleased finishes all requests, and fails the test if any byte of the budget is still in use.
func checkReleased(t *testing.T, b *bodies.Budget, all ...*sender) {
	t.Helper()
	for _, s := range all {
		_ = s.end()
		s.finish()
	}
	if inUse := b.InUse(); inUse != 0 {
		t.Errorf("InUse() after all requests = %d, want 0", inUse)
	}
}

// TestClientAndAccountAreLimitedToAQuarter checks that no client and no account holds more than a quarter of the
// budget, and that others can take memory at the same time.
func TestClientAndAccountAreLimitedToAQuarter(t *testing.T) {
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
					_ = s.end() // the body has arrived, and counts until the response has been sent
					all = append(all, s)
					if inUse := b.InUse(); inUse > share {
						t.Fatalf("InUse() with %d bodies = %d, want at most %d", i+1, inUse, int64(share))
					}
				}
				if err := all[9].err; !errors.Is(err, bodies.ErrBusy) {
					t.Errorf("Read(the 10th body of 500 KB) = %v, want ErrBusy", err)
				}
				other := send(t, b, netip.MustParseAddr("192.0.2.3"), "globex").write(mib)
				if err := other.end(); err != nil || other.bytes != mib {
					t.Errorf("Read(another client's body) = %d bytes, %v, want all of %d", other.bytes, err, mib)
				}
				checkReleased(t, b, append(all, other)...)
			})
		})
	}
}

// TestSlowestBodyIsEvictedFirst checks that a new body gets memory although slow bodies hold the whole share: only the
// slowest body is aborted.
func TestSlowestBodyIsEvictedFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bodies.New(budget)
		slow := send(t, b, first, "").write(600_000)
		slower := send(t, b, first, "").write(600_000)
		time.Sleep(6 * time.Second)
		slow.write(100_000) // this body is faster now
		slower.write(10_000)
		time.Sleep(time.Second)
		fresh := send(t, b, first, "").write(mib)
		if err := fresh.end(); err != nil {
			t.Errorf("Read(new body) = %v, want nil", err)
		}
		if err := slower.result(); !errors.Is(err, bodies.ErrBusy) {
			t.Errorf("Read(slowest body) = %v, want ErrBusy", err)
		}
		if err := slow.result(); err != nil {
			t.Errorf("Read(second slowest body) = %v, want it to wait for more bytes", err)
		}
		if inUse := b.InUse(); inUse > share {
			t.Errorf("InUse() = %d, want at most %d", inUse, int64(share))
		}
		checkReleased(t, b, slow, slower, fresh)
	})
}

// TestLargerClientsDoNotEvictSmallOnes checks that clients that hold much memory do not abort the body of a client that
// holds little.
func TestLargerClientsDoNotEvictSmallOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bodies.New(budget)
		small := send(t, b, second, "").write(2000)
		time.Sleep(10 * time.Second)
		var all []*sender
		for i := range 30 {
			client := netip.AddrFrom4([4]byte{198, 51, 100, byte(i % 6)})
			all = append(all, send(t, b, client, "").write(900_000))
		}
		if inUse := b.InUse(); inUse < budget/2 || inUse > budget {
			t.Errorf("InUse() = %d, want %d to %d", inUse, int64(budget/2), int64(budget))
		}
		if err := small.write(2000).end(); err != nil || small.bytes != 4000 {
			t.Errorf("Read(small body) = %d bytes, %v, want 4000", small.bytes, err)
		}
		checkReleased(t, b, append(all, small)...)
	})
}

// TestBodyBelowMinRateIsAborted checks that a body below the minimum rate is aborted, however many bytes arrived at
// once before. A body that is slow and steady, or pauses, is not aborted.
func TestBodyBelowMinRateIsAborted(t *testing.T) {
	for name, c := range map[string]struct {
		first, chunk int
		interval     time.Duration
		times        int
		want         error
	}{
		"a megabyte, then a byte each 10 s": {1_000_000, 1, 10 * time.Second, 3, bodies.ErrSlow},
		"no bytes":                          {0, 0, 21 * time.Second, 1, bodies.ErrSlow},
		"half of the minimum rate":          {0, bodies.MinRate / 2, time.Second, 60, bodies.ErrSlow},
		"the minimum rate":                  {0, bodies.MinRate, time.Second, 60, nil},
		"a pause after a fast start":        {0, 100_000, 19 * time.Second, 5, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := bodies.New(budget)
				s := send(t, b, first, "").write(c.first)
				for range c.times {
					time.Sleep(c.interval)
					s.write(c.chunk)
				}
				err := s.end()
				if !errors.Is(err, c.want) {
					t.Errorf("Read() = %v, want %v", err, c.want)
				}
				if c.want != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
					t.Errorf("Read() = %v, want an os.ErrDeadlineExceeded", err)
				}
				checkReleased(t, b, s)
			})
		})
	}
}

// TestBodiesWithoutBytesReserveNothing checks that 700 bodies without a byte fit into
// one client's share, and leave memory for the same client's next body.
func TestBodiesWithoutBytesReserveNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bodies.New(budget)
		var all []*sender
		for range 700 {
			all = append(all, send(t, b, first, ""))
		}
		time.Sleep(time.Second)
		for i, s := range all {
			if err := s.result(); err != nil {
				t.Errorf("Read(body %d without a byte) = %v, want it to wait", i+1, err)
			}
		}
		s := send(t, b, first, "").write(mib)
		if err := s.end(); err != nil {
			t.Errorf("Read() next to stalled bodies = %v, want nil", err)
		}
		checkReleased(t, b, append(all, s)...)
	})
}

// TestOversizedBodiesAreRefused checks that bodies above the limit are refused, with and without a known length, and
// also bodies that exceed a share of the budget.
func TestOversizedBodiesAreRefused(t *testing.T) {
	b := bodies.New(budget)
	counted, finish := b.Begin(httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", nil), first, func() {})
	for name, ctx := range map[string]context.Context{
		"with a Request": counted.Context(), "without a Request": t.Context(),
	} {
		for _, c := range []struct{ length, size, limit int64 }{{11, 0, 10}, {-1, 11, 10}, {11, 11, 10}} {
			_, err := bodies.Read(ctx, strings.NewReader(strings.Repeat("x", int(c.size))), c.length, c.limit)
			if tooLarge, ok := errors.AsType[*http.MaxBytesError](err); !ok || tooLarge.Limit != c.limit {
				t.Errorf("%s: Read(%d bytes, length %d) = %v, want a MaxBytesError of %d", name, c.size, c.length, err, c.limit)
			}
		}
		for _, length := range []int64{-1, 10} {
			if body, err := bodies.Read(ctx, strings.NewReader("0123456789"), length, 10); err != nil ||
				string(body) != "0123456789" {
				t.Errorf("%s: Read(10 bytes, length %d) = %q, %v, want all", name, length, body, err)
			}
		}
	}
	_, err := bodies.Read(counted.Context(), strings.NewReader(strings.Repeat("x", 3*mib)), -1, 4*mib)
	if _, ok := errors.AsType[*http.MaxBytesError](err); !ok {
		t.Errorf("Read(more than a share) = %v, want a MaxBytesError", err)
	}
	if err := bodies.Reserve(counted.Context(), share+1); err == nil {
		t.Error("Reserve(more than a share) = nil, want an error")
	}
	finish()
	if inUse := b.InUse(); inUse != 0 {
		t.Errorf("InUse() = %d, want 0", inUse)
	}
}

// TestReadAfterResponseReservesNothing checks a body that is still being read when the response has been sent. Its
// bytes no longer count, reading it fails, and the request can't reserve more bytes.
func TestReadAfterResponseReservesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bodies.New(budget)
		s := send(t, b, first, "acme").write(100_000)
		s.finish()
		if inUse := b.InUse(); inUse != 0 {
			t.Errorf("InUse() after the response = %d, want 0", inUse)
		}
		s.write(500_000)
		if err := s.end(); !errors.Is(err, bodies.ErrBusy) {
			t.Errorf("Read() after the response = %v, want ErrBusy", err)
		}
		if bodies.TryReserve(s.ctx, 1) {
			t.Error("TryReserve() after the response = true, want false")
		}
		if bodies.Reserve(s.ctx, 1) == nil {
			t.Error("Reserve() after the response = nil, want an error")
		}
		if inUse := b.InUse(); inUse != 0 {
			t.Errorf("InUse() at the end = %d, want 0", inUse)
		}
	})
}

// TestConcurrentReaders is for the race detector: many bodies arrive at once and abort each other.
func TestConcurrentReaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bodies.New(budget)
		var all []*sender
		for i := range 200 {
			s := send(t, b, netip.AddrFrom4([4]byte{192, 0, 2, byte(i % 7)}), "")
			all = append(all, s)
			go func() {
				for range 10 {
					_, _ = io.WriteString(s.pipe, strings.Repeat("x", 60_000))
				}
				_ = s.pipe.Close()
				<-s.done
				s.finish()
			}()
		}
		for _, s := range all {
			<-s.done
			if s.err != nil && !errors.Is(s.err, bodies.ErrBusy) {
				t.Errorf("Read() = %v, want nil or ErrBusy", s.err)
			}
			if inUse := b.InUse(); inUse > budget {
				t.Errorf("InUse() = %d, want at most %d", inUse, int64(budget))
			}
		}
		synctest.Wait()
		if inUse := b.InUse(); inUse != 0 {
			t.Errorf("InUse() after all requests = %d, want 0", inUse)
		}
	})
}
