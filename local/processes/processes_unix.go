//go:build unix

package processes

import "syscall"

func launcherNames() []string { return []string{"go", "make", "gmake", "gnumake"} }

// Group is for a child in a process group of its own: a Ctrl-C in the terminal
// does not reach it, and Kill reaches what it starts.
func Group() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// Kill ends a child that was started with Group, and all that is left of its
// group, without a word.
func Kill(pid int) error { return syscall.Kill(-pid, syscall.SIGKILL) }

// Interrupt asks a child that was started with Group, and its group, to end, as
// Ctrl-C does.
func Interrupt(pid int) error { return syscall.Kill(-pid, syscall.SIGINT) }
