package router

import (
	"errors"
	"reflect"
	"strings"

	urlpattern "github.com/dunglas/go-urlpattern"

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
		return over("patterns", b.patterns, "Write routes as OpenAPI paths, or divide the project.")
	case len(path) > project.MaxPatternBytes:
		return over("pattern", len(path), "Shorten it, or write several routes.")
	case b.steps > project.MaxPatternsSteps:
		return over("all pattern steps", b.steps, "Write routes as OpenAPI paths, or divide the project.")
	}
	return nil
}

// spend refuses a compiled pattern that would take too long.
func (b *budget) spend(compiled *urlpattern.URLPattern) error {
	steps := programSteps(compiled)
	// One that is refused counts in part: the next ones shall be told of too, but
	// not compiled for ever.
	b.steps += min(steps, project.MaxPatternSteps)
	switch {
	case steps < 0:
		return errors.New("the cost of the URL pattern is unknown")
	case steps > project.MaxPatternSteps:
		return over("pattern steps", steps, "Shorten it, and repeat less: {1000} counts as a thousand.")
	case b.steps > project.MaxPatternsSteps:
		return over("all pattern steps", b.steps, "Write routes as OpenAPI paths, or divide the project.")
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

// programSteps is the number of instructions of the program that matches a
// pattern's path, -1 if the library has changed. It has no name for it, and to
// compile its regular expression again would need a copy of its own code.
func programSteps(compiled *urlpattern.URLPattern) int {
	v := reflect.ValueOf(compiled)
	for _, field := range []string{"pathname", "regularExpression", "prog", "Inst"} {
		if v.Kind() != reflect.Pointer || v.IsNil() {
			return -1
		}
		if v = v.Elem().FieldByName(field); !v.IsValid() {
			return -1
		}
	}
	if v.Kind() != reflect.Slice {
		return -1
	}
	return v.Len()
}
