package project

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/gatewright/gatewright/shared/format/yamljson"
)

// document is a file as a tree of map[string]any, []any, string, bool, nil and json.Number.
type document struct {
	file string
	root any
	// compiler reads the files to which references lead. resolved has the results of resolve, by reference. anchors has the
	// schemas with an anchor, by anchor. It is nil until an anchor is looked up.
	compiler *compiler
	resolved map[string]resolved
	anchors  map[string]place
	// paths are the names in the root's object "paths", in the order of the file. URL patterns are matched in this order.
	paths []string
	// security is nil until the shape of the document is known to be valid.
	security *security
	// mappings has the names of the mapping of each discriminator, in the order of the file. The key identifies the
	// mapping in the tree.
	mappings map[uintptr][]string
	// unserved has the pointers of operations that have an x-gateway-route and that no path has.
	unserved map[string]bool
}

// isOpenAPI30 reports whether the document is OpenAPI 3.0, whose schemas have their own dialect.
func (d *document) isOpenAPI30() bool {
	root, _ := d.root.(map[string]any)
	version, _ := root["openapi"].(string)
	return strings.HasPrefix(version, "3.0.")
}

// maxConvertedBytes is the maximum size of the JSON of a file in YAML. The JSON can be larger than the file, because it has
// quotation marks, and repeats the values of aliases.
const maxConvertedBytes = 2 * fileBytes

// parse reads a file in JSON or YAML. It reports invalid encoding, syntax errors with line and column, duplicate names in
// an object, invalid numbers and exceeded budgets. It returns nil if the file has no tree that can be checked further.
func (c *compiler) parse(file string, data []byte) *document {
	r := &c.report
	text := withoutMark(data)
	if err := yamljson.CheckEncoding(text); err != nil {
		r.failText(file, err)
		return nil
	}
	data = withoutComments(file, text)
	if isYAML(file) {
		if n := yamljson.CountNodes(text); n > yamljson.MaxNodes {
			r.failBudget(file, "", "nodes", int64(n), "Divide the file, or write it in JSON.")
			return nil
		}
		var err error
		if data, err = convertYAML(text); err != nil {
			r.failText(file, err)
			return nil
		}
	}
	p := &parser{
		c: c, file: file, report: r, dec: json.NewDecoder(bytes.NewReader(data)),
		doc: &document{file: file, compiler: c, unserved: map[string]bool{}},
	}
	p.dec.UseNumber()
	// The errors of json.Unmarshal have better messages than the errors of Decoder.Token.
	syntaxErr := json.Unmarshal(data, new(discarded))
	root, err := p.value(0)
	if syntaxErr != nil || err != nil {
		offset, message := p.dec.InputOffset(), "the file ends in the middle"
		if e, ok := errors.AsType[*json.SyntaxError](syntaxErr); ok {
			offset = e.Offset
			if e.Error() != "unexpected end of JSON input" {
				offset, message = offset-1, e.Error()
			}
		}
		if errors.Is(err, errStop) {
			return nil
		}
		if len(bytes.TrimSpace(data)) == 0 {
			message = "the file is empty"
		}
		r.failAt(file, pointer(p.at...), text, int(offset), "This is no JSON: %s. Correct it.", message)
		return nil
	}
	p.doc.root = root
	return p.doc
}

// isYAML reports whether a file is in YAML.
func isYAML(file string) bool {
	return strings.HasSuffix(file, ".yaml") || strings.HasSuffix(file, ".yml")
}

// convertYAML returns the JSON of a text in YAML.
func convertYAML(text []byte) ([]byte, error) {
	d, err := yamljson.Parse(text)
	if err != nil {
		return nil, err
	}
	return d.JSON(maxConvertedBytes)
}

// discarded is a value that json.Unmarshal does not store: it only checks the syntax. A json.RawMessage would copy
// the value.
type discarded struct{}

// UnmarshalJSON implements json.Unmarshaler.
func (*discarded) UnmarshalJSON([]byte) error { return nil }

// parser reads one JSON file for the method parse of the compiler.
type parser struct {
	c      *compiler
	file   string
	report *report
	doc    *document
	dec    *json.Decoder
	at     []string // the pointer's tokens of the value that is being read
	size   int      // length of the pointer with the tokens in at, without the bytes that escapes add
}

// errStop stops reading after a problem that is already reported.
var errStop = errors.New("project: the document is refused")

// value reads one value. After an error, p.at is the place of the error.
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
			return nil, errStop // an earlier file has reported it
		}
		return p.stop("values", maxValues+1,
			"Reading ended here. Leave out what the gateway does not need, such as examples.")
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
			p.report.failBudget(p.file, pointer(p.at...), "number", int64(len(t)), "Shorten it.")
			return json.Number("0"), nil
		}
		if !hasSafeExponent(t) {
			p.report.fail(p.file, pointer(p.at...),
				"This is over the budget %q: it has to be between -1e%d and 1e%d. Write a smaller one.", "number", maxExponent,
				maxExponent)
			return json.Number("0"), nil // the schemas' arithmetic cannot process it
		}
		return t, nil
	default:
		return t, nil // string, bool or nil
	}
}

// stop reports an exceeded budget and ends the reading.
func (p *parser) stop(budget string, actual int64, advice string) (any, error) {
	p.report.failBudget(p.file, pointer(p.at...), budget, actual, advice)
	return nil, errStop
}

// enter and leave update the pointer of the current value in at and size.
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
			return p.stop("members", maxMembers+1,
				"Reading ended here. Leave out what the gateway does not need, or divide the document.")
		}
		p.enter(name)
		p.noteMappingName(object, name)
		if _, duplicate := object[name]; duplicate {
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

// hasSafeExponent reports whether a number has no exponent, or one between -maxExponent and
// maxExponent. Other numbers would need megabytes in the exact arithmetic of schema validation.
func hasSafeExponent(n json.Number) bool {
	if i := strings.IndexAny(string(n), "eE"); i >= 0 {
		e, err := strconv.Atoi(string(n[i+1:]))
		return err == nil && e >= -maxExponent && e <= maxExponent
	}
	return true
}

// text returns a string, number or other scalar of a document as text.
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
