package mcp

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"maps"
	"mime"
	"mime/multipart"
	"net/textproto"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/http/httpguts"

	"github.com/gatewright/gatewright/shared/format/project"
)

// maxFormBytes is the maximum size of a form. A form repeats the name of a field for each value, so it can be much larger
// than the arguments that it is made from.
const maxFormBytes = 8 << 20

// errFormTooLarge is the error for arguments whose form is larger than maxFormBytes.
func errFormTooLarge() error {
	return Invalid("Send fewer or shorter values: the form is over %d bytes.", maxFormBytes)
}

// formField is a field of a form or of a query. separator is the text between several texts.
type formField struct {
	name      string
	texts     []string
	separator string
}

// fieldList collects fields. remaining is the number of bytes that further fields may have: a style can repeat names.
type fieldList struct {
	fields    []formField
	remaining int
}

// add adds a field. It returns errFormTooLarge if the fields become too large.
func (l *fieldList) add(name, separator string, texts ...string) error {
	l.remaining -= len(name) + len("=&")
	for _, text := range texts {
		l.remaining -= len(text) + 1
	}
	if l.remaining < 0 {
		return errFormTooLarge()
	}
	l.fields = append(l.fields, formField{name, texts, separator})
	return nil
}

// separatorOf returns the separator between the texts of a field in a style.
func separatorOf(style string) string {
	switch style {
	case project.StyleSpace:
		return " "
	case project.StylePipe:
		return "|"
	default:
		return ","
	}
}

// addStyled adds the fields of a value in one of OpenAPI's styles for query parameters. Empty lists and objects have no
// fields. In styles other than deepObject, lists and objects within a list or an object become JSON texts.
func (l *fieldList) addStyled(name, style string, explode bool, raw json.RawMessage) error {
	if style == project.StyleDeep {
		var decoded any
		d := json.NewDecoder(bytes.NewReader(raw))
		d.UseNumber()
		if d.Decode(&decoded) != nil {
			return Invalid("Send arguments as JSON.")
		}
		return l.addDeep(name, decoded)
	}
	v := parseValue(raw)
	var texts []string
	switch v.kind {
	case 't':
		return l.add(name, "", v.text)
	case 'l':
		texts = v.list
	default:
		for _, pair := range v.pairs {
			texts = append(texts, pair[0], pair[1])
		}
	}
	switch {
	case len(texts) == 0:
		return nil
	case !explode:
		return l.add(name, separatorOf(style), texts...)
	case v.kind == 'l':
		for _, text := range texts {
			if err := l.add(name, "", text); err != nil {
				return err
			}
		}
	default:
		for _, pair := range v.pairs {
			if err := l.add(pair[0], "", pair[1]); err != nil {
				return err
			}
		}
	}
	return nil
}

// addDeep adds the fields of a value in the style deepObject: NAME[member] for the members of an object. OpenAPI does not
// define the names of nested values. addDeep uses the names that most servers with this style expect, such as Rails, PHP
// and Express: NAME[member][member] for objects, and NAME[0] for lists.
func (l *fieldList) addDeep(name string, value any) error {
	switch v := value.(type) {
	case map[string]any:
		for _, member := range slices.Sorted(maps.Keys(v)) {
			if strings.ContainsAny(member, "[]") {
				return Invalid("Send names without brackets in objects: a form uses brackets for nested names.")
			}
			if err := l.addDeep(name+"["+member+"]", v[member]); err != nil {
				return err
			}
		}
		return nil
	case []any:
		for i, element := range v {
			if err := l.addDeep(name+"["+strconv.Itoa(i)+"]", element); err != nil {
				return err
			}
		}
		return nil
	case nil:
		return l.add(name, "", "")
	case string:
		return l.add(name, "", v)
	case json.Number:
		return l.add(name, "", v.String())
	default:
		return l.add(name, "", strconv.FormatBool(v == any(true)))
	}
}

