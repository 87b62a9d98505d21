package issuance_test

import (
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// interceptor is a transport between the installation and the authority. It records requests, and can change or lose
// responses.
type interceptor struct {
	inner http.RoundTripper
	mu    sync.Mutex
	// intercept, if not nil, returns the response to each request. It may call send to send the request to the
	// authority.
	intercept func(r *http.Request, send func() (*http.Response, error)) (*http.Response, error)
	requests  []string
}

// RoundTrip implements http.RoundTripper.
func (i *interceptor) RoundTrip(r *http.Request) (*http.Response, error) {
	i.mu.Lock()
	i.requests = append(i.requests, r.URL.Scheme+" "+r.URL.Path)
	intercept := i.intercept
	i.mu.Unlock()
	send := func() (*http.Response, error) { return i.inner.RoundTrip(r) }
	if intercept == nil {
		return send()
	}
	return intercept(r, send)
}

// setIntercept sets intercept, and forgets the requests that were recorded before.
func (i *interceptor) setIntercept(
	intercept func(r *http.Request, send func() (*http.Response, error)) (*http.Response, error),
) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.intercept, i.requests = intercept, nil
}

// count returns the number of recorded requests whose scheme or path contains the given text.
func (i *interceptor) count(text string) (n int) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, req := range i.requests {
		if strings.Contains(req, text) {
			n++
		}
	}
	return n
}

// orderPath is Pebble's path for new orders.
const orderPath = "/order-plz"

// problem returns an error response of the authority.
func problem(status int, body io.Reader, header http.Header) *http.Response {
	header.Set("Content-Type", "application/problem+json")
	return &http.Response{StatusCode: status, Header: header, Body: io.NopCloser(body)}
}

// TestRetryAfterIsRespected checks that the next attempt is not earlier than the authority's Retry-After requires. A
// huge value delays the attempt for at most 30 hours, and an invalid value for at most one.
func TestRetryAfterIsRespected(t *testing.T) {
	fx := newFixture(t)
	for hostname, tt := range map[string]struct {
		status             int
		retryAfter         string
		minDelay, maxDelay time.Duration
	}{
		"a.example.com": {http.StatusTooManyRequests, "7200", 2 * time.Hour, 3 * time.Hour},
		"b.example.com": {http.StatusServiceUnavailable, "7200", 2 * time.Hour, 3 * time.Hour},
		"c.example.com": {http.StatusTooManyRequests, "999999999999999", 10 * time.Minute, 30 * time.Hour},
		"d.example.com": {http.StatusTooManyRequests, "x", 10 * time.Minute, time.Hour},
	} {
		fx.authority.transport.setIntercept(func(r *http.Request,
			send func() (*http.Response, error),
		) (*http.Response, error) {
			if r.URL.Path != orderPath {
				return send()
			}
			return problem(tt.status,
				strings.NewReader(`{"type":"urn:ietf:params:acme:error:rateLimited","detail":"Too many orders."}`),
				http.Header{"Retry-After": {tt.retryAfter}, "Replay-Nonce": {"n"}}), nil
		})
		d := fx.finish(fx.createVerified(hostname), 1)
		c := d.Certificate
		if delay := c.Next.Sub(fx.parts.Now()); delay < tt.minDelay || delay > tt.maxDelay ||
			!strings.Contains(c.Message, "Too many orders.") {
			t.Errorf("%s: next attempt in %s, message %q, want %s to %s and the authority's text",
				hostname, delay, c.Message, tt.minDelay, tt.maxDelay)
		}
		if n := fx.authority.transport.count(orderPath); tt.status == http.StatusTooManyRequests && n != 1 {
			t.Errorf("%s: %d orders after status %d, want 1", hostname, n, tt.status)
		}
	}
}

// endlessBody is a response body that never ends. It counts the bytes that were read.
type endlessBody struct{ read atomic.Int64 }

func (e *endlessBody) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	e.read.Add(int64(len(p)))
	return len(p), nil
}

