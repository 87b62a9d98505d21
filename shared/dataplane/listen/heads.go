package listen

import (
	"net/http"
	"net/netip"

	"github.com/gatewright/gatewright/shared/base/framing"
)

// The limit of connections limits the number of incomplete heads, and config.Listener.HeaderBytes limits each of
// them. Together they could still fill the memory of a process, so there is a budget for the bytes of large heads.
// Listeners that share a Budget share this budget, too.
//
// A connection takes bytes from the budget while its head arrives, and returns them when the response begins, because
// net/http keeps the head until then. A head that exceeds the budget is refused (503). The first freeHeadBytes of
// each head do not count, so a client that uses up the budget affects only requests with large heads.
const (
	// maxLargeHeadBytes is the size of the budget. One client address can hold at most 1/headBudgetShares
	// of it, except an address without a limit of connections (countedAddress).
	maxLargeHeadBytes = 16 << 20
	headBudgetShares  = 4
	// freeHeadBytes is the number of bytes of each head that do not count
	// for the budget. Nearly all heads of browsers and SDKs are smaller.
	freeHeadBytes = 8 << 10
)

// errTooManyHeadBytes is the refusal of a large head that exceeds the budget.
var errTooManyHeadBytes = &framing.Refusal{
	Status: http.StatusServiceUnavailable,
	Detail: "There is no memory left for a large request header: the headers of this client or of all clients have " +
		"reached their limit. Repeat the request after the time in Retry-After, or send a header of less than 8 KiB.",
}

// largeHeads counts the bytes of large heads. The budget's mutex guards it.
type largeHeads struct {
	total      int
	perAddress map[netip.Addr]int // client addresses, without the zero value
}

// add adds n bytes, which may be negative, for a client address.
func (l *largeHeads) add(from netip.Addr, n int) {
	l.total += n
	if n == 0 || !from.IsValid() {
		return
	}
	if l.perAddress == nil {
		l.perAddress = make(map[netip.Addr]int)
	}
	if l.perAddress[from] += n; l.perAddress[from] == 0 {
		delete(l.perAddress, from)
	}
}

// hasCapacity reports whether n more bytes of a client address fit
// into the budget. The zero address has no limit except the budget.
func (l *largeHeads) hasCapacity(from netip.Addr, n int) bool {
	if from.IsValid() && l.perAddress[from]+n > maxLargeHeadBytes/headBudgetShares {
		return false
	}
	return l.total+n <= maxLargeHeadBytes
}

// headBytes is the part of the budget of large heads that a connection holds. The budget's mutex guards it.
type headBytes struct {
	// reserved is the number of bytes that the connection holds. buffered is the number of these bytes that are in
	// its own buffer, and not in net/http.
	reserved, buffered int
}

// reserveHead takes bytes for a buffer of this size from the budget, and reports whether the budget has enough. It
// takes no bytes for a connection that has ended, and returns false if such a connection needs more bytes.
func (c *conn) reserveHead(size int) bool {
	b := c.server.counts.Budget
	b.mu.Lock()
	defer b.mu.Unlock()
	buffered := max(0, size-freeHeadBytes)
	more := max(0, buffered-c.head.reserved)
	if more > 0 && (c.finished.Load() || !b.heads.hasCapacity(c.limitAddr, more)) {
		return false
	}
	c.head.reserved += more
	c.head.buffered = buffered
	b.heads.add(c.limitAddr, more)
	return true
}

// setBufferedHead records that the connection's own buffer has this size now. The connection still holds the other
// bytes, which net/http has received.
func (c *conn) setBufferedHead(size int) {
	b := c.server.counts.Budget
	b.mu.Lock()
	defer b.mu.Unlock()
	c.head.buffered = max(0, size-freeHeadBytes)
}

// releaseHead releases the bytes of the head when its response begins.
// It keeps the bytes that are still in the connection's buffer.
func (c *conn) releaseHead() {
	b := c.server.counts.Budget
	b.mu.Lock()
	defer b.mu.Unlock()
	b.heads.add(c.limitAddr, c.head.buffered-c.head.reserved)
	c.head.reserved = c.head.buffered
}

// release releases everything that an ended connection holds. It is called once, after c.finished is set.
func (c *conn) release() {
	b := c.server.counts.Budget
	b.mu.Lock()
	b.heads.add(c.limitAddr, -c.head.reserved)
	c.head = headBytes{}
	b.mu.Unlock()
	c.server.counts.release(c.limitAddr)
}

// growHead enlarges the buffer for more of a head. If the budget has not enough bytes, it refuses the head and
// returns an error.
func (c *conn) growHead() error {
	if !c.reserveHead(2 * cap(c.buf)) {
		return c.refuse(errTooManyHeadBytes)
	}
	c.growBuf()
	return nil
}

// standardHeadSize returns the size to reserve for a head. net/http has a copy of the head too.
func standardHeadSize(head []byte) int {
	return cap(head) + max(0, cap(head)-freeHeadBytes)
}
