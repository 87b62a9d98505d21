package tunnel_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatewright/gatewright/shared/format/tunnel"
)

// idleDropTime is the time after which proxies and address translators drop a silent connection.
const idleDropTime = 60 * time.Second

// wire is a connection between an agent and a relay, in a bubble of synctest.
type wire struct {
	sides [2]*wireEnd

	mu sync.Mutex
	// silent makes the wire discard all data without an error.
	silent         bool
	lastWrite      time.Time
	longestSilence time.Duration // longest time without written data
}

// The ends of a wire.
const (
	agentSide = iota
	relaySide
)

type wireEnd struct {
	net.Conn
	w      *wire
	closed chan struct{}
	once   sync.Once
}

func newWire() *wire {
	w := &wire{lastWrite: time.Now()}
	a, b := net.Pipe()
	for i, c := range []net.Conn{a, b} {
		w.sides[i] = &wireEnd{Conn: c, w: w, closed: make(chan struct{})}
	}
	return w
}

// dropData makes the wire discard all data. Neither end notices that.
func (w *wire) dropData() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.silent = true
}

func (e *wireEnd) Write(p []byte) (int, error) {
	e.w.mu.Lock()
	silent := e.w.silent
	e.w.longestSilence = max(e.w.longestSilence, time.Since(e.w.lastWrite))
	e.w.lastWrite = time.Now()
	e.w.mu.Unlock()
	if silent {
		return len(p), nil
	}
	return e.Conn.Write(p)
}

// Close does not notify the other end if the wire discards all data.
func (e *wireEnd) Close() error {
	e.once.Do(func() { close(e.closed) })
	e.w.mu.Lock()
	silent := e.w.silent
	e.w.mu.Unlock()
	if silent {
		return e.SetDeadline(time.Unix(1, 0))
	}
	return e.Conn.Close()
}

func (e *wireEnd) isClosed() bool {
	select {
	case <-e.closed:
		return true
	default:
		return false
	}
}

// wireNetwork is a listener for wires. It keeps all wires that were dialed.
type wireNetwork struct {
	accept chan net.Conn
	closed chan struct{}
	once   sync.Once

	mu      sync.Mutex
	created []*wire
}

func (n *wireNetwork) dial(context.Context, string, string) (net.Conn, error) {
	w := newWire()
	n.mu.Lock()
	n.created = append(n.created, w)
	n.mu.Unlock()
	n.accept <- w.sides[relaySide]
	return w.sides[agentSide], nil
}

func (n *wireNetwork) all() []*wire {
	n.mu.Lock()
	defer n.mu.Unlock()
	return append([]*wire(nil), n.created...)
}

func (n *wireNetwork) Accept() (net.Conn, error) {
	select {
	case c := <-n.accept:
		return c, nil
	case <-n.closed:
		return nil, net.ErrClosed
	}
}

func (n *wireNetwork) Close() error {
	n.once.Do(func() { close(n.closed) })
	return nil
}

func (n *wireNetwork) Addr() net.Addr { return n.addr() }

func (*wireNetwork) addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 80} }

// runInBubble runs test with a relay and an agent with two connections,
// in a bubble of synctest. changes change the agent's options.
func runInBubble(
	t *testing.T, test func(t *testing.T, relay *tunnel.Relay, ws *wireNetwork, end func()),
	changes ...func(o *tunnel.AgentOptions),
) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		log := slog.New(slog.DiscardHandler)
		relay := tunnel.NewRelay(tunnel.RelayOptions{
			Authenticate: func(context.Context, string) (string, error) { return tunnelID, nil },
			Services:     func(context.Context, string) ([]tunnel.Service, error) { return nil, nil },
			Log:          log,
		})
		ws := &wireNetwork{accept: make(chan net.Conn), closed: make(chan struct{})}
		server := &http.Server{Handler: relay}
		go func() { _ = server.Serve(ws) }()
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		o := tunnel.AgentOptions{
			Relay: &url.URL{Scheme: "http", Host: "relay.test"}, Log: log, Dial: ws.dial,
			Token: func() (string, error) { return token, nil },
		}
		for _, change := range changes {
			change(&o)
		}
		go func() {
			defer close(ended)
			_ = tunnel.NewAgent(o).Run(ctx, time.Hour)
		}()
		synctest.Wait()
		end := func() {
			stop()
			<-ended
		}
		test(t, relay, ws, end)
		end()
		_ = server.Close()
		for _, w := range ws.all() {
			for _, e := range w.sides {
				_ = e.Conn.Close()
			}
		}
		synctest.Wait()
	})
}

