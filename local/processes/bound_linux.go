package processes

import "syscall"

// Bound is Group for a child that the kernel kills when the thread that starts it
// ends (prctl(2), PR_SET_PDEATHSIG), which it does with this process at the latest.
// That goroutine has to be locked to its thread for as long as the child lives.
func Bound() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
