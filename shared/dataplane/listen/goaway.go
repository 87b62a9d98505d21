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

// A server announces its shutdown twice (RFC 9113, section 6.8). The first GOAWAY has the
// highest possible stream number: it refuses nothing, but clients start no further requests. The
// second GOAWAY has the number of the last stream that the server has accepted. net/http sends
// only the second one, and drops requests that have not completely arrived. Their clients can't
// always send them again. So we write the first GOAWAY here, between two frames of net/http.

// The sizes and flags of a frame header (RFC 9113, section 4.1), and the frame types that framedConn distinguishes.
const (
	frameHeaderSize = 9

	frameHeaders      = 0x1
	framePushPromise  = 0x5
	frameGoAway       = 0x7
	frameContinuation = 0x9
	flagEndHeaders    = 0x4

	// maxStreamID is the last stream in a GOAWAY that refuses no stream.
	maxStreamID = math.MaxInt32

	codeNoError            = 0x0
	codeInadequateSecurity = 0xc
)

// goAway returns a GOAWAY frame.
func goAway(lastStream, code uint32) []byte {
	out := []byte{0, 0, 8, frameGoAway, 0, 0, 0, 0, 0}
	out = binary.BigEndian.AppendUint32(out, lastStream)
	return binary.BigEndian.AppendUint32(out, code)
}

// framedConn is an HTTP/2 connection as net/http receives it. It parses the headers of the frames that net/http
// writes, so it knows where another frame can be inserted. It does not parse incoming frames.
//
// It is not a *tls.Conn, because net/http would bypass it. net/http
// serves it as a connection without TLS, although TLS is below it.
type framedConn struct {
	net.Conn // the *tls.Conn
	c        *conn

	// goAwayDue is set when the client has to receive a GOAWAY.
	goAwayDue atomic.Bool

	mu sync.Mutex // guards the fields below, and writes
	// header has the bytes of the current frame's header that were written.
	// remaining is the number of bytes of its payload that were not written yet.
	header    []byte
	remaining int
	// started is set after the first frame, which must be SETTINGS. inHeaderBlock is set between the frames of a
	// header block, where no other frame is allowed. goAwaySent is set after a GOAWAY, from us or net/http.
	started, inHeaderBlock, goAwaySent bool
}

// Write implements net.Conn.
func (f *framedConn) Write(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	atBoundary := f.atFrameBoundary()
	if err := f.sendDueGoAway(); err != nil {
		return 0, err
	}
	n, err := f.Conn.Write(p)
	f.track(p[:n])
	if err == nil && !atBoundary {
		err = f.sendDueGoAway()
	}
	return n, err
}

// SetWriteDeadline implements net.Conn. It ignores the deadlines of net/http, which
// only removes one before the first frame. Our own deadlines apply to the connection below TLS.
func (*framedConn) SetWriteDeadline(time.Time) error { return nil }

// Close implements net.Conn.
func (f *framedConn) Close() error { return f.c.closeGracefully() }

// track updates the state of the current frame after p was written.
func (f *framedConn) track(p []byte) {
	for len(p) > 0 {
		if f.remaining > 0 {
			n := min(f.remaining, len(p))
			f.remaining, p = f.remaining-n, p[n:]
			continue
		}
		n := min(frameHeaderSize-len(f.header), len(p))
		f.header, p = append(f.header, p[:n]...), p[n:]
		if len(f.header) < frameHeaderSize {
			return
		}
		f.remaining = int(f.header[0])<<16 | int(f.header[1])<<8 | int(f.header[2])
		switch f.header[3] {
		case frameHeaders, framePushPromise, frameContinuation:
			f.inHeaderBlock = f.header[4]&flagEndHeaders == 0
		case frameGoAway:
			f.goAwaySent = true // a later GOAWAY must not have a higher stream
		}
		f.started, f.header = true, f.header[:0]
	}
}

// atFrameBoundary reports whether a frame of any type can begin.
func (f *framedConn) atFrameBoundary() bool {
	return f.started && !f.inHeaderBlock && f.remaining == 0 && len(f.header) == 0
}

// sendDueGoAway sends the GOAWAY if it is due and a frame can begin. The best time is before a response: the client
// then sends its next request elsewhere. If the GOAWAY arrives when Go's client is about to send a request over the
// connection, and the client can't send the request again, the request fails (net/http's errCannotRewind).
func (f *framedConn) sendDueGoAway() error {
	if f.goAwaySent || !f.goAwayDue.Load() || !f.atFrameBoundary() {
		return nil
	}
	f.goAwaySent = true
	_, err := f.Conn.Write(goAway(maxStreamID, codeNoError))
	return err
}

// goAwayDelay is how long the GOAWAY waits for a response on the connection, before which it is sent. If there is
// none, the GOAWAY is sent after this time.
const goAwayDelay = time.Second

// sendGoAway sends the GOAWAY now, or after the current frame, unless one was already sent.
func (f *framedConn) sendGoAway() {
	f.goAwayDue.Store(true)
	f.mu.Lock()
	defer f.mu.Unlock()
	_ = f.sendDueGoAway() // after an error, net/http's next write ends the connection
}

// isAdequateTLS reports whether the handshake has negotiated what RFC 9113
// (section 9.2.2) requires for HTTP/2. net/http checks this only for a *tls.Conn.
func isAdequateTLS(state *tls.ConnectionState) bool {
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
