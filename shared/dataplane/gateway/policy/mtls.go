package policy

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"maps"
	"net/http"
	"time"

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/base/lazy"
	"github.com/gatewright/gatewright/shared/base/pki"
	"github.com/gatewright/gatewright/shared/dataplane/gateway/options"
	"github.com/gatewright/gatewright/shared/dataplane/gateway/pipeline"
	"github.com/gatewright/gatewright/shared/format/project"
)

// ClientVerifier verifies client certificates against the CAs of an account.
type ClientVerifier interface {
	// Verify returns nil if the chain is valid now and leads to one of the account's current CAs. The
	// client's own certificate is the first of chain. For any other chain, the error is a fault of the
	// kind fault.Unauthenticated. Any other error means that the chain could not be verified.
	Verify(ctx context.Context, accountID string, chain []*x509.Certificate) error
}

// mtlsOptions are the options of mtls-auth-inbound (contract 4.5).
type mtlsOptions struct {
	AllowUnauthenticated bool `json:"allowUnauthenticatedRequests"`
	// CertIssuerDN is the required issuer of the client's certificate.
	// "" allows all CAs of the account and their intermediate CAs.
	CertIssuerDN string `json:"certIssuerDN"`
}

// mtls lets requests through if the client of the connection has presented a certificate of the
// account's CAs, and has proved in the handshake that it owns the key. If anonymous is set, it also
// lets requests without a valid certificate through, without a user.
type mtls struct {
	anonymous bool
	issuer    string
	accountID string
	verifier  ClientVerifier
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
		anonymous: o.AllowUnauthenticated, issuer: o.CertIssuerDN,
		accountID: s.Identity.AccountID, verifier: s.ClientVerifier,
	}}, nil
}

// clientCertField matches the names of fields that proxies use to send a client's certificate upstream:
// the names of RFC 9440, and names of Envoy, nginx, HAProxy, Traefik, Apache and the large clouds. The
// gateway writes none of these fields, so they come from the client. An upstream may treat "_" like "-".
var clientCertField = lazy.Regexp(`(?i)client[-_]?cert|(ssl|tls)[-_]client|mtls|^(x[-_])?ssl[-_]|^cf[-_]cert[-_]`)

func isClientCertField(name string, _ []string) bool { return clientCertField().MatchString(name) }

// clientData describes the certificate of a client. It is encoded as JSON into pipeline.User.Data.
type clientData struct {
	Subject      string `json:"subject"`
	Issuer       string `json:"issuer"`
	SerialNumber string `json:"serialNumber"`
	Fingerprint  string `json:"fingerprint"`
	ValidTo      string `json:"validTo"`
}

// Inbound checks the connection's certificate for each request, because a CA can be deleted after the handshake. It
// ignores certificates in header fields, and removes header fields with certificates that an upstream could trust.
func (m *mtls) Inbound(x *pipeline.Exchange) *http.Response {
	maps.DeleteFunc(x.Header, isClientCertField)
	maps.DeleteFunc(x.Trailer, isClientCertField)
	if len(x.ClientChain) == 0 {
		return m.refuseUnlessAnonymous(x, "This route is for clients with a certificate. Connect by TLS, with one of "+
			"a CA that the account has.")
	}
	leaf := x.ClientChain[0]
	if m.issuer != "" && !pki.IsName(m.issuer, leaf.RawIssuer) {
		return m.refuseUnlessAnonymous(x, "The client's certificate is of another issuer than this route accepts. Connect "+
			"with one of that issuer.")
	}
	err := m.verify(x)
	switch {
	case fault.Is(err, fault.Unauthenticated):
		return m.refuseUnlessAnonymous(x, "The client's certificate is of no CA that the account has, or is not valid "+
			"now, or is not for clients. Send the intermediates with it if it has any.")
	case err != nil:
		x.Cause = err
		return x.Problem(http.StatusServiceUnavailable,
			"Client certificates can't be checked now. Repeat the request in a few seconds.")
	}
	x.User = userOf(leaf)
	return nil
}

var errNoVerifier = fault.New(fault.Unauthenticated, "This gateway knows no clients.")

func (m *mtls) verify(x *pipeline.Exchange) error {
	if m.verifier == nil {
		return errNoVerifier
	}
	return m.verifier.Verify(x.Context, m.accountID, x.ClientChain)
}

// userOf returns the user of a certificate. The user's Sub is the
// certificate's subject, or the fingerprint if the subject is empty.
func userOf(c *x509.Certificate) *pipeline.User {
	info, fingerprint := pki.NewInfo(c), pki.Fingerprint(c)
	u := &pipeline.User{Sub: info.Subject}
	if u.Sub == "" {
		u.Sub = fingerprint
	}
	// There is no error: these fields can always be encoded.
	u.Data, _ = json.Marshal(clientData{
		Subject: info.Subject, Issuer: info.Issuer, SerialNumber: info.SerialNumber,
		Fingerprint: fingerprint, ValidTo: info.ValidTo.Format(time.RFC3339),
	})
	return u
}

// refuseUnlessAnonymous returns a 401 response, or nil if the route also allows requests without a valid certificate.
func (m *mtls) refuseUnlessAnonymous(x *pipeline.Exchange, detail string) *http.Response {
	if m.anonymous {
		return nil
	}
	return x.Problem(http.StatusUnauthorized, detail)
}
