// Package prompt prompts a person at a terminal. Without a terminal, or in a CI job, a question returns a usage error
// that names the flag to use instead.
//
// The caller interprets the input. Read prompt.go first. continued_unix.go handles a question that Ctrl-Z interrupts.
package prompt

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/containerd/console"
	"golang.org/x/term"

	"github.com/gatewright/gatewright/client/exit"
)

// maxInput is the maximum length of a line of input in bytes.
const maxInput = 64 << 10

// Prompter prompts the person at the terminal.
type Prompter struct {
	// In is the source of input, usually os.Stdin: on Windows, only input from os.Stdin can be hidden. Out receives
	// questions. It is usually stderr, because stdout has the result of the command.
	In  *os.File
	Out io.Writer
	// Getenv reads the environment. If CI is set, the Prompter asks no questions.
	Getenv func(string) string
}

// Interactive reports whether In is a terminal and CI is not set, so that a person can respond to a question.
func (p Prompter) Interactive() bool {
	return p.In != nil && p.Getenv("CI") == "" && term.IsTerminal(int(p.In.Fd()))
}

// notInteractiveError returns the usage error for a question that cannot be asked. The error names the flag to use
// instead.
func (p Prompter) notInteractiveError(question, flag string) error {
	return exit.WithCode(exit.Usage, fmt.Errorf("%s is not known, and nobody can be asked without a terminal: say %s",
		question, flag))
}

// Ask prompts for a line, until ctx ends. Without a terminal, the error names flag, which the user can set instead. The
// result can be "".
func (p Prompter) Ask(ctx context.Context, question, flag string) (string, error) {
	if !p.Interactive() {
		return "", p.notInteractiveError(question, flag)
	}
	if _, err := fmt.Fprintf(p.Out, "%s: ", question); err != nil {
		return "", err
	}
	input, err := ReadLine(WithContext(ctx, p.In))
	if ctx.Err() != nil {
		_, _ = fmt.Fprintln(p.Out) // so that the next message begins on a new line
	}
	return input, err
}

// AskSecret prompts for a line, until ctx ends. The line is hidden while it is typed. When AskSecret returns, the
// terminal shows input again. If the process was stopped and continues, AskSecret shows the question again. If the
// input ends without a line, the error wraps io.EOF, so that callers can distinguish this from an empty line.
func (p Prompter) AskSecret(ctx context.Context, question, flag string) (string, error) {
	if !p.Interactive() {
		return "", p.notInteractiveError(question, flag)
	}
	terminal, err := console.ConsoleFromFile(p.In)
	if err != nil {
		return "", fmt.Errorf("read how the terminal is set: %w", err)
	}
	// Secret disables echo before it shows the question, so that input is hidden even if the person types immediately.
	// The reading goroutine must not disable echo: it could do so after ctx has ended and echo was restored. On
	// Windows, only a console can be restored.
	hide := func() error {
		if err := terminal.DisableEcho(); err != nil {
			return fmt.Errorf("hide what is typed: %w", err)
		}
		_, err := fmt.Fprintf(p.Out, "%s (it is not shown): ", question)
		return err
	}
	defer func() { _ = terminal.Reset() }()
	defer onContinue(func() { _ = hide() })()
	if err := hide(); err != nil {
		return "", err
	}
	input, err := readLine(WithContext(ctx, p.In))
	_, _ = fmt.Fprintln(p.Out) // the typed line break was hidden, too
	switch {
	case errors.Is(err, io.EOF) && input == "":
		return "", fmt.Errorf("nothing was typed: %w", err)
	case err != nil && !errors.Is(err, io.EOF):
		return "", fmt.Errorf("read the answer: %w", err)
	}
	return input, nil
}

// Confirm asks the person to type a name before something is deleted or changed. consequence describes what will
// happen. Without a terminal, the error names flag, which confirms it instead.
func (p Prompter) Confirm(ctx context.Context, consequence, name, flag string) error {
	if !p.Interactive() {
		return exit.WithCode(exit.Usage, fmt.Errorf("%s, and nobody can be asked without a terminal: %s agrees to it",
			consequence, flag))
	}
	input, err := p.Ask(ctx, fmt.Sprintf("%s. Type %s to agree", consequence, name), flag)
	if err != nil {
		return err
	}
	if input != name {
		return exit.WithCode(exit.Usage, errors.New("it was not agreed to, and nothing is changed"))
	}
	return nil
}

// WithContext returns a reader whose Read returns the cause of ctx when ctx ends. Without it, a signal would not end a
// read: a read of a terminal or of an open pipe can block forever. Input that arrives after ctx has ended is lost.
func WithContext(ctx context.Context, in io.Reader) io.Reader {
	type readResult struct {
		n   int
		err error
	}
	return readerFunc(func(dst []byte) (int, error) {
		buf := make([]byte, len(dst)) // the caller may use dst again when ctx ends
		done := make(chan readResult, 1)
		go func() {
			n, err := in.Read(buf)
			done <- readResult{n, err}
		}()
		select {
		case result := <-done:
			return copy(dst, buf[:result.n]), result.err
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
	})
}

// readerFunc implements io.Reader with a function.
type readerFunc func([]byte) (int, error)

func (r readerFunc) Read(dst []byte) (int, error) { return r(dst) }

// ReadLine reads a line byte by byte, so that later input stays unread. It returns the line without its line break and
// surrounding space. The end of the input also ends a line.
func ReadLine(in io.Reader) (string, error) {
	text, err := readLine(in)
	if err != nil && !errors.Is(err, io.EOF) {
		return "", fmt.Errorf("read the answer: %w", err)
	}
	return text, nil
}

// readLine is like ReadLine, but returns io.EOF together with a line that has no line break.
func readLine(in io.Reader) (string, error) {
	var text strings.Builder
	char := make([]byte, 1)
	for text.Len() < maxInput {
		n, err := in.Read(char)
		if n == 1 && char[0] == '\n' {
			return strings.TrimSpace(text.String()), nil
		}
		text.Write(char[:n])
		if errors.Is(err, io.EOF) {
			return strings.TrimSpace(text.String()), io.EOF
		}
		if err != nil {
			return "", err
		}
	}
	return "", fmt.Errorf("it has more than %d bytes", maxInput)
}
