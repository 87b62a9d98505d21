package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"github.com/gatewright/gatewright/shared/format/credential"
	"github.com/gatewright/gatewright/shared/format/regex"
	"github.com/gatewright/gatewright/shared/thirdparty/jsonschema"
)

// The library that validates projects also validates arguments. The SDK's own
// validation does not report the places of violations, and stops at the first one.

// Schema is the schema of the arguments of a tool or prompt, in two forms for two methods of validation.
type Schema struct {
	// schema reports every violation with its place. For a list of a million
	// invalid values, such a report takes a hundred times their memory.
	schema *jsonschema.Schema
	// negation is the schema {"not": schema}. A value that violates
	// schema is valid for negation, so validating it creates no errors.
	negation *jsonschema.Schema
	// tree is the schema as JSON, from which tooExpensive estimates
	// the work of validating. bound is the maximum of this work.
	tree  any
	bound workBound
	// patterns are the regular expressions by their texts.
	patterns map[string]program
}

// maxDetailedBytes is the maximum size of arguments whose violations are listed individually.
const maxDetailedBytes = 16 << 10

// CompileSchema compiles the schema of arguments. The schema must not
// contain references. An error says why raw is not a JSON Schema.
func CompileSchema(raw json.RawMessage) (*Schema, error) {
	tree, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return nil, fmt.Errorf("read the schema of arguments: %w", err)
	}
	const name = "arguments.json"
	c := jsonschema.NewCompiler()
	out := &Schema{tree: tree, patterns: map[string]program{}}
	c.UseRegexpEngine(out.compilePattern)
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
	out.bound.count(tree, out.patterns)
	return out, nil
}

// program is a compiled regular expression. instructions is the number
// of its RE2 instructions, or 0 for an expression that is not checked.
type program struct {
	jsonschema.Regexp
	instructions int
}

// compilePattern compiles a regular expression of a schema. Expressions that package regex does not support, such as
// those with back-references, match every text: the build of a project warns about them, and the upstream checks them.
func (s *Schema) compilePattern(text string) (jsonschema.Regexp, error) {
	p, known := s.patterns[text]
	if !known {
		p = program{Regexp: matchAll(text)}
		if compiled, err := regex.Compile(text); err == nil {
			p = program{Regexp: compiled, instructions: compiled.Instructions()}
		}
		s.patterns[text] = p
	}
	return p.Regexp, nil
}

// matchAll is a regular expression that is not checked, so it matches every text.
type matchAll string

// MatchString implements jsonschema.Regexp.
func (matchAll) MatchString(string) bool { return true }

// String implements jsonschema.Regexp.
func (a matchAll) String() string { return string(a) }

// Read checks the arguments of a call and decodes them into dst, like encoding/json.
// Missing arguments count as an empty object. Its errors are those of Check.
func (s *Schema) Read(ctx context.Context, raw json.RawMessage, dst any) error {
	if trimmed := bytes.TrimSpace(raw); len(trimmed) == 0 || string(trimmed) == "null" {
		raw = json.RawMessage("{}")
	}
	if err := s.Check(ctx, raw); err != nil {
		return err
	}
	if json.Unmarshal(raw, dst) != nil {
		return Invalid("Send arguments as a JSON object.")
	}
	return nil
}

// Check validates arguments, a JSON object, against the schema. It returns an error for the call (Invalid). The error
// lists the first violations if the arguments have at most maxDetailedBytes. All calls of a batch share one bound of
// work (withSharedWork).
func (s *Schema) Check(ctx context.Context, raw json.RawMessage) error {
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return Invalid("Send arguments as a JSON object.")
	}
	if s.tooExpensive(ctx, value, len(raw)) {
		return Invalid("Send fewer values at once: these take too long to be checked.")
	}
	err = s.validate(value, len(raw))
	if err == nil {
		return nil
	}
	if errors.Is(err, errTooLarge) {
		return Invalid("Correct the arguments: they do not match their schema, and are too large to list the violations.")
	}
	e, ok := errors.AsType[*jsonschema.ValidationError](err)
	if !ok {
		return Invalid("These arguments cannot be checked. Send those that tools/list describes.")
	}
	printer := message.NewPrinter(language.English)
	return Invalid("Correct the arguments: %s.", strings.Join(violations(e, func(kind jsonschema.ErrorKind) string {
		return kind.LocalizedString(printer)
	}), "; "))
}

// CheckResult validates the JSON of a result. It returns the first violations, or one text for a result of more than
// maxDetailedBytes. A violation has the place and the keyword, but never a value. CheckResult returns nil for a
// valid result, for a result that would take too long to be checked, and for numbers that are too large or too precise
// for exact arithmetic. Results do not use the work that the calls of a batch share.
func (s *Schema) CheckResult(raw json.RawMessage) []string {
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return []string{"it is not JSON"}
	}
	if hasUnsafeNumber(value) || s.exceedsWork(value, len(raw), nil) {
		return nil
	}
	if err = s.validate(value, len(raw)); err == nil {
		return nil
	}
	e, ok := errors.AsType[*jsonschema.ValidationError](err)
	if !ok {
		return []string{errTooLarge.Error()}
	}
	return violations(e, func(kind jsonschema.ErrorKind) string {
		return "does not match " + strings.Join(kind.KeywordPath(), "/")
	})
}

// hasUnsafeNumber reports whether a value contains a number that is not safe for exact arithmetic (isSafeNumber).
func hasUnsafeNumber(value any) bool {
	switch v := value.(type) {
	case json.Number:
		return !isSafeNumber(v.String())
	case []any:
		return slices.ContainsFunc(v, hasUnsafeNumber)
	case map[string]any:
		for _, member := range v {
			if hasUnsafeNumber(member) {
				return true
			}
		}
	}
	return false
}

// errTooLarge is the error for an invalid value of more than maxDetailedBytes.
var errTooLarge = errors.New("it does not match, and is too large to list the violations")

// validate returns an error for an invalid value. bytes is the size of the value as JSON.
func (s *Schema) validate(value any, bytes int) error {
	if bytes <= maxDetailedBytes {
		return s.schema.Validate(value)
	}
	if s.negation.Validate(value) == nil {
		return errTooLarge
	}
	return nil
}

// Bounds of the violations in an error.
const (
	maxViolations     = 5
	maxViolationBytes = 200
)

// violations returns up to maxViolations violations, each with its place and its description.
func violations(e *jsonschema.ValidationError, describe func(jsonschema.ErrorKind) string) []string {
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
		// The message about a pattern contains the value, which can be a credential in the wrong argument.
		text := credential.Redact(strings.ToValidUTF8(at+" "+describe(e.ErrorKind), ""))
		if len(text) > maxViolationBytes {
			text = strings.ToValidUTF8(text[:maxViolationBytes], "") + "…"
		}
		out = append(out, text)
	}
	collect(e)
	return out
}
