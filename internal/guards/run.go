package guards

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Tree is a module whose guards are run.
type Tree struct {
	// Root is its folder, absolute.
	Root string
	// Timeout is how long the tests of one run may take; compiling is not
	// counted.
	Timeout time.Duration
}

// Check plants a defect and runs its guard. It answers nil when the guard fails,
// and otherwise an error that says what happened instead. A defect that does not
// compile, or that ends the guard's process, is not caught: nothing was
// asserted.
func (t Tree) Check(ctx context.Context, d Defect) error {
	planted, err := d.Plant(os.DirFS(t.Root))
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "guards-")
	if err != nil {
		return fmt.Errorf("plant %s: %w", d.Name, err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	overlay, err := t.overlay(dir, planted)
	if err != nil {
		return fmt.Errorf("plant %s: %w", d.Name, err)
	}
	o, err := t.run(ctx, d.Guard.Package, d.Guard.Test, "-overlay="+overlay, "-failfast")
	if err != nil {
		return fmt.Errorf("run the guard of %s: %w", d.Name, err)
	}
	return o.verdict(d)
}

// verdict is nil when the guard of a defect failed with it.
func (o outcome) verdict(d Defect) error {
	switch o.of(d.Guard.Test) {
	case fail:
		return nil
	case broken:
		return fmt.Errorf("the defect %s is not caught, it keeps its guard from running: change the defect\n%s", d.Name, o.why)
	case pass:
		return fmt.Errorf("the defect %s is not caught: %s passes with it\n%s", d.Name, d.Guard, d.Harm)
	case absent:
	}
	return fmt.Errorf("the defect %s is not caught: %s does not run\n%s", d.Name, d.Guard, o.output)
}

// CheckUnplanted runs guards of one package on the tree as it is. It answers an
// error unless all of them pass.
func (t Tree) CheckUnplanted(ctx context.Context, guards []Guard) error {
	names, err := topLevel(guards)
	if err != nil {
		return err
	}
	o, err := t.run(ctx, guards[0].Package, names)
	if err != nil {
		return fmt.Errorf("run the guards of %s: %w", guards[0].Package, err)
	}
	return o.passed(guards)
}

// topLevel gives the tests that guards of one package are, or are of, as run
// takes them.
func topLevel(guards []Guard) (names string, err error) {
	var tops []string
	for _, g := range guards {
		top, _, _ := strings.Cut(g.Test, "/")
		if g.Package != guards[0].Package {
			return "", fmt.Errorf("%s and %s are of two packages", guards[0], g)
		}
		if !slices.Contains(tops, top) {
			tops = append(tops, top)
		}
	}
	return strings.Join(tops, "|"), nil
}

// passed is nil when all guards passed.
func (o outcome) passed(guards []Guard) (err error) {
	for _, g := range guards {
		if is := o.of(g.Test); is != pass {
			err = errors.Join(err, fmt.Errorf("%s without any defect: want pass, got %s", g, is))
		}
	}
	if err != nil {
		return fmt.Errorf("%w\n%s%s", err, o.why, o.output)
	}
	return nil
}

// overlay writes the planted files and tells the go command of them.
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
	absent state = "absent" // it was not run, or skipped
	broken state = "broken" // its process could not be made, or died
)

// outcome is what a run of tests has shown.
type outcome struct {
	tests  map[string]state
	why    string // it is broken, "" otherwise
	output string // of tests that did not pass
}

func (o outcome) of(test string) state {
	if o.why != "" {
		return broken
	}
	if s, ok := o.tests[strings.ReplaceAll(test, " ", "_")]; ok {
		return s
	}
	return absent
}

// pattern is what -run takes for tests of a package; names are alternatives
// between "|", a subtest's stand behind "/".
func pattern(names string) string {
	var levels []string
	for level := range strings.SplitSeq(names, "/") {
		all := strings.Split(level, "|")
		for i := range all {
			all[i] = regexp.QuoteMeta(all[i])
		}
		levels = append(levels, "^("+strings.Join(all, "|")+")$")
	}
	return strings.Join(levels, "/")
}

// run compiles the tests of a package and runs those that pattern describes.
func (t Tree) run(ctx context.Context, pkg, names string, flags ...string) (outcome, error) {
	// What a vet analysis says of a defect is no guard's verdict, and a result
	// from the cache may be of another run.
	args := append([]string{
		"test", "-json", "-vet=off", "-count=1", "-timeout=" + t.Timeout.String(), "-run=" + pattern(names),
	}, flags...)
	quiet, err := t.quiet(pkg)
	if err != nil {
		return outcome{}, err
	}
	args = append(append(args, pkg), quiet...)
	command := exec.CommandContext(ctx, "go", args...) //nolint:gosec // G204: the list of defects is ours
	command.Dir = t.Root
	return output(ctx, command)
}

// quiet gives the flags that keep a package's tests from writing into the tree:
// rapid leaves the input of a failure below testdata, and tries it first in
// every later run.
func (t Tree) quiet(pkg string) ([]string, error) {
	tests, err := filepath.Glob(filepath.Join(t.Root, filepath.FromSlash(pkg), "*_test.go"))
	if err != nil {
		return nil, fmt.Errorf("list the tests of %s: %w", pkg, err)
	}
	for _, file := range tests {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			return nil, fmt.Errorf("read the imports of tests: %w", err)
		}
		for _, i := range parsed.Imports {
			if i.Path.Value == `"pgregory.net/rapid"` {
				return []string{"-args", "-rapid.nofailfile"}, nil
			}
		}
	}
	return nil, nil
}

// read reads what `go test -json` prints.
func read(out []byte) outcome {
	o := outcome{tests: map[string]state{}}
	var why, build, output strings.Builder
	died := false
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
			why.WriteString(build.String())
			build.Reset()
		case "output":
			// What a test logs is indented: a line that begins like this is
			// the runtime's last.
			died = died || strings.HasPrefix(e.Output, "panic: ") || strings.HasPrefix(e.Output, "fatal error: ")
			if died {
				why.WriteString(e.Output)
			}
			output.WriteString(e.Output)
		case "pass", "fail":
			if e.Test != "" {
				o.tests[e.Test] = state(e.Action)
			}
		}
	}
	o.why, o.output = why.String(), output.String()
	return o
}
