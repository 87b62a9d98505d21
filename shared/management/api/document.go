package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/gatewright/gatewright/shared/format/credential"
	"github.com/gatewright/gatewright/shared/management/openapiext"
)

// Version is the version of the API's description (specification 9).
const Version = "1.0.0"

// toolExtension is the extension of an operation that is not offered as
// an MCP tool. Its value is like the mcp object of a project's route.
const toolExtension = "x-mcp"

// The names of the security schemes.
const securityByKey, securityBySession = "accountKey", "session"

// security returns the security requirements of an operation, or nil if they are the document's default.
func (d Declaration) security() []map[string][]string {
	switch {
	case d.Public:
		return []map[string][]string{}
	case d.SessionOnly:
		return []map[string][]string{{securityBySession: {}}}
	case !d.AcceptsSession():
		return []map[string][]string{{securityByKey: {}}}
	}
	return nil
}

// extensions returns the OpenAPI extensions of an operation.
func (d Declaration) extensions() map[string]any {
	all := map[string]any{openapiext.EffectExtension: d.Effect()}
	if d.Scope != "" && !d.Public {
		all[openapiext.ScopeExtension] = d.Scope
	}
	if d.NoTool {
		all[toolExtension] = map[string]any{"enabled": false}
	}
	return all
}

// humaConfig returns the configuration of huma that servers use. documentConfig changes it for the OpenAPI document.
func humaConfig() huma.Config {
	setUpHuma()
	c := huma.DefaultConfig("Gatewright Developer Management API", Version)
	c.OpenAPIPath, c.DocsPath, c.SchemasPath = "", "", "" // GET /openapi is an operation of ours
	c.CreateHooks = nil                                   // no $schema in responses
	// The names of fields are exact, although encoding/json ignores their case (shape.go).
	exact := huma.Format{Marshal: huma.DefaultJSONFormat.Marshal, Unmarshal: decode}
	c.Formats = map[string]huma.Format{"application/json": exact, "json": exact}
	// Existing clients send fields of our responses, and other fields that the API does not have.
	c.AllowAdditionalPropertiesByDefault = true
	// These schemas are only used to validate, so their names are never shown.
	c.Components.Schemas = huma.NewMapRegistry(schemaPrefix, numberedNames())
	return c
}

// documentConfig returns the configuration for the document. names are the names of its schemas.
func documentConfig(names *schemaNames) huma.Config {
	c := humaConfig()
	c.Components.Schemas = huma.NewMapRegistry(schemaPrefix, names.name)
	c.Info.Description = "Manages accounts, API keys and deployments of a Gatewright installation."
	c.Info.Contact = &huma.Contact{Name: "Gatewright", URL: "https://github.com/gatewright/gatewright"}
	c.Info.License = &huma.License{Name: "Apache-2.0", Identifier: "Apache-2.0"}
	c.Servers = []*huma.Server{{URL: "/", Description: "The installation that serves this document."}}
	c.Components.Responses = map[string]*huma.Response{}
	c.Components.SecuritySchemes = map[string]*huma.SecurityScheme{
		securityByKey: {
			Type: "http", Scheme: "bearer",
			Description: "An account key: gwa_, 32 characters, a checksum. The x-required-scope of an operation is what the " +
				"key has to be allowed; without it any key will do.",
		},
		securityBySession: {
			Type: "apiKey", In: "cookie", Name: credential.SessionCookie,
			Description: "A session of a browser, which stands for the account key that began it. It counts for pages of the " +
				"API's own origin alone, whose browser says so by Sec-Fetch-Site: same-origin, and where there is no " +
				"Authorization header.",
		},
	}
	c.Security = []map[string][]string{{securityByKey: {}}, {securityBySession: {}}}
	return c
}

// Examples are the examples of requests and responses in the document. They must not contain a real key.
type Examples struct {
	// Operations has the examples by operation id.
	Operations map[string]Example
	// Problems has the examples by status code.
	Problems map[int]json.RawMessage
}

// Example is a request to an operation and its response.
type Example struct {
	// Path has the values of the path's parameters, decoded.
	Path map[string]string
	// Request and Response are the bodies of the request and the response, or nil if there is no body.
	Request, Response json.RawMessage
}

