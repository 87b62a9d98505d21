package openapi

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/gatewright/gatewright/shared/base/lazy"
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
	count, detail := countParts(boundary, body)
	if detail != "" {
		r.add(InBody, "", detail)
		return
	}
	parts, names, ok := c.readParts(r, multipart.NewReader(bytes.NewReader(body), boundary), count)
	if !ok {
		return
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

// countParts returns the number of parts of a form. Detail says what is wrong, or is "". Servers find the boundaries of
// parts in different ways: some read other line breaks than CRLF, ignore white space around a boundary, or read on after
// the last one. So each boundary must be on a line of its own, and must not be anywhere else.
func countParts(boundary string, body []byte) (count int, detail string) {
	if multipart.NewWriter(io.Discard).SetBoundary(boundary) != nil {
		return 0, "must have a valid boundary in Content-Type, of at most 70 characters"
	}
	delimiter := []byte("--" + boundary)
	const malformed = "must have its boundary only between its parts, on lines of its own that end with CR LF"
	for rest, isFirst := body, true; ; isFirst = false {
		before, after, found := bytes.Cut(rest, delimiter)
		switch {
		case !found:
			return 0, "must be a complete form: its last boundary is missing"
		case !bytes.HasSuffix(before, []byte("\r\n")) && !(isFirst && len(before) == 0):
			return 0, malformed
		case bytes.HasPrefix(after, []byte("--")):
			if bytes.Contains(after, delimiter) {
				return 0, malformed
			}
			return count, ""
		case !bytes.HasPrefix(after, []byte("\r\n")):
			return 0, malformed
		}
		if count++; count > maxParts {
			return 0, "must have at most 1000 parts"
		}
		rest = after
	}
}

// readParts reads the parts of a form that has count parts. It returns the parts by their names, and the names in order.
// It returns false after a violation.
func (c *content) readParts(r *Report, reader *multipart.Reader, count int) (
	parts map[string][]part, names []string, ok bool,
) {
	parts = map[string][]part{}
	for ; ; count-- {
		raw, err := reader.NextRawPart()
		if errors.Is(err, io.EOF) && count == 0 {
			return parts, names, true
		}
		if err != nil || count == 0 {
			r.add(InBody, "", "must be a valid form (multipart/form-data)")
			return nil, nil, false
		}
		name, detail := partName(raw.Header)
		if detail != "" {
			r.add(InBody, "", detail)
			return nil, nil, false
		}
		text, err := io.ReadAll(raw)
		if err != nil {
			r.add(InBody, schema.Pointer(name), "must be a complete part of the form")
			return nil, nil, false
		}
		p, detail := c.multipartPart(r, name, raw, text)
		if detail != "" {
			r.add(InBody, schema.Pointer(name), detail)
			return nil, nil, false
		}
		if parts[name] == nil {
			names = append(names, name)
		}
		parts[name] = append(parts[name], p)
	}
}

// nameParameters matches the parameter name of Content-Disposition, and its form name* (RFC 8187), which few servers
// know.
var nameParameters = lazy.Regexp(`(?i);\s*name\s*[*=]`)

// partName returns the name of a part of a form. Detail says what is wrong with its header, or is "". A header that
// servers read in different ways is wrong.
func partName(header textproto.MIMEHeader) (name, detail string) {
	disposition := header["Content-Disposition"]
	if len(disposition) != 1 {
		return "", "must have one Content-Disposition for each part"
	}
	kind, parameters, err := mime.ParseMediaType(disposition[0])
	name = parameters["name"]
	if err != nil || kind != "form-data" || name == "" || !utf8.ValidString(name) {
		return "", "must have a name for each part in Content-Disposition"
	}
	all := nameParameters().FindAllString(disposition[0], 2)
	if len(all) != 1 || strings.HasSuffix(all[0], "*") {
		return "", "must have one name for each part in Content-Disposition, without name*"
	}
	for _, encoding := range header["Content-Transfer-Encoding"] {
		// RFC 7578, section 4.7: senders do not use it. Some servers decode it, and others do not.
		if !slices.Contains([]string{"7bit", "8bit", "binary"}, strings.ToLower(strings.TrimSpace(encoding))) {
			return "", "must have parts without Content-Transfer-Encoding"
		}
	}
	return name, ""
}

func isArray(value any) bool {
	_, ok := value.([]any)
	return ok
}

// multipartPart returns the part of a form. detail says what is wrong, or is "". A part that is neither text nor JSON
// is a string with its bytes.
func (c *content) multipartPart(r *Report, name string, raw *multipart.Part, data []byte) (p part, detail string) {
	header := strings.Join(raw.Header["Content-Type"], ", ")
	mediaType, parameters := parseMediaType(header)
	if strings.TrimSpace(header) != "" && mediaType == "" {
		return part{}, "must have a valid Content-Type"
	}
	text := string(data)
	// Files are not checked as texts.
	isChecked := isJSON(mediaType) || isText(mediaType) && raw.FileName() == ""
	if charset := parameters["charset"]; !isUTF8(charset) && isChecked {
		var ok bool
		if text, ok = decodeText(charset, data); !ok || isJSON(mediaType) {
			return part{}, "must be UTF-8 text"
		}
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
