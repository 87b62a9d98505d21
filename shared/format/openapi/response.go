package openapi

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/gatewright/gatewright/shared/format/project"
	"github.com/gatewright/gatewright/shared/format/schema"
)

// Response checks the responses of a route. It is safe for concurrent use.
type Response struct{ statuses map[string]*status }

// status has the compiled description of responses with a status.
type status struct {
	headers  []*parameter
	contents contents
}

// CompileResponse compiles the description of a route's responses. With an empty description, all responses are valid.
// CompileRequest describes the errors and the costs.
func CompileResponse(definitions *schema.Definitions, description project.ResponseDescription) (*Response, error) {
	out := &Response{statuses: map[string]*status{}}
	for code, d := range description {
		s := &status{}
		for _, h := range d.Headers {
			if strings.EqualFold(h.Name, "Content-Type") { // content describes it
				continue
			}
			p, err := compileParameter(definitions, h)
			if err != nil {
				return nil, fmt.Errorf("response %s: %w", code, err)
			}
			s.headers = append(s.headers, p)
		}
		var err error
		if s.contents, err = compileContents(definitions, d.Content); err != nil {
			return nil, fmt.Errorf("response %s: %w", code, err)
		}
		out.statuses[strings.ToUpper(code)] = s
	}
	return out, nil
}

// find returns the description of a status: the one of the status itself, otherwise the one of its range (2XX), otherwise
// the default. It returns nil if there is none.
func (p *Response) find(code int) *status {
	if s := p.statuses[strconv.Itoa(code)]; s != nil {
		return s
	}
	if s := p.statuses[strconv.Itoa(code/100)+"XX"]; s != nil {
		return s
	}
	return p.statuses["DEFAULT"]
}

// CheckHead checks the status and the header fields. A status that is not described is a violation in InStatus.
func (p *Response) CheckHead(r *Report, code int, header http.Header) {
	if len(p.statuses) == 0 {
		return
	}
	s := p.find(code)
	if s == nil {
		r.add(InStatus, "", "must be a status that the description has")
		return
	}
	for _, h := range s.headers {
		h.checkHeader(r, header, InHeader)
	}
}

// ReadsBody reports whether CheckBody reads bodies with a status and a Content-Type.
func (p *Response) ReadsBody(code int, contentType string) bool {
	s := p.find(code)
	if s == nil {
		return false
	}
	c, mediaType, _ := s.contents.accept(contentType)
	return c.isChecked(mediaType)
}

// CheckBody checks a body from which the Content-Encoding was removed. Do not call it for responses without a body, such as
// those to HEAD. CheckBody accepts a status that is not described: CheckHead reports it.
func (p *Response) CheckBody(r *Report, code int, contentType string, body []byte) {
	s := p.find(code)
	if s == nil {
		return
	}
	checkBody(r, s.contents, contentType, body)
}
