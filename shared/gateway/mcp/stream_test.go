package mcp

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatewright/gatewright/shared/gateway/pipeline"
	"github.com/gatewright/gatewright/shared/project"
)

// slow is a route's handler that takes an hour, and some time to end when nobody waits any more.
type slow struct{ begun, ended atomic.Bool }

// Handle implements pipeline.Handler.
func (s *slow) Handle(x *pipeline.Exchange) *http.Response {
	s.begun.Store(true)
	select {
	case <-x.Context.Done():
	case <-time.After(time.Hour):
	}
	time.Sleep(time.Second)
	s.ended.Store(true)
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: http.NoBody}
}

// TestPanicsAreLoggedUnlessTheyAreMeant: http.ErrAbortHandler is how a handler of net/http gives an answer up.
func TestPanicsAreLoggedUnlessTheyAreMeant(t *testing.T) {
	t.Parallel()
	for cause, want := range map[any]bool{http.ErrAbortHandler: false, "a bug": true} {
		var log strings.Builder
		s := &Server{setup: Setup{Log: slog.New(slog.NewTextHandler(&log, nil))}}
		x := &pipeline.Exchange{Context: t.Context(), RequestID: "the-request"}
		if text := s.panicked(context.WithValue(t.Context(), exchangeKey{}, x), cause); !strings.Contains(text, "the-request") || strings.Contains(text, "bug") {
			t.Errorf("%v: the caller is told %q", cause, text)
		}
		if got := strings.Contains(log.String(), "the-request"); got != want {
			t.Errorf("%v: the log is %q", cause, &log)
		}
	}
}

// TestNothingOfACallOutlivesItsEvents: whoever has closed them may take the request for over, and a Lambda be frozen.
func TestNothingOfACallOutlivesItsEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		handler := &slow{}
		offer := Offer{
			Route:     &pipeline.Route{Info: pipeline.Info{Method: http.MethodGet, Path: "/slow"}, Handler: handler},
			Operation: &project.MCPOperation{Kind: project.MCPTool, Name: "slow", Input: json.RawMessage(`{"type":"object"}`)},
			Leads:     func(*pipeline.Exchange) bool { return true },
		}
		s, problems := New(json.RawMessage(`{"operations":[{"file":"a","id":"slow"}]}`))
		if problems = append(problems, s.Serve(Setup{Find: func(Operation) (Offer, bool) { return offer, true }})...); len(problems) > 0 {
			t.Fatal(problems)
		}
		ctx, gone := context.WithCancel(t.Context())
		x := &pipeline.Exchange{Context: ctx, Method: http.MethodPost, Path: "/mcp", Header: http.Header{}, Route: &pipeline.Route{Handler: s}}
		setBody(x, "application/json", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"slow","_meta":{"progressToken":1}}}`)
		response := x.Route.Run(x)
		go func() { _, _ = io.Copy(io.Discard, response.Body) }()
		synctest.Wait()
		if !handler.begun.Load() {
			t.Error("the call has not begun")
		}
		defer gone() // the client is still there: an outbound policy may have put another body in place of the events
		closed := time.Now()
		_ = response.Body.Close()
		if !handler.ended.Load() || time.Since(closed) > time.Minute {
			t.Errorf("the call goes on, for %v", time.Since(closed))
		}
	})
}
