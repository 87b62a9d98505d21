//go:build unix

package prompt

import (
	"os"
	"os/signal"
	"syscall"
)

// onContinue calls fn whenever the process continues after it was stopped, such as by Ctrl-Z and fg. Call the returned
// function to end this.
//
// onContinue does not handle Ctrl-Z itself, so the system stops the process. A Go program that has once handled Ctrl-Z
// cannot restore the default. It would also have to know that a shell will continue the process, which is not the case
// for the first process of a container.
func onContinue(fn func()) func() {
	signals, stop, done := make(chan os.Signal, 1), make(chan struct{}), make(chan struct{})
	signal.Notify(signals, syscall.SIGCONT)
	go func() {
		defer close(done)
		for {
			select {
			case <-signals:
				fn()
			case <-stop:
				return
			}
		}
	}()
	return func() {
		signal.Stop(signals)
		close(stop)
		<-done
	}
}
