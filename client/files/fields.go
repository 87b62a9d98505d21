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
	"github.com/gatewright/gatewright/shared/base/lazy"
	"github.com/gatewright/gatewright/shared/format/project"
	"github.com/gatewright/gatewright/shared/management/apitools"
	"github.com/gatewright/gatewright/shared/thirdparty/jsonschema"
)

// Field is a member of the request bodies of a kind.
type Field struct {
	Name string
	// OnCreate says that the body of a create request has the field, and OnUpdate the same for an update request. Both
	// are false for Kind.SeparateField. Required says that an object cannot be created without the field.
	OnCreate, OnUpdate, Required bool
	// Secret says that the value is always a secret. It is false for Kind.Secret, which can also be an ordinary value.
	Secret bool
	// Text says that the value can be a text, so that a Reference can replace it. Time says that the value is an instant.
	Text, Time bool
	// Object says that the value is an object. It can have an ordinary member fromEnv or fromFile, so a Reference cannot
	// replace it.
	Object bool
	schema *jsonschema.Schema
}

// fields are the fields of a kind by their names, without the member Key. keySchema is the schema of Key.
type fields struct {
	byName    map[string]*Field
	keySchema *jsonschema.Schema
}

// allFields returns the fields of each kind in flatten(Kinds()), in that order. Callers must not change the fields.
// allFields reads the declarations once per process. Reading files, applying a plan and exporting need all fields, and
// compiling the schemas takes longer than most of that work.
var allFields = sync.OnceValues(func() ([]*fields, error) {
	var list []*fields
	for _, k := range flatten(Kinds()) {
		f, err := fieldsOf(k)
		if err != nil {
			return nil, err
		}
		list = append(list, f)
	}
	return list, nil
})

// fieldsByKind returns the fields of kinds and of all kinds below them. kinds must be a result of Kinds.
func fieldsByKind(kinds []*Kind) (map[*Kind]*fields, error) {
	list, err := allFields()
	if err != nil {
		return nil, err
	}
	byKind := map[*Kind]*fields{}
	for i, k := range flatten(kinds) {
		byKind[k] = list[i]
	}
	return byKind, nil
}

// bodyMembers returns the members of an operation's body with their schemas, the names of the operation's required
// arguments, and the operation. All results are nil if operation is "".
func bodyMembers(
	operation string,
) (members map[string]json.RawMessage, required []string, tool *apitools.Tool, err error) {
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
		if a.Location == project.InProperty && a.Name != call.AccountArgument {
			members[a.Name] = input.Properties[a.Name]
		}
	}
	return members, input.Required, t, nil
}

// fieldsOf reads the fields of a kind from the declarations of its operations.
func fieldsOf(k *Kind) (*fields, error) {
	f := &fields{byName: map[string]*Field{}}
	operations := []string{k.Create, k.Update}
	if k.SeparateField != nil {
		operations = append(operations, k.SeparateField.Write)
	}
	for i, operation := range operations { // 0 creates, 1 updates, and 2 writes the separate field
		members, required, tool, err := bodyMembers(operation)
		if err != nil {
			return nil, err
		}
		for name, schema := range members {
			switch {
			case k.isExcluded(name), i == 2 && name != k.SeparateField.Field, name == k.ParentMember && k.parent != nil:
				continue
			case name == k.Key:
				if f.keySchema, err = compileSchema(schema); err != nil {
					return nil, err
				}
				continue
			case k.child(name) != nil:
				continue // objects of this kind are created with their parent
			}
			field := f.byName[name]
			if field == nil {
				if field, err = newField(name, schema); err != nil {
					return nil, err
				}
				f.byName[name] = field
			}
			switch i {
			case 0:
				field.OnCreate, field.Required = true, slices.Contains(required, name)
			case 1:
				field.OnUpdate = true
			}
			if tool.ArgumentSecrets != nil && tool.ArgumentSecrets.Members[name] != nil &&
				tool.ArgumentSecrets.Members[name].Secret && name != k.Secret {
				field.Secret = true
			}
		}
	}
	return f, nil
}

// isExcluded reports whether files cannot have a member of a request body, because Excluded has its name, or because it
// is the path parameter of an ancestor.
func (k *Kind) isExcluded(name string) bool {
	if _, excluded := k.Excluded[name]; excluded {
		return true
	}
	for ancestor := k.parent; ancestor != nil; ancestor = ancestor.parent {
		if ancestor.PathParameter == name {
			return true
		}
	}
	return false
}

