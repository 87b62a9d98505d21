// Package report writes the problems of a project: as text with excerpts of the files for people, and in formats for
// programs (GitHub annotations, GitLab code quality reports, SARIF).
//
// It writes local problems and problems of a remote build in the same form. The caller provides the content of the
// files (Source). A project's text cannot control a terminal, or the log of a pipeline.
//
// It does not find problems (package validate and the builder do). Read report.go first. order.go sorts problems.
// excerpt.go writes the excerpts. annotations.go and sarif.go are for programs.
package report

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"github.com/gatewright/gatewright/client/output"
	"github.com/gatewright/gatewright/shared/format/project"
)

// Source returns the part of a file around a place. It returns false if it has no such part.
type Source func(file string, line, column int) (project.Excerpt, bool)

// FromFiles returns a Source for files in memory. Its excerpts are whole files.
func FromFiles(files project.Files) Source {
	return func(file string, _, _ int) (project.Excerpt, bool) {
		text, ok := files[file]
		return project.Excerpt{Text: string(bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))), Line: 1, Column: 1},
			ok && len(text) > 0
	}
}

// maxRemoteExcerpts is the maximum number of requests for the excerpts of a report.
const maxRemoteExcerpts = 20

// FromRemote returns a Source that requests excerpts with fetch, such as from the API. It reuses an excerpt for other
// places in it. After fetch has returned false for a file, it sends no further requests about this file.
func FromRemote(fetch Source) Source {
	cached, missing, requests := map[string][]project.Excerpt{}, map[string]bool{}, 0
	return func(file string, line, column int) (project.Excerpt, bool) {
		for _, e := range cached[file] {
			if _, _, ok := excerptLine(e, line, column); ok && line < e.Line+strings.Count(e.Text, "\n") {
				return e, true
			}
		}
		if missing[file] || requests == maxRemoteExcerpts {
			return project.Excerpt{}, false
		}
		requests++
		e, ok := fetch(file, line, column)
		if missing[file] = !ok; ok {
			cached[file] = append(cached[file], e)
		}
		return e, ok
	}
}

// Report has the problems of a project.
type Report struct {
	// Errors prevent a deployment. Warnings are probable mistakes.
	Errors, Warnings []project.Problem
	// Source returns excerpts, nil for none.
	Source Source
	// Folder is the path of the project's folder within its repository, with slashes, "" for the top of the repository.
	// Reports for programs have paths from the top of the repository.
	Folder string
	// Originals are the files outside of the project's folder from which init has made the project, with their paths from the
	// top of the repository. It is nil for none.
	Originals map[string]string
}

// MaxShown is the maximum number of problems that Text and Annotations write. Text only counts the others.
const MaxShown = 50

// Text writes the report for people: a line for each problem, followed by the line of the file. useColor allows escape
// sequences for a terminal. workflow says that a runner of GitHub Actions reads the output. Text then escapes text that
// the runner would execute as a command.
func (r Report) Text(w io.Writer, useColor, workflow bool) error {
	var b strings.Builder
	for i, f := range r.all() {
		if i == MaxShown {
			fmt.Fprintf(&b, "… and %s more are not shown.\n", Count(r.notShown()))
			break
		}
		r.write(&b, f, useColor)
	}
	text := b.String()
	if workflow {
		text = escapeWorkflowCommands(text)
	}
	if _, err := io.WriteString(w, text); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	return nil
}

// finding is a problem with its level, error or warning.
type finding struct {
	project.Problem
	isError bool
}

func (f finding) level() string {
	if f.isError {
		return "error"
	}
	return "warning"
}

// all returns the problems, errors first, each in the order of files and lines.
func (r Report) all() []finding {
	out := make([]finding, 0, len(r.Errors)+len(r.Warnings))
	for _, p := range Sorted(r.Errors) {
		out = append(out, finding{p, true})
	}
	for _, p := range Sorted(r.Warnings) {
		out = append(out, finding{p, false})
	}
	return out
}

// notShown counts the errors and warnings that are not shown.
func (r Report) notShown() (errors, warnings int) {
	errors = max(0, len(r.Errors)-MaxShown)
	return errors, len(r.Errors) + len(r.Warnings) - MaxShown - errors
}

// Count returns the numbers of errors and warnings as text, such as "2 errors", or "nothing".
func Count(errors, warnings int) string {
	pluralize := func(n int, noun string) string {
		if n == 1 {
			return "1 " + noun
		}
		return fmt.Sprintf("%d %ss", n, noun)
	}
	switch {
	case errors > 0 && warnings > 0:
		return pluralize(errors, "error") + " and " + pluralize(warnings, "warning")
	case errors > 0:
		return pluralize(errors, "error")
	case warnings > 0:
		return pluralize(warnings, "warning")
	}
	return "nothing"
}

// These are the styles, as parameters of the SGR escape sequence.
const (
	bold   = "1"
	red    = "1;31"
	yellow = "1;33"
	green  = "32"
	dim    = "2"
)

func applyStyle(text, style string, useColor bool) string {
	if !useColor || text == "" {
		return text
	}
	return "\x1b[" + style + "m" + text + "\x1b[0m"
}

func (r Report) write(b *strings.Builder, f finding, useColor bool) {
	style := yellow
	if f.isError {
		style = red
	}
	if position := positionText(f.Problem); position != "" {
		b.WriteString(applyStyle(position+": ", bold, useColor))
	}
	b.WriteString(applyStyle(f.level()+": ", style, useColor) + output.Printable(f.Message))
	if f.Path != "" {
		b.WriteString(" " + applyStyle("("+output.Printable(f.Path)+")", dim, useColor))
	}
	b.WriteByte('\n')
	if r.Source == nil || f.File == "" || f.Line == 0 {
		return
	}
	if excerpt, ok := r.Source(f.File, f.Line, f.Column); ok {
		if line, caret, ok := excerptLine(excerpt, f.Line, f.Column); ok {
			number := fmt.Sprintf("%5d", f.Line)
			fmt.Fprintf(b, "%s %s\n%s %s\n", applyStyle(number+" |", dim, useColor), line,
				applyStyle(strings.Repeat(" ", len(number))+" |", dim, useColor), applyStyle(caret, green, useColor))
		}
	}
}

// positionText returns the position of a problem in a form that editors and terminals recognize.
func positionText(p project.Problem) string {
	file := output.Printable(p.File)
	if p.Line == 0 {
		return file
	}
	return fmt.Sprintf("%s:%d:%d", file, p.Line, p.Column)
}
