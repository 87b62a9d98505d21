package project

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gatewright/gatewright/shared/gateway/paths"
)

// maxComparisons bounds the time of warnOfReachable: of segments, some 20 ms.
const maxComparisons = 4 << 20

// warnOfReachable tells what a project gives up that has paths preserved: which
// routes an upstream serves to requests of another one, if it decodes encoded
// slashes or cuts path parameters off. Where it can't be sure, with URL patterns
// and parameters that are a part of a segment, it tells too much.
//
// A route that is reached past one of its policies is told by itself, before all
// other warnings. The others only see requests that they did not expect: they are
// told together, at the route through which most of them are reached.
func (c *compiler) warnOfReachable() {
	left := maxComparisons
	outlines := make([]outline, len(c.artifact.Routes))
	for i, r := range c.artifact.Routes {
		outlines[i] = outlineOf(r.Path, r.PathMode)
	}
	behind := make([][]*Route, len(c.artifact.Routes)) // what is reached through a route, past no policy
	for i := range c.artifact.Routes {
		target := &c.artifact.Routes[i]
		var through []int
		for j := range c.artifact.Routes {
			if i == j || readsAs(c.artifact.Routes[j].Method) != readsAs(target.Method) {
				continue
			}
			if outlines[j].mayRead(outlines[i], &left) {
				through = append(through, j)
			}
		}
		if left < 0 {
			c.warnFirst(settingsFile, pointer("pathNormalisation"), "Not all routes are compared with each other, there are too many: take each for one that is reachable through the others, or write %q.", "strict")
			return
		}
		if !c.warnOfWayPast(target, through) {
			for _, j := range through {
				behind[j] = append(behind[j], target)
			}
		}
	}
	c.warnTogether(behind)
}

// warnOfWayPast warns of a route that is reached past one of its policies, and
// reports whether it is.
func (c *compiler) warnOfWayPast(target *Route, through []int) bool {
	for _, name := range target.Inbound {
		past := slices.DeleteFunc(slices.Clone(through), func(j int) bool { return slices.Contains(c.artifact.Routes[j].Inbound, name) })
		if len(past) == 0 {
			continue
		}
		c.warnFirst(target.Source.File, target.Source.Pointer, "This route is reachable past its policy %s, through %s, %s.",
			quote(name), c.listed(past), whoReads)
		return true
	}
	return false
}

// warnTogether tells each route that is left once, at the route through which most
// are reached. behind has what is reached through each route.
func (c *compiler) warnTogether(behind [][]*Route) {
	order := make([]int, 0, len(behind))
	for i := range behind {
		order = append(order, i)
	}
	slices.SortStableFunc(order, func(a, b int) int { return len(behind[b]) - len(behind[a]) })
	told := map[*Route]bool{}
	for _, i := range order {
		untold := slices.DeleteFunc(behind[i], func(r *Route) bool { return told[r] })
		if len(untold) == 0 {
			continue
		}
		for _, r := range untold {
			told[r] = true
		}
		at := &c.artifact.Routes[i].Source
		c.warn(at.File, at.Pointer, "Through this route %s reachable, %s. No policy is passed by.", reached(untold), whoReads)
	}
}

// whoReads is under which condition a route is reachable through another.
const whoReads = `in an upstream that decodes "%2F" or cuts ";" off: ` + settingsFile + ` has pathNormalisation "preserve". Make sure that the upstream does neither`

// listed names the first of some routes, and counts the others.
func (c *compiler) listed(routes []int) string {
	first := &c.artifact.Routes[routes[0]]
	text := named(first) + " in " + first.Source.File
	if more := len(routes) - 1; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

func named(r *Route) string { return printable(r.Method + " " + r.Path) }

// reached is the subject of a sentence, with its verb.
func reached(routes []*Route) string {
	if len(routes) == 1 {
		return named(routes[0]) + " is"
	}
	const shown = 3
	var names []string
	for _, r := range routes[:min(len(routes), shown)] {
		names = append(names, named(r))
	}
	if more := len(routes) - shown; more > 0 {
		return fmt.Sprintf("%s and %d more routes are", strings.Join(names, ", "), more)
	}
	return strings.Join(names, ", ") + " are"
}

// readsAs is the method whose routes a method's requests may have.
func readsAs(method string) string {
	if method == "HEAD" {
		return "GET"
	}
	return method
}

// outline is what a route's path looks like to mayRead.
type outline struct {
	segments []segment
	open     bool // anything may follow
}

// segment is one of a route's path.
type segment struct {
	text string // without escapes, "" for one that a parameter is in
	// hides tells that the text itself has another reading: "admin;p" is "admin"
	// too, and so is "{name}.json" where the name is "admin;p".
	hides bool
}

// takes reports whether a segment of a request's path may be this one.
func (s segment) takes(other segment) bool { return s.text == "" || s.text == other.text }

// isAny reports whether a segment may hold, or be read as, any text.
func (s segment) isAny() bool { return s.text == "" || s.hides }

// isWhole reports whether a segment is a parameter and nothing else.
func (s segment) isWhole() bool { return s.text == "" && !s.hides }

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
	for text := range strings.SplitSeq(strings.TrimPrefix(path, "/"), "/") {
		switch {
		case strings.Contains(text, "{"):
			s.segments = append(s.segments, segment{hides: strings.IndexByte(text, '{') > 0 || strings.IndexByte(text, '}') < len(text)-1})
		case text == "":
			s.segments = append(s.segments, segment{text: "/"}) // that of a trailing slash
		default:
			s.segments = append(s.segments, segment{text: percentDecoded(text), hides: paths.Readings("/"+text) != nil})
		}
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
	for i, part := range s.segments {
		nextAt, nextHidden := make([]bool, n+1), make([]bool, n+1)
		for j := range n + 1 {
			*left -= 1 + n - j
			switch {
			case *left < 0:
				return false
			case !at[j]:
			case j == n && other.open && (hidden[j] || s.open || slices.ContainsFunc(s.segments[i:], segment.isAny)):
				return true // whatever follows is its
			case part.isAny():
				// None are left of one that is nothing but path parameters, nor is its slash.
				for end := j; end <= n; end++ {
					nextAt[end] = true
					nextHidden[end] = nextHidden[end] || hidden[j] || part.hides || end != j+1 || !other.segments[j].isWhole()
				}
			case j < n && other.segments[j].takes(part):
				nextAt[j+1] = true
				nextHidden[j+1] = nextHidden[j+1] || hidden[j]
			}
		}
		at, hidden = nextAt, nextHidden
	}
	return at[n] && hidden[n] || s.open && slices.Contains(at, true)
}
