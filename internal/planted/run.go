package planted

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/gatewright/gatewright/shared/testing/deadline"
	"github.com/gatewright/gatewright/shared/testing/simulations"
)

// Tree is a module whose guards can be run.
type Tree struct {
	// Root is the absolute path of the module.
	Root string
	// Timeout bounds one run of a test binary. Compiling is not counted.
	Timeout time.Duration
}

// Planted is a module with many defects in its source. A defect is active only in a run of a test binary that selects
// the defect. Tree.Plant returns a Planted.
type Planted struct {
	tree Tree
	// overlay is the path of the file that maps sources to changed ones, for -overlay of the go command. test2json is the
	// path of the tool test2json.
	overlay, test2json string
}

// Plant writes the changed source files to dir. It returns an error if a defect no longer applies, or cannot be
// selected at run time.
func (t Tree) Plant(ctx context.Context, dir string, defects []Defect) (*Planted, error) {
	texts, err := plantSelectable(os.DirFS(t.Root), defects)
	if err != nil {
		return nil, err
	}
	p := &Planted{tree: t}
	if p.overlay, err = t.overlay(dir, texts); err != nil {
		return nil, fmt.Errorf("plant defects: %w", err)
	}
	// test2json is run by its path, because each `go tool test2json` takes as long as a short test.
	tool, err := exec.CommandContext(ctx, "go", "tool", "-n", "test2json").Output()
	if err != nil {
		return nil, fmt.Errorf("find test2json: %w", err)
	}
	p.test2json = strings.TrimSpace(string(tool))
	return p, nil
}

// Build builds the test binaries of packages in dir, in one run of the go command. The last elements of the packages' paths must differ.
func (p *Planted) Build(ctx context.Context, dir string, packages ...string) (map[string]*Binary, error) {
	binaries, to := map[string]*Binary{}, dir+string(filepath.Separator)
	for _, pkg := range packages {
		binaries[pkg] = &Binary{planted: p, pkg: pkg, path: filepath.Join(dir, path.Base(pkg)+".test")}
		if len(packages) == 1 {
			// pkg can be ".". If -o were a folder, the go command would name the binary of "." after the module.
			to = binaries[pkg].path
		}
	}
	// vet is off, because only guards are allowed to catch a defect. Without debug information, a binary is linked in half the time.
	args := append([]string{"test", "-c", "-vet=off", "-ldflags=-s -w", "-overlay=" + p.overlay, "-o=" + to}, packages...)
	command := exec.CommandContext(ctx, "go", args...) //nolint:gosec // G204: the list of defects is ours
	command.Dir = p.tree.Root
	if out, err := command.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build the tests of %s with their defects: %w\n%s", strings.Join(packages, ", "), err, out)
	}
	return binaries, nil
}

// Binary is the test binary of a package.
type Binary struct {
	planted   *Planted
	pkg, path string
}

// Check runs the guard of a defect with the defect. It returns the processor time of the guard and its child processes.
// The error is nil if the guard fails, as it should; otherwise the error says what happened. A defect that crashes the
// guard's process does not count as caught, because no check of the guard has failed.
func (b *Binary) Check(ctx context.Context, d Defect) (time.Duration, error) {
	o, err := b.run(ctx, d.Name, pattern(d.Guard.Test), "-test.failfast")
	cpuTime := o.cpuTime
	if err == nil && o.verdict(d) != nil {
		// The guard may start a process without the environment variable that selects d. A marked binary does not need
		// the variable.
		var m *Binary
		if m, err = b.marked(d); err == nil {
			o, err = m.run(ctx, d.Name, pattern(d.Guard.Test), "-test.failfast")
			cpuTime += o.cpuTime
		}
	}
	if err != nil {
		return cpuTime, fmt.Errorf("run the guard of %s: %w", d.Name, err)
	}
	return cpuTime, o.verdict(d)
}

