package tunnel_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"sync"
	"testing"

	"github.com/gatewright/gatewright/shared/tunnel"
)

// TestAnswersThatAreNone has a service answer by statuses that say less, or something else,
// than they seem to.
func TestAnswersThatAreNone(t *testing.T) {
	for _, c := range []struct{ name, answer, want string }{
		{"a switch that nobody asked for", "101 x\r\nConnection: Upgrade\r\nUpgrade: odd\r\n\r\nsecret", "unusable"},
		{"a switch to nothing", "101 x\r\n\r\nsecret", "unusable"},
		{"a status below all", "099 x\r\nContent-Length: 0\r\n\r\n", "unusable"},
		{"what was not modified has a length", "304 x\r\nContent-Length: 5\r\n\r\n", "304 "},
		{"nothing has a length", "204 x\r\nContent-Length: 5\r\n\r\n", "204 "},
		{"an answer", "200 x\r\nContent-Length: 5\r\n\r\nhello", "200 hello"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				conn, _, err := http.NewResponseController(w).Hijack()
				if err != nil {
					t.Error(err)
					return
				}
				_, _ = io.WriteString(conn, "HTTP/1.1 "+c.answer)
				_ = conn.Close()
			}))
			w.run(w.options())
			response, err := w.ask(http.MethodGet, "/", nil)
			var got string
			if failure, ok := errors.AsType[*tunnel.Error](err); ok {
				got = string(failure.Failure)
			} else {
				got = fmt.Sprintf("%d %s", response.StatusCode, text(t, response, err))
			}
			if got != c.want {
				t.Errorf("it answers %q, want %q", got, c.want)
			}
		})
	}
}

// TestHintsEndWithTheAnswer: a transport that reads more of them then is told that they
// are for nobody. To write them would end the agent's process.
func TestHintsEndWithTheAnswer(t *testing.T) {
	w := newWorld(t, http.HandlerFunc(echo))
	traces := make(chan *httptrace.ClientTrace, 1)
	o := w.options()
	o.Transport = asks(func(r *http.Request) (*http.Response, error) {
		trace := httptrace.ContextClientTrace(r.Context())
		if err := trace.Got1xxResponse(http.StatusEarlyHints, textproto.MIMEHeader{"Link": {"</a>"}}); err != nil {
			t.Errorf("a hint is refused: %v", err)
		}
		if trace.Got1xxResponse(http.StatusSwitchingProtocols, nil) == nil {
			t.Error("a switch is taken for a hint")
		}
		traces <- trace
		return nil, io.ErrUnexpectedEOF
	})
	w.run(o)
	hints := 0
	_, err := w.ask(http.MethodGet, "/", nil, func(r *http.Request) {
		*r = *r.WithContext(httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{
			Got1xxResponse: func(int, textproto.MIMEHeader) error {
				hints++
				return nil
			},
		}))
	})
	if failure, ok := errors.AsType[*tunnel.Error](err); !ok || failure.Failure != tunnel.Unreachable || hints != 1 {
		t.Fatalf("it answers %v after %d hints", err, hints)
	}
	defer func() {
		if v := recover(); v != nil {
			t.Errorf("a hint that comes late ends the process: %v", v)
		}
	}()
	if (<-traces).Got1xxResponse(http.StatusEarlyHints, nil) == nil {
		t.Error("a hint that comes late is taken")
	}
}

// asks is a http.RoundTripper.
type asks func(*http.Request) (*http.Response, error)

func (a asks) RoundTrip(r *http.Request) (*http.Response, error) { return a(r) }

// TestFailuresAreOfThoseThereAre has an agent name others, such as those by which relays say
// that a request may be sent again.
func TestFailuresAreOfThoseThereAre(t *testing.T) {
	for _, c := range []struct{ said, want string }{
		{"", "unreachable"}, // it says that the service has switched, unasked
		{"late", "late"},
		{"not-allowed", "not-allowed"},
		{"unknown-service", "unknown-service"},
		{"unreachable", "unreachable"},
		{"unusable", "unusable"},
		{"no-agent", "unreachable"},
		{"unavailable", "unreachable"},
		{"refused", "unreachable"},
		{"service", "unreachable"},
		{"Late", "unreachable"},
	} {
		t.Run(c.said, func(t *testing.T) {
			w := newWorld(t, http.HandlerFunc(echo))
			w.pose(token, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				switch {
				case r.URL.Path == "/leaving":
					<-r.Context().Done()
				case strings.HasPrefix(r.Host, "agent."):
					w.WriteHeader(http.StatusNoContent)
				case c.said == "":
					w.Header().Set("Gatewright-Tunnel-Switched", "odd")
				default:
					w.Header().Set("Gatewright-Tunnel-Failure", c.said)
				}
			}))
			_, err := w.ask(http.MethodGet, "/", nil)
			if failure, ok := errors.AsType[*tunnel.Error](err); !ok || string(failure.Failure) != c.want {
				t.Errorf("it is told %v, want %s", err, c.want)
			}
		})
	}
}

// TestNothingMayHaveALength has an agent of another version tell the length of what a 304 stands for.
func TestNothingMayHaveALength(t *testing.T) {
	for _, status := range []int{http.StatusNoContent, http.StatusNotModified} {
		w := newWorld(t, http.HandlerFunc(echo))
		w.pose(token, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch {
			case r.URL.Path == "/leaving":
				<-r.Context().Done()
			case strings.HasPrefix(r.Host, "agent."):
				w.WriteHeader(http.StatusNoContent)
			default:
				w.Header().Set("Content-Length", "5")
				w.WriteHeader(status)
			}
		}))
		response, err := w.ask(http.MethodGet, "/", nil)
		if got := text(t, response, err); got != "" || response.StatusCode != status {
			t.Errorf("it answers %d %q, want %d", response.StatusCode, got, status)
		}
	}
}

// pose connects as an agent does, and answers all that comes by h.
func (w *world) pose(token string, h http.Handler) {
	w.t.Helper()
	conn, status := w.connect(token)
	if status != http.StatusSwitchingProtocols {
		w.t.Fatalf("it is answered %d", status)
	}
	w.answer(conn, h)
	w.until(func() bool { return len(w.relay.Of(tunnelID)) > 0 })
}

// answer answers what comes on a connection by h, until it ends.
func (w *world) answer(conn net.Conn, h http.Handler) (ended <-chan struct{}) {
	l := &once{conn: make(chan net.Conn, 1), over: make(chan struct{})}
	over := make(chan struct{})
	server := &http.Server{Handler: h, Protocols: new(http.Protocols), ConnState: func(_ net.Conn, state http.ConnState) {
		if state == http.StateClosed {
			close(over)
		}
	}}
	server.Protocols.SetUnencryptedHTTP2(true)
	l.conn <- conn
	go func() { _ = server.Serve(l) }()
	w.t.Cleanup(func() { l.end(); _ = server.Close() })
	return over
}

// once is a listener with one connection.
type once struct {
	conn chan net.Conn
	over chan struct{}
	sync.Once
}

func (l *once) Accept() (net.Conn, error) {
	select {
	case c := <-l.conn:
		return c, nil
	case <-l.over:
		return nil, net.ErrClosed
	}
}
func (l *once) end()           { l.Do(func() { close(l.over) }) }
func (l *once) Close() error   { l.end(); return nil }
func (l *once) Addr() net.Addr { return &net.TCPAddr{} }

// ahead is a connection of which some was read ahead.
type ahead struct {
	net.Conn
	r *bufio.Reader
}

func (c *ahead) Read(p []byte) (int, error) { return c.r.Read(p) }
