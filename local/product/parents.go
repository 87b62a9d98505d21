package product

import (
	"context"

	"github.com/gatewright/gatewright/local/processes"
)

func launchers() []processes.Process { return processes.Launchers() }

// stopWithParents calls stop when one of the launchers is gone.
func stopWithParents(ctx context.Context, stop func(name string)) {
	watched := launchers()
	go func() {
		if gone, ok := processes.FirstGone(ctx, watched); ok {
			stop(gone.Name)
		}
	}()
}
