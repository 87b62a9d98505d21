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

	"github.com/gatewright/gatewright/shared/heading"
)

const referenceTitle = "Operations"

// document is what the reference reads of an OpenAPI document.
type document struct {
	Info struct {
		Contact struct{ URL string }
	}
	Tags       []struct{ Name, Description string }
	Paths      map[string]map[string]described
	Components struct {
		Schemas   map[string]schema
		Responses map[string]response
	}
}

// described is an operation.
type described struct {
	OperationID, Summary, Description string
	Tags                              []string
	// Security is nil where it is the document's, and empty where no key is needed.
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

// reference is what the page of the operations shows.
type reference struct {
	Title, Up string
	Groups    []group
}

type group struct {
	ID, Title, Description string
	Operations             []operation
}

type operation struct {
	ID, Method, Path, Summary, Description string
	Public                                 bool
	// Scope is what the key needs, "" where any key will do.
	Scope      string
	Parameters []field
	Body       *shape
	Answers    []answer
	Errors     []failure
	// Example is the request as commands of a shell.
	Example string
}

// answer is one of a success.
type answer struct {
	Status, Title string
	Shape         *shape
	Example       string
}

// failure is an error that may be answered, Href what to do about it.
type failure struct{ Status, Title, Href string }

// methods in the order of a reader: what there is, how it is made, changed and removed.
var methods = []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}

// reference makes the model of the page.
func (d *document) reference(up string) reference {
	out := reference{Title: referenceTitle, Up: up}
	ids := heading.Anchors{}
	for _, tag := range d.Tags {
		g := group{ID: ids.Next(tag.Name), Title: tag.Name, Description: tag.Description}
		for _, path := range slices.Sorted(maps.Keys(d.Paths)) {
			for _, method := range methods {
				if o, ok := d.Paths[path][strings.ToLower(method)]; ok && slices.Contains(o.Tags, tag.Name) {
					g.Operations = append(g.Operations, d.operation(method, path, o, up))
				}
			}
		}
		out.Groups = append(out.Groups, g)
	}
	return out
}

// sections are the groups, for the navigation.
func (r reference) sections() (out []section) {
	for _, g := range r.Groups {
		out = append(out, section{g.ID, g.Title})
	}
	return out
}

func (d *document) operation(method, path string, o described, up string) operation {
	out := operation{ID: o.OperationID, Method: method, Path: path, Summary: o.Summary, Description: o.Description, Scope: o.Scope}
	out.Public = o.Security != nil && len(o.Security) == 0
	for _, p := range o.Parameters {
		f := d.fieldOf(p.Name, p.Schema)
		f.In, f.Required = p.In, p.Required
		f.Description = cmp.Or(p.Description, f.Description)
		out.Parameters = append(out.Parameters, f)
	}
	order := []string{"path", "query", "header"}
	slices.SortStableFunc(out.Parameters, func(a, b field) int { return slices.Index(order, a.In) - slices.Index(order, b.In) })
	if body, ok := oneOf(o.RequestBody.Content); ok {
		out.Body = d.shapeOf(body.Schema)
	}
	for _, status := range slices.Sorted(maps.Keys(o.Responses)) {
		r := o.Responses[status]
		if name, ok := strings.CutPrefix(r.Ref, "#/components/responses/"); ok {
			r = d.Components.Responses[name]
		}
		if status >= "400" {
			out.Errors = append(out.Errors, failure{status, r.Description, linkTo(up, "problems", heading.Anchors{}.Next(r.Description))})
			continue
		}
		a := answer{Status: status, Title: r.Description}
		if body, ok := oneOf(r.Content); ok {
			a.Shape, a.Example = d.shapeOf(body.Schema), indented(body.Example)
		}
		out.Answers = append(out.Answers, a)
	}
	out.Example = d.curl(out, o)
	return out
}

// oneOf is the content in the first of its forms: they hold the same.
func oneOf(all map[string]content) (out content, ok bool) {
	for _, form := range slices.Sorted(maps.Keys(all)) {
		return all[form], true
	}
	return out, false
}

func indented(raw json.RawMessage) string {
	var out bytes.Buffer
	if len(raw) == 0 || json.Indent(&out, raw, "", "  ") != nil {
		return ""
	}
	return out.String()
}

// curl is the example of an operation, as it is typed. What a query has to say and the document
// gives no example of stands there as a variable.
func (d *document) curl(o operation, from described) string {
	path, query := quoted(o.Path), ""
	for _, p := range from.Parameters {
		switch {
		case p.In == "path":
			value, _ := p.Example.(string)
			path = strings.ReplaceAll(path, "{"+p.Name+"}", quoted(url.PathEscape(value)))
		case p.In == "query" && p.Required:
			query += "&" + p.Name + "=$" + p.Name
		}
	}
	if query != "" {
		path += "?" + query[1:]
	}
	words := []string{"curl -sS"}
	body, hasBody := oneOf(from.RequestBody.Content)
	if plain := map[bool]string{false: http.MethodGet, true: http.MethodPost}[hasBody]; o.Method != plain {
		words[0] += " -X " + o.Method
	}
	words[0] += ` "$api` + path + `"`
	if !o.Public {
		words = append(words, `-H "Authorization: Bearer $account_key"`)
	}
	if hasBody {
		words = append(words, `-H "Content-Type: application/json"`,
			"-d '"+strings.ReplaceAll(indented(body.Example), "'", `'\''`)+"'")
	}
	return strings.Join(words, " \\\n  ")
}

// quoted is a text as it stands in double quotes of a shell.
func quoted(text string) string {
	return strings.NewReplacer(`\`, `\\`, `"`, `\"`, "$", `\$`, "`", "\\`").Replace(text)
}
