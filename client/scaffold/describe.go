package scaffold

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"go.yaml.in/yaml/v3"

	"github.com/gatewright/gatewright/client/exit"
)

// What is read of a description in YAML is bounded, in which a few lines can stand for millions of others.
const (
	mostNodes = 2_000_000
	mostBytes = 64 << 20
)

// methods are those of a path that are operations (OpenAPI 3.1, 4.8.9).
var methods = []string{"get", "put", "post", "delete", "options", "head", "patch", "trace"}

// routeMember makes a route of an operation.
const routeMember = "x-gateway-route"

// Describe makes the routes of a description of an API, OpenAPI 3 in JSON or YAML: each operation forwards to the upstream, by its own path. One
// that is a route already stays as it is; all else stays too, in its order, digit for digit. Without an upstream it is the description's first
// server. routes is how many operations became routes.
func Describe(description []byte, upstream string) (text []byte, routes int, err error) {
	document, err := jsonOf(description)
	if err != nil {
		return nil, 0, exit.With(exit.Invalid, err)
	}
	root, err := membersOf(document)
	if err != nil {
		return nil, 0, exit.With(exit.Invalid, fmt.Errorf("the description is no object: %w", err))
	}
	if version := textOf(valueOf(root, "openapi")); !strings.HasPrefix(version, "3.") {
		return nil, 0, exit.With(exit.Invalid, errors.New("it is no description in OpenAPI 3: its member openapi has to say so, such as 3.1.0"))
	}
	if upstream == "" {
		if upstream = firstServer(root); upstream == "" {
			return nil, 0, exit.With(exit.Usage, errors.New("the description has no server with an http address: say --upstream URL"))
		}
	}
	if err := checkUpstream(upstream); err != nil {
		return nil, 0, err
	}
	upstream = strings.TrimSuffix(upstream, "/")
	for i, m := range root {
		if m.name != "paths" {
			continue
		}
		if root[i].value, routes, err = routed(m.value, upstream); err != nil {
			return nil, 0, exit.With(exit.Invalid, err)
		}
	}
	if routes == 0 {
		return nil, 0, exit.With(exit.Invalid, errors.New("the description has no operation that is none of a route yet: there is nothing to make routes of"))
	}
	whole := jsontext.Value(written(root))
	if err := whole.Indent(jsontext.WithIndent("  ")); err != nil {
		return nil, 0, fmt.Errorf("write the routes: %w", err)
	}
	return append(whole, '\n'), routes, nil
}

// member is a name of an object with its value.
type member struct {
	name  string
	value jsontext.Value
}

// membersOf are those of an object, in their order.
func membersOf(value jsontext.Value) ([]member, error) {
	d := jsontext.NewDecoder(bytes.NewReader(value))
	if d.PeekKind() != jsontext.KindBeginObject {
		return nil, errors.New("an object has to stand there")
	}
	if _, err := d.ReadToken(); err != nil {
		return nil, err
	}
	var all []member
	for d.PeekKind() != jsontext.KindEndObject {
		name, err := d.ReadToken()
		if err != nil {
			return nil, err
		}
		m := member{name: name.String()}
		value, err := d.ReadValue()
		if err != nil {
			return nil, err
		}
		m.value = value.Clone()
		all = append(all, m)
	}
	return all, nil
}

// written is an object of members.
func written(all []member) []byte {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, m := range all {
		if i > 0 {
			b.WriteByte(',')
		}
		name, _ := jsontext.AppendQuote(nil, m.name) // which was read as a text
		b.Write(name)
		b.WriteByte(':')
		b.Write(m.value)
	}
	b.WriteByte('}')
	return b.Bytes()
}

// valueOf is the value of a member, nil for none.
func valueOf(all []member, name string) jsontext.Value {
	i := slices.IndexFunc(all, func(m member) bool { return m.name == name })
	if i < 0 {
		return nil
	}
	return all[i].value
}

// textOf is a text, "" for what is none.
func textOf(value jsontext.Value) string {
	if value.Kind() != jsontext.KindString {
		return ""
	}
	text, err := jsontext.AppendUnquote(nil, bytes.TrimSpace(value))
	if err != nil {
		return ""
	}
	return string(text)
}

