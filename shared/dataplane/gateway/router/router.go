// Package router finds the route for a request's method and path, in the
// two path modes of contract 4.1: OpenAPI templates and URL patterns.
//
// It works with canonical paths (package paths), so "feature%2Fx" is one segment (contract 1.1). The package
// does not depend on http.Request: its input is strings, and its result is the number of a route. Read this file
// first, then template.go (the tree of segments) and pattern.go (the URL Pattern standard, with a library).
//
// Rules: a literal takes precedence over a parameter, segment by segment from the left (OpenAPI 3.1, "Path
// Templating Matching"). OpenAPI paths take precedence over URL patterns, which are tried in the order of their
// declaration. The router chooses the path first and then its method. If the path does not have the method, no
// other path is tried (contract 1.2, 405): otherwise "DELETE /admin" would be served by an open "/{name}" although
// a "GET /admin" requires a key. HEAD uses the route of GET if it has no route of its own (RFC 9110, section 9.1).
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

	"github.com/gatewright/gatewright/shared/format/paths"
	"github.com/gatewright/gatewright/shared/format/project"
)

// maxParams is the maximum number of parameters in one path.
const maxParams = 16

// Router finds routes. After the last call of Add it is read-only and safe for concurrent use. The zero value is empty
// and ready for Add.
type Router struct {
	root     node
	patterns []pattern
	budget   budget
}

// pathRoutes has the routes of a path, by method.
type pathRoutes struct{ byMethod map[string]endpoint }

// endpoint is the number of a route, with the route's names for the parameters of the path.
type endpoint struct {
	route int
	names []string
}

// add adds a route. If the method already has a route, add has no effect.
func (p *pathRoutes) add(method string, e endpoint) {
	if p.byMethod == nil {
		p.byMethod = make(map[string]endpoint)
	}
	if _, exists := p.byMethod[method]; !exists {
		p.byMethod[method] = e
	}
}

// Match has the parameters of a matched path. The zero value has no parameters. It
// refers to the path that was matched and allocates no memory, except for URL patterns.
type Match struct {
	names  []string
	values [maxParams]string
	groups map[string]string
}

// Raw returns a parameter with its escapes. In a segment that also has other text, such as {id}:run, it has only the
// escapes that are needed (paths.DecodePlain). Raw also reports whether the route has such a parameter.
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

// unescape decodes a part of a canonical path. It returns a text with an incomplete
// escape unchanged: only the group of a URL pattern can begin or end within an escape.
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

// Add adds a route for a method and a path. If the method and path already have a route, Add has no effect. It returns
// an error for an invalid path or mode, and for a URL pattern that exceeds a budget. The error's text says what to do.
func (r *Router) Add(method, path string, mode project.PathMode, route int) error {
	switch mode {
	case project.OpenAPIPath, "":
		t, err := parseTemplate(path)
		if err != nil {
			return err
		}
		r.root.addTemplate(t).add(method, endpoint{route, t.names})
	case project.URLPattern:
		if err := r.budget.countPattern(path); err != nil {
			return err
		}
		p, err := parsePattern(path)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(r.patterns, func(other pattern) bool {
			return other.compiled.Pathname() == p.compiled.Pathname()
		})
		if i < 0 {
			if err := r.budget.addSteps(p.compiled.Pathname()); err != nil {
				return err
			}
			i, r.patterns = len(r.patterns), append(r.patterns, p)
		}
		r.patterns[i].routes.add(method, endpoint{route: route})
	default:
		return fmt.Errorf("the path mode is unknown: write %q or %q", project.OpenAPIPath, project.URLPattern)
	}
	return nil
}

// Find returns the route of a method and a canonical path, and sets the parameters in m. It
// does not try URL patterns for a path that is too long for them (project.MaxMatchSteps).
func (r *Router) Find(method, path string, m *Match) (route int, ok bool) {
	routes := r.find(path, m)
	if routes == nil {
		return 0, false
	}
	e, ok := routes.byMethod[method]
	if !ok && method == http.MethodHead {
		e, ok = routes.byMethod[http.MethodGet]
	}
	m.names = e.names
	return e.route, ok
}

// find returns the routes of a path, nil for none. It sets m except the names, which depend on the route.
func (r *Router) find(path string, m *Match) *pathRoutes {
	m.names, m.groups = nil, nil
	if path == "" || path[0] != '/' {
		return nil
	}
	if n := r.root.find(path, 1, m, 0); n != nil {
		return &n.routes
	}
	if len(r.patterns) == 0 || !r.budget.allowsPath(path) {
		return nil
	}
	for i := range r.patterns {
		if groups, ok := r.patterns[i].match(path); ok {
			m.groups = groups
			return &r.patterns[i].routes
		}
	}
	return nil
}

// IsAmbiguous reports whether an upstream could interpret a canonical path as a path for which Find chooses another
// declared path. For example, Find chooses "/v1/{name}" for "/v1/admin%2Fusers", and an upstream that decodes the
// encoded slash serves "/v1/admin/users". A gateway that forwards such a path has applied the policies of the wrong
// route. IsAmbiguous does not depend on the method: if the other path has no route of the method, the project refuses
// the method there, so the gateway must not forward such a request either.
func (r *Router) IsAmbiguous(path string) bool {
	variants := paths.Interpretations(path)
	if len(variants) == 0 {
		return false
	}
	var m Match
	matched := r.find(path, &m)
	return slices.ContainsFunc(variants, func(variant string) bool {
		other := r.find(variant, &m)
		return other != nil && other != matched
	})
}

// Allowed returns the methods that have a route at path, in alphabetical order.
func (r *Router) Allowed(path string) []string {
	var m Match
	routes := r.find(path, &m)
	if routes == nil {
		return nil
	}
	return slices.Sorted(maps.Keys(routes.byMethod))
}

// HasParam reports whether a path that Add accepts has a parameter of that
// name. The unnamed groups of a URL pattern are called "0", "1" and so on.
func HasParam(path string, mode project.PathMode, name string) bool {
	return ParamChecker(path, mode)(name)
}

// ParamChecker returns a function that reports the same as HasParam, for many names of one path. The first call of that
// function parses the path.
func ParamChecker(path string, mode project.PathMode) func(name string) bool {
	parsed := sync.OnceValue(func() func(name string) bool {
		if mode == project.URLPattern {
			if len(path) > project.MaxPatternBytes {
				return func(string) bool { return false }
			}
			p, err := parsePattern(path)
			return func(name string) bool { return err == nil && p.hasGroup(name) }
		}
		t, err := parseTemplate(path)
		return func(name string) bool { return err == nil && slices.Contains(t.names, name) }
	})
	return func(name string) bool { return parsed()(name) }
}

// Reserved is the prefix of the gateway's own routes. Projects can't have routes below it.
const Reserved = "/__gatewright/"

var errReserved = errors.New("choose another one, since " + Reserved + " belongs to the gateway")

// IsReserved reports whether a path belongs to the gateway itself.
func IsReserved(path string) bool {
	return strings.HasPrefix(path, Reserved) || path == Reserved[:len(Reserved)-1]
}
