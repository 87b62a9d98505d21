// Package exit has the exit codes of the command line client, which scripts go by, as errors carry them.
//
// What it is not: for programs that only developers run (internal/program), nor for `gatewright tunnel connect`, whose
// codes docs/tunnels.md has.
package exit

import (
	"context"
	"errors"
)

// Code is an exit code. docs/command-line.md has them for users.
type Code int

// The codes.
const (
	OK Code = 0
	// Failure is for what has no code of its own.
	Failure Code = 1
	// Usage is a command line or an environment that cannot be followed: nothing was asked of the API.
	Usage Code = 2
	// NotFound is an object that is not there, or that the key does not see.
	NotFound Code = 3
	// NotAllowed is a key that is unknown, over, or that may not do it.
	NotAllowed Code = 4
	// Conflict is a state that forbids it: a name that is in use, an object that has changed since it was read.
	Conflict Code = 5
	// Invalid is a body, a file or a project in which something is wrong: a build that fails too.
	Invalid Code = 6
	// TimedOut is for what takes longer than it may: it may still happen.
	TimedOut Code = 7
	// Pending is a comparison that has found changes which nobody has made yet.
	Pending Code = 8
	// Interrupted is a command that a signal has ended.
	Interrupted Code = 130
)

// coded is an error that has its code.
type coded struct {
	error
	code Code
}

func (c coded) Unwrap() error { return c.error }

// With gives an error its code, nil for nil. A code that it has already stays behind the new one.
func With(code Code, err error) error {
	if err == nil {
		return nil
	}
	return coded{err, code}
}

// ErrInterrupted ends the context of a command that a signal has ended.
var ErrInterrupted = errors.New("interrupted")

// Of is the code that an error ends a command with.
func Of(err error) Code {
	var c coded
	switch {
	case err == nil:
		return OK
	case errors.Is(err, ErrInterrupted):
		return Interrupted
	case errors.As(err, &c):
		return c.code
	case errors.Is(err, context.DeadlineExceeded):
		return TimedOut
	}
	return Failure
}
