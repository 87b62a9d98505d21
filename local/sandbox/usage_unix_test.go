//go:build unix

package sandbox

import (
	"os"
	"runtime"
	"syscall"
	"time"
)

// cpuTime returns the processor time of this process so far: wall-clock time would include the work of other processes.
func cpuTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// peakBytes returns the maximum memory of an ended process, in bytes.
func peakBytes(state *os.ProcessState) int64 {
	usage, ok := state.SysUsage().(*syscall.Rusage)
	switch {
	case !ok:
		return 0
	case runtime.GOOS == "darwin": // macOS reports bytes, other systems kilobytes (getrusage(2))
		return usage.Maxrss
	}
	return usage.Maxrss << 10
}
