package relay_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatewright/gatewright/shared/dataplane/relay"
	"github.com/gatewright/gatewright/shared/format/tunnel"
)

var (
	errNoAgent      = fmt.Errorf("wrapped: %w", tunnel.ErrNoAgent)
	errNoRelay      = fmt.Errorf("wrapped: %w", tunnel.ErrUnavailable)
	errBroken       = fmt.Errorf("wrapped: %w", tunnel.ErrBroken)
	errAgentFailure = fmt.Errorf("wrapped: %w", &tunnel.Error{Failure: tunnel.TimedOut})
	errOther        = errors.New("another one")
)

// TestShouldRetry checks that a request is sent again in two cases: if it has reached no
// service and its body is unread, or if a service may have received it, it can be repeated,
// and it was not sent too often. It is not sent again if its client has disconnected.
func TestShouldRetry(t *testing.T) {
	const unread, partlyRead, none = "unread", "partly read", ""
	for _, tt := range []struct {
		name, method, body string
		disconnected       bool
		earlier            []error // errors of the previous attempts
		err                error
		want               bool
	}{
		{name: "no agent", method: http.MethodPost, err: errNoAgent, want: true},
		{name: "no relay", method: http.MethodPost, err: errNoRelay, want: true},
		{
			name: "five attempts without an agent or a relay", method: http.MethodPost,
			earlier: []error{errNoAgent, errNoRelay, errNoAgent, errNoRelay}, err: errNoAgent, want: true,
		},
		{name: "no agent and an unread body", method: http.MethodPost, body: unread, err: errNoAgent, want: true},
		{name: "no relay and an unread body", method: http.MethodPost, body: unread, err: errNoRelay, want: true},
		{name: "no agent and a partly read body", method: http.MethodPost, body: partlyRead, err: errNoAgent},
		{name: "no relay and a partly read body", method: http.MethodPut, body: partlyRead, err: errNoRelay},
		{name: "a broken connection", method: http.MethodGet, err: errBroken, want: true},
		{name: "two broken connections", method: http.MethodGet, earlier: []error{errBroken}, err: errBroken, want: true},
		{
			name: "five broken connections", method: http.MethodGet,
			earlier: []error{errBroken, errBroken, errBroken, errBroken}, err: errBroken,
		},
		{
			name: "two broken connections and no agent", method: http.MethodGet,
			earlier: []error{errBroken, errBroken, errNoAgent}, err: errNoAgent, want: true,
		},
		{name: "a broken connection of a POST", method: http.MethodPost, err: errBroken},
		{name: "a broken connection with a body", method: http.MethodPut, body: unread, err: errBroken},
		{name: "a failure that the agent has reported", method: http.MethodGet, err: errAgentFailure},
		{name: "another error", method: http.MethodGet, err: errOther},
		{name: "no error", method: http.MethodGet},
		{name: "a disconnected client without an agent", method: http.MethodGet, disconnected: true, err: errNoAgent},
		{name: "a disconnected client with a broken connection", method: http.MethodGet, disconnected: true, err: errBroken},
	} {
		ctx, disconnect := context.WithCancel(t.Context())
		var body io.Reader
		if tt.body != none {
			body = strings.NewReader("text")
		}
		r, err := http.NewRequestWithContext(ctx, tt.method, "/", body)
		if err != nil {
			t.Fatal(err)
		}
		attempts := relay.NewAttempts(r)
		attempt := attempts.Begin()
		for _, err := range tt.earlier {
			attempts.ShouldRetry(err)
		}
		if tt.body == partlyRead {
			_, _ = attempt.Read(make([]byte, 1))
		}
		if tt.disconnected {
			disconnect()
		}
		if got := attempts.ShouldRetry(tt.err); got != tt.want {
			t.Errorf("%s: ShouldRetry(%v) = %t, want %t", tt.name, tt.err, got, tt.want)
		}
		disconnect()
	}
}

