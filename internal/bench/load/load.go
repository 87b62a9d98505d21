// Package load sends HTTP requests to what is measured, and says how long the answers and how much processor time they took.
// It is the only client that package main of internal/bench measures with.
//
// It knows no scenario and no limit. It runs on Linux only.
//
// Read load.go for the client; compare.go measures several servers in turns, process.go reads what a process uses, child.go
// starts this program in another role, and proxy.go has the reverse proxy that the product is compared with.
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

// Load is one kind of request, and how often it is sent: Requests times, for as long as For, or while More returns true. Only
// one of these three is set.
type Load struct {
	Address     string        // host:port
	TLS         *tls.Config   // nil for plain HTTP
	Request     []byte        // the request as HTTP/1.1 sends it
	Connections int           // how many requests are in flight at once, 0 for 1
	Requests    int           // in total
	For         time.Duration // how long requests are sent
	More        func() bool   // reports whether another request is sent; called concurrently
	// Every is the shortest time between the starts of two requests of a connection. 0 means as fast as the server answers.
	Every time.Duration
	// Change writes into the connection's copy of Request before each request; called concurrently. Nil changes nothing.
	Change func(request []byte)

	// Late is how long a client waits after a request before it reads the answer. Only the client of this package does.
	Late time.Duration

	Status int   // of each answer, 0 for 200
	Length int64 // of each answer's body, in bytes; negative for any
	// Check reads an answer's body instead of Length; called concurrently.
	Check func(body []byte) error

	// Dial connects; nil dials Address. n is the number of the connection.
	Dial func(ctx context.Context, n int) (net.Conn, error)
	// Transport sends the requests of connection n instead of the client of this package, which speaks HTTP/1.1 and costs less.
	// Several numbers may get one transport. An answer must come by HTTP/Protocol.
	Transport func(n int) http.RoundTripper
	Protocol  int
	// CountFailures goes on after a request that fails, which Result.Failed counts. Otherwise the first failure ends the load.
	CountFailures bool
}

// AnyLength accepts answers of every length.
const AnyLength = -1

// Result is what the requests of a load took.
type Result struct {
	Requests int // answered or failed
	Failed   int
	First    error // of the first failure
	Took     time.Duration

	latencies []time.Duration // sorted
}

// Rate returns the requests a second.
func (r Result) Rate() float64 { return float64(r.Requests) / r.Took.Seconds() }

// Percentile returns the time within which p of 100 requests were answered.
func (r Result) Percentile(p int) time.Duration { return Percentile(r.latencies, p) }

// Percentile returns the value at p of 100 of sorted values, 0 for none.
func Percentile(sorted []time.Duration, p int) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[(len(sorted)-1)*p/100]
}

// Median sorts values and returns the middle one. There is at least one value.
func Median[T cmp.Ordered](values []T) T {
	slices.Sort(values)
	return values[len(values)/2]
}

// run is a load that is being sent.
type run struct {
	Load

	until time.Time
	left  atomic.Int64

	mu     sync.Mutex
	result Result
}

// Send sends the requests and reads each answer. It returns an error if a request fails and CountFailures is not set, and if the load
// has no request.
func (l Load) Send(ctx context.Context) (Result, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	began := time.Now()
	r := &run{Load: l, until: began.Add(l.For)}
	r.left.Store(int64(l.Requests))
	var all sync.WaitGroup
	for n := range max(l.Connections, 1) {
		all.Go(func() {
			if err := r.connection(ctx, n); err != nil {
				cancel(err)
			}
		})
	}
	all.Wait()
	r.result.Took = time.Since(began)
	slices.Sort(r.result.latencies)
	err := context.Cause(ctx)
	if err == nil && r.result.Requests == 0 {
		err = errors.New("no request was sent: figures of nothing are within every limit")
	}
	return r.result, err
}

func (r *run) more() bool {
	switch {
	case r.More != nil:
		return r.More()
	case r.For > 0:
		return time.Now().Before(r.until)
	}
	return r.left.Add(-1) >= 0
}

// connection sends requests one after the other.
func (r *run) connection(ctx context.Context, n int) error {
	request := slices.Clone(r.Request)
	send, end, err := r.sender(ctx, n)
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
	for ctx.Err() == nil && r.more() {
		if r.Change != nil {
			r.Change(request)
		}
		began := time.Now()
		err := send(request)
		latencies = append(latencies, time.Since(began))
		if err != nil && !r.CountFailures {
			return err
		}
		if err != nil {
			r.failed(err)
		}
		if wait := time.Until(began.Add(r.Every)); wait > 0 {
			select {
			case <-ctx.Done():
			case <-time.After(wait):
			}
		}
	}
	return nil
}

func (r *run) failed(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.result.Failed++
	if r.result.First == nil {
		r.result.First = err
	}
}

// sender returns a function that sends a request and checks its answer, and one that closes the connection.
func (r *run) sender(ctx context.Context, n int) (send func(request []byte) error, end func(), err error) {
	if r.Transport != nil {
		return r.byTransport(ctx, r.Transport(n))
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
			time.Sleep(r.Late)
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

// byTransport sends each request once: its body cannot be sent again, so no transport repeats a request whose connection ends.
// A request that is in flight when ctx ends is completed.
func (r *run) byTransport(ctx context.Context, by http.RoundTripper) (send func(request []byte) error, end func(), err error) {
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
				return fmt.Errorf("make a request: %w", err)
			}
			request = request.WithContext(ctx)
			request.URL.Scheme, request.URL.Host, request.RequestURI = scheme, r.Address, ""
			response, err := by.RoundTrip(request)
			if err != nil {
				return err
			}
			if response.ProtoMajor != r.Protocol {
				_ = response.Body.Close()
				return fmt.Errorf("the answer came by %s, and not by HTTP/%d", response.Proto, r.Protocol)
			}
			return r.check(response)
		}, func() {
			if t, ok := by.(interface{ CloseIdleConnections() }); ok {
				t.CloseIdleConnections()
			}
		}, nil
}

// check reads an answer to its end, and fails unless it is the expected one.
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

// Once sends the request of a load once, and returns the body of its answer.
func (l Load) Once(ctx context.Context) (body []byte, err error) {
	check := l.Check
	l.Check = func(b []byte) error {
		body = b
		if check != nil {
			return check(b)
		}
		return nil
	}
	l.Requests, l.For, l.More, l.Connections = 1, 0, nil, 1
	_, err = l.Send(ctx)
	return body, err
}

// Request returns a request as HTTP/1.1 sends it. key is a bearer token, "" for none.
func Request(method, path, host, key, body string) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: bench\r\nAccept: application/json\r\nAccept-Language: en\r\nX-Client: 1\r\n", method, path, host)
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

// Replace returns a Change for request, which writes the next text in the place of the placeholder. All texts have its length.
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

// Numbers returns a Change that writes a new number in the place of Placeholder, so that no two requests are the same.
func Numbers(request []byte) func(request []byte) {
	var last atomic.Int64
	return Replace(request, Placeholder, func() string { return fmt.Sprintf("%0*d", len(Placeholder), last.Add(1)) })
}
