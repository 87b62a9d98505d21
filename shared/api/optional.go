package api

import (
	"bytes"
	"reflect"

	"github.com/danielgtaylor/huma/v2"
)

// Optional is a body field that tells apart absent, null and a value: what an
// update needs, where absent keeps, null clears and a value replaces.
type Optional[T any] struct {
	// Set is whether the field was in the body, Null whether it was null.
	Set, Null bool
	// Value is its value when it was there and not null.
	Value T
}

// UnmarshalJSON is called only for a field that is there.
func (o *Optional[T]) UnmarshalJSON(b []byte) error {
	o.Set = true
	if bytes.Equal(bytes.TrimSpace(b), []byte("null")) {
		o.Null = true
		return nil
	}
	return decode(b, &o.Value)
}

// Schema tells huma that the field is a T or null.
func (o Optional[T]) Schema(r huma.Registry) *huma.Schema {
	s := *r.Schema(reflect.TypeFor[T](), false, "")
	s.Nullable = true
	return &s
}
