package project

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
)

// offerBuilder builds the MCPOperation of one operation of a document.
// In each part of the operation, it reports only the first mistake.
type offerBuilder struct {
	c   *compiler
	doc *document
	// route is the offered route. at is the pointer of its operation, which is in doc.
	// item is the path item that contains the operation.
	route       *Route
	at          string
	item        *pathItem
	operation   map[string]any
	isOpenAPI30 bool

	offer MCPOperation
	// arguments are the arguments in the order of the document, before they are named.
	arguments []plannedArgument
	// properties and required are the properties and required properties in the schema of the arguments.
	properties map[string]any
	required   []any
	// additional is the schema of arguments that are not in properties, or false if there must be no such arguments.
	additional any
	// remaining is the remaining budget of the schemas, in bytes. truncated is set after the
	// warning about a schema that contains itself. valid is false after a mistake.
	remaining int
	truncated bool
	valid     bool
	// dropped has the names of the properties that were left out of the schema that was inlined last (inliner.dropped).
	dropped map[string]bool
	// budgetAdvice is added to the error about a schema that exceeds the budget.
	budgetAdvice string
}

// fail reports a mistake. pointer is relative to the operation.
func (b *offerBuilder) fail(pointer, format string, args ...any) {
	b.valid = false
	b.c.fail(b.route.Source.File, b.at+pointer, format, args...)
}

// warn reports a probable mistake. pointer is relative to the operation.
func (b *offerBuilder) warn(pointer, text string) {
	b.c.warn(b.route.Source.File, b.at+pointer, "%s", text)
}

// inlineSchema returns a schema without references. excluded is as in inliner. If
// the schema has a mistake, it reports the mistake at pointer and returns false.
func (b *offerBuilder) inlineSchema(pointer string, schema place, excluded string) (any, bool) {
	return b.inlineWith(pointer, schema, inliner{excluded: excluded})
}

// inlineBaseType is inlineSchema for a schema that must stay one object: it returns the base
// type of a schema with subtypes. The schemas within it are offered with their subtypes.
func (b *offerBuilder) inlineBaseType(pointer string, schema place, excluded string) (any, bool) {
	return b.inlineWith(pointer, schema, inliner{excluded: excluded, isBase: true})
}

// inlineWith returns a schema without references. in has the settings that differ between uses.
func (b *offerBuilder) inlineWith(pointer string, schema place, in inliner) (any, bool) {
	in.doc, in.isOpenAPI30, in.remaining = schema.doc, b.isOpenAPI30, b.remaining
	whole := in
	out, err := whole.inline(schema.value)
	if err != nil && whole.expanded {
		// The schema has too many subtypes. Its base type alone can fit.
		base := in
		base.baseOnly = true
		if out, err = base.inline(schema.value); err == nil {
			b.warn(pointer, "The subtypes of a schema here are left out of what an MCP server offers, because it would be "+
				"too large with them: only the base type is described. Refer to fewer schemas to include them.")
			base.truncated, base.unmapped = base.truncated || whole.truncated, whole.unmapped
		}
		whole = base
	}
	b.remaining, b.dropped = whole.remaining, whole.dropped
	if err != nil {
		if e, ok := errors.AsType[*schemaError](err); ok && e.isReference && b.c.checksReferences() {
			b.valid = false
			return nil, false
		}
		text := err.Error()
		if whole.remaining < 0 {
			text += b.budgetAdvice
		}
		b.fail(pointer, "%s", text)
		return nil, false
	}
	if whole.unmapped {
		b.warn(pointer, "The mapping of a discriminator here names a schema that this document does not have, so an MCP "+
			"server does not offer it. Write a name of components/schemas, or #/components/schemas/NAME.")
	}
	if whole.truncated && !b.truncated {
		b.truncated = true
		b.warn(pointer, "A schema here is a part of itself. An MCP server describes it once, and where it occurs again "+
			"only by its type.")
	}
	return out, true
}

// deref returns a parameter, body or response. If the value is a reference, deref follows it. It reports a reference
// that it cannot follow. It returns false for such a reference, and for a value that is not an object.
func (b *offerBuilder) deref(pointer string, p place) (place, bool) {
	for range 8 {
		target := p.reference()
		if target == "" {
			return p, p.object() != nil
		}
		if p, _ = p.doc.resolve(target); p.doc == nil {
			b.valid = false
			if !b.c.checksReferences() || isURLReference(target) {
				b.fail(pointer, "An MCP server cannot offer this operation, because this reference cannot be followed. Write "+
					"its target under components.")
			}
			return place{}, false
		}
	}
	b.fail(pointer, "These references lead to one another and nowhere else. Write what they are meant to name.")
	return place{}, false
}

