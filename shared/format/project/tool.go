package project

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/gatewright/gatewright/shared/base/lazy"
)

// offerBuilder builds the MCPOperation of one operation of a document.
// In each part of the operation, it reports only the first mistake.
type offerBuilder struct {
	c   *compiler
	doc *document
	// route is the offered route. at is the pointer of its operation.
	// item is the path object that contains the operation.
	route           *Route
	at              string
	item, operation map[string]any
	isOpenAPI30     bool

	offer MCPOperation
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
}

// validName matches the names of arguments, tools and prompts that clients and models accept.
var validName = lazy.Regexp(`^[A-Za-z0-9_.-]{1,64}$`)

const maxArgumentName = 64

// invalidNameChars matches the characters that names of arguments must not have.
var invalidNameChars = lazy.Regexp(`[^A-Za-z0-9_.-]+`)

// fail reports a mistake. pointer is relative to the operation.
func (b *offerBuilder) fail(pointer, format string, args ...any) {
	b.valid = false
	b.c.fail(b.route.Source.File, b.at+pointer, format, args...)
}

// inlineSchema returns a schema without references. excluded is as in inliner. If
// the schema has a mistake, it reports the mistake at pointer and returns false.
func (b *offerBuilder) inlineSchema(pointer string, value any, excluded string) (any, bool) {
	in := inliner{root: b.doc.root, isOpenAPI30: b.isOpenAPI30, excluded: excluded, remaining: b.remaining}
	out, err := in.inline(value)
	b.remaining = in.remaining
	if err != nil {
		b.fail(pointer, "%s", err.Error())
		return nil, false
	}
	if in.truncated && !b.truncated {
		b.truncated = true
		b.c.warn(b.route.Source.File, b.at+pointer, "A schema here is a part of itself. It is cut at its second level in "+
			"what an MCP server tells of this operation, and anything is taken for what lies below.")
	}
	return out, true
}

// deref returns a parameter, body or response. If value is a reference, deref follows it. It reports a reference that
// it cannot follow. It returns false for such a reference, and for a value that is not an object.
func (b *offerBuilder) deref(pointer string, value any) (map[string]any, bool) {
	for range 8 {
		object, _ := value.(map[string]any)
		target, isRef := object["$ref"].(string)
		if !isRef {
			return object, object != nil
		}
		path, local := strings.CutPrefix(target, "#/")
		var found bool
		if value, found = lookup(b.doc.root, path); !local || !found {
			b.fail(pointer, "An MCP server has to know what stands here, and the reference leads out of this document. Write "+
				"it under components.")
			return nil, false
		}
	}
	b.fail(pointer, "These references lead to one another and nowhere else. Write what they are meant to name.")
	return nil, false
}

