//go:build !linux

package processes

import "context"

// waitExit waits for the process's end. It returns false if ctx ends first.
func (p Process) waitExit(ctx context.Context) bool { return p.pollExit(ctx) }
