//go:build !linux

package processes

import "context"

// end waits for the process's end, and reports whether it came before that of ctx.
func (p Process) end(ctx context.Context) bool { return p.endSeen(ctx) }
