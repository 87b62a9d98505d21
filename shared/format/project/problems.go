package project

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/gatewright/gatewright/shared/format/yamljson"
)

// report collects the mistakes in a project. It keeps the first mistakes in the order of files
// and pointers, and counts the others: a malicious project can have as many mistakes as bytes.
type report struct {
	problems problemList
	warnings problemList
	// redactions are values of variables that no message may contain, each with the text that replaces it.
	redactions map[redaction]bool
	// requiredVariables are the variables that have to be set to correct an error.
	requiredVariables map[string]bool
	// files are the project's files, from which problems get their lines
	// and columns. If files is nil, problems have no lines and columns.
	files Files
}

// problemList is a list of problems that keeps only the first ones.
type problemList struct {
	entries []entry
	// omitted is the number of problems that are not in entries.
	omitted int
}

// entry is a problem in a problemList.
type entry struct {
	Problem
	// urgent problems are reported before all others.
	urgent bool
	// warnedVariable is the unset variable that a warning of warnUnset is about. It is "" for other problems.
	warnedVariable string
	// unknownIn is the shape that does not have the property that the problem is about. It is nil for other problems.
	unknownIn *shape
}

// maxKept is the number of problems that a problemList keeps. When the list has twice as many,
// add sorts it, removes duplicates, and drops the problems after the first maxKept.
const maxKept = 2 * maxProblems

func (l *problemList) add(e entry) {
	l.entries = append(l.entries, e)
	if len(l.entries) < 2*maxKept {
		return
	}
	l.entries = sortProblems(l.entries)
	if n := len(l.entries); n > maxKept {
		l.omitted += n - maxKept
		clear(l.entries[maxKept:])
		l.entries = l.entries[:maxKept]
	}
}

// len returns the number of all problems, including those that are not kept.
func (l *problemList) len() int { return len(l.entries) + l.omitted }

// sortProblems sorts problems by file, pointer and message, with urgent problems first. It removes duplicates.
func sortProblems(problems []entry) []entry {
	slices.SortStableFunc(problems, func(a, b entry) int {
		if a.urgent != b.urgent {
			if a.urgent {
				return -1
			}
			return 1
		}
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Path, b.Path), cmp.Compare(a.Message, b.Message))
	})
	return slices.Compact(problems)
}

// redaction is a text that messages must not contain, and the name that replaces it.
type redaction struct{ text, name string }

// minRedacted is the minimum length of a value that is replaced in messages:
// replacing shorter values would garble words, and short values are not secrets.
const minRedacted = 5

// redact replaces a value in all messages by its name, unless the value is shorter than minRedacted. It is a second
// line of defense: checks must not put a value into a message in the first place. It also hides each expression ${…} in
// the value, since messages can quote a part of a pattern.
func (r *report) redact(value, name string) {
	if r.redactions == nil {
		r.redactions = map[redaction]bool{}
	}
	if r.redactions[redaction{value, name}] {
		return
	}
	for _, text := range append(expression().FindAllString(value, -1), value) {
		if len(text) >= minRedacted {
			r.redactions[redaction{text, name}] = true
		}
	}
}

// fail adds an error, which prevents the build.
func (r *report) fail(file, pointer, format string, args ...any) {
	r.problems.add(entry{Problem: Problem{File: file, Path: pointer, Message: fmt.Sprintf(format, args...)}})
}

// failUnset adds an error that exists only while a variable has no
// value. If name is "", the error does not depend on a variable.
func (r *report) failUnset(file, pointer, name, message string) {
	r.problems.add(entry{Problem: Problem{File: file, Path: pointer, Message: message, Unset: name}})
}

// unknownProperty is the text about a property that is not allowed.
const unknownProperty = "There is no such property here."

// failUnknown adds an error about a property that a shape does not have. sorted adds what the author probably meant.
func (r *report) failUnknown(file, pointer string, s *shape) {
	r.problems.add(entry{Problem: Problem{File: file, Path: pointer, Message: unknownProperty}, unknownIn: s})
}

// unknownText returns the message about a property that a shape does not have. at is the pointer of the property.
func unknownText(at string, s *shape) string {
	suggestion := ""
	if names := tokens(at); len(names) > 0 {
		if nearest := nearestName(names[len(names)-1], s.names); nearest != "" {
			suggestion = fmt.Sprintf(" Did you mean %q?", nearest)
		}
	}
	return unknownProperty + suggestion + " Correct its name or remove it."
}

// failAt adds an error at an offset of the file's text. Use it for a file
// that is not valid JSON: pointers cannot locate an error in such a file.
func (r *report) failAt(file, pointer string, text []byte, offset int, format string, args ...any) {
	p := Problem{File: file, Path: pointer, Message: fmt.Sprintf(format, args...)}
	p.Line, p.Column = newPositionCounter(text).position(offset)
	r.problems.add(entry{Problem: p})
}

// failText adds an error of package yamljson.
func (r *report) failText(file string, err error) {
	e, ok := errors.AsType[*yamljson.Error](err)
	if !ok {
		e = &yamljson.Error{Text: err.Error()}
	}
	first, size := utf8.DecodeRuneInString(e.Text)
	p := Problem{File: file, Line: e.Line, Message: string(unicode.ToUpper(first)) + e.Text[size:] + "."}
	if e.Line > 0 {
		p.Column = max(1, e.Column)
	}
	r.problems.add(entry{Problem: p})
}

// warn adds a warning, which does not prevent the build.
func (r *report) warn(file, pointer, format string, args ...any) {
	r.warnings.add(entry{Problem: Problem{File: file, Path: pointer, Message: fmt.Sprintf(format, args...)}})
}

