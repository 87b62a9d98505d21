package yamljson

import "go.yaml.in/yaml/v3"

// pair is a member of an object.
type pair struct{ name, value *yaml.Node }

// pairs returns the members of an object, followed by the members that it merges (<<). If several have the same name, the
// object's own member is kept, or otherwise the first one that is merged. pairs returns an error for a name that the
// object itself has twice.
func (w *writer) pairs(n *yaml.Node, depth int) (all []pair, err error) {
	var merged []pair
	lines := make(map[string]int, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		name, value := n.Content[i], n.Content[i+1]
		if name.Kind != yaml.ScalarNode {
			return nil, w.fail(name, "the name of this member is a list, an object or an alias: write a text")
		}
		if first, duplicate := lines[name.Value]; duplicate {
			return nil, w.fail(name, "the object has the name %.200q already, in line %d: remove one of the two", name.Value,
				w.document.line(first))
		}
		lines[name.Value] = name.Line
		if name.Tag != "!!merge" {
			all = append(all, pair{name, value})
		} else if merged, err = w.merged(value, depth+1); err != nil {
			return nil, err
		}
	}
	for _, p := range merged {
		if _, replaced := lines[p.name.Value]; !replaced {
			lines[p.name.Value] = p.name.Line
			all = append(all, p)
		}
	}
	return all, nil
}

// merged returns the members of the value of a merge key: of an object, or of a list of objects.
func (w *writer) merged(n *yaml.Node, depth int) (all []pair, err error) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if depth > MaxDepth {
		return nil, w.tooDeep(n)
	}
	if w.remaining -= 1 + len(n.Content); w.remaining < 0 {
		return nil, w.tooLarge(n)
	}
	switch n.Kind {
	case yaml.MappingNode:
		return w.pairs(n, depth)
	case yaml.SequenceNode:
		for _, entry := range n.Content {
			more, err := w.merged(entry, depth+1)
			if err != nil {
				return nil, err
			}
			all = append(all, more...)
		}
		return all, nil
	default:
		return nil, w.fail(n, "a merge key (<<) must have an object, or a list of objects: correct its value")
	}
}
