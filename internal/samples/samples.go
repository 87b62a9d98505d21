// Package samples generates valid requests for the operations of an OpenAPI document, and valid values for JSON Schemas.
// Tests send them where a valid request must be accepted.
//
// It does not use the code with which the build and the gateway read documents and check values: a mistake there must not
// hide itself. The only exception is package regex, which compiles the regular expressions for both. The library jsonschema
// checks each generated value.
//
// Read this file first, then schema.go (which schemas apply to a value), value.go and text.go (values), verify.go (the
// check), and request.go, parameter.go and body.go (how values become a request).
package samples

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// ErrNoSample is the error for a schema for which no valid value was found. The schema may allow none.
var ErrNoSample = errors.New("no valid value was found")

// Document is an OpenAPI document in version 3. It is not safe for concurrent use.
type Document struct {
	root        any
	isOpenAPI30 bool
	// isRequest leaves out properties with readOnly.
	isRequest bool
	verifier  *verifier
}

// Read reads a document in JSON. It does not check it.
func Read(text []byte) (*Document, error) {
	root, err := decode(text)
	if err != nil {
		return nil, fmt.Errorf("read the OpenAPI document: %w", err)
	}
	version, _ := member(root, "openapi").(string)
	d := &Document{root: root, isOpenAPI30: strings.HasPrefix(version, "3.0"), isRequest: true}
	d.verifier = newVerifier(d)
	return d, nil
}

// Value returns a value that a JSON Schema (2020-12) allows. References in it lead to places of the same schema.
func Value(schema []byte) (any, error) {
	root, err := decode(schema)
	if err != nil {
		return nil, fmt.Errorf("read the schema: %w", err)
	}
	d := &Document{root: root}
	d.verifier = newVerifier(d)
	return d.sample(place{value: root}, func(any) error { return nil })
}

func decode(text []byte) (any, error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var value any
	err := decoder.Decode(&value)
	return value, err
}

// member returns a member of an object, nil if there is none.
func member(value any, name string) any {
	object, _ := value.(map[string]any)
	return object[name]
}

// place is a value in the document. at is its JSON pointer.
type place struct {
	value any
	at    string
}

// member returns the place of a member of an object.
func (p place) member(name string) place {
	return place{member(p.value, name), p.at + "/" + strings.ReplaceAll(strings.ReplaceAll(name, "~", "~0"), "/", "~1")}
}

// item returns the place of an item of a list.
func (p place) item(i int) place {
	list, _ := p.value.([]any)
	return place{list[i], p.at + "/" + strconv.Itoa(i)}
}

// text returns the member of an object that is a string, or "".
func (p place) text(name string) string {
	text, _ := member(p.value, name).(string)
	return text
}

// maxReferences is the maximum number of references that resolve follows for one value.
const maxReferences = 20

// resolve follows references within the document. It returns false if one of them leads elsewhere, or nowhere.
func (d *Document) resolve(p place) (place, bool) {
	for range maxReferences {
		reference := p.text("$ref")
		if reference == "" {
			return p, p.value != nil
		}
		var found bool
		if p, found = d.find(reference); !found {
			return place{}, false
		}
	}
	return place{}, false
}

// find returns the place that a reference leads to. It returns false for a reference to another document.
func (d *Document) find(reference string) (place, bool) {
	pointer, isLocal := strings.CutPrefix(reference, "#")
	if !isLocal || pointer != "" && pointer[0] != '/' {
		return place{}, false
	}
	p := place{value: d.root}
	for _, token := range strings.Split(pointer, "/")[1:] {
		token = strings.ReplaceAll(strings.ReplaceAll(unescape(token), "~1", "/"), "~0", "~")
		if list, isList := p.value.([]any); isList {
			i, err := strconv.Atoi(token)
			if err != nil || i < 0 || i >= len(list) {
				return place{}, false
			}
			p = p.item(i)
			continue
		}
		p = p.member(token)
	}
	return p, p.value != nil
}

// maxAttempts is the number of values that are tried for a schema.
const maxAttempts = 8

// sample returns a value that the schema allows and for which usable returns no error. It tries several values: with all
// properties, with required properties only, and with several of the alternatives.
func (d *Document) sample(schema place, usable func(any) error) (any, error) {
	var first error
	for attempt := range maxAttempts {
		g := &generator{d: d, choice: attempt / 2, isFull: attempt%2 == 0}
		value, err := g.value([]place{schema}, 0)
		if err == nil {
			err = usable(value)
		}
		if err == nil {
			err = d.verifier.check(schema.at, value)
		}
		if err == nil {
			return value, nil
		}
		if first == nil {
			first = err
		}
	}
	return nil, fmt.Errorf("%w for %s: %w", ErrNoSample, schema.at, first)
}

// Operation names an operation.
type Operation struct {
	// Method is a method of HTTP.
	Method string
	// Path is a path of the document.
	Path string
}

// Operations returns all operations of the document, sorted by path.
func (d *Document) Operations() (all []Operation) {
	paths := place{value: d.root}.member("paths")
	object, _ := paths.value.(map[string]any)
	for _, path := range slices.Sorted(maps.Keys(object)) {
		item, _ := d.resolve(paths.member(path))
		for _, method := range methods() {
			if _, isOperation := item.member(method).value.(map[string]any); isOperation {
				all = append(all, Operation{strings.ToUpper(method), path})
			}
		}
		others, _ := item.member("additionalOperations").value.(map[string]any)
		for _, method := range slices.Sorted(maps.Keys(others)) {
			all = append(all, Operation{method, path})
		}
	}
	return all
}

// methods are the members of a path item that are operations.
func methods() []string {
	return []string{"get", "put", "post", "delete", "options", "head", "patch", "trace", "query"}
}

// operation returns the operation with a method and a path, and its path item.
func (d *Document) operation(method, path string) (item, operation place, err error) {
	item, _ = d.resolve(place{value: d.root}.member("paths").member(path))
	if i := slices.Index(methods(), strings.ToLower(method)); i >= 0 {
		operation = item.member(methods()[i])
	}
	if operation.value == nil {
		operation = item.member("additionalOperations").member(method)
	}
	if operation.value == nil {
		return place{}, place{}, fmt.Errorf("the document has no operation %s %s", method, path)
	}
	return item, operation, nil
}
