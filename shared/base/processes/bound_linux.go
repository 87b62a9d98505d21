package processes

import "syscall"

// KillWithParent is like Group, for a child that the kernel kills when the thread that started it ends (prctl(2), PR_SET_PDEATHSIG), at the
// latest together with this process. The goroutine that starts the child must stay locked to its thread while the child lives.
func KillWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
