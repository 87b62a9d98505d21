package prompt_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"golang.org/x/term"

	"github.com/gatewright/gatewright/client/exit"
	"github.com/gatewright/gatewright/client/prompt"
	"github.com/gatewright/gatewright/local/terminal/terminaltest"
)

// TestNobodyIsAskedWithoutATerminal asks where there is a pipe, and in a CI job.
func TestNobodyIsAskedWithoutATerminal(t *testing.T) {
	t.Parallel()
	in, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = in.Close() }()
	if _, err := io.WriteString(out, "prod\nprod\nprod\n"); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	for _, ci := range []string{"", "true"} {
		var asked bytes.Buffer
		p := prompt.Person{In: in, Out: &asked, Getenv: func(string) string { return ci }}
		_, first := p.Ask(t.Context(), "The name", "--name")
		_, second := p.Secret(t.Context(), "The key", "--name")
		for _, err := range []error{first, second, p.Confirm(t.Context(), "It goes", "prod", "--name")} {
			if exit.Of(err) != exit.Usage || !strings.Contains(err.Error(), "--name") || asked.Len() > 0 {
				t.Errorf("with CI=%q it is answered with %v and asks %q", ci, err, &asked)
			}
		}
	}
}

// TestNobodyIsAskedInACIJob, not at a terminal either, which some of them have: nobody types there.
func TestNobodyIsAskedInACIJob(t *testing.T) {
	t.Parallel()
	keyboard, tty := terminaltest.Open(t)
	defer func() { _ = tty.Close() }()
	for _, ci := range []string{"true", "1", ""} {
		var asked bytes.Buffer
		p := prompt.Person{In: tty, Out: &asked, Getenv: func(name string) string { return map[string]string{"CI": ci}[name] }}
		if _, err := keyboard.WriteString("prod\n"); err != nil {
			t.Fatal(err)
		}
		err := p.Confirm(t.Context(), "It goes", "prod", "--yes")
		switch {
		case ci == "" && (err != nil || !strings.Contains(asked.String(), "Type prod to agree")):
			t.Errorf("a person is asked %q, and it ends with %v", &asked, err)
		case ci != "" && (exit.Of(err) != exit.Usage || asked.Len() > 0):
			t.Errorf("with CI=%s it asks %q, and ends with %v", ci, &asked, err)
		}
	}
}

// TestNameIsTypedWholeToAgree, as it is: what a hand types by habit agrees to nothing.
func TestNameIsTypedWholeToAgree(t *testing.T) {
	t.Parallel()
	keyboard, tty := terminaltest.Open(t)
	defer func() { _ = tty.Close() }()
	for typed, agrees := range map[string]bool{"Prod": true, " Prod ": true, "": false, "y": false, "yes": false, "prod": false, "Pro": false, "Production": false} {
		p := prompt.Person{In: tty, Out: io.Discard, Getenv: func(string) string { return "" }}
		if _, err := keyboard.WriteString(typed + "\n"); err != nil {
			t.Fatal(err)
		}
		if err := p.Confirm(t.Context(), "It goes", "Prod", "--yes"); (err == nil) != agrees || err != nil && exit.Of(err) != exit.Usage {
			t.Errorf("%q ends with %v", typed, err)
		}
	}
}

// TestSecretIsNotShown: what is typed after the question is not, what is typed after the answer is, however the question ends.
func TestSecretIsNotShown(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, typed, answer string
		over                bool
		ends                error
	}{
		{"an answer", " gwa_planted \n", "gwa_planted", false, nil},
		{"an empty answer", "\n", "", false, nil},
		{"an answer that the end of the input ends", "gwa_planted\x04\x04", "gwa_planted", false, nil},
		{"no answer", "\x04", "", false, io.EOF},
		{"Ctrl-C before the question", "", "", true, exit.ErrInterrupted},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancelCause(t.Context())
			if tt.over {
				cancel(exit.ErrInterrupted)
			}
			defer cancel(nil)
			keyboard, tty := terminaltest.Open(t)
			shown, err := term.GetState(int(tty.Fd()))
			if err != nil {
				t.Fatal(err)
			}
			asked := func() {
				if now, err := term.GetState(int(tty.Fd())); err != nil || *now == *shown {
					t.Errorf("the terminal shows what is typed when it is asked for, %v", err)
				}
			}
			person := prompt.Person{In: tty, Out: typist{tty, keyboard, tt.typed, asked}, Getenv: func(string) string { return "" }}
			answer, err := person.Secret(ctx, "The key", "--key-stdin")
			if answer != tt.answer || !errors.Is(err, tt.ends) {
				t.Errorf("it is answered with %q, %v", answer, err)
			}
			if _, err := keyboard.WriteString("shown"); err != nil {
				t.Fatal(err)
			}
			const screen = "The key (it is not shown): \r\nshown"
			got := make([]byte, len(screen))
			if _, err := io.ReadFull(keyboard, got); err != nil || string(got) != screen {
				t.Errorf("the screen shows %q, %v", got, err)
			}
			if err := tty.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// typist is a screen whose reader types as soon as a question is there.
type typist struct {
	screen, keyboard *os.File
	types            string
	sees             func() // is called before it types
}

func (o typist) Write(text []byte) (int, error) {
	n, err := o.screen.Write(text)
	if bytes.Contains(text, []byte("shown")) && err == nil {
		o.sees()
		_, err = o.keyboard.WriteString(o.types)
	}
	return n, err
}

func TestLineLeavesWhatComesAfterIt(t *testing.T) {
	t.Parallel()
	in := strings.NewReader(" first \r\nsecond")
	for _, want := range []string{"first", "second", ""} {
		if got, err := prompt.Line(in); err != nil || got != want {
			t.Errorf("a line is %q, %v, want %q", got, err, want)
		}
	}
	if _, err := prompt.Line(strings.NewReader(strings.Repeat("x", 1<<20))); err == nil {
		t.Error("a line without an end is read")
	}
}
