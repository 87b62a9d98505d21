package listen

import "sync"

// bufSize is the initial size of a buffer. Most heads fit into it.
const bufSize = 4 << 10

// bufPool reuses buffers between connections. An idle connection has no buffer.
type bufPool struct{ pool sync.Pool }

func (p *bufPool) get() []byte {
	if block, ok := p.pool.Get().(*[bufSize]byte); ok {
		return block[:0]
	}
	return make([]byte, 0, bufSize)
}

func (p *bufPool) put(b []byte) {
	if cap(b) == bufSize {
		p.pool.Put((*[bufSize]byte)(b[:bufSize]))
	}
}

// bufferBytes appends received bytes to the buffer. It creates the buffer if there is none.
func (c *conn) bufferBytes(b []byte) {
	if c.buf == nil {
		c.growBuf()
	}
	for len(b) > cap(c.buf)-len(c.buf) {
		c.growBuf()
	}
	c.buf = append(c.buf, b...)
	c.mayBeSending.Store(true)
}

// growBuf creates the buffer, or doubles its size.
func (c *conn) growBuf() {
	if c.buf == nil {
		c.buf = c.server.bufs.get()
		c.returned, c.available, c.nextHead = 0, 0, 0
		return
	}
	old := c.buf
	c.buf = append(make([]byte, 0, 2*cap(old)), old...)
	c.server.bufs.put(old)
}

// releaseBuf returns the buffer to the pool, if the connection has one. The buffer must have no bytes that Read has
// not returned.
func (c *conn) releaseBuf() {
	if c.buf == nil {
		return
	}
	c.server.bufs.put(c.buf)
	if cap(c.buf) > freeHeadBytes {
		c.setBufferedHead(0)
	}
	c.buf = nil
	c.returned, c.available, c.nextHead = 0, 0, 0
	if c.stage == inHead && c.mayBeSending.Load() {
		c.mayBeSending.Store(false)
	}
}