// Document returns the OpenAPI 3.1 description of groups, without their hidden operations, as indented JSON. Each call
// returns the same bytes. It returns an error if a type is used both in requests and in responses: schemas of requests
// allow unknown fields, but schemas of responses do not. It also returns an error for a pattern whose description is
// missing or invalid (checkPatternDescriptions).
func Document(groups []Group, examples Examples) ([]byte, error) {
	names := &schemaNames{}
	a := huma.NewAPI(documentConfig(names), noopAdapter{})
	for _, g := range groups {
		names.group = g.Title
		a.OpenAPI().Tags = append(a.OpenAPI().Tags, &huma.Tag{Name: g.Title, Description: g.Description})
		for _, o := range g.Operations {
			if route := o.route(g.Title); !route.Hidden {
				route.register(a, nil)
			}
		}
	}
	if err := closeResponses(a.OpenAPI()); err != nil {
		return nil, err
	}
	if err := checkPatternDescriptions(a.OpenAPI()); err != nil {
		return nil, err
	}
	examples.addTo(a.OpenAPI())
	raw, err := json.Marshal(a.OpenAPI())
	if err != nil {
		return nil, fmt.Errorf("encode the OpenAPI document: %w", err)
	}
	var out bytes.Buffer
	if err := json.Indent(&out, raw, "", "  "); err != nil {
		return nil, fmt.Errorf("indent the OpenAPI document: %w", err)
	}
	out.WriteByte('\n')
	return out.Bytes(), nil
}

// addTo adds the examples to the document.
func (e Examples) addTo(doc *huma.OpenAPI) {
	for _, op := range operations(doc) {
		example, ok := e.Operations[op.OperationID]
		if !ok {
			continue
		}
		for _, p := range op.Parameters {
			if value, ok := example.Path[p.Name]; ok && p.In == "path" {
				p.Example = value
			}
		}
		if op.RequestBody != nil && example.Request != nil {
			setExample(op.RequestBody.Content, example.Request)
		}
		if response := op.Responses[strconv.Itoa(op.DefaultStatus)]; response != nil && example.Response != nil {
			setExample(response.Content, example.Response)
		}
	}
	for status, body := range e.Problems {
		if r := doc.Components.Responses[problemName(status)]; r != nil {
			setExample(r.Content, body)
		}
	}
}

func setExample(content map[string]*huma.MediaType, body json.RawMessage) {
	for _, m := range content {
		m.Example = body
	}
}

// operations returns the document's operations, in no particular order.
func operations(doc *huma.OpenAPI) (all []*huma.Operation) {
	for _, item := range doc.Paths {
		for _, op := range []*huma.Operation{
			item.Get, item.Put, item.Post, item.Delete, item.Options, item.Head, item.Patch,
			item.Trace,
		} {
			if op != nil {
				all = append(all, op)
			}
		}
	}
	return all
}

// errorResponses returns the documentation of an operation's errors, by status code. The operations share
// the descriptions of errors, and refer to them. huma adds the response of a success.
func errorResponses(doc *huma.OpenAPI, d Declaration) map[string]*huma.Response {
	out := make(map[string]*huma.Response)
	for _, status := range d.Errors {
		if d.TakesMessage && status != http.StatusInternalServerError { // errors in the format of the message's protocol
			out[strconv.Itoa(status)] = &huma.Response{
				Description: http.StatusText(status),
				Content:     rawContent("application/json"),
			}
			if status == http.StatusTooManyRequests {
				out[strconv.Itoa(status)].Headers = map[string]*huma.Param{"Retry-After": {
					Description: "Whole seconds to wait before repeating the request.", Schema: &huma.Schema{Type: huma.TypeInteger},
				}}
			}
			continue
		}
		name := problemName(status)
		if doc.Components.Responses[name] == nil {
			doc.Components.Responses[name] = problemResponse(doc, status)
		}
		out[strconv.Itoa(status)] = &huma.Response{Ref: "#/components/responses/" + name}
	}
	return out
}

// problemName returns the name of a status code's response, such as NotFound.
func problemName(status int) string { return strings.ReplaceAll(http.StatusText(status), " ", "") }

