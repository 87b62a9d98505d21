//go:build unix

package main

import (
	"os"
	"syscall"
)

// execProgram replaces this process with the program at path. The process ID stays the same, so the program receives
// signals and input directly, and its exit code reaches the parent process. It returns only if the replacement fails.
func execProgram(path string, args []string) error {
	return startError(path, syscall.Exec(path, append([]string{path}, args...), os.Environ())) //nolint:gosec // G204: findServer found it
}