// addArguments adds the arguments for the parameters and the body of the operation.
func (b *offerBuilder) addArguments() {
	b.properties, b.additional, b.remaining = map[string]any{}, false, maxToolBytes
	type parameterEntry struct {
		pointer string
		object  map[string]any
	}
	var all []parameterEntry
	indexes := map[string]int{}
	for _, level := range []struct {
		object  map[string]any
		pointer string
	}{{b.item, "/../parameters"}, {b.operation, "/parameters"}} {
		list, _ := level.object["parameters"].([]any)
		for i, entry := range list {
			at := fmt.Sprintf("%s/%d", level.pointer, i)
			object, ok := b.deref(b.relativePointer(at), entry)
			if !ok {
				continue
			}
			key := text(object["in"]) + " " + text(object["name"])
			if index, overridden := indexes[key]; overridden { // an operation's parameter overrides the path's parameter
				all[index] = parameterEntry{at, object}
				continue
			}
			indexes[key] = len(all)
			all = append(all, parameterEntry{at, object})
		}
	}
	for _, p := range all {
		b.addParameter(b.relativePointer(p.pointer), p.object)
	}
	b.completePathParameters()
	b.addBody()
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

// addParameter adds the argument for one parameter, unless it is a cookie or one of ignoredHeaders.
func (b *offerBuilder) addParameter(at string, p map[string]any) {
	name, in := text(p["name"]), text(p["in"])
	switch {
	case in == "cookie", in == "header" && slices.Contains(ignoredHeaders, strings.ToLower(name)):
		return // the caller's own headers and cookies are forwarded
	case in != "path" && in != "query" && in != "header":
		return // already reported by the OpenAPI schema
	}
	argument := Argument{Location: ArgumentLocation(in), Target: name, Required: p["required"] == true || in == "path"}
	schema, pointer := p["schema"], at+"/schema"
	if content, ok := p["content"].(map[string]any); ok {
		mediaType := jsonContent(content)
		media, _ := content[mediaType].(map[string]any)
		if mediaType == "" {
			b.fail(at+"/content", "An MCP server can send this parameter as JSON alone. Describe it as application/json, or "+
				"by a schema.")
			return
		}
		schema, pointer, argument.Style = media["schema"], at+"/content"+escapedPointer(mediaType)+"/schema", StyleJSON
	} else if !b.setStyle(at, &argument, p) {
		return
	}
	if schema == nil {
		schema = map[string]any{}
	}
	inlined, ok := b.inlineSchema(pointer, schema, "readOnly")
	if !ok {
		return
	}
	b.addArgument(at, argument, withDescription(inlined, text(orEmpty(p["description"]))))
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

// addArgument sets the name of an argument, and adds the argument and its schema to the operation. It reports an
// argument for which no other name is free.
func (b *offerBuilder) addArgument(at string, a Argument, schema any) {
	a.Name = cleanName(a.Target)
	if _, exists := b.properties[a.Name]; exists {
		a.Name = cleanName(string(a.Location) + "_" + a.Name)
	}
	if _, exists := b.properties[a.Name]; exists {
		b.fail(at, "An MCP server would call this argument %q, as it does another one. Rename one of them.", a.Name)
		return
	}
	b.properties[a.Name] = schema
	if a.Required {
		b.required = append(b.required, a.Name)
	}
	if object, ok := schema.(map[string]any); ok {
		a.Type, _ = object["type"].(string)
		if b.offer.Kind == MCPPrompt {
			a.Description, _ = object["description"].(string)
		}
	}
	if a.Target == a.Name {
		a.Target = ""
	}
	b.offer.Arguments = append(b.offer.Arguments, a)
}

// cleanName converts any name to a name that clients accept. Clients reject names such as $filter and filter[name].
func cleanName(name string) string {
	if validName().MatchString(name) {
		return name
	}
	name = strings.Trim(invalidNameChars().ReplaceAllString(name, "_"), "_")
	if name == "" {
		return "argument"
	}
	return name[:min(len(name), maxArgumentName)]
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
		if !slices.ContainsFunc(b.offer.Arguments, func(a Argument) bool {
			return a.Location == InPath && a.TargetName() == name
		}) {
			b.addArgument("", Argument{Location: InPath, Target: name, Style: StyleSimple, Required: true},
				map[string]any{"type": "string"})
		}
	}
	b.offer.Arguments = slices.DeleteFunc(b.offer.Arguments, func(a Argument) bool {
		absent := a.Location == InPath && !strings.Contains(b.route.Path, "{"+a.TargetName()+"}")
		if absent {
			delete(b.properties, a.Name)
			b.required = slices.DeleteFunc(b.required, func(r any) bool { return r == any(a.Name) })
		}
		return absent
	})
}

// addBody adds the arguments for the body: one for each property of an object, or a single
// argument "body" for any other type. Some methods, such as GET, have no body.
func (b *offerBuilder) addBody() {
	if slices.Contains([]string{"GET", "HEAD", "OPTIONS", "TRACE"}, b.route.Method) || b.operation["requestBody"] == nil {
		return
	}
	at := "/requestBody"
	request, ok := b.deref(at, b.operation["requestBody"])
	if !ok {
		return
	}
	content, _ := request["content"].(map[string]any)
	mediaType, kind := bodyContent(content)
	if kind == "" {
		b.fail(at+"/content", "An MCP server sends JSON, text or forms, and this body is none of these. Describe it as "+
			"application/json, or expose another operation.")
		return
	}
	b.offer.Body, b.offer.ContentType = kind, mediaType
	media, _ := content[mediaType].(map[string]any)
	if strings.Contains(mediaType, "*") {
		b.offer.ContentType = "application/json"
	}
	pointer := at + "/content" + escapedPointer(mediaType) + "/schema"
	schema := media["schema"]
	if schema == nil {
		schema = map[string]any{}
		if kind == BodyText {
			schema = map[string]any{"type": "string"}
		}
	}
	inlined, ok := b.inlineSchema(pointer, schema, "readOnly")
	if !ok {
		return
	}
	bodyRequired := request["required"] == true
	flat, isObject := flatten(inlined)
	if kind == BodyText || !isObject {
		if kind == BodyForm {
			b.fail(pointer, "An MCP server makes a form of an object's properties. Describe this body by a schema of the "+
				"type object.")
			return
		}
		b.addArgument(pointer, Argument{Location: InBody, Target: "body", Required: bodyRequired},
			withDescription(inlined, text(orEmpty(request["description"]))))
		return
	}
	properties, _ := flat["properties"].(map[string]any)
	required, _ := flat["required"].([]any)
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		b.addArgument(pointer, Argument{Location: InProperty, Target: name, Required: bodyRequired &&
			slices.Contains(required, any(name))}, properties[name])
	}
	b.offer.BodyRequired = bodyRequired
	switch extra := flat["additionalProperties"]; {
	case extra != nil:
		b.additional = extra
	case len(properties) == 0:
		b.additional = true // an object without any description
	}
}

