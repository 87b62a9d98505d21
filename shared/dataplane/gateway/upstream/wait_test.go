package upstream

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/testing/deadline"
)

// delayedServer is a server whose responses begin when the test
// closes release, or after a time that is longer than any test waits.
type delayedServer struct {
	*httptest.Server
	received chan string // the client's address of each request
	release  chan struct{}
}

func newDelayedServer(t *testing.T, http2 bool) *delayedServer {
	t.Helper()
	s := &delayedServer{received: make(chan string, 10), release: make(chan struct{})}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		s.received <- r.RemoteAddr
		select {
		case <-s.release:
		case <-r.Context().Done():
		case <-time.After(deadline.Timeout()):
		}
		_, _ = io.WriteString(w, "answer")
	}))
	if http2 {
		s.EnableHTTP2 = true
		s.StartTLS()
	} else {
		s.Start()
	}
	t.Cleanup(s.Close)
	return s
}

// options returns o with the TLS configuration for the server, if it uses TLS.
func (s *delayedServer) options(o Options) Options {
	if s.TLS != nil {
		o.TLS = s.Client().Transport.(*http.Transport).TLSClientConfig
	}
	return o
}

// forEachTransport runs a test for each of requestMakers, with servers of HTTP/1 and of HTTP/2.
func forEachTransport(
	t *testing.T, do func(t *testing.T, s *delayedServer, newRequest func(testing.TB, string) *http.Request),
) {
	t.Helper()
	for name, newRequest := range requestMakers {
		for protocol, http2 := range map[string]bool{"HTTP/1": false, "HTTP/2": true} {
			t.Run(name+" by "+protocol, func(t *testing.T) { do(t, newDelayedServer(t, http2), newRequest) })
		}
	}
}

// TestRouteTimeoutLimitsTheStartOfTheResponse checks that a late response becomes a 504, and that its GET or POST is
// not sent again. Its connection of HTTP/1 is not reused, because the next request could get the late response there.
func TestRouteTimeoutLimitsTheStartOfTheResponse(t *testing.T) {
	forEachTransport(t, func(t *testing.T, s *delayedServer, newRequest func(testing.TB, string) *http.Request) {
		c := newClient(t, s.options(Options{ResponseTimeout: time.Hour}))
		if response, err := c.WithTimeout(50*time.Millisecond).Send(newRequest(t, s.URL),
			nil); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("Send() = %v, %v, want %v", response, err, os.ErrDeadlineExceeded)
		} else if failure := Explain(t.Context(), err); failure.Status != http.StatusGatewayTimeout {
			t.Errorf("Explain(%v) status = %d, want 504", err, failure.Status)
		}
		close(s.release)
		response, err := c.Send(newRequest(t, s.URL), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		if body, err := io.ReadAll(response.Body); err != nil || string(body) != "answer" {
			t.Errorf("next request: body = %q, %v, want answer", body, err)
		}
		lateClient, nextClient := <-s.received, <-s.received
		if len(s.received) > 0 {
			t.Errorf("requests at the server = %d, want 2, without a retry of the late one", 2+len(s.received))
		}
		if lateClient == nextClient && response.ProtoMajor == 1 {
			t.Errorf("the next request is on the connection %v of the late one, want another", nextClient)
		}
	})
}

// TestRouteTimeoutCanExceedTheDefault checks that a route's timeout applies even if it is longer than the client's.
func TestRouteTimeoutCanExceedTheDefault(t *testing.T) {
	forEachTransport(t, func(t *testing.T, s *delayedServer, newRequest func(testing.TB, string) *http.Request) {
		c := newClient(t, s.options(Options{ResponseTimeout: time.Millisecond}))
		time.AfterFunc(50*time.Millisecond, func() { close(s.release) })
		response, err := c.WithTimeout(time.Minute).Send(newRequest(t, s.URL), nil)
		if err != nil {
			t.Fatalf("WithTimeout(1m).Send() with a default of 1 ms: error = %v, want none", err)
		}
		response.Body.Close()
	})
}

