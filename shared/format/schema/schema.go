// Package schema validates JSON values against JSON Schemas: the arguments and results of MCP tools, and the requests and
// responses of routes.
//
// The library in shared/thirdparty/jsonschema does the work, within limits that this package sets
// (docs/decisions/0072-the-json-schema-library-is-a-changed-copy.md). Formats are asserted, if formats.go has them.
// Patterns are those of package regex. Patterns that it does not support match every text: the build of a project warns
// about them.
//
// Read this file first, then definitions.go. violations.go selects what is wrong with a value, and requirement.go
// describes it. Both serve package project too.
package schema

import (
	"cmp"
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

// ErrTooMuchWork is the error for a value whose validation would take too long.
var ErrTooMuchWork = errors.New("the value takes too long to be checked")

// MaxWork is the work that NewWork allows. The unit is applying one schema to one value, or reading 256 bytes of a
// string. It takes some 0.4 µs, so the maximum takes about half a second.
const MaxWork = 1_000_000

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
	limits := jsonschema.Limits{Work: before, VerdictOnly: true}
	err := s.root.ValidateWithin(value, &limits)
	work.Spend(before - limits.Work)
	if limits.Work < 0 {
		work.Spend(work.Remaining() + 1) // a call that stopped early leaves nothing for others
		return false, ErrTooMuchWork
	}
	return err == nil, nil
}

// Bounds of the search for violations. It is a second validation, after the first one found that a value is invalid.
const (
	maxExplainWork  = 200_000
	maxExplainBytes = 512 << 10
)

// explain returns the violations of an invalid value, at least one and at most limit, and whether there are more. They
// are in the order of their pointers.
func (s *Schema) explain(value any, limit int) (violations []Violation, more bool) {
	limits := jsonschema.Limits{Work: maxExplainWork, Memory: maxExplainBytes}
	err := s.root.ValidateWithin(value, &limits)
	if e, ok := errors.AsType[*jsonschema.ValidationError](err); ok {
		for _, leaf := range Leaves(e) {
			violations = append(violations, describe(leaf, limit+1)...)
		}
	}
	if len(violations) == 0 {
		return []Violation{{Detail: "must match its schema, and is too large to say where it does not"}}, true
	}
	slices.SortFunc(violations, func(a, b Violation) int {
		return cmp.Or(cmp.Compare(a.Pointer, b.Pointer), cmp.Compare(a.Detail, b.Detail))
	})
	violations = slices.Compact(violations)
	more = limits.Work < 0
	if len(violations) > limit {
		violations, more = violations[:limit], true
	}
	return violations, more
}
