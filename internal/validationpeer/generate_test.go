package validationpeer_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// request is a generated request. Its bytes can be malformed.
type request struct {
	*operation
	segments map[string]string // parameters of the path, with escapes
	query    []string          // pairs, with escapes
	fields   [][2]string
	body     []byte
	// bodyParts are the pairs or parts of a form until the body is written.
	bodyParts []string
	media     *mediaType
	// labels say what was changed in a valid request.
	labels []string
}

// target returns the path and the query.
func (r *request) target() string {
	path := r.template
	for name, segment := range r.segments {
		path = strings.ReplaceAll(path, "{"+name+"}", segment)
	}
	if len(r.query) > 0 {
		path += "?" + strings.Join(r.query, "&")
	}
	return path
}

func (r *request) hasBody() bool { return len(r.bodies) > 0 }

// String returns the operation and the changes.
func (r *request) String() string { return r.id + " " + strings.Join(r.labels, "; ") }

// Kinds of generated requests, in tenths.
const (
	validTenths   = 1 // no changes
	severalTenths = 2 // two to four changes
)

// generate returns a request of an operation: a valid one, one with a change, or one with several changes.
func generate(r *rand.Rand, operations []*operation) *request {
	out := &request{operation: pick(r, operations)}
	changes := 1
	switch kind := r.IntN(10); {
	case kind < validTenths:
		changes = 0
	case kind < validTenths+severalTenths:
		changes = 2 + r.IntN(3)
	}
	values, body := out.choose(r)
	inValues := 0
	for range changes {
		if r.IntN(5) < 3 {
			inValues++
		}
	}
	for range inValues {
		body = out.changeValue(r, values, body)
	}
	out.encode(r, values, body)
	for range changes - inValues {
		out.changeText(r)
	}
	out.finish()
	return out
}

// choose returns valid values for parameters and the body. It leaves out optional parameters at random.
func (r *request) choose(random *rand.Rand) (parameters []any, body any) {
	few := random.IntN(3) > 0
	for _, p := range r.parameters {
		if !p.Required && (few && random.IntN(4) > 0 || !few && random.IntN(4) == 0) {
			parameters = append(parameters, absent{})
			continue
		}
		parameters = append(parameters, pick(random, values(p.Examples)))
	}
	if len(r.bodies) == 0 {
		return parameters, nil
	}
	r.media = &r.bodies[random.IntN(len(r.bodies))]
	return parameters, pick(random, values(r.media.Examples))
}

// absent is the value of a parameter that is not sent.
type absent struct{}

// changeValue changes a parameter or the body. It returns the body.
func (r *request) changeValue(random *rand.Rand, parameters []any, body any) any {
	var sent []int
	for i, value := range parameters {
		if value != (any)(absent{}) {
			sent = append(sent, i)
		}
	}
	if r.media != nil && (len(sent) == 0 || random.IntN(2) == 0) {
		changed, label := r.pool.mutate(random, body, isJSON(r.media.name))
		r.labels = append(r.labels, r.media.name+label)
		return changed
	}
	if len(sent) > 0 {
		i := pick(random, sent)
		p := r.parameters[i]
		changed, label := r.pool.mutate(random, parameters[i], len(p.Content) > 0)
		parameters[i] = changed
		r.labels = append(r.labels, p.In+" "+p.Name+label)
	}
	return body
}

func isJSON(mediaType string) bool {
	return strings.HasSuffix(mediaType, "/json") || strings.HasSuffix(mediaType, "+json")
}

// encode writes the values.
func (r *request) encode(random *rand.Rand, parameters []any, body any) {
	r.segments = map[string]string{}
	var cookies []string
	for i, p := range r.parameters {
		value := parameters[i]
		if value == (any)(absent{}) {
			continue
		}
		isContent := len(p.Content) > 0
		if isContent {
			value = rawText(encodeJSON(value))
		}
		switch p.In {
		case "path":
			r.segments[p.Name] = p.segment(value)
		case "query":
			r.query = append(r.query, pairs(p.Name, p.Style, p.explodes(), value, escapeQuery)...)
		case "header":
			line := sequence(value, ",", p.explodes(), noEscape)
			r.fields = append(r.fields, [2]string{p.Name, withoutControls(line)})
		case "cookie":
			escape := noEscape
			if isContent || random.IntN(2) == 0 {
				escape = escapePath
			}
			for _, pair := range pairs(p.Name, p.Style, p.explodes(), value, escape) {
				cookies = append(cookies, withoutControls(pair))
			}
		}
	}
	if len(cookies) > 0 {
		r.fields = append(r.fields, [2]string{"Cookie", strings.Join(cookies, "; ")})
	}
	if r.media != nil {
		r.encodeBody(body)
	}
}

