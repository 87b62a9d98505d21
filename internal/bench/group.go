package main

import (
	"context"
	"os/exec"
	"time"

	"github.com/gatewright/gatewright/shared/base/processes"
)

// groupedCommand returns a command with its own process group. When ctx ends, the whole group ends: if only make, go or
// a shell were killed, their children would continue to run and slow down every later measurement. If you start the
// command without run, kill its process group at the end.
func groupedCommand(ctx context.Context, name string, arguments ...string) *exec.Cmd {
	const timeout = 10 * time.Second                    // from the interrupt until the command is killed
	cmd := exec.CommandContext(ctx, name, arguments...) //nolint:gosec // G204: commands of the scenarios
	cmd.SysProcAttr = processes.Group()
	cmd.Cancel = func() error { return processes.Interrupt(cmd.Process.Pid) }
	cmd.WaitDelay = timeout
	return cmd
}

// run runs a command of groupedCommand, and then kills the processes of its group that are still running.
func run(cmd *exec.Cmd) error {
	err := cmd.Run()
	if cmd.Process != nil {
		_ = processes.Kill(cmd.Process.Pid) // an error means that no process is left
	}
	return err
}
