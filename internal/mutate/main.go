// Command mutate measures how many faults the tests of packages detect: gremlins changes one condition or arithmetic
// expression at a time. A change has "lived" if no test of the package fails. `make mutate` runs the command. It prints
// a table, and fails if a package does not reach its threshold.
//
// It is not part of `make check`, because each of several hundred changes needs a run of a package's tests. Package
// planted is its counterpart: people chose the defects of package planted, and all of them have to be caught.
//
// The command does not use the thresholds of gremlins, for two reasons. gremlins copies the whole module for each
// package, including installed tools and node_modules. It also stops at the first package that misses a threshold. This
// command copies only the files that git tracks or would add, and only once. Read this file first, then switches.go.
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

	"github.com/gatewright/gatewright/internal/devmain"
)

func main() {
	devmain.Main(context.Background(), "mutate", func(ctx context.Context) error { return run(ctx, os.Stdout) })
}

// threshold has the minimum share of killed changes and the maximum share of uncovered changes of a package, in percent.
type threshold struct{ minKilled, maxUncovered float64 }

func run(ctx context.Context, out io.Writer) error {
	tool := flag.String("gremlins", ".bin/gremlins", "the path of the tool gremlins")
	verbose := flag.Bool("v", false, "show the output of gremlins, which names each change")
	minKilled := flag.Float64("killed", 95, "the minimum percentage of changes in covered code for which a test fails")
	maxUncovered := flag.Float64("uncovered", 3, "the maximum percentage of changes in code that no test runs")
	flag.Parse()
	if flag.NArg() == 0 {
		return errors.New("name the packages, such as ./shared/core/seal")
	}
	gremlins, err := filepath.Abs(*tool)
	if err != nil {
		return fmt.Errorf("find gremlins: %w", err)
	}
	moduleCopy, err := os.MkdirTemp("", "mutate-")
	if err != nil {
		return fmt.Errorf("create a folder for a copy of the module: %w", err)
	}
	defer func() { _ = os.RemoveAll(moduleCopy) }()
	if err := copyModule(ctx, moduleCopy); err != nil {
		return err
	}
	_, _ = fmt.Fprintln(out, "| package | killed | lived | timed out | not covered | killed of the covered | not "+
		"covered of all |")
	_, _ = fmt.Fprintln(out, "|---|--:|--:|--:|--:|--:|--:|")
	var failures []error
	for _, pkg := range flag.Args() {
		s, text, err := measure(ctx, gremlins, moduleCopy, pkg)
		if *verbose || err != nil {
			_, _ = os.Stderr.Write(text)
		}
		if err != nil {
			return err
		}
		_, _ = fmt.Fprintln(out, s.line(pkg))
		if err := s.check(pkg, threshold{*minKilled, *maxUncovered}); err != nil {
			// Print the changes that no test has caught: people have to examine them.
			for line := range strings.Lines(string(text)) {
				if !*verbose && (strings.Contains(line, " LIVED ") || strings.Contains(line, " NOT COVERED ")) {
					fmt.Fprint(os.Stderr, pkg, " ", strings.TrimLeft(line, " "))
				}
			}
			failures = append(failures, err)
		}
	}
	return errors.Join(failures...)
}

// copyModule copies the files of the checkout that git tracks, and the new files that git does not ignore.
func copyModule(ctx context.Context, to string) error {
	list, err := exec.CommandContext(ctx, "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard",
		"--deduplicate").Output()
	if err != nil {
		return fmt.Errorf("list the module's files: %w", err)
	}
	for name := range strings.SplitSeq(strings.TrimRight(string(list), "\x00"), "\x00") {
		content, err := os.ReadFile(name) //nolint:gosec // the repository's own files, from git
		if errors.Is(err, os.ErrNotExist) {
			continue // deleted, but not committed yet
		}
		if err != nil {
			return fmt.Errorf("copy the module: %w", err)
		}
		at := filepath.Join(to, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
			return fmt.Errorf("copy the module: %w", err)
		}
		if err := os.WriteFile(at, content, 0o600); err != nil { //nolint:gosec // in the folder of the copy
			return fmt.Errorf("copy the module: %w", err)
		}
	}
	return nil
}

