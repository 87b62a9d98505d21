// Package load sends HTTP requests to a server, and measures their latency and the processor time that they take. Most
// scenarios of internal/bench measure with it.
//
// It contains no scenarios and no limits. It runs only on Linux.
//
// Read load.go first for the client. compare.go measures several servers in turns, process.go reads the processor time of a process,
// child.go starts this program in another role, and proxy.go has the reverse proxy for comparisons with the product.
package load

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Load is one kind of request, and how often it is sent: Requests times, for Duration, or while Continue returns true.
// Set exactly one of these three fields.
type Load struct {
	Address     string        // host:port
	TLS         *tls.Config   // nil for plain HTTP
	Request     []byte        // the request as HTTP/1.1 sends it
	Connections int           // the number of concurrent requests; 0 means 1
	Requests    int           // in total
	Duration    time.Duration // how long requests are sent
	Continue    func() bool   // reports whether to send another request; called concurrently
	// Interval is the shortest time between the starts of two requests on a connection. With 0, a connection sends the
	// next request as soon as it has read the response.
	Interval time.Duration
	// Change changes the connection's copy of Request before each request. It is called concurrently. Nil changes
	// nothing.
	Change func(request []byte)

	// ReadDelay is how long a client waits after a request before it reads the response. Only the client of this package supports it.
	ReadDelay time.Duration

	Status int   // of each response; 0 means 200
	Length int64 // of each response's body, in bytes; negative for any
	// Check, if not nil, checks the body of each response, and Length is not used. It is called concurrently.
	Check func(body []byte) error

	// Dial opens connection number n. If it is nil, connections are opened to Address.
	Dial func(ctx context.Context, n int) (net.Conn, error)
	// Transport, if not nil, returns the transport that sends the requests of connection n. Without it, the client of
	// this package sends them, which supports only HTTP/1.1 and uses less processor time. Several connections can share
	// a transport. The protocol of each response must be HTTP/Protocol.
	Transport func(n int) http.RoundTripper
	Protocol  int
	// CountFailures means that the load continues after a failed request, and that Result.Failed counts it. Otherwise
	// the first failure ends the load. A connection that cannot be opened ends the load in any case.
	CountFailures bool
}

// AnyLength accepts responses of every length.
const AnyLength = -1

// Result contains the results of a load.
type Result struct {
	Requests   int // with a response, or failed
	Failed     int
	FirstError error // the error of the first failure
	Elapsed    time.Duration

	latencies []time.Duration // sorted
}

// Rate returns the number of requests a second.
func (r Result) Rate() float64 { return float64(r.Requests) / r.Elapsed.Seconds() }

// Percentile returns the p-th percentile of the latency.
func (r Result) Percentile(p int) time.Duration { return Percentile(r.latencies, p) }

// Percentile returns the p-th percentile of sorted values, or 0 if there are none.
func Percentile(sorted []time.Duration, p int) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[(len(sorted)-1)*p/100]
}

// Median sorts values and returns the middle one. values must not be empty.
func Median[T cmp.Ordered](values []T) T {
	slices.Sort(values)
	return values[len(values)/2]
}

// run is a load that is being sent.
type run struct {
	Load

	deadline  time.Time
	remaining atomic.Int64

	mu     sync.Mutex
	result Result
}

// Send sends the requests and reads each response. It returns an error if a connection cannot be opened, if a request
// fails and CountFailures is not set, if ctx ends, or if no request was sent.
func (l Load) Send(ctx context.Context) (Result, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	startedAt := time.Now()
	r := &run{Load: l, deadline: startedAt.Add(l.Duration)}
	r.remaining.Store(int64(l.Requests))
	var wg sync.WaitGroup
	for n := range max(l.Connections, 1) {
		wg.Go(func() {
			if err := r.connection(ctx, n); err != nil {
				cancel(err)
			}
		})
	}
	wg.Wait()
	r.result.Elapsed = time.Since(startedAt)
	slices.Sort(r.result.latencies)
	err := context.Cause(ctx)
	if err == nil && r.result.Requests == 0 {
		err = errors.New("no request was sent, so the figures would be within every limit")
	}
	return r.result, err
}

// reserve reports whether the load sends another request. The caller must then send it, because reserve has counted it.
func (r *run) reserve() bool {
	switch {
	case r.Continue != nil:
		return r.Continue()
	case r.Duration > 0:
		return time.Now().Before(r.deadline)
	}
	return r.remaining.Add(-1) >= 0
}

// connection sends the requests of connection n, one after another.
func (r *run) connection(ctx context.Context, n int) error {
	request := slices.Clone(r.Request)
	send, end, err := r.connectionSender(ctx, n)
	if err != nil {
		return err
	}
	defer end()
	var latencies []time.Duration
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.result.Requests += len(latencies)
		r.result.latencies = append(r.result.latencies, latencies...)
	}()
	for ctx.Err() == nil && r.reserve() {
		if r.Change != nil {
			r.Change(request)
		}
		startedAt := time.Now()
		err := send(request)
		latencies = append(latencies, time.Since(startedAt))
		if err != nil && !r.CountFailures {
			return err
		}
		if err != nil {
			r.addFailure(err)
		}
		if wait := time.Until(startedAt.Add(r.Interval)); wait > 0 {
			select {
			case <-ctx.Done():
			case <-time.After(wait):
			}
		}
	}
	return nil
}

// addFailure counts a failed request.
func (r *run) addFailure(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.result.Failed++
	if r.result.FirstError == nil {
		r.result.FirstError = err
	}
}

