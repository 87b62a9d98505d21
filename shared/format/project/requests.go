package project

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// addDescriptions adds the descriptions of requests and responses to the routes whose policies validate them, and the
// definitions that the descriptions refer to.
func (c *compiler) addDescriptions() {
	d := &definer{c: c, names: map[definitionKey]string{}, hidden: map[hiddenKey][]string{}, unchecked: map[string]string{}}
	for i := range c.artifact.Routes {
		route := &c.artifact.Routes[i]
		request, responses := c.validates(route)
		if !request && !responses || c.docs[route.Source.File] == nil || c.stopped() {
			continue
		}
		item, operation := c.declaration(route)
		b := &describer{
			definer: d, c: c, doc: c.docs[route.Source.File], route: route, item: item, operation: operation,
			at: route.Source.Pointer,
		}
		if request {
			route.Request = b.request()
		}
		if responses {
			route.Responses = b.responses()
		}
		if !c.addSize(route.Source.File, b.at, b.size) {
			return
		}
	}
	d.finish()
}

// validates reports which descriptions the policies of a route need.
func (c *compiler) validates(route *Route) (request, responses bool) {
	for _, name := range slices.Concat(route.Inbound, route.Outbound) {
		needsRequest, needsResponses := c.catalog.Validates(c.artifact.Policies[name].Type)
		request, responses = request || needsRequest, responses || needsResponses
	}
	return request, responses
}

// describer builds the descriptions of one route.
type describer struct {
	*definer
	c               *compiler
	doc             *document
	route           *Route
	item, operation map[string]any
	at              string
	// size is the estimated size of the encoding of the descriptions, in bytes.
	size int
}

// warn adds a warning. at is a pointer in the file of the route.
func (b *describer) warn(at, format string, args ...any) { b.c.warn(b.doc.file, at, format, args...) }

// deref returns a parameter, body, response or header, and the pointer of the place that describes it. It returns false
// for a reference that it cannot follow, and warns about references to other documents.
func (b *describer) deref(at string, value any) (object map[string]any, place string, found bool) {
	place = at
	for range maxReferences {
		object = asObject(value)
		target, isReference := object["$ref"].(string)
		if !isReference {
			return object, place, object != nil
		}
		path, isLocal := strings.CutPrefix(target, "#/")
		if !isLocal {
			b.warn(place+"/$ref", "This is not validated, because the gateway does not follow references to other documents. "+
				"Write it under components of this document.")
			return nil, place, false
		}
		if value, found = lookup(b.doc.root, path); !found {
			return nil, place, false // already reported
		}
		place = "/" + path
	}
	return nil, place, false
}

// request returns the description of the route's requests.
func (b *describer) request() *RequestDescription {
	out := &RequestDescription{Parameters: b.parameters()}
	if b.operation["requestBody"] == nil {
		return out
	}
	body, at, found := b.deref(b.at+"/requestBody", b.operation["requestBody"])
	if !found {
		return out
	}
	out.Body = &BodyDescription{Required: body["required"] == true, Content: b.content(at, body, keywordReadOnly)}
	return out
}

// parameters returns the parameters of the route in the order of the document. A parameter of the operation takes
// precedence over one of the path item.
func (b *describer) parameters() []Parameter {
	var out []Parameter
	for _, level := range []struct {
		object map[string]any
		at     string
	}{{b.item, b.itemPointer()}, {b.operation, b.at}} {
		list, _ := level.object["parameters"].([]any)
		for i, entry := range list {
			object, at, found := b.deref(level.at+"/parameters/"+strconv.Itoa(i), entry)
			if !found {
				continue
			}
			p, valid := b.parameter(at, object, ParameterLocation(text(orEmpty(object["in"]))), text(orEmpty(object["name"])),
				keywordReadOnly)
			if !valid {
				continue
			}
			same := slices.IndexFunc(out, func(other Parameter) bool { return other.In == p.In && other.Name == p.Name })
			if same >= 0 {
				out[same] = p
			} else {
				out = append(out, p)
			}
		}
	}
	return out
}

