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

// between stands between the installation and the authority, and breaks what the authority is told to break.
type between struct {
	inner http.RoundTripper
	mu    sync.Mutex
	// breaks answers in place of the authority, nil for nothing.
	breaks func(r *http.Request, ask func() (*http.Response, error)) (*http.Response, error)
	asked  []string
}

// RoundTrip implements http.RoundTripper.
func (b *between) RoundTrip(r *http.Request) (*http.Response, error) {
	b.mu.Lock()
	b.asked = append(b.asked, r.URL.Scheme+" "+r.URL.Path)
	breaks := b.breaks
	b.mu.Unlock()
	ask := func() (*http.Response, error) { return b.inner.RoundTrip(r) }
	if breaks == nil {
		return ask()
	}
	return breaks(r, ask)
}

func (b *between) set(breaks func(r *http.Request, ask func() (*http.Response, error)) (*http.Response, error)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.breaks, b.asked = breaks, nil
}

func (b *between) count(text string) (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, a := range b.asked {
		if strings.Contains(a, text) {
			n++
		}
	}
	return n
}

const orderPath = "/order-plz"

func problem(status int, body io.Reader, header http.Header) *http.Response {
	header.Set("Content-Type", "application/problem+json")
	return &http.Response{StatusCode: status, Header: header, Body: io.NopCloser(body)}
}

// TestBusyAuthorityIsLeftAlone for as long as it says, and for a day at most.
func TestBusyAuthorityIsLeftAlone(t *testing.T) {
	h := newHouse(t)
	for hostname, tt := range map[string]struct {
		status      int
		after       string
		least, most time.Duration
	}{
		"a.example.com": {http.StatusTooManyRequests, "7200", 2 * time.Hour, 3 * time.Hour},
		"b.example.com": {http.StatusServiceUnavailable, "7200", 2 * time.Hour, 3 * time.Hour},
		"c.example.com": {http.StatusTooManyRequests, "999999999999999", 10 * time.Minute, 30 * time.Hour},
		"d.example.com": {http.StatusTooManyRequests, "x", 10 * time.Minute, time.Hour},
	} {
		h.its.transport.set(func(r *http.Request, ask func() (*http.Response, error)) (*http.Response, error) {
			if r.URL.Path != orderPath {
				return ask()
			}
			return problem(tt.status, strings.NewReader(`{"type":"urn:ietf:params:acme:error:rateLimited","detail":"Too many orders."}`),
				http.Header{"Retry-After": {tt.after}, "Replay-Nonce": {"n"}}), nil
		})
		d := h.finish(h.active(hostname), 1)
		c := d.Certificate
		if pause := c.Next.Sub(h.parts.Now()); pause < tt.least || pause > tt.most || !strings.Contains(c.Message, "Too many orders.") {
			t.Errorf("%s: it is tried again in %s: %s", hostname, pause, c.Message)
		}
		if n := h.its.transport.count(orderPath); tt.status == http.StatusTooManyRequests && n != 1 {
			t.Errorf("%s: it was asked %d times", hostname, n)
		}
	}
}

// endless is an answer without an end.
type endless struct{ read atomic.Int64 }

func (e *endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	e.read.Add(int64(len(p)))
	return len(p), nil
}

// TestNoMoreIsReadOfAnAuthorityThanItMaySay, nor kept.
func TestNoMoreIsReadOfAnAuthorityThanItMaySay(t *testing.T) {
	h := newHouse(t)
	for hostname, start := range map[string]string{"a.example.com": "", "b.example.com": `{"detail":"`} {
		body := &endless{}
		h.its.transport.set(func(r *http.Request, ask func() (*http.Response, error)) (*http.Response, error) {
			if r.URL.Path != orderPath {
				return ask()
			}
			content := io.Reader(body)
			if start != "" {
				content = strings.NewReader(start + strings.Repeat("x", 1<<19) + `"}`)
			}
			return problem(http.StatusForbidden, content, http.Header{"Replay-Nonce": {"n"}}), nil
		})
		d := h.finish(h.active(hostname), 1)
		if n := body.read.Load(); n > 2<<20 || len(d.Certificate.Message) > 1000 || d.Certificate.Message == "" {
			t.Errorf("%s: %d bytes are read, and %d kept", hostname, n, len(d.Certificate.Message))
		}
	}
}

// TestAuthorityIsAskedByHTTPSAlone, whatever addresses it names.
func TestAuthorityIsAskedByHTTPSAlone(t *testing.T) {
	h := newHouse(t)
	h.its.transport.set(func(r *http.Request, ask func() (*http.Response, error)) (*http.Response, error) {
		answer, err := ask()
		if err != nil || r.URL.Path != "/dir" {
			return answer, err
		}
		directory, err := io.ReadAll(answer.Body)
		answer.Body = io.NopCloser(strings.NewReader(strings.ReplaceAll(string(directory), "https://", "http://")))
		answer.ContentLength = -1
		return answer, err
	})
	if d := h.finish(h.active("a.example.com"), 1); d.Certificate.Message == "" || h.its.transport.count("http /") > 0 {
		t.Errorf("it comes to %+v", d.Certificate)
	}
}

// TestAuthorityMayForgetTheAccount: the next order makes another one, in the same process.
func TestAuthorityMayForgetTheAccount(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.finish(h.active("a.example.com"), 1)
	h.its.forget()
	d := h.finish(h.active("b.example.com"), 1)
	if d.Certificate.ValidTo.IsZero() {
		d = h.finish(d, 2)
	}
	if d.Certificate.ValidTo.IsZero() {
		t.Errorf("it comes to %+v", d.Certificate)
	}
}

var errLost = errors.New("the answer is lost")

// TestLostAnswersCostNoCertificate: the authority has done what it was asked for, and nobody hears of it.
func TestLostAnswersCostNoCertificate(t *testing.T) {
	for n := range 6 {
		t.Run(strconv.Itoa(n+1), func(t *testing.T) {
			t.Parallel()
			h := newHouse(t)
			var asked atomic.Int64
			h.its.transport.set(func(r *http.Request, ask func() (*http.Response, error)) (*http.Response, error) {
				answer, err := ask()
				if r.Method == http.MethodPost && asked.Add(1) == int64(n+1) && err == nil {
					_ = answer.Body.Close()
					return nil, errLost
				}
				return answer, err
			})
			d := h.finish(h.active("api.example.com"), 1)
			if d.Certificate.ValidTo.IsZero() || h.its.transport.count("/finalize-order/") > 2 {
				t.Errorf("it comes to %+v", d.Certificate)
			}
		})
	}
}
