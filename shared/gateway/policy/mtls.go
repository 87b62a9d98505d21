package policy

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"maps"
	"net/http"
	"time"

	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/gateway/options"
	"github.com/gatewright/gatewright/shared/gateway/pipeline"
	"github.com/gatewright/gatewright/shared/lazy"
	"github.com/gatewright/gatewright/shared/pki"
	"github.com/gatewright/gatewright/shared/project"
)

// Clients tells which clients' certificates an account trusts.
type Clients interface {
	// Verify answers nil for a chain, the client's own certificate first, that leads to
	// one of the account's CAs now. One that does not is a fault of the kind
	// fault.Unauthenticated; any other error means that nobody knows.
	Verify(ctx context.Context, accountID string, chain []*x509.Certificate) error
}

// mtlsOptions are those of mtls-auth-inbound (contract 4.5).
type mtlsOptions struct {
	AllowUnauthenticated bool `json:"allowUnauthenticatedRequests"`
	// CertIssuerDN is who has to have signed the client's certificate, "" for any of the
	// account's CAs and who they let sign.
	CertIssuerDN string `json:"certIssuerDN"`
}

// mtls lets requests through that came over a connection whose client has shown a
// certificate of the account's CAs, and has proved in the handshake that its key is
// its own.
type mtls struct {
	anonymous bool
	issuer    string
	accountID string
	clients   Clients
}

var _ pipeline.Inbound = (*mtls)(nil)

const mtlsType = "mtls-auth-inbound"

func newMTLS(_ string, raw json.RawMessage, s *Setup) (Provisioned, []project.Problem) {
	var o mtlsOptions
	problems := options.Read(raw, &o)
	if s == nil || len(problems) > 0 {
		return Provisioned{}, problems
	}
	return Provisioned{Inbound: &mtls{
		anonymous: o.AllowUnauthenticated, issuer: o.CertIssuerDN, accountID: s.Identity.AccountID, clients: s.Clients,
	}}, nil
}

// claim matches the names of fields in which proxies tell upstreams of a client's
// certificate: RFC 9440's, and those of Envoy, nginx, HAProxy, Traefik, Apache and the
// large clouds, of which each has several. We write none of them, so that each is the
// client's own claim. An upstream may read "_" as "-".
var claim = lazy.Regexp(`(?i)client[-_]?cert|(ssl|tls)[-_]client|mtls|^(x[-_])?ssl[-_]|^cf[-_]cert[-_]`)

func isClaim(name string, _ []string) bool { return claim().MatchString(name) }

// clientData is what a request's user is told to be beside its sub.
type clientData struct {
	Subject      string `json:"subject"`
	Issuer       string `json:"issuer"`
	SerialNumber string `json:"serialNumber"`
	Fingerprint  string `json:"fingerprint"`
	ValidTo      string `json:"validTo"`
}

// Inbound checks the connection's certificate, for each request: a CA may have been
// deleted since the handshake. Header fields count for nothing here, and those that
// an upstream could believe do not go on.
func (p *mtls) Inbound(x *pipeline.Exchange) *http.Response {
	maps.DeleteFunc(x.Header, isClaim)
	maps.DeleteFunc(x.Trailer, isClaim)
	if len(x.ClientChain) == 0 {
		return p.refuse(x, "This route is for clients with a certificate. Connect by TLS, with one of a CA that the account has.")
	}
	leaf := x.ClientChain[0]
	if p.issuer != "" && !pki.IsName(p.issuer, leaf.RawIssuer) {
		return p.refuse(x, "The client's certificate is of another issuer than this route accepts. Connect with one of that issuer.")
	}
	err := p.verify(x)
	switch {
	case fault.Is(err, fault.Unauthenticated):
		return p.refuse(x, "The client's certificate is of no CA that the account has, or is not valid now, or is not for clients. Send the intermediates with it if it has any.")
	case err != nil:
		x.Cause = err
		return x.Problem(http.StatusServiceUnavailable, "Client certificates can't be checked now. Repeat the request in a few seconds.")
	}
	x.User = userOf(leaf)
	return nil
}

var errNoClients = fault.New(fault.Unauthenticated, "This gateway knows no clients.")

func (p *mtls) verify(x *pipeline.Exchange) error {
	if p.clients == nil {
		return errNoClients
	}
	return p.clients.Verify(x.Context, p.accountID, x.ClientChain)
}

// userOf is whom a certificate stands for: by its subject, or its fingerprint where
// that is empty.
func userOf(c *x509.Certificate) *pipeline.User {
	info, fingerprint := pki.InfoOf(c), pki.Fingerprint(c)
	u := &pipeline.User{Sub: info.Subject}
	if u.Sub == "" {
		u.Sub = fingerprint
	}
	// Nothing in it fails to be encoded.
	u.Data, _ = json.Marshal(clientData{
		Subject: info.Subject, Issuer: info.Issuer, SerialNumber: info.SerialNumber,
		Fingerprint: fingerprint, ValidTo: info.ValidTo.Format(time.RFC3339),
	})
	return u
}

func (p *mtls) refuse(x *pipeline.Exchange, detail string) *http.Response {
	if p.anonymous {
		return nil
	}
	return x.Problem(http.StatusUnauthorized, detail)
}
