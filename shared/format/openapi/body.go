package openapi

import (
	"fmt"
	"net/url"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/gatewright/gatewright/shared/format/project"
	"github.com/gatewright/gatewright/shared/format/schema"
)

// content is the compiled description of the bodies of a media type. schema and target are nil if every body is valid.
type content struct {
	mediaType string
	schema    *schema.Schema
	// target returns the target of the schema. It computes the target for the first request, because bodies in JSON need
	// none, and large schemas have large targets.
	target   func() *target
	encoding map[string]*encoding
}

// encoding is the compiled description of a property of a form.
type encoding struct {
	project.Encoding
	headers []*parameter
}

func compileContent(d *schema.Definitions, m project.MediaType) (*content, error) {
	c := &content{mediaType: m.Type}
	if len(m.Schema) > 0 {
		var err error
		if c.schema, err = d.Compile(m.Schema); err != nil {
			return nil, fmt.Errorf("media type %q: %w", m.Type, err)
		}
		c.target = sync.OnceValue(func() *target { return newTarget(c.schema.Shape(), targetLevels) })
	}
	for name, e := range m.Encoding {
		if c.encoding == nil {
			c.encoding = map[string]*encoding{}
		}
		compiled := &encoding{Encoding: e}
		for _, h := range e.Headers {
			p, err := compileParameter(d, h)
			if err != nil {
				return nil, fmt.Errorf("media type %q, property %q: %w", m.Type, name, err)
			}
			compiled.headers = append(compiled.headers, p)
		}
		c.encoding[name] = compiled
	}
	return c, nil
}

// contents are the media types of a body.
type contents []*content

func compileContents(d *schema.Definitions, types []project.MediaType) (contents, error) {
	var all contents
	for _, m := range types {
		c, err := compileContent(d, m)
		if err != nil {
			return nil, err
		}
		all = append(all, c)
	}
	return all, nil
}

// find returns the description for a media type in lower case: that of the type itself, or of the type's range, or of
// */*. It returns nil if there is none.
func (c contents) find(mediaType string) *content {
	group, _, _ := strings.Cut(mediaType, "/")
	for _, candidate := range []string{mediaType, group + "/*", "*/*"} {
		for _, described := range c {
			if described.mediaType == candidate {
				return described
			}
		}
	}
	return nil
}

// types returns the media types and ranges.
func (c contents) types() []string {
	var out []string
	for _, described := range c {
		out = append(out, described.mediaType)
	}
	return out
}

// isChecked reports whether bodies of a media type are compared with the schema.
func (c *content) isChecked(mediaType string) bool {
	return c != nil && c.schema != nil && (isJSON(mediaType) || mediaType == formType || mediaType == multipartType ||
		isText(mediaType))
}

// check checks a body of a media type.
func (c *content) check(r *Report, mediaType string, parameters map[string]string, body []byte) {
	switch {
	case !c.isChecked(mediaType):
	case isJSON(mediaType):
		value, violation := schema.Decode(body)
		if violation != nil {
			r.add(InBody, violation.Pointer, violation.Detail)
			return
		}
		r.validate(c.schema, value, InBody, "")
	case mediaType == formType:
		c.checkForm(r, InBody, string(body))
	case mediaType == multipartType:
		c.checkMultipart(r, parameters["boundary"], body)
	default:
		text, ok := decodeText(parameters["charset"], body)
		if !ok {
			r.add(InBody, "", "must be UTF-8 text")
			return
		}
		r.validateAny(c.schema, c.target().readings(r.remainingWork(), textPart(text)), InBody, "")
	}
}

// checkQuery checks a whole query that is one parameter (OpenAPI 3.2).
func (c *content) checkQuery(r *Report, raw string) {
	if c.schema == nil {
		return
	}
	if c.mediaType == formType {
		c.checkForm(r, InQuery, raw)
		return
	}
	text, err := url.PathUnescape(raw)
	if err != nil || !utf8.ValidString(text) {
		r.add(InQuery, "", malformedEscape)
		return
	}
	if !isJSON(c.mediaType) {
		r.validateAny(c.schema, c.target().readings(r.remainingWork(), textPart(text)), InQuery, "")
		return
	}
	value, violation := schema.Decode([]byte(text))
	if violation != nil {
		r.add(InQuery, violation.Pointer, violation.Detail)
		return
	}
	r.validate(c.schema, value, InQuery, "")
}

// unsupported returns the detail of the violation for a media type that is not described.
func (c contents) unsupported() string {
	types := c.types()
	more := ""
	if len(types) > maxListedTypes {
		types, more = types[:maxListedTypes], ", …"
	}
	return "must have one of these media types: " + strings.Join(types, ", ") + more
}

// maxListedTypes is the maximum number of media types in a detail.
const maxListedTypes = 10
