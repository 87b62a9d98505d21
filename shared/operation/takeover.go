package operation

import (
	"context"
	"errors"
	"fmt"
)

// TakeOver ends the leases of all operations, so that the next Sweep resumes them at once. It returns how many leases it has
// ended. Call it only if no other worker can be alive, and before this process has one. A process that holds the exclusive
// lock of a data directory knows this when it starts. If processes share a table, none of them knows it, and leases have
// to expire.
//
// A lease that TakeOver has ended counts as a worker's death, like an expired lease. So a step that kills its workers fails after
// State.Deaths of them, however fast the process starts again.
func (e *Engine) TakeOver(ctx context.Context) (ended int, err error) {
	found, err := e.List(ctx)
	if err != nil {
		return 0, err
	}
	now := e.now()
	for _, r := range found {
		if r.Lease == nil {
			continue
		}
		next := r.changed(now)
		next.Lease = &Lease{Rest: r.Lease.Rest, Owner: r.Lease.Owner, Until: instant(now)}
		next.due(now)
		switch err := e.table.Commit(ctx, next.put(r.Version)); {
		case errors.Is(err, ErrLost):
		case err != nil:
			return ended, fmt.Errorf("end the lease of operation %s: %w", r.ID, err)
		default:
			ended++
		}
	}
	return ended, nil
}
