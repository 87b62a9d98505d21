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
	d := newDefiner(c)
	for i := range c.artifact.Routes {
		route := &c.artifact.Routes[i]
		request, responses := c.validates(route)
		if !request && !responses || c.docs[route.file] == nil || c.stopped() {
			continue
		}
		b := &describer{definer: d, route: route, isOpenAPI30: c.docs[route.file].isOpenAPI30()}
		b.item, b.operation = c.declaration(route)
		if request {
			route.Request = b.request()
		}
		if responses {
			route.Responses = b.responses()
		}
		c.warnDescribed(route)
		if !c.addSize(route.Source.File, route.Source.Pointer, b.size) {
			return
		}
	}
	d.finish()
}

// warnDescribed adds the catalog's warnings about policies that have nothing to check in the descriptions of a route.
func (c *compiler) warnDescribed(route *Route) {
	for _, direction := range []struct {
		name     string
		policies []string
		entries  []int
		added    int
	}{
		{"inbound", route.Inbound, route.inboundEntries, c.addedPolicies[route.key()]},
		{"outbound", route.Outbound, route.outboundEntries, 0},
	} {
		for i, name := range direction.policies[direction.added:] {
			text := c.catalog.WarnDescribed(c.artifact.Policies[name], route.Request, route.Responses)
			if text != "" {
				c.warn(route.Source.File, route.Source.Pointer+pointer(routeExtension, "policies", direction.name,
					strconv.Itoa(direction.entries[i])), "%s", text)
			}
		}
	}
}

// validates reports whether policies of a route validate its requests, and whether they validate its responses.
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
	route       *Route
	isOpenAPI30 bool
	item        *pathItem
	operation   place
	// size is the estimated size of the encoding of the descriptions, in bytes.
	size int
}

// warn adds a warning about a place.
func (b *describer) warn(p place, format string, args ...any) {
	b.c.warn(p.doc.file, p.at, format, args...)
}

// member returns the place of a member of an object.
func (p place) member(name string) place { return place{p.doc, p.at + pointer(name), p.object()[name]} }

// context returns the context of schemas. hidden is keywordReadOnly for requests, and keywordWriteOnly for responses.
func (b *describer) context(hidden string) schemaContext {
	return schemaContext{keyword: hidden, isOpenAPI30: b.isOpenAPI30}
}

// addSchema returns the encoded schema of a place, and adds its length to size. It returns nil if there is no schema.
func (b *describer) addSchema(hidden string, p place) json.RawMessage {
	if p.value == nil {
		return nil
	}
	out := b.schema(b.context(hidden), p)
	b.size += len(out)
	return out
}

// request returns the description of the route's requests.
func (b *describer) request() *RequestDescription {
	out := &RequestDescription{Parameters: b.parameters()}
	if body, found := b.operation.member("requestBody").deref(); found {
		out.Body = &BodyDescription{
			Required: body.object()["required"] == true, Content: b.content(body, keywordReadOnly),
		}
	}
	return out
}

// parameters returns the parameters of the route in the order of the document. A parameter of the operation takes
// precedence over one of the path item.
func (b *describer) parameters() []Parameter {
	var out []Parameter
	for _, level := range []place{b.item.placeOf("parameters"), b.operation.member("parameters")} {
		list, _ := level.value.([]any)
		type key struct {
			in   ParameterLocation
			name string
		}
		known := map[key]bool{} // at this level
		for i, entry := range list {
			described, found := place{level.doc, level.at + "/" + strconv.Itoa(i), entry}.deref()
			if !found {
				continue
			}
			in, name := text(orEmpty(described.object()["in"])), text(orEmpty(described.object()["name"]))
			p, valid := b.parameter(described, ParameterLocation(in), name, keywordReadOnly)
			if !valid {
				continue
			}
			if known[key{p.In, p.Name}] {
				b.warn(described, "An earlier parameter with this name and location has no effect. Remove one of them.")
			}
			known[key{p.In, p.Name}] = true
			same := slices.IndexFunc(out, func(other Parameter) bool { return other.In == p.In && other.Name == p.Name })
			if same >= 0 {
				out[same] = p
			} else {
				out = append(out, p)
			}
		}
	}
	b.warnUndescribed(out)
	return out
}

// warnUndescribed warns about parameters of the path that no parameter describes: all their values are valid.
func (b *describer) warnUndescribed(described []Parameter) {
	if b.route.PathMode != OpenAPIPath {
		return
	}
	for _, name := range b.pathParameters() {
		if !slices.ContainsFunc(described, func(p Parameter) bool { return p.In == PathParameter && p.Name == name }) {
			b.warn(b.operation, "Values of {%s} in the path are not checked, because no parameter describes them. Add a "+
				"parameter with the location path.", printable(name))
		}
	}
}