// itemPointer returns the pointer of the path item that has the operation.
func (b *describer) itemPointer() string {
	names := tokens(b.at)
	last := len(names) - 1
	if last > 0 && names[last-1] == additionalOperations {
		last--
	}
	return pointer(names[:last]...)
}

// parameter returns the description of a parameter or of a header. It returns false for a parameter that is ignored,
// and warns about it.
func (b *describer) parameter(
	at string, object map[string]any, in ParameterLocation, name, hidden string,
) (Parameter, bool) {
	p := Parameter{In: in, Name: name, Required: object["required"] == true, AllowEmpty: object["allowEmptyValue"] == true}
	if in == PathParameter && !strings.Contains(b.route.Path, "{"+name+"}") && b.route.PathMode == OpenAPIPath {
		b.warn(at, "This parameter has no effect: the path has no {%s}. Correct its name or remove it.", printable(name))
		return p, false
	}
	if in == HeaderParameter && slices.Contains(ignoredHeaders, strings.ToLower(name)) {
		b.warn(at, "This parameter has no effect: OpenAPI describes the header %s elsewhere (content types of bodies, and "+
			"security schemes). Remove the parameter.", printable(name))
		return p, false
	}
	b.size += 100 + len(name)
	context := schemaContext{doc: b.doc, keyword: hidden}
	if content, has := object["content"].(map[string]any); has {
		for _, mediaType := range slices.Sorted(maps.Keys(content)) {
			media, mediaAt, _ := b.deref(at+"/content"+pointer(mediaType), content[mediaType])
			p.ContentType = baseType(mediaType)
			p.Schema = b.schema(context, mediaAt+"/schema", orTrue(media["schema"]))
			p.Encoding = b.encodings(mediaAt, media, hidden)
			b.size += len(p.Schema)
			break // the schema of OpenAPI requires exactly one
		}
		return p, true
	}
	p.Style, _ = object["style"].(string)
	if p.Style == "" {
		p.Style = defaultStyles[in]
	}
	var isSet bool
	if p.Explode, isSet = object["explode"].(bool); !isSet {
		p.Explode = p.Style == StyleForm || p.Style == StyleCookie
	}
	p.Schema = b.schema(context, at+"/schema", orTrue(object["schema"]))
	b.size += len(p.Schema)
	return p, true
}

// defaultStyles are the styles of parameters that name none.
var defaultStyles = map[ParameterLocation]string{
	PathParameter: StyleSimple, QueryParameter: StyleForm, HeaderParameter: StyleSimple, CookieParameter: StyleForm,
}

// orTrue returns a schema, or true for a schema that does not exist.
func orTrue(schema any) any {
	if schema == nil {
		return true
	}
	return schema
}

// baseType returns a media type in lower case without parameters.
func baseType(mediaType string) string {
	base, _, _ := strings.Cut(strings.ToLower(mediaType), ";")
	return strings.TrimSpace(base)
}

// content returns the media types of a body. Ranges stand behind the types that they include. Media types that differ
// only in parameters become one, which allows the values of each of them. at is the pointer of the body.
func (b *describer) content(at string, body map[string]any, hidden string) []MediaType {
	content, _ := body["content"].(map[string]any)
	var out []MediaType
	for _, name := range slices.Sorted(maps.Keys(content)) {
		media, mediaAt, found := b.deref(at+"/content"+pointer(name), content[name])
		if !found {
			continue
		}
		m := MediaType{Type: baseType(name), Encoding: b.encodings(mediaAt, media, hidden)}
		m.Schema = b.schema(schemaContext{doc: b.doc, keyword: hidden}, mediaAt+"/schema", orTrue(media["schema"]))
		if m.Schema != nil && !isValidated(m.Type) {
			b.warn(mediaAt+"/schema", "Bodies of the type %s are not checked with this schema: the gateway validates JSON, "+
				"forms and text. It accepts every body of this type.", printable(m.Type))
			m.Schema = nil
		}
		b.size += 50 + len(m.Type) + len(m.Schema)
		same := slices.IndexFunc(out, func(other MediaType) bool { return other.Type == m.Type })
		if same < 0 {
			out = append(out, m)
			continue
		}
		out[same].Schema = anyOf(out[same].Schema, m.Schema)
	}
	slices.SortStableFunc(out, func(a, b MediaType) int {
		return cmp.Compare(strings.Count(a.Type, "*"), strings.Count(b.Type, "*"))
	})
	return out
}

