package project

import (
	"encoding/json"
	"mime"
	"net/url"
	"slices"
	"strings"
	"unicode"
)

// MCPKind is what an MCP server makes of a route (contract 4.2).
type MCPKind string

// The kinds.
const (
	MCPTool     MCPKind = "tool"
	MCPResource MCPKind = "resource"
	MCPPrompt   MCPKind = "prompt"
	MCPGraphQL  MCPKind = "graphql"
)

// MCPOperation is what an MCP server offers of a route: all that it needs of the document that described
// the route, with every default filled in.
type MCPOperation struct {
	Kind        MCPKind         `json:"kind"`
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Meta        json.RawMessage `json:"meta,omitempty"`
	// Annotations are the hints about a tool that the project writes itself, an object.
	Annotations json.RawMessage `json:"annotations,omitempty"`
	// URI and MIMEType are a resource's; MIMEType is "" where the answer's content type counts.
	URI      string `json:"uri,omitempty"`
	MIMEType string `json:"mimeType,omitempty"`
	// Arguments are those of tools and prompts, Input is the JSON Schema of all of them, without
	// references.
	Arguments []Argument      `json:"arguments,omitempty"`
	Input     json.RawMessage `json:"input,omitempty"`
	// Output is the JSON Schema of a good answer, absent where nobody asks or none is described.
	Output json.RawMessage `json:"output,omitempty"`
	// Body says what is made of the arguments of the body, "" for no body, ContentType what it is sent
	// as, and BodyNeeded that there is one even without arguments.
	Body        BodyKind `json:"body,omitempty"`
	ContentType string   `json:"contentType,omitempty"`
	BodyNeeded  bool     `json:"bodyNeeded,omitempty"`
	// Introspect and Execute are the two tools of a GraphQL route.
	Introspect *GeneratedTool `json:"introspect,omitempty"`
	Execute    *GeneratedTool `json:"execute,omitempty"`
}

// GeneratedTool is a tool that no operation describes.
type GeneratedTool struct {
	Name        string `json:"name"`
	Description string `json:"description"`
}

// ArgumentPlace is where in a request an argument goes.
type ArgumentPlace string

// The places.
const (
	InPath   ArgumentPlace = "path"
	InQuery  ArgumentPlace = "query"
	InHeader ArgumentPlace = "header"
	// InProperty is a property of the body, InBody the body as a whole.
	InProperty ArgumentPlace = "property"
	InBody     ArgumentPlace = "body"
)

// How lists and objects are written in parameters (OpenAPI's style), and StyleJSON for those that are
// described by content.
const (
	StyleSimple = "simple"
	StyleForm   = "form"
	StyleSpace  = "spaceDelimited"
	StylePipe   = "pipeDelimited"
	StyleDeep   = "deepObject"
	StyleJSON   = "json"
)

// BodyKind is what a body is written as.
type BodyKind string

// The kinds of body.
const (
	BodyJSON BodyKind = "json"
	BodyForm BodyKind = "form"
	BodyText BodyKind = "text"
)

// Argument is one argument of a tool or prompt.
type Argument struct {
	// Name is what clients call it.
	Name  string        `json:"name"`
	Place ArgumentPlace `json:"place"`
	// Target is its name there, "" for the same.
	Target   string `json:"target,omitempty"`
	Style    string `json:"style,omitempty"`
	Explode  bool   `json:"explode,omitempty"`
	Required bool   `json:"required,omitempty"`
	// Type is the JSON type of its values where there is one, and Description, of a prompt's, what it is.
	Type        string `json:"type,omitempty"`
	Description string `json:"description,omitempty"`
}

// Aim is the argument's name in the place where it goes.
func (a Argument) Aim() string {
	if a.Target != "" {
		return a.Target
	}
	return a.Name
}

