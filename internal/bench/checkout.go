package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gatewright/gatewright/shared/base/processes"
	"github.com/gatewright/gatewright/shared/testing/freeport"
	"github.com/gatewright/gatewright/shared/testing/gobuild"
)

// The limits of how long a person waits for each command, on an idle machine with two cores.
const (
	maxFirstRun     = 120 * time.Second  // from make run, with nothing compiled, to the first response
	maxFirstCommand = 45 * time.Second   // make cli after that run
	maxFirstTest    = 540 * time.Second  // make test with nothing compiled
	maxTest         = 300 * time.Second  // make test with everything compiled, but without test results in the cache
	maxTestAfter    = 120 * time.Second  // make test after a change in one group
	maxTestGroup    = 20 * time.Second   // make test PKG= after a change in that group
	maxCI           = 2700 * time.Second // .ci/run with nothing compiled
)

func checkoutScenarios() []scenario {
	return []scenario{
		{
			title: "A first start",
			text: "In a fresh clone, with downloaded modules and an empty build cache: the time from `make run` to the first " +
				"answer of the management API, and then the time of `make cli`.\n" +
				"The limits are 120 s and 45 s. CPU seconds are the sum of all processes.",
			run: firstStart,
		},
		{
			title: "What tests cost",
			text: "`make test` in a fresh clone: with an empty build cache, then with everything compiled but without " +
				"cached test results, and then after a change in one group. The limits are 540, 300 and 120 s, and 20 s for " +
				"`make test PKG=` of that group.",
			options:  "group=variables",
			onDemand: true,
			run:      testTimes,
		},
		{
			title:    "Continuous integration",
			text:     "`.ci/run` in a fresh clone with an empty build cache. The limit is 2,700 s on an idle machine.",
			options:  "keep-cache=0",
			onDemand: true,
			run:      integration,
		},
	}
}

// checkout is a fresh clone of the repository's last commit, with its own build cache.
type checkout struct {
	m               *measurement
	dir, buildCache string
}

// newCheckout clones the repository, downloads the modules, and adds the row of measureStandardLibrary.
func newCheckout(ctx context.Context, m *measurement) (*checkout, error) {
	root, err := os.Getwd()
	if err != nil {
		return nil, fmt.Errorf("find the repository: %w", err)
	}
	c := &checkout{m, filepath.Join(m.Dir, "checkout"), filepath.Join(m.Dir, "builds")}
	if err := run(c.command(ctx, root, "git", "clone", "-q", root, c.dir)); err != nil {
		return nil, fmt.Errorf("clone the repository: %w", err)
	}
	// `make test-localstack` can use the emulator in ../shared/localstack, which needs no Docker.
	if parent := filepath.Join(filepath.Dir(root), "shared"); isFolder(parent) {
		if err := os.Symlink(parent, filepath.Join(m.Dir, "shared")); err != nil {
			return nil, fmt.Errorf("clone the repository: %w", err)
		}
	}
	if err := run(c.command(ctx, c.dir, "go", "mod", "download")); err != nil {
		return nil, fmt.Errorf("download modules: %w", err)
	}
	return c, c.measureStandardLibrary(ctx)
}

// measureStandardLibrary adds a row with the time to compile Go's standard library. With this time, readers can compare
// the times of different machines: the same commit took twice as long on one machine with two cores as on another.
func (c *checkout) measureStandardLibrary(ctx context.Context) error {
	cmd := c.command(ctx, c.dir, "go", "build", "std")
	cmd.Env = append(gobuild.Environ(), "GOCACHE="+filepath.Join(c.m.Dir, "standard"))
	startedAt := time.Now()
	if err := run(cmd); err != nil {
		return fmt.Errorf("compile the standard library: %w", err)
	}
	c.m.Row("Go's standard library compiled, for comparison", "",
		cost{time.Since(startedAt), processorTime(cmd.ProcessState)}.String(), true)
	return nil
}

// isFolder reports whether path is an existing folder.
func isFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// command returns a command that uses the build cache of the checkout. It does not inherit the variables that make sets
// when `make bench` runs this program.
func (c *checkout) command(ctx context.Context, dir, name string, arguments ...string) *exec.Cmd {
	cmd := groupedCommand(ctx, name, arguments...)
	cmd.Dir = dir
	cmd.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "MAKE") || strings.HasPrefix(v, "MFLAGS=")
	}), "GOCACHE="+c.buildCache)
	cmd.Stderr = os.Stderr
	return cmd
}

// cost is the time of a command, and the processor time of all its processes.
type cost struct{ elapsed, cpu time.Duration }

func (c cost) String() string {
	return fmt.Sprintf("%.1f s (%.0f CPU seconds)", c.elapsed.Seconds(), c.cpu.Seconds())
}

