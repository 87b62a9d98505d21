package listen

import (
	"net/http"
	"net/netip"

	"github.com/gatewright/gatewright/shared/listen/framing"
)

// Unfinished heads are bounded in number by the limit of connections, and each by config.Listener.HeaderBytes. Together they
// could still fill the memory of a process, so the bytes of large heads have a budget. All listeners of the process share it.
//
// A connection takes bytes as its head arrives, and holds them until the answer begins: net/http keeps the head until then. A
// head that finds no room is refused (503). The first bytes of each head are free, so a client that fills the budget affects
// only requests with large heads.
const (
	// maxLargeHeadBytes is the size of the budget. One client address holds a part of headShares at most.
	maxLargeHeadBytes = 16 << 20
	headShares        = 4
	// freeHeadBytes is the size up to which a head takes nothing of the budget. Nearly all heads of browsers and SDKs are smaller.
	freeHeadBytes = 8 << 10
)

// errManyHeads is the refusal of a large head that finds no room.
var errManyHeads = &framing.Refusal{
	Status: http.StatusServiceUnavailable,
	Detail: "There is no memory left for a large request header: the headers of this client or of all clients have reached their limit. Repeat the request after the time in Retry-After, or send a header of less than 8 KiB.",
}

// largeHeads counts the bytes of large heads. The budget's mutex guards it.
type largeHeads struct {
	held int
	of   map[netip.Addr]int // client addresses, without the zero value
}

// add adds n bytes, which may be negative, for a client address.
func (l *largeHeads) add(from netip.Addr, n int) {
	l.held += n
	if n == 0 || !from.IsValid() {
		return
	}
	if l.of == nil {
		l.of = make(map[netip.Addr]int)
	}
	if l.of[from] += n; l.of[from] == 0 {
		delete(l.of, from)
	}
}

// hasRoom reports whether there is room for n more bytes of a client address. The zero value has no share of its own.
func (l *largeHeads) hasRoom(from netip.Addr, n int) bool {
	if from.IsValid() && l.of[from]+n > maxLargeHeadBytes/headShares {
		return false
	}
	return l.held+n <= maxLargeHeadBytes
}

// headBytes are the bytes that a connection holds of the budget of large heads. The budget's mutex guards them.
type headBytes struct {
	// held is the number of bytes. buffered is the part of them that is in the connection's own buffer.
	held, buffered int
}

// takeHead takes room for a buffer of this size, and reports whether there is room. A connection that has ended gets none.
func (c *conn) takeHead(size int) bool {
	b := c.server.counts.Budget
	b.mu.Lock()
	defer b.mu.Unlock()
	buffered := max(0, size-freeHeadBytes)
	more := max(0, buffered-c.head.held)
	if more > 0 && (c.finished.Load() || !b.heads.hasRoom(c.from, more)) {
		return false
	}
	c.head.held += more
	c.head.buffered = buffered
	b.heads.add(c.from, more)
	return true
}

// passHead says that the connection's buffer has only this size now. What it held before is with net/http.
func (c *conn) passHead(size int) {
	b := c.server.counts.Budget
	b.mu.Lock()
	defer b.mu.Unlock()
	c.head.buffered = max(0, size-freeHeadBytes)
}

// releaseHead gives back the bytes of the head whose answer begins. Bytes that are still in the connection's buffer stay taken.
func (c *conn) releaseHead() {
	b := c.server.counts.Budget
	b.mu.Lock()
	defer b.mu.Unlock()
	b.heads.add(c.from, c.head.buffered-c.head.held)
	c.head.held = c.head.buffered
}

// giveBack gives back what an ended connection holds. It is called once, after c.finished is set.
func (c *conn) giveBack() {
	b := c.server.counts.Budget
	b.mu.Lock()
	b.heads.add(c.from, -c.head.held)
	c.head = headBytes{}
	b.mu.Unlock()
	c.server.counts.giveBack(c.from)
}

// growHead makes room in the stash for more of a head, or refuses the head.
func (c *conn) growHead() error {
	if !c.takeHead(2 * cap(c.stash)) {
		return c.refuse(errManyHeads)
	}
	c.grow()
	return nil
}

// standardHeadSize returns the memory of a head of which net/http has its own copy.
func standardHeadSize(head []byte) int {
	return cap(head) + max(0, cap(head)-freeHeadBytes)
}
