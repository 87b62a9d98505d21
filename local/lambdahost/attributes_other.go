//go:build !linux

package lambdahost

import "syscall"

// attributes puts the process in a group of its own. Where the kernel
// has no parent-death signal, a function outlives a host that was killed.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
