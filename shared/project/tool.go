package project

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/gatewright/gatewright/shared/lazy"
)

// offerMaker makes an MCPOperation of one operation of a document. It stops at the first
// fault of each part, and reports it at its place.
type offerMaker struct {
	c   *compiler
	doc *document
	// route is what is offered; at is where its operation stands, item the path that it is of.
	route           *Route
	at              string
	item, operation map[string]any
	old             bool

	offer MCPOperation
	// input is the schema of the arguments so far.
	properties map[string]any
	required   []any
	// more is what arguments without a name of their own have to be: false, or a schema.
	more  any
	left  int
	cut   bool
	valid bool
}

// argumentName is what clients and the models behind them take as the name of an argument or tool.
var argumentName = lazy.Regexp(`^[A-Za-z0-9_.-]{1,64}$`)

const maxArgumentName = 64

// badInName are the characters that no name of an argument has.
var badInName = lazy.Regexp(`[^A-Za-z0-9_.-]+`)

func (m *offerMaker) fail(pointer, format string, args ...any) {
	m.valid = false
	m.c.fail(m.route.Source.File, m.at+pointer, format, args...)
}

// schema inlines a schema for a direction.
func (m *offerMaker) schema(pointer string, value any, without string) (any, bool) {
	in := inliner{root: m.doc.root, old: m.old, without: without, left: m.left}
	out, err := in.schema(value)
	m.left = in.left
	if err != nil {
		m.fail(pointer, "%s", err.Error())
		return nil, false
	}
	if in.cut && !m.cut {
		m.cut = true
		m.c.warn(m.route.Source.File, m.at+pointer, "A schema here is a part of itself. It is cut at its second level in what an MCP server tells of this operation, and anything is taken for what lies below.")
	}
	return out, true
}

// deref follows the references of what is no schema: parameters, bodies and responses.
func (m *offerMaker) deref(pointer string, value any) (map[string]any, bool) {
	for range 8 {
		object, _ := value.(map[string]any)
		target, isRef := object["$ref"].(string)
		if !isRef {
			return object, object != nil
		}
		path, local := strings.CutPrefix(target, "#/")
		if value, isRef = lookup(m.doc.root, path); !local || !isRef {
			m.fail(pointer, "An MCP server has to know what stands here, and the reference leads out of this document. Write it under components.")
			return nil, false
		}
	}
	m.fail(pointer, "These references lead to one another and nowhere else. Write what they are meant to name.")
	return nil, false
}

// arguments reads parameters and body.
func (m *offerMaker) arguments() {
	m.properties, m.more, m.left = map[string]any{}, false, maxToolBytes
	type declared struct {
		pointer string
		object  map[string]any
	}
	var all []declared
	places := map[string]int{}
	for _, level := range []struct {
		from    map[string]any
		pointer string
	}{{m.item, "/../parameters"}, {m.operation, "/parameters"}} {
		list, _ := level.from["parameters"].([]any)
		for i, entry := range list {
			at := fmt.Sprintf("%s/%d", level.pointer, i)
			object, ok := m.deref(m.place(at), entry)
			if !ok {
				continue
			}
			key := text(object["in"]) + " " + text(object["name"])
			if at, again := places[key]; again { // the operation's own goes before the path's
				all[at] = declared{level.pointer + fmt.Sprintf("/%d", i), object}
				continue
			}
			places[key] = len(all)
			all = append(all, declared{at, object})
		}
	}
	for _, p := range all {
		m.parameter(m.place(p.pointer), p.object)
	}
	m.pathParameters()
	m.body()
}

// place is a pointer relative to the operation, of which one into the path's own object has none: it is
// told at the operation.
func (m *offerMaker) place(pointer string) string {
	if strings.HasPrefix(pointer, "/..") {
		return ""
	}
	return pointer
}

// ignoredHeaders are those that OpenAPI says are no parameters.
var ignoredHeaders = []string{"accept", "content-type", "authorization"}

