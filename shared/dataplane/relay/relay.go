// Package relay connects gateways to the services behind tunnels, with package tunnel and the table. The agents of a
// tunnel connect to any of several relays, and a gateway calls any relay (specification 4.8, contract 2.8; design,
// section 7).
//
// Rows of the table say which relay holds which tunnel, which means that an agent of the tunnel is connected to the
// relay. The rows expire unless they are renewed (leases). A relay that is called for a tunnel of another relay
// forwards the request to that relay. A forwarded request is not forwarded again. Gateways in other processes call
// with a short-lived signed pass (Client); a gateway in the same process calls RoundTrip.
//
// The package does not open ports or terminate TLS: functions/relay does. It does not store the tokens and services
// of tunnels: it reads them from the Directory.
//
// Read this file first, then forward.go (how a request is forwarded) with attempts.go and body.go (repeated attempts),
// lease.go and table.go (the rows), serve.go (requests from gateways and other relays), client.go and relayclient.go
// (requests to relays), pass.go and failure.go (passes and failures on the wire). configure.go keeps agents up to date.
//
// Clocks of relays and gateways can differ by MaxClockSkew.
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

	"github.com/gatewright/gatewright/shared/base/ids"
	"github.com/gatewright/gatewright/shared/core/seal"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/format/tunnel"
	"github.com/gatewright/gatewright/shared/resource/tunnels"
)

// RequestPath is the path for gateways and other relays: a request's own path follows it.
const RequestPath = "/ask"

// Directory looks up tunnels: tunnels.Directory implements it. A ref identifies a tunnel and is opaque here.
type Directory interface {
	// Authenticate returns the ref of a token's tunnel, "" for an unknown token.
	Authenticate(ctx context.Context, token string) (ref string, err error)
	// Services returns the current services of a tunnel, tunnels.ErrNoTunnel for a deleted tunnel.
	Services(ctx context.Context, ref string) ([]tunnel.Service, error)
	// Find returns the ref of the tunnel that has an account's service. The error is a
	// *tunnel.Error if there is no such service, or if the caller is not allowed to call it.
	Find(ctx context.Context, accountID, service string, c tunnel.Caller) (ref string, err error)
}

var _ Directory = (*tunnels.Directory)(nil)

// Options are the settings and dependencies of a Relay. Address, TLS and Dial are optional. Table is used only with an
// Address. All others are required.
type Options struct {
	Directory Directory
	Table     *store.Table
	// Key is the installation's root key, which signs passes.
	Key seal.KeySource
	// Address is this relay's address for other relays, an absolute URL without a path, such as
	// https://10.0.1.7:8443. It is "" if the installation has only one relay, which then writes no rows.
	Address string
	Now     func() time.Time
	Random  io.Reader
	Log     *slog.Logger
	// TLS verifies other relays: ServerName is the name in the relays' certificate
	// if their addresses are not in it. nil trusts the system's roots.
	TLS *tls.Config
	// Dial opens TCP connections to other relays; nil dials like net.Dialer.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Relay accepts connections of agents and requests of gateways. It is an http.Handler for tunnel.ConnectPath and
// for RequestPath and the paths below it; it responds to all other paths with 404. It is safe for concurrent use.
type Relay struct {
	options     Options
	agents      *tunnel.Relay
	leases      *leases
	passes      *passes
	relayClient *relayClient
	unreachable unreachableRelays
	configured  configuredServices
	inFlight    inFlight
	logLimiter  *tunnel.LogLimiter // limits the log lines about refused requests
	// proxy is a template for forwarding: each request has a copy with its own transport.
	proxy httputil.ReverseProxy
}

var _ http.Handler = (*Relay)(nil)

// New returns a Relay without connected agents.
func New(o Options) *Relay {
	p := newPasses(o.Key, o.Now)
	rl := &Relay{
		options: o, passes: p, relayClient: newRelayClient(p, o.TLS, o.Dial, defaultTimeouts()),
		proxy: newProxy(o.Log), logLimiter: tunnel.NewLogLimiter(),
	}
	rl.agents = tunnel.NewRelay(tunnel.RelayOptions{
		Authenticate: o.Directory.Authenticate, Services: o.Directory.Services, Log: o.Log,
		OnConnect: rl.agentsChanged, OnDisconnect: rl.agentsChanged,
	})
	rl.leases = &leases{
		id: ids.NewSource(o.Random, o.Now).New("rly", 24), address: o.Address, now: o.Now, log: o.Log, startedAt: o.Now(),
		connected: func(ref string) bool { return len(rl.agents.ForTunnel(ref)) > 0 }, draining: rl.agents.HasDraining,
	}
	if o.Address != "" {
		rl.leases.table = o.Table
	}
	return rl
}

// agentsChanged is called after a connection of a tunnel has begun, and after the tunnel's last connection has ended.
func (rl *Relay) agentsChanged(ctx context.Context, ref string) { rl.leases.writeIfDue(ctx, ref) }

// ServeHTTP serves the connections of agents and the requests of gateways and other relays.
func (rl *Relay) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path == tunnel.ConnectPath:
		rl.agents.ServeHTTP(w, r)
	case isServiceRequest(r):
		rl.serveRequest(w, r)
	default:
		http.NotFound(w, r)
	}
}

