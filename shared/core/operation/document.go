package operation

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// maxDocumentBytes is the maximum size of an input, and of data. So a record with both and a full history stays below
// the maximum size of an item, 400 KB.
const maxDocumentBytes = 128 << 10

// document is JSON, or "" for nil. It is stored as text, so that operators can read it in the table.
type document string

func encode(v any) (document, error) {
	if v == nil {
		return "", nil
	}
	b, err := json.Marshal(v)
	if err != nil {
		return "", err
	}
	return checkSize(b)
}

func checkSize(b []byte) (document, error) {
	if len(b) > maxDocumentBytes {
		return "", fmt.Errorf("it has %d bytes, at most %d are possible", len(b), maxDocumentBytes)
	}
	return document(b), nil
}

func (d document) decode(target any) error {
	if d == "" {
		return nil
	}
	return json.Unmarshal([]byte(d), target)
}

// replaceWith returns the document with v that replaces d. It also has the members of d that
// v's type does not have: a newer release has added them (store.UnknownAttributes explains why
// they are kept). If v is nil, the result is "".
func (d document) replaceWith(v any) (document, error) {
	next, err := encode(v)
	if err != nil || d == "" || next == "" {
		return next, err
	}
	merged, err := withUnknown([]byte(d), []byte(next), reflect.TypeOf(v))
	if err != nil {
		return "", err
	}
	return checkSize(merged)
}

// withUnknown returns after with the members of before that the type t does not have, in nested structs too.
func withUnknown(before, after json.RawMessage, t reflect.Type) (json.RawMessage, error) {
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t == nil || t.Kind() != reflect.Struct || t.Implements(marshaler) || reflect.PointerTo(t).Implements(marshaler) {
		return after, nil
	}
	var old, out map[string]json.RawMessage
	if json.Unmarshal(before, &old) != nil || json.Unmarshal(after, &out) != nil || out == nil {
		return after, nil //nolint:nilerr // one of them is not an object, so it has no other members
	}
	known, changed := members(t), false
	for _, name := range slices.Sorted(maps.Keys(old)) {
		fieldType, ok := known[name]
		switch {
		case !ok:
			out[name], changed = old[name], true
		case out[name] != nil:
			merged, err := withUnknown(old[name], out[name], fieldType)
			if err != nil {
				return nil, err
			}
			changed = changed || string(merged) != string(out[name])
			out[name] = merged
		}
	}
	if !changed {
		return after, nil
	}
	return json.Marshal(out)
}

var marshaler = reflect.TypeFor[json.Marshaler]()

// members returns the types of a struct's members by their JSON names.
func members(t reflect.Type) map[string]reflect.Type {
	out := map[string]reflect.Type{}
	for field := range t.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		embedded := field.Type
		if embedded.Kind() == reflect.Pointer {
			embedded = embedded.Elem()
		}
		switch {
		case field.Anonymous && name == "" && embedded.Kind() == reflect.Struct:
			maps.Copy(out, members(embedded))
		case name == "-" || !field.IsExported():
		case name == "":
			out[field.Name] = field.Type
		default:
			out[name] = field.Type
		}
	}
	return out
}
