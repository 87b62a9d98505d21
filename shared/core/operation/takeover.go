package operation

import (
	"context"
	"errors"
	"fmt"
)

// ExpireLeases ends the leases of all operations, so that the next Sweep resumes these operations
// immediately. It returns the number of leases that it has ended. Call it only if no worker is alive, in this
// or any other process. A process with the exclusive lock of a data directory can be sure of this when it
// starts. A process that shares its table with other processes cannot, so it has to wait until leases expire.
//
// A lease that ExpireLeases has ended counts as a worker's death, like an expired lease. So a step that
// kills its workers fails after State.MaxDeaths deaths, no matter how soon the process starts again.
func (e *Engine) ExpireLeases(ctx context.Context) (expired int, err error) {
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
		next.Lease = &Lease{UnknownAttributes: r.Lease.UnknownAttributes, Owner: r.Lease.Owner, Until: instant(now)}
		next.setDue(now)
		switch err := e.table.Commit(ctx, next.put(r.Version)); {
		case errors.Is(err, ErrLost):
		case err != nil:
			return expired, fmt.Errorf("end the lease of operation %s: %w", r.ID, err)
		default:
			expired++
		}
	}
	return expired, nil
}
