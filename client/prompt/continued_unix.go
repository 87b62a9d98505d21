//go:build unix

package prompt

import (
	"os"
	"os/signal"
	"syscall"
)

// whenContinued calls do whenever the process goes on after it was stopped, as by Ctrl-Z and fg, until the function that it returns is
// called.
//
// What stops it is left to the system. Go catches Ctrl-Z for good once it has been asked to, and whoever does would have to know that
// there is a shell which has the process go on: nobody has the first one of a container.
func whenContinued(do func()) func() {
	signals, over, done := make(chan os.Signal, 1), make(chan struct{}), make(chan struct{})
	signal.Notify(signals, syscall.SIGCONT)
	go func() {
		defer close(done)
		for {
			select {
			case <-signals:
				do()
			case <-over:
				return
			}
		}
	}()
	return func() {
		signal.Stop(signals)
		close(over)
		<-done
	}
}
