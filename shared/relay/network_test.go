package relay_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"time"
)

// network is TCP in memory, for synctest bubbles. Every connection goes through a proxy that can
// cut it, or forget it without a word. Addresses may stand for several others, as those of
// load balancers do.
type network struct {
	mu        sync.Mutex
	listeners map[string]*listener
	balanced  map[string][]string
	wires     map[*wire]bool
	random    *rand.Rand
}

func newNetwork(seed uint64) *network {
	return &network{
		listeners: map[string]*listener{}, balanced: map[string][]string{}, wires: map[*wire]bool{},
		random: rand.New(rand.NewPCG(seed, 0)),
	}
}

// wire is a connection as the proxy has it.
type wire struct {
	network        *network
	from, to       string
	client, server net.Conn

	mu     sync.Mutex
	last   time.Time // when a byte went through
	silent bool      // what is written goes nowhere
}

type listener struct {
	network *network
	address string
	conns   chan net.Conn
	closed  chan struct{}
	close   func()
}

type address string

func (a address) Network() string { return "tcp" }
func (a address) String() string  { return string(a) }

func (n *network) listen(at string) *listener {
	n.mu.Lock()
	defer n.mu.Unlock()
	closed := make(chan struct{})
	l := &listener{network: n, address: at, conns: make(chan net.Conn), closed: closed, close: sync.OnceFunc(func() { close(closed) })}
	n.listeners[at] = l
	return l
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *listener) Close() error {
	l.close()
	l.network.mu.Lock()
	defer l.network.mu.Unlock()
	if l.network.listeners[l.address] == l {
		delete(l.network.listeners, l.address)
	}
	return nil
}

func (l *listener) Addr() net.Addr { return address(l.address) }

// dialler gives how a machine dials.
func (n *network) dialler(from string) func(ctx context.Context, network, to string) (net.Conn, error) {
	return func(ctx context.Context, _, to string) (net.Conn, error) {
		n.mu.Lock()
		if among := n.balanced[to]; len(among) > 0 {
			to = among[n.random.IntN(len(among))]
		}
		l := n.listeners[to]
		n.mu.Unlock()
		if l == nil {
			return nil, fmt.Errorf("dial %s: connection refused", to)
		}
		near, client := net.Pipe()
		server, far := net.Pipe()
		w := &wire{network: n, from: from, to: to, client: client, server: server, last: time.Now()}
		select {
		case l.conns <- far:
		case <-l.closed:
			return nil, fmt.Errorf("dial %s: connection refused", to)
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		n.mu.Lock()
		n.wires[w] = true
		n.mu.Unlock()
		go w.copy(w.server, w.client)
		go w.copy(w.client, w.server)
		return near, nil
	}
}

// copy carries one direction, until either end closes.
func (w *wire) copy(to, from net.Conn) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if err != nil {
			break
		}
		w.mu.Lock()
		silent := w.silent
		w.last = time.Now()
		w.mu.Unlock()
		if silent {
			continue
		}
		if _, err := to.Write(buffer[:n]); err != nil {
			break
		}
	}
	w.mu.Lock()
	silent := w.silent
	w.mu.Unlock()
	if !silent { // the other end of one that is forgotten hears nothing
		w.cut()
	}
}

func (w *wire) cut() {
	_ = w.client.Close()
	_ = w.server.Close()
	w.network.mu.Lock()
	defer w.network.mu.Unlock()
	delete(w.network.wires, w)
}

// each calls do for the connections that it is about.
func (n *network) each(about func(*wire) bool, do func(*wire)) {
	n.mu.Lock()
	var all []*wire
	for w := range n.wires {
		if about(w) {
			all = append(all, w)
		}
	}
	n.mu.Unlock()
	for _, w := range all {
		do(w)
	}
}

// forget leaves a connection half-open at both ends.
func (w *wire) forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.silent = true
}

func (w *wire) forgotten() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.silent
}

func (w *wire) idleFor(d time.Duration) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Since(w.last) >= d
}

func (n *network) end() { n.each(func(*wire) bool { return true }, (*wire).cut) }

var _ io.Closer = (*listener)(nil)
