package project

import (
	"fmt"
	"slices"
	"strings"
)

// maxComparisons bounds the time of warnOfReachable: of segments, some 20 ms.
const maxComparisons = 4 << 20

// warnOfReachable tells what a project gives up that has paths preserved: which
// routes an upstream serves to requests of another one, if it decodes encoded
// slashes or cuts path parameters off. Where it can't be sure, with URL patterns
// and parameters that are a part of a segment, it tells too much.
func (c *compiler) warnOfReachable() {
	left := maxComparisons
	outlines := make([]outline, len(c.artifact.Routes))
	for i, r := range c.artifact.Routes {
		outlines[i] = outlineOf(r.Path, r.PathMode)
	}
	for i := range c.artifact.Routes {
		target := &c.artifact.Routes[i]
		var through []*Route
		for j := range c.artifact.Routes {
			other := &c.artifact.Routes[j]
			if i == j || readsAs(other.Method) != readsAs(target.Method) {
				continue
			}
			if outlines[j].mayRead(outlines[i], &left) {
				through = append(through, other)
			}
		}
		if left < 0 {
			c.warn(settingsFile, pointer("pathNormalisation"), "Not all routes are compared with each other, there are too many: take each for one that is reachable through the others, or write %q.", "strict")
			return
		}
		if len(through) > 0 {
			c.warn(target.Source.File, target.Source.Pointer, "%s", reachable(target, through))
		}
	}
}

// readsAs is the method whose routes a method's requests may have.
func readsAs(method string) string {
	if method == "HEAD" {
		return "GET"
	}
	return method
}

func reachable(target *Route, through []*Route) string {
	first := through[0]
	names := printable(first.Method+" "+first.Path) + " in " + first.Source.File
	if more := len(through) - 1; more > 0 {
		names += fmt.Sprintf(" and %d more", more)
	}
	past := ""
	for _, name := range target.Inbound {
		if slices.ContainsFunc(through, func(r *Route) bool { return !slices.Contains(r.Inbound, name) }) {
			past = ", past its policy " + quote(name)
			break
		}
	}
	return fmt.Sprintf(`This route is reachable through %s%s, in an upstream that decodes "%%2F" or cuts ";" off: %s has pathNormalisation "preserve". Make sure that the upstream does neither.`,
		names, past, settingsFile)
}

// outline is what a route's path looks like to mayRead.
type outline struct {
	segments []string // without escapes, "" for one that a parameter is in
	open     bool     // anything may follow
}

func outlineOf(path string, mode PathMode) outline {
	var s outline
	path, _ = canonical(path, mode) // a wrong one has failed the build
	if mode == URLPattern {
		if i := strings.IndexAny(path, `:*({\`); i >= 0 {
			s.open = true // from the last slash before it: it may be optional
			if path = path[:max(0, strings.LastIndexByte(path[:i], '/'))]; path == "" {
				return s
			}
		}
	}
	for segment := range strings.SplitSeq(strings.TrimPrefix(path, "/"), "/") {
		if strings.Contains(segment, "{") {
			segment = ""
		} else if segment == "" {
			segment = "/" // that of a trailing slash
		}
		s.segments = append(s.segments, percentDecoded(segment))
	}
	return s
}

// mayRead reports whether some path of s may be read as one of other that it is not
// as it stands: a parameter of s holds what are segments of other once slashes
// are decoded, or a literal of other once path parameters are cut off.
func (s outline) mayRead(other outline, left *int) bool {
	// at[j] tells that what is before takes j segments of other, hidden[j] that a
	// parameter hides something there.
	n := len(other.segments)
	at, hidden := make([]bool, n+1), make([]bool, n+1)
	at[0] = true
	for i, segment := range s.segments {
		nextAt, nextHidden := make([]bool, n+1), make([]bool, n+1)
		for j := range n + 1 {
			*left -= 1 + n - j
			switch {
			case *left < 0:
				return false
			case !at[j]:
			case j == n && other.open:
				// Whatever follows is its, unless s takes it as it stands.
				if hidden[j] || slices.Contains(s.segments[i:], "") {
					return true
				}
			case j == n:
			case segment != "":
				if other.segments[j] == segment || other.segments[j] == "" {
					nextAt[j+1] = true
					nextHidden[j+1] = nextHidden[j+1] || hidden[j]
				}
			default:
				// None are left of one that is nothing but path parameters.
				for end := j; end <= n; end++ {
					nextAt[end] = true
					nextHidden[end] = nextHidden[end] || hidden[j] || end != j+1 || other.segments[j] != ""
				}
			}
		}
		at, hidden = nextAt, nextHidden
	}
	for j := range n + 1 {
		if at[j] && (s.open && j < n || j == n && hidden[j]) {
			return true
		}
	}
	return false
}
