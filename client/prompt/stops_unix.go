//go:build unix

package prompt

import (
	"os"
	"os/signal"
	"syscall"
)

// aroundStops calls before when Ctrl-Z stops the process, and after when it goes on, until the function that it returns is called. A
// shell may set the terminal as it likes meanwhile, or leave it to its user as it is.
func aroundStops(before, after func()) func() {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTSTP, syscall.SIGCONT)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for s := range signals {
			if s == syscall.SIGCONT {
				after()
				continue
			}
			before()
			_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP) // which nobody can catch, and SIGCONT ends
		}
	}()
	return func() {
		signal.Stop(signals)
		close(signals)
		<-done
	}
}