// isValidated reports whether the gateway validates bodies of a media type or range with their schema.
func isValidated(mediaType string) bool {
	switch mediaType {
	case "application/json", "application/x-www-form-urlencoded", "multipart/form-data", "*/*", "application/*",
		"multipart/*", "text/*":
		return true
	}
	return strings.HasSuffix(mediaType, "+json") || strings.HasPrefix(mediaType, "text/") && mediaType != "text/xml"
}

// anyOf returns a schema that allows the values of two schemas.
func anyOf(a, b json.RawMessage) json.RawMessage {
	if a == nil || b == nil {
		return nil
	}
	return fmt.Appendf(nil, `{"anyOf":[%s,%s]}`, a, b)
}

// encodings returns the encodings of the properties of a form. media is a media type object, and at its pointer.
func (b *describer) encodings(at string, media map[string]any, hidden string) map[string]Encoding {
	declared, _ := media["encoding"].(map[string]any)
	var out map[string]Encoding
	for _, name := range slices.Sorted(maps.Keys(declared)) {
		object := asObject(declared[name])
		e := Encoding{ContentType: text(orEmpty(object["contentType"]))}
		style, hasStyle := object["style"].(string)
		explode, hasExplode := object["explode"].(bool)
		_, hasReserved := object["allowReserved"]
		if hasStyle || hasExplode || hasReserved {
			// OpenAPI 3.1 and 3.2 ignore the content type then. OpenAPI 3.0 has both for forms of different kinds.
			e.Style = cmp.Or(style, StyleForm)
			e.Explode = explode || !hasExplode && e.Style == StyleForm
		}
		headers, _ := object["headers"].(map[string]any)
		e.Headers = b.headers(at+"/encoding"+pointer(name, "headers"), headers, hidden)
		if out == nil {
			out = map[string]Encoding{}
		}
		out[name] = e
		b.size += 50 + len(name) + len(e.ContentType)
	}
	return out
}

// headers returns the descriptions of headers by name. at is the pointer of the object that has them.
func (b *describer) headers(at string, named map[string]any, hidden string) []Parameter {
	var out []Parameter
	for _, name := range slices.Sorted(maps.Keys(named)) {
		if strings.EqualFold(name, "content-type") {
			continue // OpenAPI describes it by the media types
		}
		object, place, found := b.deref(at+pointer(name), named[name])
		if !found {
			continue
		}
		if p, valid := b.parameter(place, object, HeaderParameter, name, hidden); valid {
			out = append(out, p)
		}
	}
	return out
}

// responses returns the descriptions of the route's responses.
func (b *describer) responses() ResponseDescription {
	declared, _ := b.operation["responses"].(map[string]any)
	out := ResponseDescription{}
	for _, status := range slices.Sorted(maps.Keys(declared)) {
		if strings.HasPrefix(status, "x-") {
			continue
		}
		object, at, found := b.deref(b.at+"/responses"+pointer(status), declared[status])
		if !found {
			continue
		}
		headers, _ := object["headers"].(map[string]any)
		out[strings.ReplaceAll(status, "xx", "XX")] = StatusDescription{
			Headers: b.headers(at+"/headers", headers, keywordWriteOnly),
			Content: b.content(at, object, keywordWriteOnly),
		}
	}
	return out
}
