package files

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"go.yaml.in/yaml/v3"

	"github.com/gatewright/gatewright/shared/base/lazy"
	"github.com/gatewright/gatewright/shared/format/project"
)

const (
	// maxDepth is the maximum nesting depth of the value of a field.
	maxDepth = 64
	// maxNodes is the maximum number of values in all files. Each alias counts with all values to which it refers.
	maxNodes = 4_000_000
	// maxProblems is the maximum number of problems that are reported.
	maxProblems = 500
)

// eachDocument calls visit for each document of a file. It reports a document that cannot be read, and stops there.
func (r *reader) eachDocument(file string, text []byte, visit func(*yaml.Node)) {
	d := yaml.NewDecoder(bytes.NewReader(text))
	for {
		var n yaml.Node
		err := d.Decode(&n)
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			problem := parseProblem(file, err)
			r.hideLine(problem.Line) // the line may contain a secret
			r.addProblem(problem)
			return
		}
		for _, content := range n.Content {
			visit(content)
		}
	}
}

// yamlLine matches the line number in an error of the YAML library.
var yamlLine = lazy.Regexp(`^(?:yaml: )?line ([0-9]+): `)

func parseProblem(file string, err error) project.Problem {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	at := position{file: file, line: 1, column: 1}
	if match := yamlLine().FindStringSubmatch(text); match != nil {
		at.line, _ = strconv.Atoi(match[1])
		text = text[len(match[0]):]
	}
	if strings.Contains(text, "cannot start any token") {
		text += ": is there a tab? Indent with spaces"
	}
	return at.newProblem("This is no YAML: %s.", text)
}

// hideLine marks a line that may contain a secret, so that no report shows it.
func (r *reader) hideLine(line int) {
	if r.hidden[r.file] == nil {
		r.hidden[r.file] = map[int]bool{}
	}
	r.hidden[r.file][line] = true
}

func (r *reader) addProblem(p project.Problem) {
	if len(r.problems) < maxProblems {
		r.problems = append(r.problems, p)
	}
}

func (r *reader) addProblemAt(n *yaml.Node, format string, args ...any) {
	r.addProblem(r.positionOf(n).newProblem(format, args...))
}

func (r *reader) positionOf(n *yaml.Node) position {
	return position{file: r.file, line: n.Line, column: n.Column}
}

// member is a member of a mapping.
type member struct {
	key, value *yaml.Node
}

// members returns the members of a mapping. It reports and omits merges, duplicate members, and members whose name is
// not a text. If the node is not a mapping, members reports this and returns false.
func (r *reader) members(n *yaml.Node, description string) ([]member, bool) {
	n, ok := r.resolveAlias(n)
	if !ok {
		return nil, false
	}
	if n.Kind != yaml.MappingNode {
		r.addProblemAt(n, "This has to be %s, with names and values.", description)
		return nil, false
	}
	list, lines := make([]member, 0, len(n.Content)/2), make(map[string]int, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		switch {
		case key.Tag == "!!merge":
			r.addProblemAt(key, "A merge (<<) is not taken: write out what it stands for.")
			continue
		case key.Kind != yaml.ScalarNode || key.ShortTag() != "!!str":
			r.addProblemAt(key, "A name has to be a text: put it in quotes.")
			continue
		}
		if line, duplicate := lines[key.Value]; duplicate {
			r.addProblemAt(key, "%s stands here twice: the other is in line %d. Leave one out.", key.Value, line)
			continue
		}
		lines[key.Value] = key.Line
		list = append(list, member{key, n.Content[i+1]})
	}
	return list, true
}

// resolveAlias returns the node to which an alias refers, and any other node unchanged. It counts the nodes. If the
// files have more than maxNodes values, it reports this once and returns false.
func (r *reader) resolveAlias(n *yaml.Node) (*yaml.Node, bool) {
	if r.nodeCount++; r.nodeCount > maxNodes {
		if r.nodeCount == maxNodes+1 {
			r.addProblemAt(n, "With what their aliases stand for, the files have more than %d values: write fewer, "+
				"or split them.", maxNodes)
		}
		return n, false
	}
	if n.Kind == yaml.AliasNode {
		return r.resolveAlias(n.Alias)
	}
	return n, true
}

// number matches numbers in JSON. YAML also has other forms.
var number = lazy.Regexp(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$`)

// toJSON converts a node to JSON. Numbers keep their digits. If the node has no form in JSON, toJSON reports the
// problem and returns false.
func (r *reader) toJSON(n *yaml.Node) (Value, bool) {
	var b bytes.Buffer
	ok := r.writeValue(&b, n, 0)
	return Value(b.Bytes()), ok
}

func (r *reader) writeValue(b *bytes.Buffer, n *yaml.Node, depth int) bool {
	if depth > maxDepth {
		r.addProblemAt(n, "Values are within one another %d times at most.", maxDepth)
		return false
	}
	n, ok := r.resolveAlias(n)
	if !ok {
		return false
	}
	switch n.Kind {
	case yaml.MappingNode:
		list, ok := r.members(n, "an object")
		b.WriteByte('{')
		for i, m := range list {
			if i > 0 {
				b.WriteByte(',')
			}
			if err := r.writeText(b, m.key.Value); err != nil {
				r.addProblemAt(m.key, "This is no text: %v.", err)
				ok = false
			}
			b.WriteByte(':')
			ok = r.writeValue(b, m.value, depth+1) && ok
		}
		b.WriteByte('}')
		return ok && len(list) == len(n.Content)/2
	case yaml.SequenceNode:
		b.WriteByte('[')
		for i, entry := range n.Content {
			if i > 0 {
				b.WriteByte(',')
			}
			ok = r.writeValue(b, entry, depth+1) && ok
		}
		b.WriteByte(']')
		return ok
	default:
		return r.writeScalar(b, n)
	}
}

func (r *reader) writeScalar(b *bytes.Buffer, n *yaml.Node) bool {
	switch tag := n.ShortTag(); tag {
	case "!!str", "!!timestamp":
		if err := r.writeText(b, n.Value); err != nil {
			r.addProblemAt(n, "This is no text: %v.", err)
			return false
		}
	case "!!null":
		b.WriteString("null")
	case "!!bool":
		b.WriteString(strings.ToLower(n.Value))
	case "!!int", "!!float":
		if !number().MatchString(n.Value) {
			r.addProblemAt(n, "Write this number in decimal, such as 16 or 0.5, or put it in quotes if it is a text.")
			return false
		}
		b.WriteString(n.Value)
	default:
		r.addProblemAt(n, "%s is a type that is not taken here.", tag)
		return false
	}
	return true
}

func (r *reader) writeText(b *bytes.Buffer, text string) error {
	quoted, err := jsontext.AppendQuote(nil, text)
	if err != nil {
		return fmt.Errorf("it is not UTF-8")
	}
	b.Write(quoted)
	return nil
}

// nodeAt returns the node at a location within n. If no node is there, nodeAt returns the closest ancestor that exists.
func nodeAt(n *yaml.Node, location []string) *yaml.Node {
	for _, part := range location {
		if n.Kind == yaml.AliasNode {
			n = n.Alias
		}
		var next *yaml.Node
		switch n.Kind {
		case yaml.MappingNode:
			for i := 0; i+1 < len(n.Content); i += 2 {
				if n.Content[i].Value == part {
					next = n.Content[i+1]
				}
			}
		case yaml.SequenceNode:
			if i, err := strconv.Atoi(part); err == nil && i >= 0 && i < len(n.Content) {
				next = n.Content[i]
			}
		default:
		}
		if next == nil {
			return n
		}
		n = next
	}
	return n
}
