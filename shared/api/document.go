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

	"github.com/gatewright/gatewright/shared/credential"
	"github.com/gatewright/gatewright/shared/effect"
)

// Version of the API's description (specification 9).
const Version = "1.0.0"

// toolExtension says that an operation is no tool of an MCP server, as the mcp object of a project's
// routes does.
const toolExtension = "x-mcp"

// The names of the security schemes.
const securityByKey, securityBySession = "accountKey", "session"

// security says what an operation takes of a caller, nil where that is what the document says for all.
func (d Declaration) security() []map[string][]string {
	switch {
	case d.Public:
		return []map[string][]string{}
	case d.SessionAlone:
		return []map[string][]string{{securityBySession: {}}}
	case !d.TakesSession():
		return []map[string][]string{{securityByKey: {}}}
	}
	return nil
}

// extensions are those of an operation.
func (d Declaration) extensions() map[string]any {
	all := map[string]any{effect.Extension: d.Effect()}
	if d.Scope != "" && !d.Public {
		all[effect.ScopeExtension] = d.Scope
	}
	if d.NoTool {
		all[toolExtension] = map[string]any{"enabled": false}
	}
	return all
}

// humaConfig is what serving and describing have in common.
func humaConfig() huma.Config {
	setUpHuma()
	c := huma.DefaultConfig("Gatewright Developer Management API", Version)
	c.OpenAPIPath, c.DocsPath, c.SchemasPath = "", "", "" // GET /openapi is an operation of ours
	c.CreateHooks = nil                                   // no $schema in answers
	// Names are exact: encoding/json takes any spelling of them (form.go).
	exact := huma.Format{Marshal: huma.DefaultJSONFormat.Marshal, Unmarshal: decode}
	c.Formats = map[string]huma.Format{"application/json": exact, "json": exact}
	// Existing clients send fields that we give out or do not know.
	c.AllowAdditionalPropertiesByDefault = true
	// Nobody sees the names of schemas where they only validate.
	c.Components.Schemas = huma.NewMapRegistry(schemaPrefix, numbered())
	return c
}

// documentConfig is for describing: names are the schemas' in the document.
func documentConfig(names *schemaNames) huma.Config {
	c := humaConfig()
	c.Components.Schemas = huma.NewMapRegistry(schemaPrefix, names.of)
	c.Info.Description = "Manages accounts, API keys and deployments of a Gatewright installation."
	c.Info.Contact = &huma.Contact{Name: "Gatewright", URL: "https://github.com/gatewright/gatewright"}
	c.Info.License = &huma.License{Name: "Apache-2.0", Identifier: "Apache-2.0"}
	c.Servers = []*huma.Server{{URL: "/", Description: "The installation that serves this document."}}
	c.Components.Responses = map[string]*huma.Response{}
	c.Components.SecuritySchemes = map[string]*huma.SecurityScheme{
		securityByKey: {
			Type: "http", Scheme: "bearer",
			Description: "An account key: gwa_, 32 characters, a checksum. The x-required-scope of an operation is what the key has to be allowed; without it any key will do.",
		},
		securityBySession: {
			Type: "apiKey", In: "cookie", Name: credential.SessionCookie,
			Description: "A session of a browser, which stands for the account key that began it. It counts for pages of the API's own origin alone, whose browser says so by Sec-Fetch-Site: same-origin, and where there is no Authorization header.",
		},
	}
	c.Security = []map[string][]string{{securityByKey: {}}, {securityBySession: {}}}
	return c
}

// Examples are what the document shows of real requests and answers. Nothing in
// them may be anybody's key.
type Examples struct {
	// Operations by id.
	Operations map[string]Example
	// Problems by status.
	Problems map[int]json.RawMessage
}

// Example is a request to an operation and its answer.
type Example struct {
	// Path holds the values of the path's parameters, decoded.
	Path map[string]string
	// Request and Answer are the bodies, nil where there is none.
	Request, Answer json.RawMessage
}

// Document is the OpenAPI 3.1 description of groups, without their hidden operations, as indented JSON. It is
// the same bytes at each call. It answers an error for a type that is both sent
// and answered (requests are open to fields that we do not know, answers have
// the fields they list and no others), and for a pattern without words.
func Document(groups []Group, examples Examples) ([]byte, error) {
	names := &schemaNames{}
	a := huma.NewAPI(documentConfig(names), nowhere{})
	for _, g := range groups {
		names.group = g.Title
		a.OpenAPI().Tags = append(a.OpenAPI().Tags, &huma.Tag{Name: g.Title, Description: g.Description})
		for _, o := range g.Operations {
			if route := o.route(g.Title); !route.Hidden {
				route.register(a, nil)
			}
		}
	}
	if err := closeAnswers(a.OpenAPI()); err != nil {
		return nil, err
	}
	if err := wordPatterns(a.OpenAPI()); err != nil {
		return nil, err
	}
	examples.show(a.OpenAPI())
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

// show puts the examples where they belong in the document.
func (e Examples) show(doc *huma.OpenAPI) {
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
			showBody(op.RequestBody.Content, example.Request)
		}
		if answer := op.Responses[strconv.Itoa(op.DefaultStatus)]; answer != nil && example.Answer != nil {
			showBody(answer.Content, example.Answer)
		}
	}
	for status, body := range e.Problems {
		if r := doc.Components.Responses[problemName(status)]; r != nil {
			showBody(r.Content, body)
		}
	}
}

