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

// These limits apply to a description in YAML, where a few lines can expand to millions of values.
const (
	maxNodes = 2_000_000
	maxBytes = 64 << 20
)

// methods are the members of a path that are operations (OpenAPI 3.1, 4.8.9).
var methods = []string{"get", "put", "post", "delete", "options", "head", "patch", "trace"}

// routeMember is the member of an operation that makes it a route.
const routeMember = "x-gateway-route"

// AddRoutes adds routes to a description of an API (OpenAPI 3 in JSON or YAML): each operation without a route gets a
// route that forwards to the operation's path at the upstream. All other members keep their order, and numbers keep
// their digits. If upstream is "", AddRoutes uses the first server to which routes can forward. routes is the number of
// operations that have become routes.
func AddRoutes(description []byte, upstream string) (text []byte, routes int, err error) {
	document, err := toJSON(description)
	if err != nil {
		return nil, 0, exit.WithCode(exit.Invalid, err)
	}
	root, err := readMembers(document)
	if err != nil {
		return nil, 0, exit.WithCode(exit.Invalid, fmt.Errorf("the description is no object: %w", err))
	}
	if version := stringValue(memberValue(root, "openapi")); !strings.HasPrefix(version, "3.") {
		return nil, 0,
			exit.WithCode(exit.Invalid,
				errors.New("it is no description in OpenAPI 3: its member openapi has to say so, such as 3.1.0"))
	}
	if upstream == "" {
		if upstream = firstServer(root); upstream == "" {
			return nil, 0,
				exit.WithCode(exit.Usage, errors.New("the description has no server with an http address: say --upstream URL"))
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
		if root[i].value, routes, err = addRoutesToPaths(m.value, upstream); err != nil {
			return nil, 0, exit.WithCode(exit.Invalid, err)
		}
	}
	if routes == 0 {
		return nil, 0,
			exit.WithCode(exit.Invalid, errors.New("the description has no operation that is none of a route yet: there is "+
				"nothing to make routes of"))
	}
	out := jsontext.Value(writeObject(root))
	if err := out.Indent(jsontext.WithIndent("  ")); err != nil {
		return nil, 0, fmt.Errorf("write the routes: %w", err)
	}
	return append(out, '\n'), routes, nil
}

// member is a member of an object: its name and value.
type member struct {
	name  string
	value jsontext.Value
}

// readMembers returns the members of an object, in the order of the text.
func readMembers(value jsontext.Value) ([]member, error) {
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

// writeObject encodes members as an object.
func writeObject(all []member) []byte {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, m := range all {
		if i > 0 {
			b.WriteByte(',')
		}
		name, _ := jsontext.AppendQuote(nil, m.name) // no error: the name was decoded as a text
		b.Write(name)
		b.WriteByte(':')
		b.Write(m.value)
	}
	b.WriteByte('}')
	return b.Bytes()
}

// memberValue returns the value of the member with this name, nil for none.
func memberValue(all []member, name string) jsontext.Value {
	i := slices.IndexFunc(all, func(m member) bool { return m.name == name })
	if i < 0 {
		return nil
	}
	return all[i].value
}

// stringValue returns the text of a JSON string, and "" for any other value.
func stringValue(value jsontext.Value) string {
	if value.Kind() != jsontext.KindString {
		return ""
	}
	text, err := jsontext.AppendUnquote(nil, bytes.TrimSpace(value))
	if err != nil {
		return ""
	}
	return string(text)
}

// firstServer returns the first address in the description's servers to which routes can forward, "" for none. Routes
// cannot forward to an address with variables.
func firstServer(root []member) string {
	servers := memberValue(root, "servers")
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
		server, err := readMembers(value)
		if err != nil {
			return ""
		}
		if address := stringValue(memberValue(server, "url")); checkUpstream(address) == nil &&
			!strings.Contains(address, "{") {
			return address
		}
	}
	return ""
}

// addRoutesToPaths adds routes to the operations of paths.
func addRoutesToPaths(paths jsontext.Value, upstream string) (text jsontext.Value, routes int, err error) {
	all, err := readMembers(paths)
	if err != nil {
		return nil, 0, fmt.Errorf("paths of the description: %w", err)
	}
	address, err := jsontext.AppendQuote(nil, upstream)
	if err != nil {
		return nil, 0, fmt.Errorf("write the upstream's address: %w", err)
	}
	route := jsontext.Value(
		`{"handler":{"export":"urlForwardHandler","module":"$import(@gatewright/runtime)","options":{"baseUrl":` +
			string(address) + `}}}`)
	for i, path := range all {
		if !strings.HasPrefix(path.name, "/") {
			continue // the member is an extension
		}
		item, err := readMembers(path.value)
		if err != nil {
			return nil, 0, fmt.Errorf("the path %s of the description: %w", path.name, err)
		}
		for j, m := range item {
			if !slices.Contains(methods, m.name) {
				continue
			}
			operation, err := readMembers(m.value)
			if err != nil {
				return nil, 0, fmt.Errorf("%s of the path %s of the description: %w", m.name, path.name, err)
			}
			if memberValue(operation, routeMember) != nil {
				continue
			}
			item[j].value = writeObject(append(operation, member{routeMember, route}))
			routes++
		}
		all[i].value = writeObject(item)
	}
	return writeObject(all), routes, nil
}

// toJSON returns a description as JSON. text is JSON or YAML.
func toJSON(text []byte) (jsontext.Value, error) {
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
	w := yamlWriter{remaining: maxNodes}
	if err := w.value(root.Content[0], 0); err != nil {
		return nil, err
	}
	return w.out.Bytes(), nil
}

// yamlWriter converts YAML to JSON. Members keep their order. Numbers that are valid in JSON keep their digits, and
// others become texts.
type yamlWriter struct {
	out       bytes.Buffer
	remaining int // the number of nodes that may still be written
}

// maxDepth is the maximum nesting depth of a description. A description that contains itself would be infinitely deep.
const maxDepth = 200

func (w *yamlWriter) value(n *yaml.Node, depth int) error {
	if w.remaining--; w.remaining < 0 || w.out.Len() > maxBytes || depth > maxDepth {
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
		if err := w.text(name.Value); err != nil { // names are texts, also those of responses, such as 200
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
