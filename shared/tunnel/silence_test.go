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

	"github.com/gatewright/gatewright/shared/tunnel"
)

// forgotten is how soon proxies and address translators drop a connection on which
// nothing goes.
const forgotten = 60 * time.Second

// wire is a connection between an agent and a relay, in a bubble's time.
type wire struct {
	ends [2]*end

	mu sync.Mutex
	// silent loses what is written from now on, and tells nobody.
	silent  bool
	last    time.Time
	longest time.Duration // without a byte
}

// The ends of a wire.
const (
	ofAgent = iota
	ofRelay
)

type end struct {
	net.Conn
	w      *wire
	closed chan struct{}
	once   sync.Once
}

func newWire() *wire {
	w := &wire{last: time.Now()}
	a, b := net.Pipe()
	for i, c := range []net.Conn{a, b} {
		w.ends[i] = &end{Conn: c, w: w, closed: make(chan struct{})}
	}
	return w
}

// cut makes the connection a half-open one, at both ends.
func (w *wire) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.silent = true
}

func (e *end) Write(p []byte) (int, error) {
	e.w.mu.Lock()
	silent := e.w.silent
	e.w.longest = max(e.w.longest, time.Since(e.w.last))
	e.w.last = time.Now()
	e.w.mu.Unlock()
	if silent {
		return len(p), nil
	}
	return e.Conn.Write(p)
}

// Close is not told to the other end of a connection that is cut.
func (e *end) Close() error {
	e.once.Do(func() { close(e.closed) })
	e.w.mu.Lock()
	silent := e.w.silent
	e.w.mu.Unlock()
	if silent {
		return e.SetDeadline(time.Unix(1, 0))
	}
	return e.Conn.Close()
}

func (e *end) isClosed() bool {
	select {
	case <-e.closed:
		return true
	default:
		return false
	}
}

// wires are a listener, and all connections that were made to it.
type wires struct {
	accept chan net.Conn
	closed chan struct{}
	once   sync.Once

	mu   sync.Mutex
	made []*wire
}

func (ws *wires) dial(context.Context, string, string) (net.Conn, error) {
	w := newWire()
	ws.mu.Lock()
	ws.made = append(ws.made, w)
	ws.mu.Unlock()
	ws.accept <- w.ends[ofRelay]
	return w.ends[ofAgent], nil
}

func (ws *wires) all() []*wire {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	return append([]*wire(nil), ws.made...)
}

func (ws *wires) Accept() (net.Conn, error) {
	select {
	case c := <-ws.accept:
		return c, nil
	case <-ws.closed:
		return nil, net.ErrClosed
	}
}

func (ws *wires) Close() error {
	ws.once.Do(func() { close(ws.closed) })
	return nil
}

func (ws *wires) Addr() net.Addr { return ws.addr() }

func (*wires) addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 80} }

// inBubble runs a relay and an agent with two connections in a bubble's time, as the changes have it.
func inBubble(t *testing.T, test func(t *testing.T, relay *tunnel.Relay, ws *wires, end func()), changes ...func(o *tunnel.AgentOptions)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		log := slog.New(slog.DiscardHandler)
		relay := tunnel.NewRelay(tunnel.RelayOptions{
			Authorize: func(context.Context, string) (string, error) { return tunnelID, nil },
			Services:  func(context.Context, string) ([]tunnel.Service, error) { return nil, nil },
			Log:       log,
		})
		ws := &wires{accept: make(chan net.Conn), closed: make(chan struct{})}
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
			for _, e := range w.ends {
				_ = e.Conn.Close()
			}
		}
		synctest.Wait()
	})
}

// TestConnectionsOutliveSilence has nobody ask anything for a night.
func TestConnectionsOutliveSilence(t *testing.T) {
	inBubble(t, func(t *testing.T, relay *tunnel.Relay, ws *wires, _ func()) {
		time.Sleep(8 * time.Hour)
		synctest.Wait()
		if n := len(relay.Of(tunnelID)); n != 2 || len(ws.all()) != 2 {
			t.Errorf("after a night there are %d connections, of %d that were made", n, len(ws.all()))
		}
		for _, w := range ws.all() {
			if w.longest >= forgotten {
				t.Errorf("nothing went over a connection for %v", w.longest)
			}
		}
	})
}

// TestHalfOpenConnectionEnds cuts connections so that neither end is told, as a machine
// that is switched off or a translator that forgets does.
func TestHalfOpenConnectionEnds(t *testing.T) {
	inBubble(t, func(t *testing.T, relay *tunnel.Relay, ws *wires, _ func()) {
		before := ws.all()
		old := relay.Of(tunnelID)
		if len(before) != 2 || len(old) != 2 {
			t.Fatalf("there are %d connections", len(old))
		}
		for _, w := range before {
			w.cut()
		}
		time.Sleep(forgotten)
		synctest.Wait()
		for _, w := range before {
			for i, name := range []string{"agent", "relay"} {
				if !w.ends[i].isClosed() {
					t.Errorf("the %s holds a connection whose other end is gone", name)
				}
			}
		}
		if n := len(relay.Of(tunnelID)); n != 2 || len(ws.all()) != 4 {
			t.Errorf("there are %d connections, of %d that were made", n, len(ws.all()))
		}
		for _, l := range old {
			select {
			case <-l.Done():
			default:
				t.Error("the relay has requests go to a connection whose other end is gone")
			}
		}
	})
}

// TestStopWhileConnecting ends agents at the moment at which their relay has switched.
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
					_, _ = io.WriteString(b, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: "+tunnel.Protocol+"\r\n\r\n")
					stop()
					_, _ = io.Copy(io.Discard, b)
				}()
				return a, nil
			},
		})
		ended := make(chan error, 1)
		go func() { ended <- agent.Run(ctx, time.Millisecond) }()
		select {
		case err := <-ended:
			if !errors.Is(err, context.Canceled) {
				t.Errorf("it ends with %v", err)
			}
		case <-time.After(timeout / 2):
			t.Fatal("it does not end")
		}
	}
}
