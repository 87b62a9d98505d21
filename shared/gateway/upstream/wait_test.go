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

	"github.com/gatewright/gatewright/internal/deadline"
)

// slow is a server whose responses begin when the test lets them, or after longer
// than any test of it wants to wait.
type slow struct {
	*httptest.Server
	asked chan string // from where
	begin chan struct{}
}

func newSlow(t *testing.T, http2 bool) *slow {
	t.Helper()
	s := &slow{asked: make(chan string, 10), begin: make(chan struct{})}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		s.asked <- r.RemoteAddr
		select {
		case <-s.begin:
		case <-r.Context().Done():
		case <-time.After(deadline.Long()):
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

func (s *slow) options(o Options) Options {
	if s.TLS != nil {
		o.TLS = s.Client().Transport.(*http.Transport).TLSClientConfig
	}
	return o
}

// eachWait is a test of each of the ways, to servers of both protocols.
func eachWait(t *testing.T, do func(t *testing.T, s *slow, ask func(testing.TB, string) *http.Request)) {
	t.Helper()
	for name, ask := range ways {
		for protocol, http2 := range map[string]bool{"HTTP/1": false, "HTTP/2": true} {
			t.Run(name+" by "+protocol, func(t *testing.T) { do(t, newSlow(t, http2), ask) })
		}
	}
}

// TestAResponseHasToBeginInTheTimeOfItsRoute: what is late is a 504, is not asked
// again, whatever the method, and leaves no connection behind on which the answer
// could come to another request.
func TestAResponseHasToBeginInTheTimeOfItsRoute(t *testing.T) {
	eachWait(t, func(t *testing.T, s *slow, ask func(testing.TB, string) *http.Request) {
		c := newClient(t, s.options(Options{ResponseTimeout: time.Hour}))
		if response, err := c.Waiting(50*time.Millisecond).Send(ask(t, s.URL), nil); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("got %v, %v", response, err)
		} else if failure := Explain(t.Context(), err); failure.Status != http.StatusGatewayTimeout {
			t.Errorf("the client gets %+v", failure)
		}
		close(s.begin)
		response, err := c.Send(ask(t, s.URL), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		if answer, err := io.ReadAll(response.Body); err != nil || string(answer) != "answer" {
			t.Errorf("the next request: %q, %v", answer, err)
		}
		late, next := <-s.asked, <-s.asked
		if len(s.asked) > 0 {
			t.Error("what was late was asked again")
		}
		if late == next && response.ProtoMajor == 1 {
			t.Error("the next request came on the connection of the late one")
		}
	})
}

// TestARouteMayWaitLongerThanItsInstallation.
func TestARouteMayWaitLongerThanItsInstallation(t *testing.T) {
	eachWait(t, func(t *testing.T, s *slow, ask func(testing.TB, string) *http.Request) {
		c := newClient(t, s.options(Options{ResponseTimeout: time.Millisecond}))
		time.AfterFunc(50*time.Millisecond, func() { close(s.begin) })
		response, err := c.Waiting(time.Minute).Send(ask(t, s.URL), nil)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
	})
}

// TestARequestAndAnAnswerMayTakeLongerThanTheWait, which is for what is between them.
func TestARequestAndAnAnswerMayTakeLongerThanTheWait(t *testing.T) {
	const wait = time.Second // which a busy machine keeps too
	for name, http2 := range map[string]bool{"HTTP/1": false, "HTTP/2": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				sent, _ := io.ReadAll(r.Body)
				_ = http.NewResponseController(w).Flush()
				time.Sleep(wait + wait/2)
				_, _ = w.Write(sent)
			}))
			s.EnableHTTP2 = http2
			s.StartTLS()
			t.Cleanup(s.Close)
			c := newClient(t, (&slow{Server: s}).options(Options{ResponseTimeout: time.Hour}))
			r := request(t, t.Context(), http.MethodPost, s.URL)
			body, writer := io.Pipe()
			r.Body, r.ContentLength = body, -1
			go func() {
				_, _ = io.WriteString(writer, "begin, ")
				time.Sleep(wait + wait/2)
				_, _ = io.WriteString(writer, "end")
				_ = writer.Close()
			}()
			response, err := c.Waiting(wait).Send(r, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			if answer, err := io.ReadAll(response.Body); err != nil || string(answer) != "begin, end" {
				t.Errorf("got %q, %v", answer, err)
			}
		})
	}
}

// TestAnUpstreamHasToTakeTheRequest: one that reads nothing of a body is late, while
// a client that sends nothing is not the upstream's fault, nor one that reads slowly.
func TestAnUpstreamHasToTakeTheRequest(t *testing.T) {
	const wait = time.Second // which a busy machine keeps too
	for name, http2 := range map[string]bool{"HTTP/1": false, "HTTP/2": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			over := make(chan struct{})
			s := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/reads-nothing" {
					<-over
					return
				}
				for n, err := int64(1), error(nil); n > 0 && err == nil; {
					n, err = io.CopyN(io.Discard, r.Body, 8<<20)
					time.Sleep(wait / 2)
				}
			}))
			s.EnableHTTP2 = http2
			s.StartTLS()
			t.Cleanup(s.Close)
			t.Cleanup(func() { close(over) })
			options := (&slow{Server: s}).options(Options{ResponseTimeout: wait})
			send := func(path string, limit time.Duration, body io.Reader) error {
				ctx, cancel := context.WithTimeoutCause(t.Context(), 10*limit, errors.New("for ever"))
				defer cancel()
				r := request(t, ctx, http.MethodPost, s.URL+path)
				r.Body, r.ContentLength = io.NopCloser(body), -1
				response, err := newClient(t, options).Waiting(limit).Send(r, nil)
				if err == nil {
					err = response.Body.Close()
				}
				return err
			}
			const much = 64 << 20 // more than any socket buffers
			begun := time.Now()
			if err := send("/reads-nothing", wait/2, io.LimitReader(zeros{}, much)); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(begun) < wait {
				t.Errorf("one that reads nothing: %v after %s", err, time.Since(begun))
			}
			if err := send("/reads-slowly", 2*wait, io.LimitReader(zeros{}, much)); err != nil {
				t.Errorf("one that reads slowly: %v", err)
			}
			if err := send("/", 2*wait, io.MultiReader(strings.NewReader("begin"), late(3*wait), strings.NewReader("end"))); err != nil {
				t.Errorf("a client that sends slowly: %v", err)
			}
		})
	}
}

// zeros is an endless body.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

// late is a part of a body that is empty, and comes after a while.
type late time.Duration

func (l late) Read([]byte) (int, error) {
	time.Sleep(time.Duration(l))
	return 0, io.EOF
}

// TestRedirectsWaitAsTheirRouteDoes, each for itself, also at another origin.
func TestRedirectsWaitAsTheirRouteDoes(t *testing.T) {
	s := newSlow(t, false)
	first := httptest.NewServer(http.RedirectHandler(s.URL, http.StatusTemporaryRedirect))
	t.Cleanup(first.Close)
	c := newClient(t, Options{ResponseTimeout: time.Hour})
	response, err := c.Waiting(time.Second).Follow(request(t, t.Context(), http.MethodGet, first.URL))
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("got %v, %v", response, err)
	}
}
