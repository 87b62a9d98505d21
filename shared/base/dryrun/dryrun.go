// Package dryrun marks the work of dry runs. A dry run is a request that does all of its work except its effects.
//
// Writes to the table go into an overlay (store.BeginDryRun), so that the dry run can continue and read them. All other
// code with an effect outside the process calls Refuse first. In a dry run, Refuse returns an error, so that the effect
// never happens. Package cloud refuses all AWS requests that are not known to be read-only.
//
// The package does not know which effects exist. Package api begins dry runs. This is the only file.
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
	mu       sync.Mutex
	removals map[string]int
}

type contextKey struct{}

// Begin returns the context of a new dry run.
func Begin(ctx context.Context) (context.Context, *Run) {
	r := &Run{removals: map[string]int{}}
	return context.WithValue(ctx, contextKey{}, r), r
}

// Exempt returns a context for an effect that happens even in a dry run, such as the creation of the installation's
// root key at its first use. reason names the effect. Exempt panics if reason is "".
func Exempt(ctx context.Context, reason string) context.Context {
	if reason == "" {
		panic("dryrun: an effect in a dry run has to say why it may be")
	}
	return context.WithValue(ctx, contextKey{}, (*Run)(nil))
}

func fromContext(ctx context.Context) *Run {
	r, _ := ctx.Value(contextKey{}).(*Run)
	return r
}

// Active reports whether the context belongs to a dry run.
func Active(ctx context.Context) bool { return fromContext(ctx) != nil }

// ErrEffect is the error that Refuse returns in a dry run. It shows a defect in the code that called Refuse, not a
// mistake in the request.
var ErrEffect = errors.New("dryrun: an effect in a dry run")

// Refuse returns an error that wraps ErrEffect if ctx belongs to a dry run, and nil otherwise. effect names the effect
// that is about to happen.
func Refuse(ctx context.Context, effect string) error {
	if Active(ctx) {
		return fmt.Errorf("%w: %s", ErrEffect, effect)
	}
	return nil
}

// ReportRemovals reports to the context's dry run how many objects of each type, such as "apiKeys", a deletion removes.
// It calls count to get these numbers, which include objects that durable operations delete later. Outside of a dry
// run, ReportRemovals does not call count. A repeated report for a type replaces the earlier one: a transaction can run
// several times.
func ReportRemovals(ctx context.Context, count func(ctx context.Context) (map[string]int, error)) error {
	r := fromContext(ctx)
	if r == nil {
		return nil
	}
	counts, err := count(ctx)
	if err != nil {
		return fmt.Errorf("count what a deletion removes: %w", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.Copy(r.removals, counts)
	return nil
}

// Removals returns the numbers of removed objects that ReportRemovals has received, by type.
func (r *Run) Removals() map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.removals)
}
