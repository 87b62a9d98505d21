package load

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Process is a process whose processor time can be measured.
type Process interface {
	// CPU returns the processor time that the process has used so far.
	CPU() (time.Duration, error)
}

// PID is the id of a process.
type PID int

var _ Process = PID(0)

// CPU implements Process. The kernel has a clock of each process, in nanoseconds (clock_getcpuclockid(3)); /proc/PID/stat counts
// in steps of 10 ms.
func (p PID) CPU() (time.Duration, error) {
	const scheduled = 2 // the part of the clock's id that selects user time and system time
	var used unix.Timespec
	clock := int32(^int(p)<<3 | scheduled) //nolint:gosec // G115: ids have 22 bits at most
	if err := unix.ClockGettime(clock, &used); err != nil {
		return 0, fmt.Errorf("read the processor time of process %d: %w", p, err)
	}
	return time.Duration(used.Nano()), nil
}

// Family is a process with its children, such as nginx and its workers.
type Family PID

// CPU implements Process.
func (f Family) CPU() (time.Duration, error) {
	children, err := os.ReadFile(fmt.Sprintf("/proc/%[1]d/task/%[1]d/children", f))
	if err != nil {
		return 0, fmt.Errorf("find the children of a process: %w", err)
	}
	all, err := PID(f).CPU()
	for _, text := range strings.Fields(string(children)) {
		pid, err := strconv.Atoi(text)
		if err != nil {
			return 0, fmt.Errorf("find the children of a process: %w", err)
		}
		used, err := PID(pid).CPU()
		if err != nil {
			return 0, err
		}
		all += used
	}
	return all, err
}
