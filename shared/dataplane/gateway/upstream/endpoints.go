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

// Endpoints has addresses (host:port) that no project can call, by any name or address: the process's
// own listeners that are not for clients, and emulators, which require no key. The host can be a name.
// For each dial to the same port, the name's addresses are compared with the address to dial. They are
// looked up again after lookupTTL. An endpoint on this machine matches all addresses of the machine,
// because its server may listen on all of them.
//
// It is safe for concurrent use. Create one with NewEndpoints.
type Endpoints struct {
	// Outside tests, lookup uses net.DefaultResolver, interfaceAddrs is net.InterfaceAddrs, and now is time.Now.
	lookup         func(ctx context.Context, host string) ([]netip.Addr, error)
	interfaceAddrs func() ([]net.Addr, error)
	now            func() time.Time

	byPort map[uint16][]*endpoint // by port, so that a dial to another port needs no check
}

// endpoint is an address of Endpoints, with the result of its last lookup.
type endpoint struct {
	host string

	mu         sync.Mutex // guards the fields below
	addresses  []netip.Addr
	nextLookup time.Time // time of the next lookup
}

// The timeout of a lookup, and how long its result is cached: a change of a name's address takes
// effect after this time. A failure is cached, too, so that dials do not wait for another lookup.
const (
	lookupTimeout = 2 * time.Second
	lookupTTL     = 5 * time.Second
	failureTTL    = time.Second
)

// NewEndpoints returns Endpoints for addresses of the form host:port.
// It ignores an address without a numeric port, or with the port 0.
func NewEndpoints(addresses ...string) *Endpoints {
	e := &Endpoints{
		lookup: func(ctx context.Context, host string) ([]netip.Addr, error) {
			return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
		},
		interfaceAddrs: net.InterfaceAddrs, now: time.Now, byPort: map[uint16][]*endpoint{},
	}
	for _, a := range addresses {
		host, text, err := net.SplitHostPort(a)
		port, portErr := strconv.ParseUint(text, 10, 16)
		if err == nil && portErr == nil && port != 0 {
			e.byPort[uint16(port)] = append(e.byPort[uint16(port)], &endpoint{host: host})
		}
	}
	return e
}

// refuses reports whether to is an endpoint. The caller passes the address that it wants to dial, or an address that
// reachableAddrs returns for it. If an endpoint's name can't be resolved, the endpoint could have any private address.
// So refuses then returns true for all private addresses, and all addresses of this machine, at its port. A nil e
// refuses nothing.
func (e *Endpoints) refuses(ctx context.Context, to netip.AddrPort) bool {
	if e == nil {
		return false
	}
	for _, candidate := range e.byPort[to.Port()] {
		addresses, resolved := e.resolve(ctx, candidate)
		if slices.Contains(addresses, to.Addr()) || e.isLocal(to.Addr()) && slices.ContainsFunc(addresses, e.isLocal) {
			return true
		}
		if !resolved && (e.isLocal(to.Addr()) || slices.ContainsFunc(privatePrefixes, func(p netip.Prefix) bool {
			return p.Contains(to.Addr())
		})) {
			return true
		}
	}
	return false
}

// resolve returns the addresses of an endpoint's host. If a lookup fails, it returns the addresses of the last
// successful lookup. resolved is false if there was none.
func (e *Endpoints) resolve(ctx context.Context, target *endpoint) (addresses []netip.Addr, resolved bool) {
	name := strings.ToLower(strings.TrimSuffix(target.host, "."))
	if a, err := netip.ParseAddr(target.host); err == nil {
		return reachableAddrs(a)[:1], true
	}
	// RFC 6761: this name is always the loopback address
	if name == "" || name == "localhost" || strings.HasSuffix(name, ".localhost") {
		return []netip.Addr{netip.IPv6Loopback()}, true
	}
	target.mu.Lock()
	defer target.mu.Unlock()
	if now := e.now(); !now.Before(target.nextLookup) {
		ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
		defer cancel()
		found, err := e.lookup(ctx, target.host)
		if target.nextLookup = now.Add(failureTTL); err == nil && len(found) > 0 {
			target.nextLookup, target.addresses = now.Add(lookupTTL), nil
			for _, a := range found {
				target.addresses = append(target.addresses, reachableAddrs(a)[0])
			}
		}
	}
	return target.addresses, len(target.addresses) > 0
}

// isLocal reports whether an address currently belongs to this machine.
func (e *Endpoints) isLocal(a netip.Addr) bool {
	if a.IsLoopback() || a.IsUnspecified() {
		return true
	}
	local, _ := e.interfaceAddrs() // after an error, only loopback addresses are recognized
	return slices.ContainsFunc(local, func(n net.Addr) bool {
		p, err := netip.ParsePrefix(n.String())
		return err == nil && p.Addr().Unmap().WithZone("") == a
	})
}
