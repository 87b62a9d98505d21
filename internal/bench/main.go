// Command bench measures the product and writes docs/performance.md; `make bench` runs it.
//
//	go run ./internal/bench -list
//	go run ./internal/bench -only 'A request through a tunnel' -set rounds=3 -out -
//
// The page has a section for each scenario, which is written as soon as it is measured. If a figure is over its limit, the run fails and
// the section says so, but all other scenarios still run. Sections that are not measured stay as they are.
//
// A scenario measures separate processes: package fixture starts them, and package load sends them requests. Processes
// that are compared are measured in turns, so that a busy machine slows all of them. The page shows the median of the
// rounds.
//
// Read main.go, then table.go for the list of scenarios and report.go for the arguments and the results of a scenario.
// The other files contain families of scenarios, and the code that several of them use.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/gatewright/gatewright/internal/bench/fixture"
	"github.com/gatewright/gatewright/internal/devmain"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == childCommand {
		devmain.Main(context.Background(), "bench", func(ctx context.Context) error { return runRole(ctx, os.Args[2:]) })
		return
	}
	out := flag.String("out", "docs/performance.md", "the page to write, or - to only print the figures")
	only := flag.String("only", "", "measure only the scenarios whose title contains this text")
	list := flag.Bool("list", false, "list the scenarios with their options, and measure nothing")
	changes := values{}
	flag.Var(changes, "set", "change an option of the measured scenarios: NAME=VALUE; may be repeated")
	flag.Parse()
	all := scenarios()
	if *list {
		for _, s := range all {
			fmt.Printf("%s\n\t%s\n", s.title, s.options)
		}
		return
	}
	devmain.Main(context.Background(), "bench", func(ctx context.Context) error {
		return devmain.InFolder("bench", func(dir string) error {
			return write(ctx, dir, *out, selectScenarios(all, *only), all, changes)
		})
	})
}

// selectScenarios returns the scenario whose title is equal to the given text. If there is no such scenario, it returns
// the scenarios whose titles contain the given text, without those that are only measured on demand.
func selectScenarios(all []scenario, text string) (selected []scenario) {
	for _, s := range all {
		if s.title == text {
			return []scenario{s}
		}
		if strings.Contains(s.title, text) && !s.onDemand {
			selected = append(selected, s)
		}
	}
	return selected
}

// heading is the beginning of each section of the page, before its title.
const heading = "\n## "

// write measures the selected scenarios. After each, it writes the page with the sections of all scenarios.
func write(ctx context.Context, dir, out string, selected, all []scenario, changes values) error {
	if len(selected) == 0 {
		return errors.New("no scenario has this text in its title: -list lists the titles")
	}
	if err := checkOptions(selected, changes); err != nil {
		return err
	}
	sections := map[string]string{}
	if out != "-" {
		page, err := os.ReadFile(out) //nolint:gosec // G304: the user of the command chose the file
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("read the page: %w", err)
		}
		sections = split(string(page))
	}
	var failed []error
	for _, s := range all {
		if !slices.ContainsFunc(selected, func(o scenario) bool { return o.title == s.title }) {
			continue
		}
		section, err := s.section(ctx, dir, changes)
		if ctx.Err() != nil {
			return errors.Join(append(failed, context.Cause(ctx))...)
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", strings.ToLower(s.title), err))
		}
		fmt.Print(section)
		sections[s.title] = section
		// Scenarios take minutes or hours, so the results are written before the next scenario begins.
		if out != "-" {
			if err := replace(out, composePage(all, sections)); err != nil {
				return errors.Join(append(failed, err)...)
			}
		}
	}
	return errors.Join(failed...)
}

// composePage returns the page with the sections in the order of all. A scenario without a section is left out.
func composePage(all []scenario, sections map[string]string) string {
	text := fmt.Sprintf("# Performance\n\nWritten by `make bench` on a machine of %d cores (%s/%s) with %s. Times and "+
		"CPU are\nthis machine's on that day; ratios and counts are the product's.\n",
		runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, runtime.Version())
	for _, s := range all {
		text += sections[s.title]
	}
	return text
}

// replace writes the complete page or nothing, because the sections that are not measured again exist only in that file.
func replace(name, text string) error {
	temporary, err := os.CreateTemp(filepath.Dir(name), ".unfinished-*")
	if err != nil {
		return fmt.Errorf("write the page: %w", err)
	}
	defer func() { _ = os.Remove(temporary.Name()) }() // after a success, the file has been renamed and no longer exists
	_, err = temporary.WriteString(text)
	if err := errors.Join(err, temporary.Chmod(0o644), temporary.Close()); err != nil {
		return fmt.Errorf("write the page: %w", err)
	}
	if err := os.Rename(temporary.Name(), name); err != nil {
		return fmt.Errorf("write the page: %w", err)
	}
	return nil
}

// split returns the sections of a page by title.
func split(page string) map[string]string {
	sections := map[string]string{}
	for _, text := range strings.Split(page, heading)[1:] {
		title, _, _ := strings.Cut(text, "\n")
		sections[title] = heading + text
	}
	return sections
}

// section measures a scenario and returns its section of the page. If the scenario fails, it returns the section and the error.
func (s scenario) section(ctx context.Context, dir string, changes values) (string, error) {
	fmt.Fprintf(os.Stderr, "bench: %s\n", strings.ToLower(s.title))
	text := heading + s.title + "\n\n" + s.text
	if s.options != golden {
		text += fmt.Sprintf("\nAlone: `go run ./internal/bench -only '%s'`, here started with %s.", s.title, cpuLoad())
	}
	folder, err := os.MkdirTemp(dir, "")
	if err != nil {
		return text, fmt.Errorf("create a folder: %w", err)
	}
	m := &measurement{Env: &fixture.Env{Dir: folder, Binaries: filepath.Join(dir, "bin")}, settings: s.settings(changes)}
	err = m.measure(ctx, s)
	err = errors.Join(err, m.Err(), os.RemoveAll(folder))
	text += "\n\n" + strings.TrimSpace(m.String()) + "\n"
	if err != nil {
		text += "\n**A figure is over its limit, or the section is not complete.**\n"
	}
	return text, err
}

// measure runs a scenario and ends everything that it has started, also if it panics.
func (m *measurement) measure(ctx context.Context, s scenario) error {
	defer m.Close()
	return s.run(ctx, m)
}

// cpuLoad returns the load average of the last minute as a text, because a busy machine makes the figures worse.
func cpuLoad() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "an unknown load average"
	}
	oneMinute, _, _ := bytes.Cut(text, []byte(" "))
	return "a load average of " + string(oneMinute)
}
