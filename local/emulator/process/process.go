// Package process is the emulators' program, apart from its main function: the S3
// server, which is versitygw, and the command that indexes the streams of dynoxide,
// through SQLite.
//
// Why a program of its own: versitygw changes the working directory and keeps its
// settings in package variables. With fiber, fasthttp, clients of Kafka, RabbitMQ, LDAP
// and Vault, and SQLite, it would also make the server a third larger, and a first
// `make run` as much slower, and nobody needs them there.
//
// What it is not: it starts no process; package emulator starts this one. It is for
// Linux and macOS, as dynoxide is.
//
// Read process.go first, then s3.go and stream.go. What the program is started with is
// declared in package emulator.
package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/gatewright/gatewright/local/emulator"
)

// eventsFile is the file descriptor that takes the events of the S3 server.
const eventsFile = 3

var errCommand = errors.New(emulator.Program + " is started by `make run-lambda` and by tests: its commands are " +
	emulator.S3ServerCommand + " and " + emulator.IndexStreamCommand + " FILE")

// Is reports whether the arguments of a program, without its name, are a command of
// this one. A test's binary that finds one calls Main instead of its tests.
func Is(args []string) bool {
	return len(args) > 0 && (args[0] == emulator.S3ServerCommand || args[0] == emulator.IndexStreamCommand)
}

// Main runs the command in args, prints an error to the standard error, and returns the
// exit code. It returns when ctx ends.
func Main(ctx context.Context, args []string) int {
	if err := run(ctx, args); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		return 1
	}
	return 0
}

func run(ctx context.Context, args []string) error {
	switch {
	case len(args) == 1 && args[0] == emulator.S3ServerCommand:
		return serveS3(ctx, os.Stdin, os.NewFile(eventsFile, "events"))
	case len(args) == 2 && args[0] == emulator.IndexStreamCommand:
		return indexStream(ctx, args[1], time.Now())
	}
	return errCommand
}
