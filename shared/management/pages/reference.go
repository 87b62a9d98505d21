package pages

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/gatewright/gatewright/shared/format/heading"
)

const referenceTitle = "Operations"

// document has the parts of an OpenAPI document that the reference shows.
type document struct {
	Info struct {
		Contact struct{ URL string }
	}
	Tags       []struct{ Name, Description string }
	Paths      map[string]map[string]operationSpec
	Components struct {
		Schemas   map[string]schema
		Responses map[string]response
	}
}

// operationSpec is an operation in the OpenAPI document.
type operationSpec struct {
	OperationID, Summary, Description string
	Tags                              []string
	// Security is nil if the document's security applies, and empty if no key is needed.
	Security    []map[string][]string
	Scope       string `json:"x-required-scope"`
	Parameters  []parameter
	RequestBody struct {
		Content map[string]content
	}
	Responses map[string]response
}

type parameter struct {
	Name, In, Description string
	Required              bool
	Schema                schema
	Example               any
}

type response struct {
	Ref         string `json:"$ref"`
	Description string
	Content     map[string]content
}

type content struct {
	Schema  schema
	Example json.RawMessage
}

// reference is the content of the page with the operations.
type reference struct {
	Title, Base string
	Groups      []group
}

type group struct {
	ID, Title, Description string
	Operations             []operation
}

type operation struct {
	ID, Method, Path, Summary, Description string
	Public                                 bool
	// Scope is the scope that the key needs, or "" if any key is accepted.
	Scope      string
	Parameters []field
	Body       *shape
	Successes  []success
	Errors     []failure
	// Example is the request as a shell command.
	Example string
}

// success is a response with a status below 400.
type success struct {
	Status, Title string
	Shape         *shape
	Example       string
}

// failure is an error of an operation. Href links to the explanation of the error.
type failure struct{ Status, Title, Href string }

// methods are the HTTP methods. The reference shows the operations of a path in this order.
var methods = []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}

// reference returns the content of the page with the operations.
func (d *document) reference(base string) reference {
	out := reference{Title: referenceTitle, Base: base}
	ids := heading.Anchors{}
	for _, tag := range d.Tags {
		g := group{ID: ids.Next(tag.Name), Title: tag.Name, Description: tag.Description}
		for _, path := range slices.Sorted(maps.Keys(d.Paths)) {
			for _, method := range methods {
				if o, ok := d.Paths[path][strings.ToLower(method)]; ok && slices.Contains(o.Tags, tag.Name) {
					g.Operations = append(g.Operations, d.operation(method, path, o, base))
				}
			}
		}
		out.Groups = append(out.Groups, g)
	}
	return out
}

// sections returns the groups, for the navigation.
func (r reference) sections() (out []section) {
	for _, g := range r.Groups {
		out = append(out, section{g.ID, g.Title})
	}
	return out
}

func (d *document) operation(method, path string, o operationSpec, base string) operation {
	out := operation{
		ID: o.OperationID, Method: method, Path: path, Summary: o.Summary, Description: o.Description,
		Scope: o.Scope,
	}
	out.Public = o.Security != nil && len(o.Security) == 0
	for _, p := range o.Parameters {
		f := d.newField(p.Name, p.Schema)
		f.In, f.Required = p.In, p.Required
		f.Description = cmp.Or(p.Description, f.Description)
		out.Parameters = append(out.Parameters, f)
	}
	order := []string{"path", "query", "header"}
	slices.SortStableFunc(out.Parameters, func(a, b field) int {
		return slices.Index(order, a.In) - slices.Index(order, b.In)
	})
	if body, ok := firstContent(o.RequestBody.Content); ok {
		out.Body = d.newShape(body.Schema)
	}
	for _, status := range slices.Sorted(maps.Keys(o.Responses)) {
		r := o.Responses[status]
		if name, ok := strings.CutPrefix(r.Ref, "#/components/responses/"); ok {
			r = d.Components.Responses[name]
		}
		if status >= "400" {
			out.Errors = append(out.Errors, failure{
				status, r.Description,
				linkTo(base, "problems", heading.Anchors{}.Next(r.Description)),
			})
			continue
		}
		a := success{Status: status, Title: r.Description}
		if body, ok := firstContent(r.Content); ok {
			a.Shape, a.Example = d.newShape(body.Schema), indentJSON(body.Example)
		}
		out.Successes = append(out.Successes, a)
	}
	out.Example = d.curl(out, o)
	return out
}

// firstContent returns the content for the first media type. The other media types have the same fields.
func firstContent(all map[string]content) (out content, ok bool) {
	for _, mediaType := range slices.Sorted(maps.Keys(all)) {
		return all[mediaType], true
	}
	return out, false
}

func indentJSON(raw json.RawMessage) string {
	var out bytes.Buffer
	if len(raw) == 0 || json.Indent(&out, raw, "", "  ") != nil {
		return ""
	}
	return out.String()
}

// curl returns the example of an operation as a shell command.
// The values of required query parameters are shell variables.
func (d *document) curl(o operation, spec operationSpec) string {
	path, query := shellQuote(o.Path), ""
	for _, p := range spec.Parameters {
		switch {
		case p.In == "path":
			value, _ := p.Example.(string)
			path = strings.ReplaceAll(path, "{"+p.Name+"}", shellQuote(url.PathEscape(value)))
		case p.In == "query" && p.Required:
			query += "&" + p.Name + "=$" + p.Name
		}
	}
	if query != "" {
		path += "?" + query[1:]
	}
	words := []string{"curl -sS"}
	body, hasBody := firstContent(spec.RequestBody.Content)
	if defaultMethod := map[bool]string{false: http.MethodGet, true: http.MethodPost}[hasBody]; o.Method != defaultMethod {
		words[0] += " -X " + o.Method
	}
	words[0] += ` "$api` + path + `"`
	if !o.Public {
		words = append(words, `-H "Authorization: Bearer $account_key"`)
	}
	if hasBody {
		words = append(words, `-H "Content-Type: application/json"`,
			"-d '"+strings.ReplaceAll(indentJSON(body.Example), "'", `'\''`)+"'")
	}
	return strings.Join(words, " \\\n  ")
}

// shellQuote escapes a text for use inside double quotes in a shell.
func shellQuote(text string) string {
	return strings.NewReplacer(`\`, `\\`, `"`, `\"`, "$", `\$`, "`", "\\`").Replace(text)
}
