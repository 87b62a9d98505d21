package openapi

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/gatewright/gatewright/shared/format/project"
	"github.com/gatewright/gatewright/shared/format/schema"
)

// parameter is a compiled parameter. Its schema and target are nil if every value is valid.
type parameter struct {
	project.Parameter
	schema *schema.Schema
	target *target
	// pointer is the JSON pointer of the parameter.
	pointer string
}

// Details of violations that several checks report.
const (
	malformedEscape = "must have valid escapes of UTF-8, such as %C3%A9"
	sentTwice       = "must be sent once only"
	missing         = "must be sent"
)

func compileParameter(d *schema.Definitions, description project.Parameter) (*parameter, error) {
	p := &parameter{Parameter: description, pointer: schema.Pointer(description.Name)}
	if len(description.Schema) == 0 {
		return p, nil
	}
	var err error
	if p.schema, err = d.Compile(description.Schema); err != nil {
		return nil, fmt.Errorf("%s parameter %q: %w", description.In, description.Name, err)
	}
	p.target = newTarget(p.schema.Shape(), targetLevels)
	return p, nil
}

// checkParts checks the possible parts of a parameter: one of them must be valid. detail is the detail of the violation if
// there are no parts, or "".
func (p *parameter) checkParts(r *Report, in string, parts []part, detail string) {
	if detail != "" {
		r.add(in, p.pointer, detail)
		return
	}
	r.validateAny(p.schema, p.target.readings(r.remainingWork(), parts...), in, p.pointer)
}

// checkContent checks a parameter with a media type. text is its decoded text.
func (p *parameter) checkContent(r *Report, in, text string) {
	if !isJSON(p.ContentType) {
		p.checkParts(r, in, []part{textPart(text)}, "")
		return
	}
	value, violation := schema.Decode([]byte(text))
	if violation != nil {
		r.add(in, p.pointer+violation.Pointer, violation.Detail)
		return
	}
	r.validate(p.schema, value, in, p.pointer)
}

// checkPath checks a parameter of the path.
func (p *parameter) checkPath(r *Report, segment string, exists bool) {
	switch {
	case !exists || segment == "":
		r.add(InPath, p.pointer, missing)
	case p.schema == nil:
		if _, ok := decodePath(segment); !ok {
			r.add(InPath, p.pointer, malformedEscape)
		}
	case p.ContentType != "":
		text, ok := decodePath(segment)
		if !ok {
			r.add(InPath, p.pointer, malformedEscape)
			return
		}
		p.checkContent(r, InPath, text)
	default:
		parts, detail := pathParts(p, segment)
		p.checkParts(r, InPath, parts, detail)
	}
}

// checkHeader checks a header field of a request, a response or a part of a form. in is where its violations are.
func (p *parameter) checkHeader(r *Report, header http.Header, in string) {
	fields := header.Values(p.Name)
	text := strings.Join(fields, ",")
	decoded, ok := decodeField(text)
	switch {
	case len(fields) == 0:
		if p.Required {
			r.add(in, p.pointer, missing)
		}
	case !ok:
		r.add(in, p.pointer, "must be UTF-8 text")
	case p.schema == nil:
	case p.ContentType != "":
		p.checkContent(r, in, decoded)
	case len(fields) > 1 && !p.target.allowsList() && !p.target.allowsObject():
		r.add(in, p.pointer, sentTwice)
	default:
		parts, _ := splitter{",", p.Explode, decodeField}.parts(p.target, decoded)
		detail := ""
		if len(parts) == 0 {
			detail = "must have names and values, separated by commas"
		}
		p.checkParts(r, in, parts, detail)
	}
}

// parseCookies returns the values of cookies by their names. It is as lenient as servers: a value can have any
// characters, and quotes around a value and white space around names and values have no meaning.
func parseCookies(header http.Header) map[string][]string {
	cookies := map[string][]string{}
	for _, field := range header["Cookie"] {
		for pair := range strings.SplitSeq(field, ";") {
			name, value, isPair := strings.Cut(pair, "=")
			if name, value = strings.Trim(name, " \t"), strings.Trim(value, " \t"); !isPair || name == "" {
				continue
			}
			if len(value) > 1 && strings.HasPrefix(value, `"`) && strings.HasSuffix(value, `"`) {
				value = value[1 : len(value)-1]
			}
			cookies[name] = append(cookies[name], value)
		}
	}
	return cookies
}

