package mcp

import (
	"context"
	"encoding/json"
	"sync/atomic"
)

// This file bounds the cost of validating arguments. A validator can compare each value with each
// alternative of an anyOf, and a client can send a megabyte of values as easily as a kilobyte.
// Without the bound, a hundred alternatives for each of 80,000 objects took a minute of processor
// time. Matching one string of a megabyte with a pattern of nested repetitions took half a minute.

// maxWork is the maximum work for all calls of one body. The unit is applying one schema to one
// value, which takes some 2 µs. The maximum takes a second or two. A body has at most 50,000 values.
const maxWork = 600_000

// Amounts of other work that take as long as one unit, some 2 µs.
const (
	// enumValuesPerUnit is the number of strings of an enumeration that are compared in this
	// time. Each number of an enumeration takes a whole unit, since numbers are compared exactly.
	enumValuesPerUnit = 32
	// copiedBytesPerUnit is the number of bytes of a string that are copied in this
	// time, at 2.7 ns each. Each schema that is applied to a string copies the string.
	copiedBytesPerUnit = 512
	// matchStepsPerUnit is the number of steps of pattern matching in this time. A step tries
	// one instruction on one byte. It takes 10 to 25 ns if RE2 cannot use a fast algorithm.
	matchStepsPerUnit = 64
)

// workKey is the context key of an *atomic.Int64: the part of maxWork that remains for the calls of a batch.
type workKey struct{}

// withSharedWork returns a context whose calls all share one maxWork.
func withSharedWork(ctx context.Context) context.Context {
	remaining := &atomic.Int64{}
	remaining.Store(maxWork)
	return context.WithValue(ctx, workKey{}, remaining)
}

// tooExpensive reports whether validating the arguments would exceed the remaining work. bytes is the size of the
// arguments as JSON. In a batch, tooExpensive subtracts the work from the work that remains for the next calls.
func (s *Schema) tooExpensive(ctx context.Context, arguments any, bytes int) bool {
	shared, _ := ctx.Value(workKey{}).(*atomic.Int64)
	return s.exceedsWork(arguments, bytes, shared)
}

// exceedsWork reports whether validating a value would exceed maxWork or, if shared is not nil, the work that
// remains there. It subtracts the work from shared. bytes is the size of the value as JSON.
func (s *Schema) exceedsWork(value any, bytes int, shared *atomic.Int64) bool {
	w := &workEstimator{remaining: maxWork, patterns: s.patterns}
	switch {
	case shared != nil:
		w.remaining = int(shared.Load())
	case s.bound.forSize(bytes) <= maxWork:
		return false
	}
	w.estimate(s.tree, value)
	if w.remaining < 0 {
		return true
	}
	if shared != nil {
		shared.Store(int64(w.remaining))
	}
	return false
}

// workBound has the properties of a schema that determine the maximum work for arguments of a size (forSize).
// If this maximum is at most maxWork, tooExpensive does not have to estimate the work for the actual arguments.
type workBound struct {
	// parts is the number of JSON values in the schema, including all subschemas and all values of enumerations.
	parts int
	// instructions is the number of instructions of all patterns. lists is the number of subschemas with uniqueItems.
	instructions, lists int
}

// count adds a part of a schema and the parts within it.
func (b *workBound) count(part any, patterns map[string]program) {
	b.parts++
	switch v := part.(type) {
	case []any:
		for _, item := range v {
			b.count(item, patterns)
		}
	case map[string]any:
		if text, ok := v["pattern"].(string); ok {
			b.instructions += patterns[text].instructions
		}
		names, _ := v["patternProperties"].(map[string]any)
		for text := range names {
			b.instructions += patterns[text].instructions
		}
		if v["uniqueItems"] == true {
			b.lists++
		}
		for _, item := range v {
			b.count(item, patterns)
		}
	}
}

// forSize returns the maximum work for arguments of this size. A value or a name has at least two bytes, and a list
// within a list has at least three, including its comma. No part of a schema is applied to the same value twice.
func (b *workBound) forSize(bytes int) int {
	values, nested := bytes/2+1, bytes/3+1
	return values*b.parts + bytes*b.instructions/matchStepsPerUnit + b.lists*(values+nested*nested/enumValuesPerUnit)
}

// workEstimator follows the steps of a validator without comparing values.
type workEstimator struct {
	remaining int
	patterns  map[string]program
}

// estimate subtracts the work of validating a value against a schema from remaining.
func (w *workEstimator) estimate(schema, value any) {
	object, ok := schema.(map[string]any)
	if w.remaining--; w.remaining < 0 || !ok {
		return
	}
	values, _ := object["enum"].([]any)
	others := 0
	for _, e := range values {
		if _, ok := e.(json.Number); ok {
			w.remaining--
		} else {
			others++
		}
	}
	w.remaining -= others / enumValuesPerUnit
	for _, keyword := range [...]string{"allOf", "anyOf", "oneOf"} {
		parts, _ := object[keyword].([]any)
		for _, part := range parts {
			w.estimate(part, value)
		}
	}
	for _, keyword := range [...]string{"not", "if", "then", "else"} {
		w.estimateKeyword(object, keyword, value)
	}
	dependent, _ := object["dependentSchemas"].(map[string]any)
	for _, part := range dependent {
		w.estimate(part, value)
	}
	switch v := value.(type) {
	case string:
		pattern, _ := object["pattern"].(string)
		w.remaining -= len(v)/copiedBytesPerUnit + w.matchWork(pattern, v)
	case []any:
		w.estimateItems(object, v)
	case map[string]any:
		w.estimateMembers(object, v)
	}
}

// matchWork returns the work of matching a text with a pattern. It returns 0 for a pattern that is not checked.
func (w *workEstimator) matchWork(pattern, text string) int {
	return len(text) * w.patterns[pattern].instructions / matchStepsPerUnit
}

// estimateKeyword is like estimate, for the schema that a keyword of object has, if there is one.
func (w *workEstimator) estimateKeyword(object map[string]any, keyword string, value any) {
	if schema, exists := object[keyword]; exists {
		w.estimate(schema, value)
	}
}

func (w *workEstimator) estimateItems(object map[string]any, list []any) {
	first, _ := object["prefixItems"].([]any)
	nested := 0
	for i, value := range list {
		if w.remaining < 0 {
			return
		}
		if i < len(first) {
			w.estimate(first[i], value)
		} else {
			w.estimateKeyword(object, "items", value)
		}
		w.estimateKeyword(object, "contains", value)
		w.estimateKeyword(object, "unevaluatedItems", value)
		switch value.(type) {
		case []any, map[string]any:
			nested++
		}
	}
	if object["uniqueItems"] == true {
		// The validator compares values with equal hashes with one another,
		// and a client can choose lists and objects with equal hashes.
		w.remaining -= len(list) + nested*nested/enumValuesPerUnit
	}
}

func (w *workEstimator) estimateMembers(object, members map[string]any) {
	properties, _ := object["properties"].(map[string]any)
	patterns, _ := object["patternProperties"].(map[string]any)
	for name, value := range members {
		if w.remaining < 0 {
			return
		}
		if schema, exists := properties[name]; exists {
			w.estimate(schema, value)
		} else {
			w.estimateKeyword(object, "additionalProperties", value)
		}
		for pattern, schema := range patterns {
			w.remaining -= w.matchWork(pattern, name)
			w.estimate(schema, value)
		}
		w.estimateKeyword(object, "propertyNames", name)
		w.estimateKeyword(object, "unevaluatedProperties", value)
	}
}
