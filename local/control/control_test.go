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

func TestCommandOutputIsReturned(t *testing.T) {
	t.Parallel()
	want := control.Command{Args: []string{"account", "create", "--", "acme"}, Dir: "/somewhere"}
	var got control.Command
	var failure error
	s := listen(t, func(_ context.Context, c control.Command, out, errOut io.Writer) error {
		got = c
		_, _ = io.WriteString(out, "the key\n")
		_, _ = io.WriteString(errOut, "keep it\n")
		return failure
	})
	for _, failure = range []error{nil, errors.New("acme is there already")} {
		var out, errOut bytes.Buffer
		err := control.Run(t.Context(), s.Endpoint, want, &out, &errOut)
		if (err == nil) != (failure == nil) || err != nil && err.Error() != failure.Error() {
			t.Errorf("Run() = %v, want %v", err, failure)
		}
		if out.String() != "the key\n" || errOut.String() != "keep it\n" {
			t.Errorf("output = %q and %q, want %q and %q", &out, &errOut, "the key\n", "keep it\n")
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the received command differs (-want +got):\n%s", diff)
	}
}

// TestUnauthenticatedCommandIsRefused sends commands without a valid token, commands to an address without a Server,
// and invalid commands.
func TestUnauthenticatedCommandIsRefused(t *testing.T) {
	t.Parallel()
	s := listen(t, func(context.Context, control.Command, io.Writer, io.Writer) error {
		t.Error("an unauthenticated command is run, want it refused")
		return nil
	})
	if !strings.HasPrefix(s.Endpoint.Address, "http://127.0.0.1:") || len(s.Endpoint.Token) < 26 {
		t.Errorf("endpoint = %s with a token of %d characters, want 127.0.0.1 and at least 26", s.Endpoint.Address,
			len(s.Endpoint.Token))
	}
	for _, endpoint := range []control.Endpoint{
		{Address: s.Endpoint.Address, Token: "guess"},
		{Address: s.Endpoint.Address},
		{Address: "http://127.0.0.1:1", Token: s.Endpoint.Token},
	} {
		err := control.Run(t.Context(), endpoint, control.Command{Args: []string{"operation", "list"}}, io.Discard,
			io.Discard)
		if !errors.Is(err, control.ErrUnreachable) || strings.Contains(err.Error(), s.Endpoint.Token) {
			t.Errorf("Run(%s) = %v, want %v without the token", endpoint.Address, err, control.ErrUnreachable)
		}
	}
	for body, token := range map[string]string{
		"nonsense": s.Endpoint.Token,
		`{"args":["` + strings.Repeat("x", 1<<20) + `"]}`: s.Endpoint.Token, `{}`: "",
	} {
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
			t.Errorf("status of POST %.20s = %d, want 400 or more", body, response.StatusCode)
		}
	}
}

// TestCommandThatMayHaveRunIsNotRepeated checks the error if the product ends during a command. The error
// says that the command may have run. It is not ErrUnreachable, so the caller does not repeat the command.
func TestCommandThatMayHaveRunIsNotRepeated(t *testing.T) {
	t.Parallel()
	for name, raw := range map[string]string{
		"no response": "", "half a response": "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"out\":",
	} {
		var requests atomic.Int64
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			requests.Add(1)
			c, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				t.Errorf("%s: Hijack() = %v, want no error", name, err)
				return
			}
			_, _ = io.WriteString(c, raw)
			_ = c.Close()
		}))
		err := control.Run(t.Context(), control.Endpoint{Address: s.URL}, control.Command{}, io.Discard, io.Discard)
		s.Close()
		if err == nil || errors.Is(err, control.ErrUnreachable) || !strings.Contains(err.Error(), "before you repeat it") ||
			requests.Load() != 1 {
			t.Errorf("%s: Run() = %v after %d requests, want 1 request and an error with \"before you repeat it\"", name, err,
				requests.Load())
		}
	}
}

// TestStalledUnauthenticatedConnectionIsClosed checks a client without a token that announces a body and does not
// send it. The client gets a 401, and its connection is closed. A running command of another client continues.
func TestStalledUnauthenticatedConnectionIsClosed(t *testing.T) {
	t.Parallel()
	started, release := make(chan struct{}), make(chan struct{})
	s := listen(t, func(ctx context.Context, _ control.Command, _, _ io.Writer) error {
		close(started)
		<-release
		return ctx.Err()
	})
	result := make(chan error)
	go func() { result <- control.Run(t.Context(), s.Endpoint, control.Command{}, io.Discard, io.Discard) }()
	<-started
	c, err := new(net.Dialer).DialContext(t.Context(), "tcp", strings.TrimPrefix(s.Endpoint.Address, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	if _, err := io.WriteString(c, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if response, err := io.ReadAll(c); err != nil || !strings.HasPrefix(string(response), "HTTP/1.1 401") {
		t.Errorf("response to an unauthenticated request = %q, %v, want 401", response, err)
	}
	close(release)
	if err := <-result; err != nil {
		t.Errorf("Run() = %v, want no error", err)
	}
}

// TestCommandEndsWithItsClient checks that the end of the client's context ends Run and cancels the command in the
// product. If the product ends during a command, Run's error says that the command may have run.
func TestCommandEndsWithItsClient(t *testing.T) {
	t.Parallel()
	started, done := make(chan struct{}, 1), make(chan error, 1)
	s := listen(t, func(ctx context.Context, _ control.Command, _, _ io.Writer) error {
		started <- struct{}{}
		<-ctx.Done()
		done <- ctx.Err()
		return ctx.Err()
	})
	ctx, cancel := context.WithCancelCause(t.Context())
	interrupted := errors.New("interrupted")
	go func() {
		<-started
		cancel(interrupted)
	}()
	if err := control.Run(ctx, s.Endpoint, control.Command{}, io.Discard, io.Discard); !errors.Is(err, interrupted) {
		t.Errorf("Run(canceled) = %v, want %v", err, interrupted)
	}
	if err := <-done; err == nil {
		t.Error("the command continues after its client has left, want it canceled")
	}
	go func() {
		<-started
		s.Close()
	}()
	if err := control.Run(t.Context(), s.Endpoint, control.Command{}, io.Discard, io.Discard); err == nil ||
		errors.Is(err, control.ErrUnreachable) || !strings.Contains(err.Error(), "look whether it did") {
		t.Errorf("Run() during Close() = %v, want an error with \"look whether it did\"", err)
	}
}