func showBody(content map[string]*huma.MediaType, body json.RawMessage) {
	for _, m := range content {
		m.Example = body
	}
}

// operations lists the document's operations, in no order.
func operations(doc *huma.OpenAPI) (all []*huma.Operation) {
	for _, item := range doc.Paths {
		for _, op := range []*huma.Operation{item.Get, item.Put, item.Post, item.Delete, item.Options, item.Head, item.Patch, item.Trace} {
			if op != nil {
				all = append(all, op)
			}
		}
	}
	return all
}

// responses documents the errors of an operation, each once for all of them;
// huma adds the success.
func responses(doc *huma.OpenAPI, d Declaration) map[string]*huma.Response {
	out := make(map[string]*huma.Response)
	for _, status := range d.Errors {
		if d.TakesMessage && status != http.StatusInternalServerError { // errors of the protocol that the message is of
			out[strconv.Itoa(status)] = &huma.Response{Description: http.StatusText(status), Content: written("application/json")}
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

// problemName is what the response of a status is called: NotFound.
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

// written is what an operation answers whose Body is bytes: an object that is sent as it is written,
// in one of some types, where huma would describe text in base64.
func written(types string) map[string]*huma.MediaType {
	content := map[string]*huma.MediaType{}
	for name := range strings.SplitSeq(types, ",") {
		content[name] = &huma.MediaType{Schema: &huma.Schema{Type: huma.TypeObject, AdditionalProperties: true}}
	}
	return content
}

// nowhere is an adapter that serves nothing, for the document alone.
type nowhere struct{}

// Handle implements huma.Adapter.
func (nowhere) Handle(*huma.Operation, func(huma.Context)) {}

// ServeHTTP implements huma.Adapter.
func (nowhere) ServeHTTP(w http.ResponseWriter, r *http.Request) { http.NotFound(w, r) }

// documentHeaders describes what the engine itself reads and answers.
func (d Declaration) documentHeaders(op *huma.Operation) {
	text := func() *huma.Schema { return &huma.Schema{Type: huma.TypeString} }
	bounded := func(least, most int) *huma.Schema {
		return &huma.Schema{Type: huma.TypeString, MinLength: &least, MaxLength: &most}
	}
	etag := map[string]*huma.Param{"ETag": {Description: "A digest of what a read of it answers, for If-None-Match and If-Match.", Schema: text()}}
	header := func(name, description string, schema *huma.Schema) {
		op.Parameters = append(op.Parameters, &huma.Param{Name: name, In: "header", Description: description, Schema: schema})
	}
	if d.Repeatable() {
		header(idempotencyKey, "Makes the request safe to repeat: within 24 hours the same request with the same key is not carried out again, and is answered what the first one was.",
			bounded(1, maxKeyBytes))
	}
	if d.Conditional() {
		told := ""
		if d.ReadAt != d.Path {
			told = ", as GET " + d.ReadAt + " tells it"
		}
		header("If-Match", "The ETag, or ETags, of which what is changed has to have one now"+told+"; * for any.", bounded(1, maxConditionBytes))
	}
	if d.Single {
		header("If-None-Match", "The ETag, or ETags, of answers that the caller has: one that is the same is answered 304.", bounded(1, maxConditionBytes))
		op.Responses[strconv.Itoa(http.StatusNotModified)] = &huma.Response{Description: "Not Modified", Headers: etag}
	}
	success := strconv.Itoa(d.Status)
	answer := op.Responses[success]
	if answer == nil {
		answer = &huma.Response{Description: http.StatusText(d.Status)}
		op.Responses[success] = answer
	}
	if answer.Headers == nil {
		answer.Headers = map[string]*huma.Param{}
	}
	if d.Limit != (Limit{}) {
		maps.Copy(answer.Headers, limitHeaders())
	}
	if d.Single || d.Mutates() && d.Status != http.StatusNoContent {
		answer.Headers["ETag"] = etag["ETag"]
	}
	if d.Repeatable() {
		answer.Headers["Idempotent-Replayed"] = &huma.Param{Description: "true where the answer is that of an earlier request with the same Idempotency-Key.", Schema: text()}
	}
}
