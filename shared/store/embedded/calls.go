package embedded

import (
	"errors"
	"fmt"
	"sync"

	"github.com/gatewright/gatewright/shared/store"
)

// ErrClosed is what calls answer that come after Close.
var ErrClosed = errors.New("the store is closed")

// calls counts those that use the files, so that none does when they are closed:
// a product that stops does not wait for every handler.
type calls struct {
	mu     sync.Mutex
	n      int
	closed bool
	none   chan struct{} // closed with the last one, after end
}

// begin is called before the files are used, and done after it. It fails once
// nothing can be written any more, and after Close.
func (b *Backend) begin() error {
	c := &b.calls
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return fmt.Errorf("%w: %w", store.ErrLost, ErrClosed)
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
		close(c.none)
	}
}

// end refuses those that come from now on, and waits for those under way.
func (c *calls) end() {
	c.mu.Lock()
	c.closed, c.none = true, make(chan struct{})
	if c.n == 0 {
		close(c.none)
	}
	c.mu.Unlock()
	<-c.none
}
