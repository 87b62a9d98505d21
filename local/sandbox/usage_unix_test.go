//go:build unix

package sandbox

import (
	"os"
	"runtime"
	"syscall"
	"time"
)

// cpuTime is what this process has worked so far: a clock would count what other
// processes of the machine do.
func cpuTime() time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		panic(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// peakBytes is the most that a process has held.
func peakBytes(ended *os.ProcessState) int64 {
	used, ok := ended.SysUsage().(*syscall.Rusage)
	switch {
	case !ok:
		return 0
	case runtime.GOOS == "darwin": // in bytes, getrusage(2)
		return used.Maxrss
	}
	return used.Maxrss << 10
}
