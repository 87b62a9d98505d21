package router

import (
	"errors"
	"fmt"
	"regexp/syntax"
	"strings"

	"github.com/gatewright/gatewright/shared/format/paths"
	"github.com/gatewright/gatewright/shared/format/project"
)

// budget counts the cost of the URL patterns that were passed to a router's Add. RE2 needs time in proportion to the
// length of the path and to the size of the program that it compiles from a pattern. A pattern of 1 KiB, such as
// (a{1000}) a hundred times, can become a program of a hundred thousand instructions. So budget counts the instructions
// of programs, which are called steps, and not the bytes of patterns.
type budget struct{ patterns, steps int }

// countPattern counts another pattern, before it is compiled. It returns an error if the pattern is
// too long, if there are too many patterns, or if the earlier ones have exceeded the budget of steps.
func (b *budget) countPattern(path string) error {
	switch b.patterns++; {
	case b.patterns > project.MaxPatterns:
		return overTotalBudget("patterns", b.patterns, "Write routes as OpenAPI paths, or divide the project.")
	case len(path) > project.MaxPatternBytes:
		return overBudget("pattern", len(path), "Shorten it, or write several routes.")
	case b.steps > project.MaxTotalPatternSteps:
		return overTotalBudget("all pattern steps", b.steps, "Write routes as OpenAPI paths, or divide the project.")
	}
	return nil
}

// addSteps counts the steps of a pattern. It returns an error if the pattern, or all patterns together, would
// take too long to match.
func (b *budget) addSteps(normalized string) error {
	steps, err := countSteps(normalized)
	if err != nil {
		return err
	}
	// A pattern that is refused adds at most MaxPatternSteps. So Add still checks some further patterns and returns
	// their problems, until the sum is over MaxTotalPatternSteps.
	b.steps += min(steps, project.MaxPatternSteps)
	switch {
	case steps > project.MaxPatternSteps:
		return overBudget("pattern steps", steps, "Shorten it, and repeat less: {1000} counts as a thousand.")
	case b.steps > project.MaxTotalPatternSteps:
		return overTotalBudget("all pattern steps", b.steps, "Write routes as OpenAPI paths, or divide the project.")
	}
	return nil
}

// allowsPath reports whether a path is short enough to try the patterns. Patterns are not tried for longer paths.
func (b *budget) allowsPath(path string) bool { return len(path)*b.steps <= project.MaxMatchSteps }

// overBudget returns an error in the form of Add's errors: a clause that follows a colon.
func overBudget(name string, found int, advice string) error {
	text := strings.TrimSuffix(project.BudgetExceeded(name, int64(found), advice), ".")
	return errors.New(strings.ToLower(text[:1]) + text[1:])
}

// ErrTotalBudget is the error of Add, for errors.Is, if all URL patterns of a router together exceed a budget. Add
// returns such an error for each further pattern, so the caller should report only the first.
var ErrTotalBudget = errors.New("router: the URL patterns are over a budget together")

// totalBudgetError is an error for which errors.Is reports ErrTotalBudget, with a text for users.
type totalBudgetError struct{ error }

// Is reports whether target is ErrTotalBudget, for errors.Is.
func (totalBudgetError) Is(target error) bool { return target == ErrTotalBudget }

func overTotalBudget(name string, found int, advice string) error {
	return totalBudgetError{overBudget(name, found, advice)}
}

// The maximum number of instructions for parts other than a pattern's own regular expressions.
const (
	frameSteps = 4 // beginning, end, match and failure
	groupSteps = 5 // a name, a "*" or a modifier
)

// countSteps returns the maximum number of instructions of the program for a normalized pattern. The library does not
// report this number. countSteps compiles regular expressions with the standard library. It counts groupSteps for a
// name, a "*" and a "+", and at most one instruction for each other byte. A part with a modifier that repeats it occurs
// twice in the program (URL Pattern standard, "generate a regular expression and name list").
func countSteps(normalized string) (int, error) {
	steps := frameSteps
	previous, brace := 0, 0 // the steps of the previous part, and the steps before the last "{"
	inName := false
	for i := 0; i < len(normalized); i++ {
		c := normalized[i]
		if inName = inName && isNameByte(c); inName {
			if c >= 0x80 { // such a byte is not always a part of the name
				steps++
			}
			continue
		}
		part := 1
		switch c {
		case ':':
			part, inName = groupSteps, true
		case '(':
			group := normalized[i : i+paths.GroupLength(normalized[i:])]
			var err error
			if part, err = programSteps(group); err != nil {
				return 0, err
			}
			i += len(group) - 1
		case '*', '+': // either a modifier, or a part of its own that a modifier can follow
			steps += previous
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
		previous = part
	}
	return steps, nil
}

// isNameByte reports whether a byte can be part of a name, except at its beginning.
func isNameByte(c byte) bool {
	return c == '_' || c == '$' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= 0x80
}

// programSteps returns the number of instructions in a regular expression's program.
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