// reserved restores escaped reserved characters that have no meaning in a URL-encoded form. It leaves the comma escaped,
// because commas separate values.
var reserved = strings.NewReplacer("%3A", ":", "%2F", "/", "%3F", "?", "%40", "@", "%21", "!", "%24", "$", "%27", "'",
	"%28", "(", "%29", ")", "%2A", "*")

// urlEncode returns a field in the URL-encoded form. allowReserved is as in project.FormField.
func (f formField) urlEncode(allowReserved bool) string {
	separator := f.separator
	if separator != "," {
		separator = escape(separator)
	}
	encoded := make([]string, len(f.texts))
	for i, text := range f.texts {
		if encoded[i] = escape(text); allowReserved {
			encoded[i] = reserved.Replace(encoded[i])
		}
	}
	return escape(f.name) + "=" + strings.Join(encoded, separator)
}

// declaredProperty returns the argument for a property of the body. For a property that is not declared, it returns an
// argument without a style. It returns an error for a name such as metadata[order] if metadata is declared in the style
// deepObject: the server would read a value that was not checked with the schema of metadata.
func (e *argumentEncoder) declaredProperty(name string) (project.Argument, error) {
	var err error
	for _, a := range e.operation.Arguments {
		switch {
		case a.Location != project.InProperty:
		case a.TargetName() == name:
			return a, nil
		case a.Style == project.StyleDeep && strings.HasPrefix(name, a.TargetName()+"["):
			err = Invalid("Send the members of %q within this argument.", a.Name)
		}
	}
	return project.Argument{Name: name}, err
}

// formOf returns the FormField of an argument, or the defaults.
func formOf(a project.Argument) project.FormField {
	if a.Form == nil {
		return project.FormField{}
	}
	return *a.Form
}

// elements returns the elements of a list. For any other value, it returns the value alone.
func elements(raw json.RawMessage) []json.RawMessage {
	var list []json.RawMessage
	if raw = bytes.TrimSpace(raw); raw[0] == '[' && json.Unmarshal(raw, &list) == nil {
		return list
	}
	return []json.RawMessage{raw}
}

// elementText returns the text of a value in a media type. A mediaType of "" is the default: JSON for objects and lists,
// and text for other values.
func elementText(a project.Argument, raw json.RawMessage, mediaType string) (string, error) {
	raw = bytes.TrimSpace(raw)
	base, _, _ := strings.Cut(strings.ToLower(mediaType), ";")
	switch base = strings.TrimSpace(base); {
	case base == "application/json", strings.HasSuffix(base, "+json"):
		return string(raw), nil
	case base == "", raw[0] == '"', raw[0] != '{' && raw[0] != '[' && strings.HasPrefix(base, "text/"):
		return scalar(raw), nil
	}
	return "", Invalid("Send a string for %q: its content has the media type %s.", a.Name, base)
}

// writeURLEncoded writes a URL-encoded form from the properties of the body.
func (e *argumentEncoder) writeURLEncoded() error {
	var form bytes.Buffer
	for _, name := range sortedKeys(e.body) {
		a, err := e.declaredProperty(name)
		if err != nil {
			return err
		}
		list, how := fieldList{remaining: maxFormBytes - form.Len()}, formOf(a)
		if a.Style != "" {
			err = list.addStyled(name, a.Style, a.Explode, e.body[name])
		} else {
			for _, element := range elements(e.body[name]) {
				text, elementErr := elementText(a, element, how.ContentType)
				if err = elementErr; err == nil {
					err = list.add(name, "", text)
				}
				if err != nil {
					break
				}
			}
		}
		if err != nil {
			return err
		}
		for _, field := range list.fields {
			if form.Len() > 0 {
				form.WriteByte('&')
			}
			form.WriteString(field.urlEncode(how.AllowReserved))
			if form.Len() > maxFormBytes {
				return errFormTooLarge()
			}
		}
	}
	e.Body = form.Bytes()
	if e.Body == nil {
		e.Body = []byte{}
	}
	return nil
}