// make runs make with arguments and returns its cost.
func (c *checkout) make(ctx context.Context, arguments ...string) (cost, error) {
	cmd := c.command(ctx, c.dir, "make", arguments...)
	cmd.Stdout = os.Stderr
	startedAt := time.Now()
	err := run(cmd)
	spent := cost{elapsed: time.Since(startedAt)}
	if cmd.ProcessState != nil {
		spent.cpu = processorTime(cmd.ProcessState)
	}
	if err != nil {
		return spent, fmt.Errorf("make %s: %w", strings.Join(arguments, " "), err)
	}
	return spent, nil
}

func processorTime(s *os.ProcessState) time.Duration { return s.UserTime() + s.SystemTime() }

// firstResponse starts cmd, a command that groupedCommand has returned and that serves the management API. It waits for
// the first response, and then interrupts the command as Ctrl-C does. It returns the time until the response, and the
// processor time of the whole run.
func firstResponse(ctx context.Context, cmd *exec.Cmd, data string, env ...string) (cost, error) {
	const timeout = time.Hour
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	api, err := freeport.Find(ctx)
	if err != nil {
		return cost{}, err
	}
	cmd.Env = append(cmd.Env, append(env, "GATEWRIGHT_DATA_DIR="+data, "GATEWRIGHT_API_ADDR="+api.String(),
		"GATEWRIGHT_GATEWAY_ADDR=127.0.0.1:0", "GATEWRIGHT_RELAY_ADDR=127.0.0.1:0")...)
	startedAt := time.Now()
	if err := cmd.Start(); err != nil {
		return cost{}, fmt.Errorf("start: %w", err)
	}
	defer func() { _ = processes.Kill(cmd.Process.Pid) }() // processes that are still running
	exited := make(chan error, 1)
	go func() { exited <- cmd.Wait() }()
	responded := make(chan time.Duration, 1)
	go func() {
		for ctx.Err() == nil {
			if responds(ctx, "http://"+api.String()+"/v1/who-am-i") {
				responded <- time.Since(startedAt)
				return
			}
			time.Sleep(5 * time.Millisecond)
		}
	}()
	select {
	case elapsed := <-responded:
		// Like a terminal, send the signal to the process group, which contains make and the product.
		if err := processes.Interrupt(cmd.Process.Pid); err != nil {
			return cost{}, fmt.Errorf("interrupt the command: %w", err)
		}
		<-exited // interrupted, so make ends with an error
		return cost{elapsed, processorTime(cmd.ProcessState)}, nil
	case err := <-exited:
		return cost{}, fmt.Errorf("the command ended before the first response: %w", err)
	case <-ctx.Done():
		_ = processes.Kill(cmd.Process.Pid)
		<-exited
		return cost{}, fmt.Errorf("wait for the first response: %w", context.Cause(ctx))
	}
}

// responds reports whether url responds with the status 401 to a request without a key.
func responds(ctx context.Context, url string) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return false
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return false
	}
	_ = response.Body.Close()
	return response.StatusCode == http.StatusUnauthorized
}

func firstStart(ctx context.Context, m *measurement) error {
	c, err := newCheckout(ctx, m)
	if err != nil {
		return err
	}
	graph := filepath.Join(m.Dir, "actions.json")
	makeRun := c.command(ctx, c.dir, "make", "run")
	first, err := firstResponse(ctx, makeRun, filepath.Join(m.Dir, "data"), "GATEWRIGHT_TLS_ADDR=127.0.0.1:0",
		"GOFLAGS=-debug-actiongraph="+graph)
	if err != nil {
		return fmt.Errorf("make run: %w", err)
	}
	parts, err := readParts(graph)
	if err != nil {
		return err
	}
	cli, err := c.make(ctx, "cli")
	if err != nil {
		return err
	}
	seconds := func(d time.Duration) string { return fmt.Sprintf("%.0f s", d.Seconds()) }
	m.Row("`make run`, to the first answer", seconds(maxFirstRun), first.String(), first.elapsed <= maxFirstRun)
	m.Row("`make cli` after it", seconds(maxFirstCommand), cli.String(), cli.elapsed <= maxFirstCommand)
	m.Printf("\nThe CPU seconds that compiling the product for `make run` takes, by part:\n\n| part | packages | CPU " +
		"seconds |\n|---|---|---|\n")
	for _, p := range parts {
		m.Printf("| %s | %d | %.1f |\n", p.name, p.packages, p.cpu.Seconds())
	}
	return nil
}

// part is a part of a build: the compilation of a group of packages, or the linking.
type part struct {
	name     string
	packages int // the number of compiled packages
	cpu      time.Duration
}

