// Package prompt asks a person at a terminal, and nobody else: where there is none, or in a CI job, a question is a
// usage error that names the flag by which it is answered.
package prompt

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"

	"github.com/gatewright/gatewright/client/exit"
)

// mostAnswer bounds what is read of an answer, in bytes.
const mostAnswer = 64 << 10

// Person is who may be asked.
type Person struct {
	// In is where answers come from, and Out where questions go: stderr, since stdout has the document.
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

// Ask asks for a line; flag answers the question where nobody can be asked. The answer may be "".
func (p Person) Ask(question, flag string) (string, error) {
	if !p.There() {
		return "", p.nobody(question, flag)
	}
	if _, err := fmt.Fprintf(p.Out, "%s: ", question); err != nil {
		return "", err
	}
	return Line(p.In)
}

// Secret asks for a line that is not shown as it is typed.
func (p Person) Secret(question, flag string) (string, error) {
	if !p.There() {
		return "", p.nobody(question, flag)
	}
	if _, err := fmt.Fprintf(p.Out, "%s (it is not shown): ", question); err != nil {
		return "", err
	}
	text, err := term.ReadPassword(int(p.In.Fd()))
	_, _ = fmt.Fprintln(p.Out)
	if err != nil {
		return "", fmt.Errorf("read the answer: %w", err)
	}
	return strings.TrimSpace(string(text)), nil
}

// Confirm asks for a name to be typed again before something is removed; flag agrees where nobody can be asked.
func (p Person) Confirm(what, name, flag string) error {
	if !p.There() {
		return exit.With(exit.Usage, fmt.Errorf("%s, and nobody can be asked without a terminal: %s agrees to it", what, flag))
	}
	answer, err := p.Ask(fmt.Sprintf("%s. Type %s to agree", what, name), flag)
	if err != nil {
		return err
	}
	if answer != name {
		return exit.With(exit.Usage, errors.New("it was not agreed to, and nothing is changed"))
	}
	return nil
}

// Line reads a line, without its end and the space around it, byte by byte: what comes after it stays to be read.
func Line(in io.Reader) (string, error) {
	var line strings.Builder
	one := make([]byte, 1)
	for line.Len() < mostAnswer {
		n, err := in.Read(one)
		if n == 1 && one[0] == '\n' || errors.Is(err, io.EOF) {
			return strings.TrimSpace(line.String()), nil
		}
		if err != nil {
			return "", fmt.Errorf("read the answer: %w", err)
		}
		line.Write(one[:n])
	}
	return "", fmt.Errorf("the answer has more than %d bytes", mostAnswer)
}
