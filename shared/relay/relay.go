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
// Read this file first, then lease.go and table.go (the rows), ask.go (what is asked
// by others), client.go (how others are asked), pass.go and failure.go (what crosses
// the wire besides requests).
package relay

import (
	"context"
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"net/http"
	"time"

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
	// Services are what a tunnel leads to now.
	Services(ctx context.Context, ref string) ([]tunnel.Service, error)
	// Find gives the ref of the tunnel that has an account's service, for a caller that
	// may ask it: tunnels.ErrNoService and tunnels.ErrNotAllowed otherwise.
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
// tunnel.ConnectPath and for AskPath and what is below it; anything else is answered 404. It is safe for concurrent
// use.
type Relay struct {
	options Options
}

var _ http.Handler = (*Relay)(nil)

// New makes a Relay that no agent is connected to.
func New(o Options) *Relay { return &Relay{options: o} }

// ServeHTTP takes the connections of agents and answers what gateways and other relays ask.
func (rl *Relay) ServeHTTP(w http.ResponseWriter, r *http.Request) { http.NotFound(w, r) }

// Run renews the rows that say which tunnels this relay has, until ctx ends. Without it
// other relays find them for the time of a lease only.
func (rl *Relay) Run(ctx context.Context) { <-ctx.Done() }

// Drain gives the rows back, refuses agents from now on, has those that are connected connect
// elsewhere (GOAWAY), and returns when nothing is under way any more or ctx has ended,
// after which what still is has been cut. Requests are taken on, and passed on to where
// their agents have gone. Run goes on meanwhile.
func (rl *Relay) Drain(context.Context) {}

// RoundTrip sends a request of a caller to a service of an account, for a gateway in the
// same process. r's path and query are what is appended to the service's endpoint, and its
// header and body belong to RoundTrip from then on. A response of status 101 has a body
// that is an io.ReadWriteCloser.
//
// The error is one of tunnels.ErrNoService and tunnels.ErrNotAllowed, tunnel.ErrNoAgent
// where no relay has an agent, tunnel.ErrUnavailable where no relay could be asked or the table
// could not, a *tunnel.Error that the agent answered, tunnel.ErrBroken where a
// connection ended and the request may have been seen, or the cause of r's context. A
// request is sent again where tunnel.Repeatable says so, or when it never left.
func (rl *Relay) RoundTrip(r *http.Request, accountID, service string, c tunnel.Caller) (*http.Response, error) {
	return nil, tunnel.ErrNoAgent
}
