// Package schema validates JSON values against JSON Schemas: the arguments and results of MCP tools, and the requests and
// responses of routes.
//
// The library in shared/thirdparty/jsonschema reads the schemas: it checks their keywords and resolves their references.
// This package evaluates them, because the library cannot bound its work and memory for hostile values, and reports
// values in its errors (docs/decisions/0075-schemas-are-evaluated-with-a-bound-of-work.md). Its tests compare the two.
//
// Formats are asserted, if formats.go has them. Patterns are those of package regex. Patterns that it does not support
// match every text: the build of a project warns about them.
//
// Read this file first, then definitions.go, compile.go and evaluate.go. violations.go selects and describes what is
// wrong with a value. It serves package project too, whose documents the library validates.
package schema

import (
	"encoding/json"
	"errors"
	"sync/atomic"

	"github.com/gatewright/gatewright/shared/thirdparty/jsonschema"
)

// Schema is a compiled schema. It is safe for concurrent use.
type Schema struct{ root *node }

// Compile compiles a schema without Definitions. See Definitions.Compile.
func Compile(raw json.RawMessage) (*Schema, error) { return NewDefinitions(nil).Compile(raw) }

// ErrTooMuchWork is the error for a value whose validation would take too long, or would need exact arithmetic with a
// number that is not safe (IsSafeNumber).
var ErrTooMuchWork = errors.New("the value takes too long to be checked")

// MaxWork is the work that NewWork allows. The unit is applying one schema to one value, or reading 64 bytes of a
// string. It takes some 50 ns, so the maximum takes half a second.
const MaxWork = 10_000_000

// Work is the work that remains for the values of a request. It is safe for concurrent use.
type Work struct{ remaining atomic.Int64 }

// NewWork returns MaxWork.
func NewWork() *Work {
	w := &Work{}
	w.remaining.Store(MaxWork)
	return w
}

// Remaining returns the remaining units. It is negative if a value took too long.
func (w *Work) Remaining() int { return int(w.remaining.Load()) }

// Spend subtracts work that a caller does itself. It reports whether the work was sufficient.
func (w *Work) Spend(units int) bool { return w.remaining.Add(-int64(units)) >= 0 }

// Validate returns nil for a valid value. For an invalid value, it returns up to limit violations, and whether there
// are more. It returns ErrTooMuchWork if the work is not sufficient. Decode returns values that Validate can check: maps,
// slices, strings, booleans, nil, and numbers as json.Number.
func (s *Schema) Validate(value any, work *Work, limit int) (violations []Violation, more bool, err error) {
	valid, err := s.Matches(value, work)
	if valid || err != nil {
		return nil, false, err
	}
	violations, more = s.explain(value, limit)
	return violations, more, nil
}

// Matches reports whether a value is valid. It is like Validate, without violations, and faster for invalid values.
func (s *Schema) Matches(value any, work *Work) (bool, error) {
	r := evaluator{work: int(work.remaining.Load())}
	before := r.work
	valid := r.check(s.root, value, nil, nil, nil)
	work.remaining.Add(int64(r.work - before))
	if r.work < 0 {
		return false, ErrTooMuchWork
	}
	return valid, nil
}

// Bounds of the search for violations. It is a second evaluation, after the first one found that a value is invalid.
const (
	maxExplainWork  = 1_000_000
	maxExplainBytes = 512 << 10
)

// explain returns the violations of an invalid value, at least one and at most limit, and whether there are more.
func (s *Schema) explain(value any, limit int) (violations []Violation, more bool) {
	r := evaluator{work: maxExplainWork}
	memory := maxExplainBytes
	found := &sink{limit: limit, memory: &memory, work: &r.work}
	r.check(s.root, value, nil, found, nil)
	for _, leaf := range Leaves(&jsonschema.ValidationError{Causes: found.errors}) {
		for _, v := range describe(leaf) {
			if len(violations) == limit {
				return violations, true
			}
			violations = append(violations, v)
		}
	}
	if len(violations) == 0 {
		violations = []Violation{{Detail: "must match its schema, and is too large to say where it does not"}}
	}
	return violations, found.isFull()
}
