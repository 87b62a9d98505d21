//go:build !linux

package supervise

import "syscall"

// attributes puts the child in a process group of its own. Where the kernel
// has no parent-death signal, a child notices by its standard input's end.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
