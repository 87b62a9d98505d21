package mcp

import (
	"bytes"
	"encoding/json"
	"maps"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/gatewright/gatewright/shared/format/project"
)

// maxFieldBytes is the maximum size of a header field with an argument: the same as for a client's own fields.
const maxFieldBytes = 8 << 10

// RequestParts has the parts of a request that EncodeArguments creates
// from arguments. Path and Query are percent-encoded. Query has no "?".
type RequestParts struct {
	Path, Query string
	// Fields are the header fields, with the names that the operation uses.
	Fields [][2]string
	// Body is nil if the request has none. ContentType is the media type that the operation's bodies have, with the
	// boundary of a multipart body. It is also set if Body is nil.
	Body        []byte
	ContentType string
}

// argumentEncoder writes arguments into a request.
type argumentEncoder struct {
	RequestParts
	operation *project.MCPOperation
	query     fieldList
	body      map[string]json.RawMessage // the properties of the body
	// fileOptions are the names and media types of files, by the properties that have the files.
	fileOptions map[string]fileOptions
}

// EncodeArguments writes arguments into the parts of a request that they belong to. Callers have checked that the
// arguments match the operation's schema. path is the operation's path, with its parameters in braces. Arguments
// that the operation does not declare become properties of the body. Errors are about the arguments (Invalid).
func EncodeArguments(o *project.MCPOperation, path string, arguments map[string]json.RawMessage) (RequestParts, error) {
	e := &argumentEncoder{operation: o, body: map[string]json.RawMessage{}, query: fieldList{remaining: maxFormBytes}}
	e.Path, e.ContentType = path, o.ContentType
	for _, a := range o.Arguments {
		raw, present := arguments[a.Name]
		if !present {
			continue
		}
		if err := e.put(a, raw); err != nil {
			return RequestParts{}, err
		}
	}
	for name, raw := range arguments {
		if !slices.ContainsFunc(o.Arguments, func(a project.Argument) bool { return a.Name == name }) {
			e.body[name] = raw
		}
	}
	// Refuse dot segments, since escaping cannot hide them: proxies
	// decode %2e, so the request would reach a different path.
	for segment := range strings.SplitSeq(e.Path, "/") {
		if segment == "." || segment == ".." {
			return RequestParts{}, Invalid("A segment of the path would be %q, which is that of another path: name what is "+
				"meant by its own name.", segment)
		}
	}
	if err := e.writeBody(); err != nil {
		return RequestParts{}, err
	}
	var query []string
	for _, field := range e.query.fields {
		query = append(query, field.urlEncode(false))
	}
	e.Query = strings.Join(query, "&")
	return e.RequestParts, nil
}

// put writes an argument into the part of the request that it belongs to.
func (e *argumentEncoder) put(a project.Argument, raw json.RawMessage) error {
	switch a.Location {
	case project.InPath:
		text := join(parseValue(raw), a.Explode, ",", escape)
		if a.Style == project.StyleJSON {
			text = escape(string(bytes.TrimSpace(raw)))
		}
		if text == "" {
			return Invalid("Send a value for %q: it is a segment of the path.", a.Name)
		}
		e.Path = strings.ReplaceAll(e.Path, "{"+a.TargetName()+"}", text)
	case project.InQuery:
		return e.addQuery(a, raw)
	case project.InHeader:
		return e.addField(a, raw)
	case project.InProperty:
		e.body[a.TargetName()] = raw
	case project.InFileName, project.InMediaType:
		e.putFileOption(a, raw)
	case project.InBody:
		e.Body = bytes.TrimSpace(raw)
		if e.operation.Body == project.BodyText {
			e.Body = []byte(scalar(raw))
		}
	}
	return nil
}

// value is an argument as one text, a list of texts, or pairs of names and texts.
type value struct {
	text  string
	list  []string
	pairs [][2]string
	kind  byte // 't' for text, 'l' for list, 'p' for pairs
}

// parseValue reads an argument. Members of objects are sorted by
// name. Values nested deeper in objects and lists become JSON texts.
func parseValue(raw json.RawMessage) value {
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

// scalar returns a value as text: the content of a string, "" for null, JSON for all other values.
func scalar(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil { // null leaves the text empty
		return text
	}
	return string(bytes.TrimSpace(raw))
}

// join returns a value as one text, like the style simple of OpenAPI but with any separator. explode is OpenAPI's
// property of a parameter.
func join(v value, explode bool, separator string, escape func(string) string) string {
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

// escape escapes all characters that have a meaning in a path or a query.
func escape(text string) string { return strings.ReplaceAll(url.QueryEscape(text), "+", "%20") }

func (e *argumentEncoder) addQuery(a project.Argument, raw json.RawMessage) error {
	if a.Style == project.StyleJSON {
		return e.query.add(a.TargetName(), "", string(bytes.TrimSpace(raw)))
	}
	return e.query.addStyled(a.TargetName(), a.Style, a.Explode, raw)
}

func (e *argumentEncoder) addField(a project.Argument, raw json.RawMessage) error {
	text := string(bytes.TrimSpace(raw))
	if a.Style != project.StyleJSON {
		text = join(parseValue(raw), a.Explode, ",", func(s string) string { return s })
	}
	if len(text) > maxFieldBytes || !httpguts.ValidHeaderFieldValue(text) {
		return Invalid("Send a value for %q that a header can have: at most %d bytes on one line.", a.Name, maxFieldBytes)
	}
	e.Fields = append(e.Fields, [2]string{a.TargetName(), text})
	return nil
}

// writeBody writes the body from its properties.
func (e *argumentEncoder) writeBody() error {
	if len(e.body) == 0 && len(e.fileOptions) == 0 && !e.operation.BodyRequired {
		return nil
	}
	switch e.operation.Body {
	case project.BodyForm:
		return e.writeURLEncoded()
	case project.BodyMultipart:
		return e.writeMultipart()
	case project.BodyJSON, project.BodyText:
	}
	encoded, err := json.Marshal(e.body)
	if err != nil {
		return err
	}
	e.Body = encoded
	return nil
}

func sortedKeys(m map[string]json.RawMessage) []string { return slices.Sorted(maps.Keys(m)) }
