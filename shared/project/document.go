package project

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"
)

// document is a JSON file as a tree of map[string]any, []any, string, bool,
// nil and json.Number.
type document struct {
	file string
	root any
	// paths are the names in the root's object "paths", in the file's order,
	// which is the order in which URL patterns are tried.
	paths []string
}

// parse reads a JSON file and reports what is wrong with it as text: encoding,
// syntax with line and column, names that stand twice in an object, numbers
// and what is over its budget. It answers nil when there is no tree to go on with.
func (c *compiler) parse(file string, data []byte) *document {
	r := &c.report
	data = textOf(file, data)
	if bytes.HasPrefix(data, []byte{0xff, 0xfe}) || bytes.HasPrefix(data, []byte{0xfe, 0xff}) {
		r.fail(file, "", "This file is in UTF-16. Save it in UTF-8.")
		return nil
	}
	if at := invalidUTF8(data); at >= 0 {
		r.failAt(file, "", data, at, "This is no UTF-8. Save the file in UTF-8.")
		return nil
	}
	p := &parser{c: c, file: file, report: r, doc: &document{file: file}, dec: json.NewDecoder(bytes.NewReader(data))}
	p.dec.UseNumber()
	// The decoder's tokens come with poor errors, the scanner's with good ones.
	syntax := json.Unmarshal(data, new(unread))
	root, err := p.value(0)
	if syntax != nil || err != nil {
		at, message := p.dec.InputOffset(), "the file ends in the middle"
		if e, ok := errors.AsType[*json.SyntaxError](syntax); ok {
			at = e.Offset
			if e.Error() != "unexpected end of JSON input" {
				at, message = at-1, e.Error()
			}
		}
		if errors.Is(err, errStop) {
			return nil
		}
		if len(bytes.TrimSpace(data)) == 0 {
			message = "the file is empty"
		}
		r.failAt(file, pointer(p.at...), data, int(at), "This is no JSON: %s. Correct it.", message)
		return nil
	}
	p.doc.root = root
	return p.doc
}

// unread is a value that is only scanned: a json.RawMessage would be a copy.
type unread struct{}

// UnmarshalJSON implements json.Unmarshaler.
func (*unread) UnmarshalJSON([]byte) error { return nil }

type parser struct {
	c      *compiler
	file   string
	report *report
	doc    *document
	dec    *json.Decoder
	at     []string // the tokens that lead to the value being read
	size   int      // of the pointer that at makes, at the least
}

// errStop ends the reading after a problem that is already reported.
var errStop = errors.New("project: the document is refused")

// value reads one value. On an error, p.at leads to where it was met.
func (p *parser) value(depth int) (any, error) {
	token, err := p.dec.Token()
	if err != nil {
		return nil, err
	}
	switch p.c.values++; {
	case depth > maxDepth:
		return p.stop("nesting", int64(depth), "Flatten it.")
	case p.size > maxPointerBytes:
		return p.stop("pointer", int64(p.size), "Shorten the names that lead here, or flatten it.")
	case p.c.values > maxValues:
		if p.c.values > maxValues+1 {
			return nil, errStop // an earlier file has told it
		}
		return p.stop("values", maxValues+1, "Reading ended here. Leave out what the gateway does not need, such as examples.")
	case p.c.stopped():
		return nil, errStop
	}
	switch t := token.(type) {
	case json.Delim:
		if t == '{' {
			return p.object(depth)
		}
		return p.array(depth)
	case json.Number:
		if len(t) > maxNumberChars {
			p.report.over(p.file, pointer(p.at...), "number", int64(len(t)), "Shorten it.")
			return json.Number("0"), nil
		}
		if !reasonable(t) {
			p.report.fail(p.file, pointer(p.at...), "This is over the budget %q: it has to be between -1e%d and 1e%d. Write a smaller one.", "number", maxExponent, maxExponent)
			return json.Number("0"), nil // the schemas' arithmetic does not survive it
		}
		return t, nil
	default:
		return t, nil // string, bool or nil
	}
}

// stop ends the reading at a budget.
func (p *parser) stop(budget string, found int64, advice string) (any, error) {
	p.report.over(p.file, pointer(p.at...), budget, found, advice)
	return nil, errStop
}

// enter and leave count the way to a value.
func (p *parser) enter(token string) {
	p.at = append(p.at, token)
	p.size += 1 + len(token)
}

func (p *parser) leave() {
	last := len(p.at) - 1
	p.size -= 1 + len(p.at[last])
	p.at = p.at[:last]
}

func (p *parser) object(depth int) (any, error) {
	object := map[string]any{}
	for p.dec.More() {
		token, err := p.dec.Token()
		if err != nil {
			return nil, err
		}
		name, ok := token.(string)
		if !ok {
			return nil, io.ErrUnexpectedEOF
		}
		switch {
		case len(name) > maxNameBytes:
			return p.stop("name", int64(len(name)), fmt.Sprintf("Shorten the name that begins with %q.", printable(name[:40])))
		case len(object) == maxMembers:
			return p.stop("members", maxMembers+1, "Reading ended here. Leave out what the gateway does not need, or divide the document.")
		}
		p.enter(name)
		if _, twice := object[name]; twice {
			p.report.fail(p.file, pointer(p.at...), "This name stands twice in the same object. Remove one of them.")
		} else if depth == 1 && p.at[0] == "paths" {
			p.doc.paths = append(p.doc.paths, name)
		}
		v, err := p.value(depth + 1)
		if err != nil {
			return nil, err
		}
		object[name] = v
		p.leave()
	}
	_, err := p.dec.Token()
	return object, err
}

func (p *parser) array(depth int) (any, error) {
	array := []any{}
	for i := 0; p.dec.More(); i++ {
		p.enter(strconv.Itoa(i))
		v, err := p.value(depth + 1)
		if err != nil {
			return nil, err
		}
		array = append(array, v)
		p.leave()
	}
	_, err := p.dec.Token()
	return array, err
}

// reasonable keeps out numbers whose exact value would fill megabytes in the
// arithmetic of schema validation.
func reasonable(n json.Number) bool {
	if i := strings.IndexAny(string(n), "eE"); i >= 0 {
		e, err := strconv.Atoi(string(n[i+1:]))
		return err == nil && e >= -maxExponent && e <= maxExponent
	}
	return true
}

func invalidUTF8(data []byte) int {
	if utf8.Valid(data) {
		return -1
	}
	for i := 0; i < len(data); {
		r, size := utf8.DecodeRune(data[i:])
		if r == utf8.RuneError && size == 1 {
			return i
		}
		i += size
	}
	return -1
}

// text returns a scalar of a document as text.
func text(value any) string {
	switch v := value.(type) {
	case string:
		return v
	case json.Number:
		return v.String()
	default:
		return fmt.Sprint(v)
	}
}
