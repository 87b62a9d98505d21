package project

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gatewright/gatewright/shared/format/paths"
)

// maxComparisons bounds the time of warnReachable, in comparisons of segments: some 20 ms.
const maxComparisons = 4 << 20

// warnReachable warns about the risk of preserved paths: requests to one route that an upstream serves
// as another route, if it decodes encoded slashes or cuts off path parameters. For URL patterns, and
// for parameters that are a part of a segment, the check is not exact and can warn without need.
//
// A route whose policy can be bypassed gets its own warning, before all other warnings. The other reachable routes
// only receive requests that they do not expect. Each of them is reported in one warning, at the route through which
// most of them are reachable. If there are too many routes to compare, a warning says so.
func (c *compiler) warnReachable() {
	remaining := maxComparisons
	outlines := make([]outline, len(c.artifact.Routes))
	for i, r := range c.artifact.Routes {
		outlines[i] = newOutline(r.Path, r.PathMode)
	}
	// for each route, the routes that are reachable through it without bypassing a policy
	reachable := make([][]*Route, len(c.artifact.Routes))
	for i := range c.artifact.Routes {
		target := &c.artifact.Routes[i]
		var through []int // the indexes of the routes through which target is reachable
		for j := range c.artifact.Routes {
			if i == j || effectiveMethod(c.artifact.Routes[j].Method) != effectiveMethod(target.Method) {
				continue
			}
			if outlines[j].canReach(outlines[i], &remaining) {
				through = append(through, j)
			}
		}
		if remaining < 0 {
			c.warnFirst(settingsFile, pointer("pathNormalisation"), "Not all routes are compared with each other, there are "+
				"too many: take each for one that is reachable through the others, or write %q.", "strict")
			return
		}
		if !c.warnPolicyBypass(target, through) {
			for _, j := range through {
				reachable[j] = append(reachable[j], target)
			}
		}
	}
	c.warnReachableRoutes(reachable)
}

// warnPolicyBypass reports whether one of the target's policies can be bypassed through other routes, and warns if so.
// through has the indexes of the routes through which target is reachable.
func (c *compiler) warnPolicyBypass(target *Route, through []int) bool {
	for _, name := range target.Inbound {
		bypassing := slices.DeleteFunc(slices.Clone(through), func(j int) bool {
			return slices.Contains(c.artifact.Routes[j].Inbound, name)
		})
		if len(bypassing) == 0 {
			continue
		}
		c.warnFirst(target.Source.File, target.Source.Pointer, "This route is reachable past its policy %s, through %s, %s.",
			quote(name), c.describeRoutes(bypassing), reachableCondition)
		return true
	}
	return false
}

// warnReachableRoutes reports each remaining route once, at the route through which most
// routes are reachable. reachable[i] has the routes that are reachable through route i.
func (c *compiler) warnReachableRoutes(reachable [][]*Route) {
	order := make([]int, 0, len(reachable))
	for i := range reachable {
		order = append(order, i)
	}
	slices.SortStableFunc(order, func(a, b int) int { return len(reachable[b]) - len(reachable[a]) })
	reported := map[*Route]bool{}
	for _, i := range order {
		unreported := slices.DeleteFunc(reachable[i], func(r *Route) bool { return reported[r] })
		if len(unreported) == 0 {
			continue
		}
		for _, r := range unreported {
			reported[r] = true
		}
		at := &c.artifact.Routes[i].Source
		c.warn(at.File, at.Pointer, "Through this route %s reachable, %s. No policy is passed by.", routesSubject(unreported),
			reachableCondition)
	}
}

// reachableCondition is the condition for a route to be reachable through another one.
const reachableCondition = `in an upstream that decodes "%2F" or cuts ";" off: ` + settingsFile +
	` has pathNormalisation "preserve". Make sure that the upstream does neither`

