//go:build unix

package product

import (
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/gatewright/gatewright/shared/base/processes"
)

// takeForeground moves this process to a process group of its own, which becomes the foreground group of the terminal,
// so that only this process receives Ctrl-C. Otherwise a launcher such as make would also be ended by the signal, and
// the shell would report a failure although this process stops without an error. takeForeground does nothing without a
// launcher or a terminal, or if another process group is in the foreground (`make run &`).
//
// release returns the terminal to the launcher. Ctrl-Z also returns the terminal, and stops
// both the launcher and this process. When they continue after that, both receive Ctrl-C.
func takeForeground(launchers []processes.Process) (release func()) {
	if len(launchers) == 0 {
		return func() {}
	}
	tty, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		return func() {}
	}
	fd := int(tty.Fd())
	group := unix.Getpgrp()
	if foreground, err := unix.IoctlGetInt(fd, unix.TIOCGPGRP); err != nil || foreground != group ||
		unix.Setpgid(0, 0) != nil {
		_ = tty.Close()
		return func() {}
	}
	// The kernel stops a background process for the following call, unless the process ignores the signal.
	signal.Ignore(syscall.SIGTTOU)
	setForeground := func(group int) { _ = unix.IoctlSetPointerInt(fd, unix.TIOCSPGRP, group) }
	setForeground(unix.Getpid())

	stopped := make(chan os.Signal, 1)
	signal.Notify(stopped, syscall.SIGTSTP)
	done := make(chan struct{})
	go func() {
		select {
		case <-done:
			return
		case <-stopped:
		}
		signal.Reset(syscall.SIGTSTP)
		_ = unix.Setpgid(0, group)
		setForeground(group)
		_ = unix.Kill(0, syscall.SIGTSTP)
	}()
	return func() {
		signal.Stop(stopped)
		close(done)
		setForeground(group)
		_ = tty.Close()
	}
}
