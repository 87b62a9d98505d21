package embedded

import (
	"math"
	"time"
)

// AwaitFirstLook waits until the housekeeping of an engine has looked once.
func AwaitFirstLook(b *Backend) {
	for at := int64(0); at == 0 || at == math.MaxInt64; at = b.alarm.Load() {
		time.Sleep(time.Millisecond)
	}
}
