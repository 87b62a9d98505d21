// Package handshake decides which certificate a gateway presents in a TLS handshake, and whether it requests a
// certificate from the client. Both depend on the name that the client sends (SNI).
//
// Certificates come from Sources, one for each kind of name. The certificates of the installation's own names come
// from the local run's own CA, or from an ACME authority or files (package servercert). Those of custom domains come
// from the table. A source recognizes its names by their form or keeps a list, so that an unknown name is refused
// without a read of the table. Even if there are 10,000 names, a source keeps in memory only the certificates of the
// names in use. A handshake for another name costs one read or one signature.
//
// The package does not verify clients. A handshake accepts any client certificate whose chain is not too large
// (maxChain), since other routes of the name may not need one. The policy mtls-auth-inbound verifies it for each
// request, with the account's current CAs. The result therefore does not depend on how a TLS session began, or on
// whether the name in its handshake is the request's host. But a client that was not asked for a certificate has to
// connect again if the request's route can need one (Misdirected).
//
// This is the only file.
package handshake

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"

	"github.com/gatewright/gatewright/shared/base/framing"
)

// Source provides the certificates for names of one kind. Its methods are called for each handshake, and should usually
// find their result in memory.
type Source interface {
	// Owns reports, without a read of the table, whether a name is of this kind. The name is in lower case, without a
	// dot at its end.
	Owns(name string) bool
	// Certificate returns the certificate for a name that the source owns, or nil if nothing is served at the name.
	Certificate(ctx context.Context, name string) (*tls.Certificate, error)
}

// ChallengeSource is implemented by a Source whose names can have TLS-ALPN-01 challenges. With a challenge, a
// certificate authority validates a name.
type ChallengeSource interface {
	// Challenge returns the certificate for TLS-ALPN-01 (RFC 8737) for a name, or nil if there is no challenge.
	Challenge(ctx context.Context, name string) (*tls.Certificate, error)
}

// ClientCALookup looks up the CAs of client certificates.
type ClientCALookup interface {
	// ClientCAs returns the CAs that a handshake announces to clients: CAs of the account that owns
	// the name's deployment. It returns nil if the account has none or the name has no deployment.
	ClientCAs(ctx context.Context, name string) (*x509.CertPool, error)
}

// Options are the dependencies of handshakes. All are required.
type Options struct {
	Sources []Source
	Clients ClientCALookup
	Log     *slog.Logger
}

const (
	// maxChain (in certificates) and maxChainBytes bound a client's chain, which is checked for each request.
	maxChain      = 10
	maxChainBytes = 64 << 10
)

var errLargeChain = fmt.Errorf("handshake: the client has sent more than %d certificates or %d bytes of them", maxChain,
	maxChainBytes)

// checkChainSize refuses chains that are longer than any client needs.
func checkChainSize(s tls.ConnectionState) error {
	size := 0
	for _, c := range s.PeerCertificates {
		size += len(c.Raw)
	}
	if len(s.PeerCertificates) > maxChain || size > maxChainBytes {
		return errLargeChain
	}
	return nil
}

// Config returns a configuration for listeners.
//
// A handshake requests a certificate only if the name's account has CAs, or if the CAs cannot be read. Otherwise
// browsers that have a certificate would prompt their users to choose one. The certificate is optional, because only
// routes with the policy mtls-auth-inbound need one.
func Config(o Options) *tls.Config {
	base := &tls.Config{
		MinVersion: tls.VersionTLS12,
		NextProtos: []string{"h2", "http/1.1"},
		GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
			name, source := o.find(hello.ServerName)
			if source == nil {
				return nil, nil // crypto/tls sends the alert unrecognized_name
			}
			return source.Certificate(hello.Context(), name)
		},
	}
	// In a resumed session the client is not asked for a certificate again: the session has the certificate of the first
	// handshake, or none if the account had no CA then. Therefore these sessions are never resumed.
	certRequested := base.Clone()
	certRequested.ClientAuth, certRequested.SessionTicketsDisabled = tls.RequestClientCert, true
	certRequested.VerifyConnection = checkChainSize
	// Do not resume a session of another name, or of an earlier deployment, if nothing is served at the name.
	unknownName := base.Clone()
	unknownName.SessionTicketsDisabled = true
	base.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		name, source := o.find(hello.ServerName)
		if source == nil {
			return unknownName, nil
		}
		if slices.Equal(hello.SupportedProtos, []string{challengeProtocol}) {
			return acmeChallenge(hello, name, source)
		}
		switch served, err := source.Certificate(hello.Context(), name); {
		case err != nil:
			return nil, err
		case served == nil:
			return unknownName, nil
		}
		cas, err := o.Clients.ClientCAs(hello.Context(), name)
		switch {
		case errors.Is(err, context.Canceled):
			return nil, err
		case err != nil:
			// Routes that need a certificate will refuse requests, because the CAs are unknown. The other routes
			// work.
			o.Log.WarnContext(hello.Context(), "the client CAs of a name could not be looked up", "name", name, "error", err)
			return certRequested, nil
		case cas == nil:
			return nil, nil // use base, which requests no certificate
		}
		// Send the names of the CAs, so that clients with several certificates can choose one.
		withCAs := certRequested.Clone()
		withCAs.ClientCAs = cas
		return withCAs, nil
	}
	return base
}

// Misdirected returns a function that reports whether a client must repeat an HTTP/2 request on a new connection (RFC
// 9110, section 15.5.20). It returns true if the connection was made to another name than the request's host, and
// clients of the host are asked for certificates. Browsers send requests for all names of a certificate on one
// connection. On a connection to the host itself, the handshake requests a certificate. If the CAs cannot be read, the
// function returns true.
func Misdirected(c ClientCALookup) func(*http.Request) bool {
	return func(r *http.Request) bool {
		name := framing.HostName(r.Host)
		if r.TLS == nil || name == normalize(r.TLS.ServerName) {
			return false
		}
		cas, err := c.ClientCAs(r.Context(), name)
		return err != nil || cas != nil
	}
}

// challengeProtocol is the protocol of a TLS-ALPN-01 validation. The connection ends after its handshake.
const challengeProtocol = "acme-tls/1"

var errNoChallenge = errors.New("handshake: no challenge is under way at the name")

// acmeChallenge responds to a TLS-ALPN-01 handshake.
func acmeChallenge(hello *tls.ClientHelloInfo, name string, source Source) (*tls.Config, error) {
	responder, ok := source.(ChallengeSource)
	if !ok {
		return nil, errNoChallenge
	}
	cert, err := responder.Challenge(hello.Context(), name)
	if err != nil {
		return nil, err
	}
	if cert == nil {
		return nil, errNoChallenge
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: []string{challengeProtocol},
		Certificates: []tls.Certificate{*cert},
	}, nil
}

// find normalizes the name that a client has sent. It returns the name and its source, or nil if no source owns the
// name.
func (o Options) find(sni string) (string, Source) {
	name := normalize(sni)
	for _, s := range o.Sources {
		if name != "" && s.Owns(name) {
			return name, s
		}
	}
	return name, nil
}

// normalize returns a name in lower case, without a dot at its end.
func normalize(sni string) string { return strings.TrimSuffix(strings.ToLower(sni), ".") }