func (m *offerMaker) parameter(at string, p map[string]any) {
	name, in := text(p["name"]), text(p["in"])
	switch {
	case in == "cookie", in == "header" && slices.Contains(ignoredHeaders, strings.ToLower(name)):
		return // the caller's own travel on
	case in != "path" && in != "query" && in != "header":
		return // the schema has reported it
	}
	argument := Argument{Place: ArgumentPlace(in), Target: name, Required: p["required"] == true || in == "path"}
	schema, pointer := p["schema"], at+"/schema"
	if content, ok := p["content"].(map[string]any); ok {
		mediaType := jsonContent(content)
		media, _ := content[mediaType].(map[string]any)
		if mediaType == "" {
			m.fail(at+"/content", "An MCP server can send this parameter as JSON alone. Describe it as application/json, or by a schema.")
			return
		}
		schema, pointer, argument.Style = media["schema"], at+"/content"+escapedPointer(mediaType)+"/schema", StyleJSON
	} else if !m.style(at, &argument, p) {
		return
	}
	if schema == nil {
		schema = map[string]any{}
	}
	inlined, ok := m.schema(pointer, schema, "readOnly")
	if !ok {
		return
	}
	m.add(at, argument, described(inlined, text(orEmpty(p["description"]))))
}

// style reads how a parameter's lists and objects are written (OpenAPI 3.1, "Style Values").
func (m *offerMaker) style(at string, a *Argument, p map[string]any) bool {
	style, _ := p["style"].(string)
	known := map[ArgumentPlace][]string{
		InPath: {StyleSimple}, InHeader: {StyleSimple},
		InQuery: {StyleForm, StyleSpace, StylePipe, StyleDeep},
	}[a.Place]
	if style == "" {
		style = known[0]
	}
	if !slices.Contains(known, style) {
		m.fail(at+"/style", "An MCP server cannot write a parameter of this style. Use %s.", strings.Join(known, ", "))
		return false
	}
	explode, set := p["explode"].(bool)
	if !set {
		explode = style == StyleForm
	}
	a.Style, a.Explode = style, explode
	return true
}

// add gives an argument its name, and its schema to the others.
func (m *offerMaker) add(at string, a Argument, schema any) {
	a.Name = cleanName(a.Target)
	if _, taken := m.properties[a.Name]; taken {
		a.Name = cleanName(string(a.Place) + "_" + a.Name)
	}
	if _, taken := m.properties[a.Name]; taken {
		m.fail(at, "An MCP server would call this argument %q, as it does another one. Rename one of them.", a.Name)
		return
	}
	m.properties[a.Name] = schema
	if a.Required {
		m.required = append(m.required, a.Name)
	}
	if object, ok := schema.(map[string]any); ok {
		a.Type, _ = object["type"].(string)
		if m.offer.Kind == MCPPrompt {
			a.Description, _ = object["description"].(string)
		}
	}
	if a.Target == a.Name {
		a.Target = ""
	}
	m.offer.Arguments = append(m.offer.Arguments, a)
}

// cleanName makes a name that clients take of any: $filter and filter[name] are none.
func cleanName(name string) string {
	if argumentName().MatchString(name) {
		return name
	}
	name = strings.Trim(badInName().ReplaceAllString(name, "_"), "_")
	if name == "" {
		return "argument"
	}
	return name[:min(len(name), maxArgumentName)]
}

// pathParameters adds those that the path has and nobody has described, and refuses what an MCP server
// cannot fill.
func (m *offerMaker) pathParameters() {
	if m.route.PathMode == URLPattern {
		m.fail("", "An MCP server cannot fill in a URL pattern. Write this path as OpenAPI has it, with {name} for what varies.")
		return
	}
	for _, expr := range parameter().FindAllString(m.route.Path, -1) {
		name := strings.TrimSpace(expr[1 : len(expr)-1])
		if !slices.ContainsFunc(m.offer.Arguments, func(a Argument) bool { return a.Place == InPath && a.Aim() == name }) {
			m.add("", Argument{Place: InPath, Target: name, Style: StyleSimple, Required: true}, map[string]any{"type": "string"})
		}
	}
	m.offer.Arguments = slices.DeleteFunc(m.offer.Arguments, func(a Argument) bool {
		absent := a.Place == InPath && !strings.Contains(m.route.Path, "{"+a.Aim()+"}")
		if absent {
			delete(m.properties, a.Name)
			m.required = slices.DeleteFunc(m.required, func(r any) bool { return r == any(a.Name) })
		}
		return absent
	})
}

