// Package terminaltest opens a pseudo-terminal (pty(7)) for tests of prompts and of other output to people.
//
// It does not interpret the screen, and does not type. Package terminal defines what counts as a terminal and when it
// has colors. Read terminaltest.go first. open_linux.go opens the pseudo-terminal on Linux.
package terminaltest

import (
	"os"
	"testing"
)

// Columns is the width of a terminal from Open.
const Columns = 80

// Open returns a terminal and its keyboard. Write to the keyboard to type, and read the screen's output from it. Open
// closes the keyboard when the test ends; the caller closes the terminal. On systems other than Linux, Open skips the
// test.
func Open(t *testing.T) (keyboard, tty *os.File) {
	t.Helper()
	return open(t)
}
