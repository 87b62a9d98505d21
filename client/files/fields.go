package files

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/gatewright/gatewright/client/call"
	"github.com/gatewright/gatewright/shared/apitools"
	"github.com/gatewright/gatewright/shared/lazy"
	"github.com/gatewright/gatewright/shared/project"
	"github.com/gatewright/gatewright/thirdparty/jsonschema"
)

// Field is a member of the bodies of a kind.
type Field struct {
	Name string
	// Made and Changed say whether the body that makes one has it, and the one that changes it; Needed whether one is made with it
	// alone.
	Made, Changed, Needed bool
	// Secret says that it is never shown.
	Secret bool
	// Text says that it may be one, and come from elsewhere by that (Reference); Time that it is an instant.
	Text, Time bool
	// Object says that it may be one, and no text: its members are its own, whatever they are called.
	Object bool
	schema *jsonschema.Schema
}

// fields are those of a kind, by their names, without its key; key is the schema of that.
type fields struct {
	all map[string]*Field
	key *jsonschema.Schema
}

// declared returns the fields of each kind in all(Kinds()), in that order. Nobody changes them. They are read once per process, because
// reading files, applying a plan and exporting each need all of them, and compiling their schemas takes longer than most of that work.
var declared = sync.OnceValues(func() ([]*fields, error) {
	var list []*fields
	for _, k := range all(Kinds()) {
		f, err := fieldsOf(k)
		if err != nil {
			return nil, err
		}
		list = append(list, f)
	}
	return list, nil
})

// fieldsOfAll returns the fields of kinds, which is what Kinds returned, and of the kinds below them.
func fieldsOfAll(kinds []*Kind) (map[*Kind]*fields, error) {
	list, err := declared()
	if err != nil {
		return nil, err
	}
	of := map[*Kind]*fields{}
	for i, k := range all(kinds) {
		of[k] = list[i]
	}
	return of, nil
}

// body are the members of an operation's body, with their schemas.
func body(operation string) (members map[string]json.RawMessage, needed []string, tool *apitools.Tool, err error) {
	if operation == "" {
		return nil, nil, nil, nil
	}
	t, err := call.Operation(operation)
	if err != nil {
		return nil, nil, nil, err
	}
	var input struct {
		Properties map[string]json.RawMessage
		Required   []string
	}
	if err := json.Unmarshal(t.Input, &input); err != nil {
		return nil, nil, nil, fmt.Errorf("read the arguments of %s: %w", operation, err)
	}
	members = map[string]json.RawMessage{}
	for _, a := range t.Arguments {
		if a.Place == project.InProperty && a.Name != call.AccountArgument {
			members[a.Name] = input.Properties[a.Name]
		}
	}
	return members, input.Required, t, nil
}

// fieldsOf reads the fields of a kind from the declarations of its operations.
func fieldsOf(k *Kind) (*fields, error) {
	f := &fields{all: map[string]*Field{}}
	operations := []string{k.Create, k.Update}
	if k.Apart != nil {
		operations = append(operations, k.Apart.Write)
	}
	for i, operation := range operations {
		members, needed, tool, err := body(operation)
		if err != nil {
			return nil, err
		}
		for name, schema := range members {
			switch {
			case k.hides(name), i == 2 && name != k.Apart.Field, name == k.WithParent && k.parent != nil:
				continue
			case name == k.Key:
				if f.key, err = compiled(schema); err != nil {
					return nil, err
				}
				continue
			case k.below(name) != nil:
				continue // made with it
			}
			field := f.all[name]
			if field == nil {
				if field, err = fieldOf(name, schema); err != nil {
					return nil, err
				}
				f.all[name] = field
			}
			switch i {
			case 0:
				field.Made, field.Needed = true, slices.Contains(needed, name)
			case 1:
				field.Changed = true
			}
			if tool.Given != nil && tool.Given.Members[name] != nil && tool.Given.Members[name].Secret && name != k.Secret {
				field.Secret = true
			}
		}
	}
	return f, nil
}

// hides reports whether no file has a member: it is said to be hidden, or the ancestors' names have it.
func (k *Kind) hides(name string) bool {
	if _, hidden := k.Hides[name]; hidden {
		return true
	}
	for above := k.parent; above != nil; above = above.parent {
		if above.Argument == name {
			return true
		}
	}
	return false
}

