// Package expression evaluates the ${…} of rewritePattern and baseUrl (contract 4.1): texts with values
// of the request. It compiles them when an artifact is loaded, and evaluates them for each request.
//
// The syntax is not JavaScript: it has the names of the contract, property access, and
// encodeURIComponent (or e) around a value. An unknown name fails the build. Read this file first for
// the texts, then address.go for upstream addresses, whose host no value of a request can change.
package expression

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/gatewright/gatewright/shared/dataplane/gateway/pipeline"
)

// source is the origin of a value.
type source int

const (
	env source = iota
	param
	query
	header
	method
	requestURL
	host
	hostname
	origin
	pathname
	port
	search
	userSub
	userData
)

// value is one ${…}.
type value struct {
	source source
	name   string // name of the variable, parameter, query parameter, header or user property
	// encoded is set if the text has encodeURIComponent around the value.
	encoded bool
}

// part is a part of a text: a literal, or a value if value is not nil.
type part struct {
	literal string
	value   *value
}

// Text is a parsed text. It is immutable.
type Text struct{ parts []part }

// Parse parses a text. Its error joins an error for each unknown name and syntax error. Each says what to do.
func Parse(text string) (*Text, error) {
	var (
		t    Text
		errs []error
	)
	for text != "" {
		before, after, found := strings.Cut(text, "${")
		if before != "" {
			t.parts = append(t.parts, part{literal: before})
		}
		if !found {
			break
		}
		end := closingBrace(after)
		if end < 0 {
			errs = append(errs, errors.New(`close each "${" with a "}"`))
			break
		}
		v, err := parseValue(strings.TrimSpace(after[:end]))
		if err != nil {
			errs = append(errs, err)
		}
		t.parts = append(t.parts, part{value: v})
		text = after[end+1:]
	}
	return &t, errors.Join(errs...)
}

// closingBrace returns the position of the "}" that ends a value, -1 if there is none. A "}" in quotes does not end it.
func closingBrace(text string) int {
	var quote byte
	for i := range len(text) {
		switch c := text[i]; {
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '"' || c == '\'':
			quote = c
		case c == '}':
			return i
		}
	}
	return -1
}

// Params returns the names of the path parameters that the text uses.
func (t *Text) Params() []string { return t.names(param) }

// Variables returns the names of the environment's variables that the text uses.
func (t *Text) Variables() []string { return t.names(env) }

func (t *Text) names(from source) []string {
	var names []string
	for _, p := range t.parts {
		if p.value != nil && p.value.source == from {
			names = append(names, p.value.name)
		}
	}
	return names
}

// insertVariables inserts the variables and joins adjacent literals. missing
// has the names of variables that are not set. Their values are empty.
func (t *Text) insertVariables(variables map[string]string) (parts []part, missing []string) {
	for _, p := range t.parts {
		if p.value != nil && p.value.source == env {
			text, set := variables[p.value.name]
			if !set {
				missing = append(missing, p.value.name)
			}
			if p.value.encoded {
				text = encodeURIComponent(text)
			}
			p = part{literal: text}
		}
		if last := len(parts) - 1; p.value == nil && last >= 0 && parts[last].value == nil {
			parts[last].literal += p.literal
			continue
		}
		parts = append(parts, p)
	}
	return parts, missing
}

// namesWithoutProperty has the sources of values whose name is complete, such as ${pathname}.
var namesWithoutProperty = map[string]source{
	"method": method, "url": requestURL, "host": host, "hostname": hostname,
	"origin": origin, "pathname": pathname, "port": port, "search": search,
}

// namesWithProperty has the sources of values whose name needs a property, such as ${env.NAME}.
var namesWithProperty = map[string]source{"env": env, "params": param, "query": query, "headers": header}

// parseValue parses the text between "${" and "}".
func parseValue(text string) (*value, error) {
	for _, function := range []string{"encodeURIComponent", "e"} {
		rest, ok := strings.CutPrefix(text, function)
		rest = strings.TrimSpace(rest)
		if !ok || !strings.HasPrefix(rest, "(") {
			continue
		}
		if !strings.HasSuffix(rest, ")") {
			return nil, fmt.Errorf("close the parenthesis of %s(…)", function)
		}
		v, err := parseValue(strings.TrimSpace(rest[1 : len(rest)-1]))
		if err != nil {
			return nil, err
		}
		v.encoded = true
		return v, nil
	}
	path, err := properties(text)
	if err != nil {
		return nil, err
	}
	if path[0] == "request" && len(path) > 1 {
		if path[1] == "user" {
			return userValue(path[2:])
		}
		if path[1] != "env" {
			path = path[1:]
		}
	}
	if from, ok := namesWithoutProperty[path[0]]; ok && len(path) == 1 {
		return &value{source: from}, nil
	}
	if from, ok := namesWithProperty[path[0]]; ok && len(path) == 2 {
		return &value{source: from, name: path[1]}, nil
	}
	return nil, fmt.Errorf("replace ${%s}: it is unknown. Known are env.NAME, params.NAME, query.NAME, headers.NAME, "+
		"method, url, host, hostname, "+
		"origin, pathname, port, search, request.user.sub and request.user.data.NAME, each also within "+
		"encodeURIComponent(…)", shorten(text))
}

