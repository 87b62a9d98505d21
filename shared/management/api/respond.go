package api

import "github.com/gatewright/gatewright/shared/core/store"

// Body is the Out of an operation that returns one value.
type Body[T any] struct{ Body T }

// Respond returns a function that converts the results of a service's method to
// the results of an operation. Call the function with the results of the method:
//
//	return api.Respond(newBucket)(h.service.ReadBucket(ctx, in.at(ctx)))
func Respond[V, T any](convert func(V) T) func(V, error) (*Body[T], error) {
	return func(v V, err error) (*Body[T], error) {
		if err != nil {
			return nil, err
		}
		return &Body[T]{convert(v)}, nil
	}
}

// RespondPage is like Respond, for a method that returns a page of a list and the total number of entries.
func RespondPage[V, T any](page Page, convert func(V) T) func([]V, int, error) (*Body[List[T]], error) {
	return func(values []V, total int, err error) (*Body[List[T]], error) {
		if err != nil {
			return nil, err
		}
		return &Body[List[T]]{NewList(Map(values, convert), page, total)}, nil
	}
}

// RespondSlice is like Respond, for a method that returns a whole list. The operation returns one page of the list.
func RespondSlice[V, T any](page Page, convert func(V) T) func([]V, error) (*Body[List[T]], error) {
	return func(all []V, err error) (*Body[List[T]], error) {
		if err != nil {
			return nil, err
		}
		return &Body[List[T]]{Slice(Map(all, convert), page)}, nil
	}
}

// Map converts every entry of a list with convert. It returns an empty list for nil, which would be null in JSON.
func Map[V, T any](all []V, convert func(V) T) []T {
	out := make([]T, len(all))
	for i, v := range all {
		out[i] = convert(v)
	}
	return out
}

// Patch returns the change that an optional field of a body makes to the field of a record.
func (o Optional[T]) Patch() store.Patch[T] { return PatchWith(o, func(v T) T { return v }) }

// PatchWith is like Patch, for a field that has another type in the service.
func PatchWith[T, P any](o Optional[T], convert func(T) P) store.Patch[P] {
	switch {
	case !o.Set:
		return store.Patch[P]{}
	case o.Null:
		return store.PatchClear[P]()
	}
	return store.PatchTo(convert(o.Value))
}