// addArguments adds the arguments for the parameters and the body of the operation.
func (b *offerBuilder) addArguments() {
	b.properties, b.additional, b.remaining = map[string]any{}, false, maxToolBytes
	type parameterEntry struct {
		pointer string
		place   place
	}
	var all []parameterEntry
	indexes := map[string]int{}
	const member = "parameters"
	for _, level := range []struct {
		list    place
		pointer string
	}{{b.item.placeOf(member), "/../parameters"}, {place{doc: b.doc, value: b.operation[member]}, "/parameters"}} {
		list, _ := level.list.value.([]any)
		for i, entry := range list {
			at := fmt.Sprintf("%s/%d", level.pointer, i)
			found, ok := b.deref(b.relativePointer(at), place{doc: level.list.doc, value: entry})
			if !ok {
				continue
			}
			key := text(found.object()["in"]) + " " + text(found.object()["name"])
			if index, overridden := indexes[key]; overridden { // an operation's parameter overrides the path's parameter
				all[index] = parameterEntry{at, found}
				continue
			}
			indexes[key] = len(all)
			all = append(all, parameterEntry{at, found})
		}
	}
	for _, p := range all {
		b.addParameter(b.relativePointer(p.pointer), p.place)
	}
	b.completePathParameters()
	b.addBody()
	b.nameArguments()
}

// relativePointer returns a pointer relative to the operation. It returns "" for a
// pointer into the path object, whose mistakes are reported at the operation.
func (b *offerBuilder) relativePointer(pointer string) string {
	if strings.HasPrefix(pointer, "/..") {
		return ""
	}
	return pointer
}

// ignoredHeaders are the headers that OpenAPI excludes as parameters.
var ignoredHeaders = []string{"accept", "content-type", "authorization"}

// isCallersHeader reports whether a tool sends the caller's own header instead of an argument: one of ignoredHeaders, or
// a header from which a policy of the route reads credentials.
func (b *offerBuilder) isCallersHeader(name string) bool {
	return slices.Contains(ignoredHeaders, strings.ToLower(name)) ||
		b.c.catalog != nil && b.readsCredentials(name)
}

// readsCredentials reports whether a policy of the route, or a member of one, reads credentials from a header.
func (b *offerBuilder) readsCredentials(header string) bool {
	policies, _ := b.c.withMembers(b.route.Inbound)
	return slices.ContainsFunc(policies, func(p Policy) bool {
		return strings.EqualFold(b.c.catalog.CredentialHeader(p), header)
	})
}

// addParameter adds the argument for one parameter, unless it is a cookie or a header that tools forward.
func (b *offerBuilder) addParameter(at string, found place) {
	p := found.object()
	name, in := text(p["name"]), text(p["in"])
	switch {
	case in == "cookie", in == "header" && b.isCallersHeader(name):
		return // the caller's own headers and cookies are forwarded
	case in == "querystring":
		b.fail(at+"/in", "An MCP server cannot write a whole query string. Describe the query by parameters with the "+
			"location query.")
		return
	case in != "path" && in != "query" && in != "header":
		return // already reported by the OpenAPI schema
	}
	isRequired := p["required"] == true || in == "path"
	if in == "header" && !isRequired && b.c.catalog != nil && b.c.catalog.IsReservedHeader(name) {
		b.warn(at, "This parameter is no argument of the MCP tool: the header "+printable(name)+
			" belongs to the connection, or the gateway writes it.")
		return
	}
	argument := Argument{Location: ArgumentLocation(in), Target: name, Required: isRequired}
	schema, pointer := place{doc: found.doc, value: p["schema"]}, at+"/schema"
	if content, ok := p["content"].(map[string]any); ok {
		mediaType := jsonContent(content)
		if mediaType == "" {
			b.fail(at+"/content", "An MCP server can send this parameter as JSON alone. Describe it as application/json, or "+
				"by a schema.")
			return
		}
		schema = mediaSchema(place{doc: found.doc, value: content[mediaType]})
		pointer = at + "/content" + escapedPointer(mediaType) + "/schema"
		if argument.Style = StyleJSON; !isJSON(mediaType) {
			argument.Style = defaultStyles[ParameterLocation(in)] // a range of media types, which the route reads as a text
		}
	} else if !b.setStyle(at, &argument, p) {
		return
	}
	if schema.value == nil {
		schema.value = map[string]any{}
	}
	inlined, ok := b.inlineSchema(pointer, schema, "readOnly")
	if !ok {
		return
	}
	b.addArgument(argument, withDescription(inlined, text(orEmpty(p["description"]))))
}