// Run renews the rows of this relay's tunnels, and sends changed services to agents, until ctx ends. Without Run,
// other relays find a tunnel only until its first lease ends.
func (rl *Relay) Run(ctx context.Context) {
	var work sync.WaitGroup
	work.Go(func() { rl.leases.run(ctx) })
	work.Go(func() { rl.configureAll(ctx) })
	work.Wait()
}

// Drain shuts the relay down. It releases the rows, refuses new agents, and makes connected agents connect to another
// relay. It returns when no requests are in flight, or when ctx has ended. In both cases it has closed the connections
// of agents. Meanwhile the relay still accepts requests, and forwards them to the agents' new relays. Run can continue
// during Drain. Call http.Server.Shutdown afterwards to notify other clients of the server.
func (rl *Relay) Drain(ctx context.Context) {
	rl.leases.releaseAll(ctx)
	rl.agents.Drain(ctx)
	rl.inFlight.wait(ctx)
	rl.relayClient.close()
}

// RoundTrip sends a request of a caller to a service of an account, for a gateway in the same
// process. r's path and query are appended to the service's endpoint. RoundTrip may change r's
// header and reads its body. A response of status 101 has a body that is an io.ReadWriteCloser.
//
// If there is no such service, the caller is not allowed to call it, or the agent gets no usable response from it,
// the error is a *tunnel.Error with the reason. The error wraps tunnel.ErrNoAgent if no relay has an agent, and
// tunnel.ErrBusy if the agents do not accept another request. It wraps tunnel.ErrUnavailable if no relay, the table
// or the Directory was available, and tunnel.ErrBroken if a connection ended and the service may have received the
// request. If r's context has ended, the error is the context's cause. A request is sent again if no service was
// reached and the body is unread. If a service may have received it, it is sent again only if tunnel.Repeatable
// allows it, and at most maxAttempts times in all. If an agent was connected a moment ago, RoundTrip waits for it for
// at most a few seconds. A relay without an address also waits shortly after its start, because it does not know
// which agents were connected before.
func (rl *Relay) RoundTrip(r *http.Request, accountID, service string, c tunnel.Caller) (*http.Response, error) {
	ref, err := rl.options.Directory.Find(r.Context(), accountID, service, c)
	if err != nil {
		newBody(r).release()
		return nil, lookupError(r.Context(), err)
	}
	return rl.forward(r.Context(), r, ref, claims{
		AccountID: accountID, Service: service, Project: c.Project,
		Environment: c.Environment,
	})
}

// lookupError returns the error of RoundTrip for an error of Directory.Find.
func lookupError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if _, known := errors.AsType[*tunnel.Error](err); known {
		return err
	}
	return fmt.Errorf("%w: %w", tunnel.ErrUnavailable, err)
}
