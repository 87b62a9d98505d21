package scaffold

import (
	"bytes"
	"errors"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// member is a member of an object: its name and value.
type member struct {
	name  string
	value jsontext.Value
}

// readMembers returns the members of an object, in the order of the text.
func readMembers(value jsontext.Value) ([]member, error) {
	d := jsontext.NewDecoder(bytes.NewReader(value))
	if d.PeekKind() != jsontext.KindBeginObject {
		return nil, errors.New("write an object there")
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

// readElements returns the elements of a list, nil for any other value.
func readElements(value jsontext.Value) []jsontext.Value {
	if value.Kind() != jsontext.KindBeginArray {
		return nil
	}
	d := jsontext.NewDecoder(bytes.NewReader(value))
	_, _ = d.ReadToken()
	var all []jsontext.Value
	for d.PeekKind() != jsontext.KindEndArray {
		element, err := d.ReadValue()
		if err != nil {
			return nil
		}
		all = append(all, element.Clone())
	}
	return all
}

// writeObject encodes members as an object.
func writeObject(all []member) []byte {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, m := range all {
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(quote(m.name))
		b.WriteByte(':')
		b.Write(m.value)
	}
	b.WriteByte('}')
	return b.Bytes()
}

// quote encodes a text that is valid UTF-8.
func quote(text string) jsontext.Value {
	quoted, _ := jsontext.AppendQuote(nil, text) // no error: the text is valid UTF-8
	return quoted
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

// targets looks up the targets of references to parts of a document. It keeps the members of each object that it has
// read, because many references lead into the same object.
type targets struct {
	root    []member
	members map[jsontext.Pointer]map[string]jsontext.Value
}

func newTargets(root []member) *targets {
	return &targets{root, map[jsontext.Pointer]map[string]jsontext.Value{}}
}

// lookup returns the value that a reference names by the fragment of its URL, nil for none.
func (t *targets) lookup(fragment string) jsontext.Value {
	text, err := url.PathUnescape(fragment)
	if err != nil || !strings.HasPrefix(text, "/") {
		return nil
	}
	return t.value(jsontext.Pointer(text))
}

// value returns the value at a JSON pointer, nil for none.
func (t *targets) value(pointer jsontext.Pointer) jsontext.Value {
	parent := pointer.Parent()
	if parent == "" {
		return memberValue(t.root, pointer.LastToken())
	}
	all, known := t.members[parent]
	if !known {
		all = map[string]jsontext.Value{}
		value := t.value(parent)
		for i, element := range readElements(value) {
			all[strconv.Itoa(i)] = element
		}
		if members, err := readMembers(value); err == nil {
			for _, m := range members {
				all[m.name] = m.value
			}
		}
		t.members[parent] = all
	}
	return all[pointer.LastToken()]
}
