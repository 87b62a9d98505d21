// Package schema validates JSON values against JSON Schemas: the arguments and results of MCP tools, and the requests and
// responses of routes.
//
// The library in shared/thirdparty/jsonschema does the work, within a bound of work and memory that this package sets
// (docs/decisions/0072-the-json-schema-library-is-a-changed-copy.md). Formats are asserted, if formats.go has them.
// Patterns are those of package regex. Patterns that it does not support match every text: the build of a project warns
// about them.
//
// Read this file first, then definitions.go and bound.go. violations.go selects what is wrong with a value, and requirement.go
// describes it. Both serve package project too.
package schema

import (
	"encoding/json"
	"errors"
	"slices"
	"sync/atomic"

	"github.com/gatewright/gatewright/shared/thirdparty/jsonschema"
)

// Schema is a compiled schema. It is safe for concurrent use.
type Schema struct{ root *jsonschema.Schema }

// Compile compiles a schema without Definitions. See Definitions.Compile.
func Compile(raw json.RawMessage) (*Schema, error) { return NewDefinitions(nil).Compile(raw) }

// ErrTooMuchWork is the error for a value whose validation would take too long, or would need exact arithmetic with a
// number that is not safe (IsSafeNumber).
var ErrTooMuchWork = errors.New("the value takes too long to be checked")

// MaxWork is the work that NewWork allows. The unit is some 50 ns: for example, applying one schema to one value takes 4
// units and more, and matching a pattern of 40 instructions with a string of 40 bytes takes 400. The maximum takes half a
// second.
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
// slices, strings, booleans, nil, and safe numbers (IsSafeNumber) as json.Number.
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
	before := work.Remaining()
	b := &bound{work: before}
	valid := s.root.IsValidWithin(value, b)
	work.Spend(before - max(b.work, -1))
	if b.IsSpent() {
		return false, ErrTooMuchWork
	}
	return valid, nil
}

// Bounds of the search for violations. It is a second validation, after the first one found that a value is invalid.
// Many of the errors that take memory can be about alternatives of valid parts.
const (
	maxExplainWork  = MaxWork / 4
	maxExplainBytes = 8 << 20
)

// explain returns the violations of an invalid value, at least one and at most limit, and whether there are more. They
// are in the order of their places. If there are too many, they are some of the first ones in the order of validation.
func (s *Schema) explain(value any, limit int) (violations []Violation, more bool) {
	b := &bound{work: maxExplainWork, memory: maxExplainBytes}
	more = true
	if e, ok := errors.AsType[*jsonschema.ValidationError](s.root.ValidateWithin(value, b)); ok {
		more = b.IsSpent()
		var all []located
		for _, leaf := range Leaves(e) {
			all = append(all, locate(leaf, limit+1)...)
		}
		slices.SortStableFunc(all, located.compare)
		for _, l := range all {
			v := l.describe()
			if slices.Contains(violations, v) {
				continue
			}
			if len(violations) == limit {
				return violations, true
			}
			violations = append(violations, v)
		}
	}
	if len(violations) == 0 {
		violations = []Violation{{Detail: "must match its schema, and is too large to say where it does not"}}
	}
	return violations, more
}
