package api

import (
	"net/url"
	"strings"
)

// AccountPath is embedded in the In of an operation of an account. Parameters for names
// in paths have loose bounds, here and in the groups: an invalid name gets a 404, like
// a name that does not exist. A name that is too long for the table gets a 400.
type AccountPath struct {
	AccountName string `path:"accountName" maxLength:"256" doc:"The account's name."`
}

// ProjectPath is embedded in the In of an operation of a project.
type ProjectPath struct {
	AccountPath
	ProjectName string `path:"projectName" maxLength:"256" doc:"The project's name."`
}

// EscapePath percent-encodes a decoded path. It cannot restore slashes that were encoded before.
func EscapePath(path string) string { return (&url.URL{Path: path}).EscapedPath() }

// escapeForRoute percent-encodes a decoded path so that a route matches. If no route matches the segments, but
// the path of a route with a SlashParameter does, it also encodes the slashes in the value of this parameter.
func (s *Server) escapeForRoute(path string) string {
	segments := strings.Split(path, "/")
	trimmed := segments
	if len(segments) > 1 && segments[len(segments)-1] == "" {
		trimmed = segments[:len(segments)-1] // clients may add a slash to any path
	}
	for _, pattern := range s.slashPaths {
		joined, ok := pattern.join(trimmed)
		if ok && !s.matchesRoute(trimmed) {
			return joined
		}
	}
	return EscapePath(path)
}

// matchesRoute reports whether the path of a route matches the segments.
func (s *Server) matchesRoute(segments []string) bool {
	for _, pattern := range s.paths {
		if len(pattern) == len(segments) && matchesPattern(segments, pattern) {
			return true
		}
	}
	return false
}

// slashPath is the path of a route with a parameter whose values may contain slashes.
type slashPath struct {
	segments   []string
	slashIndex int // the index of the parameter
}

// join returns the escaped path if there are more segments than in the pattern and the segments match the
// pattern. The value of the slash parameter consists of its own segment and all additional segments.
func (p slashPath) join(segments []string) (string, bool) {
	after := len(p.segments) - p.slashIndex - 1
	if len(segments) <= len(p.segments) || !matchesPattern(segments[:p.slashIndex], p.segments[:p.slashIndex]) ||
		!matchesPattern(segments[len(segments)-after:], p.segments[p.slashIndex+1:]) {
		return "", false
	}
	parts := append([]string{}, segments[:p.slashIndex]...)
	parts = append(parts, strings.Join(segments[p.slashIndex:len(segments)-after], "/"))
	parts = append(parts, segments[len(segments)-after:]...)
	for n, text := range parts {
		parts[n] = url.PathEscape(text)
	}
	return strings.Join(parts, "/"), true
}

// matchesPattern reports whether segments match a pattern, which is not longer. Parameters match any segment.
func matchesPattern(segments, pattern []string) bool {
	for i, part := range pattern {
		if !strings.HasPrefix(part, "{") && part != segments[i] {
			return false
		}
	}
	return true
}
