package listen

import (
	"crypto/tls"
	"encoding/binary"
	"math"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// A server that is about to end says so twice (RFC 9113, section 6.8): first with the highest number
// that a stream may have, which refuses nothing and has clients begin no further request; later with
// the last stream that it has taken. net/http says the second alone, and drops what has come by then
// and what is under way to us: their clients may send it again, and can't always. So the first is
// written here, between two frames of net/http's own.

// The parts of a frame's head (RFC 9113, section 4.1) and of the frames that are told apart.
const (
	frameHead = 9

	frameHeaders      = 0x1
	framePushPromise  = 0x5
	frameGoAway       = 0x7
	frameContinuation = 0x9
	flagEndHeaders    = 0x4

	// noLast is the last stream of a GOAWAY that refuses none.
	noLast = math.MaxInt32

	codeNone       = 0x0
	codeInadequate = 0xc
)

// goAway is such a frame.
func goAway(last, code uint32) []byte {
	out := []byte{0, 0, 8, frameGoAway, 0, 0, 0, 0, 0}
	out = binary.BigEndian.AppendUint32(out, last)
	return binary.BigEndian.AppendUint32(out, code)
}

// frames is a connection by HTTP/2 as net/http has it, which writes frames to it. It looks at their
// heads, and knows where one ends and another may begin. What comes in is not looked at.
//
// It is no *tls.Conn, since net/http would write past it: it is served as one without TLS is, which
// is below it all the same.
type frames struct {
	net.Conn // the *tls.Conn
	c        *conn

	// due says that the client is to be told.
	due atomic.Bool

	mu sync.Mutex // guards what follows, and writes
	// head is of the frame that is written, as far as it was; left is what of its payload was not.
	head []byte
	left int
	// begun says that a frame was written, the first of which has to be SETTINGS; open that a head's
	// frames go on, between which no other may be; told that the client was, by us or by net/http.
	begun, open, told bool
}

// Write implements net.Conn.
func (f *frames) Write(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	between := f.between()
	if err := f.tell(); err != nil {
		return 0, err
	}
	n, err := f.Conn.Write(p)
	f.see(p[:n])
	if err == nil && !between {
		err = f.tell()
	}
	return n, err
}

// SetWriteDeadline implements net.Conn. net/http lifts a deadline as it begins with frames; those
// below TLS are ours, and stay.
func (*frames) SetWriteDeadline(time.Time) error { return nil }

// Close implements net.Conn.
func (f *frames) Close() error { return f.c.part() }

// see follows what was written.
func (f *frames) see(p []byte) {
	for len(p) > 0 {
		if f.left > 0 {
			n := min(f.left, len(p))
			f.left, p = f.left-n, p[n:]
			continue
		}
		n := min(frameHead-len(f.head), len(p))
		f.head, p = append(f.head, p[:n]...), p[n:]
		if len(f.head) < frameHead {
			return
		}
		f.left = int(f.head[0])<<16 | int(f.head[1])<<8 | int(f.head[2])
		switch f.head[3] {
		case frameHeaders, framePushPromise, frameContinuation:
			f.open = f.head[4]&flagEndHeaders == 0
		case frameGoAway:
			f.told = true // a later one may not name a higher stream
		}
		f.begun, f.head = true, f.head[:0]
	}
}

// between reports whether a frame has ended, and any other may begin.
func (f *frames) between() bool { return f.begun && !f.open && f.left == 0 && len(f.head) == 0 }

// tell tells the client, if it is to be told and can be. It is best told before an answer, whose
// client goes elsewhere with its next request: Go's loses one that it is about to send by the
// connection as it learns of the end, and cannot send again (net/http's errCannotRewind).
func (f *frames) tell() error {
	if f.told || !f.due.Load() || !f.between() {
		return nil
	}
	f.told = true
	_, err := f.Conn.Write(goAway(noLast, codeNone))
	return err
}

// telling is how long a connection has for an answer by which its client is told, before it is
// without one.
const telling = time.Second

// leave has the client told now, or after the frame that is written.
func (f *frames) leave() {
	f.due.Store(true)
	f.mu.Lock()
	defer f.mu.Unlock()
	_ = f.tell() // net/http's next write ends the connection that this one could not
}

// adequate reports whether the handshake has led to what RFC 9113 (section 9.2.2) lets HTTP/2 be
// spoken by. net/http looks at that where it sees TLS itself.
func adequate(state *tls.ConnectionState) bool {
	if state.Version != tls.VersionTLS12 {
		return state.Version > tls.VersionTLS12
	}
	switch state.CipherSuite {
	case tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
		tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384, tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
		tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256, tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256:
		return true
	}
	return false
}
