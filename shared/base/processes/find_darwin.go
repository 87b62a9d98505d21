package processes

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// zombie is the state SZOMB (sys/proc.h) of a process that has ended, but whose parent has not waited for it.
const zombie = 5

// find reads the kernel's process table (sysctl(3), KERN_PROC_PID).
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

func startTime(pid int) (start string, ok bool) {
	p, ok := find(pid)
	return p.start, ok
}
