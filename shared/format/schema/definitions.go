package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"strings"
	"sync"

	"github.com/gatewright/gatewright/shared/format/regex"
	"github.com/gatewright/gatewright/shared/thirdparty/jsonschema"
)

// Definitions are schemas with names, to which other schemas refer: {"$ref": "#/$defs/NAME"}. They can refer to each
// other in the same way. Each definition is compiled once, with the first schema that needs it. Definitions are safe for
// concurrent use.
type Definitions struct {
	raw map[string]json.RawMessage

	mu       sync.Mutex // guards the fields below
	compiler *jsonschema.Compiler
	// schemas counts the schemas that were compiled. Each has a URL of its own.
	schemas int
	// bySource has the compiled schemas of at most maxSharedBytes by their text: many parameters have the same schema.
	bySource map[string]*jsonschema.Schema
	patterns map[string]jsonschema.Regexp
	// checked are the schemas that have no cycles.
	checked map[*jsonschema.Schema]bool
	// unchecked are the schemas that depend on a pattern that is not checked. hasUnchecked is set if there is one.
	unchecked    map[*jsonschema.Schema]bool
	hasUnchecked bool
}

// The URLs of schemas. The library resolves references between them. It loads definitions when it needs them.
const (
	definitionURL = "definition:///"
	schemaURL     = "schema:///"
)

// NewDefinitions returns definitions. It does not read them: Compile reports the mistakes in them.
func NewDefinitions(raw map[string]json.RawMessage) *Definitions {
	return &Definitions{
		raw: raw, bySource: map[string]*jsonschema.Schema{}, patterns: map[string]jsonschema.Regexp{},
	}
}

// Compile compiles a schema. A reference {"$ref": "#/$defs/NAME"} leads to the definition with this name in the schema
// itself, or otherwise to the definition of d. An error says where and why raw, or a definition that it needs, is not a
// schema. References that would apply a schema to the same value endlessly are an error too.
func (d *Definitions) Compile(raw json.RawMessage) (*Schema, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if known := d.bySource[string(raw)]; known != nil {
		return &Schema{known}, nil
	}
	if d.compiler == nil {
		d.compiler = d.newCompiler()
		d.checked, d.unchecked = map[*jsonschema.Schema]bool{}, map[*jsonschema.Schema]bool{}
	}
	root, err := d.compile(raw)
	if err != nil {
		d.compiler = nil // it can have kept parts of schemas that it has not finished
		return nil, err
	}
	if len(raw) <= maxSharedBytes {
		d.bySource[string(raw)] = root
	}
	return &Schema{root}, nil
}

// maxSharedBytes is the maximum size of a schema that is compiled once for all places that have the same text.
const maxSharedBytes = 1 << 10

func (d *Definitions) compile(raw json.RawMessage) (*jsonschema.Schema, error) {
	tree, err := d.prepare(raw)
	if err != nil {
		return nil, fmt.Errorf("read the schema: %w", err)
	}
	d.schemas++
	at := fmt.Sprintf("%s%d", schemaURL, d.schemas)
	if err := d.compiler.AddResource(at, tree); err != nil {
		return nil, fmt.Errorf("load the schema: %w", placeError(err))
	}
	root, err := d.compiler.Compile(at)
	if err != nil {
		return nil, fmt.Errorf("compile the schema: %w", placeError(err))
	}
	added, err := checkCycles(root, d.checked)
	if err != nil {
		return nil, fmt.Errorf("compile the schema: %w", err)
	}
	if d.hasUnchecked {
		acceptUnchecked(added, d.unchecked)
	}
	return root, nil
}

func (d *Definitions) newCompiler() *jsonschema.Compiler {
	c := jsonschema.NewCompiler()
	c.UseRegexpEngine(d.compilePattern)
	c.UseLoader(definitionLoader{d})
	c.AssertFormat()
	c.AssertContent()
	for _, f := range formats() {
		c.RegisterFormat(f)
	}
	for _, decoder := range decoders() {
		c.RegisterContentEncoding(decoder)
	}
	// Only the encoding of contents is checked. Their media type is not.
	c.RegisterContentMediaType(&jsonschema.MediaType{
		Name: "application/json", Validate: func([]byte) error { return nil },
	})
	return c
}

// definitionLoader implements jsonschema.URLLoader for the URLs of definitions. No other URL is loaded.
type definitionLoader struct{ d *Definitions }

var _ jsonschema.URLLoader = definitionLoader{}

// Load implements jsonschema.URLLoader.
func (l definitionLoader) Load(at string) (any, error) {
	escaped, isDefinition := strings.CutPrefix(at, definitionURL)
	name, err := url.PathUnescape(escaped)
	if !isDefinition || err != nil {
		return nil, errors.New("references to other documents are not supported")
	}
	raw, exists := l.d.raw[name]
	if !exists {
		return nil, fmt.Errorf("there is no definition %q", name)
	}
	return l.d.prepare(raw)
}

