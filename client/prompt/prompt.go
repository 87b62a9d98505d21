// Package prompt asks a person at a terminal, and nobody else: where there is none, or in a CI job, a question is a
// usage error that names the flag by which it is answered.
//
// What it is not: it decides nothing of an answer, which is its caller's. Read prompt.go first; continued_unix.go has what becomes
// of a question that Ctrl-Z interrupts.
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

// mostAnswer bounds what is read of an answer, in bytes.
const mostAnswer = 64 << 10

// Person is who may be asked.
type Person struct {
	// In is where answers come from, and Out where questions go: stderr, since stdout has the document. Windows hides what is typed
	// into os.Stdin alone.
	In  *os.File
	Out io.Writer
	// Getenv reads the environment: with CI set nobody is there.
	Getenv func(string) string
}

// There reports whether somebody is.
func (p Person) There() bool {
	return p.In != nil && p.Getenv("CI") == "" && term.IsTerminal(int(p.In.Fd()))
}

// nobody is the error of a question that nobody can be asked.
func (p Person) nobody(question, flag string) error {
	return exit.With(exit.Usage, fmt.Errorf("%s is not known, and nobody can be asked without a terminal: say %s", question, flag))
}

// Ask asks for a line, until ctx ends; flag answers the question where nobody can be asked. The answer may be "".
func (p Person) Ask(ctx context.Context, question, flag string) (string, error) {
	if !p.There() {
		return "", p.nobody(question, flag)
	}
	if _, err := fmt.Fprintf(p.Out, "%s: ", question); err != nil {
		return "", err
	}
	answer, err := Line(Until(ctx, p.In))
	if ctx.Err() != nil {
		_, _ = fmt.Fprintln(p.Out) // what is told next begins a line of its own
	}
	return answer, err
}

// Secret asks for a line that is not shown as it is typed, until ctx ends: the terminal shows again what is typed then. A process that was
// stopped asks again as it goes on. The end of the input is an error that is io.EOF: no value was given, which is another thing than one
// that is empty.
func (p Person) Secret(ctx context.Context, question, flag string) (string, error) {
	if !p.There() {
		return "", p.nobody(question, flag)
	}
	terminal, err := console.ConsoleFromFile(p.In)
	if err != nil {
		return "", fmt.Errorf("read how the terminal is set: %w", err)
	}
	// Before the question, and not by whoever reads: what is typed as soon as it is seen is not shown, and where ctx ends first
	// nobody hides what is typed after it is shown again. What Windows cannot set back is a stream that is no console.
	hide := func() error {
		if err := terminal.DisableEcho(); err != nil {
			return fmt.Errorf("hide what is typed: %w", err)
		}
		_, err := fmt.Fprintf(p.Out, "%s (it is not shown): ", question)
		return err
	}
	defer func() { _ = terminal.Reset() }()
	defer whenContinued(func() { _ = hide() })()
	if err := hide(); err != nil {
		return "", err
	}
	answer, err := line(Until(ctx, p.In))
	_, _ = fmt.Fprintln(p.Out) // the end of the line was not shown either
	switch {
	case errors.Is(err, io.EOF) && answer == "":
		return "", fmt.Errorf("nothing was typed: %w", err)
	case err != nil && !errors.Is(err, io.EOF):
		return "", fmt.Errorf("read the answer: %w", err)
	}
	return answer, nil
}

// Confirm asks for a name to be typed again before something is removed; flag agrees where nobody can be asked.
func (p Person) Confirm(ctx context.Context, what, name, flag string) error {
	if !p.There() {
		return exit.With(exit.Usage, fmt.Errorf("%s, and nobody can be asked without a terminal: %s agrees to it", what, flag))
	}
	answer, err := p.Ask(ctx, fmt.Sprintf("%s. Type %s to agree", what, name), flag)
	if err != nil {
		return err
	}
	if answer != name {
		return exit.With(exit.Usage, errors.New("it was not agreed to, and nothing is changed"))
	}
	return nil
}

// Until has each Read of in end with the cause of ctx where that ends first. A signal alone ends none: a read of a terminal, or of a
// pipe that nobody closes, waits for ever. What comes after that end is lost.
func Until(ctx context.Context, in io.Reader) io.Reader {
	type got struct {
		n   int
		err error
	}
	return reader(func(into []byte) (int, error) {
		own := make([]byte, len(into)) // into is the caller's again when ctx ends
		done := make(chan got, 1)
		go func() {
			n, err := in.Read(own)
			done <- got{n, err}
		}()
		select {
		case g := <-done:
			return copy(into, own[:g.n]), g.err
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
	})
}

// reader is an io.Reader of its Read.
type reader func([]byte) (int, error)

func (r reader) Read(into []byte) (int, error) { return r(into) }

// Line reads a line, without its end and the space around it, byte by byte: what comes after it stays to be read. The end of the input
// ends a line too.
func Line(in io.Reader) (string, error) {
	text, err := line(in)
	if err != nil && !errors.Is(err, io.EOF) {
		return "", fmt.Errorf("read the answer: %w", err)
	}
	return text, nil
}

// line is Line, with io.EOF for a line that the end of the input ends.
func line(in io.Reader) (string, error) {
	var text strings.Builder
	one := make([]byte, 1)
	for text.Len() < mostAnswer {
		n, err := in.Read(one)
		if n == 1 && one[0] == '\n' {
			return strings.TrimSpace(text.String()), nil
		}
		text.Write(one[:n])
		if errors.Is(err, io.EOF) {
			return strings.TrimSpace(text.String()), io.EOF
		}
		if err != nil {
			return "", err
		}
	}
	return "", fmt.Errorf("it has more than %d bytes", mostAnswer)
}
