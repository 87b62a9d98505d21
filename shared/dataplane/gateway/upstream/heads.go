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

// heads has the bytes of the response heads of one request, including the heads of 1xx responses. If a response has
// "Connection: close", net/http removes the Connection field, and with it the names of the other fields that belong to
// the connection. These fields would then be forwarded, as httputil.ReverseProxy does. So for the few responses that
// end their connection, heads parses the Connection field again.
type heads struct {
	raw       []byte
	processed int // number of 1xx heads that were restored or skipped
}

// maxRetainedBuffer is the largest buffer that is kept for the next request.
const maxRetainedBuffer = 16 << 10

func (h *heads) reset() {
	h.processed = 0
	if h.raw = h.raw[:0]; cap(h.raw) > maxRetainedBuffer {
		h.raw = nil
	}
}

// restore adds the Connection field of the next 1xx response to header, where net/http has removed it.
func (h *heads) restore(header http.Header) {
	i := h.processed
	h.processed++
	h.addConnection(header, func(index int, _ string) bool { return index == i })
}

// restoreFinal adds the Connection field of the final response to its header, if the response ends its connection.
func (h *heads) restoreFinal(r *http.Response) {
	if r.Close && r.ProtoMajor == 1 {
		h.addConnection(r.Header, func(_ int, status string) bool { return !strings.HasPrefix(status, "1") })
	}
}

// addConnection finds the first head for which match returns true, and adds its Connection field to header.
func (h *heads) addConnection(header http.Header, match func(index int, status string) bool) {
	if _, exists := header["Connection"]; exists {
		return
	}
	r := textproto.NewReader(bufio.NewReader(bytes.NewReader(h.raw)))
	for index := 0; ; index++ {
		line, err := r.ReadLine()
		if err != nil {
			return
		}
		fields, err := r.ReadMIMEHeader()
		if err != nil {
			return // net/http has not accepted this head either
		}
		_, status, _ := strings.Cut(line, " ")
		if !match(index, strings.TrimLeft(status, " ")) {
			continue
		}
		if values, exists := fields["Connection"]; exists {
			header["Connection"] = values
		}
		return
	}
}

// recordedConn is a connection of http.Transport that copies the bytes of response heads to heads.
type recordedConn struct {
	net.Conn
	onClose func() // called by Close; nil for a connection over TLS, where the connection below has it
	mu      sync.Mutex
	heads   *heads // heads of the current request, nil between its final head and the next request
}

// Read implements net.Conn.
func (c *recordedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.heads != nil {
		c.heads.raw = append(c.heads.raw, p[:n]...)
	}
	return n, err
}

// CloseWrite ends our side of a connection that has switched to another protocol.
func (c *recordedConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return c.Close()
}

// Close implements net.Conn.
func (c *recordedConn) Close() error {
	if c.onClose != nil {
		c.onClose()
	}
	return c.Conn.Close()
}

// dialRecordedTLS returns a function for http.Transport's DialTLSContext. For HTTP/2 the function
// returns a *tls.Conn, because http.Transport recognizes HTTP/2 by this type, and no heads are recorded.
func dialRecordedTLS(dial dialFunc, config *tls.Config, id identity, timeout time.Duration) dialFunc {
	if config == nil {
		config = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	config = id.withCertificate(config)
	config.NextProtos = []string{"h2", "http/1.1"}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		serverConfig := config.Clone()
		if serverConfig.ServerName == "" {
			if serverConfig.ServerName, _, err = net.SplitHostPort(address); err != nil {
				_ = conn.Close()
				return nil, err
			}
		}
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		secure := tls.Client(conn, serverConfig)
		if err := secure.HandshakeContext(ctx); err != nil {
			_ = conn.Close()
			return nil, err
		}
		if secure.ConnectionState().NegotiatedProtocol == "h2" {
			return secure, nil
		}
		return &recordedConn{Conn: secure}, nil
	}
}

type dialFunc = func(ctx context.Context, network, address string) (net.Conn, error)

// headRecorder records the response heads of one request that http.Transport sends.
type headRecorder struct {
	mu    sync.Mutex
	conn  *recordedConn
	heads heads
}

// watch returns a request whose response heads are recorded.
func (hr *headRecorder) watch(r *http.Request) *http.Request {
	return r.WithContext(httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{
		GotConn: func(info httptrace.GotConnInfo) {
			hr.release() // http.Transport may send the request again, over another connection
			conn, ok := info.Conn.(*recordedConn)
			if !ok {
				return
			}
			hr.mu.Lock()
			hr.conn = conn
			hr.mu.Unlock()
			conn.mu.Lock()
			hr.heads.reset()
			conn.heads = &hr.heads
			conn.mu.Unlock()
		},
	}))
}

// restore calls heads.restore for the header of a 1xx response.
func (hr *headRecorder) restore(header http.Header) {
	if conn := hr.connection(); conn != nil {
		conn.mu.Lock()
		defer conn.mu.Unlock()
		hr.heads.restore(header)
	}
}

// restoreFinal stops recording, and calls heads.restoreFinal. r is nil if there is no response.
func (hr *headRecorder) restoreFinal(r *http.Response) {
	if conn := hr.connection(); conn == nil {
		return
	}
	if hr.release(); r != nil {
		hr.heads.restoreFinal(r)
	}
}

func (hr *headRecorder) connection() *recordedConn {
	hr.mu.Lock()
	defer hr.mu.Unlock()
	return hr.conn
}

// release stops recording the heads of the connection.
func (hr *headRecorder) release() {
	hr.mu.Lock()
	conn := hr.conn
	hr.conn = nil
	hr.mu.Unlock()
	if conn == nil {
		return
	}
	conn.mu.Lock()
	defer conn.mu.Unlock()
	if conn.heads == &hr.heads {
		conn.heads = nil
	}
}
