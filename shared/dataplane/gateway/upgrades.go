package gateway

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"strings"
	"sync"
	"time"
)

// upgrades has the connections that have switched to another protocol. http.Server no
// longer tracks these connections, so the gateway must end them at shutdown (EndUpgrades).
type upgrades struct {
	mu                   sync.Mutex
	conns                map[*upgradedConn]struct{}
	shuttingDown, closed bool
	// done is closed when there are no connections after EndUpgrades has started. It is nil before EndUpgrades,
	// and after it was closed.
	done chan struct{}
}

// upgradedConn is a connection that has switched to another protocol, or is about to switch.
type upgradedConn struct {
	parent *upgrades
	client net.Conn     // nil until the server has handed it over
	frames *frameWriter // set after a client has switched to WebSocket, otherwise nil
}

// add registers a connection before http.Server hands it over, so that either the
// server or upgrades tracks the connection at any moment. The caller must call remove.
func (u *upgrades) add() *upgradedConn {
	conn := &upgradedConn{parent: u}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.conns == nil {
		u.conns = make(map[*upgradedConn]struct{})
	}
	u.conns[conn] = struct{}{}
	return conn
}

// setClient sets the client's connection. It closes the connection if EndUpgrades has closed all others.
func (c *upgradedConn) setClient(client net.Conn) {
	c.parent.mu.Lock()
	defer c.parent.mu.Unlock()
	c.client = client
	if c.parent.closed {
		_ = client.Close()
	}
}

// protocolWriter returns the writer for the upstream's bytes after the
// client has switched to a protocol. For WebSocket, it is a frameWriter.
func (c *upgradedConn) protocolWriter(protocol string) io.Writer {
	if !strings.EqualFold(protocol, "websocket") {
		return c.client
	}
	c.parent.mu.Lock()
	defer c.parent.mu.Unlock()
	c.frames = &frameWriter{to: c.client}
	if c.parent.shuttingDown {
		c.announceClose()
	}
	return c.frames
}

// remove ends the registration of add, after the connection has ended.
func (c *upgradedConn) remove() {
	c.parent.mu.Lock()
	defer c.parent.mu.Unlock()
	delete(c.parent.conns, c)
	c.parent.signalDone()
}

// signalDone closes done if EndUpgrades is waiting and no connection is left. The caller holds mu.
func (u *upgrades) signalDone() {
	if len(u.conns) == 0 && u.done != nil {
		close(u.done)
		u.done = nil
	}
}

// announceClose sends a Close frame to the client of a WebSocket, without blocking. It sends nothing to clients of
// other protocols. The caller holds the mu of parent.
func (c *upgradedConn) announceClose() {
	if c.frames != nil {
		go c.frames.sendClose() // it waits for a pending write, which takes until the client has read enough
	}
}

