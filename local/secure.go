package main

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"net/netip"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/gatewright/gatewright/functions/gateway"
	"github.com/gatewright/gatewright/local/authority"
	"github.com/gatewright/gatewright/local/datadir"
	"github.com/gatewright/gatewright/shared/config"
	"github.com/gatewright/gatewright/shared/handshake"
	"github.com/gatewright/gatewright/shared/listen"
)

// listenTLS opens the listener for deployments by TLS, nil where there is to be none.
func listenTLS(ctx context.Context, s settings) (net.Listener, error) {
	if s.tlsAddr == config.NoAddr {
		return nil, nil // none is what the setting says
	}
	return listen.On(ctx, s.tlsAddr, "the gateway by TLS", config.VarTLSAddr)
}

// secured is the gateway's listener by TLS, nil for none.
type secured struct {
	listener net.Listener
	config   *tls.Config
}

// secure opens the run's own CA, and answers handshakes by it.
func (o *opened) secure(p *product, dir *datadir.Dir, l net.Listener, log *slog.Logger) (*secured, error) {
	hosts := p.hosts
	if hosts == nil {
		hosts = gateway.NewHosts(o.parts) // of functions in processes of their own
	}
	ca, err := authority.Open(dir, o.parts.Config.DeploymentDomain(), hosts.Owns, time.Now)
	if err != nil {
		return nil, err
	}
	return &secured{l, handshake.Config(handshake.Options{
		Sources: []handshake.Source{ca, hosts.Domains}, Clients: hosts, Log: log.With("listener", "the gateway by TLS"),
	})}, nil
}

// origin is the address under which this machine reaches the listener, "" for none. A
// handshake needs a deployment's name with its port.
func (s *secured) origin() string {
	if s == nil {
		return ""
	}
	return strings.Replace(origin(s.listener.Addr()), "http:", "https:", 1)
}

// deployments is where they are served, "" for nowhere.
func (s *secured) deployments(c config.Config) string {
	if s == nil {
		return ""
	}
	at, err := netip.ParseAddrPort(s.listener.Addr().String())
	if err != nil {
		return ""
	}
	return "https://<deployment>." + c.DeploymentDomain() + ":" + strconv.Itoa(int(at.Port()))
}

// authorityFile is the CA's certificate as a person would type its path.
func (s *secured) authorityFile(in settings) string {
	if s == nil {
		return ""
	}
	return filepath.Join(in.dataDir, authority.Name)
}
