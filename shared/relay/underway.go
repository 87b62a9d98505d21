package relay

import (
	"context"
	"sync"
)

// underWay counts requests. The zero value has none. It is safe for concurrent use.
type underWay struct {
	mu   sync.Mutex
	n    int
	none chan struct{} // closed when n is 0 again; nil where nobody waits
}

// begin counts a request until the function that it gives is called.
func (u *underWay) begin() (end func()) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.n++
	return u.end
}

func (u *underWay) end() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.n--
	if u.n == 0 && u.none != nil {
		close(u.none)
		u.none = nil
	}
}

// wait returns when there are none, or ctx has ended.
func (u *underWay) wait(ctx context.Context) {
	u.mu.Lock()
	if u.n == 0 {
		u.mu.Unlock()
		return
	}
	if u.none == nil {
		u.none = make(chan struct{})
	}
	none := u.none
	u.mu.Unlock()
	select {
	case <-none:
	case <-ctx.Done():
	}
}

// buffers are what answers are copied through.
type buffers struct{ pool sync.Pool }

// Get implements httputil.BufferPool.
func (b *buffers) Get() []byte {
	if its, ok := b.pool.Get().(*[]byte); ok {
		return *its
	}
	return make([]byte, copyBytes)
}

// Put implements httputil.BufferPool.
func (b *buffers) Put(its []byte) { b.pool.Put(&its) }
