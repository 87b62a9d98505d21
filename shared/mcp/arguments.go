package mcp

import (
	"bytes"
	"encoding/json"
	"maps"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/gatewright/gatewright/shared/project"
)

// maxFieldBytes bounds a header field that an argument makes: as much as the gateway takes of a client's own.
const maxFieldBytes = 8 << 10

// Written is what arguments make of a request. Path is percent-encoded, Query too and without "?".
type Written struct {
	Path, Query string
	// Fields are the header fields, by the names that the operation has for them.
	Fields [][2]string
	// Body is nil for none; ContentType is its type.
	Body        []byte
	ContentType string
}

// writer puts arguments into a request.
type writer struct {
	Written
	operation *project.MCPOperation
	query     []string
	body      map[string]json.RawMessage
}

// Write puts arguments, which fit the operation's schema, where they go, and path is where the operation is, with its
// parameters in braces. Those without a place of their own are properties of the body. The error is about the arguments
// (Invalid).
func Write(o *project.MCPOperation, path string, arguments map[string]json.RawMessage) (Written, error) {
	w := &writer{operation: o, body: map[string]json.RawMessage{}}
	w.Path, w.ContentType = path, o.ContentType
	for _, a := range o.Arguments {
		raw, sent := arguments[a.Name]
		if !sent {
			continue
		}
		if err := w.put(a, raw); err != nil {
			return Written{}, err
		}
	}
	for name, raw := range arguments {
		if !slices.ContainsFunc(o.Arguments, func(a project.Argument) bool { return a.Name == name }) {
			w.body[name] = raw
		}
	}
	// No escape hides a dot: a client or a proxy on the way takes %2e for one, and the request would be about what the path above names.
	for segment := range strings.SplitSeq(w.Path, "/") {
		if segment == "." || segment == ".." {
			return Written{}, Invalid("A segment of the path would be %q, which is that of another path: name what is meant by its own name.", segment)
		}
	}
	if err := w.writeBody(); err != nil {
		return Written{}, err
	}
	w.Query = strings.Join(w.query, "&")
	return w.Written, nil
}

func (w *writer) put(a project.Argument, raw json.RawMessage) error {
	switch a.Place {
	case project.InPath:
		text := joined(valueOf(raw), a.Explode, ",", escape)
		if text == "" {
			return Invalid("Send a value for %q: it is a segment of the path.", a.Name)
		}
		w.Path = strings.ReplaceAll(w.Path, "{"+a.Aim()+"}", text)
	case project.InQuery:
		w.addQuery(a, raw)
	case project.InHeader:
		return w.addField(a, raw)
	case project.InProperty:
		w.body[a.Aim()] = raw
	case project.InBody:
		w.Body = bytes.TrimSpace(raw)
		if w.operation.Body == project.BodyText {
			w.Body = []byte(scalar(raw))
		}
	}
	return nil
}

// value is an argument in the form in which it is written: one text, a list or pairs.
type value struct {
	text  string
	list  []string
	pairs [][2]string
	kind  byte // 't', 'l', 'p'
}

// valueOf reads an argument. Objects keep the order in which they are sent; what is within their values and
// those of lists is written as JSON.
func valueOf(raw json.RawMessage) value {
	raw = bytes.TrimSpace(raw)
	switch raw[0] {
	case '[':
		v := value{kind: 'l'}
		var list []json.RawMessage
		if json.Unmarshal(raw, &list) == nil {
			for _, element := range list {
				v.list = append(v.list, scalar(element))
			}
		}
		return v
	case '{':
		v := value{kind: 'p'}
		members := map[string]json.RawMessage{}
		if json.Unmarshal(raw, &members) == nil {
			for _, name := range sortedKeys(members) {
				v.pairs = append(v.pairs, [2]string{name, scalar(members[name])})
			}
		}
		return v
	default:
		return value{kind: 't', text: scalar(raw)}
	}
}

// scalar is a value as text: a string's own, "" for null, JSON for all else.
func scalar(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil { // null too
		return text
	}
	return string(bytes.TrimSpace(raw))
}

// joined writes a value as one text (OpenAPI's style simple).
func joined(v value, explode bool, separator string, escape func(string) string) string {
	var parts []string
	switch v.kind {
	case 'l':
		for _, element := range v.list {
			parts = append(parts, escape(element))
		}
	case 'p':
		for _, pair := range v.pairs {
			if explode {
				parts = append(parts, escape(pair[0])+"="+escape(pair[1]))
				continue
			}
			parts = append(parts, escape(pair[0]), escape(pair[1]))
		}
	default:
		return escape(v.text)
	}
	return strings.Join(parts, separator)
}

// escape leaves no character that means anything in a path or a query.
func escape(text string) string { return strings.ReplaceAll(url.QueryEscape(text), "+", "%20") }

func (w *writer) addQuery(a project.Argument, raw json.RawMessage) {
	name := escape(a.Aim())
	add := func(name, text string) { w.query = append(w.query, name+"="+text) }
	if a.Style == project.StyleJSON {
		add(name, escape(string(bytes.TrimSpace(raw))))
		return
	}
	v := valueOf(raw)
	separator := map[string]string{project.StyleSpace: "%20", project.StylePipe: "%7C"}[a.Style]
	if separator == "" {
		separator = ","
	}
	switch {
	case v.kind == 't':
		add(name, escape(v.text))
	case v.kind == 'l' && a.Explode:
		for _, element := range v.list {
			add(name, escape(element))
		}
	case v.kind == 'p' && a.Style == project.StyleDeep:
		for _, pair := range v.pairs {
			add(escape(a.Aim()+"["+pair[0]+"]"), escape(pair[1]))
		}
	case v.kind == 'p' && a.Explode:
		for _, pair := range v.pairs {
			add(escape(pair[0]), escape(pair[1]))
		}
	default:
		add(name, joined(v, false, separator, escape))
	}
}

func (w *writer) addField(a project.Argument, raw json.RawMessage) error {
	text := string(bytes.TrimSpace(raw))
	if a.Style != project.StyleJSON {
		text = joined(valueOf(raw), a.Explode, ",", func(s string) string { return s })
	}
	if len(text) > maxFieldBytes || !httpguts.ValidHeaderFieldValue(text) {
		return Invalid("Send a value for %q that a header can have: at most %d bytes on one line.", a.Name, maxFieldBytes)
	}
	w.Fields = append(w.Fields, [2]string{a.Aim(), text})
	return nil
}

// writeBody writes the properties of the body.
func (w *writer) writeBody() error {
	if len(w.body) == 0 && !w.operation.BodyNeeded {
		return nil
	}
	if w.operation.Body == project.BodyForm {
		var form []string
		for _, name := range sortedKeys(w.body) {
			v := valueOf(w.body[name])
			if v.kind == 'l' {
				for _, element := range v.list {
					form = append(form, escape(name)+"="+escape(element))
				}
				continue
			}
			form = append(form, escape(name)+"="+escape(scalar(w.body[name])))
		}
		w.Body = []byte(strings.Join(form, "&"))
		return nil
	}
	encoded, err := json.Marshal(w.body)
	if err != nil {
		return err
	}
	w.Body = encoded
	return nil
}

func sortedKeys(m map[string]json.RawMessage) []string { return slices.Sorted(maps.Keys(m)) }
