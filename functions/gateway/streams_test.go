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
	"github.com/gatewright/gatewright/shared/base/ids"
	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/core/limits"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/storetest"
	"github.com/gatewright/gatewright/shared/format/project"
)

// streamFixture is an installation whose gateway streams responses. It has a deployment with one route, whose upstream
// returns an endless stream. elapsed is the time on its clock since the start, which only tests change.
type streamFixture struct {
	*testing.T
	parts   installation.Parts
	elapsed atomic.Int64
}

// newStreamFixture creates a fixture whose accounts can have maxStreams streams. If wrap is not nil, the table uses the
// backend that wrap returns.
func newStreamFixture(t *testing.T, maxStreams int64, wrap func(store.Backend) store.Backend) *streamFixture {
	t.Helper()
	s := &streamFixture{T: t}
	upstreamServer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: one\n\n")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	t.Cleanup(upstreamServer.Close)
	fx := functionstest.New(t)
	s.parts = fx.Parts
	start := s.parts.Now()
	s.parts.Now = func() time.Time { return start.Add(time.Duration(s.elapsed.Load())) }
	var backend store.Backend = fx.Items
	if wrap != nil {
		backend = wrap(backend)
	}
	s.parts.Table = storetest.NewWithBackend(t, backend, storetest.Clock(s.parts.Now),
		storetest.Backoff(storetest.NoBackoff))
	s.parts.Random, s.parts.IDs = rand.Reader, ids.NewSource(rand.Reader, s.parts.Now)
	s.parts.Config.PrivateUpstreams, s.parts.Config.Streaming, s.parts.Config.Limits = true, true,
		limits.Values{limits.FunctionStreams.Name: maxStreams}
	deploy(t, s.parts, "a-1", shopName, &project.Artifact{Routes: []project.Route{route("/events", upstreamServer.URL)}})
	return s
}

// newFunction starts another process of the function.
func (s *streamFixture) newFunction() gateway.StreamingHandler {
	s.Helper()
	g, err := gateway.New(s.parts, gateway.Options{Function: true})
	if err != nil {
		s.Fatal(err)
	}
	return gateway.Stream(s.parts, g)
}

// open requests the stream from a process. It returns the status, the first part of the body, and a function that reads
// the body until its end.
func (s *streamFixture) open(ctx context.Context, f gateway.StreamingHandler) (status int, part string, drain func()) {
	s.Helper()
	ctx, cancel := context.WithCancel(ctx)
	out, err := f(ctx, events.APIGatewayProxyRequest{
		HTTPMethod: http.MethodGet, Path: "/events",
		MultiValueHeaders: map[string][]string{"Host": {shopName + ".gateway.test"}, "Accept": {"text/event-stream"}},
	})
	if err != nil {
		s.Fatal(err)
	}
	buffer := make([]byte, 512)
	n, _ := out.Body.Read(buffer)
	drain = func() { _, _ = io.Copy(io.Discard, out.Body) }
	s.Cleanup(func() {
		cancel()
		drain()
	})
	return out.StatusCode, string(buffer[:n]), drain
}

