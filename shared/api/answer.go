package api

import "github.com/gatewright/gatewright/shared/store"

// Body is the Out of an operation that answers one value.
type Body[T any] struct{ Body T }

// Answer makes what a service gives into what an operation answers: it takes the
// results of a service's method as they are.
//
//	return api.Answer(showBucket)(h.service.ReadBucket(ctx, in.at(ctx)))
func Answer[V, T any](show func(V) T) func(V, error) (*Body[T], error) {
	return func(v V, err error) (*Body[T], error) {
		if err != nil {
			return nil, err
		}
		return &Body[T]{show(v)}, nil
	}
}

// AnswerPage is Answer for a page of a list, and how many entries there are in
// all.
func AnswerPage[V, T any](page Page, show func(V) T) func([]V, int, error) (*Body[List[T]], error) {
	return func(found []V, total int, err error) (*Body[List[T]], error) {
		if err != nil {
			return nil, err
		}
		return &Body[List[T]]{NewList(Each(found, show), page, total)}, nil
	}
}

// AnswerPart is Answer for a whole list, of which it answers a page.
func AnswerPart[V, T any](page Page, show func(V) T) func([]V, error) (*Body[List[T]], error) {
	return func(all []V, err error) (*Body[List[T]], error) {
		if err != nil {
			return nil, err
		}
		return &Body[List[T]]{Slice(Each(all, show), page)}, nil
	}
}

// Each shows every entry of a list. It gives an empty list for none, never nil:
// JSON has null for that.
func Each[V, T any](all []V, show func(V) T) []T {
	out := make([]T, len(all))
	for i, v := range all {
		out[i] = show(v)
	}
	return out
}

// Patch is what an optional field of a body does to the field of a record.
func (o Optional[T]) Patch() store.Patch[T] { return PatchOf(o, func(v T) T { return v }) }

// PatchOf is Patch for a field that the service takes as another type.
func PatchOf[T, P any](o Optional[T], turn func(T) P) store.Patch[P] {
	switch {
	case !o.Set:
		return store.Patch[P]{}
	case o.Null:
		return store.PatchClear[P]()
	}
	return store.PatchTo(turn(o.Value))
}
