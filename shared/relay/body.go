package relay

import (
	"errors"
	"io"
	"net/http"
	"sync"
)

// body is a request's body over several attempts to send it. Transports close what they
// are given when they could not even dial; it is closed here when the last attempt is over. A nil
// body is that of a request that has none.
type body struct {
	of io.ReadCloser

	mu    sync.Mutex
	last  *part
	begun bool
}

// part is what one attempt has of a body.
type part struct {
	body   *body
	kept   bool // it was the last attempt: its end is the body's
	closed bool
}

func bodyOf(r *http.Request) *body {
	if r.Body == nil || r.Body == http.NoBody {
		return nil
	}
	return &body{of: r.Body}
}

// next gives the body of the next attempt, which alone may read from then on.
func (b *body) next() io.ReadCloser {
	if b == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.last = &part{body: b}
	return b.last
}

// touched reports whether some of the body is gone, so that there is no other attempt.
func (b *body) touched() bool {
	if b == nil {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.begun
}

// keep leaves the body to the attempt that was answered, which reads on and closes it.
func (b *body) keep() {
	if b == nil {
		return
	}
	b.mu.Lock()
	b.last.kept = true
	closed := b.last.closed
	b.mu.Unlock()
	if closed {
		_ = b.of.Close()
	}
}

// end closes the body: no attempt was answered.
func (b *body) end() {
	if b == nil {
		return
	}
	b.mu.Lock()
	b.last = nil
	b.mu.Unlock()
	_ = b.of.Close()
}

var errOver = errors.New("relay: the attempt is over")

func (p *part) Read(buffer []byte) (int, error) {
	p.body.mu.Lock()
	if p.body.last != p || p.closed {
		p.body.mu.Unlock()
		return 0, errOver
	}
	p.body.begun = true
	p.body.mu.Unlock()
	return p.body.of.Read(buffer)
}

func (p *part) Close() error {
	p.body.mu.Lock()
	p.closed = true
	kept := p.kept
	p.body.mu.Unlock()
	if kept {
		return p.body.of.Close()
	}
	return nil
}
