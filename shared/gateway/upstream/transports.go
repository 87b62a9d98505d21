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

// transports are the http.Transports of accounts, one for each certificate that they
// show, none included: its connections,
// those of HTTP/2 with their many requests included, carry nothing of others.
// One that was not used for idleTimeout has closed its connections and is
// forgotten.
type transports struct {
	dial    func(ctx context.Context, network, address string) (net.Conn, error)
	options Options
	open    atomic.Int64 // connections of all, idle or not

	mu        sync.Mutex
	byAccount map[wayKey]*transport
	sweeping  bool
}

// transport is one account's.
type transport struct {
	*http.Transport
	used time.Time
}

// maxTransports is how many accounts have one at the same time: some 4 KB
// each. The one that was not used for longest goes.
const maxTransports = 1024

// of returns the transport of an account, and of the certificate that it shows.
func (t *transports) of(by way) *http.Transport {
	t.mu.Lock()
	defer t.mu.Unlock()
	account := by.key()
	its := t.byAccount[account]
	if its == nil {
		if len(t.byAccount) >= maxTransports {
			t.forget(t.byAge()[0])
		}
		if t.byAccount == nil {
			t.byAccount = map[wayKey]*transport{}
		}
		its = &transport{Transport: t.make(by)}
		t.byAccount[account] = its
		if !t.sweeping {
			t.sweeping = true
			time.AfterFunc(idleTimeout, t.sweep)
		}
	}
	its.used = time.Now()
	return its.Transport
}

func (t *transports) make(by way) *http.Transport {
	o := t.options
	return &http.Transport{
		// Proxy stays nil: an HTTP_PROXY of the process must not see projects'
		// traffic, and would be dialled in place of the guarded address.
		DialContext:            t.connect,
		DialTLSContext:         dialTappedTLS(t.connect, o.TLS, by, o.TLSTimeout),
		ExpectContinueTimeout:  time.Second,
		MaxResponseHeaderBytes: o.MaxHeaderBytes,
		MaxIdleConns:           o.MaxIdle,
		MaxIdleConnsPerHost:    o.MaxIdlePerHost,
		IdleConnTimeout:        idleTimeout,
		ForceAttemptHTTP2:      true,
		// Bodies pass as they are: what was compressed stays so.
		DisableCompression: true,
		HTTP2:              &http.HTTP2Config{SendPingTimeout: 15 * time.Second, PingTimeout: 10 * time.Second},
	}
}

// connect dials, and makes room for the connection.
func (t *transports) connect(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := t.dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	if t.open.Add(1) > int64(t.options.MaxIdle) {
		t.closeIdle()
	}
	return &tapped{Conn: conn, gone: sync.OnceFunc(func() { t.open.Add(-1) })}, nil
}

// closeIdle closes idle connections, of accounts that were not heard of for
// longest first, until there are few enough.
func (t *transports) closeIdle() {
	t.mu.Lock()
	accounts := t.byAge()
	inOrder := make([]*transport, len(accounts))
	for i, account := range accounts {
		inOrder[i] = t.byAccount[account]
	}
	t.mu.Unlock()
	for _, its := range inOrder {
		if t.open.Load() <= int64(t.options.MaxIdle) {
			return
		}
		its.CloseIdleConnections()
	}
}

// byAge returns accounts, the one whose transport was used least lately first.
func (t *transports) byAge() []wayKey {
	return slices.SortedFunc(maps.Keys(t.byAccount), func(a, b wayKey) int {
		return cmp.Compare(t.byAccount[a].used.UnixNano(), t.byAccount[b].used.UnixNano())
	})
}

// forget leaves what is in use alone: connections that come back are closed.
func (t *transports) forget(account wayKey) {
	t.byAccount[account].CloseIdleConnections()
	delete(t.byAccount, account)
}

// sweep forgets what was not used and comes again while there is anything left.
func (t *transports) sweep() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for account, its := range t.byAccount {
		if time.Since(its.used) >= idleTimeout {
			t.forget(account)
		}
	}
	if t.sweeping = len(t.byAccount) > 0; t.sweeping {
		time.AfterFunc(idleTimeout, t.sweep)
	}
}

// close closes idle connections.
func (t *transports) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for account := range t.byAccount {
		t.forget(account)
	}
}
