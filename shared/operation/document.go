package operation

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// maxDocumentBytes bounds input and data each, so that a record with both and
// a full history stays far below the 400 KB of an item.
const maxDocumentBytes = 128 << 10

// document is JSON, kept as text so that a person can read the table.
type document string

func encode(v any) (document, error) {
	if v == nil {
		return "", nil
	}
	b, err := json.Marshal(v)
	if err != nil {
		return "", err
	}
	return sized(b)
}

func sized(b []byte) (document, error) {
	if len(b) > maxDocumentBytes {
		return "", fmt.Errorf("it has %d bytes, at most %d are possible", len(b), maxDocumentBytes)
	}
	return document(b), nil
}

func (d document) decode(into any) error {
	if d == "" {
		return nil
	}
	return json.Unmarshal([]byte(d), into)
}

// replaced is what a document becomes that a task has read into a type and answers
// anew: v, and those members of the document that v's type does not know, which a
// newer release has put there (store.Rest has the reason).
func (d document) replaced(v any) (document, error) {
	next, err := encode(v)
	if err != nil || d == "" || next == "" {
		return next, err
	}
	merged, err := withUnknown([]byte(d), []byte(next), reflect.TypeOf(v))
	if err != nil {
		return "", err
	}
	return sized(merged)
}

// withUnknown adds the members of before that t does not know to after.
func withUnknown(before, after json.RawMessage, t reflect.Type) (json.RawMessage, error) {
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t == nil || t.Kind() != reflect.Struct || t.Implements(marshaler) || reflect.PointerTo(t).Implements(marshaler) {
		return after, nil
	}
	var old, out map[string]json.RawMessage
	if json.Unmarshal(before, &old) != nil || json.Unmarshal(after, &out) != nil || out == nil {
		return after, nil //nolint:nilerr // one of them is no object, so that nothing is beside it
	}
	known, changed := members(t), false
	for _, name := range slices.Sorted(maps.Keys(old)) {
		within, knows := known[name]
		switch {
		case !knows:
			out[name], changed = old[name], true
		case out[name] != nil:
			merged, err := withUnknown(old[name], out[name], within)
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

// members are the types of a struct's members by their names in JSON.
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
