package project

import (
	"encoding/json"
	"mime"
	"net/url"
	"slices"
	"strings"
	"unicode"
)

// MCPKind is the kind of MCP feature that a server makes of a route (contract 4.2).
type MCPKind string

// The kinds.
const (
	MCPTool     MCPKind = "tool"
	MCPResource MCPKind = "resource"
	MCPPrompt   MCPKind = "prompt"
	MCPGraphQL  MCPKind = "graphql"
)

// MCPOperation describes a route for MCP servers: everything that a server needs from the OpenAPI document, with all
// defaults filled in.
type MCPOperation struct {
	Kind        MCPKind         `json:"kind"`
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Meta        json.RawMessage `json:"meta,omitempty"`
	// Annotations are the hints about a tool that the route's mcp object has, as a JSON object.
	Annotations json.RawMessage `json:"annotations,omitempty"`
	// URI and MIMEType belong to resources. If MIMEType is "", the resource has the content type of the response.
	URI      string `json:"uri,omitempty"`
	MIMEType string `json:"mimeType,omitempty"`
	// Arguments belong to tools and prompts. Input is the JSON Schema of all arguments, without references.
	Arguments []Argument      `json:"arguments,omitempty"`
	Input     json.RawMessage `json:"input,omitempty"`
	// Output is the JSON Schema of all successful responses. It is absent if no server requires it, or if the responses
	// have no common schema of an object.
	Output json.RawMessage `json:"output,omitempty"`
	// Body is the format of the body that contains arguments, or "" for no body. ContentType
	// is its media type. BodyRequired reports whether a body is required even without arguments.
	Body         BodyKind `json:"body,omitempty"`
	ContentType  string   `json:"contentType,omitempty"`
	BodyRequired bool     `json:"bodyNeeded,omitempty"`
	// Introspect and Execute are the two tools of a GraphQL route.
	Introspect *GeneratedTool `json:"introspect,omitempty"`
	Execute    *GeneratedTool `json:"execute,omitempty"`
}

// GeneratedTool is one of the two tools of a GraphQL route. The document does not describe them.
type GeneratedTool struct {
	Name        string `json:"name"`
	Description string `json:"description"`
}

// ArgumentLocation is the part of a request that an argument belongs to.
type ArgumentLocation string

// The parts of a request.
const (
	InPath   ArgumentLocation = "path"
	InQuery  ArgumentLocation = "query"
	InHeader ArgumentLocation = "header"
	// InProperty is a property of the body. InBody is the body as a whole.
	InProperty ArgumentLocation = "property"
	InBody     ArgumentLocation = "body"
	// InFileName is for the name of a file, and InMediaType for the media type of a file. Target is the property that has the
	// file. For a property with a list of files, the argument is a list in the same order.
	InFileName  ArgumentLocation = "filename"
	InMediaType ArgumentLocation = "mediaType"
)

// The styles of lists and objects in parameters (style in OpenAPI). StyleJSON is for parameters that the document
// describes with content.
const (
	StyleSimple = "simple"
	StyleForm   = "form"
	StyleSpace  = "spaceDelimited"
	StylePipe   = "pipeDelimited"
	StyleDeep   = "deepObject"
	StyleJSON   = "json"
)

// BodyKind is the format of a body.
type BodyKind string

// The kinds of body. BodyForm is URL-encoded. A release that does not know BodyMultipart sends JSON as multipart/form-data
// without a boundary, which upstreams refuse, so the kind needs no new ArtifactFormat.
const (
	BodyJSON      BodyKind = "json"
	BodyForm      BodyKind = "form"
	BodyText      BodyKind = "text"
	BodyMultipart BodyKind = "multipart"
)

// Argument is one argument of a tool or prompt.
type Argument struct {
	// Name is the name that clients use.
	Name     string           `json:"name"`
	Location ArgumentLocation `json:"place"`
	// Target is the argument's name in the request. It is "" if it equals Name.
	Target string `json:"target,omitempty"`
	// Style and Explode say how lists and objects are written. Style is "" if the media type of the body says how.
	Style    string `json:"style,omitempty"`
	Explode  bool   `json:"explode,omitempty"`
	Required bool   `json:"required,omitempty"`
	// Form says how a property of a form is written. nil means the defaults.
	Form *FormField `json:"form,omitempty"`
	// Type is the JSON type of the argument's values, or "" if its schema does
	// not name a single type. Description describes the argument of a prompt.
	Type        string `json:"type,omitempty"`
	Description string `json:"description,omitempty"`
}

