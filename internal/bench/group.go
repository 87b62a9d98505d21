package main

import (
	"context"
	"os/exec"
	"time"

	"github.com/gatewright/gatewright/local/processes"
)

// grouped returns a command that ends with everything that it starts when ctx ends: make, go and shells that are killed alone leave
// their children behind, which slow down every later measurement. Whoever starts it without run kills its group at the end.
func grouped(ctx context.Context, name string, arguments ...string) *exec.Cmd {
	const patience = 10 * time.Second                   // until it is killed
	cmd := exec.CommandContext(ctx, name, arguments...) //nolint:gosec // G204: commands of the scenarios
	cmd.SysProcAttr = processes.Group()
	cmd.Cancel = func() error { return processes.Interrupt(cmd.Process.Pid) }
	cmd.WaitDelay = patience
	return cmd
}

// run runs a command of grouped, and kills what it leaves behind.
func run(cmd *exec.Cmd) error {
	err := cmd.Run()
	if cmd.Process != nil {
		_ = processes.Kill(cmd.Process.Pid) // an error says that nothing is left
	}
	return err
}