// readParts reads the file that the go command writes with -debug-actiongraph. It returns the parts that take the most
// processor time, and a last part for all others. partOf groups the packages.
func readParts(file string) ([]part, error) {
	raw, err := os.ReadFile(file) //nolint:gosec // G304: a file of this run
	if err != nil {
		return nil, fmt.Errorf("read the action graph of the go command: %w", err)
	}
	var actions []struct {
		Mode, Package   string
		CmdUser, CmdSys time.Duration
	}
	if err := json.Unmarshal(raw, &actions); err != nil {
		return nil, fmt.Errorf("read the action graph of the go command: %w", err)
	}
	parts := map[string]*part{}
	for _, a := range actions {
		name := partOf(a.Package)
		if a.Mode == "link" {
			name = "linking"
		}
		if parts[name] == nil {
			parts[name] = &part{name: name}
		}
		parts[name].cpu += a.CmdUser + a.CmdSys
		if a.CmdUser > 0 {
			parts[name].packages++
		}
	}
	const shown = 12
	all := slices.SortedFunc(maps.Values(parts), func(a, b *part) int { return int(b.cpu - a.cpu) })
	var out []part
	rest := part{name: "all others"}
	for i, p := range all {
		if i < shown {
			out = append(out, *p)
			continue
		}
		rest.packages, rest.cpu = rest.packages+p.packages, rest.cpu+p.cpu
	}
	return append(out, rest), nil
}

// partOf returns the name of the part that a package belongs to: Go's standard library, Gatewright, the AWS SDK, or the
// first three elements of another package's path.
func partOf(pkg string) string {
	elements := strings.Split(pkg, "/")
	switch {
	case !strings.Contains(elements[0], "."):
		return "Go's standard library"
	case strings.HasPrefix(pkg, "github.com/gatewright/gatewright"):
		return "Gatewright"
	case strings.HasPrefix(pkg, "github.com/aws/"):
		return "github.com/aws"
	default:
		return strings.Join(elements[:min(len(elements), 3)], "/")
	}
}

func testTimes(ctx context.Context, m *measurement) error {
	c, err := newCheckout(ctx, m)
	if err != nil {
		return err
	}
	// Download the npm packages of local/dev first, so that this download is not measured. The first measured run
	// downloads the npm packages of internal/conformance. newCheckout has downloaded the Go modules.
	if _, err := c.make(ctx, "test", "PKG=./internal/devmain"); err != nil {
		return err
	}
	if err := os.RemoveAll(c.buildCache); err != nil {
		return fmt.Errorf("empty the build cache: %w", err)
	}
	group := m.Text("group")
	for _, test := range []struct {
		name      string
		limit     time.Duration
		prepare   func() error
		arguments []string
	}{
		{"`make test`, nothing compiled", maxFirstTest, nil, []string{"test"}},
		{"`make test`, no test results in the cache", maxTest, func() error {
			return run(c.command(ctx, c.dir, "go", "clean", "-testcache"))
		}, []string{"test"}},
		{"`make test PKG=" + group + "` after a change in it", maxTestGroup, func() error {
			return c.change(group)
		}, []string{"test", "PKG=" + group}},
		{"`make test` after a change in a group", maxTestAfter, func() error { return c.change(group) }, []string{"test"}},
	} {
		if test.prepare != nil {
			if err := test.prepare(); err != nil {
				return fmt.Errorf("prepare %s: %w", test.name, err)
			}
		}
		spent, err := c.make(ctx, test.arguments...)
		m.Row(test.name, fmt.Sprintf("%.0f s", test.limit.Seconds()), spent.String(), spent.elapsed <= test.limit)
		if err != nil {
			return err
		}
	}
	return nil
}

// change adds a function to the code of a group, so that every program that links the group is compiled again.
func (c *checkout) change(group string) error {
	file := filepath.Join(c.dir, "functions", group, "doc.go")
	f, err := os.OpenFile(file, os.O_APPEND|os.O_WRONLY, 0) //nolint:gosec // G304: a file of the clone
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(f, "\nfunc changed%[1]d() int { return %[1]d }\n", time.Now().UnixNano())
	return errors.Join(err, f.Close())
}

func integration(ctx context.Context, m *measurement) error {
	c, err := newCheckout(ctx, m)
	if err != nil {
		return err
	}
	cmd := c.command(ctx, c.dir, ".ci/run")
	if m.Number("keep-cache") != 0 { // use the build cache of this machine
		cmd = groupedCommand(ctx, ".ci/run")
		cmd.Dir, cmd.Stderr = c.dir, os.Stderr
	}
	var printed bytes.Buffer
	cmd.Stdout = io.MultiWriter(os.Stderr, &printed)
	startedAt := time.Now()
	err = run(cmd)
	elapsed := time.Since(startedAt)
	m.Row("`.ci/run`", fmt.Sprintf("%.0f s", maxCI.Seconds()), fmt.Sprintf("%.0f s", elapsed.Seconds()), elapsed <= maxCI)
	if at := strings.LastIndex(printed.String(), "ci: seconds by step:"); at >= 0 {
		m.Printf("\n```text\n%s```", printed.String()[at:])
	} else {
		err = errors.Join(err, errors.New("it printed no table of steps"))
	}
	if err != nil {
		return fmt.Errorf(".ci/run: %w", err)
	}
	return nil
}
