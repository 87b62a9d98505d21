// Package dryrun marks the work of a request that is only tried: it does all that
// its real one would do up to its effects, and leaves none.
//
// The table's writes are kept apart there (store.Try), so that what is tried can go
// on and be read. Whatever else has an effect outside the process asks Refuse
// first: an effect that does not know dry runs is an error, never made. What is
// neither the table nor the bucket, package cloud refuses for all of AWS at once.
//
// What it is not: it knows no effect itself. Package api begins dry runs; this file
// is all of the package.
package dryrun

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
)

// Run is one dry run. It is safe for concurrent use.
type Run struct {
	mu      sync.Mutex
	removes map[string]int
}

type contextKey struct{}

// Begin gives a context under which nothing has an effect.
func Begin(ctx context.Context) (context.Context, *Run) {
	r := &Run{removes: map[string]int{}}
	return context.WithValue(ctx, contextKey{}, r), r
}

// Outside gives a context for what is no part of what is tried and lasts, such as
// the installation's root key at its first use. why says what it is: it is not ""
// (a panic).
func Outside(ctx context.Context, why string) context.Context {
	if why == "" {
		panic("dryrun: an effect in a dry run has to say why it may be")
	}
	return context.WithValue(ctx, contextKey{}, (*Run)(nil))
}

func of(ctx context.Context) *Run {
	r, _ := ctx.Value(contextKey{}).(*Run)
	return r
}

// Active reports whether the context is that of a dry run.
func Active(ctx context.Context) bool { return of(ctx) != nil }

// ErrEffect is what Refuse answers in a dry run. It is a defect of whoever made the
// effect, and no fault of the request.
var ErrEffect = errors.New("dryrun: an effect in a dry run")

// Refuse answers an error that wraps ErrEffect in a dry run, and nil otherwise.
// effect names what is about to be done.
func Refuse(ctx context.Context, effect string) error {
	if Active(ctx) {
		return fmt.Errorf("%w: %s", ErrEffect, effect)
	}
	return nil
}

// Removes tells a dry run how many objects of each type, such as "apiKeys", its
// deletion takes away, with those that durable operations remove later. Outside
// of one it does not count. A type that was told before is told anew: a decision
// may be made several times.
func Removes(ctx context.Context, count func(ctx context.Context) (map[string]int, error)) error {
	r := of(ctx)
	if r == nil {
		return nil
	}
	counted, err := count(ctx)
	if err != nil {
		return fmt.Errorf("count what a deletion removes: %w", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.Copy(r.removes, counted)
	return nil
}

// Removed gives what Removes was told.
func (r *Run) Removed() map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.removes)
}