// setStyle sets how a parameter's lists and objects are written (OpenAPI 3.1,
// "Style Values"). It reports an unsupported style, and returns false for it.
func (b *offerBuilder) setStyle(at string, a *Argument, p map[string]any) bool {
	style, _ := p["style"].(string)
	supported := map[ArgumentLocation][]string{
		InPath: {StyleSimple}, InHeader: {StyleSimple},
		InQuery: {StyleForm, StyleSpace, StylePipe, StyleDeep},
	}[a.Location]
	if style == "" {
		style = supported[0]
	}
	if !slices.Contains(supported, style) {
		b.fail(at+"/style", "An MCP server cannot write a parameter of this style. Use %s.", strings.Join(supported, ", "))
		return false
	}
	explode, set := p["explode"].(bool)
	if !set {
		explode = style == StyleForm
	}
	a.Style, a.Explode = style, explode
	return true
}

// completePathParameters adds arguments for the parameters of the path that the document does not describe, and removes
// arguments for path parameters that are not in the path. It reports a path that is a URL pattern, because an MCP
// server cannot build a request path from it.
func (b *offerBuilder) completePathParameters() {
	if b.route.PathMode == URLPattern {
		b.fail("", "An MCP server cannot fill in a URL pattern. Write this path as OpenAPI has it, with {name} for "+
			"what varies.")
		return
	}
	for _, expr := range parameter().FindAllString(b.route.Path, -1) {
		name := strings.TrimSpace(expr[1 : len(expr)-1])
		if !slices.ContainsFunc(b.arguments, func(a plannedArgument) bool {
			return a.Location == InPath && a.Target == name
		}) {
			b.addArgument(Argument{Location: InPath, Target: name, Style: StyleSimple, Required: true},
				map[string]any{"type": "string"})
		}
	}
	b.arguments = slices.DeleteFunc(b.arguments, func(a plannedArgument) bool {
		return a.Location == InPath && !strings.Contains(b.route.Path, "{"+a.Target+"}")
	})
}

// withDescription returns a schema with a description, unless the description is "".
func withDescription(schema any, description string) any {
	if description == "" {
		return schema
	}
	object, ok := schema.(map[string]any)
	if !ok {
		return map[string]any{"description": description}
	}
	out := maps.Clone(object)
	out["description"] = description
	return out
}

// inputSchema returns the schema of all arguments.
func (b *offerBuilder) inputSchema() map[string]any {
	out := map[string]any{"type": "object", "properties": b.properties, "additionalProperties": b.additional}
	if names := distinct(b.required); len(names) > 0 {
		out["required"] = names
	}
	return out
}

// outputSchema returns the schema of all successful responses. It returns nil if one of them is
// not a JSON object, or if they differ: clients refuse a response that does not fit its schema.
func (b *offerBuilder) outputSchema() any {
	if b.route.Method == http.MethodHead {
		return nil // a response to HEAD has no body
	}
	var schema map[string]any
	b.budgetAdvice = ` Or write "includeOutputSchema": false in the options of the MCP servers that offer it: without ` +
		`the schema of its responses, this tool fits.`
	responses, _ := b.operation["responses"].(map[string]any)
	for _, status := range slices.Sorted(maps.Keys(responses)) {
		if !strings.HasPrefix(status, "2") {
			continue
		}
		at := "/responses/" + status
		response, ok := b.deref(at, place{doc: b.doc, value: responses[status]})
		if !ok {
			return nil
		}
		content, _ := response.object()["content"].(map[string]any)
		mediaType := jsonContent(content)
		media := mediaSchema(place{doc: response.doc, value: content[mediaType]})
		if media.value == nil || !mayBeObject(media) {
			return nil
		}
		b.remaining = maxToolBytes
		inlined, ok := b.inlineBaseType(at+"/content"+escapedPointer(mediaType)+"/schema", media, "writeOnly")
		if !ok {
			return nil
		}
		flat, isObject := flatten(inlined)
		if !isObject || schema != nil && !reflect.DeepEqual(flat, schema) {
			return nil
		}
		schema = flat
	}
	if schema == nil {
		return nil
	}
	return schema
}

// mayBeObject reports whether a schema can describe an object.
// The check makes it unnecessary to inline the schemas of lists.
func mayBeObject(schema place) bool {
	for range 8 {
		target := schema.reference()
		if target == "" {
			kind := schema.object()["type"]
			return kind == nil || kind == any("object")
		}
		if schema, _ = schema.doc.resolve(target); schema.doc == nil {
			return true
		}
	}
	return true
}

// mediaSchema returns the schema of a media type object, which can be a reference. The value is nil if there is no schema.
func mediaSchema(media place) place {
	found, ok := media.deref()
	if !ok {
		return place{doc: media.doc}
	}
	return place{doc: found.doc, value: found.object()["schema"]}
}

// escapedPointer is the function pointer, for functions with a local variable of that name.
func escapedPointer(token string) string { return pointer(token) }

// orEmpty returns a value, or "" for nil: the function text would return "<nil>".
func orEmpty(value any) any {
	if value == nil {
		return ""
	}
	return value
}