// CheckUnplanted runs guards without any defect. Simulations make only a tenth of their runs, because `make test` makes
// all runs. CheckUnplanted returns the processor time of the guards, and an error unless all of them pass.
func (b *Binary) CheckUnplanted(ctx context.Context, guards []Guard) (time.Duration, error) {
	var tests []string
	for _, g := range guards {
		tests = append(tests, pattern(g.Test))
	}
	slices.Sort(tests)
	o, err := b.run(ctx, noDefect, strings.Join(slices.Compact(tests), "|"))
	if err != nil {
		return o.cpuTime, fmt.Errorf("run the guards of %s: %w", b.pkg, err)
	}
	return o.cpuTime, o.passed(guards)
}

// noDefect replaces the name of a defect in runs without a defect. It is not empty, so that the waits of package
// deadline are as short as with a defect. A guard that needs longer waits would fail with every defect, and its failure
// would prove nothing.
const noDefect = "(none)"

// run runs the tests that match the pattern tests. defect is the name of a defect, or noDefect.
func (b *Binary) run(ctx context.Context, defect, tests string, flags ...string) (outcome, error) {
	args := append([]string{
		"-t", b.path, "-test.v=test2json", "-test.paniconexit0", "-test.count=1",
		"-test.timeout=" + b.planted.tree.Timeout.String(), "-test.run=" + tests,
	}, flags...)
	command := exec.CommandContext(ctx, b.planted.test2json, args...) //nolint:gosec // G204: the list of defects is ours
	command.Dir = filepath.Join(b.planted.tree.Root, filepath.FromSlash(b.pkg))
	// Without RAPID_NOFAILFILE, rapid would write the input of a failure below testdata, and try it first in every later
	// run. Without RAPID_SHRINKTIME, it would search 30 s for a smaller input.
	command.Env = append(os.Environ(), deadline.VarPlanted+"="+defect, "RAPID_NOFAILFILE=true", "RAPID_SHRINKTIME=0s")
	if defect == noDefect {
		command.Env = append(command.Env, simulations.VarFactor+"=0.1")
	}
	return runCommand(ctx, command)
}

// If a binary ends with endMark and the name of a defect, padded with spaces to endBytes, the binary selects that
// defect unless its environment selects another one.
const (
	endMark  = "guards planted: "
	endBytes = 256
)

// marked returns a copy of the binary with the defect's name at its end.
func (b *Binary) marked(d Defect) (*Binary, error) {
	content, err := os.ReadFile(b.path)
	if err != nil {
		return nil, fmt.Errorf("read a test binary: %w", err)
	}
	dir, err := os.MkdirTemp(filepath.Dir(b.path), "marked-")
	if err != nil {
		return nil, fmt.Errorf("make a folder for a test binary: %w", err)
	}
	m := *b
	m.path = filepath.Join(dir, filepath.Base(b.path))
	content = fmt.Appendf(content, "%-*s", endBytes, endMark+d.Name)
	if err := os.WriteFile(m.path, content, 0o700); err != nil { //nolint:gosec // G306: it is run
		return nil, fmt.Errorf("write a test binary: %w", err)
	}
	return &m, nil
}

// verdict returns nil if the guard of the defect d failed while d was active. Otherwise it returns an error that says
// what happened.
func (o outcome) verdict(d Defect) error {
	switch o.state(d.Guard.Test) {
	case fail:
		return nil
	case broken:
		return fmt.Errorf("the defect %s is not caught, because it keeps its guard from running: change the defect\n%s",
			d.Name, o.failure)
	case pass:
		return fmt.Errorf("the defect %s is not caught: %s passes with it\n%s", d.Name, d.Guard, d.Harm)
	case absent:
	}
	return fmt.Errorf("the defect %s is not caught: %s does not run\n%s", d.Name, d.Guard, o.output)
}

