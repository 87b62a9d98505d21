package project

import (
	"fmt"
	"maps"
	"mime"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"golang.org/x/net/http/httpguts"
)

// This file builds the arguments of operations whose bodies are forms (OpenAPI 3.1, "Encoding Object"). Package mcp
// writes the forms (shared/format/mcp/form.go).

// FormField says how a property of a form is written, in addition to the Style of its Argument. ContentType has no effect
// with a Style. File and Headers are for multipart forms.
type FormField struct {
	// ContentType is the media type of the value, or of each element of a list. The value is written as JSON if this is the
	// media type, and otherwise as text. "" means JSON for objects and lists within lists, and text for all other values.
	// For a file, "" means that an argument has to name the media type.
	ContentType string `json:"contentType,omitempty"`
	// AllowReserved is set to write reserved characters without escapes if they have no meaning in forms.
	AllowReserved bool `json:"allowReserved,omitempty"`
	// File is set for a file or a list of files: the argument has their content in Base64.
	File bool `json:"file,omitempty"`
	// Headers are the header fields of each part, by name.
	Headers map[string]string `json:"headers,omitempty"`
}

// isDefault reports whether the field has no effect, so that the argument needs no FormField.
func (f *FormField) isDefault() bool {
	return f.ContentType == "" && !f.AllowReserved && !f.File && len(f.Headers) == 0
}

// estimatedBytes estimates the size of the encoding. The field can be nil.
func (f *FormField) estimatedBytes() int {
	if f == nil {
		return 0
	}
	n := 60 + len(f.ContentType)
	for name, value := range f.Headers {
		n += 10 + len(name) + len(value)
	}
	return n
}

// formBuilder adds the arguments of a form to an offer.
type formBuilder struct {
	*offerBuilder
	// doc is the document with the encodings. References in them are relative to it.
	doc *document
	// at is the pointer of the encodings, relative to the operation. encodings are the encodings by property.
	at          string
	encodings   map[string]any
	isMultipart bool
}

// addForm adds the arguments for a body that is a form. at is the pointer of the media type object, and flat is its
// schema, flattened.
func (b *offerBuilder) addForm(at string, media place, flat map[string]any, bodyRequired bool) {
	found, _ := media.deref()
	object := found.object()
	encodings, _ := object["encoding"].(map[string]any)
	f := formBuilder{b, found.doc, at + "/encoding", encodings, b.offer.Body == BodyMultipart}
	for _, name := range []string{"prefixEncoding", "itemEncoding"} {
		if object[name] != nil {
			b.fail(at+"/"+name, "An MCP server cannot write the parts of a form by their positions. Name them by the "+
				"properties of the schema.")
			return
		}
	}
	for _, name := range slices.Sorted(maps.Keys(encodings)) {
		if !hasProperty(mediaSchema(media), name, 0) {
			b.warn(f.at+escapedPointer(name), "This encoding has no effect: the schema of the body has no property of this "+
				"name. Correct the name, or add the property.")
		}
	}
	b.addProperties(flat, bodyRequired, f.addField)
}

// maxParts is the maximum depth to which hasProperty, mayHaveFile and withoutNull follow the parts of a schema.
const maxParts = 8

// hasProperty reports whether a schema declares a property. It returns true if it cannot read all parts of the schema.
func hasProperty(schema place, name string, depth int) bool {
	schema, found := schema.deref()
	if !found || depth == maxParts || schema.member("properties").member(name).value != nil {
		return true
	}
	parts, _ := schema.object()["allOf"].([]any)
	return slices.ContainsFunc(parts, func(part any) bool {
		return hasProperty(place{doc: schema.doc, value: part}, name, depth+1)
	})
}

// mayHaveFile reports whether the schema of a form has a property that is a file or a list of files.
func mayHaveFile(schema place, depth int) bool {
	schema, found := schema.deref()
	if !found || depth == maxParts {
		return false
	}
	properties := schema.member("properties")
	for name := range properties.object() {
		property, _ := properties.member(name).deref()
		items, _ := property.member("items").deref()
		if isBinary(property.object(), nil) || isBinary(items.object(), nil) {
			return true
		}
	}
	parts, _ := schema.object()["allOf"].([]any)
	return slices.ContainsFunc(parts, func(part any) bool {
		return mayHaveFile(place{doc: schema.doc, value: part}, depth+1)
	})
}

