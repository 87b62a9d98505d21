// Package relay declares the relay, to which the agents of tunnels connect and
// through which gateways ask the services behind them (specification 4.8,
// contract 2.8), and makes it of an installation's parts.
//
// What is here is the declaration and wiring alone: package relay in shared makes
// the relay, and package tunnel carries what goes over its connections.
package relay

import (
	"context"
	"crypto/tls"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/gatewright/gatewright/shared/api"
	"github.com/gatewright/gatewright/shared/config"
	"github.com/gatewright/gatewright/shared/installation"
	"github.com/gatewright/gatewright/shared/listen/framing"
	"github.com/gatewright/gatewright/shared/relay"
	"github.com/gatewright/gatewright/shared/service"
	"github.com/gatewright/gatewright/shared/service/health"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/tunnels"
)

// Service declares the relay.
var Service = service.Service{
	Name:   "relay",
	Does:   "Carries requests to services behind tunnels.",
	Port:   service.Port{Public: 443, Listens: 8443, Protocol: service.TLS},
	Health: "/health",
	Copies: 2,
	Peers:  true,
	// Gateways send requests below relay.AskPath. A route may have made their path longer than the client's.
	PathBytes: 2 * framing.MaxPathBytes,
	Drain:     110 * time.Second,
	Uses:      []api.Use{api.GetItem, api.Query, api.PutItem, api.RootKey},
	Reach: store.Reach{
		Reads:  []store.Space{"root-key", "tunnel", "tunnel-configuration", "tunnel-relay", "tunnel-service", "tunnel-token"},
		Writes: []store.Space{"tunnel-relay"},
	},
	Listen:      config.VarRelayAddr,
	Certificate: config.VarRelayCertificate,
}

// Process is a relay that runs. A gateway in the same process asks it by RoundTrip.
type Process struct {
	*relay.Relay
	leaving atomic.Bool
}

var _ service.Process = (*Process)(nil)

// Open is New for a process of its own.
func Open(p installation.Parts, address string) (service.Process, error) { return New(p, address), nil }

// New makes the relay of an installation. address is where its other copies reach it, as an
// absolute URL without a path, "" where there are none. Copies are known by the name in
// their certificate, which is that of the installation's relay (config.Relay).
func New(p installation.Parts, address string) *Process {
	p.Table = p.Table.Within(Service.Reach)
	o := relay.Options{
		Directory: tunnels.OpenDirectory(p), Table: p.Table, Key: p.Key,
		Address: address, Now: p.Now, Random: p.Random, Log: p.Log,
	}
	if u, err := url.Parse(p.Config.Relay); err == nil && u.Scheme == "https" {
		o.TLS = &tls.Config{MinVersion: tls.VersionTLS12, ServerName: u.Hostname()}
	}
	return &Process{Relay: relay.New(o)}
}

// ServeHTTP answers what is asked of the relay, and for its health.
func (p *Process) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != Service.Health {
		p.Relay.ServeHTTP(w, r)
		return
	}
	health.Answer(w, !p.leaving.Load())
}

// Drain is the relay's, which calls itself unhealthy from then on.
func (p *Process) Drain(ctx context.Context) {
	p.leaving.Store(true)
	p.Relay.Drain(ctx)
}
