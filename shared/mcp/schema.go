package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"strings"

	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"github.com/gatewright/gatewright/shared/credential"
	"github.com/gatewright/gatewright/thirdparty/jsonschema"
)

// Arguments are checked by the library that checks projects, and not by the SDK's: that one has no places of
// what is wrong, and stops at the first.

// Schema is that of the arguments of a tool or prompt, in the two ways in which they are held against it.
type Schema struct {
	// schema tells every violation, with its place: for a list of a million wrong values a hundred times
	// what they take themselves.
	schema *jsonschema.Schema
	// negation is not(schema), which holds for what does not fit, and makes no error of it.
	negation *jsonschema.Schema
	// tree is the schema as JSON, by which work is weighed, and most what it takes at most.
	tree any
	most most
	// patterns are its regular expressions by their texts.
	patterns map[string]program
}

// maxToldBytes bounds the arguments of which violations are told one by one.
const maxToldBytes = 16 << 10

// CompileSchema compiles the schema of arguments, without references. Its error says what is no JSON Schema.
func CompileSchema(raw json.RawMessage) (*Schema, error) {
	tree, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return nil, fmt.Errorf("read the schema of arguments: %w", err)
	}
	const name = "arguments.json"
	c := jsonschema.NewCompiler()
	out := &Schema{tree: tree, patterns: map[string]program{}}
	c.UseRegexpEngine(out.pattern)
	if err := c.AddResource(name, tree); err != nil {
		return nil, fmt.Errorf("load the schema of arguments: %w", err)
	}
	if out.schema, err = c.Compile(name); err != nil {
		return nil, fmt.Errorf("compile the schema of arguments: %w", err)
	}
	const negation = "not-" + name
	if err = c.AddResource(negation, map[string]any{"not": map[string]any{"$ref": name}}); err == nil {
		out.negation, err = c.Compile(negation)
	}
	if err != nil {
		return nil, fmt.Errorf("compile the negation of arguments: %w", err)
	}
	out.most.count(tree, out.patterns)
	return out, nil
}

// Bounds of the regular expressions that are checked here, as text and as instructions of RE2: it makes a thousand
// of x{1000} and of (x{31}){30}, each of which may be tried on each character. An e-mail address as HTML has it takes
// 259, and no more than 500 leave RE2 its quick ways.
const (
	maxPatternBytes = 256
	maxInstructions = 500
)

// program is a regular expression that is compiled, of so many instructions; 0 is for one that is not checked.
type program struct {
	jsonschema.Regexp
	instructions int
}

// pattern compiles a regular expression of a schema. One that RE2 does not know, such as those that look
// ahead, or that costs much, is left to the upstream: it refuses nothing here.
func (c *Schema) pattern(text string) (jsonschema.Regexp, error) {
	p, known := c.patterns[text]
	if !known {
		p = program{Regexp: anything(text)}
		if n := instructions(text); n > 0 && n <= maxInstructions {
			if compiled, err := regexp.Compile(text); err == nil {
				p = program{Regexp: compiled, instructions: n}
			}
		}
		c.patterns[text] = p
	}
	return p.Regexp, nil
}

// instructions counts those of a regular expression, 0 for one that is none of RE2's or too long.
func instructions(text string) int {
	if len(text) > maxPatternBytes {
		return 0
	}
	parsed, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return 0
	}
	compiled, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return 0
	}
	return len(compiled.Inst)
}

// anything is a regular expression that is not checked.
type anything string

// MatchString implements jsonschema.Regexp.
func (anything) MatchString(string) bool { return true }

// String implements jsonschema.Regexp.
func (a anything) String() string { return string(a) }

// Read reads the arguments of a call into to, as encoding/json does; none are none of them. Its error is that of Check.
func (c *Schema) Read(ctx context.Context, raw json.RawMessage, to any) error {
	if trimmed := bytes.TrimSpace(raw); len(trimmed) == 0 || string(trimmed) == "null" {
		raw = json.RawMessage("{}")
	}
	if err := c.Check(ctx, raw); err != nil {
		return err
	}
	if json.Unmarshal(raw, to) != nil {
		return Invalid("Send arguments as a JSON object.")
	}
	return nil
}

// Check holds arguments, a JSON object, against the schema, and says what is wrong with the first of them: the error of
// a call whose parameters are wrong. Calls of one batch are checked within one bound of work.
func (c *Schema) Check(ctx context.Context, raw json.RawMessage) error {
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return Invalid("Send arguments as a JSON object.")
	}
	if c.isTooMuch(ctx, value, len(raw)) {
		return Invalid("Send fewer values at once: these take too long to be checked.")
	}
	if len(raw) > maxToldBytes {
		if c.negation.Validate(value) == nil {
			return Invalid("Correct the arguments: they do not fit their schema, and are too large for what is wrong to be told one by one.")
		}
		return nil
	}
	if err = c.schema.Validate(value); err == nil {
		return nil
	}
	e, ok := errors.AsType[*jsonschema.ValidationError](err)
	if !ok {
		return Invalid("These arguments cannot be checked. Send those that tools/list describes.")
	}
	return Invalid("Correct the arguments: %s.", strings.Join(violations(e), "; "))
}

// Bounds of what is told of arguments.
const (
	maxViolations     = 5
	maxViolationBytes = 200
)

// violations are the first of what is wrong, each with its place.
func violations(e *jsonschema.ValidationError) []string {
	printer := message.NewPrinter(language.English)
	var out []string
	var collect func(e *jsonschema.ValidationError)
	collect = func(e *jsonschema.ValidationError) {
		if len(out) == maxViolations {
			return
		}
		for _, cause := range e.Causes {
			collect(cause)
		}
		if len(e.Causes) > 0 {
			return
		}
		at := "/" + strings.Join(e.InstanceLocation, "/")
		// A pattern's violation repeats the text, which may be a key in the wrong place.
		text := credential.Redact(strings.ToValidUTF8(at+" "+e.ErrorKind.LocalizedString(printer), ""))
		if len(text) > maxViolationBytes {
			text = strings.ToValidUTF8(text[:maxViolationBytes], "") + "…"
		}
		out = append(out, text)
	}
	collect(e)
	return out
}
