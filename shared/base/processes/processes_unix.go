//go:build unix

package processes

import "syscall"

func launcherNames() []string { return []string{"go", "make", "gmake", "gnumake"} }

// Group returns the attributes for a child in a process group of its own. A Ctrl-C in the terminal does not reach the
// child, and Kill also ends the processes that the child starts.
func Group() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// Kill kills a child that was started with Group, and all remaining processes of its group, without a warning.
func Kill(pid int) error { return syscall.Kill(-pid, syscall.SIGKILL) }

// Interrupt sends SIGINT, like Ctrl-C, to a child that was started with Group and to its group.
func Interrupt(pid int) error { return syscall.Kill(-pid, syscall.SIGINT) }
