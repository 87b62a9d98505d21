package processes

import "syscall"

// KillWithParent is like Group. In addition, the kernel kills the child when the thread that started it ends (prctl(2),
// PR_SET_PDEATHSIG), at the latest when this process ends. The goroutine that starts the child must stay locked to its
// thread while the child lives.
func KillWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
