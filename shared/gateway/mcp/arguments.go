package mcp

import (
	"bytes"
	"encoding/json"
	"net/url"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/gatewright/gatewright/shared/gateway/paths"
	"github.com/gatewright/gatewright/shared/gateway/pipeline"
	"github.com/gatewright/gatewright/shared/gateway/upstream"
	sharedmcp "github.com/gatewright/gatewright/shared/mcp"
	"github.com/gatewright/gatewright/shared/project"
)

// Bounds of what arguments make of a request: as much as the gateway takes of a client's own.
const (
	maxTargetBytes = 16 << 10
	maxFieldBytes  = 8 << 10
)

// filler puts arguments into a request.
type filler struct {
	operation *project.MCPOperation
	arguments map[string]json.RawMessage
	x         *pipeline.Exchange
	query     []string
	body      map[string]json.RawMessage
}

// fill puts arguments, which fit their schema, where they go. Those without a place of their own are
// properties of the body.
func (c *caller) fill(x *pipeline.Exchange, arguments map[string]json.RawMessage) error {
	f := &filler{operation: c.offer.Operation, arguments: arguments, x: x, body: map[string]json.RawMessage{}}
	path := c.offer.Route.Info.Path
	for _, a := range f.operation.Arguments {
		raw, sent := arguments[a.Name]
		if !sent {
			continue
		}
		switch a.Place {
		case project.InPath:
			text := joined(valueOf(raw), a.Explode, ",", escape)
			if text == "" {
				return sharedmcp.Invalid("Send a value for %q: it is a segment of the path.", a.Name)
			}
			path = strings.ReplaceAll(path, "{"+a.Aim()+"}", text)
		case project.InQuery:
			f.addQuery(a, raw)
		case project.InHeader:
			if err := f.setHeader(a, raw); err != nil {
				return err
			}
		case project.InProperty:
			f.body[a.Aim()] = raw
		case project.InBody:
			f.wholeBody(raw)
		}
	}
	for name, raw := range arguments {
		if !c.known[name] {
			f.body[name] = raw
		}
	}
	if err := f.writeBody(); err != nil {
		return err
	}
	return c.aim(x, path, strings.Join(f.query, "&"))
}

// aim gives a request its path and query.
func (c *caller) aim(x *pipeline.Exchange, path, query string) error {
	if len(path)+len(query) > maxTargetBytes {
		return sharedmcp.Invalid("Send shorter arguments: path and query are over %d bytes together.", maxTargetBytes)
	}
	canonical, err := paths.Within(path)
	if err != nil {
		return sharedmcp.Invalid("These arguments make no path: %v.", err)
	}
	x.Path = canonical
	if c.server.setup.Preserve {
		x.Written = paths.Written(path)
	}
	x.SetQuery(query)
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

func (f *filler) addQuery(a project.Argument, raw json.RawMessage) {
	name := escape(a.Aim())
	add := func(name, text string) { f.query = append(f.query, name+"="+text) }
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

func (f *filler) setHeader(a project.Argument, raw json.RawMessage) error {
	text := string(bytes.TrimSpace(raw))
	if a.Style != project.StyleJSON {
		text = joined(valueOf(raw), a.Explode, ",", func(s string) string { return s })
	}
	if len(text) > maxFieldBytes || !httpguts.ValidHeaderFieldValue(text) {
		return sharedmcp.Invalid("Send a value for %q that a header can have: at most %d bytes on one line.", a.Name, maxFieldBytes)
	}
	upstream.RemoveField(f.x.Header, a.Aim())
	f.x.Header.Set(a.Aim(), text)
	return nil
}

func (f *filler) wholeBody(raw json.RawMessage) {
	if f.operation.Body == project.BodyText {
		setBody(f.x, f.operation.ContentType, scalar(raw))
		return
	}
	setBody(f.x, f.operation.ContentType, string(bytes.TrimSpace(raw)))
}

// writeBody writes the properties of the body.
func (f *filler) writeBody() error {
	if len(f.body) == 0 && !f.operation.BodyNeeded {
		return nil
	}
	if f.operation.Body == project.BodyForm {
		var form []string
		for _, name := range sortedKeys(f.body) {
			v := valueOf(f.body[name])
			if v.kind == 'l' {
				for _, element := range v.list {
					form = append(form, escape(name)+"="+escape(element))
				}
				continue
			}
			form = append(form, escape(name)+"="+escape(scalar(f.body[name])))
		}
		setBody(f.x, f.operation.ContentType, strings.Join(form, "&"))
		return nil
	}
	encoded, err := json.Marshal(f.body)
	if err != nil {
		return err
	}
	setBody(f.x, f.operation.ContentType, string(encoded))
	return nil
}