// offer returns what servers offer of a route, nil for one that is not enabled or at fault. It is made once,
// its answers' schema with the first server that asks for it.
func (c *compiler) offer(route *Route, withOutput bool) *MCPOperation {
	doc := c.docs[route.Source.File]
	key := route.Source
	m, made := c.offers[key]
	if !made {
		at := tokens(route.Source.Pointer)
		root, _ := doc.root.(map[string]any)
		paths, _ := root["paths"].(map[string]any)
		item, _ := paths[at[1]].(map[string]any)
		operation, _ := item[at[2]].(map[string]any)
		version, _ := root["openapi"].(string)
		m = &offerMaker{c: c, doc: doc, route: route, at: route.Source.Pointer, item: item, operation: operation, old: openAPI30().MatchString(version), valid: true}
		c.offers[key] = m
		if m.make() && m.valid && c.grow(route.Source.File, m.at, m.offer.bytes()) {
			route.MCPOperation = &m.offer
		}
	}
	if route.MCPOperation != nil && withOutput && m.offer.Output == nil && m.offer.Kind == MCPTool {
		if schema := m.outputSchema(); schema != nil && m.valid {
			m.offer.Output = encodeTree(schema)
			c.grow(route.Source.File, m.at, len(m.offer.Output))
		}
	}
	return route.MCPOperation
}

// bytes is about what the encoding of an operation has.
func (o *MCPOperation) bytes() int {
	n := routeOverhead + len(o.Name) + len(o.Description) + len(o.URI) + len(o.Meta) + len(o.Annotations) + len(o.Input)
	for _, a := range o.Arguments {
		n += 100 + len(a.Name) + len(a.Target) + len(a.Description)
	}
	return n
}

// mcpObject is a route's mcp object, which has the right shape.
type mcpObject struct {
	Type              MCPKind         `json:"type"`
	Name              string          `json:"name"`
	Description       string          `json:"description"`
	URI               string          `json:"uri"`
	MIMEType          string          `json:"mimeType"`
	Enabled           *bool           `json:"enabled"`
	Meta              json.RawMessage `json:"_meta"`
	Annotations       json.RawMessage `json:"annotations"`
	IntrospectionTool GeneratedTool   `json:"introspectionTool"`
	ExecuteTool       GeneratedTool   `json:"executeTool"`
}

// make fills the offer in; it answers false for one that is not enabled.
func (m *offerMaker) make() bool {
	object := mcpObject{Type: MCPTool}
	if len(m.route.MCP) > 0 && json.Unmarshal(m.route.MCP, &object) != nil {
		return false // its shape is reported
	}
	if object.Enabled != nil && !*object.Enabled {
		return false
	}
	mcp := pointer(routeExtension, "mcp")
	o := &m.offer
	o.Kind, o.Meta, o.Annotations = object.Type, object.Meta, object.Annotations
	if o.Name = strings.TrimSpace(object.Name); o.Name == "" {
		o.Name = m.route.OperationID
	}
	described, _ := m.operation["description"].(string)
	summary, _ := m.operation["summary"].(string)
	written := firstText(object.Description, described, summary)
	o.Description = firstText(written, generated(o.Kind, o.Name))
	if len(o.Description) > maxToolBytes {
		m.fail("", "%s", Over("tool", int64(len(o.Description)), "Shorten the description, or write another one in the mcp object."))
	}
	switch o.Kind {
	case MCPResource:
		m.resource(mcp, object)
	case MCPGraphQL:
		m.noPathParameters(mcp)
		o.Introspect = m.generatedTool(mcp+"/introspectionTool", object.IntrospectionTool, "_introspect", "Fetches the schema of the GraphQL API "+o.Name+", as the result of an introspection query. "+written)
		o.Execute = m.generatedTool(mcp+"/executeTool", object.ExecuteTool, "_execute", "Runs a query against the GraphQL API "+o.Name+". "+written)
	case MCPTool, MCPPrompt:
		m.checkName(mcp, o.Name)
		m.arguments()
		if m.valid {
			o.Input = encodeTree(m.inputSchema())
		}
	}
	return true
}

