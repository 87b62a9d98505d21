// Package readme reads the commands of a Markdown document and runs them, so that tests run the commands that newcomers
// type.
//
// The convention: under one heading, each fenced block marked sh is a step. All steps run in the order of the document
// in one bash with -euo pipefail, so that variables and functions persist. A block marked text directly after a step is
// the step's expected output, where … matches anything within a line and a line with only … matches any number of
// lines. A step without such a block can print anything.
//
// It is not a Markdown parser or a shell: it knows only fences and headings.
// The caller replaces texts that differ between machines (addresses, folders).
//
// Why it runs the document's own commands: a test in Go that does the same would test the product, but the document
// would diverge from the test. Why bash and not testscript: testscript has no pipes, functions or loops, and users
// could not copy its commands. The commands read JSON with node, which the local run needs anyway, while few machines
// have jq. They use no option of curl newer than 7.76 (--json is 7.82).
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
	// Line is the number of the line at which the commands begin.
	Line     int
	Commands string
	// Want is the expected output of the step. If it is "", any output is accepted.
	Want string
}

// ReadSteps returns the steps below a heading of a file, like Steps. replacer replaces texts in the commands and in the
// expected output. It can be nil.
func ReadSteps(path, heading string, replacer *strings.Replacer) ([]Step, error) {
	text, err := os.ReadFile(path) //nolint:gosec // G304: a document of the repository
	if err != nil {
		return nil, err
	}
	steps, err := Steps(string(text), heading)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	for i := range steps {
		if replacer != nil {
			steps[i].Commands = replacer.Replace(steps[i].Commands)
			steps[i].Want = replacer.Replace(steps[i].Want)
		}
	}
	return steps, nil
}

// Steps returns the steps below a heading, up to the next heading of the same or a higher level. It fails if the
// document does not have the heading, if there are no steps below it, or if a block of the document has no end.
func Steps(document, heading string) ([]Step, error) {
	var (
		steps   []Step
		inside  bool
		level   int
		afterSh bool // the last block was a step, with only blank lines after it
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

// matches reports whether the output of a step, got, matches want. It ignores spaces, tabs and carriage returns at the
// ends of lines, and empty lines at the beginning and the end.
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

// separator is printed before each step. No command prints a record separator.
const separator = "\x1e"

// Run runs the steps in one bash in a folder. env is the environment of bash. If it is nil, bash has the environment of
// this process. It returns the output of each step that began, and an error for the first step that failed or printed
// unexpected output. There must be at least one step. Background jobs of the steps end with the bash.
func Run(ctx context.Context, dir string, env []string, steps []Step) ([]string, error) {
	var script strings.Builder
	script.WriteString("trap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n")
	for _, s := range steps {
		fmt.Fprintf(&script, "printf '%s'\n%s\n", separator, s.Commands)
	}
	//nolint:gosec // running what the document says is the purpose
	cmd := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", script.String())
	cmd.Dir, cmd.Env = dir, env
	// A canceled context also ends the processes that the shell has started.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	_, output, _ := strings.Cut(stdout.String(), separator)
	outputs := strings.Split(output, separator)
	for i, out := range outputs[:min(len(outputs), len(steps))] {
		last := i == len(outputs)-1
		if steps[i].Want != "" && (!last || err == nil) && !matches(steps[i].Want, out) {
			return outputs, fmt.Errorf("line %d: printed\n%swant\n%s\nstderr: %s", steps[i].Line, out, steps[i].Want,
				stderr.Bytes())
		}
	}
	if err != nil {
		step := steps[min(len(outputs), len(steps))-1]
		return outputs, fmt.Errorf("line %d: %w: it printed\n%s\nstderr: %s", step.Line, err, outputs[len(outputs)-1],
			stderr.Bytes())
	}
	return outputs, nil
}
