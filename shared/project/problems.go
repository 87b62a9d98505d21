package project

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// report collects what is wrong with a project. It keeps the first of it in the
// order of files and pointers, and counts the rest: what a hostile project has
// wrong is as much as its bytes.
type report struct {
	problems told
	warnings told
	// hidden are values of variables, which no message may hold, each with the
	// text that stands for it.
	hidden map[hiding]bool
	// asked are the variables that errors ask to be set.
	asked map[string]bool
	// files are where problems have a line and a column, nil where there are none.
	files Files
}

// told are problems, of which it keeps the first.
type told struct {
	first []entry
	// more is how many were left out of first.
	more int
}

// entry is a problem as it is kept until all are known.
type entry struct {
	Problem
	// urgent ones are told before the others, wherever they are.
	urgent bool
	// unset is the variable whose lack it tells of, "" for other problems.
	unset string
}

// kept is how many problems are kept while there may be more: sorting twice as
// many as are told, each time that so many have come, costs little.
const kept = 2 * maxProblems

func (t *told) add(e entry) {
	t.first = append(t.first, e)
	if len(t.first) < 2*kept {
		return
	}
	t.first = inOrder(t.first)
	if n := len(t.first); n > kept {
		t.more += n - kept
		clear(t.first[kept:])
		t.first = t.first[:kept]
	}
}

// len is how many there are, those that were left out included.
func (t *told) len() int { return len(t.first) + t.more }

// inOrder sorts by file and pointer, what is urgent first, and leaves out what
// stands there twice.
func inOrder(problems []entry) []entry {
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

// hiding is a text that is not told, and what is told instead.
type hiding struct{ text, name string }

// minHidden is the least length of a value that is looked for in messages:
// shorter ones would garble words and are no secrets.
const minHidden = 5

// hide has value replaced by name in all messages, as a second line of defence:
// no check may put a value into a message in the first place. The expressions
// of a value are hidden by themselves too, since a pattern is told of in parts.
func (r *report) hide(value, name string) {
	if r.hidden == nil {
		r.hidden = map[hiding]bool{}
	}
	if r.hidden[hiding{value, name}] {
		return
	}
	for _, text := range append(expression().FindAllString(value, -1), value) {
		if len(text) >= minHidden {
			r.hidden[hiding{text, name}] = true
		}
	}
}

// fail adds a problem that keeps the project from being built.
func (r *report) fail(file, pointer, format string, args ...any) {
	r.problems.add(entry{Problem: Problem{File: file, Path: pointer, Message: fmt.Sprintf(format, args...)}})
}

// failUnset is fail for what is wrong as long as a variable has no value, for any if that is "".
func (r *report) failUnset(file, pointer, name, message string) {
	r.problems.add(entry{Problem: Problem{File: file, Path: pointer, Message: message, Unset: name}})
}

// failAt is fail with an offset in the file's text, of what is no document that a pointer leads through.
func (r *report) failAt(file, pointer string, text []byte, offset int, format string, args ...any) {
	p := Problem{File: file, Path: pointer, Message: fmt.Sprintf(format, args...)}
	p.Line, p.Column = begin(text).to(offset)
	r.problems.add(entry{Problem: p})
}

// warn adds one that does not.
func (r *report) warn(file, pointer, format string, args ...any) {
	r.warnings.add(entry{Problem: Problem{File: file, Path: pointer, Message: fmt.Sprintf(format, args...)}})
}

// warnFirst adds one that is told before those of warn.
func (r *report) warnFirst(file, pointer, format string, args ...any) {
	r.warnings.add(entry{Problem: Problem{File: file, Path: pointer, Message: fmt.Sprintf(format, args...)}, urgent: true})
}

// warnUnset adds a warning about a variable without a value, which is left out
// where an error says that the variable has to be set.
func (r *report) warnUnset(file, pointer, name, effect string) {
	message := fmt.Sprintf("The variable %s is not set for this environment, so %s.", printable(name), effect)
	r.warnings.add(entry{Problem: Problem{File: file, Path: pointer, Message: message, Unset: name}, unset: name})
}

// wanted notes that an error asks for the variable.
func (r *report) wanted(name string) {
	if r.asked == nil {
		r.asked = map[string]bool{}
	}
	r.asked[name] = true
}

// errors returns the problems in the order of files and pointers, each once.
func (r *report) errors() []Problem { return r.sorted(r.problems) }

func (r *report) sorted(all told) []Problem {
	problems := inOrder(slices.DeleteFunc(slices.Clone(all.first), func(e entry) bool { return r.asked[e.unset] }))
	if n := len(problems); n > kept {
		all.more += n - kept
		problems = problems[:kept]
	}
	r.locate(problems)
	hidden := r.hidings()
	for i, p := range problems {
		p.Message = concealed(p.Message, hidden)
		if len(p.Path) > shownPointerBytes {
			p.Path = strings.ToValidUTF8(p.Path[:shownPointerBytes], "") + "…"
		}
		problems[i] = p
	}
	problems = inOrder(problems)
	out := make([]Problem, 0, min(len(problems), maxProblems+1))
	size := 0
	for i, p := range problems {
		size += len(encodeTree(p.Problem)) + 1
		if i == maxProblems || size > maxProblemBytes {
			return append(out, Problem{Message: fmt.Sprintf("There are %d more of these. Correct the ones above first.", len(problems)-i+all.more)})
		}
		out = append(out, p.Problem)
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

// hidings are what is hidden, the longest text first, so that one within another
// leaves no rest.
func (r *report) hidings() []hiding {
	return slices.SortedFunc(maps.Keys(r.hidden), func(a, b hiding) int {
		return cmp.Or(cmp.Compare(len(b.text), len(a.text)), cmp.Compare(a.text, b.text), cmp.Compare(a.name, b.name))
	})
}

func concealed(message string, hidden []hiding) string {
	for _, h := range hidden {
		message = strings.ReplaceAll(message, h.text, h.name)
	}
	return message
}

// Concealed is a text with $env(NAME) in place of each variable's value that is in
// it: for who tells of options once the variables are in them.
func Concealed(text string, variables map[string]string) string {
	var r report
	for name, value := range variables {
		r.hide(value, envOpening+name+")")
	}
	return concealed(text, r.hidings())
}

// pointer makes a JSON pointer (RFC 6901) of the names and indexes that lead
// to a value.
func pointer(tokens ...string) string {
	var p jsontext.Pointer
	for _, t := range tokens {
		if strings.ContainsAny(t, "~/") {
			p = p.AppendToken(t)
		} else { // every value of a project asks for its pointer: one allocation instead of three
			p += jsontext.Pointer("/" + t)
		}
	}
	return string(p)
}

// unescapeToken returns the name or index that a token of a pointer stands for. A slash in it was percent-encoded in a
// reference, and belongs to the name.
func unescapeToken(token string) string {
	return jsontext.Pointer("/" + strings.ReplaceAll(token, "/", "~1")).LastToken()
}

// tokens takes a pointer apart.
func tokens(pointer string) []string { return slices.Collect(jsontext.Pointer(pointer).Tokens()) }
