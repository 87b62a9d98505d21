package router

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gatewright/gatewright/shared/gateway/paths"
)

// node is a place in the tree of segments: all paths with one beginning.
type node struct {
	literals map[string]*node // by their unescaped text: /$bulk is /%24bulk too
	mixed    []mixed          // segments such as {base}...{head}, the most literal first
	param    *node            // a segment that is one parameter
	place    place            // of the path that ends here, empty for none
}

// mixed is a segment of both literals and parameters.
type mixed struct {
	segment segment
	next    *node
}

// segment is a part of a template between two slashes: literals with one
// parameter between each two of them. {id} is ["", ""], a plain literal has a
// single element.
type segment []string

func (s segment) params() int     { return len(s) - 1 }
func (s segment) isLiteral() bool { return len(s) == 1 }
func (s segment) isParam() bool   { return slices.Equal(s, segment{"", ""}) }

// weight is how many literal bytes a segment has.
func (s segment) weight() int {
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

// parseTemplate reads an OpenAPI path template. Parameters may share a segment
// with literals and with each other, as {base}...{head} does.
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
			return nil, nil, fmt.Errorf("put some text between {%s} and {%s}: nobody could tell where one ends", names[len(names)-1], name)
		}
		s = append(s, text[:open])
		names = append(names, name)
		text = text[end+1:]
	}
	s = append(s, text)
	if s.isLiteral() {
		s[0] = unescape(text)
	}
	return s, names, nil
}

// at makes the way to the place of a template.
func (n *node) at(t template) *place {
	for _, s := range t.segments {
		n = n.child(s)
	}
	return &n.place
}

func (n *node) child(s segment) *node {
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
	// A stable place: more literal bytes first, then the order of declaration.
	at := slices.IndexFunc(n.mixed, func(other mixed) bool { return other.segment.weight() < s.weight() })
	if at < 0 {
		at = len(n.mixed)
	}
	n.mixed = slices.Insert(n.mixed, at, m)
	return m.next
}

// find walks down from path[from:], the beginning of a segment, with params
// parameters found so far. It visits each node of the tree at most once,
// whatever the path: there is one way to each.
func (n *node) find(path string, from int, m *Match, params int) *node {
	end := len(path)
	if slash := strings.IndexByte(path[from:], '/'); slash >= 0 {
		end = from + slash
	}
	text := path[from:end]

	if next := n.literals[unescape(text)]; next != nil {
		if leaf := next.descend(path, end, m, params); leaf != nil {
			return leaf
		}
	}
	for i := range n.mixed {
		s := n.mixed[i].segment
		if s.match(text, m.values[params:]) {
			if leaf := n.mixed[i].next.descend(path, end, m, params+s.params()); leaf != nil {
				return leaf
			}
		}
	}
	if n.param != nil && text != "" {
		m.values[params] = text
		return n.param.descend(path, end, m, params+1)
	}
	return nil
}

// descend goes on after the segment that ends at end.
func (n *node) descend(path string, end int, m *Match, params int) *node {
	if end < len(path) {
		return n.find(path, end+1, m, params)
	}
	if len(n.place.routes) == 0 {
		return nil
	}
	return n
}

// match splits a segment's text between the literals: each parameter takes as
// little as it can and at least one byte, the last one takes the rest. With
// one literal between parameters the shortest choice finds a match if any
// choice does.
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