// passed returns nil if all guards passed.
func (o outcome) passed(guards []Guard) (err error) {
	for _, g := range guards {
		if got := o.state(g.Test); got != pass {
			err = errors.Join(err, fmt.Errorf("%s without any defect: want pass, got %s", g, got))
		}
	}
	if err != nil {
		return fmt.Errorf("%w\n%s%s", err, o.failure, o.output)
	}
	return nil
}

// overlay writes the planted files and a file for -overlay that lists them. It returns the path of the file for
// -overlay.
func (t Tree) overlay(dir string, planted map[string]string) (string, error) {
	var o struct{ Replace map[string]string }
	o.Replace = map[string]string{}
	for file, text := range planted {
		to := filepath.Join(dir, fmt.Sprintf("%d.go", len(o.Replace)))
		if err := os.WriteFile(to, []byte(text), 0o600); err != nil {
			return "", err
		}
		o.Replace[filepath.Join(t.Root, filepath.FromSlash(file))] = to
	}
	list, err := json.Marshal(o)
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "overlay.json")
	return path, os.WriteFile(path, list, 0o600)
}

// state is how a test ended.
type state string

const (
	pass   state = "pass"
	fail   state = "fail"
	absent state = "absent" // the test was not run, or was skipped
	broken state = "broken" // the test's process could not be built, or crashed
)

// outcome is the result of a run of tests.
type outcome struct {
	tests   map[string]state
	failure string        // why the run is broken, or "" if it is not
	output  string        // everything that the tests printed
	cpuTime time.Duration // processor time, including child processes
}

// state returns how a test ended. It returns broken for every test of a broken run.
func (o outcome) state(test string) state {
	if o.failure != "" {
		return broken
	}
	if s, ok := o.tests[strings.ReplaceAll(test, " ", "_")]; ok {
		return s
	}
	return absent
}

// pattern returns the argument of -test.run for a test or a subtest. Join several patterns with "|".
func pattern(test string) string {
	levels := strings.Split(test, "/")
	for i := range levels {
		levels[i] = "^(" + regexp.QuoteMeta(levels[i]) + ")$"
	}
	return strings.Join(levels, "/")
}

// read returns the outcome of a run from the output of test2json, without the processor time.
func read(out []byte) outcome {
	o := outcome{tests: map[string]state{}}
	var failure, build, output strings.Builder
	crashed := false
	for line := range bytes.Lines(out) {
		var e struct{ Action, Test, Output string }
		if json.Unmarshal(line, &e) != nil {
			output.Write(line)
			continue
		}
		switch e.Action {
		case "build-output":
			build.WriteString(e.Output)
		case "build-fail":
			failure.WriteString(build.String())
			build.Reset()
		case "output":
			// The log of a test is indented, so these lines come from the runtime of a process that has crashed.
			crashed = crashed || strings.HasPrefix(e.Output, "panic: ") || strings.HasPrefix(e.Output, "fatal error: ")
			if crashed {
				failure.WriteString(e.Output)
			}
			output.WriteString(e.Output)
		case "pass", "fail":
			if e.Test != "" {
				o.tests[e.Test] = state(e.Action)
			}
		}
	}
	o.failure, o.output = failure.String(), output.String()
	return o
}

// runCommand runs a command that prints the output of test2json, and returns the outcome.
func runCommand(ctx context.Context, command *exec.Cmd) (outcome, error) {
	command.WaitDelay = 10 * time.Second
	var out, stderr bytes.Buffer
	command.Stdout, command.Stderr = &out, &stderr
	err := command.Run()
	if _, exited := errors.AsType[*exec.ExitError](err); err != nil && (!exited || ctx.Err() != nil) {
		return outcome{}, errors.Join(err, ctx.Err())
	}
	o := read(out.Bytes())
	o.cpuTime = command.ProcessState.UserTime() + command.ProcessState.SystemTime()
	if len(o.tests) == 0 && o.failure == "" && err != nil {
		return outcome{cpuTime: o.cpuTime}, fmt.Errorf("%w\n%s%s", err, stderr.String(), o.output)
	}
	return o, nil
}
