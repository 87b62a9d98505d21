package product

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/gatewright/gatewright/functions/gateway"
	"github.com/gatewright/gatewright/local/apigateway"
	"github.com/gatewright/gatewright/local/authority"
	"github.com/gatewright/gatewright/local/datadir"
	"github.com/gatewright/gatewright/shared/config"
	"github.com/gatewright/gatewright/shared/handshake"
	"github.com/gatewright/gatewright/shared/listen"
	"github.com/gatewright/gatewright/shared/owncert"
)

// listenTLS opens the listener for TLS, nil where there is to be none.
func listenTLS(ctx context.Context, s settings) (net.Listener, error) {
	if s.tlsAddr == config.NoAddr {
		return nil, nil // none is what the setting says
	}
	return listen.On(ctx, s.tlsAddr, "the gateway by TLS", config.VarTLSAddr)
}

// secured is the listener by TLS, nil for none.
type secured struct {
	listener net.Listener
	config   *tls.Config
	// own has the certificates of the installation's own names.
	own handshake.Source
	// misdirected are requests of other connections (handshake.Misdirected).
	misdirected func(*http.Request) bool
	// authority is where the names of a domain get their certificates from, nil for elsewhere.
	authority *owncert.Authority
}

// acmeFolder is where certificates by ACME are kept, in the data directory.
const acmeFolder = "acme"

// secure opens what has the certificates of names of this installation, and answers handshakes by it.
func (o *opened) secure(ctx context.Context, s settings, p *product, l net.Listener, log *slog.Logger) (*secured, error) {
	if l == nil {
		return nil, nil // which is an answer
	}
	hosts := p.hosts
	if hosts == nil {
		hosts = gateway.NewHosts(o.parts) // of functions in processes of their own
	}
	log = log.With("listener", "the gateway by TLS")
	out := &secured{listener: l, misdirected: handshake.Misdirected(hosts)}
	own, err := o.ownCertificates(ctx, s, hosts, out, log)
	if err != nil {
		return nil, err
	}
	out.own = own
	out.config = handshake.Config(handshake.Options{Sources: []handshake.Source{own, hosts.Domains}, Clients: hosts, Log: log}) //nolint:contextcheck // a handshake has a context of its own
	return out, nil
}

// ownCertificates has the certificates of the installation's own names: of a laptop's from a CA of the run's own.
func (o *opened) ownCertificates(ctx context.Context, s settings, hosts *gateway.Hosts, out *secured, log *slog.Logger) (handshake.Source, error) {
	if s.domain == "" {
		return authority.Open(o.dir, o.parts.Config.DeploymentDomain(), hosts.Owns, time.Now)
	}
	n := o.names(s, hosts)
	if s.certificate != "" {
		return owncert.OpenFiles(ctx, owncert.FileOptions{
			Certificate: s.certificate, Key: s.certificateKey, Names: n, For: s.certified(), Now: time.Now, Log: log,
		})
	}
	folder, err := datadir.Open(o.dir.Path(acmeFolder))
	if err != nil {
		return nil, err
	}
	out.authority = owncert.OpenAuthority(owncert.AuthorityOptions{
		Directory: o.parts.Config.ACMEDirectory, Folder: folder, Names: n, Log: log,
	})
	return out.authority, nil
}

// certified are names that a certificate in files has to be for.
func (s settings) certified() []string {
	return []string{apiName(s.domain), anyDeployment + "." + s.domain}
}

func (o *opened) names(s settings, hosts *gateway.Hosts) names {
	return names{domain: s.domain, hosts: hosts, relayed: o.parts.Config.Relay != ""}
}

// byName is what answers at a domain's names, by plain HTTP and by TLS.
func (o *opened) byName(s settings, p *product, secure *secured) (plain, byTLS http.Handler) {
	n := o.names(s, p.hosts)
	all := n.handler(p.api, p.relay, p.gateway)
	if secure == nil { // a proxy ends it
		return all, nil
	}
	refuse := apigateway.Refusal{IDs: o.parts.IDs, Now: time.Now, Log: o.parts.Log}
	plain = plainly(n, refuse, p.gateway)
	if secure.authority != nil {
		plain = secure.authority.Challenges(plain)
	}
	return p.hosts.Domains.Challenges(plain), all
}

// obtain gets the certificates of the names that every client begins with.
func (s *secured) obtain(ctx context.Context, in settings) error {
	own := []string{apiName(in.domain)}
	if in.relayAddr != config.NoAddr {
		own = append(own, relayName(in.domain))
	}
	s.authority.Obtain(ctx, own...)
	return nil
}

func (s *secured) port() int {
	at, err := netip.ParseAddrPort(s.listener.Addr().String())
	if err != nil {
		return 443 // HTTPS has it
	}
	return int(at.Port())
}

// origin is the address under which this machine reaches the listener, "" for none. A
// handshake needs a name with its port.
func (s *secured) origin() string {
	if s == nil {
		return ""
	}
	return strings.Replace(origin(s.listener.Addr()), "http:", "https:", 1)
}

// deployments is where they are served on this machine, "" for nowhere.
func (s *secured) deployments(c config.Config) string {
	if s == nil {
		return ""
	}
	return "https://<deployment>." + c.DeploymentDomain() + ":" + strconv.Itoa(s.port())
}

// authorityFile is the CA's certificate as a person would type its path.
func (s *secured) authorityFile(in settings) string {
	if s == nil {
		return ""
	}
	return filepath.Join(in.dataDir, authority.Name)
}
