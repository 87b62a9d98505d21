// Package flight reads once for all who ask for the same at the same time: what comes after a cache, so that one that
// is empty or old costs the table one read and not one for each request.
//
// What it is not: a cache. It remembers nothing of a read that is over.
//
// Read this file; golang.org/x/sync/singleflight does the work, and this adds what each reader of the table needs of
// it: values of a type, a bound of time, and that who leaves takes nobody along.
package flight

import (
	"context"
	"time"

	"golang.org/x/sync/singleflight"
)

// Group are reads of values of one type. Its zero value has none under way. It is safe for concurrent use.
type Group[V any] struct{ flights singleflight.Group }

// Do gives what read gives, the error with it: of the read for the same key that is under way, or of a new one. A read
// does not end with the first of those who ask; it has the values of that one's context, and ends after most. Whoever
// leaves before gets the cause of its own context's end.
func (g *Group[V]) Do(ctx context.Context, key string, most time.Duration, read func(ctx context.Context) (V, error)) (V, error) {
	flight := g.flights.DoChan(key, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), most)
		defer cancel()
		return read(ctx)
	})
	select {
	case <-ctx.Done():
		var none V
		return none, context.Cause(ctx)
	case result := <-flight:
		value, _ := result.Val.(V)
		return value, result.Err
	}
}
