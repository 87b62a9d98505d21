// Package lazy delays the creation of package variables to their first use. Variables that are created at
// import delay every command of the client (docs/decisions/0068-the-server-is-a-binary-of-its-own.md).
//
// It is not a cache: each value is created once and kept until the process ends.
package lazy

import (
	"regexp"
	"sync"
)

// Regexp returns a function that compiles the expression at its first call and returns it. Declare var name =
// lazy.Regexp(`^[a-z]+$`), and use name().MatchString. The function is safe for concurrent use. It panics if the
// expression is invalid; internal/repolint checks all expressions.
func Regexp(expression string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })
}
