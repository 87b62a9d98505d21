// Package schema validates JSON values against JSON Schemas: the arguments and results of MCP tools, and the requests and
// responses of routes.
//
// The library in shared/thirdparty/jsonschema does the work, within a bound of work and memory that this package sets
// (docs/decisions/0072-the-json-schema-library-is-a-changed-copy.md). formats.go says which formats are checked.
// Package regex evaluates patterns. Patterns that it does not support match every text: the build of a project warns
// about them.
//
// Read this file first, then definitions.go and bound.go. violations.go selects the violations of a value, and
// requirement.go describes them. Package project uses both for the files of a project.
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

// MaxWork is the number of units of NewWork. A unit takes some 50 ns, so MaxWork takes half a second. For example, applying
// a schema to a value takes at least 4 units, and matching a pattern of 40 instructions with a string of 40 bytes takes
// 400.
const MaxWork = 10_000_000

// Work is the work that remains for the values of a request. It is safe for concurrent use.
type Work struct{ remaining atomic.Int64 }

// NewWork returns MaxWork units.
func NewWork() *Work {
	w := &Work{}
	w.remaining.Store(MaxWork)
	return w
}

// Remaining returns the remaining units. It is negative if a value took too long.
func (w *Work) Remaining() int { return int(w.remaining.Load()) }

// Spend subtracts the units of work that a caller does itself. It reports whether enough units remained.
func (w *Work) Spend(units int) bool { return w.remaining.Add(-int64(units)) >= 0 }

// Validate returns no violations for a valid value. For an invalid value, it returns 1 to limit violations, and reports
// whether there are more. It returns ErrTooMuchWork if the remaining work is not enough. value has the types that Decode
// returns.
func (s *Schema) Validate(value any, work *Work, limit int) (violations []Violation, more bool, err error) {
	valid, err := s.Matches(value, work)
	if valid || err != nil {
		return nil, false, err
	}
	violations, more = s.explain(value, limit)
	return violations, more, nil
}

// Matches reports whether a value is valid. It is faster than Validate for invalid values. Its errors are those of
// Validate.
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

// explain returns 1 to limit violations of an invalid value in the order of their places, and reports whether there are
// more. If the search ends at its bounds, explain returns violations among those that it has found.
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
