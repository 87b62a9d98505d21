// Package options reads the options of handlers and policies. It is strict and reports
// all problems at once, each with a JSON pointer and a message that says what to do.
//
// A component declares its options once, as a struct. The tags are the
// constraints. The values that the fields have before Read are the defaults:
//
//	type rateLimit struct {
//		By      string `json:"rateLimitBy" required:"true" enum:"user,ip,all"`
//		Allowed int64  `json:"requestsAllowed" required:"true" minimum:"1"`
//		Mode    string `json:"mode" enum:"strict,async"`
//	}
//
// The package is not a JSON Schema library. It supports the kinds that options have: strings, booleans,
// integers and other numbers, structs, pointers to and slices of these, raw JSON, and maps to raw JSON,
// whose members ReadMember reads. It runs in builds and when an artifact is loaded, never for a request.
//
// No library that we know meets both of these requirements: values of variables are strings, so "100" must be accepted
// as 100; and the problem of a missing option needs the pointer that the option would have. huma's registry reports a
// missing property at its parent, in dotted locations that are ambiguous for names with dots. It treats a quoted number
// as a type error, and would link the management API's framework into the gateway. The JSON Schema library has exact
// pointers, but each option would have to be declared twice. encoding/json stops at the first error. Schemas for
// editors can be generated from these structs.
//
// There is only this file.
package options

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/gatewright/gatewright/shared/format/project"
)

// Root is the JSON pointer of the options within a component.
const Root = "/options"

// Read decodes raw into target, a pointer to a struct, and returns the problems of the options, nil
// for valid options. It reads an empty raw as {}. Fields that raw does not contain keep their values.
func Read(raw json.RawMessage, target any) []project.Problem {
	r := reader{}
	if len(bytes.TrimSpace(raw)) == 0 {
		raw = json.RawMessage("{}")
	}
	r.value(raw, reflect.ValueOf(target).Elem(), Root, "")
	return r.problems
}

// ReadMember decodes raw, a member of a map to raw JSON, into target. target points to a value of any kind that options
// can have. pointer is a result of Member. tag has the constraints, like the tag of a field.
func ReadMember(pointer string, raw json.RawMessage, target any, tag reflect.StructTag) []project.Problem {
	r := reader{}
	r.value(raw, reflect.ValueOf(target).Elem(), Root+pointer, tag)
	return r.problems
}

// Member returns the JSON pointer of a member of a map. pointer is the JSON pointer of the map, such as "/meters".
func Member(pointer, name string) string { return string(jsontext.Pointer(pointer).AppendToken(name)) }

// Problem returns a problem with one option, such as "/requestsAllowed".
func Problem(pointer, format string, args ...any) project.Problem {
	return project.Problem{Path: Root + pointer, Message: fmt.Sprintf(format, args...)}
}

type reader struct{ problems []project.Problem }

func (r *reader) report(pointer, format string, args ...any) {
	r.problems = append(r.problems, project.Problem{Path: pointer, Message: fmt.Sprintf(format, args...)})
}

// value decodes raw into v according to v's kind. tag has the field's tags.
func (r *reader) value(raw json.RawMessage, v reflect.Value, pointer string, tag reflect.StructTag) {
	if v.Type() == reflect.TypeFor[json.RawMessage]() {
		v.SetBytes(slices.Clone(raw))
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		r.object(raw, v, pointer)
	case reflect.Pointer:
		if v.IsNil() {
			v.Set(reflect.New(v.Type().Elem()))
		}
		r.value(raw, v.Elem(), pointer, tag)
	case reflect.Slice:
		r.array(raw, v, pointer, tag)
	case reflect.Map:
		members := map[string]json.RawMessage{}
		if json.Unmarshal(raw, &members) != nil || isNull(raw) {
			r.report(pointer, "Write an object.")
			return
		}
		v.Set(reflect.ValueOf(members))
	case reflect.String:
		r.text(raw, v, pointer, tag)
	case reflect.Bool:
		var b bool
		if json.Unmarshal(unquote(raw), &b) != nil || isNull(raw) {
			r.report(pointer, "Write true or false, or $env(NAME) of a variable that is one of them.")
			return
		}
		v.SetBool(b)
	case reflect.Int, reflect.Int64, reflect.Float64:
		r.number(raw, v, pointer, tag)
	default:
		panic(fmt.Sprintf("options: a field of kind %s", v.Kind()))
	}
}