// TargetName returns the argument's name in the request.
func (a Argument) TargetName() string {
	if a.Target != "" {
		return a.Target
	}
	return a.Name
}

// offer returns the MCP operation of a route. It returns nil if the route is not enabled
// for MCP or has mistakes. It builds the operation for the first server that offers the
// route, and adds the schema of responses for the first server that requires the schema.
// It builds nothing once the artifact is too large, which addSize has reported.
func (c *compiler) offer(route *Route, withOutput bool) *MCPOperation {
	if c.size > maxArtifactBytes {
		return nil
	}
	key := route.key()
	m, exists := c.offers[key]
	if !exists {
		item, operation := c.declaration(route)
		m = &offerBuilder{
			c: c, doc: operation.doc, route: route, at: route.Source.Pointer, item: item, operation: operation.object(),
			isOpenAPI30: c.docs[route.file].isOpenAPI30(), valid: true,
		}
		c.offers[key] = m
		if m.build() && m.valid && c.addSize(route.Source.File, m.at, m.offer.estimatedBytes()) {
			route.MCPOperation = &m.offer
		}
		// The offer has the schema of the arguments as JSON. Its tree takes many times the memory.
		m.arguments, m.properties, m.required, m.additional = nil, nil, nil, nil
	}
	if route.MCPOperation != nil && withOutput && m.offer.Output == nil && m.offer.Kind == MCPTool {
		if schema := m.outputSchema(); schema != nil && m.valid {
			m.offer.Output = encodeTree(schema)
			c.addSize(route.Source.File, m.at, len(m.offer.Output))
		}
	}
	return route.MCPOperation
}

// estimatedBytes estimates the size of an operation's encoding without Output, which offer counts separately.
func (o *MCPOperation) estimatedBytes() int {
	n := routeOverhead + len(o.Name) + len(o.Description) + len(o.URI) + len(o.Meta) + len(o.Annotations) + len(o.Input)
	for _, a := range o.Arguments {
		n += 100 + len(a.Name) + len(a.Target) + len(a.Description) + a.Form.estimatedBytes()
	}
	return n
}

// mcpObject is a route's mcp object. The compiler has validated its shape before.
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

// build sets b.offer. It returns false for an operation that is not enabled for MCP, or whose mcp object has an
// invalid shape. After any other mistake, b.valid is false.
func (b *offerBuilder) build() bool {
	object, enabled := readMCPObject(b.route.MCP)
	if !enabled {
		return false
	}
	mcp := pointer(routeExtension, "mcp")
	o := &b.offer
	o.Kind, o.Meta, o.Annotations = object.Type, object.Meta, object.Annotations
	if o.Name = strings.TrimSpace(object.Name); o.Name == "" {
		o.Name = b.c.operationName(b.route, "")
	}
	opDescription, _ := b.operation["description"].(string)
	summary, _ := b.operation["summary"].(string)
	description := firstText(object.Description, opDescription, summary)
	o.Description = firstText(description, defaultDescription(o.Kind, o.Name))
	if len(o.Description) > maxToolBytes {
		b.fail("", "%s", BudgetExceeded("tool", int64(len(o.Description)),
			"Shorten the description, or write another one in the mcp object."))
	}
	switch o.Kind {
	case MCPResource:
		b.setResource(mcp, object)
	case MCPGraphQL:
		b.refusePathParameters(mcp)
		o.Introspect = b.generatedTool(mcp+"/introspectionTool", object.IntrospectionTool, introspectSuffix,
			"Fetches the schema of the GraphQL API "+o.Name+", as the result of an introspection query. "+description)
		o.Execute = b.generatedTool(mcp+"/executeTool", object.ExecuteTool, executeSuffix,
			"Runs a query against the GraphQL API "+o.Name+". "+description)
	case MCPTool, MCPPrompt:
		b.checkName(mcp, o.Name)
		b.addArguments()
		if b.valid {
			o.Input = encodeTree(b.inputSchema())
		}
	}
	return true
}

