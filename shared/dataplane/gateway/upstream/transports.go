package upstream

import (
	"cmp"
	"context"
	"maps"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// transports has an http.Transport for each pair of an account and a client certificate, or no
// certificate. So no connection is shared between accounts, not even an HTTP/2 connection with its many
// requests. A transport for which no request has started within idleTimeout is removed (sweep).
type transports struct {
	dial      func(ctx context.Context, network, address string) (net.Conn, error)
	options   Options
	openConns atomic.Int64 // all open connections, idle or not

	mu         sync.Mutex
	byIdentity map[identityKey]*transport
	sweeping   bool
}

// transport is the transport of one account and certificate.
type transport struct {
	*http.Transport
	lastUsed time.Time
}

// maxTransports is the maximum number of transports, about 4 KB each. The least recently used transport is removed first.
const maxTransports = 1024

// get returns the transport of an identity, and creates it if necessary.
func (t *transports) get(id identity) *http.Transport {
	t.mu.Lock()
	defer t.mu.Unlock()
	key := id.key()
	entry := t.byIdentity[key]
	if entry == nil {
		if len(t.byIdentity) >= maxTransports {
			t.remove(t.byAge()[0])
		}
		if t.byIdentity == nil {
			t.byIdentity = map[identityKey]*transport{}
		}
		entry = &transport{Transport: t.newTransport(id)}
		t.byIdentity[key] = entry
		if !t.sweeping {
			t.sweeping = true
			time.AfterFunc(idleTimeout, t.sweep)
		}
	}
	entry.lastUsed = time.Now()
	return entry.Transport
}

func (t *transports) newTransport(id identity) *http.Transport {
	o := t.options
	return &http.Transport{
		// Proxy stays nil: a proxy from the process's HTTP_PROXY must not see the traffic
		// of projects, and Guard would check the proxy's address instead of the upstream's.
		DialContext:            t.connect,
		DialTLSContext:         dialRecordedTLS(t.connect, o.TLS, id, o.TLSTimeout),
		ExpectContinueTimeout:  time.Second,
		MaxResponseHeaderBytes: o.MaxHeaderBytes,
		MaxIdleConns:           o.MaxIdle,
		MaxIdleConnsPerHost:    o.MaxIdlePerHost,
		IdleConnTimeout:        idleTimeout,
		ForceAttemptHTTP2:      true,
		// Forward bodies unchanged: do not decompress them.
		DisableCompression: true,
		HTTP2:              &http.HTTP2Config{SendPingTimeout: 15 * time.Second, PingTimeout: 10 * time.Second},
	}
}

// connect opens a connection. If too many connections are open, it closes idle ones.
func (t *transports) connect(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := t.dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	if t.openConns.Add(1) > int64(t.options.MaxIdle) {
		t.closeIdle()
	}
	return &recordedConn{Conn: conn, onClose: sync.OnceFunc(func() { t.openConns.Add(-1) })}, nil
}

// closeIdle closes the idle connections of one transport after another until at most MaxIdle connections
// are open, or no transport is left. It starts with the least recently used transport.
func (t *transports) closeIdle() {
	t.mu.Lock()
	keys := t.byAge()
	inOrder := make([]*transport, len(keys))
	for i, key := range keys {
		inOrder[i] = t.byIdentity[key]
	}
	t.mu.Unlock()
	for _, entry := range inOrder {
		if t.openConns.Load() <= int64(t.options.MaxIdle) {
			return
		}
		entry.CloseIdleConnections()
	}
}

// byAge returns the keys of all transports, least recently used first.
func (t *transports) byAge() []identityKey {
	return slices.SortedFunc(maps.Keys(t.byIdentity), func(a, b identityKey) int {
		return cmp.Compare(t.byIdentity[a].lastUsed.UnixNano(), t.byIdentity[b].lastUsed.UnixNano())
	})
}

// remove removes a transport. It closes the idle connections. Connections in use are closed
// when their requests end, or with HTTP/2 when they have then been idle for idleTimeout.
func (t *transports) remove(key identityKey) {
	t.byIdentity[key].CloseIdleConnections()
	delete(t.byIdentity, key)
}

// sweep removes the transports that were not used for idleTimeout. If there are other transports,
// it schedules another sweep.
func (t *transports) sweep() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for key, entry := range t.byIdentity {
		if time.Since(entry.lastUsed) >= idleTimeout {
			t.remove(key)
		}
	}
	if t.sweeping = len(t.byIdentity) > 0; t.sweeping {
		time.AfterFunc(idleTimeout, t.sweep)
	}
}

// close closes idle connections.
func (t *transports) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for key := range t.byIdentity {
		t.remove(key)
	}
}
