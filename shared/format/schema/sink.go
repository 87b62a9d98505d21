package schema

import (
	"slices"
	"strconv"

	"github.com/gatewright/gatewright/shared/thirdparty/jsonschema"
	"github.com/gatewright/gatewright/shared/thirdparty/jsonschema/kind"
)

// sink collects violations, within bounds. A nil sink collects none, and its add methods return false like the others.
type sink struct {
	errors []*jsonschema.ValidationError
	// limit is the number of errors after which the sink is full.
	limit int
	// memory is the number of bytes that the errors of this sink and of its branches may still take, approximately.
	memory *int
	// work is the work of the evaluator. If it is negative, results have no meaning, and the sink takes none.
	work *int
}

// isFull reports whether no more violations are needed.
func (s *sink) isFull() bool {
	return s != nil && (len(s.errors) > s.limit || *s.memory < 0 || *s.work < 0)
}

// branch returns an empty sink for an alternative.
func (s *sink) branch() *sink { return &sink{limit: s.limit, memory: s.memory, work: s.work} }

// newError returns a violation, and counts its memory.
func (s *sink) newError(at *place, k jsonschema.ErrorKind) *jsonschema.ValidationError {
	path := at.path()
	*s.memory -= 150 + 20*len(path)
	return &jsonschema.ValidationError{InstanceLocation: path, ErrorKind: k}
}

// add adds a violation. It returns false.
func (s *sink) add(at *place, k jsonschema.ErrorKind) bool {
	if s != nil && !s.isFull() {
		s.errors = append(s.errors, s.newError(at, k))
	}
	return false
}

func (s *sink) addType(at *place, got, want jsonTypes) bool {
	if s == nil {
		return false
	}
	return s.add(at, &kind.Type{Got: firstName(got), Want: want.names()})
}

// firstName returns the name of a type, or "unknown" for 0.
func firstName(t jsonTypes) string {
	if names := t.names(); len(names) > 0 {
		return names[0]
	}
	return "unknown"
}

func (s *sink) addConst(at *place, want *valueSet) bool {
	if s == nil {
		return false
	}
	return s.add(at, &kind.Const{Want: want.values[0]})
}

func (s *sink) addEnum(at *place, want *valueSet) bool {
	if s == nil {
		return false
	}
	return s.add(at, &kind.Enum{Want: want.values})
}

// place is the place of a value within another one. nil is the outermost value.
type place struct {
	parent *place
	token  string
}

// member returns the place of a property, or nil if there is no sink.
func (p *place) member(name string, out *sink) *place {
	if out == nil {
		return nil
	}
	return &place{p, name}
}

// item returns the place of an item, or nil if there is no sink.
func (p *place) item(i int, out *sink) *place {
	if out == nil {
		return nil
	}
	return &place{p, strconv.Itoa(i)}
}

// path returns the tokens of a place, from the outermost value.
func (p *place) path() []string {
	var out []string
	for ; p != nil; p = p.parent {
		out = append(out, p.token)
	}
	slices.Reverse(out)
	return out
}

// evaluated has the properties and items of a value that a schema has evaluated, for unevaluatedProperties and
// unevaluatedItems. A nil pointer records nothing.
type evaluated struct {
	properties map[string]bool
	items      map[int]bool
	// first is the number of items from the beginning that are evaluated.
	first int
}

// fresh returns an empty record, or nil for nil.
func (e *evaluated) fresh() *evaluated {
	if e == nil {
		return nil
	}
	return &evaluated{}
}

func (e *evaluated) addProperty(name string) {
	if e == nil {
		return
	}
	if e.properties == nil {
		e.properties = map[string]bool{}
	}
	e.properties[name] = true
}

func (e *evaluated) addItem(i int) {
	if e == nil {
		return
	}
	if e.items == nil {
		e.items = map[int]bool{}
	}
	e.items[i] = true
}

// addItems adds the first items of a list.
func (e *evaluated) addItems(count int) {
	if e != nil {
		e.first = max(e.first, count)
	}
}

func (e *evaluated) hasProperty(name string) bool { return e != nil && e.properties[name] }

func (e *evaluated) hasItem(i int) bool { return e != nil && (i < e.first || e.items[i]) }

// merge adds the records of another schema for the same value.
func (e *evaluated) merge(other *evaluated) {
	if e == nil || other == nil {
		return
	}
	e.first = max(e.first, other.first)
	for name := range other.properties {
		e.addProperty(name)
	}
	for i := range other.items {
		e.addItem(i)
	}
}
