package upstream

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"sync"
	"time"
)

// heads keeps the bytes of the responses' heads of one request, the 1xx ones
// first. net/http removes the Connection field of a response that says "close",
// and with it the names of all other fields that belong to the connection: they
// are read again here, of the few responses that end theirs. httputil.ReverseProxy
// lets those fields pass.
type heads struct {
	raw  []byte
	told int // of which the fields were asked for
}

// maxKept is what is kept of a buffer for the next request.
const maxKept = 16 << 10

func (h *heads) reset() {
	h.told = 0
	if h.raw = h.raw[:0]; cap(h.raw) > maxKept {
		h.raw = nil
	}
}

// restore puts the Connection field of the next 1xx response back into its header.
func (h *heads) restore(header http.Header) {
	i := h.told
	h.told++
	h.find(header, func(at int, _ string) bool { return at == i })
}

// final is restore for the response that follows those, if it ends its connection.
func (h *heads) final(r *http.Response) {
	if r.Close && r.ProtoMajor == 1 {
		h.find(r.Header, func(_ int, status string) bool { return !strings.HasPrefix(status, "1") })
	}
}

// find puts the Connection field of the first head that is the one into header.
func (h *heads) find(header http.Header, is func(at int, status string) bool) {
	if _, there := header["Connection"]; there {
		return
	}
	r := textproto.NewReader(bufio.NewReader(bytes.NewReader(h.raw)))
	for at := 0; ; at++ {
		line, err := r.ReadLine()
		if err != nil {
			return
		}
		fields, err := r.ReadMIMEHeader()
		if err != nil {
			return // what is no header was no response either
		}
		_, status, _ := strings.Cut(line, " ")
		if !is(at, strings.TrimLeft(status, " ")) {
			continue
		}
		if values, there := fields["Connection"]; there {
			header["Connection"] = values
		}
		return
	}
}

// tapped is a connection of http.Transport whose responses' heads can be read
// again. All others that have it go on from where they are.
type tapped struct {
	net.Conn
	gone  func() // when it is closed; nil above TLS, where the one below is told
	mu    sync.Mutex
	heads *heads // of the request that has the connection, nil between its head and the next
}

// Read implements net.Conn.
func (t *tapped) Read(p []byte) (int, error) {
	n, err := t.Conn.Read(p)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.heads != nil {
		t.heads.raw = append(t.heads.raw, p[:n]...)
	}
	return n, err
}

// CloseWrite is for connections that have switched to another protocol.
func (t *tapped) CloseWrite() error {
	if half, ok := t.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return t.Close()
}

// Close implements net.Conn.
func (t *tapped) Close() error {
	if t.gone != nil {
		t.gone()
	}
	return t.Conn.Close()
}

// dialTappedTLS is a DialTLSContext: HTTP/2 is what http.Transport recognises by
// the type of the connection, and has no heads to read.
func dialTappedTLS(dial dialFunc, config *tls.Config, by way, timeout time.Duration) dialFunc {
	if config == nil {
		config = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	config = by.configured(config)
	config.NextProtos = []string{"h2", "http/1.1"}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		its := config.Clone()
		if its.ServerName == "" {
			if its.ServerName, _, err = net.SplitHostPort(address); err != nil {
				_ = conn.Close()
				return nil, err
			}
		}
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		secure := tls.Client(conn, its)
		if err := secure.HandshakeContext(ctx); err != nil {
			_ = conn.Close()
			return nil, err
		}
		if secure.ConnectionState().NegotiatedProtocol == "h2" {
			return secure, nil
		}
		return &tapped{Conn: secure}, nil
	}
}

type dialFunc = func(ctx context.Context, network, address string) (net.Conn, error)

// tap watches over the heads of one request on its way through http.Transport.
type tap struct {
	mu    sync.Mutex
	conn  *tapped
	heads heads
}

// watch gives a request whose responses' heads are kept.
func (t *tap) watch(r *http.Request) *http.Request {
	return r.WithContext(httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{
		GotConn: func(info httptrace.GotConnInfo) {
			t.release() // a request that is sent again has another connection
			conn, ok := info.Conn.(*tapped)
			if !ok {
				return
			}
			t.mu.Lock()
			t.conn = conn
			t.mu.Unlock()
			conn.mu.Lock()
			t.heads.reset()
			conn.heads = &t.heads
			conn.mu.Unlock()
		},
	}))
}

// restore is the heads' own, for a 1xx response.
func (t *tap) restore(header http.Header) {
	if conn := t.taken(); conn != nil {
		conn.mu.Lock()
		defer conn.mu.Unlock()
		t.heads.restore(header)
	}
}

// final is the heads' own, and ends the watch; r is nil where there is none.
func (t *tap) final(r *http.Response) {
	if conn := t.taken(); conn == nil {
		return
	}
	if t.release(); r != nil {
		t.heads.final(r)
	}
}

func (t *tap) taken() *tapped {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.conn
}

// release ends the watch over the connection.
func (t *tap) release() {
	t.mu.Lock()
	conn := t.conn
	t.conn = nil
	t.mu.Unlock()
	if conn == nil {
		return
	}
	conn.mu.Lock()
	defer conn.mu.Unlock()
	if conn.heads == &t.heads {
		conn.heads = nil
	}
}
