package product

import (
	"context"
	"log/slog"

	"github.com/gatewright/gatewright/shared/durable"
)

// takeOver ends the leases that an earlier process has left, so that the first sweep resumes its operations at once:
// builds, cascades, deletions, rotations, certificates. The lock of the data directory, and that of the engine in it, prove that
// no other process uses the data, and this process has no worker yet. With DynamoDB, or its emulator, other processes may.
//
// takeOver does not end other leases. Units of quotas that gateways have leased come back in their own time, since no unit may
// be spent twice. An Idempotency-Key whose first request was killed between two commits is free
// 35 s later. Streams, and the relay's tunnels, are counted in the process.
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
		log.InfoContext(ctx, "resuming the operations of an earlier process", "operations", ended)
	}
	return nil
}
