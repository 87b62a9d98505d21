package terminal

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// signalWindow is the time within which signals count as one: a launcher
// can forward a signal that the terminal has already sent to all processes.
const signalWindow = 300 * time.Millisecond

// Interruptible returns a context that the first Ctrl-C (or SIGTERM, or the terminal's end) ends with cause. A later
// signal, after signalWindow, calls onRepeat. onRepeat should end the process immediately; its children end with it.
func Interruptible(ctx context.Context, cause error, onRepeat func()) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	go func() {
		if _, ok := <-signals; !ok {
			return
		}
		first := time.Now()
		cancel(cause)
		for range signals {
			if time.Since(first) > signalWindow {
				onRepeat()
			}
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		close(signals)
		cancel(nil)
	}
}
