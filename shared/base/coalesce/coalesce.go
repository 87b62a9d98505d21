// Package coalesce combines concurrent reads of the same key into one read. Use it behind a cache,
// so that an empty or expired cache costs the table one read and not one for each request.
//
// It is not a cache: it does not store the result of a read that has ended.
//
// This is the only file. golang.org/x/sync/singleflight does the work. This package adds what readers of the table
// need: typed values, a time limit, and a read that continues when one of its callers leaves.
package coalesce

import (
	"context"
	"time"

	"golang.org/x/sync/singleflight"
)

// Group combines concurrent reads of values of one type. Its zero value is ready to use. It is safe for concurrent use.
type Group[V any] struct{ calls singleflight.Group }

// Do returns the result of calling read, including its error. If a call for the same key is in flight, Do waits for the
// result of that call. Otherwise it starts one. The call continues when the context of the caller that started it ends.
// The context of the call has that caller's values, and ends after timeout. A caller whose own context ends first gets
// the cause of that context as its error.
func (g *Group[V]) Do(
	ctx context.Context, key string, timeout time.Duration, read func(ctx context.Context) (V, error),
) (V, error) {
	ch := g.calls.DoChan(key, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
		defer cancel()
		return read(ctx)
	})
	select {
	case <-ctx.Done():
		var zero V
		return zero, context.Cause(ctx)
	case result := <-ch:
		value, _ := result.Val.(V)
		return value, result.Err
	}
}
