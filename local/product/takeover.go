package product

import (
	"context"
	"log/slog"

	"github.com/gatewright/gatewright/shared/durable"
)

// takeOver ends the leases that an earlier process has left, so that the first sweep goes on with its operations at once:
// builds, cascades, deletions, rotations, certificates. The lock of the data directory, and that of the engine in it, prove that
// this process is alone, and it has no worker yet. A DynamoDB, also the one of an emulator, may be asked by others.
//
// Of what else is held for a time nothing is taken. What gateways have leased of quotas comes back as the books say, since a unit
// that is handed out twice is one too many. An Idempotency-Key whose first request was killed between two commits is
// free 35 s later. Streams, and the relay's tunnels, are counted in the process.
func (o *opened) takeOver(ctx context.Context, log *slog.Logger) error {
	if o.database.engine == nil {
		return nil
	}
	engine, err := durable.Engine(o.parts)
	if err != nil {
		return err
	}
	ended, err := engine.TakeOver(ctx)
	if err != nil {
		return err
	}
	if ended > 0 {
		log.InfoContext(ctx, "operations of a process that has ended go on", "operations", ended)
	}
	return nil
}
