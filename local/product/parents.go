package product

import (
	"context"

	"github.com/gatewright/gatewright/shared/base/processes"
)

func launchers() []processes.Process { return processes.Launchers() }

// onLauncherExit calls stop with the name of the first launcher of this process that ends.
func onLauncherExit(ctx context.Context, stop func(name string)) {
	watched := launchers()
	go func() {
		if exited, ok := processes.WaitFirstExit(ctx, watched); ok {
			stop(exited.Name)
		}
	}()
}
