//go:build unix

package lambdahost

import "syscall"

// supported reports whether the system can freeze a process between two calls.
const supported = true

func freeze(pid int) error { return syscall.Kill(pid, syscall.SIGSTOP) }

func thaw(pid int) error { return syscall.Kill(pid, syscall.SIGCONT) }

// terminate sends SIGTERM to a process.
func terminate(pid int) error { return syscall.Kill(pid, syscall.SIGTERM) }
