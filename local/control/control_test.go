package control_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gatewright/gatewright/local/control"
)

func listen(t *testing.T, run control.Runner) *control.Server {
	t.Helper()
	s, err := control.Listen(t.Context(), run, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func TestCommandIsRunAndItsOutputPassedOn(t *testing.T) {
	t.Parallel()
	want := control.Command{Args: []string{"account", "create", "--", "acme"}, Dir: "/somewhere"}
	var got control.Command
	var failure error
	s := listen(t, func(_ context.Context, c control.Command, out, remarks io.Writer) error {
		got = c
		_, _ = io.WriteString(out, "the key\n")
		_, _ = io.WriteString(remarks, "keep it\n")
		return failure
	})
	for _, failure = range []error{nil, errors.New("acme is there already")} {
		var out, remarks bytes.Buffer
		err := control.Ask(t.Context(), s.Endpoint, want, &out, &remarks)
		if (err == nil) != (failure == nil) || err != nil && err.Error() != failure.Error() {
			t.Errorf("the answer is %v, want %v", err, failure)
		}
		if out.String() != "the key\n" || remarks.String() != "keep it\n" {
			t.Errorf("printed %q and %q", &out, &remarks)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestStrangersAreRefused has who does not know the token, and who sends nonsense.
func TestStrangersAreRefused(t *testing.T) {
	t.Parallel()
	s := listen(t, func(context.Context, control.Command, io.Writer, io.Writer) error {
		t.Error("a stranger's command was run")
		return nil
	})
	if !strings.HasPrefix(s.Endpoint.Address, "http://127.0.0.1:") || len(s.Endpoint.Token) < 26 {
		t.Errorf("it listens at %s with a token of %d characters", s.Endpoint.Address, len(s.Endpoint.Token))
	}
	for _, stranger := range []control.Endpoint{
		{Address: s.Endpoint.Address, Token: "guess"},
		{Address: s.Endpoint.Address},
		{Address: "http://127.0.0.1:1", Token: s.Endpoint.Token},
	} {
		err := control.Ask(t.Context(), stranger, control.Command{Args: []string{"operation", "list"}}, io.Discard, io.Discard)
		if !errors.Is(err, control.ErrUnreachable) || strings.Contains(err.Error(), s.Endpoint.Token) {
			t.Errorf("%s: %v", stranger.Address, err)
		}
	}
	for body, token := range map[string]string{"nonsense": s.Endpoint.Token, `{"args":["` + strings.Repeat("x", 1<<20) + `"]}`: s.Endpoint.Token, `{}`: ""} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.Endpoint.Address, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Authorization", "Bearer "+token)
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		if response.StatusCode < 400 {
			t.Errorf("%.20s is answered %d", body, response.StatusCode)
		}
	}
}

// A product that ends over a command may have done what was asked: who asked is told
// so, and does not take it for one that was never reached, and ask again.
func TestCommandThatMayHaveRunIsNotRepeated(t *testing.T) {
	t.Parallel()
	for name, said := range map[string]string{
		"no answer": "", "half an answer": "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"out\":",
	} {
		var asked atomic.Int64
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			asked.Add(1)
			c, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			_, _ = io.WriteString(c, said)
			_ = c.Close()
		}))
		err := control.Ask(t.Context(), control.Endpoint{Address: s.URL}, control.Command{}, io.Discard, io.Discard)
		s.Close()
		if err == nil || errors.Is(err, control.ErrUnreachable) || !strings.Contains(err.Error(), "before you repeat it") || asked.Load() != 1 {
			t.Errorf("%s: asked %d times, it is answered with %v", name, asked.Load(), err)
		}
	}
}

// TestStrangersConnectionsEnd has one that announces a body, and sends none, after a
// command began: that goes on.
func TestStrangersConnectionsEnd(t *testing.T) {
	t.Parallel()
	begun, gone := make(chan struct{}), make(chan struct{})
	s := listen(t, func(ctx context.Context, _ control.Command, _, _ io.Writer) error {
		close(begun)
		<-gone
		return ctx.Err()
	})
	answer := make(chan error)
	go func() { answer <- control.Ask(t.Context(), s.Endpoint, control.Command{}, io.Discard, io.Discard) }()
	<-begun
	c, err := new(net.Dialer).DialContext(t.Context(), "tcp", strings.TrimPrefix(s.Endpoint.Address, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	if _, err := io.WriteString(c, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if said, err := io.ReadAll(c); err != nil || !strings.HasPrefix(string(said), "HTTP/1.1 401") {
		t.Errorf("the stranger is told %q (%v)", said, err)
	}
	close(gone)
	if err := <-answer; err != nil {
		t.Errorf("the command is answered with %v", err)
	}
}

// TestCommandEndsWithWhoAsked ends it on both sides, and the asker is told that it
// may have been done when the product goes away.
func TestCommandEndsWithWhoAsked(t *testing.T) {
	t.Parallel()
	begun, ended := make(chan struct{}, 1), make(chan error, 1)
	s := listen(t, func(ctx context.Context, _ control.Command, _, _ io.Writer) error {
		begun <- struct{}{}
		<-ctx.Done()
		ended <- ctx.Err()
		return ctx.Err()
	})
	ctx, cancel := context.WithCancelCause(t.Context())
	interrupted := errors.New("interrupted")
	go func() {
		<-begun
		cancel(interrupted)
	}()
	if err := control.Ask(ctx, s.Endpoint, control.Command{}, io.Discard, io.Discard); !errors.Is(err, interrupted) {
		t.Errorf("the answer is %v", err)
	}
	if err := <-ended; err == nil {
		t.Error("the command went on")
	}
	go func() {
		<-begun
		s.Close()
	}()
	if err := control.Ask(t.Context(), s.Endpoint, control.Command{}, io.Discard, io.Discard); err == nil || errors.Is(err, control.ErrUnreachable) || !strings.Contains(err.Error(), "look whether it did") {
		t.Errorf("once the product has gone the answer is %v", err)
	}
}