// body makes arguments of the body: each property of an object is one, anything else is one called body.
func (m *offerMaker) body() {
	if slices.Contains([]string{"GET", "HEAD", "OPTIONS", "TRACE"}, m.route.Method) || m.operation["requestBody"] == nil {
		return
	}
	at := "/requestBody"
	request, ok := m.deref(at, m.operation["requestBody"])
	if !ok {
		return
	}
	content, _ := request["content"].(map[string]any)
	mediaType, kind := bodyContent(content)
	if kind == "" {
		m.fail(at+"/content", "An MCP server sends JSON, text or forms, and this body is none of these. Describe it as application/json, or expose another operation.")
		return
	}
	m.offer.Body, m.offer.ContentType = kind, mediaType
	media, _ := content[mediaType].(map[string]any)
	if strings.Contains(mediaType, "*") {
		m.offer.ContentType = "application/json"
	}
	pointer := at + "/content" + escapedPointer(mediaType) + "/schema"
	schema := media["schema"]
	if schema == nil {
		schema = map[string]any{}
		if kind == BodyText {
			schema = map[string]any{"type": "string"}
		}
	}
	inlined, ok := m.schema(pointer, schema, "readOnly")
	if !ok {
		return
	}
	needed := request["required"] == true
	flat, isObject := flatten(inlined)
	if kind == BodyText || !isObject {
		if kind == BodyForm {
			m.fail(pointer, "An MCP server makes a form of an object's properties. Describe this body by a schema of the type object.")
			return
		}
		m.add(pointer, Argument{Place: InBody, Target: "body", Required: needed}, described(inlined, text(orEmpty(request["description"]))))
		return
	}
	properties, _ := flat["properties"].(map[string]any)
	required, _ := flat["required"].([]any)
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		m.add(pointer, Argument{Place: InProperty, Target: name, Required: needed && slices.Contains(required, any(name))}, properties[name])
	}
	m.offer.BodyNeeded = needed
	switch extra := flat["additionalProperties"]; {
	case extra != nil:
		m.more = extra
	case len(properties) == 0:
		m.more = true // an object of which nothing is said
	}
}

// jsonContent picks the description in JSON of several, "" for none.
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

// bodyContent picks what an MCP server sends of the media types of a body.
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

// described gives a schema a description of its place, if it has one.
func described(schema any, description string) any {
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

// inputSchema is the schema of all arguments.
func (m *offerMaker) inputSchema() map[string]any {
	out := map[string]any{"type": "object", "properties": m.properties, "additionalProperties": m.more}
	if names := distinct(m.required); len(names) > 0 {
		out["required"] = names
	}
	return out
}

// outputSchema is the schema of all good answers, nil where one of them is none that is an object in JSON, or where
// they differ: clients refuse an answer without what the schema promises.
func (m *offerMaker) outputSchema() any {
	var schema map[string]any
	responses, _ := m.operation["responses"].(map[string]any)
	for _, status := range slices.Sorted(maps.Keys(responses)) {
		if !strings.HasPrefix(status, "2") {
			continue
		}
		at := "/responses/" + status
		response, ok := m.deref(at, responses[status])
		if !ok {
			return nil
		}
		content, _ := response["content"].(map[string]any)
		mediaType := jsonContent(content)
		media, _ := content[mediaType].(map[string]any)
		if media["schema"] == nil || !m.mayBeObject(media["schema"]) {
			return nil
		}
		m.left = maxToolBytes
		inlined, ok := m.schema(at+"/content"+escapedPointer(mediaType)+"/schema", media["schema"], "writeOnly")
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

// mayBeObject is false for a schema that says at once that it is of something else: what a list consists of
// need not be read.
func (m *offerMaker) mayBeObject(value any) bool {
	for range 8 {
		object, _ := value.(map[string]any)
		target, isRef := object["$ref"].(string)
		if !isRef {
			return object["type"] == nil || object["type"] == any("object")
		}
		value, _ = lookup(m.doc.root, strings.TrimPrefix(target, "#/"))
	}
	return true
}

func escapedPointer(token string) string { return pointer(token) }

// orEmpty is a value, or "" where there is none: text would write "<nil>".
func orEmpty(value any) any {
	if value == nil {
		return ""
	}
	return value
}
