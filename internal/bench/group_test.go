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

	"github.com/gatewright/gatewright/internal/bench/world"
	"github.com/gatewright/gatewright/local/processes"
)

// TestChildrenEndWithTheirCommand, which an interrupt or its own end leaves them to. A shell has its background jobs ignore interrupts.
func TestChildrenEndWithTheirCommand(t *testing.T) {
	for _, test := range []struct{ name, then string }{{"a command that is interrupted", "wait"}, {"a command that fails", "exit 3"}} {
		t.Run(test.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "pid")
			ctx, interrupt := context.WithCancel(t.Context())
			defer interrupt()
			ended := make(chan error, 1)
			go func() {
				ended <- run(grouped(ctx, "sh", "-c", `sleep 600 >/dev/null 2>&1 & echo $! >"$0~" && mv "$0~" "$0"; `+test.then, file))
			}()
			var pid int
			if err := world.Until(t.Context(), "the child", func() (bool, error) {
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
			if test.then == "wait" {
				interrupt()
			}
			if err := <-ended; err == nil {
				t.Error("run() = nil, want an error")
			}
			if err := world.Until(t.Context(), "the end of the child", func() (bool, error) { return !processes.Running(pid), nil }); err != nil {
				t.Error(err)
			}
		})
	}
}
