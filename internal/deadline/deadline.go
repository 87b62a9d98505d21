// Package deadline bounds how long tests wait on the real clock for what has to happen.
//
// It is for tests alone. There is only this file.
package deadline

import (
	"os"
	"time"
)

// VarPlanted is the environment variable with which internal/guards names the defect that a test binary runs with, empty for none.
const VarPlanted = "PLANTED_DEFECT"

// Long returns a minute, so that a machine that is ten times slower passes too. With a planted defect it returns five seconds: many
// guards fail because what they wait for never happens.
func Long() time.Duration {
	if os.Getenv(VarPlanted) != "" {
		return 5 * time.Second
	}
	return time.Minute
}
