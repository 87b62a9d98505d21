package commands_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/term"

	"github.com/gatewright/gatewright/client/commands"
	"github.com/gatewright/gatewright/client/exit"
	"github.com/gatewright/gatewright/shared/base/terminal/terminaltest"
	"github.com/gatewright/gatewright/shared/testing/deadline"
)

// terminalOutput returns the output that write sends to a terminal.
func terminalOutput(t *testing.T, write func(tty *os.File)) string {
	t.Helper()
	keyboard, tty := terminaltest.Open(t)
	var screen bytes.Buffer
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(&screen, keyboard) // until the terminal is closed
	}()
	write(tty)
	_ = tty.Close()
	<-done
	return screen.String()
}

// TestTextQueryIsEscapedOnTerminal checks that a text result of --jq is written unchanged to a pipe, for a shell, but
// escaped to a terminal.
func TestTextQueryIsEscapedOnTerminal(t *testing.T) {
	t.Parallel()
	fx := newFixtureWith(t, func(w http.ResponseWriter, _ *http.Request, _ string) {
		_, _ = io.WriteString(w, `{"name":"a\u001b[2J"}`)
	})
	args := []string{"bucket", "get", "partners", "--jq", ".name"}
	if got := fx.run("", args...); got.code != exit.OK || got.out != "a\x1b[2J\n" {
		t.Errorf("bucket get --jq into a pipe = %+v, want code 0 and the unescaped name", got)
	}
	screen := terminalOutput(t, func(tty *os.File) {
		app := &commands.App{In: tty, Out: tty, Err: io.Discard, Getenv: func(name string) string {
			return fx.env[name]
		}, Sleep: fx.sleep}
		if code := app.Run(t.Context(), args); code != exit.OK {
			t.Errorf("Run(%v) at a terminal = %d, want 0", args, code)
		}
	})
	if screen != `a\x1b[2J`+"\r\n" {
		t.Errorf("the terminal shows %q, want the escaped name", screen)
	}
}

// TestWaitsAreShownOnTerminal checks that waits are reported at a terminal in each format. Without a terminal, they
// must be reported unless the format is JSON.
func TestWaitsAreShownOnTerminal(t *testing.T) {
	t.Parallel()
	fx := newFixtureWith(t, func(w http.ResponseWriter, _ *http.Request, _ string) {
		w.Header().Set("Retry-After", "30")
		w.WriteHeader(http.StatusTooManyRequests)
	})
	errStopped := errors.New("ended by the test")
	fx.onSleep = func(context.Context, time.Duration) error { return errStopped }
	const notice = "asked too often; asking again in 30s"
	for _, format := range []string{"table", "json"} {
		args := []string{"bucket", "get", "partners", "--output", format}
		got := fx.run("", args...)
		if strings.Contains(got.err, notice) != (format == "table") ||
			!strings.Contains(got.err, "since it is asked too often: "+errStopped.Error()) {
			t.Errorf("bucket get --output %s without a terminal = %+v, want the reason, and the notice only in a table",
				format, got)
		}
		screen := terminalOutput(t, func(tty *os.File) {
			app := &commands.App{In: tty, Out: io.Discard, Err: tty, Getenv: func(name string) string {
				return fx.env[name]
			}, Sleep: fx.sleep}
			app.Run(t.Context(), args)
		})
		if !strings.Contains(screen, notice) {
			t.Errorf("bucket get --output %s at a terminal shows %q, want %q", format, screen, notice)
		}
	}
}