// addField adds the argument for a property of the form. It reports a property that cannot be written.
func (f *formBuilder) addField(a Argument, schema any) {
	at := f.at + escapedPointer(a.Target)
	encoding, _ := f.encodings[a.Target].(map[string]any)
	for _, name := range []string{"encoding", "prefixEncoding", "itemEncoding"} {
		if encoding[name] != nil {
			f.fail(at+"/"+name, "An MCP server cannot write a form within a form. Describe the property as JSON.")
			return
		}
	}
	if f.isMultipart && strings.ContainsFunc(a.Target, unicode.IsControl) {
		f.fail(strings.TrimSuffix(f.at, "/encoding")+"/schema", "The name %s has control characters, which the header of a "+
			"part cannot have. Rename the property.", quote(a.Target))
		return
	}
	field := &FormField{}
	if !f.setHeaders(at+"/headers", field, encoding["headers"]) {
		return
	}
	types := mediaTypes(encoding["contentType"])
	for _, mediaType := range types {
		if !isMediaType(mediaType) || !strings.Contains(mediaType, "/") {
			f.fail(at+"/contentType", "This is not a list of media types. Write media types such as text/csv, separated by "+
				"commas.")
			return
		}
	}
	_, hasStyle := encoding["style"]
	_, hasExplode := encoding["explode"]
	_, hasReserved := encoding["allowReserved"]
	file, isList := f.fileSchema(schema, types)
	switch {
	case f.isMultipart && file != nil:
		if hasStyle && encoding["style"] != any(StyleForm) || isList && encoding["explode"] == any(false) {
			f.warn(at, "The style of this encoding has no effect: each file is a part of its own. Remove it.")
		}
		f.addFile(a, schema, field, types)
		return
	case f.isMultipart && hasFile(schema):
		f.fail(at, "An MCP server can send a file as a property of the form or as an element of a list, and this property "+
			"has one elsewhere. Describe the file as a property of its own.")
		return
	case hasStyle || hasExplode || hasReserved:
		if len(types) > 0 {
			f.warn(at+"/contentType", "This media type has no effect next to style, explode or allowReserved. Remove one "+
				"of them.")
		}
		if !f.setStyle(at, &a, encoding) {
			return
		}
		field.AllowReserved = encoding["allowReserved"] == any(true)
	default:
		if !f.setContentType(at+"/contentType", field, types, schema) {
			return
		}
	}
	if !field.isDefault() {
		a.Form = field
	}
	f.addArgument(a, schema)
}

// setStyle sets the style of a property. The rules are those of parameters in the query (OpenAPI 3.1, "Encoding Object").
func (f *formBuilder) setStyle(at string, a *Argument, encoding map[string]any) bool {
	query := Argument{Location: InQuery}
	if !f.offerBuilder.setStyle(at, &query, encoding) {
		return false
	}
	a.Style, a.Explode = query.Style, query.Explode
	return true
}

// mediaTypes returns the media types and ranges of a contentType.
func mediaTypes(contentType any) []string {
	list, _ := contentType.(string)
	var out []string
	for mediaType := range strings.SplitSeq(list, ",") {
		if mediaType = strings.TrimSpace(mediaType); mediaType != "" {
			out = append(out, mediaType)
		}
	}
	return out
}

// setContentType sets the media type of a property that is not a file. It chooses the first of types that can represent all
// values of the property, or otherwise the first one that can represent some. If no type can represent any, it reports
// this and returns false.
func (f *formBuilder) setContentType(at string, field *FormField, types []string, schema any) bool {
	if len(types) == 0 {
		return true
	}
	mayBeObject := allowsObject(schema, 0)
	var best string
	found := false
	for _, mediaType := range types {
		all := true // whether the media type can represent all values
		switch base := baseType(mediaType); {
		case base == "*/*", base == "application/*":
			mediaType = "" // the default
		case isJSON(base):
		case base == "text/*":
			mediaType, all = "text/plain", !mayBeObject
		case strings.Contains(base, "*") || !isUTF8(mediaType) || !allowsText(schema, strings.HasPrefix(base, "text/"), 0):
			continue
		default:
			all = !mayBeObject
		}
		if all || !found {
			best, found = mediaType, true
		}
		if all {
			break
		}
	}
	if !found {
		f.fail(at, "An MCP server cannot write this property in this media type: it writes JSON, and texts in UTF-8. Use "+
			"application/json, or describe the property as a string.")
		return false
	}
	field.ContentType = best
	return true
}

// isUTF8 reports whether texts of a media type can be UTF-8.
func isUTF8(mediaType string) bool {
	_, parameters, err := mime.ParseMediaType(mediaType)
	charset := strings.ToLower(parameters["charset"])
	return err == nil && (charset == "" || charset == "utf-8")
}

// ownHeaders are the header fields that the MCP server writes to each part.
var ownHeaders = []string{"content-type", "content-disposition"}

