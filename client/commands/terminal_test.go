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
	"github.com/gatewright/gatewright/internal/deadline"
	"github.com/gatewright/gatewright/local/terminal/terminaltest"
)

// shownBy is what a terminal shows of what is written to it.
func shownBy(t *testing.T, written func(tty *os.File)) string {
	t.Helper()
	keyboard, tty := terminaltest.Open(t)
	var screen bytes.Buffer
	read := make(chan struct{})
	go func() {
		defer close(read)
		_, _ = io.Copy(&screen, keyboard) // up to an error: nobody has the terminal any more
	}()
	written(tty)
	_ = tty.Close()
	<-read
	return screen.String()
}

// TestQueryOfATextIsRawForAPipeAlone: a shell wants the text, and a terminal would act on it.
func TestQueryOfATextIsRawForAPipeAlone(t *testing.T) {
	t.Parallel()
	l := newLineOf(t, func(w http.ResponseWriter, _ *http.Request, _ string) {
		_, _ = io.WriteString(w, `{"name":"a\u001b[2J"}`)
	})
	words := []string{"bucket", "get", "partners", "--jq", ".name"}
	if got := l.run("", words...); got.code != exit.OK || got.out != "a\x1b[2J\n" {
		t.Errorf("into a pipe: %+v", got)
	}
	screen := shownBy(t, func(tty *os.File) {
		app := &commands.App{In: tty, Out: tty, Err: io.Discard, Getenv: func(name string) string { return l.env[name] }, Sleep: l.sleep}
		if code := app.Run(t.Context(), words); code != exit.OK {
			t.Errorf("at a terminal it ends with %d", code)
		}
	})
	if screen != `a\x1b[2J`+"\r\n" {
		t.Errorf("a terminal shows %q", screen)
	}
}

// TestWaitsAreToldToWhoWaits: at a terminal in each format, and else where stderr is not for a program.
func TestWaitsAreToldToWhoWaits(t *testing.T) {
	t.Parallel()
	l := newLineOf(t, func(w http.ResponseWriter, _ *http.Request, _ string) {
		w.Header().Set("Retry-After", "30")
		w.WriteHeader(http.StatusTooManyRequests)
	})
	ended := errors.New("ended by the test")
	l.waits = func(context.Context, time.Duration) error { return ended }
	const told = "asked too often; asking again in 30s"
	for _, format := range []string{"table", "json"} {
		words := []string{"bucket", "get", "partners", "--output", format}
		got := l.run("", words...)
		if strings.Contains(got.err, told) != (format == "table") || !strings.Contains(got.err, "since it is asked too often: "+ended.Error()) {
			t.Errorf("%s without a terminal: %+v", format, got)
		}
		screen := shownBy(t, func(tty *os.File) {
			app := &commands.App{In: tty, Out: io.Discard, Err: tty, Getenv: func(name string) string { return l.env[name] }, Sleep: l.sleep}
			app.Run(t.Context(), words)
		})
		if !strings.Contains(screen, told) {
			t.Errorf("%s at a terminal shows %q", format, screen)
		}
	}
}

// TestColoursAreForWhoWantsThem (no-color.org): at a terminal, and not where NO_COLOR is set, or the document is for a program.
func TestColoursAreForWhoWantsThem(t *testing.T) {
	t.Parallel()
	l := newLineOf(t, func(w http.ResponseWriter, _ *http.Request, _ string) {
		refuse(w, http.StatusNotFound, "there is none")
	})
	for _, tt := range []struct {
		env     map[string]string
		words   []string
		colours bool
	}{
		{nil, nil, true},
		{map[string]string{"NO_COLOR": "1"}, nil, false},
		{map[string]string{"TERM": "dumb"}, nil, false},
		{nil, []string{"--output", "json"}, false},
	} {
		screen := shownBy(t, func(tty *os.File) {
			app := &commands.App{In: tty, Out: io.Discard, Err: tty, Sleep: l.sleep, Getenv: func(name string) string { return tt.env[name] + l.env[name] }}
			if code := app.Run(t.Context(), append([]string{"bucket", "get", "partners"}, tt.words...)); code != exit.NotFound {
				t.Errorf("it ends with %d", code)
			}
		})
		if !strings.Contains(screen, "there is none") || strings.Contains(screen, "\x1b") != tt.colours {
			t.Errorf("with %v and %v a terminal shows %q", tt.env, tt.words, screen)
		}
	}
}

// TestCtrlCEndsWhatWaitsForAPerson: a read of a terminal goes on after a signal, which whoever asks has to see by itself. The terminal
// shows again what is typed then, or the user's next line would be typed blind; what is a secret is hidden as soon as it is asked for.
func TestCtrlCEndsWhatWaitsForAPerson(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		asked  string
		words  []string
		hidden bool
	}{
		{"Type partners to agree", []string{"bucket", "delete", "partners"}, false},
		{"The value of TOKEN", []string{"variable", "set", "TOKEN", "--project", "shop", "--branch", "main"}, true},
		{"The account key", []string{"login", "http://127.0.0.1:9000"}, true},
		{"", []string{"login", "http://127.0.0.1:9000", "--key-stdin"}, false},
	} {
		l := newLineOf(t, func(w http.ResponseWriter, _ *http.Request, _ string) {
			_, _ = io.WriteString(w, `{"name":"partners","data":[]}`)
		})
		keyboard, tty := terminaltest.Open(t)
		state := func() term.State {
			now, err := term.GetState(int(tty.Fd()))
			if err != nil {
				t.Error(err)
				return term.State{}
			}
			return *now
		}
		before := state()
		ctx, ctrlC := context.WithCancelCause(t.Context())
		var told bytes.Buffer
		var asking term.State
		ended := make(chan exit.Code, 1)
		go func() {
			app := &commands.App{In: tty, Out: io.Discard, Err: &until{text: tt.asked, then: func() {
				asking = state()
				ctrlC(exit.ErrInterrupted)
			}, Writer: &told}, Getenv: func(name string) string { return l.env[name] }, Sleep: l.sleep}
			ended <- app.Run(ctx, tt.words)
		}()
		if tt.asked == "" {
			ctrlC(exit.ErrInterrupted)
		}
		select {
		case code := <-ended:
			if code != exit.Interrupted || !strings.Contains(told.String(), tt.asked) {
				t.Errorf("%v ends with %d: %s", tt.words, code, &told)
			}
		case <-time.After(deadline.Long()):
			t.Fatalf("%v goes on to wait", tt.words)
		}
		if tt.asked != "" && (asking != before) != tt.hidden {
			t.Errorf("%v: is the terminal set otherwise when it asks? %t, want %t", tt.words, asking != before, tt.hidden)
		}
		if state() != before {
			t.Errorf("%v leaves the terminal otherwise than it was", tt.words)
		}
		// What still reads is let go.
		if _, err := keyboard.WriteString("\n\x04"); err != nil {
			t.Error(err)
		}
	}
}

// until is a writer that does something when a text is written.
type until struct {
	io.Writer
	text string
	then func()
}

func (u *until) Write(text []byte) (int, error) {
	n, err := u.Writer.Write(text)
	if u.text != "" && bytes.Contains(text, []byte(u.text)) {
		u.then()
	}
	return n, err
}
