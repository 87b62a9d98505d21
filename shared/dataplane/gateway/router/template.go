package router

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gatewright/gatewright/shared/format/paths"
)

// node is a node in the tree of segments. It represents all paths with the same beginning.
type node struct {
	literals map[string]*node // by their unescaped text: /$bulk is also /%24bulk
	mixed    []mixed          // segments such as {base}...{head}, with the most literal bytes first
	param    *node            // a segment that is only a parameter
	routes   pathRoutes       // the routes of the paths that end with this node, empty for none
}

// mixed is a segment with both literals and parameters.
type mixed struct {
	segment segment
	next    *node
}

// segment is the part of a template between two slashes. Its elements are literals, and there is a parameter between
// every two adjacent elements: {id} is ["", ""]. A segment without parameters has one element, which is unescaped. If
// there are parameters, the literals have the form of paths.DecodePlain.
type segment []string

func (s segment) params() int     { return len(s) - 1 }
func (s segment) isLiteral() bool { return len(s) == 1 }
func (s segment) isParam() bool   { return slices.Equal(s, segment{"", ""}) }

// literalBytes returns the number of literal bytes in a segment.
func (s segment) literalBytes() int {
	n := 0
	for _, literal := range s {
		n += len(literal)
	}
	return n
}

// template is a parsed path template.
type template struct {
	segments []segment
	names    []string
}

// parseTemplate parses an OpenAPI path template. A segment can contain several parameters and literals, such as {base}...{head}.
func parseTemplate(path string) (template, error) {
	var t template
	if !strings.HasPrefix(path, "/") {
		return t, errors.New(`start the path with "/"`)
	}
	if strings.ContainsAny(path, "?#") {
		return t, errors.New(`end the path before "?" or "#": queries and fragments are no part of it`)
	}
	path, err := paths.Template(path)
	if err != nil {
		return t, fmt.Errorf("no request has such a path: %w", err)
	}
	if IsReserved(path) {
		return t, errReserved
	}
	for text := range strings.SplitSeq(path[1:], "/") {
		s, names, err := parseSegment(text)
		if err != nil {
			return t, err
		}
		for _, name := range names {
			if slices.Contains(t.names, name) {
				return t, fmt.Errorf("use the parameter {%s} once only: the path names it twice", name)
			}
			t.names = append(t.names, name)
		}
		t.segments = append(t.segments, s)
	}
	if len(t.names) > maxParams {
		return t, fmt.Errorf("use at most %d parameters in a path: this one has %d", maxParams, len(t.names))
	}
	return t, nil
}

func parseSegment(text string) (segment, []string, error) {
	var (
		s     segment
		names []string
	)
	for {
		open := strings.IndexAny(text, "{}")
		if open < 0 {
			break
		}
		end := strings.IndexByte(text, '}')
		if text[open] == '}' || !strings.Contains(text, "}") || strings.Contains(text[open+1:end], "{") {
			return nil, nil, errors.New(`close each "{" of the path with a "}", within the same segment`)
		}
		name := text[open+1 : end]
		if name == "" {
			return nil, nil, errors.New(`give the parameter "{}" a name`)
		}
		if len(names) > 0 && open == 0 {
			return nil, nil, fmt.Errorf("put some text between {%s} and {%s}: nobody could tell where one ends",
				names[len(names)-1], name)
		}
		s = append(s, text[:open])
		names = append(names, name)
		text = text[end+1:]
	}
	s = append(s, text)
	if s.isLiteral() {
		s[0] = unescape(text)
		return s, names, nil
	}
	for i := range s {
		s[i] = paths.DecodePlain(s[i])
	}
	return s, names, nil
}

// addTemplate returns the routes of a template's path, and creates missing nodes.
func (n *node) addTemplate(t template) *pathRoutes {
	for _, s := range t.segments {
		n = n.addChild(s)
	}
	return &n.routes
}

func (n *node) addChild(s segment) *node {
	switch {
	case s.isLiteral():
		if next := n.literals[s[0]]; next != nil {
			return next
		}
		if n.literals == nil {
			n.literals = make(map[string]*node)
		}
		next := &node{}
		n.literals[s[0]] = next
		return next
	case s.isParam():
		if n.param == nil {
			n.param = &node{}
		}
		return n.param
	}
	for i := range n.mixed {
		if slices.Equal(n.mixed[i].segment, s) {
			return n.mixed[i].next
		}
	}
	m := mixed{segment: s, next: &node{}}
	// Keep a stable order: more literal bytes first, then the order of declaration.
	at := slices.IndexFunc(n.mixed, func(other mixed) bool { return other.segment.literalBytes() < s.literalBytes() })
	if at < 0 {
		at = len(n.mixed)
	}
	n.mixed = slices.Insert(n.mixed, at, m)
	return m.next
}

// find searches the tree for path[from:], which begins with a segment. It returns the node of the path, nil if no node
// matches, and sets the parameters in m. params is the number of parameters found so far. find visits each node of the
// tree at most once, because each node has exactly one parent.
func (n *node) find(path string, from int, m *Match, params int) *node {
	end := len(path)
	if slash := strings.IndexByte(path[from:], '/'); slash >= 0 {
		end = from + slash
	}
	text := path[from:end]

	if next := n.literals[unescape(text)]; next != nil {
		if found := next.descend(path, end, m, params); found != nil {
			return found
		}
	}
	plain := text
	if len(n.mixed) > 0 {
		plain = paths.DecodePlain(text) // {id}:run is the segment 5:run, and also 5%3Arun
	}
	for i := range n.mixed {
		s := n.mixed[i].segment
		if s.match(plain, m.values[params:]) {
			if found := n.mixed[i].next.descend(path, end, m, params+s.params()); found != nil {
				return found
			}
		}
	}
	if n.param != nil && text != "" {
		m.values[params] = text
		return n.param.descend(path, end, m, params+1)
	}
	return nil
}

// descend continues after the segment that ends at end.
func (n *node) descend(path string, end int, m *Match, params int) *node {
	if end < len(path) {
		return n.find(path, end+1, m, params)
	}
	if len(n.routes.byMethod) == 0 {
		return nil
	}
	return n
}

// match reports whether the text matches the segment, and sets the values of its parameters. Each parameter takes as
// few bytes as possible, but at least one. The last parameter takes the rest up to the last literal. Because there is a
// literal between every two parameters, match finds a match whenever there is one.
func (s segment) match(text string, values []string) bool {
	if !strings.HasPrefix(text, s[0]) {
		return false
	}
	text = text[len(s[0]):]
	last := len(s) - 1
	for i := 1; i < last; i++ {
		if text == "" {
			return false
		}
		at := strings.Index(text[1:], s[i])
		if at < 0 {
			return false
		}
		values[i-1] = text[:at+1]
		text = text[at+1+len(s[i]):]
	}
	if len(text) <= len(s[last]) || !strings.HasSuffix(text, s[last]) {
		return false
	}
	values[last-1] = text[:len(text)-len(s[last])]
	return true
}
