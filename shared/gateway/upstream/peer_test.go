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

// cut divides bytes at pseudo-random places.
func cut(all []byte, random *rand.Rand) [][]byte {
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

// peer is a server that plays a script on the first connection, and answers
// whatever comes after it with reply. Without TLS it has no goroutine: a request
// that is written is answered in the same call.
type peer struct {
	script script
	more   bool // the script's connection is closed at its end
	dialed int
	tls    *tls.Config
	wg     sync.WaitGroup
	wrote  chan struct{} // closed when all of the script is on the connection
}

func newPeer(s script, config *tls.Config) *peer {
	p := &peer{script: s, more: s.needsMore(), wrote: make(chan struct{})}
	if s.secure {
		p.tls = config
	}
	return p
}

// dial answers one end of a pair of sockets: real ones, for silence to look at.
func (p *peer) dial(context.Context, string, string) (net.Conn, error) {
	ends, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	conn, err := asConn(ends[0])
	if err != nil {
		return nil, err
	}
	p.dialed++
	if p.tls == nil {
		return &answering{UnixConn: conn, peer: p, end: ends[1], fresh: p.dialed == 1}, nil
	}
	other, err := asConn(ends[1])
	if err != nil {
		return nil, err
	}
	fresh := p.dialed == 1
	p.wg.Go(func() {
		defer other.Close() //nolint:errcheck // nobody is told
		p.serve(other, fresh)
	})
	return conn, nil
}

func asConn(socket int) (*net.UnixConn, error) {
	f := os.NewFile(uintptr(socket), "")
	defer f.Close() //nolint:errcheck // the connection has one of its own
	conn, err := net.FileConn(f)
	if err != nil {
		return nil, err
	}
	return conn.(*net.UnixConn), nil
}

// answering is a client's end of a pair of which it has both.
type answering struct {
	*net.UnixConn
	peer  *peer
	end   int // the other one's socket, -1 when it is closed
	fresh bool
	// sizes are how much is read at most at once, as if that were segments.
	sizes []int
}

func (a *answering) Write(p []byte) (int, error) {
	if a.end < 0 {
		return 0, syscall.EPIPE
	}
	answer := []byte(reply)
	if a.fresh {
		a.fresh, answer = false, a.peer.script.bytes
		for _, segment := range cut(answer, rand.New(rand.NewPCG(a.peer.script.seed, 1))) {
			a.sizes = append(a.sizes, len(segment))
		}
		defer close(a.peer.wrote)
	} else {
		a.peer.more = false
	}
	if n, err := syscall.Write(a.end, answer); err != nil || n != len(answer) {
		return 0, fmt.Errorf("%d of %d bytes written: %w", n, len(answer), err)
	}
	if a.peer.more {
		a.hangUp()
	}
	return len(p), nil
}

func (a *answering) Read(p []byte) (int, error) {
	if len(a.sizes) == 0 {
		return a.UnixConn.Read(p)
	}
	n, err := a.UnixConn.Read(p[:min(len(p), a.sizes[0])])
	if a.sizes[0] -= n; a.sizes[0] == 0 {
		a.sizes = a.sizes[1:]
	}
	return n, err
}

func (a *answering) hangUp() {
	if a.end >= 0 {
		_ = syscall.Close(a.end)
		a.end = -1
	}
}

func (a *answering) Close() error {
	a.hangUp()
	return a.UnixConn.Close()
}

// held keeps what is written until it is sent, as TCP's segments hold records.
type held struct {
	net.Conn
	holding bool
	kept    bytes.Buffer
}

func (h *held) Write(p []byte) (int, error) {
	if h.holding {
		return h.kept.Write(p)
	}
	return h.Conn.Write(p)
}

// serve plays the script over TLS.
func (p *peer) serve(raw net.Conn, fresh bool) {
	h := &held{Conn: raw}
	conn := tls.Server(h, p.tls)
	for r := bufio.NewReader(conn); skipRequest(r); fresh = false {
		if !fresh {
			_, _ = io.WriteString(conn, reply)
			continue
		}
		random := rand.New(rand.NewPCG(p.script.seed, 1))
		h.holding = true
		for _, record := range cut(p.script.bytes, random) {
			_, _ = conn.Write(record)
		}
		h.holding = false
		for _, segment := range cut(h.kept.Bytes(), random) {
			_, _ = raw.Write(segment)
		}
		if p.more {
			_ = conn.Close()
		}
		close(p.wrote)
	}
}

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

// memory is the script's connection for http.Transport, which needs no socket.
type memory struct {
	net.Conn // none: nothing else is called
	segments [][]byte
	more     bool
	asked    chan struct{}
	closed   chan struct{}
	ask      sync.Once
	end      sync.Once
}

func (p *peer) inMemory(context.Context, string, string) (net.Conn, error) {
	return &memory{
		segments: cut(p.script.bytes, rand.New(rand.NewPCG(p.script.seed, 1))), more: p.more,
		asked: make(chan struct{}), closed: make(chan struct{}),
	}, nil
}

func (m *memory) Write(p []byte) (int, error) {
	m.ask.Do(func() { close(m.asked) })
	return len(p), nil
}

func (m *memory) Read(p []byte) (int, error) {
	select {
	case <-m.closed:
		return 0, net.ErrClosed
	case <-m.asked:
	}
	if len(m.segments) == 0 {
		if !m.more {
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

func (m *memory) Close() error {
	m.end.Do(func() { close(m.closed) })
	return nil
}
