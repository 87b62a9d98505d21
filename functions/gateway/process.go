package gateway

import (
	"context"
	"crypto/tls"
	"io"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/gatewright/gatewright/shared/base/handshake"
	"github.com/gatewright/gatewright/shared/core/config"
	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/runtime/service"
)

// ProcessService declares the gateway as a separate process for machines and container platforms. The function with the
// same name is declared in gateway.go (Function). Any number of processes can use the same table and bucket.
var ProcessService = service.Service{
	Name:           Function.Name,
	Description:    Function.Description,
	Port:           service.Port{Public: 443, Listen: 8443, Protocol: service.TLS},
	Health:         "/__gatewright/ping",
	Copies:         2,
	CallsUpstreams: true,
	Announce:       config.DefaultAnnounce,
	Drain:          60 * time.Second,
	Uses:           Function.Uses,
	TableAccess:    Function.TableAccess,
	Listen:         config.VarTLSAddr,
	Certificate:    config.VarCertificate, CertificateFile: config.VarTLSCertificate, KeyFile: config.VarTLSKey,
	Plain: config.VarGatewayAddr,
	Admin: service.Admin{Listen: config.VarAdminAddr, Default: config.DefaultAdminAddr},
	// Only the gateway can have this limit, because it sees the addresses of its clients. A relay sees only the address of
	// its load balancer.
	Limits:       []service.Limit{{Context: "gatewayConnectionsPerAddress", Variable: config.VarConnectionsPerAddress}},
	AlsoFunction: true,
}

// OpenProcess creates a gateway in a separate process from an installation's parts. It ignores the address of the
// process, because gateways do not call each other: they share their state through the table.
func OpenProcess(p installation.Parts, _ string) (service.Process, error) {
	o, err := newOptions(p)
	if err != nil {
		return nil, err
	}
	svc, err := New(p, o)
	if err != nil {
		return nil, err
	}
	return &process{gateway: svc, domain: p.Config.DeploymentDomain(), log: p.Log}, nil
}

// process is a running gateway.
type process struct {
	gateway  *Service
	domain   string
	log      *slog.Logger
	draining atomic.Bool
}

var (
	_ service.Process          = (*process)(nil)
	_ service.ShutdownListener = (*process)(nil)
	_ service.Securer          = (*process)(nil)
)

// ServeHTTP serves requests with the gateway. After AnnounceShutdown, it responds to health checks with 503 and the
// status draining.
func (p *process) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if p.draining.Load() && r.URL.Path == ProcessService.Health {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, `{"status":"draining"}`)
		return
	}
	p.gateway.ServeHTTP(w, r)
}

// Run implements service.Process.
func (p *process) Run(ctx context.Context) { p.gateway.Run(ctx) }

// AnnounceShutdown implements service.ShutdownNotifier.
func (p *process) AnnounceShutdown() { p.draining.Store(true) }

// Drain ends upgraded connections, which the HTTP server does not track.
func (p *process) Drain(ctx context.Context) { p.gateway.dataPlane.EndUpgrades(ctx) }

// Secure implements service.Securer. For host names of deployments below the installation's domain, handshakes use the
// service's certificate. It must be a wildcard certificate: Secure returns an error if it is not valid for a subdomain.
// For custom domains, handshakes use the certificates of the custom domains.
func (p *process) Secure(newSource service.CertificateOpener) (*tls.Config, error) {
	source, err := newSource(p.gateway.Hosts.Owns, "any."+p.domain)
	if err != nil {
		return nil, err
	}
	return handshake.Config(handshake.Options{
		Sources: []handshake.Source{source, p.gateway.Domains}, Clients: p.gateway.Hosts, Log: p.log,
	}), nil
}

// Misdirected implements service.Securer.
func (p *process) Misdirected(r *http.Request) bool { return handshake.Misdirected(p.gateway.Hosts)(r) }
