package store

import "time"

// Below are forms that the records of many packages share.

// Instant is a time as records hold it: UTC, to the millisecond (contract 1.4).
func Instant(t time.Time) time.Time { return t.UTC().Truncate(time.Millisecond) }

// Page is a part of a list: at most Limit entries after the first Offset, or
// behind the position After, which is not "" then and stands in for Offset. A
// position is the list's own text for where an entry stands, such as its sort key:
// it means the same when entries before it come or go. Package api makes it the
// cursor that clients see, and back.
type Page struct {
	Limit, Offset int
	After         string
}

// Patch is what an update does with a field. The zero value keeps it.
type Patch[T any] struct {
	// Set is whether the field changes; Value nil clears it then.
	Set   bool
	Value *T
}

// PatchTo replaces a field.
func PatchTo[T any](v T) Patch[T] { return Patch[T]{Set: true, Value: &v} }

// PatchClear empties a field.
func PatchClear[T any]() Patch[T] { return Patch[T]{Set: true} }

// Over gives the field's value after the patch, the zero value when cleared.
func (p Patch[T]) Over(old T) T {
	if !p.Set {
		return old
	}
	if p.Value == nil {
		var zero T
		return zero
	}
	return *p.Value
}