// parameter returns the description of a parameter or of a header. For a parameter that has no effect, it adds a warning
// and returns false.
func (b *describer) parameter(at place, in ParameterLocation, name, hidden string) (Parameter, bool) {
	object := at.object()
	p := Parameter{In: in, Name: name, Required: object["required"] == true}
	p.AllowEmpty = object["allowEmptyValue"] == true && (in == QueryParameter || in == CookieParameter)
	switch {
	case in == PathParameter && b.route.PathMode == OpenAPIPath && !slices.Contains(b.pathParameters(), name):
		b.warn(at, "This parameter has no effect: the path has no {%s}. Correct its name or remove it.", printable(name))
		return p, false
	case in == HeaderParameter && slices.Contains(ignoredHeaders, strings.ToLower(name)):
		b.warn(at, "This parameter has no effect: OpenAPI describes the header %s elsewhere, by the media types of bodies "+
			"or by security schemes. Remove the parameter.", printable(name))
		return p, false
	}
	b.size += 100 + len(name)
	for _, mediaType := range slices.Sorted(maps.Keys(at.member("content").object())) {
		media, _ := at.member("content").member(mediaType).deref()
		p.ContentType = baseType(mediaType)
		p.Schema = b.addSchema(hidden, media.member("schema"))
		p.Encoding = b.encodings(media, hidden)
		return p, true // the schema of OpenAPI requires exactly one media type
	}
	p.Style, _ = object["style"].(string)
	if p.Style == "" {
		p.Style = defaultStyles[in]
	}
	var isSet bool
	if p.Explode, isSet = object["explode"].(bool); !isSet {
		p.Explode = p.Style == StyleForm || p.Style == StyleCookie
	}
	p.Schema = b.addSchema(hidden, at.member("schema"))
	return p, true
}

// pathParameters returns the names of the parameters in the path of a route that is not a URL pattern.
func (b *describer) pathParameters() []string {
	var out []string
	for _, expr := range parameter().FindAllString(b.route.Path, -1) {
		out = append(out, strings.TrimSpace(expr[1:len(expr)-1]))
	}
	return out
}

// defaultStyles are the default styles of parameters, by location.
var defaultStyles = map[ParameterLocation]string{
	PathParameter: StyleSimple, QueryParameter: StyleForm, HeaderParameter: StyleSimple, CookieParameter: StyleForm,
}

// baseType returns a media type in lower case without parameters.
func baseType(mediaType string) string {
	base, _, _ := strings.Cut(strings.ToLower(mediaType), ";")
	return strings.TrimSpace(base)
}

// content returns the media types of a body. Ranges come after the types that they include. Media types that differ only in
// their parameters become one, which allows the values of all of them.
func (b *describer) content(body place, hidden string) []MediaType {
	content := body.member("content")
	var out []MediaType
	for _, name := range slices.Sorted(maps.Keys(content.object())) {
		media, found := content.member(name).deref()
		if !found {
			continue
		}
		m := MediaType{Type: baseType(name)}
		if isValidated(m.Type) {
			m.Schema, m.Encoding = b.addSchema(hidden, media.member("schema")), b.encodings(media, hidden)
		} else if media.member("schema").value != nil {
			b.warn(media.member("schema"), "Bodies of the type %s are not checked with this schema: the gateway validates "+
				"JSON, forms and text. It accepts every body of this type.", printable(m.Type))
		}
		b.size += 50 + len(m.Type)
		same := slices.IndexFunc(out, func(other MediaType) bool { return other.Type == m.Type })
		if same < 0 {
			out = append(out, m)
		} else {
			out[same].Schema = anyOf(out[same].Schema, m.Schema)
		}
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

// encodings returns the encodings of the properties of a form.
func (b *describer) encodings(media place, hidden string) map[string]Encoding {
	declared := media.member("encoding")
	var out map[string]Encoding
	for _, name := range slices.Sorted(maps.Keys(declared.object())) {
		at := declared.member(name)
		object := at.object()
		e := Encoding{ContentType: text(orEmpty(object["contentType"])), Headers: b.headers(at.member("headers"), hidden)}
		style, hasStyle := object["style"].(string)
		explode, hasExplode := object["explode"].(bool)
		_, hasReserved := object["allowReserved"]
		if hasStyle || hasExplode || hasReserved {
			// OpenAPI 3.1 and 3.2 then ignore the content type. In OpenAPI 3.0, the style is for URL-encoded forms.
			e.Style = cmp.Or(style, StyleForm)
			e.Explode = explode || !hasExplode && e.Style == StyleForm
		}
		if out == nil {
			out = map[string]Encoding{}
		}
		out[name] = e
		b.size += 50 + len(name) + len(e.ContentType)
	}
	return out
}

// headers returns the descriptions of headers by name.
func (b *describer) headers(named place, hidden string) []Parameter {
	var out []Parameter
	for _, name := range slices.Sorted(maps.Keys(named.object())) {
		if strings.EqualFold(name, "content-type") {
			continue // OpenAPI describes it by the media types
		}
		described, found := named.member(name).deref()
		if !found {
			continue
		}
		if p, valid := b.parameter(described, HeaderParameter, name, hidden); valid {
			out = append(out, p)
		}
	}
	return out
}

// responses returns the descriptions of the route's responses.
func (b *describer) responses() ResponseDescription {
	declared := b.operation.member("responses")
	out := ResponseDescription{}
	for _, status := range slices.Sorted(maps.Keys(declared.object())) {
		response, found := declared.member(status).deref()
		if strings.HasPrefix(status, "x-") || !found {
			continue
		}
		out[strings.ReplaceAll(status, "xx", "XX")] = StatusDescription{
			Headers: b.headers(response.member("headers"), keywordWriteOnly), Content: b.content(response, keywordWriteOnly),
		}
	}
	return out
}
