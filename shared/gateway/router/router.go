// Package router finds the route that a request's method and path belong to,
// in the two path modes of contract 4.1: OpenAPI templates and URL patterns.
//
// It works on canonical paths (package paths), so that "feature%2Fx" is one segment
// (contract 1.1), and knows nothing of requests: it is given strings and answers
// the number of a route. Read this file first, then template.go (one tree of
// segments a method) and pattern.go (the URL Pattern standard, by library).
//
// Rules: a literal goes before a parameter, segment by segment from the left
// (OpenAPI 3.1, "Path Templating Matching"); OpenAPI routes go before URL
// patterns, which are tried in the order of their declaration. A request whose
// method has no route under the most literal template falls to a less literal
// one that has: routes are operations here, not paths. HEAD takes the route of GET
// where it has none of its own (RFC 9110, section 9.1).
package router

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/gatewright/gatewright/shared/gateway/paths"
	"github.com/gatewright/gatewright/shared/project"
)

// maxParams is how many parameters one path may have.
const maxParams = 16

// Router finds routes. It is built by Add and then only read, by any number of
// goroutines. The zero value is empty and ready for Add.
type Router struct {
	methods map[string]*methodRoutes
	budget  budget
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
	return unescape(raw)
}

// unescape decodes a part of a canonical path. Only a URL pattern's group could
// begin or end within an escape: that one stays as it is.
func unescape(text string) string {
	if strings.IndexByte(text, '%') < 0 {
		return text
	}
	if decoded, err := url.PathUnescape(text); err == nil {
		return decoded
	}
	return text
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
		if err := r.budget.admit(path); err != nil {
			return err
		}
		p, err := parsePattern(path, route)
		if err != nil {
			return err
		}
		if err := r.budget.spend(p.compiled); err != nil {
			return err
		}
		routes.patterns = append(routes.patterns, p)
	default:
		return fmt.Errorf("the path mode is unknown: write %q or %q", project.OpenAPIPath, project.URLPattern)
	}
	return nil
}

// Find returns the route of a method and a canonical path, and fills m with the
// parameters. A path that is too long for its URL patterns
// (project.MaxMatchSteps) has none.
func (r *Router) Find(method, path string, m *Match) (route int, ok bool) {
	if routes := r.methods[method]; routes != nil {
		if route, ok = routes.find(path, m, &r.budget); ok {
			return route, ok
		}
	}
	if method == http.MethodHead {
		return r.Find(http.MethodGet, path, m)
	}
	return 0, false
}

func (r *methodRoutes) find(path string, m *Match, budget *budget) (route int, ok bool) {
	if path == "" || path[0] != '/' {
		return 0, false
	}
	if leaf := r.root.find(path, 1, m, 0); leaf != nil {
		m.names = leaf.names
		return leaf.route, true
	}
	if len(r.patterns) == 0 || !budget.tries(path) {
		return 0, false
	}
	for i := range r.patterns {
		if groups, ok := r.patterns[i].match(path); ok {
			*m = Match{groups: groups}
			return r.patterns[i].route, true
		}
	}
	return 0, false
}

// Elsewhere reports whether an upstream that reads a canonical path in another way
// would serve another route than the one that Find has found: it decodes an encoded
// slash, and "/v1/{name}" of "/v1/admin%2Fusers" is "/v1/admin/users". Whoever
// sends such a path on has checked the policies of the wrong route.
func (r *Router) Elsewhere(method, path string, route int) bool {
	for _, reading := range paths.Readings(path) {
		var m Match
		if other, ok := r.Find(method, reading, &m); ok && other != route {
			return true
		}
	}
	return false
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
	return ParamsOf(path, mode)(name)
}

// ParamsOf is HasParam for many names: the path is understood once, with the
// first of them.
func ParamsOf(path string, mode project.PathMode) func(name string) bool {
	parsed := sync.OnceValue(func() func(name string) bool {
		if mode == project.URLPattern {
			if len(path) > project.MaxPatternBytes {
				return func(string) bool { return false }
			}
			p, err := parsePattern(path, 0)
			return func(name string) bool { return err == nil && p.has(name) }
		}
		t, err := parseTemplate(path)
		return func(name string) bool { return err == nil && slices.Contains(t.names, name) }
	})
	return func(name string) bool { return parsed()(name) }
}

// Reserved is where the gateway's own routes are: no project's route can be
// reached there.
const Reserved = "/__gatewright/"

var errReserved = errors.New("choose another one, since " + Reserved + " belongs to the gateway")

// IsReserved reports whether a path belongs to the gateway itself.
func IsReserved(path string) bool {
	return strings.HasPrefix(path, Reserved) || path == Reserved[:len(Reserved)-1]
}