// warnFirst adds a warning that is reported before those of warn.
func (r *report) warnFirst(file, pointer, format string, args ...any) {
	r.warnings.add(entry{Problem: Problem{File: file, Path: pointer, Message: fmt.Sprintf(format, args...)}, urgent: true})
}

// warnUnset adds a warning about a variable without a value. The warning
// is not reported if an error requires the variable (requireVariable).
func (r *report) warnUnset(file, pointer, name, effect string) {
	message := fmt.Sprintf("The variable %s is not set for this environment, so %s.", printable(name), effect)
	problem := Problem{File: file, Path: pointer, Message: message, Unset: name}
	r.warnings.add(entry{Problem: problem, warnedVariable: name})
}

// requireVariable records that the variable must be set to correct an error.
func (r *report) requireVariable(name string) {
	if r.requiredVariables == nil {
		r.requiredVariables = map[string]bool{}
	}
	r.requiredVariables[name] = true
}

// errors returns the errors in the order of files and pointers, without duplicates.
func (r *report) errors() []Problem { return r.sorted(r.problems) }

// sorted returns the problems of a list as they are reported: in order, without duplicates, with
// lines and columns, with names in place of the values of variables, and within the bounds.
func (r *report) sorted(all problemList) []Problem {
	problems := sortProblems(slices.DeleteFunc(slices.Clone(all.entries), func(e entry) bool {
		return r.requiredVariables[e.warnedVariable]
	}))
	if n := len(problems); n > maxKept {
		all.omitted += n - maxKept
		problems = problems[:maxKept]
	}
	r.locate(problems)
	redactions := r.sortedRedactions()
	for i, p := range problems {
		if p.unknownIn != nil {
			p.Message, p.unknownIn = unknownText(p.Path, p.unknownIn), nil
		}
		p.Message = applyRedactions(p.Message, redactions)
		if len(p.Path) > shownPointerBytes {
			p.Path = strings.ToValidUTF8(p.Path[:shownPointerBytes], "") + "…"
		}
		problems[i] = p
	}
	problems = mergeUnset(sortProblems(problems))
	out := make([]Problem, 0, min(len(problems), maxProblems+1))
	size := 0
	for i, p := range problems {
		size += len(encodeTree(p.Problem)) + 1
		if i == maxProblems || size > maxProblemBytes {
			return append(out, Problem{Message: fmt.Sprintf("There are %d more of these. Correct the ones above first.",
				len(problems)-i+all.omitted)})
		}
		out = append(out, p.Problem)
	}
	return out
}

// mergeUnset keeps only one problem for each variable without a value: the first one in the order of files and lines. It
// adds the number of the other places that use the variable to its message.
func mergeUnset(problems []entry) []entry {
	first, others := map[string]int{}, map[string]int{}
	isBefore := func(a, b Problem) bool {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column)) < 0
	}
	for i, p := range problems {
		if p.Unset == "" {
			continue
		}
		before, known := first[p.Unset]
		if known {
			others[p.Unset]++
		}
		if !known || isBefore(p.Problem, problems[before].Problem) {
			first[p.Unset] = i
		}
	}
	var out []entry
	for i, p := range problems {
		if p.Unset != "" && first[p.Unset] != i {
			continue
		}
		switch n := others[p.Unset]; {
		case p.Unset == "" || n == 0:
		case n == 1:
			p.Message += fmt.Sprintf(" %s is used at 1 other place, too.", printable(p.Unset))
		default:
			p.Message += fmt.Sprintf(" %s is used at %d other places, too.", printable(p.Unset), n)
		}
		out = append(out, p)
	}
	return out
}

func (r *report) locate(problems []entry) {
	plain := make([]Problem, len(problems))
	for i, p := range problems {
		plain[i] = p.Problem
	}
	Locate(r.files, plain)
	for i := range problems {
		problems[i].Problem = plain[i]
	}
}

// sortedRedactions returns the texts to replace, the longest first. If one
// text is a part of another, the longer one is then replaced as a whole.
func (r *report) sortedRedactions() []redaction {
	return slices.SortedFunc(maps.Keys(r.redactions), func(a, b redaction) int {
		return cmp.Or(cmp.Compare(len(b.text), len(a.text)), cmp.Compare(a.text, b.text), cmp.Compare(a.name, b.name))
	})
}

func applyRedactions(message string, redactions []redaction) string {
	for _, h := range redactions {
		message = strings.ReplaceAll(message, h.text, h.name)
	}
	return message
}

// RedactVariables replaces each variable's value in text by $env(NAME), for messages about options whose variables are
// resolved. Values shorter than minRedacted stay.
func RedactVariables(text string, variables map[string]string) string {
	var r report
	for name, value := range variables {
		r.redact(value, envOpening+name+")")
	}
	return applyRedactions(text, r.sortedRedactions())
}

// pointer builds a JSON pointer (RFC 6901) from the names and indexes that lead to a value.
func pointer(tokens ...string) string {
	var p jsontext.Pointer
	for _, t := range tokens {
		if strings.ContainsAny(t, "~/") {
			p = p.AppendToken(t)
		} else { // for speed, because every value of a project needs a pointer: one allocation instead of three
			p += jsontext.Pointer("/" + t)
		}
	}
	return string(p)
}

// unescapeToken returns the name or index that a pointer's token stands for. A
// slash in the token is part of the name: it was percent-encoded in a reference.
func unescapeToken(token string) string {
	return jsontext.Pointer("/" + strings.ReplaceAll(token, "/", "~1")).LastToken()
}

// tokens splits a pointer into its tokens.
func tokens(pointer string) []string { return slices.Collect(jsontext.Pointer(pointer).Tokens()) }
