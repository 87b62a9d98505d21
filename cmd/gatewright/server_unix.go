//go:build unix

package main

import (
	"os"
	"syscall"
)

// become makes this process the program at path: its signals, its exit code, what it reads and whoever waits for it
// stay as they are. It returns where that does not go well alone.
func become(path string, words []string) error {
	return starting(path, syscall.Exec(path, append([]string{path}, words...), os.Environ())) //nolint:gosec // G204: findServer found it
}