func userValue(path []string) (*value, error) {
	switch {
	case len(path) == 1 && path[0] == "sub":
		return &value{source: userSub}, nil
	case len(path) == 2 && path[0] == "data":
		return &value{source: userData, name: path[1]}, nil
	}
	return nil, errors.New("use request.user.sub or request.user.data.NAME: a user has no other properties")
}

// properties splits a.b, a["b"] and a.get("b") into the names a and b.
func properties(text string) ([]string, error) {
	malformed := fmt.Errorf(`write ${%s} as a name with properties, such as headers.accept or headers["x-name"]`,
		shorten(text))
	var path []string
	for {
		n := 0
		for n < len(text) && isNameByte(text[n]) {
			n++
		}
		if n == 0 {
			return nil, malformed
		}
		path = append(path, text[:n])
		text = text[n:]
		// headers["x"], and headers.get("x") as in the Headers object.
		for strings.HasPrefix(text, "[") || strings.HasPrefix(text, "(") && path[len(path)-1] == "get" {
			closer := "]"
			if text[0] == '(' {
				closer = ")"
				path = path[:len(path)-1]
			}
			quote := text[1:min(2, len(text))]
			if quote != `"` && quote != "'" {
				return nil, malformed
			}
			name, rest, found := strings.Cut(text[2:], quote+closer)
			if !found || name == "" {
				return nil, malformed
			}
			path = append(path, name)
			text = rest
		}
		if text == "" {
			return path, nil
		}
		var hasDot bool
		if text, hasDot = strings.CutPrefix(text, "."); !hasDot {
			return nil, malformed
		}
	}
}

func isNameByte(c byte) bool {
	return c == '_' || c == '$' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// shorten shortens a project's text for a message.
func shorten(text string) string {
	if len(text) > 60 {
		text = text[:60] + "…"
	}
	return strings.ToValidUTF8(text, "�")
}

// resolve returns the unescaped value for an exchange, "" if the request does not have the value.
func (v *value) resolve(x *pipeline.Exchange) string {
	switch v.source {
	case env:
		// Never called: insertVariables has replaced the variables.
		return ""
	case param:
		return x.Param(v.name)
	case query:
		return x.QueryValues().Get(v.name)
	case header:
		if strings.EqualFold(v.name, "host") {
			return x.Host
		}
		return x.Header.Get(v.name)
	case method:
		return x.Method
	case requestURL:
		return x.Scheme + "://" + x.Host + x.Path + searchString(x)
	case host:
		return x.Host
	case hostname:
		return (&url.URL{Host: x.Host}).Hostname()
	case origin:
		return x.Scheme + "://" + x.Host
	case pathname:
		return x.Path
	case port:
		return (&url.URL{Host: x.Host}).Port()
	case search:
		return searchString(x)
	case userSub:
		if x.User != nil {
			return x.User.Sub
		}
	case userData:
		return userProperty(x.User, v.name)
	}
	return ""
}

func searchString(x *pipeline.Exchange) string {
	if x.Query == "" {
		return ""
	}
	return "?" + x.Query
}

// userProperty returns a member of the user's data as text: a string itself, "" for null and
// for a missing member, and the JSON of any other value.
func userProperty(user *pipeline.User, name string) string {
	if user == nil || len(user.Data) == 0 {
		return ""
	}
	var members map[string]json.RawMessage
	if json.Unmarshal(user.Data, &members) != nil {
		return ""
	}
	raw := members[name]
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text // also "" for null
	}
	return string(raw)
}

// encodeURIComponent works like JavaScript's function: it escapes everything except letters, digits and -_.!~*'().
func encodeURIComponent(text string) string {
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(text) {
		c := text[i]
		if isNameByte(c) && c != '$' || strings.IndexByte("-.!~*'()", c) >= 0 {
			b.WriteByte(c)
			continue
		}
		b.WriteByte('%')
		b.WriteByte(hex[c>>4])
		b.WriteByte(hex[c&15])
	}
	return b.String()
}

// Value returns the text with the values of an exchange. A value that the request does not have is empty. The text must
// not use variables (Variables): nothing would replace them.
func (t *Text) Value(x *pipeline.Exchange) string {
	if len(t.parts) == 1 && t.parts[0].value == nil {
		return t.parts[0].literal
	}
	var b strings.Builder
	for _, p := range t.parts {
		switch {
		case p.value == nil:
			b.WriteString(p.literal)
		case p.value.encoded:
			b.WriteString(encodeURIComponent(p.value.resolve(x)))
		default:
			b.WriteString(p.value.resolve(x))
		}
	}
	return b.String()
}
