package syntheticcheck

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"time"
)

// The steps of a check, which the log names when one fails. An alarm says that a check fails, and the step says where to look.
const (
	stepKey         = "key"         // Parameter Store has no usable key
	stepName        = "name"        // DNS
	stepConnection  = "connection"  // TCP, or TLS before and after the certificate
	stepCertificate = "certificate" // its chain, its names or its dates
	stepReply       = "reply"       // no HTTP reply in time, or another one than expected
)

// failure is why a check failed, and at which step.
type failure struct {
	step string
	err  error
}

// resolver looks up names.
type resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// asker sends requests as a client does that has never been there: it looks the name up, and connects for each request.
type asker struct {
	names resolver
	// roots are trusted, nil for those of the machine.
	roots  *x509.CertPool
	within time.Duration
}

func newAsker() asker {
	return asker{names: &net.Resolver{PreferGo: true}, within: Within}
}

// reply is what a server has sent.
type reply struct {
	status      int
	contentType string
	body        []byte
}

// maxReplyBytes is more than the expected replies have.
const maxReplyBytes = 64 << 10

// ask sends a GET with a key, "" for none. It follows no redirect, which would send the key elsewhere. until is when the certificate of the
// server expires, also if the certificate is refused; it is zero if the server has shown none.
func (a asker) ask(ctx context.Context, address, key string) (got *reply, until time.Time, failed *failure) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return nil, until, &failure{stepReply, fmt.Errorf("make the request: %w", err)}
	}
	r.Header.Set("User-Agent", "gatewright-check")
	if key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	conn, until, failed := a.connect(ctx, r.URL)
	if failed != nil {
		return nil, until, failed
	}
	defer func() { _ = conn.Close() }()
	use := func(context.Context, string, string) (net.Conn, error) { return conn, nil }
	transport := &http.Transport{DialContext: use, DialTLSContext: use, DisableKeepAlives: true, DisableCompression: true}
	response, err := transport.RoundTrip(r)
	if err != nil {
		return nil, until, &failure{stepReply, fmt.Errorf("wait for the reply: %w", err)}
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxReplyBytes))
	if err != nil {
		return nil, until, &failure{stepReply, fmt.Errorf("read the reply: %w", err)}
	}
	return &reply{response.StatusCode, response.Header.Get("Content-Type"), body}, until, nil
}

// connect resolves the host of an address, connects to it and verifies its certificate.
func (a asker) connect(ctx context.Context, to *url.URL) (conn net.Conn, until time.Time, failed *failure) {
	port := to.Port()
	if port == "" {
		port = map[string]string{"https": "443", "http": "80"}[to.Scheme]
	}
	// Functions outside a VPC connect by IPv4 alone.
	addresses, err := a.names.LookupNetIP(ctx, "ip4", to.Hostname())
	if err == nil && len(addresses) == 0 {
		err = errors.New("it has no address")
	}
	if err != nil {
		return nil, until, &failure{stepName, fmt.Errorf("look up %s: %w", to.Hostname(), err)}
	}
	// One address that does not reply leaves time for the others, as in other clients.
	dialer := net.Dialer{Timeout: a.within / time.Duration(len(addresses)+1)}
	var wrong []error
	for _, address := range addresses {
		if conn, err = dialer.DialContext(ctx, "tcp", net.JoinHostPort(address.Unmap().String(), port)); err == nil {
			break
		}
		wrong = append(wrong, err)
	}
	if conn == nil {
		return nil, until, &failure{stepConnection, errors.Join(wrong...)}
	}
	if to.Scheme == "http" {
		return conn, until, nil
	}
	secure := tls.Client(conn, &tls.Config{ServerName: to.Hostname(), RootCAs: a.roots, NextProtos: []string{"http/1.1"}, MinVersion: tls.VersionTLS12})
	if err := secure.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		if refused, is := errors.AsType[*tls.CertificateVerificationError](err); is && len(refused.UnverifiedCertificates) > 0 {
			return nil, refused.UnverifiedCertificates[0].NotAfter, &failure{stepCertificate, err}
		}
		return nil, until, &failure{stepConnection, fmt.Errorf("begin TLS: %w", err)}
	}
	return secure, secure.ConnectionState().PeerCertificates[0].NotAfter, nil
}
