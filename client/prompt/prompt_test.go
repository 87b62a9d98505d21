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
	"github.com/gatewright/gatewright/shared/base/terminal/terminaltest"
)

// TestPromptNeedsTerminal checks that each prompt returns a usage error if the input is a pipe, with and without the
// variable CI.
func TestPromptNeedsTerminal(t *testing.T) {
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
		var shown bytes.Buffer
		p := prompt.Prompter{In: in, Out: &shown, Getenv: func(string) string { return ci }}
		_, askErr := p.Ask(t.Context(), "The name", "--name")
		_, secretErr := p.AskSecret(t.Context(), "The key", "--name")
		for _, err := range []error{askErr, secretErr, p.Confirm(t.Context(), "It goes", "prod", "--name")} {
			if exit.CodeOf(err) != exit.Usage || !strings.Contains(err.Error(), "--name") || shown.Len() > 0 {
				t.Errorf("prompt without a terminal and with CI=%q: error = %v, output %q, want code %d, --name, and no output",
					ci, err, &shown, exit.Usage)
			}
		}
	}
}

// TestCIJobIsNotPrompted checks that a prompt in a CI job returns a usage error even at a terminal, because no person
// is there.
func TestCIJobIsNotPrompted(t *testing.T) {
	t.Parallel()
	keyboard, tty := terminaltest.Open(t)
	defer func() { _ = tty.Close() }()
	for _, ci := range []string{"true", "1", ""} {
		var shown bytes.Buffer
		p := prompt.Prompter{In: tty, Out: &shown, Getenv: func(name string) string {
			return map[string]string{"CI": ci}[name]
		}}
		if _, err := keyboard.WriteString("prod\n"); err != nil {
			t.Fatal(err)
		}
		err := p.Confirm(t.Context(), "It goes", "prod", "--yes")
		switch {
		case ci == "" && (err != nil || !strings.Contains(shown.String(), "Type prod to agree")):
			t.Errorf("Confirm() at a terminal: error = %v, prompt %q, want none and \"Type prod to agree\"", err, &shown)
		case ci != "" && (exit.CodeOf(err) != exit.Usage || shown.Len() > 0):
			t.Errorf("Confirm() with CI=%s: error = %v, prompt %q, want code %d and no prompt", ci, err, &shown, exit.Usage)
		}
	}
}

// TestConfirmNeedsFullName checks that other input than the full name, such as y, does not confirm.
func TestConfirmNeedsFullName(t *testing.T) {
	t.Parallel()
	keyboard, tty := terminaltest.Open(t)
	defer func() { _ = tty.Close() }()
	for typed, agrees := range map[string]bool{
		"Prod": true, " Prod ": true, "": false, "y": false, "yes": false,
		"prod": false, "Pro": false, "Production": false,
	} {
		p := prompt.Prompter{In: tty, Out: io.Discard, Getenv: func(string) string { return "" }}
		if _, err := keyboard.WriteString(typed + "\n"); err != nil {
			t.Fatal(err)
		}
		if err := p.Confirm(t.Context(), "It goes", "Prod", "--yes"); (err == nil) != agrees ||
			err != nil && exit.CodeOf(err) != exit.Usage {
			t.Errorf("Confirm(Prod) with the input %q: error = %v, want none: %t, otherwise code %d",
				typed, err, agrees, exit.Usage)
		}
	}
}

// TestSecretIsNotShown checks that input after the question is hidden. When the prompt has ended for any reason, input
// must be shown.
func TestSecretIsNotShown(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, typed, want string
		canceled          bool
		wantErr           error
	}{
		{"secret", " gwa_planted \n", "gwa_planted", false, nil},
		{"empty secret", "\n", "", false, nil},
		{"secret without a line feed", "gwa_planted\x04\x04", "gwa_planted", false, nil},
		{"no input", "\x04", "", false, io.EOF},
		{"Ctrl-C before the question", "", "", true, exit.ErrInterrupted},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancelCause(t.Context())
			if tt.canceled {
				cancel(exit.ErrInterrupted)
			}
			defer cancel(nil)
			keyboard, tty := terminaltest.Open(t)
			initial, err := term.GetState(int(tty.Fd()))
			if err != nil {
				t.Fatal(err)
			}
			checkHidden := func() {
				if current, err := term.GetState(int(tty.Fd())); err != nil || *current == *initial {
					t.Errorf("the terminal has its initial state during AskSecret() (%v), want a state without echo", err)
				}
			}
			prompter := prompt.Prompter{In: tty, Out: typist{tty, keyboard, tt.typed, checkHidden}, Getenv: func(string) string {
				return ""
			}}
			secret, err := prompter.AskSecret(ctx, "The key", "--key-stdin")
			if secret != tt.want || !errors.Is(err, tt.wantErr) {
				t.Errorf("AskSecret() = %q, %v, want %q, %v", secret, err, tt.want, tt.wantErr)
			}
			if _, err := keyboard.WriteString("shown"); err != nil {
				t.Fatal(err)
			}
			const screen = "The key (it is not shown): \r\nshown"
			got := make([]byte, len(screen))
			if _, err := io.ReadFull(keyboard, got); err != nil || string(got) != screen {
				t.Errorf("the screen shows %q, %v, want %q", got, err, screen)
			}
			if err := tty.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// typist writes to a screen, and types on the keyboard as soon as a question is written.
type typist struct {
	screen, keyboard *os.File
	input            string
	onPrompt         func() // called before the typist types
}

func (t typist) Write(text []byte) (int, error) {
	n, err := t.screen.Write(text)
	if bytes.Contains(text, []byte("shown")) && err == nil {
		t.onPrompt()
		_, err = t.keyboard.WriteString(t.input)
	}
	return n, err
}

func TestReadLineLeavesLaterInput(t *testing.T) {
	t.Parallel()
	in := strings.NewReader(" first \r\nsecond")
	for _, want := range []string{"first", "second", ""} {
		if got, err := prompt.ReadLine(in); err != nil || got != want {
			t.Errorf("ReadLine() = %q, %v, want %q", got, err, want)
		}
	}
	if _, err := prompt.ReadLine(strings.NewReader(strings.Repeat("x", 1<<20))); err == nil {
		t.Error("ReadLine() of 1 MiB without a line break succeeds, want an error")
	}
}
