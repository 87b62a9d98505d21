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
// cut it, or silently drop its bytes. The address of a load balancer represents several listeners.
type network struct {
	mu        sync.Mutex
	listeners map[string]*listener
	balancers map[string][]string // the addresses of the listeners behind each load balancer's address
	wires     map[*wire]bool
	random    *rand.Rand
}

// newNetwork returns an empty network. The seed determines which listeners a load balancer selects.
func newNetwork(seed uint64) *network {
	return &network{
		listeners: map[string]*listener{}, balancers: map[string][]string{}, wires: map[*wire]bool{},
		random: rand.New(rand.NewPCG(seed, 0)),
	}
}

// wire is a connection through the proxy.
type wire struct {
	network  *network
	from, to string
	// toClient and toServer are the proxy's ends of the connections to the client and to the server.
	toClient, toServer net.Conn

	mu       sync.Mutex
	lastByte time.Time // when the proxy last received a byte, or when the connection was opened
	dropping bool      // all bytes are dropped
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

// listen opens a listener at an address. It replaces another listener at this address.
func (n *network) listen(addr string) *listener {
	n.mu.Lock()
	defer n.mu.Unlock()
	closed := make(chan struct{})
	l := &listener{network: n, address: addr, conns: make(chan net.Conn), closed: closed, close: sync.OnceFunc(func() {
		close(closed)
	})}
	n.listeners[addr] = l
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

// dialer returns a dial function for a machine. from is the name of the machine.
func (n *network) dialer(from string) func(ctx context.Context, network, to string) (net.Conn, error) {
	return func(ctx context.Context, _, to string) (net.Conn, error) {
		n.mu.Lock()
		if targets := n.balancers[to]; len(targets) > 0 {
			to = targets[n.random.IntN(len(targets))]
		}
		l := n.listeners[to]
		n.mu.Unlock()
		if l == nil {
			return nil, fmt.Errorf("dial %s: connection refused", to)
		}
		clientEnd, toClient := net.Pipe()
		toServer, serverEnd := net.Pipe()
		w := &wire{network: n, from: from, to: to, toClient: toClient, toServer: toServer, lastByte: time.Now()}
		select {
		case l.conns <- serverEnd:
		case <-l.closed:
			return nil, fmt.Errorf("dial %s: connection refused", to)
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		n.mu.Lock()
		n.wires[w] = true
		n.mu.Unlock()
		go w.copy(w.toServer, w.toClient)
		go w.copy(w.toClient, w.toServer)
		return clientEnd, nil
	}
}

// copy forwards one direction until an end closes the connection.
func (w *wire) copy(to, from net.Conn) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if err != nil {
			break
		}
		w.mu.Lock()
		dropping := w.dropping
		w.lastByte = time.Now()
		w.mu.Unlock()
		if dropping {
			continue
		}
		if _, err := to.Write(buffer[:n]); err != nil {
			break
		}
	}
	w.mu.Lock()
	dropping := w.dropping
	w.mu.Unlock()
	if !dropping { // the other end of a half-open connection is not notified
		w.cut()
	}
}

// cut closes the connection. Both ends are notified.
func (w *wire) cut() {
	_ = w.toClient.Close()
	_ = w.toServer.Close()
	w.network.mu.Lock()
	defer w.network.mu.Unlock()
	delete(w.network.wires, w)
}

// forEach calls do for the connections for which match returns true.
func (n *network) forEach(match func(*wire) bool, do func(*wire)) {
	n.mu.Lock()
	var all []*wire
	for w := range n.wires {
		if match(w) {
			all = append(all, w)
		}
	}
	n.mu.Unlock()
	for _, w := range all {
		do(w)
	}
}

// dropBytes drops all further bytes of a connection, without notifying its ends.
func (w *wire) dropBytes() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.dropping = true
}

func (w *wire) isDropping() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.dropping
}

// idleFor reports whether the proxy has received no byte for this time.
func (w *wire) idleFor(d time.Duration) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Since(w.lastByte) >= d
}

func (n *network) closeAll() { n.forEach(func(*wire) bool { return true }, (*wire).cut) }

var _ io.Closer = (*listener)(nil)