// jsonContent returns the JSON media type of a content object, or a range that includes it, or "" if there is neither.
func jsonContent(content map[string]any) string {
	for _, exact := range []string{"application/json", "*/*", "application/*"} {
		if _, ok := content[exact]; ok {
			return exact
		}
	}
	for _, name := range slices.Sorted(maps.Keys(content)) {
		base, _, _ := strings.Cut(strings.ToLower(name), ";")
		if base = strings.TrimSpace(base); base == "application/json" || strings.HasSuffix(base, "+json") {
			return name
		}
	}
	return ""
}

// bodyContent returns the media type and format that an MCP server uses to
// send a body. It returns "" and "" if it supports none of the media types.
func bodyContent(content map[string]any) (string, BodyKind) {
	if name := jsonContent(content); name != "" {
		return name, BodyJSON
	}
	if _, ok := content["application/x-www-form-urlencoded"]; ok {
		return "application/x-www-form-urlencoded", BodyForm
	}
	for _, name := range slices.Sorted(maps.Keys(content)) {
		if strings.HasPrefix(name, "text/") && !strings.Contains(name, "*") {
			return name, BodyText
		}
	}
	return "", ""
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
	var schema map[string]any
	responses, _ := b.operation["responses"].(map[string]any)
	for _, status := range slices.Sorted(maps.Keys(responses)) {
		if !strings.HasPrefix(status, "2") {
			continue
		}
		at := "/responses/" + status
		response, ok := b.deref(at, responses[status])
		if !ok {
			return nil
		}
		content, _ := response["content"].(map[string]any)
		mediaType := jsonContent(content)
		media, _ := content[mediaType].(map[string]any)
		if media["schema"] == nil || !b.mayBeObject(media["schema"]) {
			return nil
		}
		b.remaining = maxToolBytes
		inlined, ok := b.inlineSchema(at+"/content"+escapedPointer(mediaType)+"/schema", media["schema"], "writeOnly")
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
func (b *offerBuilder) mayBeObject(value any) bool {
	for range 8 {
		object, _ := value.(map[string]any)
		target, isRef := object["$ref"].(string)
		if !isRef {
			return object["type"] == nil || object["type"] == any("object")
		}
		value, _ = lookup(b.doc.root, strings.TrimPrefix(target, "#/"))
	}
	return true
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
