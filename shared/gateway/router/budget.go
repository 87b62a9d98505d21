package router

import (
	"errors"
	"fmt"
	"regexp/syntax"
	"strings"

	"github.com/gatewright/gatewright/shared/gateway/paths"
	"github.com/gatewright/gatewright/shared/project"
)

// budget is what the URL patterns of a router have cost so far. RE2 takes time
// in proportion to a path and to the program that it made of a pattern, and a
// pattern of 1 KiB can be a program of a hundred thousand instructions: (a{1000})
// a hundred times. So the program is measured, and not the pattern.
type budget struct{ patterns, steps int }

// admit refuses a pattern that shall not even be compiled.
func (b *budget) admit(path string) error {
	switch b.patterns++; {
	case b.patterns > project.MaxPatterns:
		return overAll("patterns", b.patterns, "Write routes as OpenAPI paths, or divide the project.")
	case len(path) > project.MaxPatternBytes:
		return over("pattern", len(path), "Shorten it, or write several routes.")
	case b.steps > project.MaxPatternsSteps:
		return overAll("all pattern steps", b.steps, "Write routes as OpenAPI paths, or divide the project.")
	}
	return nil
}

// spend refuses a pattern that would take too long.
func (b *budget) spend(normalised string) error {
	steps, err := stepsOf(normalised)
	if err != nil {
		return err
	}
	// One that is refused counts in part: the next ones shall be told of too, but
	// not compiled for ever.
	b.steps += min(steps, project.MaxPatternSteps)
	switch {
	case steps > project.MaxPatternSteps:
		return over("pattern steps", steps, "Shorten it, and repeat less: {1000} counts as a thousand.")
	case b.steps > project.MaxPatternsSteps:
		return overAll("all pattern steps", b.steps, "Write routes as OpenAPI paths, or divide the project.")
	}
	return nil
}

// tries reports whether a path is short enough for the patterns to be tried. No
// pattern matches another one.
func (b *budget) tries(path string) bool { return len(path)*b.steps <= project.MaxMatchSteps }

// over is an error in the words of Add: a clause that follows a colon.
func over(name string, found int, advice string) error {
	text := strings.TrimSuffix(project.Over(name, int64(found), advice), ".")
	return errors.New(strings.ToLower(text[:1]) + text[1:])
}

// ErrFull is what Add fails with when the URL patterns of a router are over a
// budget together: for each pattern from then on, so that its user tells it once.
var ErrFull = errors.New("router: the URL patterns are over a budget together")

// full is an ErrFull with a text for people.
type full struct{ error }

// Is implements the interface of errors.Is.
func (full) Is(target error) bool { return target == ErrFull }

func overAll(name string, found int, advice string) error { return full{over(name, found, advice)} }

// The instructions of what is no regular expression of a pattern's own, at the most.
const (
	frameSteps = 4 // beginning, end, match and failure
	groupSteps = 5 // of a name or a "*", and of a modifier
)

// stepsOf is how many instructions the program has, at the most, that matches what
// a normalised pattern stands for. The library does not tell: its regular
// expressions are counted as the standard library compiles them, all else by the
// byte. What a modifier repeats stands in the program twice (URL Pattern standard,
// "generate a regular expression and name list").
func stepsOf(normalised string) (int, error) {
	steps := frameSteps
	last, brace := 0, 0 // the steps of the last part, and those before the last "{"
	inName := false
	for i := 0; i < len(normalised); i++ {
		c := normalised[i]
		if inName = inName && isName(c); inName {
			if c >= 0x80 { // it may be none of a name
				steps++
			}
			continue
		}
		part := 1
		switch c {
		case ':':
			part, inName = groupSteps, true
		case '(':
			group := normalised[i : i+paths.GroupLength(normalised[i:])]
			var err error
			if part, err = programSteps(group); err != nil {
				return 0, err
			}
			i += len(group) - 1
		case '*', '+': // a modifier, or a part of its own that one may follow
			steps += last
			part = groupSteps
		case '{':
			brace = steps
		case '}':
			part = 1 + steps - brace
			steps = brace
		case '\\':
			i++
		}
		steps += part
		last = part
	}
	return steps, nil
}

// isName reports whether a byte may go on with a name.
func isName(c byte) bool {
	return c == '_' || c == '$' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= 0x80
}

// programSteps is the number of instructions of a regular expression's program.
func programSteps(expression string) (int, error) {
	parsed, err := syntax.Parse(expression, syntax.Perl)
	if err != nil {
		return 0, fmt.Errorf("count the steps of a regular expression: %w", err)
	}
	program, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return 0, fmt.Errorf("count the steps of a regular expression: %w", err)
	}
	return len(program.Inst), nil
}