// connectionSender returns a function that sends a request and checks its response, and a function that closes the connection.
func (r *run) connectionSender(ctx context.Context, n int) (send func(request []byte) error, end func(), err error) {
	if r.Transport != nil {
		return r.transportSender(ctx, r.Transport(n))
	}
	c, err := r.dial(ctx, n)
	if err != nil {
		return nil, nil, fmt.Errorf("connect: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { _ = c.Close() })
	in := bufio.NewReader(c)
	return func(request []byte) error {
			if _, err := c.Write(request); err != nil {
				return fmt.Errorf("send: %w", err)
			}
			time.Sleep(r.ReadDelay)
			response, err := http.ReadResponse(in, nil) //nolint:bodyclose // check closes it
			if err != nil {
				return fmt.Errorf("receive: %w", err)
			}
			return r.check(response)
		}, func() {
			stop()
			_ = c.Close()
		}, nil
}

// dial opens connection n, with TLS if the load has TLS. The handshake is part of the first request.
func (r *run) dial(ctx context.Context, n int) (c net.Conn, err error) {
	if r.Dial != nil {
		c, err = r.Dial(ctx, n)
	} else {
		c, err = new(net.Dialer).DialContext(ctx, "tcp", r.Address)
	}
	if err == nil && r.TLS != nil {
		c = tls.Client(c, r.TLS)
	}
	return c, err
}

// transportSender returns a function that sends a request through a transport and checks its response. The body cannot
// be sent twice, so the transport does not repeat a request whose connection ends. A request that is in flight when ctx
// ends is completed.
func (r *run) transportSender(
	ctx context.Context, transport http.RoundTripper,
) (send func(request []byte) error, end func(), err error) {
	ctx = context.WithoutCancel(ctx)
	scheme := "http"
	if r.TLS != nil {
		scheme = "https"
	}
	const timeout = 30 * time.Second
	return func(raw []byte) error {
			ctx, cancel := context.WithTimeout(ctx, timeout)
			defer cancel()
			request, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(raw)))
			if err != nil {
				return fmt.Errorf("create a request: %w", err)
			}
			request = request.WithContext(ctx)
			request.URL.Scheme, request.URL.Host, request.RequestURI = scheme, r.Address, ""
			response, err := transport.RoundTrip(request)
			if err != nil {
				return err
			}
			if response.ProtoMajor != r.Protocol {
				_ = response.Body.Close()
				return fmt.Errorf("receive: a response with %s, want HTTP/%d", response.Proto, r.Protocol)
			}
			return r.check(response)
		}, func() {
			if t, ok := transport.(interface{ CloseIdleConnections() }); ok {
				t.CloseIdleConnections()
			}
		}, nil
}

// check closes a response, and returns an error if it is incomplete or not the expected response.
func (r *run) check(response *http.Response) error {
	defer func() { _ = response.Body.Close() }()
	if want := cmp.Or(r.Status, http.StatusOK); response.StatusCode != want {
		text, err := io.ReadAll(io.LimitReader(response.Body, 300))
		return errors.Join(fmt.Errorf("receive: status %d, want %d: %s", response.StatusCode, want, text), err)
	}
	if r.Check != nil {
		body, err := io.ReadAll(response.Body)
		if err != nil {
			return fmt.Errorf("receive: %w", err)
		}
		return r.Check(body)
	}
	n, err := io.Copy(io.Discard, response.Body)
	if err != nil {
		return fmt.Errorf("receive: %w", err)
	}
	if r.Length >= 0 && n != r.Length {
		return fmt.Errorf("receive: %d bytes, want %d", n, r.Length)
	}
	return nil
}

// Once sends the request of a load once, and returns the body of its response.
func (l Load) Once(ctx context.Context) (body []byte, err error) {
	check := l.Check
	l.Check = func(b []byte) error {
		body = b
		if check != nil {
			return check(b)
		}
		return nil
	}
	l.Requests, l.Duration, l.Continue, l.Connections = 1, 0, nil, 1
	_, err = l.Send(ctx)
	return body, err
}

// Request returns a request as HTTP/1.1 sends it. key is a bearer token, "" for none.
func Request(method, path, host, key, body string) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: bench\r\nAccept: application/json\r\nAccept-Language: "+
		"en\r\nX-Client: 1\r\n", method, path, host)
	if key != "" {
		fmt.Fprintf(&b, "Authorization: Bearer %s\r\n", key)
	}
	if body != "" {
		fmt.Fprintf(&b, "Content-Type: application/json\r\nContent-Length: %d\r\n", len(body))
	}
	b.WriteString("\r\n" + body)
	return b.Bytes()
}

// Placeholder is the part of a request that Numbers replaces with a number.
const Placeholder = "00000000"

// Replace returns a Change for request that replaces the placeholder with the next text. All texts must have the length of the
// placeholder.
func Replace(request []byte, placeholder string, next func() string) func(request []byte) {
	at := bytes.Index(request, []byte(placeholder))
	if at < 0 {
		panic("the request has no " + placeholder)
	}
	return func(request []byte) {
		text := next()
		if len(text) != len(placeholder) {
			panic(fmt.Sprintf("%q is not as long as %q", text, placeholder))
		}
		copy(request[at:], text)
	}
}

// Numbers returns a Change that replaces Placeholder with a new number each time, so that no two requests are equal.
func Numbers(request []byte) func(request []byte) {
	var last atomic.Int64
	return Replace(request, Placeholder, func() string { return fmt.Sprintf("%0*d", len(Placeholder), last.Add(1)) })
}
