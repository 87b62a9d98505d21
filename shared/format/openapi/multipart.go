package openapi

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/gatewright/gatewright/shared/format/project"
	"github.com/gatewright/gatewright/shared/format/schema"
)

// maxParts is the maximum number of parts of a multipart form.
const maxParts = 1000

// checkMultipart checks a multipart form.
func (c *content) checkMultipart(r *Report, boundary string, body []byte) {
	if boundary == "" {
		r.add(InBody, "", "must have the boundary of its parts in Content-Type")
		return
	}
	if !bytes.Contains(body, []byte("--"+boundary+"--")) {
		r.add(InBody, "", "must be a complete form: its last boundary is missing")
		return
	}
	reader := multipart.NewReader(bytes.NewReader(body), boundary)
	parts := map[string][]part{}
	var names []string
	for count := 0; ; count++ {
		raw, err := reader.NextPart()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil || count == maxParts {
			r.add(InBody, "", "must be a valid form of at most 1000 parts (multipart/form-data)")
			return
		}
		name := raw.FormName()
		if name == "" || !utf8.ValidString(name) {
			r.add(InBody, "", "must have a name for each part in Content-Disposition")
			return
		}
		text, err := io.ReadAll(raw)
		if err != nil {
			r.add(InBody, schema.Pointer(name), "must be a complete part of the form")
			return
		}
		p, detail := c.multipartPart(r, name, raw, string(text))
		if detail != "" {
			r.add(InBody, schema.Pointer(name), detail)
			return
		}
		if parts[name] == nil {
			names = append(names, name)
		}
		parts[name] = append(parts[name], p)
	}
	object := make(map[string]part, len(names))
	for _, name := range names {
		t := c.target().property(name, r.remainingWork())
		all := parts[name]
		isList := all[0].list != nil || all[0].decoded != nil && isArray(*all[0].decoded)
		switch {
		case len(all) > 1 && !t.allowsList() && !t.shape.IsUnrestricted():
			r.add(InBody, schema.Pointer(name), sentTwice)
			return
		case len(all) > 1, t.allowsList() && !t.allowsText() && !isList:
			if len(all) > 1 {
				all = items(all)
			}
			object[name] = part{list: all}
		default:
			object[name] = all[0]
		}
	}
	r.validateAny(c.schema, c.target().readings(r.remainingWork(), part{members: object}), InBody, "")
}

func isArray(value any) bool {
	_, ok := value.([]any)
	return ok
}

// multipartPart reads a part of a form, whose content is text. detail says what is wrong, or is "". The value of a part
// that is neither text nor JSON is a string with its bytes.
func (c *content) multipartPart(r *Report, name string, raw *multipart.Part, text string) (p part, detail string) {
	header := raw.Header.Get("Content-Type")
	mediaType, _, err := mime.ParseMediaType(header)
	if header != "" && err != nil {
		return part{}, "must have a valid Content-Type"
	}
	t, e := c.target().property(name, r.remainingWork()), c.encoding[name]
	if e != nil {
		for _, h := range e.headers {
			h.checkPartHeader(r, http.Header(raw.Header), name)
		}
		if e.Style == "" && e.ContentType != "" && !allowsPart(mediaType, e.ContentType) {
			return part{}, "must have one of these media types: " + e.ContentType
		}
		if e.Style != "" && !e.Explode && !t.allowsText() {
			p := &parameter{Parameter: project.Parameter{Name: name, Style: e.Style}, target: t}
			parts, detail := p.valueParts([]string{text}, []string{text}, decodeNothing)
			if detail != "" {
				return part{}, detail
			}
			return parts[0], ""
		}
	}
	switch {
	case isJSON(mediaType), mediaType == "" && e != nil && isJSON(e.ContentType):
		return jsonPart(text)
	case mediaType == "" && !t.allowsText() && looksLikeJSON(text):
		return c.guessedPart(r, t, text)
	}
	return textPart(text), ""
}

// guessedPart reads a part without a media type whose text looks like JSON. If the schema allows a list of texts, the text
// can also be an item of the list. It is then read as JSON only if it is a complete list. The part keeps its text too,
// because the form can have more items.
func (c *content) guessedPart(r *Report, t *target, text string) (p part, detail string) {
	p, detail = jsonPart(text)
	if !t.allowsList() || !t.item(t.shape.PrefixLength(), r.remainingWork()).allowsText() {
		return p, detail
	}
	if detail != "" || !isArray(*p.decoded) {
		return textPart(text), ""
	}
	p.text = text
	return p, ""
}

// items returns the items of a list that was sent as several parts. An item that guessedPart has read as JSON becomes a
// text again.
func items(all []part) []part {
	for i, p := range all {
		if p.decoded != nil && p.text != "" {
			all[i] = textPart(p.text)
		}
	}
	return all
}

// allowsPart reports whether list, a comma-separated list, allows the media type of a part. If the part names no media
// type, allowsPart reports whether list allows text or JSON: clients often leave out these types.
func allowsPart(mediaType, list string) bool {
	if mediaType != "" {
		return matchesType(mediaType, list)
	}
	return matchesType("text/plain", list) || matchesType("application/json", list)
}

// looksLikeJSON reports whether a text begins like a JSON list or object.
func looksLikeJSON(text string) bool {
	trimmed := strings.TrimSpace(text)
	return strings.HasPrefix(trimmed, "{") || strings.HasPrefix(trimmed, "[")
}

// checkPartHeader checks a header field of a part. The pointers of violations begin with the part's name.
func (p *parameter) checkPartHeader(r *Report, header http.Header, name string) {
	named := *p
	named.pointer = schema.Pointer(name, p.Name)
	named.checkHeader(r, header, InBody)
}
