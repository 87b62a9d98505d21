// Command figures runs every program that measures the product and writes what
// they print to docs/performance.md, which is what `make bench` does.
//
// It measures nothing itself and judges nothing: each program prints Markdown
// and fails when a figure is beyond its limit. Then the others run all the same, the page says
// it of that section, and this command fails too.
//
// Read this file; the figures asked for are those of issues 3, 9, 11 and 12, "Figures", of issue 13, parts 9 and 11, of issue 14, part 3, and of issue 16, parts 2, 7, 8 and 10.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/gatewright/gatewright/internal/program"
)

func main() {
	out := flag.String("out", "docs/performance.md", "the file to write")
	only := flag.String("only", "", "run the sections whose title contains this, and leave the others as they are")
	flag.Parse()
	program.Main(context.Background(), "figures", func(ctx context.Context) error { return run(ctx, *out, *only) })
}

// section is one kind of figure. Its text comes from a program or from a golden
// file that a test keeps.
type section struct {
	title, intro string
	command      []string
	golden       string
}

// sections are in the order of the document. binaries is a folder for what
// they build.
func sections(binaries string) []section {
	const client = "dist/gatewright" // as `make cli` builds it; what that prints is no figure
	binary, server := filepath.Join(binaries, "local"), filepath.Join(binaries, "gatewright-server")
	product := func(program string) []string {
		return []string{"sh", "-c", "go build -buildvcs=false -o " + binary + " ./local && exec " + program + " " + binary}
	}
	process := func(parts string) []string {
		return []string{"sh", "-c", "go build -buildvcs=false -o " + server + " ./cmd/gatewright-server && make -s " + client + " >&2 && " +
			"exec go run ./local/processbench -only " + parts + " -binary " + server + " -agent " + client}
	}
	return []section{
		{
			title: "What an operation asks of the database",
			intro: "Round trips and capacity units per operation. Kept by `shared/keys`' tests as a golden: a change of it is a change of code.\n" +
				"Each is measured in a bucket of 1,000 and in one of 10,000 consumers, and has to cost the same in both.",
			golden: "shared/keys/testdata/ledger.txt",
		},
		{
			title: "A request through the gateway",
			intro: "CPU per request with a matched route and a checked key, against a bare tuned `httputil.ReverseProxy`: same upstream, same client,\n" +
				"same run, each proxy a process of its own. The limit is 1.25 times. Below, what a quota adds to the key check (limit 1.1 times), with the items\n" +
				"that all counting writes to the table: leases, journals, and what is given back.",
			command: []string{"go", "run", "./internal/bench"},
		},
		{
			title: "A request by TLS and HTTP/2",
			intro: "The same gateway and ReverseProxy by TLS 1.3, asked by Go's client in a process of its own: 64 requests at once, on 64 connections by HTTP/1.1 and on\n" +
				"four by HTTP/2, in rounds that alternate. Both have net/http's HTTP/2; to the upstream both speak HTTP/1.1. The limit is 1.25 times.",
			command: []string{"go", "run", "./internal/bench", "-protocols"},
		},
		{
			title: "A request with everything on",
			intro: "The product as its users start it, where a route has a key and a strict limit, and each request a line in the log and in the sum that the\n" +
				"terminal shows, and counts for analytics; beside it a tuned `httputil.ReverseProxy` and nginx, which do none of that, and gateways that do a part\n" +
				"of it. All have one upstream, and are asked by `wrk` in turns of a second; medians of the rounds, and of their ratios. Processor time is user's\n" +
				"and system's, of the process and its children. Debian's packages `wrk` and `nginx-light` are needed.\n" +
				"\n" +
				"The goal is 0.8 times the ReverseProxy with a p99 no worse than its, and it is not reached. What a key, a limit, a line and counts add is to be seen from row to\n" +
				"row, to within some 5 % on a machine that does other things; p99 there tells of the other things more than of the programs. Where the time of a request goes\n" +
				"that has all but the product's store and terminal, the last table says, by a profile: alone, `go run ./internal/bench -shares`. A third and more are system calls, of which\n" +
				"a proxy needs two writes and two reads at least.",
			command: product("go run ./internal/bench -shares -binary"),
		},
		{
			title: "A request through a tunnel",
			intro: "The product and `gatewright tunnel connect`, as their users start them, against two bare reverse proxies in a row: same service, same client,\n" +
				"same run. Then large bodies that nobody takes, both ways, and agents that have nothing to do.",
			command: []string{"sh", "-c", "go build -buildvcs=false -o " + binary + " ./local && make -s " + client + " >&2 && " +
				"exec go run ./local/tunnelbench -binary " + binary + " -agent " + client},
		},
		{
			title: "The gateway as a process",
			intro: "`gatewright gateway` as its users start it, by TLS, over emulators of DynamoDB and S3, with a management API beside it. A request is lost where its\n" +
				"client has no answer, or another than the upstream's: nothing on the way repeats one, and clients send bodies that none can send again. One in fifty\n" +
				"takes 1.5 s, so that some are under way when no more are taken. Processes announce their end for two seconds (`GATEWRIGHT_ANNOUNCE`) but where it says otherwise, and the balancer asks `/readyz` four times\n" +
				"a second. By HTTP/2 each of eight clients has a connection of its own, and the reverse proxy four to each process. Idle clients have asked once, of a process that has answered 20,000 requests before; memory is what is resident 8 s later.\n" +
				"\n" +
				"An idle connection by HTTP/1.1 has no goroutine on Linux, and takes 1.2 KB of the heap; by TLS its session some 6 KB beside.",
			command: process("drain,start,idle"),
		},
		{
			title: "One server",
			intro: "`gatewright serve` as its users start it, by TLS, with everything on: keys, a strict limit, lines of access, counts of analytics, metrics. Clients and\n" +
				"the upstream have the same processors as the server. A day is that of a modest installation, done as fast as the server takes it, with 10,000 consumers\n" +
				"and their keys; what it leaves behind is looked at with nothing to do, 150 s after the last request. Timers go by the clock, and so run as often as in the minutes\n" +
				"that the day takes.",
			command: process("server,day"),
		},
		{
			title: "GraphQL routes and MCP servers",
			intro: "CPU of the product, as its users start it, for a request with a key: a GraphQL route with all four policies against the same route without, a tool's\n" +
				"call against the plain request, in rounds that alternate; the median of their differences counts. Then requests that are made to be expensive and are\n" +
				"refused, each a new one each time, of 1 MB but where it says otherwise.",
			command: product("go run ./local/surfacebench -binary"),
		},
		{
			title: "The platform's own MCP servers",
			intro: "The product as its users start it, with the weights of the search. First the documentation's: each question is a new one, but where it says otherwise,\n" +
				"and each client has an address of its own. Then CPU of the product for a call of `/mcp` against the same request by REST, in rounds that alternate.",
			command: product("env GATEWRIGHT_DOCS_WEIGHTS=shared/docsearch/minilm/minilm-l6-v2.weights go run ./local/mcpbench -binary"),
		},
		{
			title: "A project of 1,223 operations",
			intro: "The public OpenAPI description of the GitHub REST API with a route beside every operation: compiled alone, then uploaded to the\n" +
				"local run until its deployment is served. The limit is 10 s.",
			command: []string{"bash", "-o", "pipefail", "-c", `go test -count=1 -run GitHub -v ./shared/project ./local/scenario | sed -En 's/^ +github_test.go:[0-9]+: /- /p'`},
		},
		{
			title: "The start of a function",
			intro: "Each function's binary under a Runtime API of ours: its size, the time from its start to its first poll, the memory it holds. The limits\n" +
				"are 15 ms at the median, 25 ms for those that speak MCP, and 40 MB. It is our share of a cold start: no sandbox is made here.",
			command: []string{"go", "run", "./internal/coldstart", "-dist", "dist/" + runtime.GOARCH},
		},
		{
			title: "The start of the client",
			intro: "The command `gatewright` before it does anything: its size, and the time of its `--help` in turns with a program of cobra that does nothing. The limits are\n" +
				"25 MB and 4 times. The server beside it is what the client would be with everything linked ([0068](decisions/0068-the-server-is-a-binary-of-its-own.md)).",
			command: []string{"go", "run", "./internal/clientstart"},
		},
		{
			title: "A save that is served",
			intro: "The command `gatewright dev` of the client: the time from its start to its first answer, and, for 50 saves one after the other, from the renaming of the saved file to\n" +
				"the first answer of the new version. A save is noticed within 50 ms and read once nothing has changed for 40 ms. The largest project has no limit: most of\n" +
				"its time is that of its compilation.",
			command: []string{"go", "run", "./internal/devbench"},
		},
		{
			title: "An account in files",
			intro: "The command `gatewright` of the client, of an API in this process: the requests that it sends for files with 20,000 consumers, and the most memory that it takes. The limits are a request for\n" +
				"each 1,000 objects and for each change, with one more that tells ETags ([0069](decisions/0069-etags-of-a-list-are-tried-once.md)), and 200 MB.",
			command: []string{"go", "run", "./internal/filesbench"},
		},
		{
			title: "The console",
			intro: "What a browser loads, compressed by brotli: for the first page, and for all of them; and the page of a bucket of 100,000 consumers in Debian's Chromium, all of them loaded and scrolled\n" +
				"through. The limits are 90 and 300 kB, 300 elements, and 95 % of the frames within two refreshes of 60 a second. What the machine draws of the page at rest stands beside it.",
			command: []string{"bash", "-o", "pipefail", "-c", `go run ./console/build | sed -En 's/^ +([0-9.]+ kB)  (first load|all), of at most .*/- \2: \1/p' && ` +
				`GATEWRIGHT_TEST_CONSOLE=yes GATEWRIGHT_TEST_CONSOLE_STORIES=large.mjs go test -count=1 -timeout=15m -v ./local/consolestories | sed -En 's/^ +stories_test.go:[0-9]+: /- /p'`},
		},
		{
			title:   "A warm request through an API Gateway",
			intro:   "The installation deployed to MiniStack, with the emulator's own share: its API Gateway, its Lambda and its DynamoDB are one Python process.",
			command: []string{"go", "run", "./local/emulators", "measure", "ministack"},
		},
		{
			title: "The limit of requests of an account",
			intro: "A request to the management API that reads one item from a table in memory, of an account with a limit of requests, against the same request of a\n" +
				"server without one, in turns: the ratio of the medians, and the items that it reads and writes beside, a request. The account asks one process so often\n" +
				"in each second of a clock of the benchmark's own. The first request of a second is free, further ones share leases ([0062](decisions/0062-bounds-are-counted-anew.md)).",
			command: []string{"bash", "-o", "pipefail", "-c", `go test -run - -bench LimitOfAnAccountsRequests -benchtime 20000x ./shared/api | sed -En 's/^BenchmarkLimitOf[^\/]*\/([0-9]+)_a_second.*ns\/op[[:space:]]+([0-9.e-]+) reads\/op[[:space:]]+([0-9.]+) times[[:space:]]+([0-9.e-]+) writes\/op.*/| \1 | \3 | \2 | \4 |/p' | sed '1i | requests a second | times | reads | writes |\n|--:|--:|--:|--:|'`},
		},
		{
			title: "A rotation of the root key",
			intro: "100,000 API keys, half of them in a bucket that has forgotten their texts, over the embedded engine with its files in memory, so that no disk is measured; two clients check keys, each for the first time, from\n" +
				"before the rotation until after it. The hours of waiting are gone through by a clock of its own. The limits are no key refused, and one read of the table beside the usual one.",
			command: []string{"go", "run", "./local/rotationbench"},
		},
		{
			title: "The embedded engine: large key buckets",
			intro: "The start of a product without large buckets, and what it uses without a request. Then a bucket of 100,000 consumers made through the API, and a product with a million,\n" +
				"made by its own functions in one process. Emptying holds a second pass, a minute later, for what a slow writer may have added.",
			command: product("go run ./local/largebucket -binary"),
		},
		{
			title: "The embedded engine: a product that is killed",
			intro: "`kill -9` under 16 writers, start again, look for every write: the acknowledged ones are there, none is there twice; the bar is 0 and 0. Half of\n" +
				"the kills come while the engine writes tables (flushes and compactions) or while a backup is made, which must not look like a whole one then.\n" +
				"The operating system lives on: power cuts are simulated by the tests of `shared/store/embedded`.",
			command: product("go run ./local/crash -rounds 100 -seed 1 -binary"),
		},
		{
			title: "Moving an installation",
			intro: "`gatewright export-data` and `import-data` over 20,000 items of 470 bytes. The table is in memory, so that what DynamoDB and the network add is not in it:\n" +
				"a table there is filled by commits of 98 items, one after the other.",
			command: []string{"bash", "-o", "pipefail", "-c", `go test -run - -bench Move -benchtime 5x ./local/transfer | sed -En 's/^BenchmarkMove\/([a-z_]+)(-[0-9]+)?[^0-9].* ([0-9]+) items\/s$/- \1: \3 items a second/p' | tr _ ' '`},
		},
	}
}

