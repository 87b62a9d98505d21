package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"time"
)

// command runs a command that fails if a figure is over its limit, and returns what it prints. env has further variables.
func command(ctx context.Context, env []string, arguments ...string) (string, error) {
	var printed bytes.Buffer
	cmd := exec.CommandContext(ctx, arguments[0], arguments[1:]...) //nolint:gosec // G204: the commands below
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdout, cmd.Stderr = io.MultiWriter(os.Stderr, &printed), os.Stderr
	// An interrupt reaches the children of the command through it.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	if err := cmd.Run(); err != nil {
		return printed.String(), fmt.Errorf("run %v: %w", arguments, err)
	}
	return printed.String(), nil
}

// lines adds each line of a command's output that matches the pattern, as the template says (regexp.Regexp.Expand). It fails if none does.
func (m *measurement) lines(output, pattern, template string) error {
	expression := regexp.MustCompile("(?m)" + pattern)
	found := expression.FindAllStringSubmatchIndex(output, -1)
	if len(found) == 0 {
		return fmt.Errorf("no line of the output matches %s", pattern)
	}
	for _, match := range found {
		m.Printf("%s\n", expression.ExpandString(nil, template, output, match))
	}
	return nil
}

// logged is the pattern of a line that a test logs in a file.
func logged(file string) string { return `^ +` + regexp.QuoteMeta(file) + `:[0-9]+: (.*)$` }

func largeProject() []scenario {
	return []scenario{{
		title: "A project of 1,223 operations",
		text: "The public OpenAPI description of the GitHub REST API with a route beside every operation: compiled alone, then uploaded to the\n" +
			"local run until its deployment is served. The limit is 10 s.",
		run: func(ctx context.Context, m *measurement) error {
			out, err := command(ctx, nil, "go", "test", "-count=1", "-run", "GitHub", "-v", "./shared/project", "./local/scenario")
			if err != nil {
				return err
			}
			return m.lines(out, logged("github_test.go"), "- $1")
		},
	}}
}

func console() []scenario {
	return []scenario{
		{
			title: "The console",
			text: "What a browser loads, compressed by brotli: for the first page, and for all of them; and the page of a bucket of 100,000 consumers in Debian's Chromium, all of them loaded and scrolled\n" +
				"through. The limits are 90 and 300 kB, 300 elements, and 95 % of the frames within two refreshes of 60 a second. What the machine draws of the page at rest stands beside it.",
			run: func(ctx context.Context, m *measurement) error {
				out, err := command(ctx, nil, "go", "run", "./console/build")
				if err != nil {
					return err
				}
				if err := m.lines(out, `^ +([0-9.]+ kB)  (first load|all), of at most .*$`, "- $2: $1"); err != nil {
					return err
				}
				out, err = command(ctx, []string{"GATEWRIGHT_TEST_CONSOLE=yes", "GATEWRIGHT_TEST_CONSOLE_STORIES=large.mjs"},
					"go", "test", "-count=1", "-timeout=15m", "-v", "./local/consolestories")
				if err != nil {
					return err
				}
				return m.lines(out, logged("stories_test.go"), "- $1")
			},
		},
		{
			title: "A warm request through an API Gateway",
			text:  "The installation deployed to MiniStack, with the emulator's own share: its API Gateway, its Lambda and its DynamoDB are one Python process.",
			run: func(ctx context.Context, m *measurement) error {
				out, err := command(ctx, nil, "go", "run", "./local/emulators", "measure", "ministack")
				m.Printf("%s", out)
				return err
			},
		},
		{
			title: "The limit of requests of an account",
			text: "A request to the management API that reads one item from a table in memory, of an account with a limit of requests, against the same request of a\n" +
				"server without one, in turns: the ratio of the medians, and the items that it reads and writes beside, a request. The account asks one process so often\n" +
				"in each second of a clock of the benchmark's own. The first request of a second is free, further ones share leases ([0062](decisions/0062-bounds-are-counted-anew.md)).",
			options: "requests=20000",
			run: func(ctx context.Context, m *measurement) error {
				out, err := command(ctx, nil, "go", "test", "-run", "-", "-bench", "LimitOfAnAccountsRequests", "-benchtime", m.Text("requests")+"x", "./shared/api")
				if err != nil {
					return err
				}
				m.Printf("| requests a second | times | reads | writes |\n|--:|--:|--:|--:|\n")
				return m.lines(out, `^BenchmarkLimitOf[^/]*/([0-9]+)_a_second.*ns/op\s+([0-9.e-]+) reads/op\s+([0-9.]+) times\s+([0-9.e-]+) writes/op.*$`, "| $1 | $3 | $2 | $4 |")
			},
		},
	}
}

func moving() []scenario {
	return []scenario{{
		title: "Moving an installation",
		text: "`gatewright export-data` and `import-data` over 20,000 items of 470 bytes. The table is in memory, so that what DynamoDB and the network add is not in it:\n" +
			"a table there is filled by commits of 98 items, one after the other.",
		options: "moves=5",
		run: func(ctx context.Context, m *measurement) error {
			out, err := command(ctx, nil, "go", "test", "-run", "-", "-bench", "Move", "-benchtime", m.Text("moves")+"x", "./local/transfer")
			if err != nil {
				return err
			}
			for _, way := range [][2]string{{"export", "export"}, {"import_into_a_directory", "import into a directory"}, {"import_into_a_table", "import into a table"}} {
				if err := m.lines(out, `^BenchmarkMove/`+way[0]+`(?:-[0-9]+)?\s.* ([0-9]+) items/s$`, "- "+way[1]+": $1 items a second"); err != nil {
					return err
				}
			}
			return nil
		},
	}}
}
