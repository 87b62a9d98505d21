// Package handshake decides what each TLS handshake of a gateway is answered with, by
// the name that the client asks for (SNI): which certificate, and whether the client
// is asked for one of its own.
//
// Certificates come from Sources, each for names of its kind: those of deployments
// from the local run's own CA, custom domains from the table. A source knows its names by
// their form, or keeps them, so that a name of none is refused before anything is read. With
// 10,000 names a source keeps those in use; a handshake for another is one read, or one signature.
//
// What it is not: it verifies no client. Who shows a certificate is let through here
// with any, since other routes of the name may not care; whether it is worth anything
// is asked for each request, by what the account's CAs are then (policy
// mtls-auth-inbound). So nothing depends on how a TLS session began, nor on the name
// in its handshake being the request's host; but who was asked for no certificate there has
// to connect anew where one may be needed (Misdirected).
//
// There is only this file.
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

	"github.com/gatewright/gatewright/shared/listen/framing"
)

// Source gives the certificates of names of one kind. It is called for each handshake,
// and so has to answer from memory as a rule.
type Source interface {
	// Owns reports, without a read, whether a name (in lower case, without a dot at its
	// end) is of this kind.
	Owns(name string) bool
	// Certificate gives the certificate of a name that it owns, nil for a name that
	// nothing is served at.
	Certificate(ctx context.Context, name string) (*tls.Certificate, error)
}

// Challenged is a Source that answers authorities which look whether a name is ours.
type Challenged interface {
	// Challenge gives the answer to TLS-ALPN-01 (RFC 8737) for a name, nil for none.
	Challenge(ctx context.Context, name string) (*tls.Certificate, error)
}

// Clients knows the CAs of those who connect.
type Clients interface {
	// ClientCAs gives the CAs of the account that a name's deployment belongs to, as far
	// as clients are told of them, nil where the account has none and where the name has
	// no deployment.
	ClientCAs(ctx context.Context, name string) (*x509.CertPool, error)
}

// Options are what handshakes are made with. All are needed.
type Options struct {
	Sources []Source
	Clients Clients
	Log     *slog.Logger
}

const (
	// maxChain and maxChainBytes bound what a client may show: it is looked at for each
	// request.
	maxChain      = 10
	maxChainBytes = 64 << 10
)

var errLargeChain = fmt.Errorf("handshake: the client has sent more than %d certificates or %d bytes of them", maxChain, maxChainBytes)

// boundedChain refuses chains that no client needs.
func boundedChain(s tls.ConnectionState) error {
	size := 0
	for _, c := range s.PeerCertificates {
		size += len(c.Raw)
	}
	if len(s.PeerCertificates) > maxChain || size > maxChainBytes {
		return errLargeChain
	}
	return nil
}

// Config makes a configuration for listeners.
//
// Clients are asked for a certificate where the name's account has CAs, and nowhere
// else: a browser that has any would ask its user which one to send. They are asked
// and not obliged, since only routes with the policy need one.
func Config(o Options) *tls.Config {
	base := &tls.Config{
		MinVersion: tls.VersionTLS12,
		NextProtos: []string{"h2", "http/1.1"},
		GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
			name, source := o.find(hello.ServerName)
			if source == nil {
				return nil, nil // which crypto/tls answers with the alert unrecognized_name
			}
			return source.Certificate(hello.Context(), name)
		},
	}
	// A session is resumed without a question, and so with what was shown when it began:
	// nothing, if the account had no CA then. So these begin anew each time.
	asking := base.Clone()
	asking.ClientAuth, asking.SessionTicketsDisabled = tls.RequestClientCert, true
	asking.VerifyConnection = boundedChain
	// Nor is a session of another name, or of what was served before, resumed where nothing is.
	refusing := base.Clone()
	refusing.SessionTicketsDisabled = true
	base.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		name, source := o.find(hello.ServerName)
		if source == nil {
			return refusing, nil
		}
		if slices.Equal(hello.SupportedProtos, []string{challengeProtocol}) {
			return challenged(hello, name, source)
		}
		switch its, err := source.Certificate(hello.Context(), name); {
		case err != nil:
			return nil, err
		case its == nil:
			return refusing, nil
		}
		cas, err := o.Clients.ClientCAs(hello.Context(), name)
		switch {
		case errors.Is(err, context.Canceled):
			return nil, err
		case err != nil:
			// A route that needs a certificate will say that nobody knows; the others are
			// served.
			o.Log.WarnContext(hello.Context(), "the client CAs of a name could not be looked up", "name", name, "error", err)
			return asking, nil
		case cas == nil:
			return nil, nil // the base, which asks for none
		}
		// The names of the CAs go along, so that clients with several certificates know
		// which one to send.
		its := asking.Clone()
		its.ClientCAs = cas
		return its, nil
	}
	return base
}

// Misdirected reports whether a request by HTTP/2 came on a connection to another name than
// its host's, whose clients are asked for certificates (RFC 9110, section 15.5.20). Browsers send on
// a connection what is for any name of its certificate; on one of the host's own they are asked.
// Where nobody knows, they connect anew too: a handshake asks them then.
func Misdirected(c Clients) func(*http.Request) bool {
	return func(r *http.Request) bool {
		name := framing.HostName(r.Host)
		if r.TLS == nil || name == normal(r.TLS.ServerName) {
			return false
		}
		cas, err := c.ClientCAs(r.Context(), name)
		return err != nil || cas != nil
	}
}

// challengeProtocol is what an authority asks for that looks by TLS-ALPN-01; the connection
// ends with its handshake.
const challengeProtocol = "acme-tls/1"

var errNoChallenge = errors.New("handshake: no challenge is under way at the name")

// challenged answers a handshake by TLS-ALPN-01.
func challenged(hello *tls.ClientHelloInfo, name string, source Source) (*tls.Config, error) {
	of, ok := source.(Challenged)
	if !ok {
		return nil, errNoChallenge
	}
	answer, err := of.Challenge(hello.Context(), name)
	if err != nil {
		return nil, err
	}
	if answer == nil {
		return nil, errNoChallenge
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{challengeProtocol}, Certificates: []tls.Certificate{*answer}}, nil
}

// find gives the source of a name as a client has written it.
func (o Options) find(sni string) (string, Source) {
	name := normal(sni)
	for _, s := range o.Sources {
		if name != "" && s.Owns(name) {
			return name, s
		}
	}
	return name, nil
}

// normal is the form in which sources have names.
func normal(sni string) string { return strings.TrimSuffix(strings.ToLower(sni), ".") }