// setHeaders sets the header fields of a part. An MCP server knows the value of a header if its schema has a const, an enum
// with one value, or a default. setHeaders leaves out other headers with a warning. It returns false after an error, for
// example about a required header without a value.
func (f *formBuilder) setHeaders(at string, field *FormField, headers any) bool {
	declared, _ := headers.(map[string]any)
	if len(declared) > 0 && !f.isMultipart {
		f.warn(at, "These headers have no effect: only the parts of a multipart body have headers. Remove them.")
		return true
	}
	for _, name := range slices.Sorted(maps.Keys(declared)) {
		headerAt := at + escapedPointer(name)
		header, ok := f.deref(headerAt, place{doc: f.doc, value: declared[name]})
		if !ok {
			return false
		}
		if slices.Contains(ownHeaders, strings.ToLower(name)) {
			f.warn(headerAt, "This header has no effect: the MCP server writes it, with the contentType of the encoding. "+
				"Remove it.")
			continue
		}
		value, known := f.headerValue(headerAt, header)
		switch {
		case !known && header.object()["required"] == any(true):
			f.fail(headerAt, "An MCP server cannot know the value of this header of a part, and it is required. Write the "+
				"value as const or default into its schema.")
			return false
		case !known:
			f.warn(headerAt, "An MCP server cannot know the value of this header of a part, so it leaves the header out. Write "+
				"the value as const or default into its schema.")
			continue
		case !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value):
			f.fail(headerAt, "This is not a valid header. Use letters, digits and hyphens in its name, and one line in its "+
				"value.")
			return false
		case strings.EqualFold(name, "Content-Transfer-Encoding") && !slices.Contains(
			[]string{"7bit", "8bit", "binary"}, strings.ToLower(value)): // not even for Base64, which parsers of forms ignore
			f.fail(headerAt, "An MCP server sends the content of a part as it is, without a transfer encoding, as in RFC 7578. "+
				"Remove this header.")
			return false
		}
		if field.Headers == nil {
			field.Headers = map[string]string{}
		}
		field.Headers[name] = value
	}
	return true
}

// headerValue returns the value of a header of a part. It returns false if the schema does not have one.
func (f *formBuilder) headerValue(at string, header place) (string, bool) {
	inlined, ok := f.inlineSchema(at+"/schema", header.member("schema"), "")
	schema, _ := inlined.(map[string]any)
	if !ok || schema == nil {
		return "", false
	}
	value, known := schema["const"]
	if values, _ := schema["enum"].([]any); !known && len(values) == 1 {
		value, known = values[0], true
	}
	if !known {
		value, known = schema["default"]
	}
	switch value.(type) {
	case nil, map[string]any, []any:
		return "", false
	}
	return text(value), known
}

// addFile adds the arguments for a property that is a file or a list of files: one for the content, one for the name, and
// one for the media type if the description does not name exactly one.
func (f *formBuilder) addFile(a Argument, schema any, field *FormField, types []string) {
	file, isList := f.fileSchema(schema, types)
	field.File = true
	var concrete, ranges []string
	for _, mediaType := range types {
		if strings.Contains(mediaType, "*") {
			ranges = append(ranges, mediaType)
			continue
		}
		concrete = append(concrete, mediaType)
	}
	contentMediaType, _ := file["contentMediaType"].(string)
	switch {
	case len(concrete) > 0:
		field.ContentType = concrete[0]
	case len(ranges) > 0 && !slices.Contains(ranges, "*/*"):
	case isMediaType(contentMediaType):
		field.ContentType = contentMediaType
	default:
		field.ContentType = "application/octet-stream"
	}
	a.Form = field
	f.addArgument(a, asBase64(schema, file, isList))
	name := fmt.Sprintf("%q", a.Target)
	f.addArgument(Argument{Location: InFileName, Target: a.Target}, listOf(isList, "The name of the file "+name+".",
		"The names of the files "+name+", in the same order.", map[string]any{
			"type": "string", "minLength": 1, "maxLength": MaxFileName,
		}))
	if len(types) == 1 && len(concrete) == 1 || len(types) == 0 && contentMediaType != "" {
		return
	}
	element := map[string]any{"type": "string", "pattern": mediaTypePattern(types)}
	if len(ranges) == 0 && len(concrete) > 0 {
		element = map[string]any{"type": "string", "enum": anyList(concrete)}
	}
	f.addArgument(Argument{
		Location: InMediaType, Target: a.Target, Required: a.Required && field.ContentType == "",
	}, listOf(isList, "The media type of the file "+name+".", "The media types of the files "+name+", in the same order.",
		element))
}

// MaxFileName is the maximum length of a file's name, in characters.
const MaxFileName = 255

// listOf returns the schema of a list of elements with the description several or, if isList is not set, the schema of one
// element with the description single.
func listOf(isList bool, single, several string, element map[string]any) map[string]any {
	if isList {
		return map[string]any{"type": "array", "items": element, "description": several}
	}
	element["description"] = single
	return element
}

// mediaTypePattern returns a regular expression for the media types that a list of types and ranges allows. An empty list
// allows every media type.
func mediaTypePattern(types []string) string {
	if len(types) == 0 {
		types = []string{"*/*"}
	}
	var alternatives []string
	for _, mediaType := range types {
		alternatives = append(alternatives, strings.ReplaceAll(regexp.QuoteMeta(mediaType), `\*`, `[^/;,\s]+`))
	}
	return "^(" + strings.Join(alternatives, "|") + ")$"
}

// anyList returns a list of texts as a list of any.
func anyList(texts []string) []any {
	out := make([]any, len(texts))
	for i, text := range texts {
		out[i] = text
	}
	return out
}
