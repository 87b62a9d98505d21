package product

import (
	"context"
	"log/slog"

	"github.com/gatewright/gatewright/shared/runtime/durable"
)

// takeOver ends the leases of durable operations that an earlier process has left, so that the first sweep resumes
// these operations at once. This is safe because the locks of the data directory and of its engine prove that no other
// process uses the data, and this process has no worker yet. If the table is in DynamoDB or its emulator, other
// processes can use it, so takeOver does nothing.
//
// takeOver does not end other leases. Unspent quota units of the earlier process are returned when its journal has not
// been written for a minute (allowance.Reclaim), because no unit may be spent twice. An Idempotency-Key whose first
// request was killed can be used again after 35 s. Streams and tunnels are counted in memory, so they leave no leases.
func (r *resources) takeOver(ctx context.Context, log *slog.Logger) error {
	if r.database.engine == nil {
		return nil
	}
	engine, err := durable.Engine(r.parts)
	if err != nil {
		return err
	}
	resumed, err := engine.ExpireLeases(ctx)
	if err != nil {
		return err
	}
	if resumed > 0 {
		log.InfoContext(ctx, "resuming the operations of an earlier process", "operations", resumed)
	}
	return nil
}
