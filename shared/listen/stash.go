package listen

import "sync"

// stashSize is what a stash begins with: most heads fit.
const stashSize = 4 << 10

// stashes are reused between connections. Idle ones have none.
type stashes struct{ pool sync.Pool }

func (s *stashes) get() []byte {
	if array, ok := s.pool.Get().(*[stashSize]byte); ok {
		return array[:0]
	}
	return make([]byte, 0, stashSize)
}

func (s *stashes) put(b []byte) {
	if cap(b) == stashSize {
		s.pool.Put((*[stashSize]byte)(b[:stashSize]))
	}
}

// keep puts received bytes aside. There is no stash yet.
func (c *conn) keep(b []byte) {
	if c.stash == nil {
		c.grow()
	}
	for len(b) > cap(c.stash)-len(c.stash) {
		c.grow()
	}
	c.stash = append(c.stash, b...)
	c.unsettled.Store(true)
}

// grow makes room: twice what there was.
func (c *conn) grow() {
	if c.stash == nil {
		c.stash = c.server.stashes.get()
		c.given, c.pass, c.next = 0, 0, 0
		return
	}
	old := c.stash
	c.stash = append(make([]byte, 0, 2*cap(old)), old...)
	c.server.stashes.put(old)
}

// forget gives the stash back: all that was in it was given on.
func (c *conn) forget() {
	if c.stash == nil {
		return
	}
	c.server.stashes.put(c.stash)
	if cap(c.stash) > freeHeadBytes {
		c.passHead(0)
	}
	c.stash = nil
	c.given, c.pass, c.next = 0, 0, 0
	if c.stage == inHead && c.unsettled.Load() {
		c.unsettled.Store(false)
	}
}
