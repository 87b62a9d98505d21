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

	"github.com/gatewright/gatewright/shared/dataplane/gateway/pipeline"
	"github.com/gatewright/gatewright/shared/format/project"
)

// slowHandler is a route's handler that takes an hour. If its context ends, it returns a second later.
type slowHandler struct{ started, finished atomic.Bool }

// Handle implements pipeline.Handler.
func (s *slowHandler) Handle(x *pipeline.Exchange) *http.Response {
	s.started.Store(true)
	select {
	case <-x.Context.Done():
	case <-time.After(time.Hour):
	}
	time.Sleep(time.Second)
	s.finished.Store(true)
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: http.NoBody}
}

// TestPanicsAreLoggedExceptAbortHandler checks that a panic is logged, except http.ErrAbortHandler, which net/http's
// handlers use to abort a response. The text for the client always contains the request's ID, and never the cause.
func TestPanicsAreLoggedExceptAbortHandler(t *testing.T) {
	t.Parallel()
	for cause, want := range map[any]bool{http.ErrAbortHandler: false, "a bug": true} {
		var log strings.Builder
		s := &Server{setup: Setup{Log: slog.New(slog.NewTextHandler(&log, nil))}}
		x := &pipeline.Exchange{Context: t.Context(), RequestID: "the-request"}
		if text := s.logPanic(context.WithValue(t.Context(), exchangeKey{}, x), cause); !strings.Contains(text,
			"the-request") || strings.Contains(text, "bug") {
			t.Errorf("logPanic(%v) = %q, want the request's ID and not the cause", cause, text)
		}
		if got := strings.Contains(log.String(), "the-request"); got != want {
			t.Errorf("logPanic(%v): log = %q, want an entry with the request's ID: %t", cause, &log, want)
		}
	}
}

// TestCallEndsWithItsEventStream checks that closing an event stream cancels its call, and returns only after the call
// has ended. Once the stream is closed, the request can count as ended, and a Lambda can be frozen.
func TestCallEndsWithItsEventStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		handler := &slowHandler{}
		offer := Offer{
			Route:     &pipeline.Route{Info: pipeline.Info{Method: http.MethodGet, Path: "/slow"}, Handler: handler},
			Operation: &project.MCPOperation{Kind: project.MCPTool, Name: "slow", Input: json.RawMessage(`{"type":"object"}`)},
			Matches:   func(*pipeline.Exchange) bool { return true },
		}
		s, problems := New(json.RawMessage(`{"operations":[{"file":"a","id":"slow"}]}`))
		if problems = append(problems, s.Configure(Setup{Find: func(Operation) (Offer, bool) {
			return offer, true
		}})...); len(problems) > 0 {
			t.Fatal(problems)
		}
		ctx, cancel := context.WithCancel(t.Context())
		x := &pipeline.Exchange{
			Context: ctx, Method: http.MethodPost, Path: "/mcp", Header: http.Header{},
			Route: &pipeline.Route{Handler: s},
		}
		setBody(x, "application/json",
			`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"slow","_meta":{"progressToken":1}}}`)
		response := x.Route.Run(x)
		go func() { _, _ = io.Copy(io.Discard, response.Body) }()
		synctest.Wait()
		if !handler.started.Load() {
			t.Error("the call has not started, want it started")
		}
		defer cancel()
		start := time.Now()
		_ = response.Body.Close()
		if finished, took := handler.finished.Load(), time.Since(start); !finished || took > time.Minute {
			t.Errorf("Close() returned after %v, call finished: %t, want at most a minute and true", took, finished)
		}
	})
}
