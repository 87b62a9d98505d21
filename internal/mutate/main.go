// Command mutate measures how much the tests of packages notice: gremlins changes
// one condition or sum after the other, and a change that no test of the package
// fails for has "lived". `make mutate` runs it; it prints a table and fails when
// a package is below the bar.
//
// It is no part of `make check`, since each of some hundred changes takes a run
// of a package's tests. Package guards is its counterpart: defects that people
// chose, all of which have to be caught.
//
// Why a program and not gremlins' own thresholds: it copies the whole module for
// each package, installed tools and node_modules included, and stops at the
// first package below them. Here it is given what git knows, once. Read this file,
// then switches.go.
package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gatewright/gatewright/internal/program"
)

func main() {
	program.Main(context.Background(), "mutate", func(ctx context.Context) error { return run(ctx, os.Stdout) })
}

// bar is what a package has to reach, in percent.
type bar struct{ killed, uncovered float64 }

func run(ctx context.Context, out io.Writer) error {
	tool := flag.String("gremlins", ".bin/gremlins", "the tool")
	verbose := flag.Bool("v", false, "show the tool's own lines, which name each change")
	least := flag.Float64("killed", 95, "the least percentage of changes in covered code that a test has to fail for")
	most := flag.Float64("uncovered", 3, "the highest percentage of changes in code that no test runs")
	flag.Parse()
	if flag.NArg() == 0 {
		return errors.New("name the packages, such as ./shared/seal")
	}
	gremlins, err := filepath.Abs(*tool)
	if err != nil {
		return fmt.Errorf("find gremlins: %w", err)
	}
	copied, err := os.MkdirTemp("", "mutate-")
	if err != nil {
		return fmt.Errorf("make a copy: %w", err)
	}
	defer func() { _ = os.RemoveAll(copied) }()
	if err := copyModule(ctx, copied); err != nil {
		return err
	}
	_, _ = fmt.Fprintln(out, "| package | killed | lived | timed out | not covered | killed of the covered | not covered of all |")
	_, _ = fmt.Fprintln(out, "|---|--:|--:|--:|--:|--:|--:|")
	var below []error
	for _, pkg := range flag.Args() {
		s, text, err := measure(ctx, gremlins, copied, pkg)
		if *verbose || err != nil {
			_, _ = os.Stderr.Write(text)
		}
		if err != nil {
			return err
		}
		_, _ = fmt.Fprintln(out, s.line(pkg))
		if err := s.check(pkg, bar{*least, *most}); err != nil {
			// What lived is what has to be looked at.
			for line := range strings.Lines(string(text)) {
				if !*verbose && (strings.Contains(line, " LIVED ") || strings.Contains(line, " NOT COVERED ")) {
					fmt.Fprint(os.Stderr, pkg, " ", strings.TrimLeft(line, " "))
				}
			}
			below = append(below, err)
		}
	}
	return errors.Join(below...)
}

// copyModule copies what git knows or would take, as it is in the checkout.
func copyModule(ctx context.Context, to string) error {
	list, err := exec.CommandContext(ctx, "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--deduplicate").Output()
	if err != nil {
		return fmt.Errorf("list the module's files: %w", err)
	}
	for name := range strings.SplitSeq(strings.TrimRight(string(list), "\x00"), "\x00") {
		content, err := os.ReadFile(name) //nolint:gosec // git names the repository's own files
		if errors.Is(err, os.ErrNotExist) {
			continue // deleted, and not yet committed
		}
		if err != nil {
			return fmt.Errorf("copy the module: %w", err)
		}
		at := filepath.Join(to, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
			return fmt.Errorf("copy the module: %w", err)
		}
		if err := os.WriteFile(at, content, 0o600); err != nil { //nolint:gosec // below a folder of its own
			return fmt.Errorf("copy the module: %w", err)
		}
	}
	return nil
}

// score counts a package's changes by what became of them.
type score struct{ killed, lived, timedOut, uncovered int }

