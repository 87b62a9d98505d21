package scaffold

import (
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// swaggerRoot returns the names of a place in a converted description with the names of Swagger 2.0 at its beginning. t looks
// up places in the original.
func swaggerRoot(names []string, t *targets) []string {
	if len(names) > 0 && names[0] == "servers" {
		if t.value("/schemes") != nil {
			return []string{"schemes"}
		}
		return []string{"host"}
	}
	if len(names) < 2 || names[0] != "components" {
		return names
	}
	moved := map[string]string{
		"schemas": "definitions", "parameters": "parameters", "requestBodies": "parameters", "responses": "responses",
		"securitySchemes": "securityDefinitions",
	}
	out := append([]string{moved[names[1]]}, names[2:]...)
	if len(out) > 1 && out[0] == "definitions" && t.value(jsontext.Pointer(join(out[:2]))) == nil {
		out[0] = "parameters" // a field of a form that several operations share
	}
	return out
}

// swaggerPlace returns the pointer of a part of a description in Swagger 2.0 from which a part of the converted description
// comes, or of the nearest part that contains it. names lead to the part of the converted description.
func (o *origins) swaggerPlace(names []string) string {
	t := o.targetsOf(o.files.name)
	at := jsontext.Pointer("")
	rest := swaggerRoot(names, t)
	for len(rest) > 0 {
		name := rest[0]
		consumed := names[:len(names)-len(rest)+1] // the part of the converted description that rest[0] names
		rest = rest[1:]
		next := at.AppendToken(name)
		switch {
		case at.LastToken() == "parameters" && strings.HasPrefix(string(at), "/paths/"):
			i := o.parameterIndex(t.value(at), o.converted.value(jsontext.Pointer(join(consumed))))
			if i < 0 {
				return string(at)
			}
			at = at.AppendToken(strconv.Itoa(i))
		case t.value(next) != nil:
			at = next
		case name == "content" && len(rest) > 0:
			rest = rest[1:] // the media type
		case name == "requestBody":
			return string(o.bodyPlace(at, rest))
		case name == "schema": // its keywords are members of the parameter or the header itself
		default:
			return string(at)
		}
	}
	return string(at)
}

// parameterIndex returns the index of the parameter in a list in Swagger 2.0 from which a converted parameter comes, -1 if it
// is not in the list.
func (o *origins) parameterIndex(list, converted jsontext.Value) int {
	all, _ := readMembers(converted)
	ref := strings.Replace(stringValue(memberValue(all, "$ref")), "#/components/parameters/", "#/parameters/", 1)
	return slices.IndexFunc(readElements(list), func(element jsontext.Value) bool {
		p, _ := readMembers(element)
		get := func(of []member, name string) string { return stringValue(memberValue(of, name)) }
		return get(p, "$ref") == ref && get(p, "name") == get(all, "name") && get(p, "in") == get(all, "in")
	})
}

// bodyPlace returns the place of a part of the request body of an operation. at is the place of the operation, and names lead
// from the body to the part.
func (o *origins) bodyPlace(at jsontext.Pointer, names []string) jsontext.Pointer {
	t := o.targetsOf(o.files.name)
	list := at.AppendToken("parameters")
	property := "" // of a form
	if len(names) >= 5 && names[0] == "content" && names[2] == "schema" && names[3] == "properties" {
		property = names[4]
	}
	for i, element := range readElements(t.value(list)) {
		p, _ := readMembers(element)
		parameter := list.AppendToken(strconv.Itoa(i))
		switch in := stringValue(memberValue(p, "in")); {
		case in == "body" && len(names) > 2 && names[0] == "content":
			from, _ := o.existing(o.files.name, string(parameter), names[2:])
			return jsontext.Pointer(from.pointer)
		case in == "body":
			return parameter
		case in == "formData" && property != "" && stringValue(memberValue(p, "name")) == property:
			from, _ := o.existing(o.files.name, string(parameter), names[5:])
			return jsontext.Pointer(from.pointer)
		}
	}
	return at
}