// withoutControls removes the characters that no header field can have: the gateway refuses the message then, before
// its policies.
func withoutControls(text string) string {
	return strings.Map(func(c rune) rune {
		if c < ' ' || c == 0x7f {
			return -1
		}
		return c
	}, text)
}

func (r *request) encodeBody(value any) {
	contentType := r.media.name
	switch {
	case isJSON(contentType):
		r.body = []byte(encodeJSON(value))
	case contentType == "application/x-www-form-urlencoded":
		r.bodyParts = r.media.form(value)
	case contentType == "multipart/form-data":
		r.bodyParts = multipart(value)
		contentType += "; boundary=" + boundary
	default:
		r.body = []byte(text(value))
	}
	contentType = strings.Replace(contentType, "*", "png", 1)
	r.fields = append(r.fields, [2]string{"Content-Type", contentType})
}

// finish writes the form.
func (r *request) finish() {
	if r.bodyParts == nil {
		return
	}
	if r.media.name == "multipart/form-data" {
		r.body = []byte(strings.Join(r.bodyParts, "") + "--" + boundary + "--\r\n")
	} else {
		r.body = []byte(strings.Join(r.bodyParts, "&"))
	}
	r.bodyParts = nil
}

// changeText changes the text of a written request at one place.
func (r *request) changeText(random *rand.Rand) {
	type change func(*rand.Rand)
	var all []change
	if len(r.segments) > 0 {
		all = append(all, r.changeSegment)
	}
	if len(r.query) > 0 {
		all = append(all, r.changeQuery)
	}
	if len(r.fields) > 0 {
		all = append(all, r.changeField)
	}
	if r.media != nil {
		all = append(all, r.changeMediaType, r.changeBody, r.changeBody)
	}
	if len(all) > 0 {
		pick(random, all)(random)
	}
}

// label adds a label.
func (r *request) label(format string, args ...any) {
	r.labels = append(r.labels, fmt.Sprintf(format, args...))
}

// damages change a text with escapes. %s is the text.
var damages = []string{
	"", "%s%%", "%s%%zz", "%%ff%s", "%s%%C3%%A9", "%%20%s", "%s%%20", "+%s", "%s,", ",%s", "%s,%s", "%s=", "=%s", "%s;",
	".%s", ";%s", "%s.", "%s%%2C1", "%s%%00", "%s|", "[%s]", "%s%%2F", "%s%%EF%%BB%%BF",
	"%s1", "%s=1", "%s%%E0%%A0", "\"%s\"", "%s%%26",
}

// damage changes a text.
func damage(random *rand.Rand, text string) (changed, pattern string) {
	pattern = pick(random, damages)
	args := []any{text, text}
	changed = fmt.Sprintf(pattern, args[:strings.Count(pattern, "%s")]...)
	return changed, pattern
}

func (r *request) changeSegment(random *rand.Rand) {
	var names []string
	for _, p := range r.parameters {
		if p.In == "path" {
			names = append(names, p.Name)
		}
	}
	name := pick(random, names)
	changed, pattern := damage(random, r.segments[name])
	if changed == "" || strings.Contains(changed, "?") {
		return
	}
	r.segments[name] = changed
	r.label("segment %s: %s", name, pattern)
}

func (r *request) changeQuery(random *rand.Rand) { r.query = r.changePairs(random, "query", r.query) }

// changePairs changes pairs of a query or of a form.
func (r *request) changePairs(random *rand.Rand, place string, all []string) []string {
	if len(all) == 0 {
		return all
	}
	all = slices.Clone(all)
	i := random.IntN(len(all))
	name, value, _ := strings.Cut(all[i], "=")
	switch random.IntN(9) {
	case 0:
		r.label("%s %s: missing", place, name)
		return slices.Delete(all, i, i+1)
	case 1:
		r.label("%s %s: twice", place, name)
		return append(all, all[i])
	case 2:
		other := pick(random, []string{"1", "a", "", "2,3"})
		r.label("%s %s: again with %q", place, name, other)
		return append(all, name+"="+other)
	case 3:
		other := pick(random, []string{strings.ToUpper(name), name + "%5B%5D", name + "[x]", name + "%", "%ff", name + "%20"})
		r.label("%s %s: renamed %s", place, name, other)
		all[i] = other + "=" + value
	case 4:
		r.label("%s %s: without =", place, name)
		all[i] = name
	case 5:
		other := pick(random, []string{"", "unknown=1", "=", "a%zz=1", "a=%zz", "b=%ff", "name=1", "&"})
		r.label("%s: with %q", place, other)
		return append(all, other)
	default:
		changed, pattern := damage(random, value)
		r.label("%s %s: %s", place, name, pattern)
		all[i] = name + "=" + strings.ReplaceAll(changed, "\"", "%22")
	}
	return all
}

