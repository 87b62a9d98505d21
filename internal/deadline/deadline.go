// Package deadline bounds how long tests wait on the real clock for what has to happen.
//
// It is for tests alone. There is only this file.
package deadline

import (
	"os"
	"time"
)

// varPlanted names the defect that internal/guards has planted, "" for none.
const varPlanted = "PLANTED_DEFECT"

// Long returns a minute, so that a machine that is ten times slower passes too. With a planted defect it returns five seconds: many
// guards fail because what they wait for never happens.
func Long() time.Duration {
	if os.Getenv(varPlanted) != "" {
		return 5 * time.Second
	}
	return time.Minute
}
