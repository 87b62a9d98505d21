package gateway_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"github.com/gatewright/gatewright/functions/functionstest"
	"github.com/gatewright/gatewright/functions/gateway"
	"github.com/gatewright/gatewright/shared/ids"
	"github.com/gatewright/gatewright/shared/installation"
	"github.com/gatewright/gatewright/shared/limits"
	"github.com/gatewright/gatewright/shared/project"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/storetest"
)

// streaming is an installation whose gateway streams, with a deployment of one route to a stream without an end. Its clock stands
// still unless it is moved.
type streaming struct {
	*testing.T
	parts  installation.Parts
	passed atomic.Int64
}

// newStreaming makes one of accounts that have at most so many streams, over the table's backend as over leaves it, nil for as it is.
func newStreaming(t *testing.T, most int64, over func(store.Backend) store.Backend) *streaming {
	t.Helper()
	s := &streaming{T: t}
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: one\n\n")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	t.Cleanup(up.Close)
	w := functionstest.New(t)
	s.parts = w.Parts
	from := s.parts.Now()
	s.parts.Now = func() time.Time { return from.Add(time.Duration(s.passed.Load())) }
	var backend store.Backend = w.Items
	if over != nil {
		backend = over(backend)
	}
	s.parts.Table = storetest.Over(t, backend, storetest.Clock(s.parts.Now), storetest.Pause(storetest.AtOnce))
	s.parts.Random, s.parts.IDs = rand.Reader, ids.NewSource(rand.Reader, s.parts.Now)
	s.parts.Config.PrivateUpstreams, s.parts.Config.Streaming, s.parts.Config.Limits = true, true, limits.Values{limits.FunctionStreams.Name: most}
	deploy(t, s.parts, "a-1", shopName, &project.Artifact{Routes: []project.Route{route("/events", up.URL)}})
	return s
}

// function is another process each time.
func (s *streaming) function() gateway.Streaming {
	s.Helper()
	g, err := gateway.New(s.parts, gateway.Options{Function: true})
	if err != nil {
		s.Fatal(err)
	}
	return gateway.Stream(s.parts, g)
}

// ask asks a process for the stream, and gives the status, the first part of the answer, and what reads it to its end.
func (s *streaming) ask(ctx context.Context, f gateway.Streaming) (status int, part string, drain func()) {
	s.Helper()
	ctx, leave := context.WithCancel(ctx)
	out, err := f(ctx, events.APIGatewayProxyRequest{
		HTTPMethod: http.MethodGet, Path: "/events", MultiValueHeaders: map[string][]string{"Host": {shopName + ".gateway.test"}, "Accept": {"text/event-stream"}},
	})
	if err != nil {
		s.Fatal(err)
	}
	buffer := make([]byte, 512)
	n, _ := out.Body.Read(buffer)
	drain = func() { _, _ = io.Copy(io.Discard, out.Body) }
	s.Cleanup(func() {
		leave()
		drain()
	})
	return out.StatusCode, string(buffer[:n]), drain
}

// TestStreamsAreBoundedOverFunctions, of which none runs two: an account has no more than its limit over all that there are, the
// end of one makes room for another, and so does the time after which one that is gone without a word cannot be there any more.
func TestStreamsAreBoundedOverFunctions(t *testing.T) {
	s := newStreaming(t, 2, nil)
	invocation, ends := context.WithTimeout(t.Context(), 15*time.Minute)
	defer ends()
	first, leaves := context.WithCancel(invocation)
	status, body, drain := s.ask(first, s.function())
	if status != http.StatusOK || body != "data: one\n\n" {
		t.Fatalf("a stream is answered %d, %s", status, body)
	}
	again := s.function()
	if status, body, _ := s.ask(invocation, again); status != http.StatusOK {
		t.Fatalf("a second is answered %d, %s", status, body)
	}
	if status, body, _ := s.ask(invocation, s.function()); status != http.StatusTooManyRequests ||
		!strings.Contains(body, "The account has 2 streams under way at the gateway's function, and its limit function-streams is 2.") {
		t.Errorf("a third is answered %d, %s", status, body)
	}
	leaves()
	drain() // to the end of the invocation
	if status, body, _ := s.ask(invocation, again); status != http.StatusOK {
		t.Errorf("after one has ended: %d, %s", status, body)
	}
	s.passed.Add(int64(14 * time.Minute))
	if status, body, _ := s.ask(invocation, s.function()); status != http.StatusTooManyRequests {
		t.Errorf("while two may still be there: %d, %s", status, body)
	}
	s.passed.Add(int64(2 * time.Minute))
	if status, body, _ := s.ask(invocation, s.function()); status != http.StatusOK {
		t.Errorf("after their functions have ended without a word: %d, %s", status, body)
	}
}

// TestProcessCountsItsOwnStreams, also beside a function that streams: as many as a process may have, for as long as they take, and whatever
// others have.
func TestProcessCountsItsOwnStreams(t *testing.T) {
	s := newStreaming(t, 1, nil)
	s.parts.Config.Limits[limits.GatewayStreams.Name] = 2
	for range 2 {
		process, err := gateway.OpenProcess(s.parts, "")
		if err != nil {
			t.Fatal(err)
		}
		server := httptest.NewServer(process)
		t.Cleanup(server.Close)
		ctx, leave := context.WithCancel(t.Context())
		t.Cleanup(leave)
		for i, want := range []int{http.StatusOK, http.StatusOK, http.StatusTooManyRequests} {
			r, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+"/events", http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			r.Host = shopName + ".gateway.test"
			out, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			part := make([]byte, 512)
			n, _ := out.Body.Read(part)
			if out.StatusCode != want || want != http.StatusOK && !strings.Contains(string(part[:n]), "its limit gateway-streams is 2.") {
				t.Errorf("stream %d is answered %d, %s", i, out.StatusCode, part[:n])
			}
			t.Cleanup(func() { _ = out.Body.Close() })
		}
	}
}

// faulty is a backend that answers writes of slots as it is told to.
type faulty struct {
	store.Backend
	before, after error // the write, nil for none
}

func (f *faulty) Transact(ctx context.Context, token string, writes []store.Write) error {
	if !strings.HasPrefix(writes[0].Key.PK, "account-slots") {
		return f.Backend.Transact(ctx, token, writes)
	}
	if f.before != nil {
		return f.before
	}
	if err := f.Backend.Transact(ctx, token, writes); err != nil {
		return err
	}
	return f.after
}

// TestStreamGoesOnWhereItCannotBeCounted: a table that throttles, or answers nothing, ends no stream; and what it has written without a word is
// given back when the stream ends.
func TestStreamGoesOnWhereItCannotBeCounted(t *testing.T) {
	for name, trouble := range map[string]faulty{
		"throttled":        {before: store.ErrRepeat},
		"refused":          {before: errors.New("access denied")},
		"a reply was lost": {after: fmt.Errorf("%w: the connection broke", store.ErrLost)},
	} {
		t.Run(name, func(t *testing.T) {
			backend := trouble
			s := newStreaming(t, 1, func(b store.Backend) store.Backend {
				backend.Backend = b
				return &backend
			})
			first, leaves := context.WithCancel(t.Context())
			f := s.function()
			status, body, drain := s.ask(first, f)
			if status != http.StatusOK || body != "data: one\n\n" {
				t.Fatalf("a stream is answered %d, %s", status, body)
			}
			backend.before, backend.after = nil, nil
			leaves()
			drain()
			if status, body, _ := s.ask(t.Context(), f); status != http.StatusOK {
				t.Errorf("the next is answered %d, %s", status, body)
			}
		})
	}
}
