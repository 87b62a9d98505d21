package api

import (
	"bytes"
	"reflect"

	"github.com/danielgtaylor/huma/v2"
)

// Optional is a body field that distinguishes absent, null and a value, as an update needs: an absent field keeps
// the stored value, null clears it, and a value replaces it.
type Optional[T any] struct {
	// Set is true if the field was in the body. Null is true if the field was null.
	Set, Null bool
	// Value is the field's value if it was present and not null.
	Value T
}

// UnmarshalJSON sets Set, because it is called only for a field that is present.
func (o *Optional[T]) UnmarshalJSON(b []byte) error {
	o.Set = true
	if bytes.Equal(bytes.TrimSpace(b), []byte("null")) {
		o.Null = true
		return nil
	}
	return decode(b, &o.Value)
}

// Schema returns the schema of a T that can be null, for huma.
func (o Optional[T]) Schema(r huma.Registry) *huma.Schema {
	s := *r.Schema(reflect.TypeFor[T](), false, "")
	s.Nullable = true
	return &s
}
