// Package deadline bounds how long tests wait on the real clock for an event that has to happen.
//
// It is for tests only. This is the only file.
package deadline

import (
	"os"
	"time"
)

// VarPlanted is the environment variable that passes the name of the planted defect from internal/planted to a test
// binary. It is empty in all other runs. In a run of internal/planted without a defect, its value is not empty, but it
// is not the name of a defect: Timeout is as short as with a defect.
const VarPlanted = "PLANTED_DEFECT"

// Timeout returns a minute, so that a machine that is ten times slower passes too. In a run of internal/planted it
// returns five seconds: many tests that find a planted defect wait for an event that never happens.
func Timeout() time.Duration {
	if os.Getenv(VarPlanted) != "" {
		return 5 * time.Second
	}
	return time.Minute
}
