package terminal

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// signalWindow is the time after the first signal during which further signals are ignored: a launcher can forward a
// signal that the terminal has already sent to all processes.
const signalWindow = 300 * time.Millisecond

// Interruptible returns a context that ends with cause at the first Ctrl-C, SIGTERM or SIGHUP (the terminal was
// closed). Each signal that arrives more than signalWindow later calls onRepeat, which should end the process
// immediately. The returned function stops this, and ends the context.
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
