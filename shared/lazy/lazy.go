// Package lazy has what is made when it is first used, and not as its package is imported: every command of the client
// waits for the latter, whatever was typed (docs/decisions/0068-the-server-is-a-binary-of-its-own.md).
//
// What it is not: a cache. What is made stays, and there is one of it.
package lazy

import (
	"regexp"
	"sync"
)

// Regexp compiles an expression at its first use: var name = lazy.Regexp(`^[a-z]+$`), and then name().MatchString. One that is none panics
// there; internal/house compiles all of them. It is safe for concurrent use.
func Regexp(expression string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })
}
