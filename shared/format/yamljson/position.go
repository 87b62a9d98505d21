package yamljson

import (
	"sort"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
	"go.yaml.in/yaml/v3"
)

// line returns the line of a text as editors count it: only line feeds begin a line. A value that is missing at the end of
// the text is in the last line.
func (d *Document) line(line int) int { return min(line-sort.SearchInts(d.breaks, line+1), d.lines) }

// Position returns the place of the value that a JSON pointer names: the beginning of its name if it is a member, and
// otherwise of the value. Places of merged members are where they are merged from. If there is no such value, Position
// returns the place of the nearest parent. Both numbers begin at 1, and column counts characters.
func (d *Document) Position(pointer string) (line, column int) {
	n, at := d.root, d.root
	for token := range jsontext.Pointer(pointer).Tokens() {
		name, value := d.child(n, token, 0)
		if value == nil {
			break
		}
		n, at = value, name
	}
	return d.line(at.Line), at.Column
}

// child returns the member of an object, or the element of a list, with the node of its place. It returns nil if there
// is none. depth is the number of merge keys that were followed.
func (d *Document) child(n *yaml.Node, token string, depth int) (place, value *yaml.Node) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if d.steps += 1 + len(n.Content); d.steps > maxSteps {
		return nil, nil
	}
	switch n.Kind {
	case yaml.SequenceNode:
		if i, err := strconv.Atoi(token); err == nil && i >= 0 && i < len(n.Content) {
			return n.Content[i], n.Content[i]
		}
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			if name := n.Content[i]; name.Value == token && name.Tag != "!!merge" {
				return name, n.Content[i+1]
			}
		}
		for i := 0; i+1 < len(n.Content) && depth < maxMerges; i += 2 {
			if n.Content[i].Tag == "!!merge" {
				return d.mergedChild(n.Content[i+1], token, depth+1)
			}
		}
	default:
	}
	return nil, nil
}

const (
	// maxMerges is the maximum number of merge keys that Position follows for one name.
	maxMerges = 16
	// maxSteps is the maximum number of nodes that all calls of Position for a document look at. Later calls return the
	// place of the root.
	maxSteps = 50_000_000
)

// mergedChild is child for the object, or the list of objects, that a merge key names.
func (d *Document) mergedChild(n *yaml.Node, token string, depth int) (place, value *yaml.Node) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if n.Kind != yaml.SequenceNode {
		return d.child(n, token, depth)
	}
	for _, entry := range n.Content {
		if place, value = d.child(entry, token, depth); value != nil {
			return place, value
		}
	}
	return nil, nil
}
