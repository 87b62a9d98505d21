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
	"github.com/gatewright/gatewright/shared/base/handshake"
	"github.com/gatewright/gatewright/shared/core/config"
	"github.com/gatewright/gatewright/shared/dataplane/listen"
	"github.com/gatewright/gatewright/shared/runtime/servercert"
)

// listenTLS opens the listener for TLS. It returns nil if the settings disable TLS.
func listenTLS(ctx context.Context, s settings) (net.Listener, error) {
	if s.tlsAddr == config.NoAddr {
		return nil, nil // the settings disable it
	}
	return listen.Open(ctx, s.tlsAddr, "the gateway by TLS", config.VarTLSAddr)
}

// tlsListener is the listener for TLS with its certificates. It is nil without TLS.
type tlsListener struct {
	listener net.Listener
	config   *tls.Config
	// certificates provides the certificates of the installation's own names.
	certificates handshake.Source
	// misdirected reports whether a client has to repeat a request on a new connection that is made to the request's host
	// (handshake.Misdirected).
	misdirected func(*http.Request) bool
	// authority obtains the certificates for the names of the domain by
	// ACME. It is nil if the certificates come from files or the local CA.
	authority *servercert.Authority
}

// acmeFolder is the folder in the data directory that contains the certificates from the ACME authority.
const acmeFolder = "acme"

// newTLSListener returns the tlsListener for l, with the certificates of the installation's
// names and the configuration of the handshakes. It returns nil if l is nil.
func (r *resources) newTLSListener(
	ctx context.Context, s settings, p *product, l net.Listener, log *slog.Logger,
) (*tlsListener, error) {
	if l == nil {
		return nil, nil // an installation without TLS is not an error
	}
	hosts := p.hosts
	if hosts == nil {
		hosts = gateway.NewHosts(r.parts) // the gateway is a separate process
	}
	log = log.With("listener", "the gateway by TLS")
	out := &tlsListener{listener: l, misdirected: handshake.Misdirected(hosts)}
	certificates, err := r.installationCertificates(ctx, s, hosts, out, log)
	if err != nil {
		return nil, err
	}
	out.certificates = certificates
	//nolint:contextcheck // a handshake has its own context
	out.config = handshake.Config(handshake.Options{
		Sources: []handshake.Source{certificates, hosts.Domains}, Clients: hosts, Log: log,
	})
	return out, nil
}

// installationCertificates opens the certificates of the installation's own names. Without a domain, the local CA in
// the data directory issues them. If an ACME authority issues them, installationCertificates sets listener.authority.
func (r *resources) installationCertificates(
	ctx context.Context, s settings, hosts *gateway.Hosts, listener *tlsListener, log *slog.Logger,
) (handshake.Source, error) {
	if s.domain == "" {
		return authority.Open(r.dir, r.parts.Config.DeploymentDomain(), hosts.Owns, time.Now)
	}
	n := r.names(s, hosts)
	if s.certificate != "" {
		return servercert.OpenFiles(ctx, servercert.FileOptions{
			Certificate: s.certificate, Key: s.certificateKey, Names: n, Hosts: s.certificateNames(), Now: time.Now, Log: log,
		})
	}
	folder, err := datadir.Open(r.dir.Path(acmeFolder))
	if err != nil {
		return nil, err
	}
	listener.authority = servercert.OpenAuthority(servercert.AuthorityOptions{
		Directory: r.parts.Config.ACMEDirectory, Folder: folder, Names: n, Log: log,
	})
	return listener.authority, nil
}

// certificateNames returns the names for which the certificate in the files must be valid.
func (s settings) certificateNames() []string {
	return []string{apiName(s.domain), anyDeployment + "." + s.domain}
}

func (r *resources) names(s settings, hosts *gateway.Hosts) names {
	return names{domain: s.domain, hosts: hosts, hasRelay: r.parts.Config.Relay != ""}
}

// handlersByName returns the handlers that serve the names of a domain. If a proxy terminates TLS, plain serves all
// requests, and overTLS is nil. Otherwise overTLS serves them, and plain only serves ACME challenges and redirects to
// HTTPS.
func (r *resources) handlersByName(s settings, p *product, tlsServer *tlsListener) (plain, overTLS http.Handler) {
	n := r.names(s, p.hosts)
	all := n.handler(p.api, p.relay, p.gateway)
	if tlsServer == nil { // a proxy terminates TLS
		return all, nil
	}
	refusal := apigateway.Refuser{IDs: r.parts.IDs, Now: time.Now, Log: r.parts.Log}
	plain = redirectToHTTPS(n, refusal, p.gateway)
	if tlsServer.authority != nil {
		plain = tlsServer.authority.Challenges(plain)
	}
	return p.hosts.Domains.Challenges(plain), all
}

// obtain obtains the certificates of the API and the relay before clients need them.
func (t *tlsListener) obtain(ctx context.Context, s settings) error {
	hostnames := []string{apiName(s.domain)}
	if s.relayAddr != config.NoAddr {
		hostnames = append(hostnames, relayName(s.domain))
	}
	t.authority.Obtain(ctx, hostnames...)
	return nil
}

func (t *tlsListener) port() int {
	addr, err := netip.ParseAddrPort(t.listener.Addr().String())
	if err != nil {
		return 443 // the default port of HTTPS
	}
	return int(addr.Port())
}

// origin returns the URL at which this machine can reach the listener, or "" without TLS. A client that verifies the
// certificate has to use one of its names instead of the IP address.
func (t *tlsListener) origin() string {
	if t == nil {
		return ""
	}
	return strings.Replace(origin(t.listener.Addr()), "http:", "https:", 1)
}

// deploymentURL returns the pattern of the URLs of deployments on this machine by TLS, or "" without TLS.
func (t *tlsListener) deploymentURL(c config.Config) string {
	if t == nil {
		return ""
	}
	return "https://<deployment>." + c.DeploymentDomain() + ":" + strconv.Itoa(t.port())
}

// caCertificatePath returns the path of the CA's certificate, to show to the user. It is "" without TLS.
func (t *tlsListener) caCertificatePath(s settings) string {
	if t == nil {
		return ""
	}
	return filepath.Join(s.dataDir, authority.Name)
}