func run(ctx context.Context, out, only string) error {
	binaries, err := os.MkdirTemp("", "gatewright-figures-*")
	if err != nil {
		return fmt.Errorf("make a folder for binaries: %w", err)
	}
	defer func() { _ = os.RemoveAll(binaries) }()

	page, err := os.ReadFile(out) //nolint:gosec // whoever runs this chose it
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read the figures of before: %w", err)
	}
	before := split(string(page))
	text := fmt.Sprintf("# Performance\n\nWritten by `make bench` on a machine of %d cores (%s/%s) with %s. Times and CPU are\nthis machine's on that day; ratios and counts are the product's.\n",
		runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, runtime.Version())
	all := sections(binaries)
	// The title of one may begin as that of another.
	exactly := slices.ContainsFunc(all, func(s section) bool { return s.title == only })
	var failed []error
	for _, s := range all {
		if s.title != only && (exactly || !strings.Contains(s.title, only)) {
			text += before[s.title]
			continue
		}
		fmt.Fprintf(os.Stderr, "figures: %s\n", strings.ToLower(s.title))
		load := busy()
		measured, err := s.measure(ctx)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", strings.ToLower(s.title), err))
			measured += "\n\n**A figure is beyond its limit here, or the section is not whole.**"
		}
		text += fmt.Sprintf("%s%s\n\n%s%s\n\n%s\n", heading, s.title, s.intro, s.again(load), strings.TrimSpace(measured))
	}
	if err := os.WriteFile(out, []byte(text), 0o600); err != nil {
		failed = append(failed, fmt.Errorf("write the figures: %w", err))
	}
	return errors.Join(failed...)
}

