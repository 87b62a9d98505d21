package embedded

import (
	"math"
	"time"
)

// AwaitHousekeeping waits for the first run of an engine's housekeeping.
func AwaitHousekeeping(b *Backend) {
	for next := int64(0); next == 0 || next == math.MaxInt64; next = b.nextCleanup.Load() {
		time.Sleep(time.Millisecond)
	}
}
