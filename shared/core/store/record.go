package store

import "time"

// This file has types that many packages use.

// Instant converts a time to the form that records store: UTC, to the millisecond (contract 1.4).
func Instant(t time.Time) time.Time { return t.UTC().Truncate(time.Millisecond) }

// Page selects a part of a list: at most Limit entries after the first Offset entries, or after the
// position After. If After is not "", it replaces Offset. A position is a text that identifies the
// place of an entry in the list, such as the entry's sort key. It stays valid when entries before it
// are added or deleted. Package api converts positions to the cursors that clients see, and back.
type Page struct {
	Limit, Offset int
	After         string
}

// Patch is the change of one field in an update. The zero value leaves the field unchanged.
type Patch[T any] struct {
	// Set is whether the field changes. If Set is true and Value is nil, the field is cleared.
	Set   bool
	Value *T
}

// PatchTo returns a patch that replaces a field.
func PatchTo[T any](v T) Patch[T] { return Patch[T]{Set: true, Value: &v} }

// PatchClear returns a patch that clears a field.
func PatchClear[T any]() Patch[T] { return Patch[T]{Set: true} }

// ApplyTo returns the field's value after the patch, the zero value if the patch clears it.
func (p Patch[T]) ApplyTo(old T) T {
	if !p.Set {
		return old
	}
	if p.Value == nil {
		var zero T
		return zero
	}
	return *p.Value
}
