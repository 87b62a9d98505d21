package tunnel

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"time"

	"github.com/coder/websocket"
)

// connectTimeout is the maximum time to connect to a relay and switch protocols.
const connectTimeout = 30 * time.Second

// connect opens a connection to the relay. It returns ErrRefused if the relay does not accept the token.
func (a *Agent) connect(ctx context.Context) (net.Conn, error) {
	token, err := a.options.Token()
	if err != nil {
		return nil, fmt.Errorf("read the token: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	var conn net.Conn
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(info httptrace.GotConnInfo) { conn = info.Conn },
	})
	if a.options.WebSocket {
		wsConn, err := a.connectWebSocket(ctx, token)
		return wsConn, wrapConnectError(err, conn != nil)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, a.options.Relay.JoinPath(ConnectPath).String(), nil)
	if err != nil {
		return nil, fmt.Errorf("ask the relay: %w", err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Connection", "Upgrade")
	r.Header.Set("Upgrade", Protocol)
	response, err := a.transport().RoundTrip(r)
	if err != nil {
		return nil, wrapConnectError(err, conn != nil)
	}
	if response.StatusCode != http.StatusSwitchingProtocols {
		defer func() { _ = response.Body.Close() }()
		return nil, refusal(response)
	}
	rw, ok := response.Body.(io.ReadWriteCloser)
	if !ok || response.Header.Get("Upgrade") != Protocol {
		_ = response.Body.Close()
		return nil, wrapConnectError(ErrNotRelay, true)
	}
	return &upgradedConn{Conn: conn, rw: rw}, nil
}

// upgradedConn is a connection after its protocol was switched. It reads
// through rw, because net/http can have read more than the response.
type upgradedConn struct {
	net.Conn
	rw io.ReadWriteCloser
}

func (c *upgradedConn) Read(p []byte) (int, error)  { return c.rw.Read(p) }
func (c *upgradedConn) Write(p []byte) (int, error) { return c.rw.Write(p) }
func (c *upgradedConn) Close() error                { return c.rw.Close() }

// transport returns a transport for one HTTP/1.1 connection. HTTP/1.1 can switch protocols.
func (a *Agent) transport() *http.Transport {
	t := &http.Transport{
		Proxy: http.ProxyFromEnvironment, DialContext: a.options.Dial,
		TLSClientConfig: a.options.TLS.Clone(), TLSHandshakeTimeout: connectTimeout, MaxResponseHeaderBytes: maxHeaderBytes,
		Protocols: new(http.Protocols), ReadBufferSize: connBytes, WriteBufferSize: connBytes,
		DisableKeepAlives: true, // a refused attempt leaves no connection open
	}
	if t.DialContext == nil {
		t.DialContext = (&net.Dialer{Timeout: connectTimeout, KeepAlive: keepAlive}).DialContext
	}
	t.Protocols.SetHTTP1(true)
	return t
}

func (a *Agent) connectWebSocket(ctx context.Context, token string) (net.Conn, error) {
	conn, response, err := websocket.Dial(ctx, //nolint:bodyclose // the library reads and replaces the body
		a.options.Relay.JoinPath(ConnectPath).String(), &websocket.DialOptions{
			// Do not follow redirects: another host would see the token.
			HTTPClient: &http.Client{Transport: a.transport(), CheckRedirect: func(*http.Request, []*http.Request) error {
				return http.ErrUseLastResponse
			}},
			HTTPHeader:   http.Header{"Authorization": {"Bearer " + token}},
			Subprotocols: []string{Protocol},
		})
	switch {
	case err != nil && response != nil && response.StatusCode != http.StatusSwitchingProtocols:
		return nil, refusal(response)
	case err != nil:
		return nil, err
	case conn.Subprotocol() != Protocol:
		_ = conn.CloseNow()
		return nil, ErrNotRelay
	}
	return webSocketConn(ctx, conn), nil
}

// wrapConnectError adds a prefix to the error of an attempt to connect to the relay. It returns nil, a StatusError and
// ErrRefused unchanged. connected reports whether a server accepted the connection. If so, the wrapped error is also an
// ErrNotRelay.
func wrapConnectError(err error, connected bool) error {
	_, responded := errors.AsType[*StatusError](err)
	switch {
	case err == nil, responded, errors.Is(err, ErrRefused):
		return err
	case connected && !errors.Is(err, ErrNotRelay):
		err = fmt.Errorf("%w: %w", ErrNotRelay, err)
	}
	return fmt.Errorf("connect to the relay: %w", err)
}

// webSocketConn returns a WebSocket as a net.Conn, a stream of bytes.
func webSocketConn(ctx context.Context, conn *websocket.Conn) net.Conn {
	conn.SetReadLimit(-1) // no limit for WebSocket messages: they carry HTTP/2, which limits its frames
	return websocket.NetConn(context.WithoutCancel(ctx), conn, websocket.MessageBinary)
}

// refusal converts a response other than 101 to an error. A relay responds 401 to an invalid token. It never responds
// 403 to an agent: that is the response of a proxy, and does not mean that the token is invalid.
func refusal(response *http.Response) error {
	if response.StatusCode == http.StatusUnauthorized {
		return ErrRefused
	}
	return &StatusError{response.StatusCode}
}

// StatusError means that a relay, or a proxy in front of it, has responded without switching protocols.
type StatusError struct{ Status int }

// Error implements error. The text has the response's status code, and nothing of its reason phrase and body.
func (e *StatusError) Error() string {
	return strings.TrimSpace(fmt.Sprintf("the relay answers %d %s", e.Status, http.StatusText(e.Status)))
}

// Authorizer returns the ID of the tunnel that a token belongs to, or "" if the token is not valid.
type Authorizer func(ctx context.Context, token string) (tunnelID string, err error)

// accept switches the protocol of an agent's request, and returns the
// connection. If it returns an error, the request needs no further response.
func accept(w http.ResponseWriter, r *http.Request) (net.Conn, error) {
	if strings.EqualFold(r.Header.Get("Upgrade"), webSocket) {
		conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{
			Subprotocols: []string{Protocol}, CompressionMode: websocket.CompressionDisabled,
		})
		if err != nil {
			return nil, fmt.Errorf("accept an agent's WebSocket: %w", err)
		}
		return webSocketConn(r.Context(), conn), nil
	}
	if r.Header.Get("Upgrade") != Protocol {
		w.Header().Set("Upgrade", Protocol+", "+webSocket)
		http.Error(w, "Agents of tunnels connect here.", http.StatusUpgradeRequired)
		return nil, errors.New("tunnel: the request asks for another protocol")
	}
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		http.Error(w, "Use HTTP/1.1.", http.StatusHTTPVersionNotSupported)
		return nil, fmt.Errorf("take an agent's connection over: %w", err)
	}
	_ = conn.SetDeadline(time.Time{})
	_, err = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: "+
		Protocol+"\r\n\r\n")
	if err == nil && buffered.Reader.Buffered() > 0 {
		err = errors.New("tunnel: the agent speaks before it was asked")
	}
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	return conn, nil
}
