package openapi

import (
	"net/http"
	"slices"
	"strings"

	"github.com/gatewright/gatewright/shared/format/project"
	"github.com/gatewright/gatewright/shared/format/schema"
)

// Request checks the requests of a route. It is safe for concurrent use.
type Request struct {
	path, headers, cookies []*parameter
	query                  queryParameters
	bodyRequired           bool
	contents               contents
}

// CompileRequest compiles the description of a route's requests. Without a description, nil, all requests are valid. An
// error says which part of the description has a schema that cannot be compiled. Compiling takes memory and up to some
// milliseconds, so callers should do it once, when they need the result.
func CompileRequest(definitions *schema.Definitions, description *project.RequestDescription) (*Request, error) {
	out := &Request{query: queryParameters{declared: map[string]bool{}, deep: map[string]bool{}}}
	if description == nil {
		return out, nil
	}
	for _, p := range description.Parameters {
		if err := out.addParameter(definitions, p); err != nil {
			return nil, err
		}
	}
	if description.Body != nil {
		out.bodyRequired = description.Body.Required
		var err error
		if out.contents, err = compileContents(definitions, description.Body.Content); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (q *Request) addParameter(definitions *schema.Definitions, description project.Parameter) error {
	if description.In == project.InQueryString {
		whole, err := compileContent(definitions, project.MediaType{
			Type: description.ContentType, Schema: description.Schema, Encoding: description.Encoding,
		})
		q.query.whole = whole
		return err
	}
	p, err := compileParameter(definitions, description)
	if err != nil {
		return err
	}
	switch description.In {
	case project.PathParameter:
		q.path = append(q.path, p)
	case project.QueryParameter:
		q.query.all = append(q.query.all, p)
		q.query.declared[p.Name] = true
		q.query.deep[p.Name] = p.Style == project.StyleDeep
	case project.HeaderParameter:
		// OpenAPI ignores parameters with these names: other parts of the document describe them.
		if !slices.ContainsFunc([]string{"Accept", "Content-Type", "Authorization"}, func(name string) bool {
			return strings.EqualFold(name, p.Name)
		}) {
			q.headers = append(q.headers, p)
		}
	case project.CookieParameter:
		q.cookies = append(q.cookies, p)
	case project.InQueryString: // above
	}
	return nil
}

// CheckPath checks the parameters of the path. raw returns the value of a parameter with its escapes, and reports whether
// the parameter exists.
func (q *Request) CheckPath(r *Report, raw func(name string) (string, bool)) {
	for _, p := range q.path {
		segment, exists := raw(p.Name)
		p.checkPath(r, segment, exists)
	}
}

// CheckQuery checks the parameters of the query. raw is the query without "?", with its escapes. CheckQuery adds the names
// of unknown parameters to Report.UnknownQuery.
func (q *Request) CheckQuery(r *Report, raw string) { q.query.check(r, raw) }

// CheckHeaders checks the header fields.
func (q *Request) CheckHeaders(r *Report, header http.Header) {
	for _, p := range q.headers {
		p.checkHeader(r, header, InHeader)
	}
}

// CheckCookies checks the cookies in the field Cookie of the header.
func (q *Request) CheckCookies(r *Report, header http.Header) {
	if len(q.cookies) == 0 {
		return
	}
	cookies := parseCookies(header)
	for _, p := range q.cookies {
		p.checkCookie(r, cookies)
	}
}

// Accepts reports whether the description has the media type of a Content-Type header. JSON and forms must have the charset
// UTF-8 or ASCII, or none. Text that is checked can also have iso-8859-1 or windows-1252. If the description has no media
// types, Accepts returns true.
func (q *Request) Accepts(contentType string) bool {
	if len(q.contents) == 0 {
		return true
	}
	c, _, _ := q.contents.accept(contentType)
	return c != nil
}

// ContentTypes returns the media types and ranges that bodies can have, such as text/*. It returns nil if the
// description has no body.
func (q *Request) ContentTypes() []string { return q.contents.types() }

// RequiresBody reports whether requests must have a body.
func (q *Request) RequiresBody() bool { return q.bodyRequired }

// ReadsBody reports whether CheckBody reads bodies with a Content-Type. If it returns false, the content of a body is not
// checked: CheckBody only reports a missing body and a media type that the description does not have.
func (q *Request) ReadsBody(contentType string) bool {
	c, mediaType, _ := q.contents.accept(contentType)
	return c.isChecked(mediaType)
}

// CheckBody checks a body from which the Content-Encoding was removed. An empty body is a violation if a body is required.
// A body of a media type that the description does not have is one violation (Accepts).
func (q *Request) CheckBody(r *Report, contentType string, body []byte) {
	if len(body) == 0 {
		if q.bodyRequired {
			r.add(InBody, "", missing)
		}
		return
	}
	checkBody(r, q.contents, contentType, body)
}

func checkBody(r *Report, all contents, contentType string, body []byte) {
	if len(all) == 0 {
		return
	}
	c, mediaType, parameters := all.accept(contentType)
	if c == nil {
		r.add(InBody, "", all.unsupported())
		return
	}
	c.check(r, mediaType, parameters, body)
}
