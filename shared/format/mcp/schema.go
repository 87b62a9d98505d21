package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/gatewright/gatewright/shared/format/schema"
	"github.com/gatewright/gatewright/shared/thirdparty/jsonschema"
)

// Package schema validates arguments, in place of the SDK: the SDK stops at the first violation, and does not report its
// place.

// Schema is the schema of the arguments of a tool or prompt, or of the results of a tool.
type Schema struct{ compiled *schema.Schema }

// CompileSchema compiles a schema. Its references must lead to parts of the schema. An error says why raw is not a JSON
// Schema.
func CompileSchema(raw json.RawMessage) (*Schema, error) {
	compiled, err := schema.Compile(raw)
	if err != nil {
		return nil, err
	}
	return &Schema{compiled}, nil
}

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

// Check validates arguments, a JSON object, against the schema. It returns an error for the call (Invalid), with the
// first violations. All calls of a batch share one bound of work (withSharedWork).
func (s *Schema) Check(ctx context.Context, raw json.RawMessage) error {
	value, violation := schema.Decode(raw)
	if violation != nil {
		return Invalid("Send arguments as a JSON object. %s.", describe(*violation))
	}
	violations, _, err := s.compiled.Validate(value, workOf(ctx), maxViolations)
	if errors.Is(err, schema.ErrTooMuchWork) {
		return Invalid("Send fewer values at once: these take too long to be checked.")
	}
	if len(violations) == 0 {
		return err
	}
	return Invalid("Correct the arguments: %s.", strings.Join(describeAll(violations), "; "))
}

// CheckResult validates the JSON of a result, and returns the first violations. A violation has its place and the
// requirement of the schema, and never a value. CheckResult returns nil for a valid result, for a result that would take
// too long to be checked, and for a result with a number that is not safe (schema.IsSafeNumber). Results do not use the
// work that the calls of a batch share.
func (s *Schema) CheckResult(raw json.RawMessage) []string {
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return []string{"it is not JSON"}
	}
	if schema.HasUnsafeNumber(value) {
		return nil
	}
	violations, _, err := s.compiled.Validate(value, schema.NewWork(), maxViolations)
	if err != nil {
		return nil
	}
	return describeAll(violations)
}

// Bounds of the violations in an error.
const (
	maxViolations     = 5
	maxViolationBytes = 200
)

func describeAll(violations []schema.Violation) []string {
	var out []string
	for _, v := range violations {
		if text := describe(v); !slices.Contains(out, text) {
			out = append(out, text)
		}
	}
	return out
}

// describe returns a violation as text. It cuts a text after maxViolationBytes, and adds an ellipsis.
func describe(v schema.Violation) string {
	if v.Pointer == "" {
		v.Pointer = "/"
	}
	text := v.Pointer + " " + v.Detail
	if len(text) <= maxViolationBytes {
		return text
	}
	end := maxViolationBytes
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + "…"
}

// workKey is the context key of a *schema.Work: the work that remains for the calls of a batch.
type workKey struct{}

// withSharedWork returns a context whose calls all share one schema.MaxWork.
func withSharedWork(ctx context.Context) context.Context {
	return context.WithValue(ctx, workKey{}, schema.NewWork())
}

// workOf returns the work that remains for a call.
func workOf(ctx context.Context) *schema.Work {
	if shared, ok := ctx.Value(workKey{}).(*schema.Work); ok {
		return shared
	}
	return schema.NewWork()
}
