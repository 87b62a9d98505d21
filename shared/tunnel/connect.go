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

// connectTimeout bounds a connection to a relay until it has switched protocols.
const connectTimeout = 30 * time.Second

// connect opens a connection to the relay. It answers ErrRefused for a token that the
// relay does not take.
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
		switched, err := a.connectWebSocket(ctx, token)
		return switched, connectFailed(err, conn != nil)
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
		return nil, connectFailed(err, conn != nil)
	}
	if response.StatusCode != http.StatusSwitchingProtocols {
		defer func() { _ = response.Body.Close() }()
		return nil, refusal(response)
	}
	both, ok := response.Body.(io.ReadWriteCloser)
	if !ok || response.Header.Get("Upgrade") != Protocol {
		_ = response.Body.Close()
		return nil, connectFailed(ErrNoRelay, true)
	}
	return &dialled{Conn: conn, both: both}, nil
}

// dialled is a connection behind what its HTTP client has read ahead.
type dialled struct {
	net.Conn
	both io.ReadWriteCloser
}

func (c *dialled) Read(p []byte) (int, error)  { return c.both.Read(p) }
func (c *dialled) Write(p []byte) (int, error) { return c.both.Write(p) }
func (c *dialled) Close() error                { return c.both.Close() }

// transport makes one connection: by HTTP/1.1, which can switch.
func (a *Agent) transport() *http.Transport {
	t := &http.Transport{
		Proxy: http.ProxyFromEnvironment, DialContext: a.options.Dial,
		TLSClientConfig: a.options.TLS.Clone(), TLSHandshakeTimeout: connectTimeout, MaxResponseHeaderBytes: maxHeaderBytes,
		Protocols: new(http.Protocols), ReadBufferSize: connBytes, WriteBufferSize: connBytes,
		DisableKeepAlives: true, // a refused attempt leaves no connection behind
	}
	if t.DialContext == nil {
		t.DialContext = (&net.Dialer{Timeout: connectTimeout, KeepAlive: keepAlive}).DialContext
	}
	t.Protocols.SetHTTP1(true)
	return t
}

func (a *Agent) connectWebSocket(ctx context.Context, token string) (net.Conn, error) {
	conn, response, err := websocket.Dial(ctx, //nolint:bodyclose // the library reads and replaces it
		a.options.Relay.JoinPath(ConnectPath).String(), &websocket.DialOptions{
			// Elsewhere the token would be a stranger's to see.
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
		return nil, ErrNoRelay
	}
	return messages(ctx, conn), nil
}

// connectFailed says of an error whether anything was there that took the connection:
// then it is an ErrNoRelay too, but for answers and refusals, which are told as they are.
func connectFailed(err error, connected bool) error {
	_, answered := errors.AsType[*AnswerError](err)
	switch {
	case err == nil, answered, errors.Is(err, ErrRefused):
		return err
	case connected && !errors.Is(err, ErrNoRelay):
		err = fmt.Errorf("%w: %w", ErrNoRelay, err)
	}
	return fmt.Errorf("connect to the relay: %w", err)
}

// messages is a WebSocket as a stream of bytes.
func messages(ctx context.Context, conn *websocket.Conn) net.Conn {
	conn.SetReadLimit(-1) // frames of HTTP/2 have bounds of their own
	return websocket.NetConn(context.WithoutCancel(ctx), conn, websocket.MessageBinary)
}

// refusal is what an answer other than 101 means. A relay says 401 of a token; a 403 is that of
// a proxy in between, which knows nothing of tokens.
func refusal(response *http.Response) error {
	if response.StatusCode == http.StatusUnauthorized {
		return ErrRefused
	}
	return &AnswerError{response.StatusCode}
}

// AnswerError says that a relay has answered otherwise than by switching protocols.
type AnswerError struct{ Status int }

// Error implements error. It has nothing that the relay has written.
func (e *AnswerError) Error() string {
	return strings.TrimSpace(fmt.Sprintf("the relay answers %d %s", e.Status, http.StatusText(e.Status)))
}

// Authorizer says which tunnel a token is of, "" for none.
type Authorizer func(ctx context.Context, token string) (tunnelID string, err error)

// accept switches the protocol of an agent's request. The error has been answered.
func accept(w http.ResponseWriter, r *http.Request) (net.Conn, error) {
	if strings.EqualFold(r.Header.Get("Upgrade"), webSocket) {
		conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{
			Subprotocols: []string{Protocol}, CompressionMode: websocket.CompressionDisabled,
		})
		if err != nil {
			return nil, fmt.Errorf("accept an agent's WebSocket: %w", err)
		}
		return messages(r.Context(), conn), nil
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
	_, err = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: "+Protocol+"\r\n\r\n")
	if err == nil && buffered.Reader.Buffered() > 0 {
		err = errors.New("tunnel: the agent speaks before it was asked")
	}
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	return conn, nil
}
