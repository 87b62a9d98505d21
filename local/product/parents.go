package product

import (
	"context"

	"github.com/gatewright/gatewright/shared/base/processes"
)

func launchers() []processes.Process { return processes.Launchers() }

// stopWithParents calls stop with the name of the first launcher that ends, when it has ended.
func stopWithParents(ctx context.Context, stop func(name string)) {
	parents := launchers()
	go func() {
		if exited, ok := processes.WaitFirstExit(ctx, parents); ok {
			stop(exited.Name)
		}
	}()
}
