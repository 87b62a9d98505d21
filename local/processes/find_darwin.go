package processes

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// zombie is SZOMB (sys/proc.h): it has ended, and its parent has not asked how.
const zombie = 5

// find asks the kernel (sysctl(3), KERN_PROC_PID).
func find(pid int) (p Process, ok bool) {
	info, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil || info.Proc.P_stat == zombie {
		return Process{}, false
	}
	return Process{
		PID: pid, Parent: int(info.Eproc.Ppid), Name: unix.ByteSliceToString(info.Proc.P_comm[:]),
		start: fmt.Sprint(info.Proc.P_starttime.Sec, ".", info.Proc.P_starttime.Usec),
	}, true
}

func started(pid int) (start string, ok bool) {
	p, ok := find(pid)
	return p.start, ok
}
