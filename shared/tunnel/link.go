package tunnel

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

// Link is a relay's end of one connection to an agent. It is safe for concurrent use.
type Link struct {
	conn   net.Conn
	client *http.ClientConn

	mu       sync.Mutex
	ready    bool // the agent knows its services
	draining bool
	busy     int           // requests, each until its answer's body has ended
	left     int           // requests whose clients left before their answers
	idle     chan struct{} // closed when draining and nothing is left

	done chan struct{} // closed when the connection has ended
	end  sync.Once
}

// linkTransport makes the HTTP clients of links, over the connections that newLink gives it.
func linkTransport() *http.Transport {
	t := &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			conn, _ := ctx.Value(dialledKey{}).(net.Conn)
			return conn, nil
		},
		MaxResponseHeaderBytes: maxHeaderBytes,
		DisableCompression:     true,
		Protocols:              new(http.Protocols),
		HTTP2: &http.HTTP2Config{
			SendPingTimeout: pingEvery, PingTimeout: pingTimeout, WriteByteTimeout: pingEvery + pingTimeout,
			MaxReadFrameSize: frameBytes, MaxReceiveBufferPerStream: streamWindow, MaxReceiveBufferPerConnection: connectionWindow,
		},
	}
	t.Protocols.SetUnencryptedHTTP2(true) // within TLS
	return t
}

// dialledKey is where linkTransport finds the connection that it is to take.
type dialledKey struct{}

// newLink makes the Link of a connection that an agent has dialled and that has
// switched to Protocol. All links of a relay have one transport, of linkTransport.
func newLink(ctx context.Context, transport *http.Transport, conn net.Conn) (*Link, error) {
	l := &Link{conn: conn, idle: make(chan struct{}), done: make(chan struct{})}
	ctx = context.WithValue(ctx, dialledKey{}, conn)
	client, err := transport.NewClientConn(ctx, "http", controlHost+":80")
	if err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("begin HTTP/2 with the agent: %w", err)
	}
	l.client = client
	client.SetStateHook(func(c *http.ClientConn) {
		if c.Err() != nil {
			l.ended()
		}
	})
	return l, nil
}

// Done is closed when the connection has ended.
func (l *Link) Done() <-chan struct{} { return l.done }

func (l *Link) ended() { l.end.Do(func() { close(l.done) }) }

// Close ends the connection at once, with what is under way on it.
func (l *Link) Close() {
	_ = l.client.Close()
	_ = l.conn.Close()
	l.ended()
}

// Configure tells the agent which services there are. Those that it knew and that are
// not named any more are gone.
func (l *Link) Configure(ctx context.Context, services []Service) error {
	// Escaped as for a page, the largest configuration would be more than an agent reads.
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(services); err != nil {
		return fmt.Errorf("encode the services: %w", err)
	}
	if err := l.control(ctx, http.MethodPut, "/services", text.Bytes()); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.ready {
		// closeWhenLeft takes it: requests that come first would fill the connection otherwise, and the agent
		// could not say that it leaves until one of them ends.
		if err := l.client.Reserve(); err != nil {
			return fmt.Errorf("ask the agent: %w", err)
		}
	}
	l.ready = true
	return nil
}

// Drain has the agent dial another connection, and returns when nothing is under way on
// this one any more, or ctx has ended. New requests are refused from now on.
func (l *Link) Drain(ctx context.Context) error {
	l.retire()
	if err := l.control(ctx, http.MethodPost, "/drain", nil); err != nil {
		return err
	}
	select {
	case <-l.idle:
	case <-l.done:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}

// retire has the link take no more requests.
func (l *Link) retire() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.draining {
		l.draining = true
		if l.busy == 0 {
			close(l.idle)
		}
	}
}

// closeWhenLeft waits until the agent leaves, and ends the connection then, when nothing is
// under way on it any more.
func (l *Link) closeWhenLeft(ctx context.Context) {
	if l.ask(ctx, http.MethodGet, "/leaving", nil) != nil {
		return // it has ended
	}
	l.retire()
	select {
	case <-l.idle:
		l.Close()
	case <-l.done:
	}
}

// control asks the agent by a stream of its own, so that the one of closeWhenLeft stays free. Where there is none, it waits.
func (l *Link) control(ctx context.Context, method, path string, body []byte) error {
	_ = l.client.Reserve() // there is none: what follows says why, or waits
	return l.ask(ctx, method, path, body)
}