// TestTimeoutDoesNotLimitRequestOrResponseBodies checks that a request's and a response's
// body may each take longer than the timeout, which limits only the time between them.
func TestTimeoutDoesNotLimitRequestOrResponseBodies(t *testing.T) {
	const timeout = time.Second // long enough for a busy machine
	for name, http2 := range map[string]bool{"HTTP/1": false, "HTTP/2": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				sent, _ := io.ReadAll(r.Body)
				_ = http.NewResponseController(w).Flush()
				time.Sleep(timeout + timeout/2)
				_, _ = w.Write(sent)
			}))
			s.EnableHTTP2 = http2
			s.StartTLS()
			t.Cleanup(s.Close)
			c := newClient(t, (&delayedServer{Server: s}).options(Options{ResponseTimeout: time.Hour}))
			r := request(t, t.Context(), http.MethodPost, s.URL)
			body, writer := io.Pipe()
			r.Body, r.ContentLength = body, -1
			go func() {
				_, _ = io.WriteString(writer, "begin, ")
				time.Sleep(timeout + timeout/2)
				_, _ = io.WriteString(writer, "end")
				_ = writer.Close()
			}()
			response, err := c.WithTimeout(timeout).Send(r, nil)
			if err != nil {
				t.Fatalf("Send() with a slow body: error = %v, want none", err)
			}
			defer response.Body.Close()
			if received, err := io.ReadAll(response.Body); err != nil || string(received) != "begin, end" {
				t.Errorf("Send() with a slow body: response body = %q, %v, want %q", received, err, "begin, end")
			}
		})
	}
}

// TestUpstreamThatStopsReadingTimesOut checks that the timeout applies if an upstream
// does not read a body, and not if it reads slowly or if the client sends slowly.
func TestUpstreamThatStopsReadingTimesOut(t *testing.T) {
	const timeout = time.Second // long enough for a busy machine
	for name, http2 := range map[string]bool{"HTTP/1": false, "HTTP/2": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			done := make(chan struct{})
			s := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/reads-nothing" {
					<-done
					return
				}
				for n, err := int64(1), error(nil); n > 0 && err == nil; {
					n, err = io.CopyN(io.Discard, r.Body, 8<<20)
					time.Sleep(timeout / 2)
				}
			}))
			s.EnableHTTP2 = http2
			s.StartTLS()
			t.Cleanup(s.Close)
			t.Cleanup(func() { close(done) })
			options := (&delayedServer{Server: s}).options(Options{ResponseTimeout: timeout})
			send := func(path string, limit time.Duration, body io.Reader) error {
				ctx, cancel := context.WithTimeoutCause(t.Context(), max(10*limit, deadline.Timeout()),
					errors.New("the request did not end in time"))
				defer cancel()
				r := request(t, ctx, http.MethodPost, s.URL+path)
				r.Body, r.ContentLength = io.NopCloser(body), -1
				response, err := newClient(t, options).WithTimeout(limit).Send(r, nil)
				if err == nil {
					err = response.Body.Close()
				}
				return err
			}
			const bodySize = 64 << 20 // more than the buffer of any socket holds
			// For a body, the limit is the larger one of the route's timeout and ResponseTimeout.
			start := time.Now()
			if err := send("/reads-nothing", timeout/2, io.LimitReader(endlessBody{}, bodySize)); !errors.Is(err,
				os.ErrDeadlineExceeded) || time.Since(start) < timeout {
				t.Errorf("Send() to a server that reads nothing: error = %v after %s, want %v after at least %s",
					err, time.Since(start), os.ErrDeadlineExceeded, timeout)
			}
			if err := send("/reads-slowly", 2*timeout, io.LimitReader(endlessBody{}, bodySize)); err != nil {
				t.Errorf("Send() to a server that reads slowly: error = %v, want none", err)
			}
			if err := send("/", 2*timeout, io.MultiReader(strings.NewReader("begin"), delayedReader(3*timeout),
				strings.NewReader("end"))); err != nil {
				t.Errorf("Send() of a client that sends slowly: error = %v, want none", err)
			}
		})
	}
}

// endlessBody is an endless body. Its bytes are undefined, because no test compares them.
type endlessBody struct{}

func (endlessBody) Read(p []byte) (int, error) { return len(p), nil }

// delayedReader is an empty part of a body whose end arrives after this delay.
type delayedReader time.Duration

func (r delayedReader) Read([]byte) (int, error) {
	time.Sleep(time.Duration(r))
	return 0, io.EOF
}

// TestRedirectsHaveTheRouteTimeout checks that the route's timeout also
// applies to the request to a redirect target at another origin.
func TestRedirectsHaveTheRouteTimeout(t *testing.T) {
	s := newDelayedServer(t, false)
	first := httptest.NewServer(http.RedirectHandler(s.URL, http.StatusTemporaryRedirect))
	t.Cleanup(first.Close)
	c := newClient(t, Options{ResponseTimeout: time.Hour})
	response, err := c.WithTimeout(time.Second).Follow(request(t, t.Context(), http.MethodGet, first.URL))
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("Follow() = %v, %v, want %v", response, err, os.ErrDeadlineExceeded)
	}
}