// measure runs gremlins on a package. One change at a time: two would halve the
// time and let a busy machine make time-outs of them. A change that makes a loop
// endless costs five times what the package's tests take.
func measure(ctx context.Context, tool, module, pkg string) (s score, text []byte, err error) {
	folder := filepath.Join(module, pkg)
	if err := rewriteSwitches(folder); err != nil {
		return score{}, nil, err
	}
	outside, err := declarations(folder)
	if err != nil {
		return score{}, nil, err
	}
	report := filepath.Join(module, "mutate.json")
	//nolint:gosec // both are named by whoever runs this
	cmd := exec.CommandContext(ctx, tool, "unleash", pkg, "--workers=1", "--timeout-coefficient=5", "--output="+report)
	cmd.Dir = module
	if text, err = cmd.CombinedOutput(); err != nil {
		return score{}, text, fmt.Errorf("mutate %s: %w", pkg, err)
	}
	content, err := os.ReadFile(report) //nolint:gosec // written just now
	if err != nil {
		return score{}, text, fmt.Errorf("mutate %s: %w", pkg, err)
	}
	if s, err = read(content, outside); err != nil {
		return score{}, text, fmt.Errorf("mutate %s: %w", pkg, err)
	}
	return s, text, os.Remove(report)
}

// read counts what gremlins reports, but for changes outside functions, which
// nothing can cover, and in packages below that only tests use (upstreamtest).
func read(report []byte, outside map[string]bool) (s score, err error) {
	var r struct {
		Files []struct {
			Name      string `json:"file_name"`
			Mutations []struct {
				Status string
				Line   int
			}
		}
	}
	if err := json.NewDecoder(bytes.NewReader(report)).Decode(&r); err != nil {
		return score{}, fmt.Errorf("read the report: %w", err)
	}
	counts := map[string]*int{"KILLED": &s.killed, "LIVED": &s.lived, "TIMED OUT": &s.timedOut, "NOT COVERED": &s.uncovered}
	for _, file := range r.Files {
		if strings.HasSuffix(path.Dir(file.Name), "test") {
			continue
		}
		for _, m := range file.Mutations {
			if m.Status == "NOT COVERED" && outside[fmt.Sprint(file.Name, ":", m.Line)] {
				continue
			}
			if n := counts[m.Status]; n != nil {
				*n++
			} else if !slices.Contains([]string{"NOT VIABLE", "SKIPPED", "RUNNABLE"}, m.Status) {
				return score{}, fmt.Errorf("read the report: %q is no known outcome", m.Status)
			}
		}
	}
	return s, nil
}

// percent is 0 of nothing.
func percent(part, all int) float64 { return 100 * float64(part) / float64(cmp.Or(all, 1)) }

// killedOfCovered and uncoveredOfAll leave out what ran into its time limit,
// which may be an endless loop or a busy machine.
func (s score) killedOfCovered() float64 { return percent(s.killed, s.killed+s.lived) }

func (s score) uncoveredOfAll() float64 {
	return percent(s.uncovered, s.killed+s.lived+s.timedOut+s.uncovered)
}

func (s score) line(pkg string) string {
	return fmt.Sprintf("| `%s` | %d | %d | %d | %d | %.1f %% | %.1f %% |",
		strings.TrimPrefix(pkg, "./"), s.killed, s.lived, s.timedOut, s.uncovered, s.killedOfCovered(), s.uncoveredOfAll())
}

func (s score) check(pkg string, b bar) error {
	if s.killed > 0 && s.killedOfCovered() >= b.killed && s.uncoveredOfAll() <= b.uncovered {
		return nil
	}
	return fmt.Errorf("%s is below the bar: %.1f %% killed (at least %g %%), %.1f %% not covered (at most %g %%)",
		pkg, s.killedOfCovered(), b.killed, s.uncoveredOfAll(), b.uncovered)
}
