package gateway

import (
	"context"
	"crypto/tls"
	"io"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/gatewright/gatewright/shared/config"
	"github.com/gatewright/gatewright/shared/handshake"
	"github.com/gatewright/gatewright/shared/installation"
	"github.com/gatewright/gatewright/shared/service"
)

// Beside declares the gateway as a process, beside the function of its name: for machines and
// container platforms, over the same table and bucket, and for as many of them as there are.
var Beside = service.Service{
	Name:        Function.Name,
	Does:        Function.Does,
	Port:        service.Port{Public: 443, Listens: 8443, Protocol: service.TLS},
	Health:      "/__gatewright/ping",
	Copies:      2,
	Upstreams:   true,
	Announce:    config.DefaultAnnounce,
	Drain:       60 * time.Second,
	Uses:        Function.Uses,
	Reach:       Function.Reach,
	Listen:      config.VarTLSAddr,
	Certificate: config.VarCertificate, CertificateFile: config.VarTLSCertificate, KeyFile: config.VarTLSKey,
	Plain: config.VarGatewayAddr,
	Admin: service.Admin{Listen: config.VarAdminAddr, Default: config.DefaultAdminAddr},
	// Its tasks see their clients' addresses, as a relay's, which are behind those of a load balancer, do not.
	Bounds: []service.Bound{{Context: "gatewayConnectionsPerAddress", Variable: config.VarConnectionsPerAddress}},
	Beside: true,
}

// OpenProcess makes the gateway of an installation's parts as a process of its own. Others do
// not reach it: what they know of each other is in the table.
func OpenProcess(p installation.Parts, _ string) (service.Process, error) {
	o, err := optionsOf(p)
	if err != nil {
		return nil, err
	}
	made, err := New(p, o)
	if err != nil {
		return nil, err
	}
	return &process{gateway: made, domain: p.Config.DeploymentDomain(), log: p.Log}, nil
}

// process is a gateway that runs.
type process struct {
	gateway *Service
	domain  string
	log     *slog.Logger
	leaving atomic.Bool
}

var (
	_ service.Process = (*process)(nil)
	_ service.Leaver  = (*process)(nil)
	_ service.Securer = (*process)(nil)
)

// ServeHTTP answers as the gateway does, and that it is about to end where its health is asked.
func (p *process) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if p.leaving.Load() && r.URL.Path == Beside.Health {
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

// Leave implements service.Leaver.
func (p *process) Leave() { p.leaving.Store(true) }

// Drain ends what no server knows of any more: upgraded connections.
func (p *process) Drain(ctx context.Context) { p.gateway.upgraded.EndUpgrades(ctx) }

// Secure implements service.Securer: deployments' own names have the service's certificate,
// custom domains theirs.
func (p *process) Secure(own service.OwnCertificate) (*tls.Config, error) {
	source, err := own(p.gateway.Hosts.Owns, "any."+p.domain)
	if err != nil {
		return nil, err
	}
	return handshake.Config(handshake.Options{
		Sources: []handshake.Source{source, p.gateway.Domains}, Clients: p.gateway.Hosts, Log: p.log,
	}), nil
}

// Misdirected implements service.Securer.
func (p *process) Misdirected(r *http.Request) bool { return handshake.Misdirected(p.gateway.Hosts)(r) }