func (r *request) changeField(random *rand.Rand) {
	i := random.IntN(len(r.fields))
	name, value := r.fields[i][0], r.fields[i][1]
	if name == "Content-Type" {
		r.changeMediaType(random)
		return
	}
	if name == "Cookie" {
		list := strings.Split(value, "; ")
		if list = r.changePairs(random, "cookie", list); len(list) == 0 {
			r.fields = slices.Delete(r.fields, i, i+1)
			return
		}
		r.fields[i][1] = strings.Join(list, "; ")
		return
	}
	switch random.IntN(6) {
	case 0:
		r.label("field %s: missing", name)
		r.fields = slices.Delete(r.fields, i, i+1)
	case 1:
		r.label("field %s: twice", name)
		r.fields = append(r.fields, r.fields[i])
	case 2:
		other := pick(random, []string{" " + value + "\t", value + ", ", value + " , 1", "\xff" + value, ""})
		r.label("field %s: %q", name, other)
		r.fields[i][1] = other
	default:
		changed, pattern := damage(random, value)
		r.label("field %s: %s", name, pattern)
		r.fields[i][1] = changed
	}
}

// contentTypes replace the media type of a body.
var contentTypes = []string{
	"", "application/json", "APPLICATION/JSON", "application/json; charset=utf-8", "application/json;charset=UTF-16",
	"application/json; charset=\"utf-8\"", "application/problem+json", "application/vnd.api+json", "text/plain",
	"text/plain; charset=utf-8", "text/plain; charset=iso-8859-1", "text/html", "image/png", "image/svg+xml", "image",
	"application/octet-stream", "application/x-www-form-urlencoded", "application/x-www-form-urlencoded; charset=utf-8",
	"multipart/form-data; boundary=other", "multipart/form-data", "multipart/form-data; boundary=\"" + boundary + "\"",
	"multipart/mixed; boundary=" + boundary, "application/json,text/plain", "application/json;", "*/*", "application/xml",
}

func (r *request) changeMediaType(random *rand.Rand) {
	i := slices.IndexFunc(r.fields, func(field [2]string) bool { return field[0] == "Content-Type" })
	if i < 0 {
		return
	}
	other := pick(random, contentTypes)
	r.label("media type %s: %q", r.fields[i][1], other)
	if other == "" {
		r.fields = slices.Delete(r.fields, i, i+1)
		return
	}
	r.fields[i][1] = other
}

// changeBody changes the bytes of a body.
func (r *request) changeBody(random *rand.Rand) {
	if r.bodyParts != nil && r.media.name != "multipart/form-data" {
		r.bodyParts = r.changePairs(random, "form", r.bodyParts)
		return
	}
	if r.bodyParts != nil {
		r.changeParts(random)
		return
	}
	kind := random.IntN(10)
	text := string(r.body)
	switch kind {
	case 0:
		text = ""
	case 1:
		text = text[:random.IntN(len(text)+1)]
	case 2:
		text += pick(random, []string{"x", "{}", "\n", " ", ",", "\x00", "]", "//"})
	case 3:
		text = "\ufeff" + text
	case 4:
		text = " \t\r\n" + text + "\n"
	case 5:
		text = strings.Replace(text, `"`, "\"\xff", 1)
	case 6:
		at := random.IntN(len(text) + 1)
		other := pick(random, []string{`\ud800`, `\ud83d\ude00`, `\u0000`, `\x`, "\xe9", "'", "/**/", "\x01"})
		text = text[:at] + other + text[at:]
	case 7:
		text = strings.Repeat("[", 200) + text + strings.Repeat("]", 200)
	case 8:
		text = strings.Replace(text, ":", ":\n", 1)
	case 9:
		text = strings.Replace(text, "}", ",}", 1)
	}
	r.label("body: %d", kind)
	r.body = []byte(text)
}

// changeParts changes the parts of a multipart form.
func (r *request) changeParts(random *rand.Rand) {
	all := slices.Clone(r.bodyParts)
	if len(all) == 0 {
		return
	}
	i, kind := random.IntN(len(all)), random.IntN(7)
	switch kind {
	case 0:
		all = slices.Delete(all, i, i+1)
	case 1:
		all = append(all, all[i])
	case 2:
		all[i] = strings.Replace(all[i], "name=", "title=", 1)
	case 3:
		all[i] = strings.Replace(all[i], "\r\n\r\n", "\r\nContent-Type: "+pick(random, []string{
			"text/plain", "application/json", "image/png",
		})+"\r\n\r\n", 1)
	case 4:
		all[i] = strings.ReplaceAll(all[i], "\r\n", "\n")
	case 5:
		all = append(all, part("unknown", "x"))
	case 6:
		all[i] = strings.Replace(all[i], "; name=", "; filename=\"a.bin\"; name=", 1)
	}
	_, name, _ := strings.Cut(r.bodyParts[i], "name=")
	name, _, _ = strings.Cut(name, "\r\n")
	r.label("part %s: %d", name, kind)
	r.bodyParts = all
}