const heading = "\n## "

// split gives the sections of a page by their titles.
func split(page string) map[string]string {
	sections := map[string]string{}
	for _, text := range strings.Split(page, heading)[1:] {
		title, _, _ := strings.Cut(text, "\n")
		sections[title] = heading + text
	}
	return sections
}

// again says how the section alone is measured once more, and with which load it was.
func (s section) again(load string) string {
	if s.golden != "" {
		return ""
	}
	return fmt.Sprintf("\nAlone: `go run ./internal/figures -only '%s'`, here %s.", s.title, load)
}

// busy tells what else the machine was doing: figures of a busy one are worse
// than they have to be.
func busy() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "with an unknown load"
	}
	last, _, _ := strings.Cut(string(text), " ")
	return "begun with a load average of " + last
}

// measure returns a section's Markdown, which is on the terminal by then too.
func (s section) measure(ctx context.Context) (string, error) {
	if s.golden != "" {
		text, err := os.ReadFile(s.golden)
		if err != nil {
			return "", fmt.Errorf("read the golden: %w", err)
		}
		return "```text\n" + strings.TrimRight(string(text), "\n") + "\n```", nil
	}
	var printed bytes.Buffer
	cmd := exec.CommandContext(ctx, s.command[0], s.command[1:]...) //nolint:gosec // G204: the commands above
	cmd.Stdout, cmd.Stderr = io.MultiWriter(os.Stdout, &printed), os.Stderr
	// An interrupt reaches the programs' children through the programs.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	err := cmd.Run()
	return printed.String(), err
}
