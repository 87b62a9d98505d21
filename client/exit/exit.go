// Package exit defines the exit codes of the command line client, on which scripts depend, and attaches them to errors.
//
// Programs that only developers run use package internal/devmain instead. `gatewright tunnel connect` has other codes,
// which are in docs/tunnels.md.
package exit

import (
	"context"
	"errors"
)

// Code is an exit code. docs/command-line.md documents the codes for users.
type Code int

// These are the codes.
const (
	OK Code = 0
	// Failure is for errors without a code of their own.
	Failure Code = 1
	// Usage means that the command line or the environment is invalid, or that a file that they name cannot be used.
	// Commands find this before they request a change.
	Usage Code = 2
	// NotFound means that an object does not exist, or that the key has no access to it.
	NotFound Code = 3
	// NotAllowed means that a key is unknown or expired, or lacks a permission.
	NotAllowed Code = 4
	// Conflict means that the current state prevents the change: a name is in use, or an object has changed since it was
	// read.
	Conflict Code = 5
	// Invalid means that a body, a file or a project has errors. A failed build also has this code.
	Invalid Code = 6
	// TimedOut means that a command exceeded its time limit. Its effect may still occur.
	TimedOut Code = 7
	// Pending means that a comparison has found changes that are not applied yet.
	Pending Code = 8
	// Interrupted means that a signal has ended the command.
	Interrupted Code = 130
)

// codedError is an error with a code.
type codedError struct {
	error
	code Code
}

func (c codedError) Unwrap() error { return c.error }

// WithCode returns err with a code, nil for a nil err. The new code replaces an earlier one.
func WithCode(code Code, err error) error {
	if err == nil {
		return nil
	}
	return codedError{err, code}
}

// ErrInterrupted is the cancellation cause of a command's context after a signal.
var ErrInterrupted = errors.New("interrupted")

// CodeOf returns the exit code for an error.
func CodeOf(err error) Code {
	var c codedError
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