// TestColorsDependOnTerminalAndEnvironment checks that colors are used at a terminal, but not with NO_COLOR
// (no-color.org), TERM=dumb, or the format JSON.
func TestColorsDependOnTerminalAndEnvironment(t *testing.T) {
	t.Parallel()
	fx := newFixtureWith(t, func(w http.ResponseWriter, _ *http.Request, _ string) {
		respondError(w, http.StatusNotFound, "there is none")
	})
	for _, tt := range []struct {
		env        map[string]string
		args       []string
		wantColors bool
	}{
		{nil, nil, true},
		{map[string]string{"NO_COLOR": "1"}, nil, false},
		{map[string]string{"TERM": "dumb"}, nil, false},
		{nil, []string{"--output", "json"}, false},
	} {
		screen := terminalOutput(t, func(tty *os.File) {
			app := &commands.App{In: tty, Out: io.Discard, Err: tty, Sleep: fx.sleep, Getenv: func(name string) string {
				return tt.env[name] + fx.env[name]
			}}
			if code := app.Run(t.Context(), append([]string{"bucket", "get", "partners"}, tt.args...)); code != exit.NotFound {
				t.Errorf("Run(bucket get) of a missing bucket = %d, want %d", code, exit.NotFound)
			}
		})
		if !strings.Contains(screen, "there is none") || strings.Contains(screen, "\x1b") != tt.wantColors {
			t.Errorf("with %v and %v the terminal shows %q, want the error, and colors: %t", tt.env, tt.args, screen,
				tt.wantColors)
		}
	}
}

// TestInterruptEndsPrompt checks that a prompt ends after a signal, although the read of the terminal continues. The
// terminal must then show input again. A secret must be hidden as soon as the prompt appears.
func TestInterruptEndsPrompt(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		prompt string
		args   []string
		hidden bool
	}{
		{"Type partners to agree", []string{"bucket", "delete", "partners"}, false},
		{"The value of TOKEN", []string{"variable", "set", "TOKEN", "--project", "shop", "--branch", "main"}, true},
		{"The account key", []string{"login", "http://127.0.0.1:9000"}, true},
		{"", []string{"login", "http://127.0.0.1:9000", "--key-stdin"}, false},
	} {
		fx := newFixtureWith(t, func(w http.ResponseWriter, _ *http.Request, _ string) {
			_, _ = io.WriteString(w, `{"name":"partners","data":[]}`)
		})
		keyboard, tty := terminaltest.Open(t)
		state := func() term.State {
			current, err := term.GetState(int(tty.Fd()))
			if err != nil {
				t.Error(err)
				return term.State{}
			}
			return *current
		}
		before := state()
		ctx, ctrlC := context.WithCancelCause(t.Context())
		var stderr bytes.Buffer
		var during term.State
		done := make(chan exit.Code, 1)
		go func() {
			app := &commands.App{In: tty, Out: io.Discard, Err: &triggerWriter{trigger: tt.prompt, action: func() {
				during = state()
				ctrlC(exit.ErrInterrupted)
			}, Writer: &stderr}, Getenv: func(name string) string { return fx.env[name] }, Sleep: fx.sleep}
			done <- app.Run(ctx, tt.args)
		}()
		if tt.prompt == "" {
			ctrlC(exit.ErrInterrupted)
		}
		select {
		case code := <-done:
			if code != exit.Interrupted || !strings.Contains(stderr.String(), tt.prompt) {
				t.Errorf("Run(%v), interrupted = %d with %s, want %d and %q", tt.args, code, &stderr, exit.Interrupted, tt.prompt)
			}
		case <-time.After(deadline.Timeout()):
			t.Fatalf("Run(%v) does not end after an interrupt, want code %d", tt.args, exit.Interrupted)
		}
		if tt.prompt != "" && (during != before) != tt.hidden {
			t.Errorf("Run(%v) changes the terminal for its prompt: %t, want %t", tt.args, during != before, tt.hidden)
		}
		if state() != before {
			t.Errorf("Run(%v) leaves the terminal in another state, want the state from before", tt.args)
		}
		// End the pending read.
		if _, err := keyboard.WriteString("\n\x04"); err != nil {
			t.Error(err)
		}
	}
}

// triggerWriter is a writer that calls a function when a text is written.
type triggerWriter struct {
	io.Writer
	trigger string
	action  func()
}

func (w *triggerWriter) Write(text []byte) (int, error) {
	n, err := w.Writer.Write(text)
	if w.trigger != "" && bytes.Contains(text, []byte(w.trigger)) {
		w.action()
	}
	return n, err
}
