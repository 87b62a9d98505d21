package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"time"
)

// programs are the scenarios that programs of their own measure.
func programs() []scenario {
	const binary = "dist/bench/local"
	product := func(program string) []string {
		return []string{"sh", "-c", "go build -buildvcs=false -o " + binary + " ./local && exec " + program + " " + binary}
	}
	return []scenario{
		{
			title: "The embedded engine: large key buckets",
			text: "The start of a product without large buckets, and what it uses without a request. Then a bucket of 100,000 consumers made through the API, and a product with a million,\n" +
				"made by its own functions in one process. Emptying holds a second pass, a minute later, for what a slow writer may have added.",
			run: runs(product("go run ./local/largebucket -binary")...),
		},
		{
			title: "The embedded engine: a product that is killed",
			text: "`kill -9` under 16 writers, start again, look for every write: the acknowledged ones are there, none is there twice; the bar is 0 and 0. Half of\n" +
				"the kills come while the engine writes tables (flushes and compactions) or while a backup is made, which must not look like a whole one then.\n" +
				"The operating system lives on: power cuts are simulated by the tests of `shared/store/embedded`.",
			run: runs(product("go run ./local/crash -rounds 100 -seed 1 -binary")...),
		},
	}
}

// runs returns a scenario that a command measures, which prints Markdown and fails if a figure is over its limit.
func runs(command ...string) func(ctx context.Context, m *measurement) error {
	return func(ctx context.Context, m *measurement) error {
		var printed bytes.Buffer
		cmd := exec.CommandContext(ctx, command[0], command[1:]...) //nolint:gosec // G204: the commands above
		cmd.Stdout, cmd.Stderr = io.MultiWriter(os.Stdout, &printed), os.Stderr
		// An interrupt reaches the programs' children through the programs.
		cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
		cmd.WaitDelay = 10 * time.Second
		err := cmd.Run()
		m.Printf("%s", printed.String())
		return err
	}
}
