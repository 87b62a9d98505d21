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

	"github.com/gatewright/gatewright/shared/format/tunnel"
)

// TestInvalidServiceResponses makes a service respond with statuses that are invalid or have a special meaning.
func TestInvalidServiceResponses(t *testing.T) {
	for _, c := range []struct{ name, rawResponse, want string }{
		{"an unexpected switch of protocols", "101 x\r\nConnection: Upgrade\r\nUpgrade: odd\r\n\r\nsecret", "unusable"},
		{"a switch without a protocol", "101 x\r\n\r\nsecret", "unusable"},
		{"a status below 100", "099 x\r\nContent-Length: 0\r\n\r\n", "unusable"},
		{"a 304 with a length", "304 x\r\nContent-Length: 5\r\n\r\n", "304 "},
		{"a 204 with a length", "204 x\r\nContent-Length: 5\r\n\r\n", "204 "},
		{"an ordinary response", "200 x\r\nContent-Length: 5\r\n\r\nhello", "200 hello"},
	} {
		t.Run(c.name, func(t *testing.T) {
			fx := newFixture(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				conn, _, err := http.NewResponseController(w).Hijack()
				if err != nil {
					t.Error(err)
					return
				}
				_, _ = io.WriteString(conn, "HTTP/1.1 "+c.rawResponse)
				_ = conn.Close()
			}))
			fx.run(fx.options())
			response, err := fx.do(http.MethodGet, "/", nil)
			var got string
			if failure, ok := errors.AsType[*tunnel.Error](err); ok {
				got = string(failure.Failure)
			} else if err != nil {
				got = err.Error()
			} else {
				got = fmt.Sprintf("%d %s", response.StatusCode, readBody(t, response, err))
			}
			if got != c.want {
				t.Errorf("response = %q, want %q", got, c.want)
			}
		})
	}
}

// TestHintsEndWithTheResponse checks that a transport that reads further 1xx responses
// after the final response gets an error. Writing them would crash the agent.
func TestHintsEndWithTheResponse(t *testing.T) {
	fx := newFixture(t, http.HandlerFunc(echo))
	traces := make(chan *httptrace.ClientTrace, 1)
	o := fx.options()
	o.Transport = roundTripper(func(r *http.Request) (*http.Response, error) {
		trace := httptrace.ContextClientTrace(r.Context())
		if err := trace.Got1xxResponse(http.StatusEarlyHints, textproto.MIMEHeader{"Link": {"</a>"}}); err != nil {
			t.Errorf("Got1xxResponse(103) = %v, want nil", err)
		}
		if trace.Got1xxResponse(http.StatusSwitchingProtocols, nil) == nil {
			t.Error("Got1xxResponse(101) = nil, want an error")
		}
		traces <- trace
		return nil, io.ErrUnexpectedEOF
	})
	fx.run(o)
	hints := 0
	_, err := fx.do(http.MethodGet, "/", nil, func(r *http.Request) {
		*r = *r.WithContext(httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{
			Got1xxResponse: func(int, textproto.MIMEHeader) error {
				hints++
				return nil
			},
		}))
	})
	if failure, ok := errors.AsType[*tunnel.Error](err); !ok || failure.Failure != tunnel.Unreachable || hints != 1 {
		t.Fatalf("response error = %v after %d hints, want %v after 1", err, hints, tunnel.Unreachable)
	}
	defer func() {
		if v := recover(); v != nil {
			t.Errorf("late hint panics with %v, want an error", v)
		}
	}()
	if (<-traces).Got1xxResponse(http.StatusEarlyHints, nil) == nil {
		t.Error("Got1xxResponse(late hint) = nil, want an error")
	}
}

// TestUnknownFailureBecomesUnreachable makes an agent report known and unknown failures.
// The unknown failures include those of relays, after which a request can be sent again.
func TestUnknownFailureBecomesUnreachable(t *testing.T) {
	for _, c := range []struct{ reported, want string }{
		{"", "unreachable"}, // the agent reports a switch of protocols that the client did not request
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
		t.Run(fmt.Sprintf("failure %q", c.reported), func(t *testing.T) {
			fx := newFixture(t, http.HandlerFunc(echo))
			fx.connectAs(token, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				switch {
				case r.URL.Path == "/leaving":
					<-r.Context().Done()
				case strings.HasPrefix(r.Host, "agent."):
					w.WriteHeader(http.StatusNoContent)
				case c.reported == "":
					w.Header().Set("Gatewright-Tunnel-Switched", "odd")
				default:
					w.Header().Set("Gatewright-Tunnel-Failure", c.reported)
				}
			}))
			_, err := fx.do(http.MethodGet, "/", nil)
			if failure, ok := errors.AsType[*tunnel.Error](err); !ok || string(failure.Failure) != c.want {
				t.Errorf("response error = %v, want %s", err, c.want)
			}
		})
	}
}

// TestBodilessResponseMayHaveALength checks a 204 and a 304 with a Content-Length, from an agent that does not remove
// the field.
func TestBodilessResponseMayHaveALength(t *testing.T) {
	for _, status := range []int{http.StatusNoContent, http.StatusNotModified} {
		fx := newFixture(t, http.HandlerFunc(echo))
		fx.connectAs(token, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
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
		response, err := fx.do(http.MethodGet, "/", nil)
		if got := readBody(t, response, err); got != "" || response.StatusCode != status {
			t.Errorf("response = %d %q, want %d without a body", response.StatusCode, got, status)
		}
	}
}

// connectAs connects like an agent, and serves all requests with h.
func (fx *fixture) connectAs(token string, h http.Handler) {
	fx.t.Helper()
	conn, status := fx.connect(token)
	if status != http.StatusSwitchingProtocols {
		fx.t.Fatalf("connection: status = %d, want 101", status)
	}
	fx.serve(conn, h)
	fx.waitFor(func() bool { return len(fx.relay.ForTunnel(tunnelID)) > 0 })
}

// serve serves the requests on a connection with h, until the connection ends.
func (fx *fixture) serve(conn net.Conn, h http.Handler) (ended <-chan struct{}) {
	l := &onceListener{conn: make(chan net.Conn, 1), done: make(chan struct{})}
	done := make(chan struct{})
	server := &http.Server{Handler: h, Protocols: new(http.Protocols), ConnState: func(_ net.Conn, state http.ConnState) {
		if state == http.StateClosed {
			close(done)
		}
	}}
	server.Protocols.SetUnencryptedHTTP2(true)
	l.conn <- conn
	go func() { _ = server.Serve(l) }()
	fx.t.Cleanup(func() { l.finish(); _ = server.Close() })
	return done
}

// onceListener is a listener that accepts one connection.
type onceListener struct {
	conn chan net.Conn
	done chan struct{}
	sync.Once
}

func (l *onceListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conn:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}
func (l *onceListener) finish()        { l.Do(func() { close(l.done) }) }
func (l *onceListener) Close() error   { l.finish(); return nil }
func (l *onceListener) Addr() net.Addr { return &net.TCPAddr{} }

// bufferedConn is a connection with a buffered reader that can have read ahead.
type bufferedConn struct {
	net.Conn
	r *bufio.Reader
}

func (c *bufferedConn) Read(p []byte) (int, error) { return c.r.Read(p) }
