// Package terminaltest opens a pseudo-terminal (pty(7)) for the tests of what asks a person, or shows something to one.
//
// What it is not: it reads no screen and types nothing by itself. What a terminal is to the product, and when it has
// colours, is package terminal's. Read terminaltest.go first; open_linux.go has how Linux opens one.
package terminaltest

import (
	"os"
	"testing"
)

// Columns is how wide a terminal of Open is.
const Columns = 80

// Open gives a terminal, and its keyboard: what is written to the keyboard is typed, and what is read from it is what the screen shows.
// The keyboard is closed when the test ends, the terminal by who has it. The test is skipped where it is not known how to open one.
func Open(t *testing.T) (keyboard, tty *os.File) {
	t.Helper()
	return open(t)
}
