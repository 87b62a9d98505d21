package api

import (
	"net/url"
	"strings"
)

// AccountPath is embedded in the In of an operation of an account. Names in
// paths are bounded loosely, here and in the groups: what is no name of anything
// is a 404, like a name that nothing has; what is too long for the table a 400.
type AccountPath struct {
	AccountName string `path:"accountName" maxLength:"256" doc:"The account's name."`
}

// ProjectPath is embedded in the In of an operation of a project.
type ProjectPath struct {
	AccountPath
	ProjectName string `path:"projectName" maxLength:"256" doc:"The project's name."`
}

// EscapePath percent-encodes a decoded path. Which slashes were encoded before
// can't be known any more.
func EscapePath(path string) string { return (&url.URL{Path: path}).EscapedPath() }

// escaped percent-encodes a decoded path as an operation's route needs it: what
// a client wrote as one segment, and arrives as several, is one again if only
// then a route fits.
func (s *Server) escaped(path string) string {
	segments := strings.Split(path, "/")
	trimmed := segments
	if len(segments) > 1 && segments[len(segments)-1] == "" {
		trimmed = segments[:len(segments)-1] // a path may end in a slash
	}
	for _, pattern := range s.deep {
		joined, ok := pattern.join(trimmed)
		if ok && !s.fits(trimmed) {
			return joined
		}
	}
	return EscapePath(path)
}

// fits reports whether segments are a path of a route as they are.
func (s *Server) fits(segments []string) bool {
	for _, pattern := range s.paths {
		if len(pattern) == len(segments) && same(segments, pattern) {
			return true
		}
	}
	return false
}

// deepPath is the path of a route with a parameter whose values may hold slashes.
type deepPath struct {
	segments []string
	slashed  int // the index of the parameter
}

// join makes the path of the pattern: the parameter takes all segments that are
// too many.
func (p deepPath) join(segments []string) (string, bool) {
	after := len(p.segments) - p.slashed - 1
	if len(segments) <= len(p.segments) || !same(segments[:p.slashed], p.segments[:p.slashed]) ||
		!same(segments[len(segments)-after:], p.segments[p.slashed+1:]) {
		return "", false
	}
	parts := append([]string{}, segments[:p.slashed]...)
	parts = append(parts, strings.Join(segments[p.slashed:len(segments)-after], "/"))
	parts = append(parts, segments[len(segments)-after:]...)
	for n, text := range parts {
		parts[n] = url.PathEscape(text)
	}
	return strings.Join(parts, "/"), true
}

// same reports whether segments are those of a pattern: parameters take any.
func same(segments, pattern []string) bool {
	for i, part := range pattern {
		if !strings.HasPrefix(part, "{") && part != segments[i] {
			return false
		}
	}
	return true
}