// firstServer is the address of the description's first server that has one of its own, "" for none.
func firstServer(root []member) string {
	servers := valueOf(root, "servers")
	if servers.Kind() != jsontext.KindBeginArray {
		return ""
	}
	d := jsontext.NewDecoder(bytes.NewReader(servers))
	_, _ = d.ReadToken()
	for d.PeekKind() == jsontext.KindBeginObject {
		value, err := d.ReadValue()
		if err != nil {
			return ""
		}
		server, err := membersOf(value)
		if err != nil {
			return ""
		}
		if address := textOf(valueOf(server, "url")); checkUpstream(address) == nil && !strings.Contains(address, "{") {
			return address
		}
	}
	return ""
}

// routed makes routes of the operations of paths.
func routed(paths jsontext.Value, upstream string) (text jsontext.Value, routes int, err error) {
	all, err := membersOf(paths)
	if err != nil {
		return nil, 0, fmt.Errorf("paths of the description: %w", err)
	}
	address, err := jsontext.AppendQuote(nil, upstream)
	if err != nil {
		return nil, 0, fmt.Errorf("write the upstream's address: %w", err)
	}
	route := jsontext.Value(`{"handler":{"export":"urlForwardHandler","module":"$import(@gatewright/runtime)","options":{"baseUrl":` + string(address) + `}}}`)
	for i, path := range all {
		if !strings.HasPrefix(path.name, "/") {
			continue // an extension
		}
		item, err := membersOf(path.value)
		if err != nil {
			return nil, 0, fmt.Errorf("the path %s of the description: %w", path.name, err)
		}
		for j, m := range item {
			if !slices.Contains(methods, m.name) {
				continue
			}
			operation, err := membersOf(m.value)
			if err != nil {
				return nil, 0, fmt.Errorf("%s of the path %s of the description: %w", m.name, path.name, err)
			}
			if valueOf(operation, routeMember) != nil {
				continue
			}
			item[j].value = written(append(operation, member{routeMember, route}))
			routes++
		}
		all[i].value = written(item)
	}
	return written(all), routes, nil
}

// jsonOf is a description in JSON, of one in JSON or YAML.
func jsonOf(text []byte) (jsontext.Value, error) {
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	if value := jsontext.Value(bytes.TrimSpace(text)); len(value) > 0 && value[0] == '{' {
		if err := value.Compact(); err != nil {
			return nil, fmt.Errorf("the description is no JSON: %w", err)
		}
		return value, nil
	}
	var root yaml.Node
	if err := yaml.Unmarshal(text, &root); err != nil {
		return nil, fmt.Errorf("the description is neither JSON nor YAML: %w", err)
	}
	if len(root.Content) != 1 {
		return nil, errors.New("the description is empty")
	}
	w := yamlWriter{left: mostNodes}
	if err := w.value(root.Content[0], 0); err != nil {
		return nil, err
	}
	return w.out.Bytes(), nil
}

// yamlWriter writes YAML as JSON: members in their order, numbers digit for digit where JSON has such numbers.
type yamlWriter struct {
	out  bytes.Buffer
	left int
}

// deepest is how deep a description goes at most: a part of itself would have no end.
const deepest = 200

func (w *yamlWriter) value(n *yaml.Node, depth int) error {
	if w.left--; w.left < 0 || w.out.Len() > mostBytes || depth > deepest {
		return errors.New("the description is too large, or a part of itself")
	}
	switch n.Kind {
	case yaml.AliasNode:
		return w.value(n.Alias, depth+1)
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
	w.out.WriteByte('{')
	for i := 0; i+1 < len(n.Content); i += 2 {
		name := n.Content[i]
		if name.Kind != yaml.ScalarNode || name.Tag == "!!merge" {
			return fmt.Errorf("line %d: the description has a name that is no text", name.Line)
		}
		if i > 0 {
			w.out.WriteByte(',')
		}
		if err := w.text(name.Value); err != nil { // 200 is a text where it names a response
			return fmt.Errorf("line %d: %w", name.Line, err)
		}
		w.out.WriteByte(':')
		if err := w.value(n.Content[i+1], depth+1); err != nil {
			return err
		}
	}
	w.out.WriteByte('}')
	return nil
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
		var on bool
		if err := n.Decode(&on); err != nil {
			return fmt.Errorf("line %d: %w", n.Line, err)
		}
		fmt.Fprint(&w.out, on)
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
