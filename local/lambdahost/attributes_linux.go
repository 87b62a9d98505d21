package lambdahost

import "syscall"

// attributes puts the process in a group of its own, so that what it starts is
// killed with it, and has the kernel kill it when this process is gone.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
