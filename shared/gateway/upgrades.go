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

// upgrades are the connections that were given to another protocol. A server knows nothing
// of them any more, so that who ends the process asks here.
type upgrades struct {
	mu           sync.Mutex
	all          map[*upgraded]struct{}
	leaving, cut bool
	// none is closed once there is none and none may begin, nil before anybody asks.
	none chan struct{}
}

// upgraded is one of them: what is written to the client, and its end.
type upgraded struct {
	of     *upgrades
	client net.Conn // nil until the server has given it away
	frames *frames  // of a WebSocket whose client knows that it is one, nil for others
}

// begin notes a connection that its server is about to give away: at any moment one of the two knows of it.
// Whoever begins one ends it.
func (u *upgrades) begin() *upgraded {
	one := &upgraded{of: u}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.all == nil {
		u.all = make(map[*upgraded]struct{})
	}
	u.all[one] = struct{}{}
	return one
}

// given says which connection it is.
func (o *upgraded) given(client net.Conn) {
	o.of.mu.Lock()
	defer o.of.mu.Unlock()
	o.client = client
	if o.of.cut {
		_ = client.Close()
	}
}

// switched says that the client knows of its protocol, and gives what the upstream's bytes are to be written to.
func (o *upgraded) switched(protocol string) io.Writer {
	if !strings.EqualFold(protocol, "websocket") {
		return o.client
	}
	o.of.mu.Lock()
	defer o.of.mu.Unlock()
	o.frames = &frames{to: o.client}
	if o.of.leaving {
		o.tell()
	}
	return o.frames
}

func (o *upgraded) end() {
	o.of.mu.Lock()
	defer o.of.mu.Unlock()
	delete(o.of.all, o)
	o.of.settle()
}

func (u *upgrades) settle() {
	if len(u.all) == 0 && u.none != nil {
		close(u.none)
		u.none = nil
	}
}

func (o *upgraded) tell() {
	if o.frames != nil {
		go o.frames.goAway() // a write that is under way may take as long as the client does
	}
}

// EndUpgrades tells the clients of WebSockets that the gateway goes away (status 1001, RFC 6455,
// section 7.4.1), and waits until all connections of other protocols have ended, or ctx has: it
// ends those that are left then.
func (g *Gateway) EndUpgrades(ctx context.Context) {
	u := &g.upgrades
	none := make(chan struct{})
	u.mu.Lock()
	u.leaving, u.none = true, none
	for one := range u.all {
		one.tell()
	}
	u.settle()
	u.mu.Unlock()
	select {
	case <-none:
		return
	case <-ctx.Done():
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.cut = true
	for one := range u.all {
		if one.client != nil {
			_ = one.client.Close()
		}
	}
}

// defaultHalfClosedTimeout is what an upstream has to begin an answer, too: one that was told all may think about it for as long.
const defaultHalfClosedTimeout = time.Minute

// frames passes a WebSocket's frames on to a client, and may say a last word between two of
// them: in the middle of one it would be a part of it.
type frames struct {
	mu     sync.Mutex
	to     io.Writer
	head   [10]byte // of the frame that begins, without its mask, which a server's has not
	got    int      // bytes of it
	rest   uint64   // bytes of the frame's payload that are to come
	away   bool     // the last word is due
	closed bool     // it was said, by us or by the upstream
	ours   bool     // by us: what the upstream says then is for nobody
}

// goAway is a Close frame with the status 1001.
const goAway = "\x88\x02\x03\xe9"

const (
	opcodeBits   = 0x0f
	opcodeClose  = 8
	maskBit      = 0x80
	lengthBits   = 0x7f
	length16     = 126
	length64     = 127
	maskingBytes = 4
)

// Write implements io.Writer.
func (f *frames) Write(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	written := 0
	for written < len(p) {
		if f.away && f.got == 0 && f.rest == 0 {
			if err := f.say(); err != nil {
				return written, err
			}
		}
		if f.ours {
			return len(p), nil
		}
		n := len(p) - written
		if f.away { // up to the end of the frame
			n = f.next(p[written:], false)
		} else {
			f.next(p[written:], true)
		}
		m, err := f.to.Write(p[written : written+n])
		written += m
		if err != nil {
			return written, err
		}
	}
	if f.away && f.got == 0 && f.rest == 0 {
		return written, f.say()
	}
	return written, nil
}

// next follows the frames in p, all of them or to the end of the one that is under way, and
// gives how many bytes that is.
func (f *frames) next(p []byte, all bool) int {
	n := 0
	for n < len(p) {
		if f.rest > 0 {
			take := min(f.rest, uint64(len(p)-n))
			f.rest -= take
			n += int(take) //nolint:gosec // G115: not above len(p)
		} else {
			f.head[f.got] = p[n]
			f.got++
			n++
			f.begin()
		}
		if !all && f.got == 0 && f.rest == 0 {
			return n
		}
	}
	return n
}

// begin looks whether the head is whole, and what follows it.
func (f *frames) begin() {
	if f.got < 2 {
		return
	}
	length := uint64(f.head[1] & lengthBits)
	switch {
	case length == length16 && f.got == 4:
		length = uint64(binary.BigEndian.Uint16(f.head[2:]))
	case length == length64 && f.got == 10:
		length = binary.BigEndian.Uint64(f.head[2:])
	case length >= length16:
		return
	}
	if f.head[1]&maskBit != 0 { // which no server sends
		length += maskingBytes
	}
	if f.head[0]&opcodeBits == opcodeClose {
		f.closed = true
	}
	f.got, f.rest = 0, length
}

// goAway has the client told, now or when the frame that is under way has ended.
func (f *frames) goAway() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.away = true
	if f.got == 0 && f.rest == 0 {
		_ = f.say() // who cannot be told has gone, or is ended in the end
	}
}

// say says the last word, unless the upstream has.
func (f *frames) say() error {
	if f.closed {
		f.away = false
		return nil
	}
	f.closed, f.ours, f.away = true, true, false
	_, err := io.WriteString(f.to, goAway)
	return err
}

// CloseWrite is the end of what the upstream says.
func (f *frames) CloseWrite() error {
	if half, ok := f.to.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return io.EOF
}