// checkCookie checks a parameter in cookies.
func (p *parameter) checkCookie(r *Report, cookies map[string][]string) {
	decode := decoder(decodeCookie)
	if p.Style == project.StyleCookie {
		decode = decodeNothing
	}
	if p.schema != nil && p.ContentType == "" && p.Explode && p.target.allowsObject() && len(cookies[p.Name]) == 0 {
		p.checkNamed(r, InCookie, cookies, decode, nil)
		return
	}
	p.checkValues(r, InCookie, cookies[p.Name], decode)
}

// checkValues checks the values of a parameter that was sent with its name, any number of times.
func (p *parameter) checkValues(r *Report, in string, values []string, decode decoder) {
	if len(values) == 0 {
		if p.Required {
			r.add(in, p.pointer, missing)
		}
		return
	}
	decoded, ok := decodeAll(values, decode)
	if !ok {
		r.add(in, p.pointer, malformedEscape)
		return
	}
	switch {
	case p.AllowEmpty && len(decoded) == 1 && decoded[0] == "":
	case p.schema == nil:
	case p.ContentType != "" && len(values) > 1:
		r.add(in, p.pointer, sentTwice)
	case p.ContentType != "":
		p.checkContent(r, in, decoded[0])
	default:
		parts, detail := p.valueParts(values, decoded, decode)
		p.checkParts(r, in, parts, detail)
	}
}

// valueParts returns the possible parts of a parameter's values. raw has the values with escapes, and decoded without
// them. detail says what is wrong if there are no parts.
func (p *parameter) valueParts(raw, decoded []string, decode decoder) (parts []part, detail string) {
	if p.Explode || len(raw) > 1 {
		if len(raw) == 1 && p.target.allowsText() {
			parts = append(parts, textPart(decoded[0]))
		}
		if p.Explode && p.target.allowsList() {
			parts = append(parts, listPart(decoded))
		}
		if len(parts) == 0 && len(raw) > 1 {
			return nil, sentTwice
		}
		if len(parts) == 0 {
			return nil, "must have the properties of the object as parameters of their own"
		}
		return parts, ""
	}
	s := splitter{",", false, decode}
	text := raw[0]
	switch p.Style {
	case project.StyleSpace:
		s, text = splitter{" ", false, decodeNothing}, decoded[0]
	case project.StylePipe:
		s, text = splitter{"|", false, decodeNothing}, decoded[0]
	}
	parts, _ = s.parts(p.target, text)
	if s.separator == "," && raw[0] != decoded[0] {
		// Many clients escape the commas between items too.
		more, _ := splitter{",", false, decodeNothing}.parts(p.target, decoded[0])
		parts = append(parts, more...)
	}
	if len(parts) == 0 {
		return nil, "must have names and values in the style " + p.Style
	}
	return parts, ""
}

// checkNamed checks an object whose properties are sent as separate parameters. values has all parameters by their names.
// others returns the names of parameters that can be properties although the schema does not declare them. nil means none.
func (p *parameter) checkNamed(
	r *Report, in string, values map[string][]string, decode decoder, others func() []string,
) {
	members := map[string]part{}
	names := p.target.names
	if others != nil && p.target.shape.IsFreeForm() {
		names = append(others(), names...)
	}
	for _, name := range names {
		texts := values[name]
		if len(texts) == 0 {
			continue
		}
		decoded, ok := decodeAll(texts, decode)
		if !ok {
			r.add(in, p.pointer+schema.Pointer(name), malformedEscape)
			return
		}
		member, ok := repeated(p.target.property(name, r.remainingWork()), decoded)
		if !ok {
			r.add(in, p.pointer+schema.Pointer(name), sentTwice)
			return
		}
		members[name] = member
	}
	if len(members) == 0 {
		if p.Required {
			r.add(in, p.pointer, missing)
		}
		return
	}
	p.checkParts(r, in, []part{{members: members}}, "")
}

// repeated returns the part of a property that was sent once or several times. It returns false for several values if the
// schema allows no list.
func repeated(t *target, texts []string) (part, bool) {
	switch {
	case t.allowsList() && (len(texts) > 1 || !t.allowsText()), len(texts) > 1 && t.shape.IsUnrestricted():
		return listPart(texts), true
	case len(texts) > 1:
		return part{}, false
	}
	return textPart(texts[0]), true
}
