// Package process implements the commands of the emulators' program: the S3 server, which is versitygw, and the command
// that indexes and shortens the streams in dynoxide's SQLite database.
//
// It is a separate program because versitygw changes the working directory and stores its settings in package
// variables. The dependencies of this program would also make the server a third larger, and a first `make run` a third
// slower.
//
// Package emulator starts this program. Like dynoxide, it runs on Linux and macOS.
//
// Read process.go first, then s3.go and stream.go. Package emulator declares the program's commands and configuration.
package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/gatewright/gatewright/local/dev/emulator"
)

// eventsFile is the file descriptor to which the S3 server writes its events.
const eventsFile = 3

var errCommand = errors.New(emulator.ProgramName + " is started by `make run-lambda` and by tests: its commands are " +
	emulator.S3ServerCommand + " and " + emulator.IndexStreamCommand + " FILE")

// IsCommand reports whether the arguments of a program, without its name, begin with a command of this program. A test
// binary with such arguments calls Main instead of its tests.
func IsCommand(args []string) bool {
	return len(args) > 0 && (args[0] == emulator.S3ServerCommand || args[0] == emulator.IndexStreamCommand)
}

// Main runs the command in args and returns the exit code. It prints
// errors to the standard error. The command ends when ctx ends.
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
