// Package lazy delays the creation of package variables to their first use. Variables that are created at
// import delay every command of the client (docs/decisions/0068-the-server-is-a-binary-of-its-own.md).
//
// It is not a cache: each value is created once and kept until the process ends.
package lazy

import (
	"regexp"
	"sync"
)

// Regexp returns a function that compiles an expression at its first call: var name = lazy.Regexp(`^[a-z]+$`), and then name().MatchString.
// The function panics if the expression is invalid; internal/repolint compiles all of them. It is safe for concurrent use.
func Regexp(expression string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })
}
