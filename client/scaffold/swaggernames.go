package scaffold

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"

	"github.com/getkin/kin-openapi/openapi2"
	"github.com/getkin/kin-openapi/openapi3"
	"github.com/go-json-experiment/json/jsontext"
)

// checkSwaggerNames returns an error for a name in a description in Swagger 2.0 that differs from the name of a member
// only in case, such as Host. The library for the conversion would read it as this member, so that it could replace
// host or security. Objects with names of the author's choice, such as definitions, can have such names.
func checkSwaggerNames(d document) error {
	c := nameChecker{document: d, types: map[reflect.Type]map[string]reflect.Type{}}
	return c.value(jsontext.NewDecoder(bytes.NewReader(d.value)), reflect.TypeFor[openapi2.T]())
}

// nameChecker checks the names of objects. types has the types of the members by name, for each type of the library.
type nameChecker struct {
	document document
	types    map[reflect.Type]map[string]reflect.Type
}

// value checks the next value of a decoder. t is the type of the library into which the value is read.
func (c nameChecker) value(d *jsontext.Decoder, t reflect.Type) error {
	t = contentType(t)
	kind := d.PeekKind()
	isObject := kind == jsontext.KindBeginObject && (t.Kind() == reflect.Struct || t.Kind() == reflect.Map)
	if !isObject && (kind != jsontext.KindBeginArray || t.Kind() != reflect.Slice) {
		return d.SkipValue()
	}
	if _, err := d.ReadToken(); err != nil {
		return err
	}
	for d.PeekKind() != jsontext.KindEndObject && d.PeekKind() != jsontext.KindEndArray {
		var child reflect.Type
		if isObject {
			name, err := d.ReadToken()
			if err != nil {
				return err
			}
			if child, err = c.member(d, t, name.String()); err != nil {
				return err
			}
		} else {
			child = t.Elem()
		}
		if err := c.value(d, child); err != nil {
			return err
		}
	}
	_, err := d.ReadToken()
	return err
}

// member returns the type of the member with this name in an object of type t. It returns an error if the library would
// read the member as another one.
func (c nameChecker) member(d *jsontext.Decoder, t reflect.Type, name string) (reflect.Type, error) {
	if t.Kind() == reflect.Map {
		return t.Elem(), nil
	}
	members := c.members(t)
	if child, known := members[name]; known {
		return child, nil
	}
	for other := range members {
		if strings.EqualFold(other, name) {
			return nil, fmt.Errorf("%s: the name %q differs from %q only in case: write %[3]q, or remove the member",
				c.document.place(string(d.StackPointer())), name, other)
		}
	}
	return reflect.TypeFor[any](), nil
}

// members returns the types of the members of a struct by their names in JSON.
func (c nameChecker) members(t reflect.Type) map[string]reflect.Type {
	if known := c.types[t]; known != nil {
		return known
	}
	out := map[string]reflect.Type{}
	for _, field := range reflect.VisibleFields(t) {
		if name, _, _ := strings.Cut(field.Tag.Get("json"), ","); name != "" && name != "-" {
			out[name] = field.Type
		}
	}
	if t == reflect.TypeFor[openapi2.Schema]() {
		out["$ref"] = reflect.TypeFor[string]()
	}
	c.types[t] = out
	return out
}

// contentType returns the type of what a pointer points to. A reference to a schema can have the members of a schema.
func contentType(t reflect.Type) reflect.Type {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t {
	case reflect.TypeFor[openapi2.SchemaRef](), reflect.TypeFor[openapi3.AdditionalProperties](),
		reflect.TypeFor[openapi3.SchemaRef]():
		return reflect.TypeFor[openapi2.Schema]()
	}
	return t
}
