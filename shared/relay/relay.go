// Package relay makes relays of tunnels out of package tunnel and the table: agents
// connect to one of several relays, and a gateway asks any of them (specification
// 4.8, contract 2.8; design, section 7).
//
// Which relay has which tunnel stands in leased rows: a relay that is asked for
// another's passes the request on, once. Gateways in other processes ask with a
// short-lived signed pass (Client); one in the same process calls RoundTrip.
//
// What it is not: it opens no port and ends no TLS, which is the service's (functions/relay),
// and it knows no tunnel's token and no configuration, which the Directory does.
//
// Read this file first, then carry.go (a request's way) with tries.go and body.go (when it is
// sent again), lease.go and table.go (the rows), ask.go (what is asked by others), client.go and
// asker.go (how others are asked), pass.go and failure.go (what crosses the wire besides
// requests). told.go keeps agents up to date.
//
// Clocks of relays and gateways may differ by ClockDifference.
package relay

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"sync"
	"time"

	"github.com/gatewright/gatewright/shared/ids"
	"github.com/gatewright/gatewright/shared/seal"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/tunnel"
	"github.com/gatewright/gatewright/shared/tunnels"
)

// AskPath is where gateways and other relays ask: a request's own path comes after it.
const AskPath = "/ask"

// Directory is what carrying traffic asks of tunnels: tunnels.Directory. A ref is a
// tunnel, opaque here.
type Directory interface {
	// Authorize tells the ref of the tunnel that a token is of, "" for none.
	Authorize(ctx context.Context, token string) (ref string, err error)
	// Services are what a tunnel leads to now, tunnels.ErrNoTunnel for one that was deleted.
	Services(ctx context.Context, ref string) ([]tunnel.Service, error)
	// Find gives the ref of the tunnel that has an account's service, for a caller that
	// may ask it. The error is a *tunnel.Error where there is none, or it may not.
	Find(ctx context.Context, accountID, service string, c tunnel.Caller) (ref string, err error)
}

var _ Directory = (*tunnels.Directory)(nil)

// Options are what a Relay takes from outside. All but Address, TLS and Dial are needed.
type Options struct {
	Directory Directory
	Table     *store.Table
	// Key is the installation's root key, of which passes are signed.
	Key seal.KeySource
	// Address is where other relays ask this one, as an absolute URL without a path, such as
	// https://10.0.1.7:8443; "" for a relay that no other reaches, the only one of its
	// installation: it writes no rows.
	Address string
	Now     func() time.Time
	Random  io.Reader
	Log     *slog.Logger
	// TLS is how other relays are known: ServerName is the name in the relays' certificate,
	// where their addresses are not. nil trusts the system's roots.
	TLS *tls.Config
	// Dial opens TCP connections to other relays; nil dials as net.Dialer does.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Relay is where agents connect and gateways ask. It is an http.Handler for
// tunnel.ConnectPath and for AskPath and what is below it; anything else is answered 404. It is
// safe for concurrent use.
type Relay struct {
	options Options
	agents  *tunnel.Relay
	leases  *leases
	passes  *passes
	asker   *asker
	down    down
	told    told
	under   underWay
	lines   *tunnel.Lines // of refused requests
	// proxy is how asks are carried; each has a copy that knows its own way.
	proxy httputil.ReverseProxy
}

var _ http.Handler = (*Relay)(nil)

// New makes a Relay that no agent is connected to.
func New(o Options) *Relay {
	p := newPasses(o.Key, o.Now)
	rl := &Relay{options: o, passes: p, asker: newAsker(p, o.TLS, o.Dial, usual()), proxy: proxy(o.Log), lines: tunnel.NewLines()}
	rl.agents = tunnel.NewRelay(tunnel.RelayOptions{
		Authorize: o.Directory.Authorize, Services: o.Directory.Services, Log: o.Log,
		Changed: rl.settle, Gone: rl.settle,
	})
	rl.leases = &leases{
		id: ids.NewSource(o.Random, o.Now).New("rly", 24), address: o.Address, now: o.Now, log: o.Log, began: o.Now(),
		has: func(ref string) bool { return len(rl.agents.Of(ref)) > 0 }, leaving: rl.agents.Leaving,
	}
	if o.Address != "" {
		rl.leases.table = o.Table
	}
	return rl
}

// settle is called when a connection of a tunnel is there, and when the last one is gone.
func (rl *Relay) settle(ctx context.Context, ref string) { rl.leases.settle(ctx, ref) }

// ServeHTTP takes the connections of agents and answers what gateways and other relays ask.
func (rl *Relay) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path == tunnel.ConnectPath:
		rl.agents.ServeHTTP(w, r)
	case asked(r):
		rl.ask(w, r)
	default:
		http.NotFound(w, r)
	}
}

// Run renews the rows that say which tunnels this relay has, and tells agents of services that
// have changed, until ctx ends. Without it other relays find the tunnels for the time of a
// lease only.
func (rl *Relay) Run(ctx context.Context) {
	var work sync.WaitGroup
	work.Go(func() { rl.leases.run(ctx) })
	work.Go(func() { rl.tellAll(ctx) })
	work.Wait()
}

// Drain gives the rows back, refuses agents from now on, has those that are connected connect
// elsewhere, and returns when nothing is under way any more, or when ctx has ended: agents'
// connections have been cut then. Requests are taken on all the while, and passed on to where
// the agents have gone. Run may go on meanwhile. Other clients of the server are told by
// http.Server.Shutdown, after it.
func (rl *Relay) Drain(ctx context.Context) {
	rl.leases.giveBack(ctx)
	rl.agents.Drain(ctx)
	rl.under.wait(ctx)
	rl.asker.close()
}

// RoundTrip sends a request of a caller to a service of an account, for a gateway in the
// same process. r's path and query are what is appended to the service's endpoint, and its
// header and body belong to RoundTrip from then on. A response of status 101 has a body
// that is an io.ReadWriteCloser.
//
// The error is a *tunnel.Error that says why the service was not asked or did not answer;
// tunnel.ErrNoAgent where no relay has an agent; tunnel.ErrUnavailable where no relay could be
// asked, or the table could not; tunnel.ErrBroken where a connection ended and the request
// may have been seen; or the cause of r's context. A request is sent again
// where tunnel.Repeatable says so, or where no service was reached and nothing of its body is
// gone. Where an agent was connected a moment ago, or may have been when a relay without an
// address began, it waits for the agent, some seconds at most.
func (rl *Relay) RoundTrip(r *http.Request, accountID, service string, c tunnel.Caller) (*http.Response, error) {
	ref, err := rl.options.Directory.Find(r.Context(), accountID, service, c)
	if err != nil {
		bodyOf(r).end()
		return nil, unfound(r.Context(), err)
	}
	return rl.carry(r.Context(), r, ref, claims{AccountID: accountID, Service: service, Project: c.Project, Environment: c.Environment})
}

// unfound is what is answered when a service was not found.
func unfound(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if _, known := errors.AsType[*tunnel.Error](err); known {
		return err
	}
	return fmt.Errorf("%w: %w", tunnel.ErrUnavailable, err)
}