func newField(name string, schema json.RawMessage) (*Field, error) {
	var decl struct {
		Type   any
		Format string
	}
	if err := json.Unmarshal(schema, &decl); err != nil {
		return nil, fmt.Errorf("read the schema of %s: %w", name, err)
	}
	types, ok := decl.Type.([]any)
	if !ok {
		types = []any{decl.Type}
	}
	text := slices.Contains(types, any("string"))
	compiled, err := compileSchema(schema)
	return &Field{
		Name: name, Text: text, Time: decl.Format == "date-time", Object: !text && slices.Contains(types, any("object")),
		schema: compiled,
	}, err
}

func compileSchema(schema json.RawMessage) (*jsonschema.Schema, error) {
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(schema))
	if err != nil {
		return nil, fmt.Errorf("read a schema: %w", err)
	}
	c := jsonschema.NewCompiler()
	const resource = "field.json"
	if err := c.AddResource(resource, document); err != nil {
		return nil, fmt.Errorf("read a schema: %w", err)
	}
	return c.Compile(resource)
}

// accepts reports whether a value conforms to the field's schema.
func (f *Field) accepts(v Value) bool { return f.schema.Validate(decode(v)) == nil }

// isEmpty reports whether a value means the same as a missing value.
func isEmpty(v Value) bool {
	switch string(v) {
	case "", "null", `""`, "{}", "[]":
		return true
	}
	return false
}

// equalValues reports whether two values of a field are equal. It ignores the order of members, the notation of
// numbers, and the order of lists in k.UnorderedFields. It ignores the time zone of a Time field, and fractions of a
// millisecond. All empty values are equal (isEmpty).
func (k *Kind) equalValues(f *Field, a, b Value) bool {
	if isEmpty(a) || isEmpty(b) {
		return isEmpty(a) && isEmpty(b)
	}
	if bytes.Equal(a, b) {
		return true
	}
	if f.Time {
		timeA, errA := parseTime(a)
		timeB, errB := parseTime(b)
		if errA == nil && errB == nil {
			return timeA.Equal(timeB)
		}
	}
	if slices.Contains(k.UnorderedFields, f.Name) {
		a, b = sorted(a), sorted(b)
	}
	return equal(decode(a), decode(b))
}

// parseTime returns a time, truncated to milliseconds, which is the precision of the API.
func parseTime(v Value) (time.Time, error) {
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
	return mustMarshal(list)
}

func decode(v Value) (value any) {
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
		b, ok := b.(map[string]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for name, value := range a {
			if other, exists := b[name]; !exists || !equal(value, other) {
				return false
			}
		}
		return true
	case []any:
		b, ok := b.([]any)
		return ok && slices.EqualFunc(a, b, equal)
	case json.Number:
		b, ok := b.(json.Number)
		return ok && sameNumber(string(a), string(b))
	}
	return a == b
}

var exponent = lazy.Regexp(`[eE]([+-]?[0-9]+)$`)

// sameNumber reports whether two numbers have the same value, in any notation. If one of them is very long or has a
// large exponent, its exact value could exhaust the memory. Such numbers are equal only if their texts are equal.
func sameNumber(a, b string) bool {
	if a == b {
		return true
	}
	const maxExponent, maxDigits = 400, 1000
	for _, text := range []string{a, b} {
		if match := exponent().FindStringSubmatch(text); match != nil {
			if n, err := strconv.Atoi(match[1]); err != nil || n > maxExponent || n < -maxExponent {
				return false
			}
		}
		if len(text) > maxDigits {
			return false
		}
	}
	ratA, okA := new(big.Rat).SetString(a)
	ratB, okB := new(big.Rat).SetString(b)
	return okA && okB && ratA.Cmp(ratB) == 0
}

// canonical returns a value without whitespace, with its members sorted by name at every depth, and with the shortest
// encoding of texts. Numbers keep their notation. If the value is not valid JSON, canonical returns it unchanged.
func canonical(v Value) Value {
	text := jsontext.Value(bytes.Clone(v))
	if err := text.Format(jsontext.ReorderRawObjects(true), jsontext.PreserveRawStrings(false)); err != nil {
		return v
	}
	return Value(text)
}

// joinNames joins names with commas.
func joinNames(names []string) string { return strings.Join(names, ", ") }
