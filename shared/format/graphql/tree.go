package graphql

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// node is a value of a response. Its members keep their order.
type node struct {
	kind jsontext.Kind
	// raw is the text of a value that is not an object or array.
	raw      jsontext.Value
	members  []member // of an object
	elements []*node  // of an array
}

type member struct {
	name  string
	value *node
}

// parseTree reads a whole JSON text. If strict is false, it accepts what
// clients accept: a byte order mark, invalid UTF-8 and duplicate names.
func parseTree(text []byte, strict bool) (*node, error) {
	if !strict {
		text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))
	}
	d := jsontext.NewDecoder(bytes.NewBuffer(text), jsontext.AllowInvalidUTF8(!strict),
		jsontext.AllowDuplicateNames(!strict))
	n, err := readNode(d)
	if err != nil {
		return nil, err
	}
	if _, err := d.ReadToken(); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is more behind the JSON")
	}
	return n, nil
}

func readNode(d *jsontext.Decoder) (*node, error) {
	n := &node{kind: d.PeekKind()}
	if n.kind != jsontext.KindBeginObject && n.kind != jsontext.KindBeginArray {
		value, err := d.ReadValue()
		if err != nil {
			return nil, fmt.Errorf("read a value: %w", err)
		}
		n.raw = value.Clone()
		return n, nil
	}
	if _, err := d.ReadToken(); err != nil {
		return nil, fmt.Errorf("read a bracket: %w", err)
	}
	for kind := d.PeekKind(); kind != jsontext.KindEndObject && kind != jsontext.KindEndArray; kind = d.PeekKind() {
		name := ""
		if n.kind == jsontext.KindBeginObject {
			token, err := d.ReadToken()
			if err != nil {
				return nil, fmt.Errorf("read a name: %w", err)
			}
			name = strings.ToValidUTF8(token.String(), "\ufffd")
		}
		value, err := readNode(d)
		if err != nil {
			return nil, err
		}
		if n.kind == jsontext.KindBeginObject {
			n.members = append(n.members, member{name, value})
		} else {
			n.elements = append(n.elements, value)
		}
	}
	if _, err := d.ReadToken(); err != nil {
		return nil, fmt.Errorf("read a bracket: %w", err)
	}
	return n, nil
}

// append appends the value as JSON to out.
func (n *node) append(out []byte) []byte {
	switch n.kind {
	case jsontext.KindBeginObject:
		out = append(out, '{')
		for i, m := range n.members {
			if i > 0 {
				out = append(out, ',')
			}
			out = m.value.append(append(quote(out, m.name), ':'))
		}
		return append(out, '}')
	case jsontext.KindBeginArray:
		out = append(out, '[')
		for i, e := range n.elements {
			if i > 0 {
				out = append(out, ',')
			}
			out = e.append(out)
		}
		return append(out, ']')
	default:
		return append(out, n.raw...)
	}
}

// get returns the value of a member of an object, or nil if the object has no such member.
func (n *node) get(name string) *node {
	for i := range n.members {
		if n.members[i].name == name {
			return n.members[i].value
		}
	}
	return nil
}

// text returns the content of a string, or "" for any other value.
func (n *node) text() string {
	if n == nil || n.kind != jsontext.KindString {
		return ""
	}
	if bytes.IndexByte(n.raw, '\\') < 0 && utf8.Valid(n.raw) {
		return string(n.raw[1 : len(n.raw)-1])
	}
	text, err := jsontext.AppendUnquote(nil, n.raw)
	if err != nil { // the filter has to see the valid part of an invalid string
		return strings.ToValidUTF8(string(text), "\ufffd")
	}
	return string(text)
}

// setText changes the value to a string, or to null if text is nil.
func (n *node) setText(text *string) {
	n.kind, n.raw, n.members, n.elements = jsontext.KindNull, jsontext.Value("null"), nil, nil
	if text != nil {
		n.kind, n.raw = jsontext.KindString, quote(nil, *text)
	}
}
