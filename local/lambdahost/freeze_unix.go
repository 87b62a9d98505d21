//go:build unix

package lambdahost

import "syscall"

// supported tells that a process can be stopped between two calls.
const supported = true

func freeze(pid int) error { return syscall.Kill(pid, syscall.SIGSTOP) }

func thaw(pid int) error { return syscall.Kill(pid, syscall.SIGCONT) }

// terminate asks a process to end.
func terminate(pid int) error { return syscall.Kill(pid, syscall.SIGTERM) }
