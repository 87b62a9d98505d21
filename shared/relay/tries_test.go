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

	"github.com/gatewright/gatewright/shared/relay"
	"github.com/gatewright/gatewright/shared/tunnel"
)

var (
	errNoAgent  = fmt.Errorf("asked: %w", tunnel.ErrNoAgent)
	errNoRelay  = fmt.Errorf("asked: %w", tunnel.ErrUnavailable)
	errBroken   = fmt.Errorf("asked: %w", tunnel.ErrBroken)
	errOfAgent  = fmt.Errorf("asked: %w", &tunnel.Error{Failure: tunnel.Late})
	errOfOthers = errors.New("another one")
)

// TestRequestIsTriedAgainWhereNobodyLoses: what reached no service, while its body is whole; what may have been
// seen, where it may be repeated and was not seen too often; and nothing for somebody who has left.
func TestRequestIsTriedAgainWhereNobodyLoses(t *testing.T) {
	const untouched, touched, none = "whole", "touched", ""
	for _, tt := range []struct {
		name, method, body string
		left               bool
		came               []error // of the attempts before
		err                error
		want               bool
	}{
		{name: "without an agent", method: http.MethodPost, err: errNoAgent, want: true},
		{name: "without a relay", method: http.MethodPost, err: errNoRelay, want: true},
		{name: "without an agent for ever", method: http.MethodPost, came: []error{errNoAgent, errNoRelay, errNoAgent, errNoRelay}, err: errNoAgent, want: true},
		{name: "without an agent, whose body is whole", method: http.MethodPost, body: untouched, err: errNoAgent, want: true},
		{name: "without a relay, whose body is whole", method: http.MethodPost, body: untouched, err: errNoRelay, want: true},
		{name: "without an agent, whose body is read", method: http.MethodPost, body: touched, err: errNoAgent},
		{name: "without a relay, whose body is read", method: http.MethodPut, body: touched, err: errNoRelay},
		{name: "that broke", method: http.MethodGet, err: errBroken, want: true},
		{name: "that broke twice", method: http.MethodGet, came: []error{errBroken}, err: errBroken, want: true},
		{name: "that broke five times", method: http.MethodGet, came: []error{errBroken, errBroken, errBroken, errBroken}, err: errBroken},
		{name: "that broke twice and found no agent", method: http.MethodGet, came: []error{errBroken, errBroken, errNoAgent}, err: errNoAgent, want: true},
		{name: "that broke and may be seen once", method: http.MethodPost, err: errBroken},
		{name: "that broke, with a body", method: http.MethodPut, body: untouched, err: errBroken},
		{name: "that an agent has answered", method: http.MethodGet, err: errOfAgent},
		{name: "that something else ended", method: http.MethodGet, err: errOfOthers},
		{name: "that was answered", method: http.MethodGet},
		{name: "of somebody who has left, without an agent", method: http.MethodGet, left: true, err: errNoAgent},
		{name: "of somebody who has left, that broke", method: http.MethodGet, left: true, err: errBroken},
	} {
		ctx, leave := context.WithCancel(t.Context())
		var body io.Reader
		if tt.body != none {
			body = strings.NewReader("text")
		}
		r, err := http.NewRequestWithContext(ctx, tt.method, "/", body)
		if err != nil {
			t.Fatal(err)
		}
		tries := relay.TriesOf(r)
		attempt := tries.Begin()
		for _, err := range tt.came {
			tries.Again(err)
		}
		if tt.body == touched {
			_, _ = attempt.Read(make([]byte, 1))
		}
		if tt.left {
			leave()
		}
		if got := tries.Again(tt.err); got != tt.want {
			t.Errorf("a request %s is tried again: %t, want %t", tt.name, got, tt.want)
		}
		leave()
	}
}

// TestOutcomeIsTheWorstThatMayBe: a request that may have been seen has not just found nobody. Its body is
// closed, but for one that was answered.
func TestOutcomeIsTheWorstThatMayBe(t *testing.T) {
	for _, tt := range []struct {
		came []error
		err  error
		want error
	}{
		{nil, errNoAgent, errNoAgent},
		{nil, errOfAgent, errOfAgent},
		{[]error{errNoRelay}, errNoAgent, errNoAgent},
		{[]error{errBroken}, errNoAgent, errBroken},
		{[]error{errBroken, errNoAgent}, errNoRelay, errBroken},
		{[]error{errBroken}, errOfAgent, errOfAgent},
		{[]error{errBroken}, errOfOthers, errOfOthers},
		{[]error{errBroken}, nil, nil},
	} {
		body := &closed{Reader: strings.NewReader("text")}
		tries := relay.TriesOf((&http.Request{Method: http.MethodGet, Body: body}).WithContext(t.Context()))
		for _, err := range tt.came {
			tries.Begin()
			tries.Again(err)
		}
		tries.Begin()
		tries.Again(tt.err)
		var answer *http.Response
		if tt.err == nil {
			answer = &http.Response{Header: http.Header{relay.FieldAnswer: {"forged"}, "X-Kept": {"1"}}}
		}
		got, err := tries.Done(answer, tt.err)
		if !errors.Is(err, tt.want) || got != answer {
			t.Errorf("after %v and %v it is %v, want %v", tt.came, tt.err, err, tt.want)
		}
		if got != nil && len(got.Header) != 1 {
			t.Errorf("the answer has %v", got.Header)
		}
		if n := body.n.Load(); (n == 1) != (err != nil) {
			t.Errorf("after %v and %v the body is closed %d times", tt.came, tt.err, n)
		}
	}
}

// TestPatienceHasItsEnd: a wait ends with its pause, with news, with its request, and with patience, however
// often it was begun.
func TestPatienceHasItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gone := errors.New("gone")
		ctx, leave := context.WithCancelCause(t.Context())
		tries := relay.TriesOf((&http.Request{Method: http.MethodGet}).WithContext(ctx))
		began := time.Now()
		var err error
		n := 0
		for ; err == nil; n++ {
			err = tries.Wait(ctx, relay.Patience/10+time.Millisecond, nil, errNoAgent)
		}
		if !errors.Is(err, tunnel.ErrNoAgent) || time.Since(began) != relay.Patience || n != 10 {
			t.Errorf("%d waits end after %v with %v", n, time.Since(began), err)
		}
		tries = relay.TriesOf((&http.Request{Method: http.MethodGet}).WithContext(ctx))
		news := make(chan struct{})
		close(news)
		began = time.Now()
		if err := tries.Wait(ctx, relay.Patience, news, errNoAgent); err != nil || !time.Now().Equal(began) {
			t.Errorf("with news it ends after %v with %v", time.Since(began), err)
		}
		time.AfterFunc(time.Second, func() { leave(gone) })
		if err := tries.Wait(ctx, relay.Patience, nil, errNoAgent); !errors.Is(err, gone) || time.Since(began) != time.Second {
			t.Errorf("with its request it ends after %v with %v", time.Since(began), err)
		}
	})
}