// setResource sets and checks the properties of a resource. mcp is the pointer of the mcp object, relative to b.at.
func (b *offerBuilder) setResource(mcp string, object mcpObject) {
	o := &b.offer
	if len(o.Name) > maxResourceName {
		b.fail(mcp+"/name", "The name of an MCP resource has at most %d bytes. Write a shorter one here.", maxResourceName)
	}
	if o.MIMEType = strings.TrimSpace(object.MIMEType); o.MIMEType != "" && !isMediaType(o.MIMEType) {
		b.fail(mcp+"/mimeType", "This is no media type, which clients are told of an MCP resource. Write one such as "+
			"text/markdown, or leave it out.")
	}
	if o.URI = strings.TrimSpace(object.URI); o.URI == "" {
		o.URI = "mcp://resources/" + encodeURIComponent(o.Name)
	}
	if u, err := url.Parse(o.URI); err != nil || u.Scheme == "" || len(o.URI) > maxResourceURI ||
		strings.ContainsAny(o.URI, " \t\r\n") {
		b.fail(mcp+"/uri", "This is no URI of an MCP resource. Write one with a scheme, such as docs://guide, of at "+
			"most %d bytes.", maxResourceURI)
	}
	b.refusePathParameters(mcp)
}

// isMediaType reports whether a text is a media type without control
// characters. mime.ParseMediaType accepts line breaks between parameters.
func isMediaType(text string) bool {
	_, _, err := mime.ParseMediaType(text)
	return err == nil && !strings.ContainsFunc(text, unicode.IsControl)
}

const (
	maxResourceName = 256
	maxResourceURI  = 1 << 10
)

// refusePathParameters reports a path that has parameters or is a URL pattern.
func (b *offerBuilder) refusePathParameters(mcp string) {
	if b.route.PathMode == URLPattern || parameter().MatchString(b.route.Path) {
		subject := "An MCP resource has one path"
		if b.offer.Kind == MCPGraphQL {
			subject = "The MCP tools of a GraphQL route call one path"
		}
		b.fail(mcp+"/type", "%s, and this one has parameters or is a pattern. Make it a tool, or write a path without any.",
			subject)
	}
}

// generatedTool returns one of the two tools of a GraphQL route, with the configured
// or default name and description. at is the pointer for a mistake in the name.
func (b *offerBuilder) generatedTool(at string, configured GeneratedTool, suffix, description string) *GeneratedTool {
	tool := &GeneratedTool{
		Name:        strings.TrimSpace(configured.Name),
		Description: firstText(configured.Description, description),
	}
	if tool.Name == "" {
		tool.Name = b.c.operationName(b.route, suffix)
	}
	if !validName().MatchString(tool.Name) {
		b.fail(at, "The MCP tool of this operation would be called %s. Give it a name here of 1 to 64 letters, digits and "+
			"the characters _ - and dots.", quote(tool.Name))
	}
	return tool
}

func (b *offerBuilder) checkName(mcp, name string) {
	if !validName().MatchString(name) {
		b.fail(mcp+"/name", "The MCP %s of this operation would be called %s. Give it a name here of 1 to 64 letters, "+
			"digits and the characters _ - and dots.", b.offer.Kind, quote(name))
	}
}

// firstText returns the first text that is not empty after trimming white space.
func firstText(texts ...string) string {
	for _, t := range texts {
		if t = strings.TrimSpace(t); t != "" {
			return t
		}
	}
	return ""
}

// defaultDescription returns the description of an operation
// that the document does not describe (contract 4.2 and 4.3).
func defaultDescription(kind MCPKind, name string) string {
	switch kind {
	case MCPResource:
		return "Resource for " + name
	case MCPPrompt:
		return "Prompt: " + name
	default:
		return "Executes tool: " + name
	}
}

// encodeURIComponent escapes the same characters as the function encodeURIComponent of ECMAScript.
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