func problemResponse(doc *huma.OpenAPI, status int) *huma.Response {
	schema := doc.Components.Schemas.Schema(reflect.TypeFor[Problem](), true, "")
	r := &huma.Response{
		Description: http.StatusText(status),
		Content:     map[string]*huma.MediaType{problemType: {Schema: schema}},
	}
	if status == http.StatusTooManyRequests {
		r.Headers = limitHeaders()
	}
	if status == http.StatusTooManyRequests || status == http.StatusConflict {
		if r.Headers == nil {
			r.Headers = map[string]*huma.Param{}
		}
		r.Headers["Retry-After"] = &huma.Param{
			Description: "Whole seconds to wait before repeating the request. A conflict without it does not pass by itself.",
			Schema:      &huma.Schema{Type: huma.TypeInteger},
		}
	}
	return r
}

// rawContent describes the body of a response whose Body is a []byte: a JSON object that is sent unchanged.
// contentTypes are the possible content types, separated by commas. huma would describe the body as a base64 string.
func rawContent(contentTypes string) map[string]*huma.MediaType {
	content := map[string]*huma.MediaType{}
	for name := range strings.SplitSeq(contentTypes, ",") {
		content[name] = &huma.MediaType{Schema: &huma.Schema{Type: huma.TypeObject, AdditionalProperties: true}}
	}
	return content
}

// noopAdapter is an adapter that serves no operation. It is used to create the document.
type noopAdapter struct{}

// Handle implements huma.Adapter.
func (noopAdapter) Handle(*huma.Operation, func(huma.Context)) {}

// ServeHTTP implements huma.Adapter.
func (noopAdapter) ServeHTTP(w http.ResponseWriter, r *http.Request) { http.NotFound(w, r) }

// documentHeaders documents the headers that this package reads and sends.
func (d Declaration) documentHeaders(op *huma.Operation) {
	text := func() *huma.Schema { return &huma.Schema{Type: huma.TypeString} }
	bounded := func(minLen, maxLen int) *huma.Schema {
		return &huma.Schema{Type: huma.TypeString, MinLength: &minLen, MaxLength: &maxLen}
	}
	etag := map[string]*huma.Param{"ETag": {Description: "A digest of what a read of it answers, for If-None-Match " +
		"and If-Match.", Schema: text()}}
	header := func(name, description string, schema *huma.Schema) {
		op.Parameters = append(op.Parameters, &huma.Param{Name: name, In: "header", Description: description, Schema: schema})
	}
	if d.TakesIdempotencyKey() {
		header(idempotencyKeyHeader, "Makes the request safe to repeat: within 24 hours the same request with the same key "+
			"is not carried out again, and is answered what the first one was.",
			bounded(1, maxKeyBytes))
	}
	if d.AcceptsIfMatch() {
		suffix := ""
		if d.ReadPath != d.Path {
			suffix = ", as GET " + d.ReadPath + " tells it"
		}
		header("If-Match", "The ETag, or ETags, of which what is changed has to have one now"+suffix+"; * for any.",
			bounded(1, maxConditionBytes))
	}
	if d.Single {
		header("If-None-Match", "The ETag, or ETags, of answers that the caller has: one that is the same is answered 304.",
			bounded(1, maxConditionBytes))
		op.Responses[strconv.Itoa(http.StatusNotModified)] = &huma.Response{Description: "Not Modified", Headers: etag}
	}
	success := strconv.Itoa(d.Status)
	response := op.Responses[success]
	if response == nil {
		response = &huma.Response{Description: http.StatusText(d.Status)}
		op.Responses[success] = response
	}
	if response.Headers == nil {
		response.Headers = map[string]*huma.Param{}
	}
	if d.Limit != (Limit{}) {
		maps.Copy(response.Headers, limitHeaders())
	}
	if d.Single || d.Mutates() && d.Status != http.StatusNoContent {
		response.Headers["ETag"] = etag["ETag"]
	}
	if d.TakesIdempotencyKey() {
		response.Headers["Idempotent-Replayed"] = &huma.Param{Description: "true where the answer is that of an earlier " +
			"request with the same Idempotency-Key.", Schema: text()}
	}
}