// TestIdleConnectionsStayOpen checks that connections stay open for hours without requests.
func TestIdleConnectionsStayOpen(t *testing.T) {
	runInBubble(t, func(t *testing.T, relay *tunnel.Relay, ws *wireNetwork, _ func()) {
		time.Sleep(8 * time.Hour)
		synctest.Wait()
		if n := len(relay.ForTunnel(tunnelID)); n != 2 || len(ws.all()) != 2 {
			t.Errorf("connections after 8 hours = %d of %d made, want 2 of 2", n, len(ws.all()))
		}
		for _, w := range ws.all() {
			if w.longestSilence >= idleDropTime {
				t.Errorf("longest silence of a connection = %v, want less than %v", w.longestSilence, idleDropTime)
			}
		}
	})
}

// TestHalfOpenConnectionEnds drops all data of connections without notifying either end,
// as if a machine is switched off or an address translator drops them.
func TestHalfOpenConnectionEnds(t *testing.T) {
	runInBubble(t, func(t *testing.T, relay *tunnel.Relay, ws *wireNetwork, _ func()) {
		before := ws.all()
		old := relay.ForTunnel(tunnelID)
		if len(before) != 2 || len(old) != 2 {
			t.Fatalf("connections = %d of %d made, want 2 of 2", len(old), len(before))
		}
		for _, w := range before {
			w.dropData()
		}
		time.Sleep(idleDropTime)
		synctest.Wait()
		for _, w := range before {
			for i, name := range []string{"agent", "relay"} {
				if !w.sides[i].isClosed() {
					t.Errorf("connection of the %s remains open after its other end is gone, want it closed", name)
				}
			}
		}
		if n := len(relay.ForTunnel(tunnelID)); n != 2 || len(ws.all()) != 4 {
			t.Errorf("connections = %d of %d made, want 2 of 4", n, len(ws.all()))
		}
		for _, l := range old {
			select {
			case <-l.Done():
			default:
				t.Error("Done() of a connection without another end is open, want it closed")
			}
		}
	})
}

// TestStopWhileConnecting stops agents at the moment when their relay has switched protocols.
func TestStopWhileConnecting(t *testing.T) {
	for range 200 {
		ctx, stop := context.WithCancel(t.Context())
		agent := tunnel.NewAgent(tunnel.AgentOptions{
			Relay: &url.URL{Scheme: "http", Host: "relay.test"}, Log: slog.New(slog.DiscardHandler),
			Token: func() (string, error) { return token, nil },
			Dial: func(context.Context, string, string) (net.Conn, error) {
				a, b := net.Pipe()
				go func() {
					if _, err := http.ReadRequest(bufio.NewReader(b)); err != nil {
						return
					}
					_, _ = io.WriteString(b, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: "+
						tunnel.Protocol+"\r\n\r\n")
					stop()
					_, _ = io.Copy(io.Discard, b)
				}()
				return a, nil
			},
		})
		done := make(chan error, 1)
		go func() { done <- agent.Run(ctx, time.Millisecond) }()
		select {
		case err := <-done:
			if !errors.Is(err, context.Canceled) {
				t.Errorf("Run() = %v, want %v", err, context.Canceled)
			}
		case <-time.After(timeout / 2):
			t.Fatalf("Run() has not returned after %v, want %v", timeout/2, context.Canceled)
		}
	}
}
