package embedded

import (
	"errors"
	"fmt"
	"sync"

	"github.com/gatewright/gatewright/shared/core/store"
)

// ErrClosed is the error of calls after Close.
var ErrClosed = errors.New("the store is closed")

// calls counts the calls that use the files, so that Close can wait
// for them: when the product stops, some handlers may still run.
type calls struct {
	mu     sync.Mutex
	n      int
	closed bool
	idle   chan struct{} // closed when the last call ends after drain has begun
}

// begin must be called before the files are used, and calls.done afterwards.
// begin returns an error after Close, and when nothing can be written any more.
func (b *Backend) begin() error {
	c := &b.calls
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return fmt.Errorf("%w: %w", store.ErrOutcomeUnknown, ErrClosed)
	}
	if err := b.usable(); err != nil {
		return err
	}
	c.n++
	return nil
}

func (c *calls) done() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n--; c.n == 0 && c.closed {
		close(c.idle)
	}
}

// drain refuses new calls and waits for the calls in progress.
func (c *calls) drain() {
	c.mu.Lock()
	c.closed, c.idle = true, make(chan struct{})
	if c.n == 0 {
		close(c.idle)
	}
	c.mu.Unlock()
	<-c.idle
}
