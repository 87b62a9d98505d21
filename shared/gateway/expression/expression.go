// Package expression evaluates the ${…} of rewritePattern and baseUrl (contract 4.1):
// texts with values of the request in them, compiled when an artifact is
// loaded and evaluated for each request.
//
// It is no JavaScript: the names of the contract, property access, and
// encodeURIComponent (or e) around a value. A name it does not know fails the
// build. Read this file for the texts, then address.go for upstream addresses
// made of them, which no value of a request can lead to another host.
package expression

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/gatewright/gatewright/shared/gateway/pipeline"
)

// source says where a value comes from.
type source int

const (
	env source = iota
	param
	query
	header
	method
	address
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
	from source
	name string // of the variable, parameter, query parameter, header or datum
	// encoded is set by encodeURIComponent around it.
	encoded bool
}

// part of a text: a literal, or a value when value is not nil.
type part struct {
	literal string
	value   *value
}

// Text is a parsed text. It is immutable.
type Text struct{ parts []part }

// Parse reads a text. It fails for an unknown name or broken syntax, with all
// that is wrong joined, each a sentence that says what to do.
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
		end := closing(after)
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

// closing finds the "}" that ends a value: one in quotes does not.
func closing(text string) int {
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
		if p.value != nil && p.value.from == from {
			names = append(names, p.value.name)
		}
	}
	return names
}

// fold puts variables in and joins neighbouring literals. missing are the names
// of those that are not set: they count as empty.
func (t *Text) fold(variables map[string]string) (parts []part, missing []string) {
	for _, p := range t.parts {
		if p.value != nil && p.value.from == env {
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

// known are the names without a property.
var known = map[string]source{
	"method": method, "url": address, "host": host, "hostname": hostname,
	"origin": origin, "pathname": pathname, "port": port, "search": search,
}

// keyed are the names that need a property.
var keyed = map[string]source{"env": env, "params": param, "query": query, "headers": header}

// parseValue reads what stands between "${" and "}".
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
	if from, ok := known[path[0]]; ok && len(path) == 1 {
		return &value{from: from}, nil
	}
	if from, ok := keyed[path[0]]; ok && len(path) == 2 {
		return &value{from: from, name: path[1]}, nil
	}
	return nil, fmt.Errorf("replace ${%s}: it is unknown. Known are env.NAME, params.NAME, query.NAME, headers.NAME, method, url, host, hostname, "+
		"origin, pathname, port, search, request.user.sub and request.user.data.NAME, each also within encodeURIComponent(…)", printable(text))
}

func userValue(path []string) (*value, error) {
	switch {
	case len(path) == 1 && path[0] == "sub":
		return &value{from: userSub}, nil
	case len(path) == 2 && path[0] == "data":
		return &value{from: userData, name: path[1]}, nil
	}
	return nil, errors.New("use request.user.sub or request.user.data.NAME: a user has no other properties")
}

// properties splits a.b, a["b"] and a.get("b") into names.
func properties(text string) ([]string, error) {
	malformed := fmt.Errorf(`write ${%s} as a name with properties, such as headers.accept or headers["x-name"]`, printable(text))
	var path []string
	for {
		n := 0
		for n < len(text) && isName(text[n]) {
			n++
		}
		if n == 0 {
			return nil, malformed
		}
		path = append(path, text[:n])
		text = text[n:]
		// headers["x"], and headers.get("x") as the Headers object has it.
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
		var more bool
		if text, more = strings.CutPrefix(text, "."); !more {
			return nil, malformed
		}
	}
}

func isName(c byte) bool {
	return c == '_' || c == '$' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// printable keeps a project's own text readable in a message.
func printable(text string) string {
	if len(text) > 60 {
		text = text[:60] + "…"
	}
	return strings.ToValidUTF8(text, "�")
}

// of returns the value for an exchange, unescaped; "" where the request has none.
func (v *value) of(x *pipeline.Exchange) string {
	switch v.from {
	case env:
		// Put in by fold.
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
	case address:
		return x.Scheme + "://" + x.Host + x.Path + searchOf(x)
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
		return searchOf(x)
	case userSub:
		if x.User != nil {
			return x.User.Sub
		}
	case userData:
		return datum(x.User, v.name)
	}
	return ""
}

func searchOf(x *pipeline.Exchange) string {
	if x.Query == "" {
		return ""
	}
	return "?" + x.Query
}

// datum returns a member of the user's data as JavaScript writes it in a text.
func datum(user *pipeline.User, name string) string {
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

// encodeURIComponent is JavaScript's function: all but letters, digits and
// -_.!~*'() is escaped.
func encodeURIComponent(text string) string {
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(text) {
		c := text[i]
		if isName(c) && c != '$' || strings.IndexByte("-.!~*'()", c) >= 0 {
			b.WriteByte(c)
			continue
		}
		b.WriteByte('%')
		b.WriteByte(hex[c>>4])
		b.WriteByte(hex[c&15])
	}
	return b.String()
}