// TestFinishReturnsTheWorstPossibleError checks that Finish returns no error that says that no service was reached
// if an earlier attempt may have reached a service. The request's body is closed unless there is a response.
func TestFinishReturnsTheWorstPossibleError(t *testing.T) {
	for _, tt := range []struct {
		earlier []error
		err     error
		want    error
	}{
		{nil, errNoAgent, errNoAgent},
		{nil, errAgentFailure, errAgentFailure},
		{[]error{errNoRelay}, errNoAgent, errNoAgent},
		{[]error{errBroken}, errNoAgent, errBroken},
		{[]error{errBroken, errNoAgent}, errNoRelay, errBroken},
		{[]error{errBroken}, errAgentFailure, errAgentFailure},
		{[]error{errBroken}, errOther, errOther},
		{[]error{errBroken}, nil, nil},
	} {
		body := &closeCounter{Reader: strings.NewReader("text")}
		attempts := relay.NewAttempts((&http.Request{Method: http.MethodGet, Body: body}).WithContext(t.Context()))
		for _, err := range tt.earlier {
			attempts.Begin()
			attempts.ShouldRetry(err)
		}
		attempts.Begin()
		attempts.ShouldRetry(tt.err)
		var response *http.Response
		if tt.err == nil {
			response = &http.Response{Header: http.Header{relay.FieldResult: {"forged"}, "X-Kept": {"1"}}}
		}
		got, err := attempts.Finish(response, tt.err)
		if !errors.Is(err, tt.want) {
			t.Errorf("Finish() after %v and %v: error = %v, want %v", tt.earlier, tt.err, err, tt.want)
		}
		if got != response {
			t.Errorf("Finish() after %v and %v: response = %v, want %v", tt.earlier, tt.err, got, response)
		}
		if got != nil && len(got.Header) != 1 {
			t.Errorf("Finish() after %v and no error: header = %v, want only X-Kept", tt.earlier, got.Header)
		}
		if n := body.n.Load(); (n == 1) != (err != nil) {
			t.Errorf("after %v and %v: body closed %d times, want 1 only with an error (%v)", tt.earlier, tt.err, n, err)
		}
	}
}

// TestWaitRetryEnds checks that a wait ends after its delay, with a change,
// and with the request's context. All waits together end after AgentWait.
func TestWaitRetryEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		errDisconnected := errors.New("the client has disconnected")
		ctx, disconnect := context.WithCancelCause(t.Context())
		attempts := relay.NewAttempts((&http.Request{Method: http.MethodGet}).WithContext(ctx))
		start := time.Now()
		var err error
		n := 0
		for ; err == nil; n++ {
			err = attempts.WaitRetry(ctx, relay.AgentWait/10+time.Millisecond, nil, errNoAgent)
		}
		if !errors.Is(err, tunnel.ErrNoAgent) || time.Since(start) != relay.AgentWait || n != 10 {
			t.Errorf("WaitRetry() = %v after %d waits and %v, want %v after 10 and %v",
				err, n, time.Since(start), tunnel.ErrNoAgent, relay.AgentWait)
		}
		attempts = relay.NewAttempts((&http.Request{Method: http.MethodGet}).WithContext(ctx))
		changed := make(chan struct{})
		close(changed)
		start = time.Now()
		if err := attempts.WaitRetry(ctx, relay.AgentWait, changed, errNoAgent); err != nil || !time.Now().Equal(start) {
			t.Errorf("WaitRetry() with a change = %v after %v, want nil at once", err, time.Since(start))
		}
		time.AfterFunc(time.Second, func() { disconnect(errDisconnected) })
		if err := attempts.WaitRetry(ctx, relay.AgentWait, nil, errNoAgent); !errors.Is(err, errDisconnected) ||
			time.Since(start) != time.Second {
			t.Errorf("WaitRetry() of a canceled request = %v after %v, want %v after 1 s",
				err, time.Since(start), errDisconnected)
		}
	})
}
