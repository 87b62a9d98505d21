// Package router finds the route that a request's method and path belong to,
// in the two path modes of contract 4.1: OpenAPI templates and URL patterns.
//
// It works on escaped paths, so that "feature%2Fx" is one segment (contract
// 1.1), and knows nothing of requests: it is given strings and answers the
// number of a route. Read this file first, then template.go (one tree of
// segments a method), pattern.go (the URL Pattern standard, by library) and
// normalise.go (what a path looks like before it is matched).
//
// Rules: a literal goes before a parameter, segment by segment from the left
// (OpenAPI 3.1, "Path Templating Matching"); OpenAPI routes go before URL
// patterns, which are tried in the order of their declaration. A request whose
// method has no route under the most literal template falls to a less literal
// one that has: routes are operations here, not paths.
package router

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/gatewright/gatewright/shared/project"
)

// maxParams is how many parameters one path may have.
const maxParams = 16

// Router finds routes. It is built by Add and then only read, by any number of
// goroutines. The zero value is empty and ready for Add.
type Router struct {
	methods map[string]*methodRoutes
}

// methodRoutes are all routes of one method.
type methodRoutes struct {
	root     node
	patterns []pattern
}

// Match is what the parameters of a matched path hold. The zero value has no
// parameters. It refers to the path that was matched and needs no memory of
// its own, except for URL patterns.
type Match struct {
	names  []string
	values [maxParams]string
	groups map[string]string
}

// Raw returns a parameter as it stands in the path, with its escapes, and
// whether the route has such a parameter.
func (m *Match) Raw(name string) (string, bool) {
	if i := slices.Index(m.names, name); i >= 0 {
		return m.values[i], true
	}
	value, ok := m.groups[name]
	return value, ok
}

// Value returns a parameter without its escapes, "" for an unknown one.
func (m *Match) Value(name string) string {
	raw, _ := m.Raw(name)
	value, err := url.PathUnescape(raw)
	if err != nil {
		// The path was checked before it was matched, and a parameter never
		// ends within an escape: only a URL pattern's group could.
		return raw
	}
	return value
}

// Names returns the parameters' names, in no particular order.
func (m *Match) Names() []string {
	return slices.AppendSeq(slices.Clone(m.names), maps.Keys(m.groups))
}

// Add declares that method and path lead to a route. The first of two equal
// declarations wins. It fails for a path that can't be understood; the text
// says what to do.
func (r *Router) Add(method, path string, mode project.PathMode, route int) error {
	if r.methods == nil {
		r.methods = make(map[string]*methodRoutes)
	}
	routes := r.methods[method]
	if routes == nil {
		routes = &methodRoutes{root: node{route: none}}
		r.methods[method] = routes
	}
	switch mode {
	case project.OpenAPIPath, "":
		t, err := parseTemplate(path)
		if err != nil {
			return err
		}
		routes.root.add(t, route)
	case project.URLPattern:
		p, err := parsePattern(path, route)
		if err != nil {
			return err
		}
		routes.patterns = append(routes.patterns, p)
	default:
		return fmt.Errorf("the path mode is unknown: write %q or %q", project.OpenAPIPath, project.URLPattern)
	}
	return nil
}

// Find returns the route of a method and a path as Normalise leaves it, and
// fills m with the parameters.
func (r *Router) Find(method, path string, m *Match) (route int, ok bool) {
	routes := r.methods[method]
	if routes == nil || path == "" || path[0] != '/' {
		return 0, false
	}
	if leaf := routes.root.find(path, 1, m, 0); leaf != nil {
		m.names = leaf.names
		return leaf.route, true
	}
	for i := range routes.patterns {
		if groups, ok := routes.patterns[i].match(path); ok {
			*m = Match{groups: groups}
			return routes.patterns[i].route, true
		}
	}
	return 0, false
}

// Allowed returns the methods that have a route at path, in alphabetical order.
func (r *Router) Allowed(path string) []string {
	var allowed []string
	for method := range r.methods {
		var m Match
		if _, ok := r.Find(method, path, &m); ok {
			allowed = append(allowed, method)
		}
	}
	slices.Sort(allowed)
	return allowed
}

// HasParam reports whether a path that Add accepts has a parameter of that
// name. The unnamed groups of a URL pattern are called "0", "1" and so on.
func HasParam(path string, mode project.PathMode, name string) bool {
	if mode == project.URLPattern {
		p, err := parsePattern(path, 0)
		return err == nil && p.has(name)
	}
	t, err := parseTemplate(path)
	return err == nil && slices.Contains(t.names, name)
}

// Reserved is where the gateway's own routes are: no project's route can be
// reached there.
const Reserved = "/__gatewright/"

// IsReserved reports whether a path belongs to the gateway itself.
func IsReserved(path string) bool {
	return strings.HasPrefix(path, Reserved) || path == Reserved[:len(Reserved)-1]
}