func (l *Link) ask(ctx context.Context, method, path string, body []byte) error {
	r, err := http.NewRequestWithContext(ctx, method, "http://"+controlHost+path, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("ask the agent: %w", err)
	}
	response, err := l.client.RoundTrip(r)
	if err != nil {
		return fmt.Errorf("ask the agent: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusNoContent {
		return fmt.Errorf("ask the agent for %s %s: it answers %s", method, path, response.Status)
	}
	return nil
}

// inFlight is how many requests are under way, -1 for a link that takes no more.
func (l *Link) inFlight() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.takes() || l.client.Available() <= 0 {
		return -1
	}
	return l.busy
}

// usable reports whether requests go by the link, though it may have no room for one now.
func (l *Link) usable() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.takes()
}

// leaves reports whether the link was retired, and has not ended.
func (l *Link) leaves() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.draining && l.client.Err() == nil
}

// takes is usable with the lock held.
func (l *Link) takes() bool { return l.ready && !l.draining && l.client.Err() == nil }

// take counts a request; false for a link that takes no more.
func (l *Link) take() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.ready || l.draining || l.client.Reserve() != nil {
		return false
	}
	l.busy++
	return true
}

func (l *Link) giveBack() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.busy--
	if l.draining && l.busy == 0 {
		close(l.idle)
	}
}

// errNotTaken says that a link did not take a request: it never left.
var errNotTaken = errors.New("tunnel: the connection takes no more requests")

// roundTrip sends a request for a service and answers its response, or an *Error for
// one that is the agent's own. r and its header belong to it from then on.
func (l *Link) roundTrip(r *http.Request, service string, c Caller) (*http.Response, error) {
	if !l.take() {
		return nil, errNotTaken
	}
	client := r.Context()
	var a asking
	r, stop := a.watch(r)
	over := sync.OnceFunc(func() {
		stop()
		l.giveBack()
	})
	// Which server the request was for is nobody's business: the agent knows its own requests by
	// their host.
	u := *r.URL
	u.Scheme, u.Host, u.User = "http", serviceHost, nil
	r.URL, r.Host = &u, ""
	takeOff(r.Header)
	r.Header[fieldService] = []string{service}
	r.Header[fieldProject], r.Header[fieldEnvironment] = []string{c.Project}, []string{c.Environment}
	if _, named := r.Header["User-Agent"]; !named {
		r.Header["User-Agent"] = []string{""} // net/http would name itself
	}
	var up *upward
	if protocol := r.Header.Get("Upgrade"); protocol != "" {
		r, up = sendUpgrade(r, protocol)
	}
	response, err := l.client.RoundTrip(r)
	if err != nil {
		up.abort()
		over()
		return nil, l.explain(client, err)
	}
	if !a.answered() {
		up.abort()
		_ = response.Body.Close()
		over()
		return nil, context.Cause(client)
	}
	if failure := response.Header.Get(fieldFailure); failure != "" {
		up.abort()
		_ = response.Body.Close()
		over()
		return nil, &Error{failureNamed(failure)}
	}
	Unread(response)
	switched := response.Header.Get(fieldSwitched)
	takeOff(response.Header)
	response.Proto, response.ProtoMajor, response.ProtoMinor = "HTTP/1.1", 1, 1
	switch {
	case up != nil && switched != "":
		return up.switched(response, switched, over), nil
	case switched != "": // nobody has asked for it: what follows is no answer
		_ = response.Body.Close()
		over()
		return nil, &Error{Unreachable}
	}
	up.abort()
	response.Body = &answer{response.Body, over}
	return response, nil
}

func (l *Link) explain(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return fmt.Errorf("%w: %w", ErrBroken, err)
}

// answer is a body that tells its end.
type answer struct {
	io.ReadCloser
	over func()
}

func (a *answer) Read(p []byte) (int, error) {
	n, err := a.ReadCloser.Read(p)
	if err != nil {
		a.over()
	}
	return n, err
}

func (a *answer) Close() error {
	a.over()
	return a.ReadCloser.Close()
}

// keepAlive is how often TCP itself looks after a connection, for those who cut what
// they hold to be idle.
const keepAlive = 30 * time.Second
