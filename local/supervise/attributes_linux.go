package supervise

import "syscall"

// attributes puts the child in a process group of its own, so that a Ctrl-C in
// the terminal reaches this process alone, which then ends the child in order;
// and has the kernel kill it when this process is gone without a word.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
