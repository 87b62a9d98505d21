// Package report shows what is wrong with a project: to people as text with the places in its files, to programs as
// they read it (annotations of GitHub, a code quality report of GitLab, SARIF).
//
// It is the same for what is found here and for what a build answers: where a file's text comes from is the caller's
// (Source). Nothing of a project's text reaches a terminal, or a pipeline's log, as more than text.
//
// What it is not: it finds nothing (package validate, and the builder do). Read report.go first; excerpt.go cuts the
// lines, annotations.go and sarif.go are for programs.
package report

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"github.com/gatewright/gatewright/client/output"
	"github.com/gatewright/gatewright/shared/project"
)

// Source answers the part of a file around a place, false where the file is not known.
type Source func(file string, line, column int) (project.Excerpt, bool)

// FromFiles has excerpts of files that are at hand.
func FromFiles(files project.Files) Source {
	return func(file string, _, _ int) (project.Excerpt, bool) {
		text, ok := files[file]
		return project.Excerpt{Text: string(bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))), Line: 1, Column: 1}, ok && len(text) > 0
	}
}

// mostAsked is how often somebody is asked for excerpts of one report.
const mostAsked = 20

// Asked has excerpts of files that somebody else has, such as the API. What was answered holds for the lines around as
// well, and who knows nothing of a file is not asked of it again.
func Asked(ask Source) Source {
	known, unknown, asked := map[string][]project.Excerpt{}, map[string]bool{}, 0
	return func(file string, line, column int) (project.Excerpt, bool) {
		for _, e := range known[file] {
			if _, _, ok := cut(e, line, column); ok && line < e.Line+strings.Count(e.Text, "\n") {
				return e, true
			}
		}
		if unknown[file] || asked == mostAsked {
			return project.Excerpt{}, false
		}
		asked++
		e, ok := ask(file, line, column)
		if unknown[file] = !ok; ok {
			known[file] = append(known[file], e)
		}
		return e, ok
	}
}

// Report is what is wrong with a project.
type Report struct {
	// Errors keep it from being deployed; Warnings are what is probably not meant.
	Errors, Warnings []project.Problem
	// Source shows the places, nil for none.
	Source Source
	// Folder is where the project's folder is in its repository, with slashes and "" for the top: paths for programs
	// are relative to the repository's.
	Folder string
}

// MostShown is how many problems are shown at most; the rest is counted.
const MostShown = 50

// Text writes the report for people: a line for each problem, with the line of the file that it is about below.
// Colours are escape sequences for a terminal. Workflow says that what is written goes through a runner of GitHub
// Actions, which carries out what looks like its commands.
func (r Report) Text(to io.Writer, colours, workflow bool) error {
	var b strings.Builder
	for i, found := range r.all() {
		if i == MostShown {
			fmt.Fprintf(&b, "… and %s more are not shown.\n", Count(r.beyond()))
			break
		}
		r.write(&b, found, colours)
	}
	text := b.String()
	if workflow {
		text = harmless(text)
	}
	if _, err := io.WriteString(to, text); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	return nil
}

// found is a problem with what it is.
type found struct {
	project.Problem
	isError bool
}

func (f found) level() string {
	if f.isError {
		return "error"
	}
	return "warning"
}

// all are the problems, errors first.
func (r Report) all() []found {
	out := make([]found, 0, len(r.Errors)+len(r.Warnings))
	for _, p := range r.Errors {
		out = append(out, found{p, true})
	}
	for _, p := range r.Warnings {
		out = append(out, found{p, false})
	}
	return out
}

// beyond counts the errors and warnings that are not shown.
func (r Report) beyond() (errors, warnings int) {
	errors = max(0, len(r.Errors)-MostShown)
	return errors, len(r.Errors) + len(r.Warnings) - MostShown - errors
}

// Count says how many errors and warnings there are, "nothing" for none.
func Count(errors, warnings int) string {
	many := func(n int, one string) string {
		if n == 1 {
			return "1 " + one
		}
		return fmt.Sprintf("%d %ss", n, one)
	}
	switch {
	case errors > 0 && warnings > 0:
		return many(errors, "error") + " and " + many(warnings, "warning")
	case errors > 0:
		return many(errors, "error")
	case warnings > 0:
		return many(warnings, "warning")
	}
	return "nothing"
}

// The styles, as parameters of the SGR escape sequence.
const (
	bold   = "1"
	red    = "1;31"
	yellow = "1;33"
	green  = "32"
	dim    = "2"
)

func styled(text, style string, colours bool) string {
	if !colours || text == "" {
		return text
	}
	return "\x1b[" + style + "m" + text + "\x1b[0m"
}

func (r Report) write(b *strings.Builder, f found, colours bool) {
	style := yellow
	if f.isError {
		style = red
	}
	if at := place(f.Problem); at != "" {
		b.WriteString(styled(at+": ", bold, colours))
	}
	b.WriteString(styled(f.level()+": ", style, colours) + output.Printable(f.Message))
	if f.Path != "" {
		b.WriteString(" " + styled("("+output.Printable(f.Path)+")", dim, colours))
	}
	b.WriteByte('\n')
	if r.Source == nil || f.File == "" || f.Line == 0 {
		return
	}
	if excerpt, ok := r.Source(f.File, f.Line, f.Column); ok {
		if line, caret, ok := cut(excerpt, f.Line, f.Column); ok {
			number := fmt.Sprintf("%5d", f.Line)
			fmt.Fprintf(b, "%s %s\n%s %s\n", styled(number+" |", dim, colours), line, styled(strings.Repeat(" ", len(number))+" |", dim, colours), styled(caret, green, colours))
		}
	}
}

// place is where a problem is, as editors and terminals take it.
func place(p project.Problem) string {
	file := output.Printable(p.File)
	if p.Line == 0 {
		return file
	}
	return fmt.Sprintf("%s:%d:%d", file, p.Line, p.Column)
}
