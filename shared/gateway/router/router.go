// Package router finds the route that a request's method and path belong to,
// in the two path modes of contract 4.1: OpenAPI templates and URL patterns.
//
// It works on canonical paths (package paths), so that "feature%2Fx" is one segment
// (contract 1.1), and knows nothing of requests: it is given strings and answers
// the number of a route. Read this file first, then template.go (the tree of
// segments) and pattern.go (the URL Pattern standard, by library).
//
// Rules: a literal goes before a parameter, segment by segment from the left
// (OpenAPI 3.1, "Path Templating Matching"); OpenAPI paths go before URL
// patterns, which are tried in the order of their declaration. The path is chosen
// first and then its method: one that the path does not have is found nowhere else
// (contract 1.2, 405). Were it to fall to a less literal path, "DELETE /admin" would
// be served by an open "/{name}" beside a "GET /admin" that asks for a key. HEAD
// takes the route of GET where it has none of its own (RFC 9110, section 9.1).
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
	root     node
	patterns []pattern
	budget   budget
}

// place is where a path leads: its routes, by method.
type place struct{ routes map[string]endpoint }

// endpoint is a route with the names that it has for the parameters of its path.
type endpoint struct {
	route int
	names []string
}

// add declares a route. Where the method has one already, that one stays.
func (p *place) add(method string, e endpoint) {
	if p.routes == nil {
		p.routes = make(map[string]endpoint)
	}
	if _, twice := p.routes[method]; !twice {
		p.routes[method] = e
	}
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
	switch mode {
	case project.OpenAPIPath, "":
		t, err := parseTemplate(path)
		if err != nil {
			return err
		}
		r.root.at(t).add(method, endpoint{route, t.names})
	case project.URLPattern:
		if err := r.budget.admit(path); err != nil {
			return err
		}
		p, err := parsePattern(path)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(r.patterns, func(other pattern) bool { return other.compiled.Pathname() == p.compiled.Pathname() })
		if i < 0 {
			if err := r.budget.spend(p.compiled.Pathname()); err != nil {
				return err
			}
			i, r.patterns = len(r.patterns), append(r.patterns, p)
		}
		r.patterns[i].place.add(method, endpoint{route: route})
	default:
		return fmt.Errorf("the path mode is unknown: write %q or %q", project.OpenAPIPath, project.URLPattern)
	}
	return nil
}

// Find returns the route of a method and a canonical path, and fills m with the
// parameters. A path that is too long for its URL patterns
// (project.MaxMatchSteps) has none.
func (r *Router) Find(method, path string, m *Match) (route int, ok bool) {
	at := r.find(path, m)
	if at == nil {
		return 0, false
	}
	e, ok := at.routes[method]
	if !ok && method == http.MethodHead {
		e, ok = at.routes[http.MethodGet]
	}
	m.names = e.names
	return e.route, ok
}

// find returns the place of a path, nil for none, and fills m with all but the
// names, which are a route's.
func (r *Router) find(path string, m *Match) *place {
	m.names, m.groups = nil, nil
	if path == "" || path[0] != '/' {
		return nil
	}
	if n := r.root.find(path, 1, m, 0); n != nil {
		return &n.place
	}
	if len(r.patterns) == 0 || !r.budget.tries(path) {
		return nil
	}
	for i := range r.patterns {
		if groups, ok := r.patterns[i].match(path); ok {
			m.groups = groups
			return &r.patterns[i].place
		}
	}
	return nil
}

// Elsewhere reports whether an upstream that reads a canonical path in another way
// would serve another path of the project than the one that Find chooses: it decodes
// an encoded slash, and "/v1/{name}" of "/v1/admin%2Fusers" is "/v1/admin/users".
// Whoever sends such a path on has checked the policies of the wrong route. Whether
// the other path has a route of the same method makes no difference: without one
// the project refuses what would reach it.
func (r *Router) Elsewhere(path string) bool {
	readings := paths.Readings(path)
	if len(readings) == 0 {
		return false
	}
	var m Match
	chosen := r.find(path, &m)
	return slices.ContainsFunc(readings, func(reading string) bool {
		other := r.find(reading, &m)
		return other != nil && other != chosen
	})
}

// Allowed returns the methods that have a route at path, in alphabetical order.
func (r *Router) Allowed(path string) []string {
	var m Match
	at := r.find(path, &m)
	if at == nil {
		return nil
	}
	return slices.Sorted(maps.Keys(at.routes))
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
			p, err := parsePattern(path)
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
