package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"regexp"
)

// command runs a command and returns what it printed on standard output. The commands of the scenarios fail if a figure
// is over its limit. env is added to the environment of this process.
func command(ctx context.Context, env []string, arguments ...string) (string, error) {
	var printed bytes.Buffer
	cmd := groupedCommand(ctx, arguments[0], arguments[1:]...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdout, cmd.Stderr = io.MultiWriter(os.Stderr, &printed), os.Stderr
	if err := run(cmd); err != nil {
		return printed.String(), fmt.Errorf("run %v: %w", arguments, err)
	}
	return printed.String(), nil
}

// lines adds each line of the output that matches the pattern to the report, in the form of the template
// (regexp.Regexp.Expand). It returns an error if no line matches.
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

// logged returns the pattern of a line that a test in the file logs. Its group is the text of the line.
func logged(file string) string { return `^ +` + regexp.QuoteMeta(file) + `:[0-9]+: (.*)$` }

func largeProject() []scenario {
	return []scenario{{
		title: "A project of 1,223 operations",
		text: "The public OpenAPI description of the GitHub REST API with a route for every operation: the time to compile " +
			"it, and the time from its upload to\n" +
			"the local run until its deployment is served. The limit is 10 s.",
		run: func(ctx context.Context, m *measurement) error {
			out, err := command(ctx, nil, "go", "test", "-count=1", "-run", "GitHub", "-v", "./shared/format/project",
				"./internal/system/scenario")
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
			text: "The bytes that a browser loads, compressed with Brotli, for the first page and for all pages. Then the " +
				"page of a bucket with 100,000 consumers in Debian's Chromium, which loads all of them and scrolls\n" +
				"through. The limits are 90 kB and 300 kB, 300 elements, and 95 % of the frames within two refreshes at 60 Hz. " +
				"For comparison, the figures contain the frames of the page when it does not scroll.",
			run: func(ctx context.Context, m *measurement) error {
				out, err := command(ctx, nil, "go", "run", "./console/build")
				if err != nil {
					return err
				}
				if err := m.lines(out, `^ +([0-9.]+ kB)  (first load|all), of at most .*$`, "- $2: $1"); err != nil {
					return err
				}
				out, err = command(ctx, []string{"GATEWRIGHT_TEST_CONSOLE=yes", "GATEWRIGHT_TEST_CONSOLE_STORIES=large.mjs"},
					"go", "test", "-count=1", "-timeout=15m", "-v", "./internal/system/consolestories")
				if err != nil {
					return err
				}
				return m.lines(out, logged("stories_test.go"), "- $1")
			},
		},
		{
			title: "A warm request through an API Gateway",
			text: "An installation on MiniStack. The figures contain the time of the emulator, whose API Gateway, Lambda and " +
				"DynamoDB are one Python process.",
			run: func(ctx context.Context, m *measurement) error {
				out, err := command(ctx, nil, "go", "run", "./local/dev/emulators", "measure", "ministack")
				m.Printf("%s", out)
				return err
			},
		},
		{
			title: "The limit of requests of an account",
			text: "A request to the management API that reads one item from a table in memory, with and without a limit of " +
				"the account's requests, in turns. The table has the ratio of the medians, and how many\n" +
				"more items a request with the limit reads and writes. The account sends the given number of requests to " +
				"one process\n" +
				"in each second of a simulated clock. The first request of a second costs nothing more, and the others share " +
				"leases ([0062](decisions/0062-bounds-are-counted-anew.md)).",
			options: "requests=20000",
			run: func(ctx context.Context, m *measurement) error {
				out, err := command(ctx, nil, "go", "test", "-run", "-", "-bench", "LimitOfAnAccountsRequests", "-benchtime",
					m.Text("requests")+"x", "./shared/management/api")
				if err != nil {
					return err
				}
				m.Printf("| requests a second | times | reads | writes |\n|--:|--:|--:|--:|\n")
				return m.lines(out,
					`^BenchmarkLimitOf[^/]*/([0-9]+)_a_second.*ns/op\s+([0-9.e-]+) reads/op\s+([0-9.]+) times\s+([0-9.e-]+) writes/op.*$`, "| $1 | $3 | $2 | $4 |")
			},
		},
	}
}

func moveScenarios() []scenario {
	return []scenario{{
		title: "Moving an installation",
		text: "`gatewright export-data` and `import-data` with 20,000 items of 470 bytes. The table is in memory, so the " +
			"figures do not contain the time of DynamoDB and the network. An import\n" +
			"into a table commits 98 items at a time, one commit after the other.",
		options: "moves=5",
		run: func(ctx context.Context, m *measurement) error {
			out, err := command(ctx, nil, "go", "test", "-run", "-", "-bench", "Move", "-benchtime", m.Text("moves")+"x",
				"./local/transfer")
			if err != nil {
				return err
			}
			for _, direction := range [][2]string{
				{"export", "export"},
				{"import_into_a_directory", "import into a directory"},
				{"import_into_a_table", "import into a table"},
			} {
				if err := m.lines(out, `^BenchmarkMove/`+direction[0]+`(?:-[0-9]+)?\s.* ([0-9]+) items/s$`,
					"- "+direction[1]+": $1 items a second"); err != nil {
					return err
				}
			}
			return nil
		},
	}}
}