// prepare reads a schema, and replaces its references to definitions with their URLs.
func (d *Definitions) prepare(raw json.RawMessage) (any, error) {
	tree, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	if HasUnsafeNumber(tree) {
		return nil, fmt.Errorf("a number of the schema has more than %d characters, or is not between -1e308 and 1e308",
			MaxNumberBytes)
	}
	own := map[string]any{}
	if object, ok := tree.(map[string]any); ok {
		own, _ = object["$defs"].(map[string]any)
	}
	qualify(tree, own)
	return tree, nil
}

// qualify replaces the references to definitions in a schema with their URLs, except those to its own definitions. It
// removes the format regex, which is not checked.
func qualify(schema any, own map[string]any) {
	switch s := schema.(type) {
	case []any:
		for _, item := range s {
			qualify(item, own)
		}
	case map[string]any:
		for keyword, value := range s {
			switch keyword {
			case "$ref":
				if text, ok := value.(string); ok {
					s[keyword] = qualifyReference(text, own)
				}
			case "format":
				if value == "regex" {
					delete(s, keyword) // it would need a parser for the texts of clients
				}
			case "const", "enum", "default", "example", "examples": // values, not schemas
			case "properties", "patternProperties", "dependentSchemas", "dependencies", "$defs", "definitions":
				if named, ok := value.(map[string]any); ok {
					for member := range maps.Values(named) {
						qualify(member, own)
					}
				}
			default:
				qualify(value, own)
			}
		}
	}
}

func qualifyReference(reference string, own map[string]any) string {
	rest, ok := strings.CutPrefix(reference, "#/$defs/")
	if !ok {
		return reference
	}
	token, path, deeper := strings.Cut(rest, "/")
	name, err := url.PathUnescape(token)
	if err != nil {
		return reference
	}
	name = strings.NewReplacer("~1", "/", "~0", "~").Replace(name)
	if _, isOwn := own[name]; isOwn {
		return reference
	}
	at := definitionURL + url.PathEscape(name)
	if deeper {
		at += "#/" + path
	}
	return at
}

// compilePattern compiles a regular expression of a schema. Expressions that package regex does not support, such as
// those with back-references, match every text: the build of a project warns about them, and the upstream checks them.
func (d *Definitions) compilePattern(text string) (jsonschema.Regexp, error) {
	p, known := d.patterns[text]
	if !known {
		p = matchAll(text)
		if compiled, err := regex.Compile(text); err == nil {
			p = compiled
		} else {
			d.hasUnchecked = true
		}
		d.patterns[text] = p
	}
	return p, nil
}

// matchAll is a regular expression that is not checked, so it matches every text.
type matchAll string

// MatchString implements jsonschema.Regexp.
func (matchAll) MatchString(string) bool { return true }

// String implements jsonschema.Regexp.
func (a matchAll) String() string { return string(a) }

// placeError returns an error of the library as an error that names the places of the mistakes in schemas.
func placeError(err error) error {
	if loading, ok := errors.AsType[*jsonschema.LoadURLError](err); ok {
		return loading.Err
	}
	invalid, ok := errors.AsType[*jsonschema.SchemaValidationError](err)
	if !ok {
		return errors.New(readableURLs(err.Error()))
	}
	e, ok := errors.AsType[*jsonschema.ValidationError](invalid.Err)
	if !ok {
		return errors.New(readableURLs(err.Error()))
	}
	var all []string
	for _, leaf := range Leaves(e) {
		for _, l := range locate(leaf, maxListed) {
			if v := l.describe(); len(all) < maxListed {
				all = append(all, location(invalid.URL)+v.Pointer+" "+v.Detail)
			}
		}
	}
	return errors.New(strings.Join(all, "; "))
}

// location returns the place of a schema in words: the name of the definition, and a JSON pointer.
func location(at string) string {
	base, pointer, _ := strings.Cut(at, "#")
	if unescaped, err := url.PathUnescape(pointer); err == nil {
		pointer = unescaped
	}
	if name, ok := strings.CutPrefix(base, definitionURL); ok {
		if unescaped, err := url.PathUnescape(name); err == nil {
			name = unescaped
		}
		return fmt.Sprintf("definition %q: %s", name, pointer)
	}
	return pointer
}

// readableURLs replaces the URLs of this package in the text of an error of the library.
func readableURLs(text string) string {
	return strings.NewReplacer(definitionURL, "#/$defs/", schemaURL, "schema ").Replace(text)
}