// TestResponseSizeIsLimited checks that only the beginning of a long response is read, and that only the beginning of a
// long error text is stored.
func TestResponseSizeIsLimited(t *testing.T) {
	fx := newFixture(t)
	for hostname, start := range map[string]string{"a.example.com": "", "b.example.com": `{"detail":"`} {
		body := &endlessBody{}
		fx.authority.transport.setIntercept(func(r *http.Request,
			send func() (*http.Response, error),
		) (*http.Response, error) {
			if r.URL.Path != orderPath {
				return send()
			}
			content := io.Reader(body)
			if start != "" {
				content = strings.NewReader(start + strings.Repeat("x", 1<<19) + `"}`)
			}
			return problem(http.StatusForbidden, content, http.Header{"Replay-Nonce": {"n"}}), nil
		})
		d := fx.finish(fx.createVerified(hostname), 1)
		if n := body.read.Load(); n > 2<<20 || len(d.Certificate.Message) > 1000 || d.Certificate.Message == "" {
			t.Errorf("%s: %d bytes read, message of %d bytes, want at most %d and 1 to 1000",
				hostname, n, len(d.Certificate.Message), 2<<20)
		}
	}
}

// TestOnlyHTTPSRequestsAreSent checks that no request is sent to http:// addresses, even if they are in the authority's
// directory.
func TestOnlyHTTPSRequestsAreSent(t *testing.T) {
	fx := newFixture(t)
	fx.authority.transport.setIntercept(func(r *http.Request,
		send func() (*http.Response, error),
	) (*http.Response, error) {
		resp, err := send()
		if err != nil || r.URL.Path != "/dir" {
			return resp, err
		}
		directory, err := io.ReadAll(resp.Body)
		resp.Body = io.NopCloser(strings.NewReader(strings.ReplaceAll(string(directory), "https://", "http://")))
		resp.ContentLength = -1
		return resp, err
	})
	if d := fx.finish(fx.createVerified("a.example.com"), 1); d.Certificate.Message == "" ||
		fx.authority.transport.count("http /") > 0 {
		t.Errorf("certificate = %+v after %d plain HTTP requests, want a message and 0",
			d.Certificate, fx.authority.transport.count("http /"))
	}
}

// TestLostAccountIsRegisteredAgain makes the authority lose the account, and checks that the same process registers it
// again.
func TestLostAccountIsRegisteredAgain(t *testing.T) {
	t.Parallel()
	fx := newFixture(t)
	fx.finish(fx.createVerified("a.example.com"), 1)
	fx.authority.reset()
	d := fx.finish(fx.createVerified("b.example.com"), 1)
	if d.Certificate.ValidTo.IsZero() {
		d = fx.finish(d, 2)
	}
	if d.Certificate.ValidTo.IsZero() {
		t.Errorf("certificate after a second registration = %+v, want a valid one", d.Certificate)
	}
}

var errResponseLost = errors.New("the answer is lost")

// TestLostResponsesDoNotPreventIssuance loses the response to one of the first 6 POST requests, after the authority has
// executed the request.
func TestLostResponsesDoNotPreventIssuance(t *testing.T) {
	for n := range 6 {
		t.Run("POST "+strconv.Itoa(n+1), func(t *testing.T) {
			t.Parallel()
			fx := newFixture(t)
			var posts atomic.Int64
			fx.authority.transport.setIntercept(func(r *http.Request,
				send func() (*http.Response, error),
			) (*http.Response, error) {
				resp, err := send()
				if r.Method == http.MethodPost && posts.Add(1) == int64(n+1) && err == nil {
					_ = resp.Body.Close()
					return nil, errResponseLost
				}
				return resp, err
			})
			d := fx.finish(fx.createVerified("api.example.com"), 1)
			if p := posts.Load(); p <= int64(n) {
				t.Errorf("POST requests = %d, want more than %d, so that a response was lost", p, n)
			}
			if d.Certificate.ValidTo.IsZero() || fx.authority.transport.count("/finalize-order/") > 2 {
				t.Errorf("certificate = %+v after %d finalizations, want a valid one and at most 2",
					d.Certificate, fx.authority.transport.count("/finalize-order/"))
			}
		})
	}
}