// EndUpgrades is called when the gateway shuts down. It sends a Close frame with the status 1001
// (RFC 6455, section 7.4.1) to the clients of WebSockets. It then waits until all connections that have
// switched to another protocol have ended. When ctx ends, it closes the remaining connections.
func (g *Gateway) EndUpgrades(ctx context.Context) {
	u := &g.upgrades
	done := make(chan struct{})
	u.mu.Lock()
	u.shuttingDown, u.done = true, done
	for conn := range u.conns {
		conn.announceClose()
	}
	u.signalDone()
	u.mu.Unlock()
	select {
	case <-done:
		return
	case <-ctx.Done():
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.closed = true
	for conn := range u.conns {
		if conn.client != nil {
			_ = conn.client.Close()
		}
	}
}

// defaultHalfClosedTimeout is equal to the default of upstream.Options.ResponseTimeout. An upstream that has received
// the end of the client's data can take as long to send its next byte as an upstream that has received a request.
const defaultHalfClosedTimeout = time.Minute

// frameWriter forwards a WebSocket's frames to a client. It can insert a Close frame
// between two frames; inside a frame, the Close frame would become a part of it.
type frameWriter struct {
	mu            sync.Mutex
	to            io.Writer
	header        [10]byte // header of the current frame, without a mask, which servers do not send
	headerBytes   int      // number of bytes of header that have arrived, 0 between frames and inside a payload
	remaining     uint64   // remaining bytes of the frame's payload
	closePending  bool     // send our Close frame at the end of the current frame
	closeSent     bool     // a Close frame was sent, by us or by the upstream
	sentByGateway bool     // we sent the Close frame: drop all later frames of the upstream
}

// closeGoingAway is a Close frame with the status 1001.
const closeGoingAway = "\x88\x02\x03\xe9"

const (
	opcodeBits   = 0x0f
	opcodeClose  = 8
	maskBit      = 0x80
	lengthBits   = 0x7f
	length16     = 126
	length64     = 127
	maskingBytes = 4
)

// Write implements io.Writer for the upstream's bytes. After the gateway's Close frame, Write drops them without an
// error.
func (f *frameWriter) Write(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	written := 0
	for written < len(p) {
		if f.closePending && f.headerBytes == 0 && f.remaining == 0 {
			if err := f.writeClose(); err != nil {
				return written, err
			}
		}
		if f.sentByGateway {
			return len(p), nil
		}
		n := len(p) - written
		if f.closePending { // write only up to the end of the current frame
			n = f.track(p[written:], false)
		} else {
			f.track(p[written:], true)
		}
		m, err := f.to.Write(p[written : written+n])
		written += m
		if err != nil {
			return written, err
		}
	}
	if f.closePending && f.headerBytes == 0 && f.remaining == 0 {
		return written, f.writeClose()
	}
	return written, nil
}

// track parses the frames in p: if all is true, all of p, otherwise only up to the end of the current frame. It returns
// the number of parsed bytes.
func (f *frameWriter) track(p []byte, all bool) int {
	n := 0
	for n < len(p) {
		if f.remaining > 0 {
			take := min(f.remaining, uint64(len(p)-n))
			f.remaining -= take
			n += int(take) //nolint:gosec // G115: not above len(p)
		} else {
			f.header[f.headerBytes] = p[n]
			f.headerBytes++
			n++
			f.parseHeader()
		}
		if !all && f.headerBytes == 0 && f.remaining == 0 {
			return n
		}
	}
	return n
}

// parseHeader parses the frame's header if all bytes before the mask have arrived. It then sets the number of remaining
// bytes.
func (f *frameWriter) parseHeader() {
	if f.headerBytes < 2 {
		return
	}
	length := uint64(f.header[1] & lengthBits)
	switch {
	case length == length16 && f.headerBytes == 4:
		length = uint64(binary.BigEndian.Uint16(f.header[2:]))
	case length == length64 && f.headerBytes == 10:
		length = binary.BigEndian.Uint64(f.header[2:])
	case length >= length16:
		return
	}
	if f.header[1]&maskBit != 0 { // servers must not mask frames; if one does, count the mask as payload
		length += maskingBytes
	}
	if f.header[0]&opcodeBits == opcodeClose {
		f.closeSent = true
	}
	f.headerBytes, f.remaining = 0, length
}

// sendClose sends the Close frame now, or at the end of the current frame.
func (f *frameWriter) sendClose() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closePending = true
	if f.headerBytes == 0 && f.remaining == 0 {
		_ = f.writeClose() // after an error, the client has disconnected, or EndUpgrades closes the connection
	}
}

// writeClose sends the Close frame, unless the upstream or the gateway has already sent one.
func (f *frameWriter) writeClose() error {
	if f.closeSent {
		f.closePending = false
		return nil
	}
	f.closeSent, f.sentByGateway, f.closePending = true, true, false
	_, err := io.WriteString(f.to, closeGoingAway)
	return err
}

// CloseWrite ends the client's connection for writing, after the upstream has ended. If the connection
// can't end in one direction only, CloseWrite returns io.EOF, and the caller closes the connection.
func (f *frameWriter) CloseWrite() error {
	if half, ok := f.to.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return io.EOF
}
