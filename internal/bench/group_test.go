package main

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/internal/bench/fixture"
	"github.com/gatewright/gatewright/shared/base/processes"
)

// TestChildrenStopWithTheirCommand checks that the children of a command end with the command, even if it is interrupted or fails first.
// Background jobs of a shell ignore interrupts.
func TestChildrenStopWithTheirCommand(t *testing.T) {
	for _, test := range []struct{ name, end string }{
		{"a command that is interrupted", "wait"},
		{"a command that fails", "exit 3"},
	} {
		t.Run(test.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "pid")
			ctx, interrupt := context.WithCancel(t.Context())
			defer interrupt()
			done := make(chan error, 1)
			go func() {
				done <- run(groupedCommand(ctx, "sh", "-c", `sleep 600 >/dev/null 2>&1 & echo $! >"$0~" && mv "$0~" "$0"; `+
					test.end, file))
			}()
			var pid int
			if err := fixture.Until(t.Context(), "the child", func() (bool, error) {
				text, err := os.ReadFile(file)
				if errors.Is(err, fs.ErrNotExist) {
					return false, nil
				}
				if err == nil {
					pid, err = strconv.Atoi(strings.TrimSpace(string(text)))
				}
				return err == nil, err
			}); err != nil {
				t.Fatal(err)
			}
			if test.end == "wait" {
				interrupt()
			}
			if err := <-done; err == nil {
				t.Error("run() = nil, want an error")
			}
			if err := fixture.Until(t.Context(), "the end of the child", func() (bool, error) {
				return !processes.Running(pid), nil
			}); err != nil {
				t.Errorf("the child of %s: %v, want it to end", test.name, err)
			}
		})
	}
}