// part is a part of a multipart form.
type part struct {
	header  textproto.MIMEHeader
	content []byte
}

// partOverhead bounds the size of a part's boundary, of the names of its own header fields, and of its line breaks.
const partOverhead = 100

// multipartForm collects the parts of a form. remaining is the number of bytes that further parts may have.
type multipartForm struct {
	parts     []part
	remaining int
}

// add adds a part. fileName is "" for a part that is not a file. mediaType is "" for a part without a Content-Type. add
// refuses names with control characters, which the header of a part cannot have.
func (m *multipartForm) add(name, fileName, mediaType string, headers map[string]string, content []byte) error {
	if strings.ContainsFunc(name, unicode.IsControl) {
		return Invalid("Send names without control characters in a form.")
	}
	disposition := multipart.FileContentDisposition(name, fileName)
	if fileName == "" {
		disposition = strings.TrimSuffix(disposition, `; filename=""`)
	}
	m.remaining -= partOverhead + len(disposition) + len(mediaType) + len(content)
	header := textproto.MIMEHeader{}
	for name, value := range headers {
		header[name] = []string{value}
		m.remaining -= len(name) + len(value) + len(": \r\n")
	}
	if m.remaining < 0 {
		return errFormTooLarge()
	}
	header["Content-Disposition"] = []string{disposition}
	if mediaType != "" {
		header["Content-Type"] = []string{mediaType}
	}
	m.parts = append(m.parts, part{header, content})
	return nil
}

// encode returns the form and its media type. The same parts have the same encoding.
func (m *multipartForm) encode() (body []byte, contentType string, err error) {
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	if err := w.SetBoundary(m.boundary()); err != nil {
		return nil, "", err
	}
	for _, p := range m.parts {
		to, err := w.CreatePart(p.header)
		if err == nil {
			_, err = to.Write(p.content)
		}
		if err != nil {
			return nil, "", err
		}
	}
	if err := w.Close(); err != nil {
		return nil, "", err
	}
	return b.Bytes(), w.FormDataContentType(), nil
}

// boundary returns a boundary that no part contains. It is a digest of all parts, so that no caller can choose content
// with the boundary.
func (m *multipartForm) boundary() string {
	for attempt := 0; ; attempt++ {
		digest := sha256.New()
		_, _ = digest.Write([]byte(strconv.Itoa(attempt)))
		for _, p := range m.parts {
			for _, text := range [][]byte{[]byte(p.header.Get("Content-Disposition")), p.content} {
				_, _ = digest.Write([]byte(strconv.Itoa(len(text)) + ":"))
				_, _ = digest.Write(text)
			}
		}
		boundary := hex.EncodeToString(digest.Sum(nil)[:20])
		if !slices.ContainsFunc(m.parts, func(p part) bool { return bytes.Contains(p.content, []byte(boundary)) }) {
			return boundary
		}
	}
}

// writeMultipart writes a multipart form from the properties of the body.
func (e *argumentEncoder) writeMultipart() error {
	form := multipartForm{remaining: maxFormBytes}
	for name := range e.fileOptions {
		if _, sent := e.body[name]; !sent {
			return Invalid("Send the file %q too, or leave out its name and its media type.", name)
		}
	}
	for _, name := range sortedKeys(e.body) {
		a, err := e.declaredProperty(name)
		if err != nil {
			return err
		}
		how := formOf(a)
		switch {
		case how.File:
			err = e.addFiles(&form, a)
		case a.Style != "":
			err = addStyledParts(&form, a, e.body[name])
		default:
			for _, element := range elements(e.body[name]) {
				if err = addElement(&form, a, name, element); err != nil {
					break
				}
			}
		}
		if err != nil {
			return err
		}
	}
	body, contentType, err := form.encode()
	e.Body, e.ContentType = body, contentType
	return err
}