func (r *reader) object(raw json.RawMessage, v reflect.Value, pointer string) {
	members := map[string]json.RawMessage{}
	if json.Unmarshal(raw, &members) != nil || isNull(raw) {
		r.report(pointer, "Write an object with %s.", list(names(v.Type()), "and"))
		return
	}
	for i := range v.NumField() {
		field := v.Type().Field(i)
		name := field.Tag.Get("json")
		member, present := members[name]
		delete(members, name)
		if present {
			r.value(member, v.Field(i), Member(pointer, name), field.Tag)
			continue
		}
		if field.Tag.Get("required") == "true" {
			r.report(Member(pointer, name), "Add %q: it is required.", name)
		}
	}
	unknown := make([]string, 0, len(members))
	for name := range members {
		unknown = append(unknown, name)
	}
	slices.Sort(unknown)
	for _, name := range unknown {
		if v.NumField() == 0 {
			r.report(Member(pointer, name), "Remove this option: there are none here.")
			continue
		}
		r.report(Member(pointer, name), "Remove this option: it is unknown here. Known ones are %s.",
			list(names(v.Type()), "and"))
	}
}

func (r *reader) array(raw json.RawMessage, v reflect.Value, pointer string, tag reflect.StructTag) {
	var elements []json.RawMessage
	if json.Unmarshal(raw, &elements) != nil || isNull(raw) {
		r.report(pointer, "Write an array.")
		return
	}
	slice := reflect.MakeSlice(v.Type(), len(elements), len(elements))
	for i, element := range elements {
		r.value(element, slice.Index(i), pointer+"/"+strconv.Itoa(i), tag)
	}
	v.Set(slice)
}

func (r *reader) text(raw json.RawMessage, v reflect.Value, pointer string, tag reflect.StructTag) {
	var s string
	if json.Unmarshal(raw, &s) != nil || isNull(raw) {
		r.report(pointer, "Write a string, in quotes.")
		return
	}
	if enum := tag.Get("enum"); enum != "" && !slices.Contains(strings.Split(enum, ","), s) {
		r.report(pointer, "Write %s.", list(strings.Split(enum, ","), "or"))
		return
	}
	if s == "" && tag.Get("required") == "true" {
		r.report(pointer, "Write a text that is not empty.")
		return
	}
	v.SetString(s)
}

// number reads a number. For the integer kinds it must be whole: 1e3 and 3.0 are whole.
func (r *reader) number(raw json.RawMessage, v reflect.Value, pointer string, tag reflect.StructTag) {
	var f float64
	raw = unquote(raw)
	if json.Unmarshal(raw, &f) != nil || isNull(raw) {
		r.report(pointer, "Write a number, or $env(NAME) of a variable that holds one.")
		return
	}
	mustBeWhole := v.Kind() != reflect.Float64
	// Above 2^53, not every whole number has a float64, and no option needs such a number.
	if mustBeWhole && (f != math.Trunc(f) || math.Abs(f) > 1<<53) {
		r.report(pointer, "Write a whole number.")
		return
	}
	if minimum, err := strconv.ParseFloat(tag.Get("minimum"), 64); err == nil && f < minimum {
		r.report(pointer, "Write a number of at least %s.", tag.Get("minimum"))
		return
	}
	if maximum, err := strconv.ParseFloat(tag.Get("maximum"), 64); err == nil && f > maximum {
		r.report(pointer, "Write a number of at most %s.", tag.Get("maximum"))
		return
	}
	if mustBeWhole {
		v.SetInt(int64(f))
		return
	}
	v.SetFloat(f)
}

// unquote removes the quotes of a number or a boolean. A variable's value
// is always a string, and "requestsAllowed": "$env(LIMIT)" has to work.
func unquote(raw json.RawMessage) json.RawMessage {
	var quoted string
	if json.Unmarshal(raw, &quoted) != nil || isNull(raw) {
		return raw
	}
	return json.RawMessage(strings.TrimSpace(quoted))
}

func isNull(raw json.RawMessage) bool { return string(bytes.TrimSpace(raw)) == "null" }

func names(t reflect.Type) []string {
	var out []string
	for i := range t.NumField() {
		out = append(out, t.Field(i).Tag.Get("json"))
	}
	return out
}

// list returns names as a list within a sentence. conjunction, such as "and", is written before the last name.
func list(names []string, conjunction string) string {
	quoted := make([]string, len(names))
	for i, name := range names {
		quoted[i] = strconv.Quote(name)
	}
	switch len(quoted) {
	case 0:
		return "no options"
	case 1:
		return quoted[0]
	default:
		return strings.Join(quoted[:len(quoted)-1], ", ") + " " + conjunction + " " + quoted[len(quoted)-1]
	}
}