func fieldOf(name string, schema json.RawMessage) (*Field, error) {
	var of struct {
		Type   any
		Format string
	}
	if err := json.Unmarshal(schema, &of); err != nil {
		return nil, fmt.Errorf("read the schema of %s: %w", name, err)
	}
	types, is := of.Type.([]any)
	if !is {
		types = []any{of.Type}
	}
	text := slices.Contains(types, any("string"))
	compiled, err := compiled(schema)
	return &Field{
		Name: name, Text: text, Time: of.Format == "date-time", Object: !text && slices.Contains(types, any("object")), schema: compiled,
	}, err
}

func compiled(schema json.RawMessage) (*jsonschema.Schema, error) {
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(schema))
	if err != nil {
		return nil, fmt.Errorf("read a schema: %w", err)
	}
	c := jsonschema.NewCompiler()
	const here = "field.json"
	if err := c.AddResource(here, document); err != nil {
		return nil, fmt.Errorf("read a schema: %w", err)
	}
	return c.Compile(here)
}

// takes reports whether a body may have a value.
func (f *Field) takes(v Value) bool { return f.schema.Validate(decoded(v)) == nil }

// empty reports whether a value says no more than that there is none.
func empty(v Value) bool {
	switch string(v) {
	case "", "null", `""`, "{}", "[]":
		return true
	}
	return false
}

// same reports whether two values of a field mean the same: whatever the order of members, the digits of a number and the zone of
// a time.
func (k *Kind) same(f *Field, a, b Value) bool {
	if empty(a) || empty(b) {
		return empty(a) && empty(b)
	}
	if bytes.Equal(a, b) {
		return true
	}
	if f.Time {
		one, wrong := instant(a)
		other, wrongToo := instant(b)
		if wrong == nil && wrongToo == nil {
			return one.Equal(other)
		}
	}
	if slices.Contains(k.Unordered, f.Name) {
		a, b = sorted(a), sorted(b)
	}
	return equal(decoded(a), decoded(b))
}

// instant is a time as the API keeps it, in milliseconds.
func instant(v Value) (time.Time, error) {
	var text string
	if err := json.Unmarshal(v, &text); err != nil {
		return time.Time{}, err
	}
	at, err := time.Parse(time.RFC3339, text)
	return at.Truncate(time.Millisecond), err
}

func sorted(v Value) Value {
	var list []string
	if json.Unmarshal(v, &list) != nil {
		return v
	}
	slices.Sort(list)
	return marshal(list)
}

func decoded(v Value) (value any) {
	d := json.NewDecoder(bytes.NewReader(v))
	d.UseNumber()
	if d.Decode(&value) != nil {
		return nil
	}
	return value
}

func equal(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		b, is := b.(map[string]any)
		if !is || len(a) != len(b) {
			return false
		}
		for name, value := range a {
			if other, there := b[name]; !there || !equal(value, other) {
				return false
			}
		}
		return true
	case []any:
		b, is := b.([]any)
		return is && slices.EqualFunc(a, b, equal)
	case json.Number:
		b, is := b.(json.Number)
		return is && sameNumber(string(a), string(b))
	}
	return a == b
}

var exponent = lazy.Regexp(`[eE]([+-]?[0-9]+)$`)

// sameNumber compares numbers by what they are, whatever their size; one with an exponent that would fill the memory by its digits.
func sameNumber(a, b string) bool {
	if a == b {
		return true
	}
	const mostExponent, mostDigits = 400, 1000
	for _, text := range []string{a, b} {
		if found := exponent().FindStringSubmatch(text); found != nil {
			if n, err := strconv.Atoi(found[1]); err != nil || n > mostExponent || n < -mostExponent {
				return false
			}
		}
		if len(text) > mostDigits {
			return false
		}
	}
	one, ok := new(big.Rat).SetString(a)
	other, okToo := new(big.Rat).SetString(b)
	return ok && okToo && one.Cmp(other) == 0
}

// stable is a value whose members are in the order of their names at every depth, its numbers as they stand.
func stable(v Value) Value {
	text := jsontext.Value(bytes.Clone(v))
	if err := text.Format(jsontext.ReorderRawObjects(true), jsontext.PreserveRawStrings(false)); err != nil {
		return v
	}
	return Value(text)
}

// listOf joins names for a person.
func listOf(names []string) string { return strings.Join(names, ", ") }
