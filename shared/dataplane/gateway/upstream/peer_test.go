package upstream

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"syscall"
)

// splitRandomly splits bytes at pseudorandom places.
func splitRandomly(all []byte, random *rand.Rand) [][]byte {
	var parts [][]byte
	for len(all) > 0 {
		n := len(all)
		if random.IntN(3) > 0 {
			n = 1 + random.IntN(n)
		}
		parts, all = append(parts, all[:n]), all[n:]
	}
	return parts
}

// scriptedServer is a server that plays a script on the first connection, and responds to all later requests
// with reply. Without TLS it has no goroutine: the call that writes a request also makes the response available.
type scriptedServer struct {
	script     script
	closeAtEnd bool // whether the first connection is closed after the script
	dialed     int
	tls        *tls.Config
	wg         sync.WaitGroup
	written    chan struct{} // closed when the whole script was written
}

func newScriptedServer(s script, config *tls.Config) *scriptedServer {
	p := &scriptedServer{script: s, closeAtEnd: s.isIncomplete(), written: make(chan struct{})}
	if s.secure {
		p.tls = config
	}
	return p
}

// dial returns one end of a pair of real sockets, which idleChecker can check.
func (s *scriptedServer) dial(context.Context, string, string) (net.Conn, error) {
	sockets, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	conn, err := asConn(sockets[0])
	if err != nil {
		return nil, err
	}
	s.dialed++
	if s.tls == nil {
		return &scriptedConn{UnixConn: conn, peer: s, serverSocket: sockets[1], isFirst: s.dialed == 1}, nil
	}
	serverConn, err := asConn(sockets[1])
	if err != nil {
		return nil, err
	}
	isFirst := s.dialed == 1
	s.wg.Go(func() {
		defer serverConn.Close() //nolint:errcheck // an error has no effect
		s.serve(serverConn, isFirst)
	})
	return conn, nil
}

func asConn(socket int) (*net.UnixConn, error) {
	f := os.NewFile(uintptr(socket), "")
	defer f.Close() //nolint:errcheck // net.FileConn duplicates the socket
	conn, err := net.FileConn(f)
	if err != nil {
		return nil, err
	}
	return conn.(*net.UnixConn), nil
}

// scriptedConn is the client's end of a pair of sockets. It also plays the server: Write writes the response to the
// server's end.
type scriptedConn struct {
	*net.UnixConn
	peer         *scriptedServer
	serverSocket int // the socket of the other end, -1 after it was closed
	isFirst      bool
	// sizes are the maximum sizes of the next reads, as if each were a TCP segment.
	sizes []int
}

func (c *scriptedConn) Write(p []byte) (int, error) {
	if c.serverSocket < 0 {
		return 0, syscall.EPIPE
	}
	response := []byte(reply)
	if c.isFirst {
		c.isFirst, response = false, c.peer.script.bytes
		for _, segment := range splitRandomly(response, rand.New(rand.NewPCG(c.peer.script.seed, 1))) {
			c.sizes = append(c.sizes, len(segment))
		}
		defer close(c.peer.written)
	} else {
		c.peer.closeAtEnd = false
	}
	if n, err := syscall.Write(c.serverSocket, response); err != nil || n != len(response) {
		return 0, fmt.Errorf("%d of %d bytes written: %w", n, len(response), err)
	}
	if c.peer.closeAtEnd {
		c.hangUp()
	}
	return len(p), nil
}

func (c *scriptedConn) Read(p []byte) (int, error) {
	if len(c.sizes) == 0 {
		return c.UnixConn.Read(p)
	}
	n, err := c.UnixConn.Read(p[:min(len(p), c.sizes[0])])
	if c.sizes[0] -= n; c.sizes[0] == 0 {
		c.sizes = c.sizes[1:]
	}
	return n, err
}

// hangUp closes the server's end.
func (c *scriptedConn) hangUp() {
	if c.serverSocket >= 0 {
		_ = syscall.Close(c.serverSocket)
		c.serverSocket = -1
	}
}

func (c *scriptedConn) Close() error {
	c.hangUp()
	return c.UnixConn.Close()
}

// bufferingConn can collect TLS records, so that they can then be sent in segments with other boundaries.
type bufferingConn struct {
	net.Conn
	buffering bool
	buffer    bytes.Buffer
}

func (c *bufferingConn) Write(p []byte) (int, error) {
	if c.buffering {
		return c.buffer.Write(p)
	}
	return c.Conn.Write(p)
}

// serve plays the server's part over TLS.
func (s *scriptedServer) serve(raw net.Conn, isFirst bool) {
	below := &bufferingConn{Conn: raw}
	conn := tls.Server(below, s.tls)
	for r := bufio.NewReader(conn); skipRequest(r); isFirst = false {
		if !isFirst {
			_, _ = io.WriteString(conn, reply)
			continue
		}
		random := rand.New(rand.NewPCG(s.script.seed, 1))
		below.buffering = true
		for _, record := range splitRandomly(s.script.bytes, random) {
			_, _ = conn.Write(record)
		}
		below.buffering = false
		for _, segment := range splitRandomly(below.buffer.Bytes(), random) {
			_, _ = raw.Write(segment)
		}
		if s.closeAtEnd {
			_ = conn.Close()
		}
		close(s.written)
	}
}

// skipRequest reads a request without a body. It returns false if the connection has ended.
func skipRequest(r *bufio.Reader) bool {
	for {
		line, err := r.ReadSlice('\n')
		if err != nil {
			return false
		}
		if len(line) <= 2 {
			return true
		}
	}
}

// memoryConn is an in-memory connection for http.Transport, on which a script is played.
type memoryConn struct {
	net.Conn    // nil, because no other method is called
	segments    [][]byte
	closeAtEnd  bool
	requested   chan struct{}
	closed      chan struct{}
	requestOnce sync.Once
	closeOnce   sync.Once
}

// dialMemory returns a memoryConn on which the script is played.
func (s *scriptedServer) dialMemory(context.Context, string, string) (net.Conn, error) {
	return &memoryConn{
		segments: splitRandomly(s.script.bytes, rand.New(rand.NewPCG(s.script.seed, 1))), closeAtEnd: s.closeAtEnd,
		requested: make(chan struct{}), closed: make(chan struct{}),
	}, nil
}

func (m *memoryConn) Write(p []byte) (int, error) {
	m.requestOnce.Do(func() { close(m.requested) })
	return len(p), nil
}

func (m *memoryConn) Read(p []byte) (int, error) {
	select {
	case <-m.closed:
		return 0, net.ErrClosed
	case <-m.requested:
	}
	if len(m.segments) == 0 {
		if !m.closeAtEnd {
			<-m.closed
		}
		return 0, io.EOF
	}
	n := copy(p, m.segments[0])
	if m.segments[0] = m.segments[0][n:]; len(m.segments[0]) == 0 {
		m.segments = m.segments[1:]
	}
	return n, nil
}

func (m *memoryConn) Close() error {
	m.closeOnce.Do(func() { close(m.closed) })
	return nil
}
