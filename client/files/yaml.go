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

	"github.com/gatewright/gatewright/shared/lazy"
	"github.com/gatewright/gatewright/shared/project"
)

const (
	// mostDepth is how deep a file's values may be within one another.
	mostDepth = 64
	// mostNodes is how many values all files may have, each alias counted with all that it stands for.
	mostNodes = 4_000_000
	// mostProblems is how many problems are told of.
	mostProblems = 500
)

// documents has each document of a file, until one cannot be read.
func (r *reader) documents(file string, text []byte, each func(*yaml.Node)) {
	d := yaml.NewDecoder(bytes.NewReader(text))
	for {
		var n yaml.Node
		err := d.Decode(&n)
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			wrong := unreadable(file, err)
			r.hide(wrong.Line) // nobody knows what it is of
			r.problem(wrong)
			return
		}
		for _, content := range n.Content {
			each(content)
		}
	}
}

// yamlLine is how the library names the line of what it cannot read.
var yamlLine = lazy.Regexp(`^(?:yaml: )?line ([0-9]+): `)

func unreadable(file string, err error) project.Problem {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	at := place{file: file, line: 1, column: 1}
	if found := yamlLine().FindStringSubmatch(text); found != nil {
		at.line, _ = strconv.Atoi(found[1])
		text = text[len(found[0]):]
	}
	if strings.Contains(text, "cannot start any token") {
		text += ": is there a tab? Indent with spaces"
	}
	return at.problem("This is no YAML: %s.", text)
}

// hide has a line of the file never be shown, since what stands there may be a secret.
func (r *reader) hide(line int) {
	if r.hidden[r.file] == nil {
		r.hidden[r.file] = map[int]bool{}
	}
	r.hidden[r.file][line] = true
}

func (r *reader) problem(p project.Problem) {
	if len(r.problems) < mostProblems {
		r.problems = append(r.problems, p)
	}
}

func (r *reader) wrong(n *yaml.Node, format string, args ...any) {
	r.problem(r.at(n).problem(format, args...))
}

func (r *reader) at(n *yaml.Node) place {
	return place{file: r.file, line: n.Line, column: n.Column}
}

// member is one of a mapping.
type member struct {
	key, value *yaml.Node
}

// members are those of a mapping, each once; false for what is none, which is told.
func (r *reader) members(n *yaml.Node, what string) ([]member, bool) {
	n, ok := r.meant(n)
	if !ok {
		return nil, false
	}
	if n.Kind != yaml.MappingNode {
		r.wrong(n, "This has to be %s, with names and values.", what)
		return nil, false
	}
	list, seen := make([]member, 0, len(n.Content)/2), make(map[string]int, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		switch {
		case key.Tag == "!!merge":
			r.wrong(key, "A merge (<<) is not taken: write out what it stands for.")
			continue
		case key.Kind != yaml.ScalarNode || key.ShortTag() != "!!str":
			r.wrong(key, "A name has to be a text: put it in quotes.")
			continue
		}
		if before, twice := seen[key.Value]; twice {
			r.wrong(key, "%s stands here twice: the other is in line %d. Leave one out.", key.Value, before)
			continue
		}
		seen[key.Value] = key.Line
		list = append(list, member{key, n.Content[i+1]})
	}
	return list, true
}

// meant is what a node stands for; false where all files have more than may be read.
func (r *reader) meant(n *yaml.Node) (*yaml.Node, bool) {
	if r.nodes++; r.nodes > mostNodes {
		if r.nodes == mostNodes+1 {
			r.wrong(n, "With what their aliases stand for, the files have more than %d values: write fewer, or split them.", mostNodes)
		}
		return n, false
	}
	if n.Kind == yaml.AliasNode {
		return r.meant(n.Alias)
	}
	return n, true
}

// number is one as JSON writes it; YAML has others.
var number = lazy.Regexp(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$`)

// value writes a node as JSON, digit for digit. What it cannot is told, and answered by false.
func (r *reader) value(n *yaml.Node) (Value, bool) {
	var b bytes.Buffer
	ok := r.write(&b, n, 0)
	return Value(b.Bytes()), ok
}

func (r *reader) write(b *bytes.Buffer, n *yaml.Node, depth int) bool {
	if depth > mostDepth {
		r.wrong(n, "Values are within one another %d times at most.", mostDepth)
		return false
	}
	n, ok := r.meant(n)
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
			if err := r.text(b, m.key.Value); err != nil {
				r.wrong(m.key, "This is no text: %v.", err)
				ok = false
			}
			b.WriteByte(':')
			ok = r.write(b, m.value, depth+1) && ok
		}
		b.WriteByte('}')
		return ok && len(list) == len(n.Content)/2
	case yaml.SequenceNode:
		b.WriteByte('[')
		for i, entry := range n.Content {
			if i > 0 {
				b.WriteByte(',')
			}
			ok = r.write(b, entry, depth+1) && ok
		}
		b.WriteByte(']')
		return ok
	default:
		return r.scalar(b, n)
	}
}

func (r *reader) scalar(b *bytes.Buffer, n *yaml.Node) bool {
	switch tag := n.ShortTag(); tag {
	case "!!str", "!!timestamp":
		if err := r.text(b, n.Value); err != nil {
			r.wrong(n, "This is no text: %v.", err)
			return false
		}
	case "!!null":
		b.WriteString("null")
	case "!!bool":
		b.WriteString(strings.ToLower(n.Value))
	case "!!int", "!!float":
		if !number().MatchString(n.Value) {
			r.wrong(n, "Write this number in decimal, such as 16 or 0.5, or put it in quotes if it is a text.")
			return false
		}
		b.WriteString(n.Value)
	default:
		r.wrong(n, "%s is a type that is not taken here.", tag)
		return false
	}
	return true
}

func (r *reader) text(b *bytes.Buffer, text string) error {
	quoted, err := jsontext.AppendQuote(nil, text)
	if err != nil {
		return fmt.Errorf("it is not UTF-8")
	}
	b.Write(quoted)
	return nil
}

// down is the node at a place within another, as far as there is one.
func down(n *yaml.Node, location []string) *yaml.Node {
	for _, step := range location {
		if n.Kind == yaml.AliasNode {
			n = n.Alias
		}
		var next *yaml.Node
		switch n.Kind {
		case yaml.MappingNode:
			for i := 0; i+1 < len(n.Content); i += 2 {
				if n.Content[i].Value == step {
					next = n.Content[i+1]
				}
			}
		case yaml.SequenceNode:
			if i, err := strconv.Atoi(step); err == nil && i >= 0 && i < len(n.Content) {
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
