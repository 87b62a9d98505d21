// Package deadline bounds how long tests wait on the real clock for what has to happen.
//
// It is for tests alone. There is only this file.
package deadline

import (
	"os"
	"time"
)

// VarPlanted is the environment variable with which internal/guards names the defect that a test binary runs with. It is empty in
// all other runs. In a run of internal/guards without a defect it has a name that no defect has.
const VarPlanted = "PLANTED_DEFECT"

// Long returns a minute, so that a machine that is ten times slower passes too. In a run of internal/guards it returns five seconds:
// with their defects, many guards wait for what never happens.
func Long() time.Duration {
	if os.Getenv(VarPlanted) != "" {
		return 5 * time.Second
	}
	return time.Minute
}
