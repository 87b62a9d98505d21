package project

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Bounds of what a build reports, errors and warnings each: both are stored in
// one record, as JSON. maxProblemBytes counts that.
const (
	maxProblems     = 200
	maxProblemBytes = 48 << 10
	maxPointerBytes = 1 << 10
)

// report collects what is wrong with a project.
type report struct {
	problems []Problem
	warnings []Problem
	// hidden are values of variables, which no message may hold, each with the
	// text that stands for it.
	hidden [][2]string
}

// minHidden is the least length of a value that is looked for in messages:
// shorter ones would garble words and are no secrets.
const minHidden = 5

// hide has value replaced by name in all messages, as a second line of defence:
// no check may put a value into a message in the first place. The expressions
// of a value are hidden by themselves too, since a pattern is told of in parts.
func (r *report) hide(value, name string) {
	for _, text := range append(expression.FindAllString(value, -1), value) {
		if pair := [2]string{text, name}; len(text) >= minHidden && !slices.Contains(r.hidden, pair) {
			r.hidden = append(r.hidden, pair)
		}
	}
}

// fail adds a problem that keeps the project from being built.
func (r *report) fail(file, pointer, format string, args ...any) {
	r.problems = append(r.problems, Problem{File: file, Path: pointer, Message: fmt.Sprintf(format, args...)})
}

// warn adds one that does not.
func (r *report) warn(file, pointer, format string, args ...any) {
	r.warnings = append(r.warnings, Problem{File: file, Path: pointer, Message: fmt.Sprintf(format, args...)})
}

// errors returns the problems in the order of files and pointers, each once.
func (r *report) errors() []Problem { return r.sorted(r.problems) }

func (r *report) sorted(problems []Problem) []Problem {
	problems = slices.Clone(problems)
	// The longest value first, so that one within another leaves no rest.
	slices.SortFunc(r.hidden, func(a, b [2]string) int {
		return cmp.Or(cmp.Compare(len(b[0]), len(a[0])), cmp.Compare(a[0], b[0]), cmp.Compare(a[1], b[1]))
	})
	for i, p := range problems {
		for _, pair := range r.hidden {
			p.Message = strings.ReplaceAll(p.Message, pair[0], pair[1])
		}
		if len(p.Path) > maxPointerBytes {
			p.Path = strings.ToValidUTF8(p.Path[:maxPointerBytes], "") + "…"
		}
		problems[i] = p
	}
	slices.SortStableFunc(problems, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Path, b.Path), cmp.Compare(a.Message, b.Message))
	})
	problems = slices.Compact(problems)
	size := 0
	for i, p := range problems {
		size += len(encodeTree(p)) + 1
		if i == maxProblems || size > maxProblemBytes {
			more := Problem{Message: fmt.Sprintf("There are %d more of these. Correct the ones above first.", len(problems)-i)}
			return append(problems[:i:i], more)
		}
	}
	return problems
}

// pointer makes a JSON pointer (RFC 6901) of the names and indexes that lead
// to a value.
func pointer(tokens ...string) string {
	var b strings.Builder
	for _, t := range tokens {
		b.WriteByte('/')
		b.WriteString(escapeToken(t))
	}
	return b.String()
}

func escapeToken(token string) string {
	return strings.ReplaceAll(strings.ReplaceAll(token, "~", "~0"), "/", "~1")
}

func unescapeToken(token string) string {
	return strings.ReplaceAll(strings.ReplaceAll(token, "~1", "/"), "~0", "~")
}

// tokens takes a pointer apart.
func tokens(pointer string) []string {
	if pointer == "" {
		return nil
	}
	parts := strings.Split(pointer[1:], "/")
	for i, p := range parts {
		parts[i] = unescapeToken(p)
	}
	return parts
}