// TestStreamLimitAppliesAcrossFunctions opens streams in several processes of the function, one in each. All streams of
// an account together must not exceed its limit. A new stream must be possible after another one has ended, or after
// the deadline of a stream whose process has died.
func TestStreamLimitAppliesAcrossFunctions(t *testing.T) {
	s := newStreamFixture(t, 2, nil)
	invocation, cancelInvocation := context.WithTimeout(t.Context(), 15*time.Minute)
	defer cancelInvocation()
	firstCtx, cancelFirst := context.WithCancel(invocation)
	status, body, drain := s.open(firstCtx, s.newFunction())
	if status != http.StatusOK || body != "data: one\n\n" {
		t.Fatalf("first stream = %d %q, want 200 with \"data: one\\n\\n\"", status, body)
	}
	second := s.newFunction()
	if status, body, _ := s.open(invocation, second); status != http.StatusOK {
		t.Fatalf("second stream = %d %s, want 200", status, body)
	}
	if status, body, _ := s.open(invocation, s.newFunction()); status != http.StatusTooManyRequests ||
		!strings.Contains(body, "The account has 2 streams under way at the gateway's function, and its limit "+
			"function-streams is 2.") {
		t.Errorf("third stream = %d %s, want 429 with the limit function-streams", status, body)
	}
	cancelFirst()
	drain() // until the invocation ends
	if status, body, _ := s.open(invocation, second); status != http.StatusOK {
		t.Errorf("stream after the first has ended = %d %s, want 200", status, body)
	}
	s.elapsed.Add(int64(14 * time.Minute))
	if status, body, _ := s.open(invocation, s.newFunction()); status != http.StatusTooManyRequests {
		t.Errorf("stream while two may be open = %d %s, want 429", status, body)
	}
	s.elapsed.Add(int64(2 * time.Minute))
	if status, body, _ := s.open(invocation, s.newFunction()); status != http.StatusOK {
		t.Errorf("stream after the deadline of the others = %d %s, want 200", status, body)
	}
}

// TestProcessCountsOnlyItsStreams checks that a separate process limits only its own streams for as long as they last,
// even if the installation's function streams too.
func TestProcessCountsOnlyItsStreams(t *testing.T) {
	s := newStreamFixture(t, 1, nil)
	s.parts.Config.Limits[limits.GatewayStreams.Name] = 2
	for range 2 {
		process, err := gateway.OpenProcess(s.parts, "")
		if err != nil {
			t.Fatal(err)
		}
		server := httptest.NewServer(process)
		t.Cleanup(server.Close)
		ctx, cancel := context.WithCancel(t.Context())
		t.Cleanup(cancel)
		for i, want := range []int{http.StatusOK, http.StatusOK, http.StatusTooManyRequests} {
			r, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+"/events", http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			r.Host = shopName + ".gateway.test"
			resp, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			part := make([]byte, 512)
			n, _ := resp.Body.Read(part)
			if resp.StatusCode != want || want != http.StatusOK &&
				!strings.Contains(string(part[:n]), "its limit gateway-streams is 2.") {
				t.Errorf("stream %d = %d %s, want %d, with the limit gateway-streams if it is refused",
					i, resp.StatusCode, part[:n], want)
			}
			t.Cleanup(func() { _ = resp.Body.Close() })
		}
	}
}

// faultyBackend is a backend whose writes of slots fail as configured.
type faultyBackend struct {
	store.Backend
	before, after error // errors that replace the write (before) or its response (after)
}

func (f *faultyBackend) Transact(ctx context.Context, token string, writes []store.Write) error {
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

// TestStreamStartsWhenItCannotBeCounted checks that a stream starts even if the table throttles or refuses the write of
// the slot, or if the response to the write is lost. If the write took effect, the slot must be released when the
// stream ends.
func TestStreamStartsWhenItCannotBeCounted(t *testing.T) {
	for name, fault := range map[string]faultyBackend{
		"throttled":  {before: store.ErrRetryable},
		"refused":    {before: errors.New("access denied")},
		"lost reply": {after: fmt.Errorf("%w: the connection broke", store.ErrOutcomeUnknown)},
	} {
		t.Run(name, func(t *testing.T) {
			backend := fault
			s := newStreamFixture(t, 1, func(b store.Backend) store.Backend {
				backend.Backend = b
				return &backend
			})
			firstCtx, cancelFirst := context.WithCancel(t.Context())
			f := s.newFunction()
			status, body, drain := s.open(firstCtx, f)
			if status != http.StatusOK || body != "data: one\n\n" {
				t.Fatalf("first stream = %d %q, want 200 with \"data: one\\n\\n\"", status, body)
			}
			backend.before, backend.after = nil, nil
			cancelFirst()
			drain()
			if status, body, _ := s.open(t.Context(), f); status != http.StatusOK {
				t.Errorf("next stream = %d %s, want 200", status, body)
			}
		})
	}
}
