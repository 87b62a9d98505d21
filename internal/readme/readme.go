// Package readme reads the commands of a Markdown document and runs them, so
// that what a newcomer is told to type is what a test has typed.
//
// The convention: under one heading, each fenced block marked sh is a step; all
// steps run in the order of the document in one bash with -euo pipefail, so
// that variables and functions live on. A block marked text right after a step
// is what it prints, where … stands for anything within a line and a line of …
// alone for any lines. A step without one may print what it likes.
//
// It is not a Markdown parser and no shell: it knows fences and headings. What
// differs between machines (addresses, folders) is replaced by the caller.
//
// Why the text itself is run: a scenario in Go that does the same tests the
// product, and the text drifts away from it. Why bash and not testscript: its
// commands have no pipes, functions or loops, and nobody could copy them. The
// commands read JSON with node, which the local run needs anyway: jq is on few
// machines. They use no option of curl younger than 7.76 (--json is 7.82).
package readme

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
)

// Step is one block of commands.
type Step struct {
	// Line of the document on which the commands begin.
	Line     int
	Commands string
	// Want is what the step prints, "" for anything.
	Want string
}

// Page returns the steps below a heading of a file, as Steps does, with what differs here put in what they type and print by
// here, nil for nothing.
func Page(path, heading string, here *strings.Replacer) ([]Step, error) {
	text, err := os.ReadFile(path) //nolint:gosec // G304: a document of the repository
	if err != nil {
		return nil, err
	}
	steps, err := Steps(string(text), heading)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	for i := range steps {
		if here != nil {
			steps[i].Commands = here.Replace(steps[i].Commands)
			steps[i].Want = here.Replace(steps[i].Want)
		}
	}
	return steps, nil
}

// Steps returns the steps below a heading, up to the next one of its level or
// above. It fails for a document without that heading or without steps in it.
func Steps(document, heading string) ([]Step, error) {
	var (
		steps   []Step
		inside  bool
		level   int
		afterSh bool // the last thing other than blank lines was a step
	)
	lines := strings.Split(document, "\n")
	for i := 0; i < len(lines); i++ {
		line := lines[i]
		if language, fenced := strings.CutPrefix(line, "```"); fenced {
			end := i + 1
			for end < len(lines) && lines[end] != "```" {
				end++
			}
			if end == len(lines) {
				return nil, fmt.Errorf("line %d: the block has no end", i+1)
			}
			text := strings.Join(lines[i+1:end], "\n")
			switch {
			case !inside:
			case language == "sh":
				steps = append(steps, Step{Line: i + 2, Commands: text})
			case language == "text" && afterSh:
				steps[len(steps)-1].Want = text
			}
			afterSh = inside && language == "sh"
			i = end
			continue
		}
		if hashes := len(line) - len(strings.TrimLeft(line, "#")); hashes > 0 && strings.HasPrefix(line[hashes:], " ") {
			switch {
			case !inside && strings.TrimSpace(line[hashes:]) == heading:
				inside, level = true, hashes
			case inside && hashes <= level:
				inside = false
			}
		}
		if strings.TrimSpace(line) != "" {
			afterSh = false
		}
	}
	if len(steps) == 0 {
		return nil, fmt.Errorf("no steps under the heading %q", heading)
	}
	return steps, nil
}

// matches reports whether a step's output is the one that was promised.
// Spaces at the ends of lines and blank lines at the ends do not count.
func matches(want, got string) bool {
	var pattern strings.Builder
	pattern.WriteString(`^`)
	for i, line := range strings.Split(trim(want), "\n") {
		if strings.TrimSpace(line) == "…" {
			pattern.WriteString(`(?:.*(?:\n|$))*?`)
			continue
		}
		if i > 0 && !strings.HasSuffix(pattern.String(), `*?`) {
			pattern.WriteString(`\n`)
		}
		parts := strings.Split(line, "…")
		for j := range parts {
			parts[j] = regexp.QuoteMeta(parts[j])
		}
		pattern.WriteString(strings.Join(parts, `.*`))
	}
	pattern.WriteString(`\n?$`)
	matched, err := regexp.MatchString(pattern.String(), trim(got))
	return err == nil && matched
}

func trim(text string) string {
	lines := strings.Split(strings.Trim(text, "\n"), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " \t\r")
	}
	return strings.Join(lines, "\n")
}

// boundary is printed between steps; no command prints a record separator.
const boundary = "\x1e"

// Run runs the steps in one bash in a folder, with an environment of its own
// or, for nil, this process's. It answers what each step printed, the steps
// that began alone, and an error for the first that failed or whose output is
// not the one promised.
func Run(ctx context.Context, dir string, env []string, steps []Step) ([]string, error) {
	var script strings.Builder
	script.WriteString("trap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n")
	for _, s := range steps {
		fmt.Fprintf(&script, "printf '%s'\n%s\n", boundary, s.Commands)
	}
	cmd := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", script.String()) //nolint:gosec // running what the document says is the purpose
	cmd.Dir, cmd.Env = dir, env
	// A cancelled context ends what the shell has started, too.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	_, printed, _ := strings.Cut(stdout.String(), boundary)
	outputs := strings.Split(printed, boundary)
	for i, out := range outputs[:min(len(outputs), len(steps))] {
		last := i == len(outputs)-1
		if steps[i].Want != "" && (!last || err == nil) && !matches(steps[i].Want, out) {
			return outputs, fmt.Errorf("line %d: printed\n%swant\n%s\nstderr: %s", steps[i].Line, out, steps[i].Want, stderr.Bytes())
		}
	}
	if err != nil {
		at := steps[min(len(outputs), len(steps))-1]
		return outputs, fmt.Errorf("line %d: %w: it printed\n%s\nstderr: %s", at.Line, err, outputs[len(outputs)-1], stderr.Bytes())
	}
	return outputs, nil
}