func (m *offerMaker) resource(mcp string, object mcpObject) {
	o := &m.offer
	if len(o.Name) > maxResourceName {
		m.fail(mcp+"/name", "The name of an MCP resource has at most %d bytes. Write a shorter one here.", maxResourceName)
	}
	if o.MIMEType = strings.TrimSpace(object.MIMEType); o.MIMEType != "" && !isMediaType(o.MIMEType) {
		m.fail(mcp+"/mimeType", "This is no media type, which clients are told of an MCP resource. Write one such as text/markdown, or leave it out.")
	}
	if o.URI = strings.TrimSpace(object.URI); o.URI == "" {
		o.URI = "mcp://resources/" + encodeURIComponent(o.Name)
	}
	if u, err := url.Parse(o.URI); err != nil || u.Scheme == "" || len(o.URI) > maxResourceURI || strings.ContainsAny(o.URI, " \t\r\n") {
		m.fail(mcp+"/uri", "This is no URI of an MCP resource. Write one with a scheme, such as docs://guide, of at most %d bytes.", maxResourceURI)
	}
	m.noPathParameters(mcp)
}

// isMediaType reports whether a text is one, on one line: between parameters white space of any kind would be read.
func isMediaType(text string) bool {
	_, _, err := mime.ParseMediaType(text)
	return err == nil && !strings.ContainsFunc(text, unicode.IsControl)
}

const (
	maxResourceName = 256
	maxResourceURI  = 1 << 10
)

// noPathParameters refuses a path that somebody would have to fill in.
func (m *offerMaker) noPathParameters(mcp string) {
	if m.route.PathMode == URLPattern || parameter().MatchString(m.route.Path) {
		what := "An MCP resource has one path"
		if m.offer.Kind == MCPGraphQL {
			what = "The MCP tools of a GraphQL route call one path"
		}
		m.fail(mcp+"/type", "%s, and this one has parameters or is a pattern. Make it a tool, or write a path without any.", what)
	}
}

// generatedTool names one of the tools of a GraphQL route.
func (m *offerMaker) generatedTool(at string, wanted GeneratedTool, suffix, description string) *GeneratedTool {
	tool := &GeneratedTool{Name: strings.TrimSpace(wanted.Name), Description: firstText(wanted.Description, description)}
	if tool.Name == "" {
		tool.Name = m.route.OperationID + suffix
	}
	if !argumentName().MatchString(tool.Name) {
		m.fail(at, "The MCP tool of this operation would be called %s. Give it a name here of 1 to 64 letters, digits and the characters _ - and dots.", quote(tool.Name))
	}
	return tool
}

func (m *offerMaker) checkName(mcp, name string) {
	if !argumentName().MatchString(name) {
		m.fail(mcp+"/name", "The MCP %s of this operation would be called %s. Give it a name here of 1 to 64 letters, digits and the characters _ - and dots.", m.offer.Kind, quote(name))
	}
}

// firstText is the first of some texts of which something is left without white space around it.
func firstText(texts ...string) string {
	for _, t := range texts {
		if t = strings.TrimSpace(t); t != "" {
			return t
		}
	}
	return ""
}

// generated is the description of what has none (contract 4.2 and 4.3).
func generated(kind MCPKind, name string) string {
	switch kind {
	case MCPResource:
		return "Resource for " + name
	case MCPPrompt:
		return "Prompt: " + name
	default:
		return "Executes tool: " + name
	}
}

// encodeURIComponent escapes all but what ECMAScript's function of that name leaves.
func encodeURIComponent(text string) string {
	const hex, plain = "0123456789ABCDEF", "-_.!~*'()"
	var b strings.Builder
	for _, c := range []byte(text) {
		if c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || slices.Contains([]byte(plain), c) {
			b.WriteByte(c)
			continue
		}
		b.Write([]byte{'%', hex[c>>4], hex[c&15]})
	}
	return b.String()
}