// score is the number of a package's changes with each result.
type score struct{ killed, lived, timedOut, uncovered int }

// measure rewrites the switches of a package in the copy of the module, and runs gremlins on the package. It returns
// the package's score and the output of gremlins. It tests one change at a time: two at a time would take half as long,
// but on a busy machine they would exceed the time limit. The time limit is five times the duration of the package's
// tests; a change that makes a loop endless takes that long.
func measure(ctx context.Context, tool, module, pkg string) (s score, text []byte, err error) {
	folder := filepath.Join(module, pkg)
	if err := rewriteSwitches(folder); err != nil {
		return score{}, nil, err
	}
	declarationLines, err := declarations(folder)
	if err != nil {
		return score{}, nil, err
	}
	report := filepath.Join(module, "mutate.json")
	//nolint:gosec // the tool and the package come from the command line
	cmd := exec.CommandContext(ctx, tool, "unleash", pkg, "--workers=1", "--timeout-coefficient=5", "--output="+report)
	cmd.Dir = module
	if text, err = cmd.CombinedOutput(); err != nil {
		return score{}, text, fmt.Errorf("mutate %s: %w", pkg, err)
	}
	content, err := os.ReadFile(report) //nolint:gosec // written just now
	if err != nil {
		return score{}, text, fmt.Errorf("mutate %s: %w", pkg, err)
	}
	if s, err = parseReport(content, declarationLines); err != nil {
		return score{}, text, fmt.Errorf("mutate %s: %w", pkg, err)
	}
	return s, text, os.Remove(report)
}

// parseReport counts the changes that gremlins reports. It leaves out uncovered changes on declarationLines, because
// coverage has no statements there. It also leaves out test helper packages in subfolders, such as upstreamtest.
func parseReport(report []byte, declarationLines map[string]bool) (s score, err error) {
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
	counts := map[string]*int{
		"KILLED": &s.killed, "LIVED": &s.lived, "TIMED OUT": &s.timedOut,
		"NOT COVERED": &s.uncovered,
	}
	for _, file := range r.Files {
		if strings.HasSuffix(path.Dir(file.Name), "test") {
			continue
		}
		for _, m := range file.Mutations {
			if m.Status == "NOT COVERED" && declarationLines[fmt.Sprint(file.Name, ":", m.Line)] {
				continue
			}
			if n := counts[m.Status]; n != nil {
				*n++
			} else if !slices.Contains([]string{"NOT VIABLE", "SKIPPED", "RUNNABLE"}, m.Status) {
				return score{}, fmt.Errorf("read the report: %q is an unknown status", m.Status)
			}
		}
	}
	return s, nil
}

// percent returns part as a percentage of all, or 0 if all is 0.
func percent(part, all int) float64 { return 100 * float64(part) / float64(cmp.Or(all, 1)) }

// killedOfCovered returns the share of killed changes among the covered ones, in percent. It leaves out changes that
// exceeded the time limit: the cause can be an endless loop or a busy machine.
func (s score) killedOfCovered() float64 { return percent(s.killed, s.killed+s.lived) }

// uncoveredOfAll returns the share of changes in code that no test runs, in percent. Changes that exceeded the time
// limit count as covered.
func (s score) uncoveredOfAll() float64 {
	return percent(s.uncovered, s.killed+s.lived+s.timedOut+s.uncovered)
}

// line returns the package's line of the table.
func (s score) line(pkg string) string {
	return fmt.Sprintf("| `%s` | %d | %d | %d | %d | %.1f %% | %.1f %% |",
		strings.TrimPrefix(pkg, "./"), s.killed, s.lived, s.timedOut, s.uncovered, s.killedOfCovered(), s.uncoveredOfAll())
}

// check returns an error if the score misses a threshold, or if no change was killed.
func (s score) check(pkg string, limits threshold) error {
	if s.killed > 0 && s.killedOfCovered() >= limits.minKilled && s.uncoveredOfAll() <= limits.maxUncovered {
		return nil
	}
	return fmt.Errorf("%s misses a threshold: %.1f %% killed (at least %g %%), %.1f %% not covered (at most %g %%)",
		pkg, s.killedOfCovered(), limits.minKilled, s.uncoveredOfAll(), limits.maxUncovered)
}
