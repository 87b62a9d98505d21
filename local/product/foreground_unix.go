//go:build unix

package product

import (
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/gatewright/gatewright/local/processes"
)

// takeForeground makes this process the terminal's foreground process group, if
// it was started by a launcher there, so that Ctrl-C is for it alone: make, which
// would get the signal too, dies of it however well its child ends, and a shell
// would take a stop for a failure. Where there is no terminal, or another group is
// in its foreground (`make run &`), nothing happens.
//
// release gives the terminal back. So does Ctrl-Z, which then stops the launcher
// and this process as it stops every command: after that, Ctrl-C is for both.
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
	if front, err := unix.IoctlGetInt(fd, unix.TIOCGPGRP); err != nil || front != group || unix.Setpgid(0, 0) != nil {
		_ = tty.Close()
		return func() {}
	}
	// A process in the background is stopped for what follows, unless it ignores
	// the signal.
	signal.Ignore(syscall.SIGTTOU)
	front := func(group int) { _ = unix.IoctlSetPointerInt(fd, unix.TIOCSPGRP, group) }
	front(unix.Getpid())

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
		front(group)
		_ = unix.Kill(0, syscall.SIGTSTP)
	}()
	return func() {
		signal.Stop(stopped)
		close(done)
		front(group)
		_ = tty.Close()
	}
}