// addElement adds a part for a value, or for an element of a list.
func addElement(form *multipartForm, a project.Argument, name string, raw json.RawMessage) error {
	how := formOf(a)
	raw = bytes.TrimSpace(raw)
	mediaType := how.ContentType
	if mediaType == "" && (raw[0] == '{' || raw[0] == '[') {
		mediaType = "application/json"
	}
	text, err := elementText(a, raw, mediaType)
	if err != nil {
		return err
	}
	return form.add(name, "", mediaType, how.Headers, []byte(text))
}

// addStyledParts adds the parts for a property with a style. Parts are not percent-encoded, so addStyledParts refuses
// values that contain the separator of the style.
func addStyledParts(form *multipartForm, a project.Argument, raw json.RawMessage) error {
	list := fieldList{remaining: form.remaining}
	if err := list.addStyled(a.TargetName(), a.Style, a.Explode, raw); err != nil {
		return err
	}
	for _, field := range list.fields {
		if len(field.texts) > 1 && slices.ContainsFunc(field.texts, func(text string) bool {
			return strings.Contains(text, field.separator)
		}) {
			return Invalid("Send values without %q in %q: it separates them.", field.separator, a.Name)
		}
		text := strings.Join(field.texts, field.separator)
		if err := form.add(field.name, "", "", formOf(a).Headers, []byte(text)); err != nil {
			return err
		}
	}
	return nil
}

// fileOptions are the names and media types of the files of a property, in the order of the files.
type fileOptions struct{ names, mediaTypes []string }

// putFileOption reads the argument for the name or the media type of files.
func (e *argumentEncoder) putFileOption(a project.Argument, raw json.RawMessage) {
	var values []string
	for _, element := range elements(raw) {
		values = append(values, scalar(element))
	}
	options := e.fileOptions[a.TargetName()]
	if a.Location == project.InFileName {
		options.names = values
	} else {
		options.mediaTypes = values
	}
	if e.fileOptions == nil {
		e.fileOptions = map[string]fileOptions{}
	}
	e.fileOptions[a.TargetName()] = options
}

// addFiles adds the parts for a property with a file or a list of files. It adds no part for null.
func (e *argumentEncoder) addFiles(form *multipartForm, a project.Argument) error {
	target, how := a.TargetName(), formOf(a)
	options := e.fileOptions[target]
	files := elements(e.body[target])
	if len(options.names) > len(files) || len(options.mediaTypes) > len(files) {
		return Invalid("Send at most as many names and media types as files for %q.", a.Name)
	}
	for i, raw := range files {
		var text *string
		if json.Unmarshal(raw, &text) != nil {
			return Invalid("Send the content of the file %q in Base64.", a.Name)
		}
		if text == nil {
			continue
		}
		content, err := base64.StdEncoding.DecodeString(*text)
		if err != nil {
			return Invalid("Send the content of the file %q in Base64, with its padding.", a.Name)
		}
		name, mediaType := "file", how.ContentType
		if isFileName(target) {
			name = target
		}
		if i < len(options.names) {
			name = options.names[i]
		}
		if i < len(options.mediaTypes) {
			mediaType = options.mediaTypes[i]
		}
		switch _, _, err := mime.ParseMediaType(mediaType); {
		case mediaType == "":
			return Invalid("Send the media type of the file %q.", a.Name)
		case err != nil || !httpguts.ValidHeaderFieldValue(mediaType):
			return Invalid("Send a media type for the file %q, such as image/png.", a.Name)
		case i < len(options.names) && !isFileName(name):
			return Invalid("Send a name for the file %q of at most %d characters, without slashes and control characters.",
				a.Name, project.MaxFileName)
		}
		if err := form.add(target, name, mediaType, how.Headers, content); err != nil {
			return err
		}
	}
	return nil
}

// isFileName reports whether a text is the name of a file without a folder.
func isFileName(name string) bool {
	return name != "" && utf8.RuneCountInString(name) <= project.MaxFileName && !strings.ContainsAny(name, `/\`) &&
		!strings.ContainsFunc(name, unicode.IsControl)
}
