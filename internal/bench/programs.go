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
			title: "A project of 1,223 operations",
			text: "The public OpenAPI description of the GitHub REST API with a route beside every operation: compiled alone, then uploaded to the\n" +
				"local run until its deployment is served. The limit is 10 s.",
			run: runs("bash", "-o", "pipefail", "-c", `go test -count=1 -run GitHub -v ./shared/project ./local/scenario | sed -En 's/^ +github_test.go:[0-9]+: /- /p'`),
		},
		{
			title: "The console",
			text: "What a browser loads, compressed by brotli: for the first page, and for all of them; and the page of a bucket of 100,000 consumers in Debian's Chromium, all of them loaded and scrolled\n" +
				"through. The limits are 90 and 300 kB, 300 elements, and 95 % of the frames within two refreshes of 60 a second. What the machine draws of the page at rest stands beside it.",
			run: runs("bash", "-o", "pipefail", "-c", `go run ./console/build | sed -En 's/^ +([0-9.]+ kB)  (first load|all), of at most .*/- \2: \1/p' && `+
				`GATEWRIGHT_TEST_CONSOLE=yes GATEWRIGHT_TEST_CONSOLE_STORIES=large.mjs go test -count=1 -timeout=15m -v ./local/consolestories | sed -En 's/^ +stories_test.go:[0-9]+: /- /p'`),
		},
		{
			title: "A warm request through an API Gateway",
			text:  "The installation deployed to MiniStack, with the emulator's own share: its API Gateway, its Lambda and its DynamoDB are one Python process.",
			run:   runs("go", "run", "./local/emulators", "measure", "ministack"),
		},
		{
			title: "The limit of requests of an account",
			text: "A request to the management API that reads one item from a table in memory, of an account with a limit of requests, against the same request of a\n" +
				"server without one, in turns: the ratio of the medians, and the items that it reads and writes beside, a request. The account asks one process so often\n" +
				"in each second of a clock of the benchmark's own. The first request of a second is free, further ones share leases ([0062](decisions/0062-bounds-are-counted-anew.md)).",
			run: runs("bash", "-o", "pipefail", "-c", `go test -run - -bench LimitOfAnAccountsRequests -benchtime 20000x ./shared/api | sed -En 's/^BenchmarkLimitOf[^\/]*\/([0-9]+)_a_second.*ns\/op[[:space:]]+([0-9.e-]+) reads\/op[[:space:]]+([0-9.]+) times[[:space:]]+([0-9.e-]+) writes\/op.*/| \1 | \3 | \2 | \4 |/p' | sed '1i | requests a second | times | reads | writes |\n|--:|--:|--:|--:|'`),
		},
		{
			title: "A rotation of the root key",
			text: "100,000 API keys, half of them in a bucket that has forgotten their texts, over the embedded engine with its files in memory, so that no disk is measured; two clients check keys, each for the first time, from\n" +
				"before the rotation until after it. The hours of waiting are gone through by a clock of its own. The limits are no key refused, and one read of the table beside the usual one.",
			run: runs("go", "run", "./local/rotationbench"),
		},
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
		{
			title: "Moving an installation",
			text: "`gatewright export-data` and `import-data` over 20,000 items of 470 bytes. The table is in memory, so that what DynamoDB and the network add is not in it:\n" +
				"a table there is filled by commits of 98 items, one after the other.",
			run: runs("bash", "-o", "pipefail", "-c", `go test -run - -bench Move -benchtime 5x ./local/transfer | sed -En 's/^BenchmarkMove\/([a-z_]+)(-[0-9]+)?[^0-9].* ([0-9]+) items\/s$/- \1: \3 items a second/p' | tr _ ' '`),
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
