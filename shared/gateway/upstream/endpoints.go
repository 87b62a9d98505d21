package upstream

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Endpoints are addresses, host:port, that no project may call by whatever name or address: where the process itself
// listens for others than clients, and emulators, which ask for no key. Hosts may be names: what they lead to
// is compared with what is dialled, when it is dialled. One that leads to this machine stands for
// all of the machine's addresses, since what is asked at one of them may listen on all.
//
// It is safe for concurrent use. Make one with NewEndpoints.
type Endpoints struct {
	// lookup, own and now are net.DefaultResolver's, net.InterfaceAddrs and time.Now outside tests.
	lookup func(ctx context.Context, host string) ([]netip.Addr, error)
	own    func() ([]net.Addr, error)
	now    func() time.Time

	of map[uint16][]*endpoint // by port: a dial to any other port asks nobody
}

// endpoint is one of Endpoints.
type endpoint struct {
	host string

	mu    sync.Mutex // guards what follows
	led   []netip.Addr
	until time.Time // when it is looked up again
}

// What a look-up may take, and how long what it finds is believed: so long a name that moves is one step behind. After one
// that fails, dials do not wait in a line for the next.
const (
	lookupTimeout   = 2 * time.Second
	lookupBelieved  = 5 * time.Second
	failureBelieved = time.Second
)

// NewEndpoints makes Endpoints of addresses, host:port. One without a port of its own (0, or a name) is left out.
func NewEndpoints(addresses ...string) *Endpoints {
	e := &Endpoints{
		lookup: func(ctx context.Context, host string) ([]netip.Addr, error) {
			return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
		},
		own: net.InterfaceAddrs, now: time.Now, of: map[uint16][]*endpoint{},
	}
	for _, a := range addresses {
		host, text, err := net.SplitHostPort(a)
		port, wrong := strconv.ParseUint(text, 10, 16)
		if err == nil && wrong == nil && port != 0 {
			e.of[uint16(port)] = append(e.of[uint16(port)], &endpoint{host: host})
		}
	}
	return e
}

// refuses reports whether to, an address of one meaning that is being dialled, is one of them. Of a name that nobody
// knows, every address is that a network of one's own may have: it may be any of them. A nil e refuses nothing.
func (e *Endpoints) refuses(ctx context.Context, to netip.AddrPort) bool {
	if e == nil {
		return false
	}
	for _, one := range e.of[to.Port()] {
		led, known := e.leads(ctx, one)
		if slices.Contains(led, to.Addr()) || e.isOwn(to.Addr()) && slices.ContainsFunc(led, e.isOwn) {
			return true
		}
		if !known && (e.isOwn(to.Addr()) || slices.ContainsFunc(privatePrefixes, func(p netip.Prefix) bool { return p.Contains(to.Addr()) })) {
			return true
		}
	}
	return false
}

// leads are the addresses that an endpoint's host has. A look-up that fails leaves those of the one before.
func (e *Endpoints) leads(ctx context.Context, of *endpoint) (led []netip.Addr, known bool) {
	name := strings.ToLower(strings.TrimSuffix(of.host, "."))
	if a, err := netip.ParseAddr(of.host); err == nil {
		return meanings(a)[:1], true
	}
	if name == "" || name == "localhost" || strings.HasSuffix(name, ".localhost") { // RFC 6761, where no file says so
		return []netip.Addr{netip.IPv6Loopback()}, true
	}
	of.mu.Lock()
	defer of.mu.Unlock()
	if now := e.now(); !now.Before(of.until) {
		ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
		defer cancel()
		found, err := e.lookup(ctx, of.host)
		if of.until = now.Add(failureBelieved); err == nil && len(found) > 0 {
			of.until, of.led = now.Add(lookupBelieved), nil
			for _, a := range found {
				of.led = append(of.led, meanings(a)[0])
			}
		}
	}
	return of.led, len(of.led) > 0
}

// isOwn reports whether an address is one of this machine's now.
func (e *Endpoints) isOwn(a netip.Addr) bool {
	if a.IsLoopback() || a.IsUnspecified() {
		return true
	}
	own, _ := e.own() // none: the loopback is what there is in any case
	return slices.ContainsFunc(own, func(n net.Addr) bool {
		p, err := netip.ParsePrefix(n.String())
		return err == nil && p.Addr().Unmap().WithZone("") == a
	})
}
