package scaffold

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"
	"go.yaml.in/yaml/v3"
)

// maxNodes is the maximum number of values of a description in YAML, where a few lines can expand to millions of values.
const maxNodes = 2_000_000

// yamlWriter converts YAML to JSON. Members keep their order, and members that are merged (<<) follow an object's own
// ones. Numbers that are valid in JSON keep their digits, and others become texts.
type yamlWriter struct {
	out       bytes.Buffer
	remaining int // the number of nodes that may still be written
}

// errTooLarge is the error for a description that is larger than the limits.
var errTooLarge = errors.New("the description is too large, or an alias (*) contains itself: " +
	"remove or shorten aliases")

func (w *yamlWriter) value(n *yaml.Node, depth int) error {
	if depth >= maxDepth && (n.Kind == yaml.MappingNode || n.Kind == yaml.SequenceNode) {
		return tooDeep(n.Line)
	}
	if w.remaining--; w.remaining < 0 || int64(w.out.Len()) > MaxBytes() {
		return fmt.Errorf("line %d: %w", n.Line, errTooLarge)
	}
	switch n.Kind {
	case yaml.AliasNode:
		return w.value(n.Alias, depth)
	case yaml.SequenceNode:
		w.out.WriteByte('[')
		for i, entry := range n.Content {
			if i > 0 {
				w.out.WriteByte(',')
			}
			if err := w.value(entry, depth+1); err != nil {
				return err
			}
		}
		w.out.WriteByte(']')
		return nil
	case yaml.MappingNode:
		return w.object(n, depth)
	default:
		return w.scalar(n)
	}
}

func (w *yamlWriter) object(n *yaml.Node, depth int) error {
	all, err := w.pairs(n, depth)
	if err != nil {
		return err
	}
	w.out.WriteByte('{')
	for i, p := range all {
		if i > 0 {
			w.out.WriteByte(',')
		}
		if err := w.text(p.name.Value); err != nil { // names are texts, also those of responses, such as 200
			return fmt.Errorf("line %d: %w", p.name.Line, err)
		}
		w.out.WriteByte(':')
		if err := w.value(p.value, depth+1); err != nil {
			return err
		}
	}
	w.out.WriteByte('}')
	return nil
}

// pair is a member of a mapping.
type pair struct{ name, value *yaml.Node }

// pairs returns the members of a mapping, followed by those that it merges. Its own members replace merged ones, and
// earlier merged members replace later ones. pairs returns an error for a duplicate name.
func (w *yamlWriter) pairs(n *yaml.Node, depth int) (all []pair, err error) {
	var merged []pair
	lines := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		name, value := n.Content[i], n.Content[i+1]
		if name.Kind != yaml.ScalarNode {
			return nil, fmt.Errorf("line %d: the description has a name that is no text", name.Line)
		}
		if first, duplicate := lines[name.Value]; duplicate {
			return nil, fmt.Errorf("line %d: the object has the name %q already, in line %d: remove one of the two", name.Line,
				name.Value, first)
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

// merged returns the members of the mapping, or of the list of mappings, that a merge key names.
func (w *yamlWriter) merged(n *yaml.Node, depth int) (all []pair, err error) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if depth > maxDepth {
		return nil, tooDeep(n.Line)
	}
	if w.remaining -= 1 + len(n.Content); w.remaining < 0 {
		return nil, fmt.Errorf("line %d: %w", n.Line, errTooLarge)
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
		return nil, fmt.Errorf("line %d: a merge key (<<) names an object, or a list of objects", n.Line)
	}
}

func (w *yamlWriter) text(text string) error {
	quoted, err := jsontext.AppendQuote(nil, text)
	if err != nil {
		return fmt.Errorf("the description has a text that is no UTF-8: %w", err)
	}
	_, err = w.out.Write(quoted)
	return err
}

func (w *yamlWriter) scalar(n *yaml.Node) error {
	switch tag := n.ShortTag(); tag {
	case "!!null":
		w.out.WriteString("null")
		return nil
	case "!!bool":
		var b bool
		if err := n.Decode(&b); err != nil {
			return fmt.Errorf("line %d: %w", n.Line, err)
		}
		fmt.Fprint(&w.out, b)
		return nil
	case "!!int", "!!float":
		if number := jsontext.Value(n.Value); number.IsValid() && number.Kind() == jsontext.KindNumber {
			w.out.WriteString(n.Value)
			return nil
		}
	}
	if err := w.text(n.Value); err != nil {
		return fmt.Errorf("line %d: %w", n.Line, err)
	}
	return nil
}
