// Package relay declares the relay, and creates it from an installation's parts. Agents of tunnels connect to the
// relay, and gateways send requests through it to the services behind the tunnels (specification 4.8, contract 2.8).
//
// This package only connects parts. Package relay in shared implements the relay, and package tunnel implements the
// protocol of its connections. Read relay.go: the other files are tests and the main package in folder container.
package relay

import (
	"context"
	"crypto/tls"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/gatewright/gatewright/shared/base/framing"
	"github.com/gatewright/gatewright/shared/core/config"
	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/dataplane/relay"
	"github.com/gatewright/gatewright/shared/management/api"
	"github.com/gatewright/gatewright/shared/resource/tunnels"
	"github.com/gatewright/gatewright/shared/runtime/service"
	"github.com/gatewright/gatewright/shared/runtime/service/health"
)

// Service declares the relay.
var Service = service.Service{
	Name:        "relay",
	Description: "Carries requests to services behind tunnels.",
	Port:        service.Port{Public: 443, Listen: 8443, Protocol: service.TLS},
	Health:      "/health",
	Copies:      2,
	HasPeers:    true,
	// The path of a gateway's request is relay.RequestPath and the path for the service. A route can make the path for the
	// service longer than the client's path.
	PathBytes: 2 * framing.DefaultMaxPathBytes,
	Drain:     110 * time.Second,
	Uses:      []api.Use{api.GetItem, api.Query, api.PutItem, api.RootKey},
	TableAccess: store.TableAccess{
		Reads: []store.KeyPrefix{
			"root-key", "tunnel", "tunnel-configuration", "tunnel-relay", "tunnel-service",
			"tunnel-token",
		},
		Writes: []store.KeyPrefix{"tunnel-relay"},
	},
	Listen:      config.VarRelayAddr,
	Certificate: config.VarRelayCertificate,
}

// Process is a running relay. A gateway in the same process sends its requests with RoundTrip instead of HTTP.
type Process struct {
	*relay.Relay
	draining atomic.Bool
}

var _ service.Process = (*Process)(nil)

// Open works like New. It is the Open of the service's declaration.
func Open(p installation.Parts, address string) (service.Process, error) { return New(p, address), nil }

// New creates the relay of an installation. address is the address at which the other copies of the relay reach this
// copy: an absolute URL without a path, or "" if there are no other copies. All copies have a certificate for the host
// name of the installation's relay (config.Relay), and use this name to verify each other.
func New(p installation.Parts, address string) *Process {
	p.Table = p.Table.Restrict(Service.TableAccess)
	o := relay.Options{
		Directory: tunnels.OpenDirectory(p), Table: p.Table, Key: p.Key,
		Address: address, Now: p.Now, Random: p.Random, Log: p.Log,
	}
	if u, err := url.Parse(p.Config.Relay); err == nil && u.Scheme == "https" {
		o.TLS = &tls.Config{MinVersion: tls.VersionTLS12, ServerName: u.Hostname()}
	}
	return &Process{Relay: relay.New(o)}
}

// ServeHTTP serves the relay's requests and its health checks.
func (p *Process) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != Service.Health {
		p.Relay.ServeHTTP(w, r)
		return
	}
	health.Respond(w, !p.draining.Load())
}

// Drain first makes the relay's health checks fail, and then drains the relay.
func (p *Process) Drain(ctx context.Context) {
	p.draining.Store(true)
	p.Relay.Drain(ctx)
}
