package yamljson

import (
	"sort"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
	"go.yaml.in/yaml/v3"
)

// line converts a line as the library counts it to a line as editors count it: for editors, only line feeds begin a line.
// A value that is missing at the end of the text is in the last line.
func (d *Document) line(line int) int { return min(line-sort.SearchInts(d.breaks, line+1), d.lines) }

// Position returns the place of the value at a JSON pointer: the beginning of its name if it is a member, and otherwise the
// beginning of the value. A merged member has its place in the object that it is merged from. If there is no such value,
// Position returns the place of the nearest parent. Both numbers begin at 1. column counts characters.
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

// child returns the member of an object or the element of a list as value, and the node that has its position as place. It
// returns nil if there is none. depth is the number of merge keys that were followed.
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
	// maxSteps is the maximum number of nodes that all calls of Position for a document visit. Later calls return the place
	// of the root.
	maxSteps = 50_000_000
)

// mergedChild is child for the value of a merge key: an object, or a list of objects.
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