// describeRoutes names the first of some routes, and counts the others.
func (c *compiler) describeRoutes(routes []int) string {
	first := &c.artifact.Routes[routes[0]]
	text := routeName(first) + " in " + first.Source.File
	if more := len(routes) - 1; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

func routeName(r *Route) string { return printable(r.Method + " " + r.Path) }

// routesSubject returns the subject and verb of a sentence about routes.
func routesSubject(routes []*Route) string {
	if len(routes) == 1 {
		return routeName(routes[0]) + " is"
	}
	const shown = 3
	var names []string
	for _, r := range routes[:min(len(routes), shown)] {
		names = append(names, routeName(r))
	}
	if more := len(routes) - shown; more > 0 {
		return fmt.Sprintf("%s and %d more routes are", strings.Join(names, ", "), more)
	}
	return strings.Join(names, ", ") + " are"
}

// effectiveMethod returns GET for HEAD, because routes for GET also serve HEAD. It returns other methods unchanged.
func effectiveMethod(method string) string {
	if method == "HEAD" {
		return "GET"
	}
	return method
}

// outline is a simplified path of a route for canReach.
type outline struct {
	segments  []segment
	openEnded bool // anything can follow
}

// segment is one segment of a route's path.
type segment struct {
	text string // without escapes, or "" if the segment contains a parameter
	// isAmbiguous reports whether upstreams can interpret the segment differently: "admin;p" also
	// as "admin", and "{name}.json" also as "admin" if the client sends "admin;p" as the name.
	isAmbiguous bool
}

// matches reports whether the segment s of a route's path matches the literal segment other.
func (s segment) matches(other segment) bool { return s.text == "" || s.text == other.text }

// isAny reports whether canReach treats the segment as any text: a parameter, or a segment
// that upstreams can interpret differently.
func (s segment) isAny() bool { return s.text == "" || s.isAmbiguous }

// isParameter reports whether a segment is only a parameter.
func (s segment) isParameter() bool { return s.text == "" && !s.isAmbiguous }

// newOutline returns the outline of a route's path.
func newOutline(path string, mode PathMode) outline {
	var o outline
	path, _ = canonical(path, mode) // an invalid path has failed the build
	if mode == URLPattern {
		if i := strings.IndexAny(path, `:*({\`); i >= 0 {
			// Use only the segments before the special character. The rest
			// of the pattern can be optional, so anything can follow.
			o.openEnded = true
			if path = path[:max(0, strings.LastIndexByte(path[:i], '/'))]; path == "" {
				return o
			}
		}
	}
	for text := range strings.SplitSeq(strings.TrimPrefix(path, "/"), "/") {
		switch {
		case strings.Contains(text, "{"):
			o.segments = append(o.segments, segment{isAmbiguous: strings.IndexByte(text, '{') > 0 ||
				strings.IndexByte(text, '}') < len(text)-1})
		case text == "":
			// An empty segment, as after a trailing slash. No other segment has this text, and "" would be a parameter.
			o.segments = append(o.segments, segment{text: "/"})
		default:
			o.segments = append(o.segments,
				segment{text: percentDecode(text), isAmbiguous: paths.Interpretations("/"+text) != nil})
		}
	}
	return o
}

// canReach reports whether an upstream could interpret some path of o as a path of other, although the gateway
// does not. There are two cases: a parameter of o contains several segments of other after the upstream has
// decoded slashes, or it contains a literal of other after the upstream has cut off path parameters. remaining
// is the number of comparisons that canReach can still make. If it becomes negative, canReach returns false.
func (o outline) canReach(other outline, remaining *int) bool {
	// matched[j] reports whether the segments of o so far can match the first j segments of other.
	// upstreamOnly[j] reports whether one of these matches exists only in the upstream's interpretation.
	n := len(other.segments)
	matched, upstreamOnly := make([]bool, n+1), make([]bool, n+1)
	matched[0] = true
	for i, part := range o.segments {
		nextMatched, nextUpstreamOnly := make([]bool, n+1), make([]bool, n+1)
		for j := range n + 1 {
			*remaining -= 1 + n - j
			switch {
			case *remaining < 0:
				return false
			case !matched[j]:
			case j == n && other.openEnded && (upstreamOnly[j] || o.openEnded ||
				slices.ContainsFunc(o.segments[i:], segment.isAny)):
				return true // the open end of other matches the rest
			case part.isAny():
				// A segment that consists only of path parameters disappears, with its slash.
				for end := j; end <= n; end++ {
					nextMatched[end] = true
					nextUpstreamOnly[end] = nextUpstreamOnly[end] || upstreamOnly[j] || part.isAmbiguous || end != j+1 ||
						!other.segments[j].isParameter()
				}
			case j < n && other.segments[j].matches(part):
				nextMatched[j+1] = true
				nextUpstreamOnly[j+1] = nextUpstreamOnly[j+1] || upstreamOnly[j]
			}
		}
		matched, upstreamOnly = nextMatched, nextUpstreamOnly
	}
	return matched[n] && upstreamOnly[n] || o.openEnded && slices.Contains(matched, true)
}
