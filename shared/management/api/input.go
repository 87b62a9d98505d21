package api

import (
	"maps"
	"net/http"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/gatewright/gatewright/shared/base/fault"
)

// input has the names of the fields of an operation's In, by their place in a request. Services do
// not know HTTP: their faults name only the field, and locate adds its place.
type input struct {
	body, path, query []string
	// bodyStrings are the names of the body's properties of the type string.
	bodyStrings []string
	// slashParameter is the path parameter, in braces, whose values may contain slashes. It is "" if there is none.
	slashParameter string
	// nonEmpty are the query parameters that must not be empty if
	// they are present: all except those with the tag empty:"absent".
	nonEmpty []string
	// singleValued are the query parameters that have one value: all except lists.
	singleValued []string
	// bools are the query parameters that are true or false.
	bools []string
	// uuids are the path parameters that are UUIDs.
	uuids []string
	// strict is true if other query parameters are refused.
	strict bool
	// shape is the shape of the body, or nil if it is unknown. It is set when the Route is registered.
	shape *bodyShape
}

// newInput returns the input of In, which it reads from the tags of the fields.
func newInput[In any]() *input {
	i := new(input)
	i.read(reflect.TypeFor[In]())
	return i
}

// read adds the fields of t, including those of embedded structs.
func (i *input) read(t reflect.Type) {
	for f := range fieldsOf(t) {
		switch {
		case f.Name == "Body":
			i.readBody(f.Type)
		case f.Anonymous:
			i.read(f.Type)
		case f.Tag.Get("path") != "":
			i.path = append(i.path, f.Tag.Get("path"))
			if f.Tag.Get("slashes") == "true" {
				i.slashParameter = "{" + f.Tag.Get("path") + "}"
			}
			if f.Tag.Get("uuid") == "true" {
				i.uuids = append(i.uuids, f.Tag.Get("path"))
			}
		case f.Tag.Get("query") != "":
			name, _, _ := strings.Cut(f.Tag.Get("query"), ",") // the "explode" of a list follows
			i.query = append(i.query, name)
			if f.Type.Kind() != reflect.Slice {
				i.singleValued = append(i.singleValued, name)
			}
			if kindOf(f.Type) == reflect.Bool {
				i.bools = append(i.bools, name)
			}
			if f.Tag.Get("empty") != "absent" {
				i.nonEmpty = append(i.nonEmpty, name)
			}
		}
	}
}

// kindOf returns the kind of a parameter's value, which may be wrapped.
func kindOf(t reflect.Type) reflect.Kind {
	if wrapped, ok := reflect.New(t).Interface().(huma.ParamWrapper); ok {
		return wrapped.Receiver().Kind()
	}
	return t.Kind()
}

// readBody reads the names of a body's properties. It reads none if the
// body is a list: faults then name fields by an index, such as [0].name.
func (i *input) readBody(t reflect.Type) {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	for f := range fieldsOf(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		i.body = append(i.body, name)
		if f.Type.Kind() == reflect.String {
			i.bodyStrings = append(i.bodyStrings, name)
		}
	}
}

// fieldsOf returns the fields of a struct, and no fields for other types.
func fieldsOf(t reflect.Type) func(func(reflect.StructField) bool) {
	return func(yield func(reflect.StructField) bool) {
		if t.Kind() != reflect.Struct {
			return
		}
		for n := range t.NumField() {
			if !yield(t.Field(n)) {
				return
			}
		}
	}
}

// normalize converts the UUIDs of the path to lower case: their letters may be in either case (RFC 9562, 4). A
// value that is not a UUID stays as it is and will not be found.
func (i *input) normalize(r *http.Request) {
	for _, name := range i.uuids {
		if value := r.PathValue(name); uuidPattern.MatchString(value) {
			r.SetPathValue(name, strings.ToLower(value))
		}
	}
}

var uuidPattern = regexp.MustCompile(`^[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}$`)

// checkQuery refuses invalid query parameters.
//
// It refuses a parameter that is present and empty. Such a parameter would otherwise count as absent, so that a client
// that forgets a filter's value would receive everything. It refuses a second value of a single-valued parameter: this
// package would use the first value, and a proxy might check the last. Booleans must be true or false as in JSON,
// because huma, with strconv, would also accept t and 0. A strict operation refuses unknown names. Names are exact,
// like those of a body's fields (bodyShape): a name that differs from a parameter's only in the case of its letters
// would otherwise be ignored without notice.
func (i *input) checkQuery(query url.Values) error {
	for _, name := range slices.Sorted(maps.Keys(query)) { // sorted, so that the error is the same each time
		at := slices.IndexFunc(i.query, func(known string) bool { return strings.EqualFold(known, name) })
		switch {
		case slices.Contains(i.query, name):
		case at >= 0:
			return fault.InvalidField("query."+name, "is no parameter of this operation: names are exact, write it as %s",
				i.query[at])
		case i.strict:
			return fault.InvalidField("query."+name, "is no parameter of this operation; there are %s",
				strings.Join(i.query, ", "))
		}
	}
	for _, name := range i.nonEmpty {
		if slices.Contains(query[name], "") {
			return fault.InvalidField("query."+name, "is empty; give it a value or leave it out")
		}
	}
	for _, name := range i.singleValued {
		if len(query[name]) > 1 {
			return fault.InvalidField("query."+name, "is given more than once; give it one value")
		}
	}
	for _, name := range i.bools {
		for _, value := range query[name] {
			if value != "true" && value != "false" {
				return fault.InvalidField("query."+name, "has to be true or false")
			}
		}
	}
	return nil
}

// locate returns details with the locations of their fields in the request: "body.tags", "path.branchName",
// "query.limit". A field that In does not have stays as it is. A nil input returns the details unchanged.
func (i *input) locate(details []fault.Detail) []fault.Detail {
	if i == nil {
		return details
	}
	out := slices.Clone(details)
	for n, d := range out {
		name, _, _ := strings.Cut(d.Field, ".")
		name, _, _ = strings.Cut(name, "[")
		switch {
		case d.Field == "" || strings.HasPrefix(d.Field, "["):
			out[n].Field = "body" + d.Field
		case slices.Contains(i.body, name):
			out[n].Field = "body." + d.Field
		case slices.Contains(i.path, name):
			out[n].Field = "path." + d.Field
		case slices.Contains(i.query, name):
			out[n].Field = "query." + d.Field
		}
	}
	return out
}
