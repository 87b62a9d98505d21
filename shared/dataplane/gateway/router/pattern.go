package router

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	urlpattern "github.com/dunglas/go-urlpattern"

	"github.com/gatewright/gatewright/shared/format/paths"
)

// pattern is a path in the syntax of the URL Pattern standard (https://urlpattern.spec.whatwg.org).
// The library uses RE2, so the time of a match is linear in the length of the path.
type pattern struct {
	compiled *urlpattern.URLPattern
	// prefix is the beginning of every path that can match. The library takes about 1.7 µs to reject
	// a path (docs/decisions/0012-url-patterns.md); comparing the prefix takes almost no time.
	prefix string
	routes pathRoutes
}

func parsePattern(path string) (pattern, error) {
	if path == "" || strings.IndexByte("/*{(", path[0]) < 0 {
		return pattern{}, errors.New(`start the URL pattern with "/": it is matched with the path alone`)
	}
	path, err := paths.Pattern(path)
	if err != nil {
		return pattern{}, fmt.Errorf("no request has such a path: %w", err)
	}
	compiled, err := (&urlpattern.URLPatternInit{Pathname: &path}).New(nil)
	if err != nil {
		return pattern{},
			errors.New("it does not follow the URL Pattern standard, or its regular expression is none of RE2's")
	}
	if IsReserved(compiled.Pathname()) {
		return pattern{}, errReserved
	}
	return pattern{compiled: compiled, prefix: literalPrefix(compiled.Pathname())}, nil
}

// literalPrefix returns the text before the first group. The slash before a group
// belongs to the group, because it is absent if an optional group is absent.
func literalPrefix(pathname string) string {
	if i := strings.IndexAny(pathname, `:*({\`); i >= 0 {
		return strings.TrimSuffix(pathname[:i], "/")
	}
	return pathname
}

func (p *pattern) match(path string) (map[string]string, bool) {
	if !strings.HasPrefix(path, p.prefix) {
		return nil, false
	}
	result := p.compiled.ExecInit(&urlpattern.URLPatternInit{Pathname: &path})
	if result == nil {
		return nil, false
	}
	return result.Pathname.Groups, true
}

// hasGroup reports whether the pattern can have a group of that name. The library returns names only with
// a match, so hasGroup searches the normalized pattern. It treats an escaped colon like the colon of a
// group, so it can return true for a name that is not a group, but never false for the name of a group.
func (p *pattern) hasGroup(name string) bool {
	text := p.compiled.Pathname()
	if n, err := strconv.Atoi(name); err == nil {
		return n >= 0 && n < strings.Count(text, "*")+strings.Count(text, "(")
	}
	for {
		_, after, found := strings.Cut(text, ":"+name)
		if !found {
			return false
		}
		next, _ := utf8.DecodeRuneInString(after)
		if !unicode.IsLetter(next) && !unicode.IsDigit(next) && next != '_' && next != '$' {
			return true
		}
		text = after
	}
}
