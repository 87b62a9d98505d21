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

// The steps of a check. An alarm shows only that a check fails. The log shows which step has failed, and so where to
// look for the cause.
const (
	stepKey         = "key"         // Parameter Store returns no valid key
	stepName        = "name"        // DNS
	stepConnection  = "connection"  // TCP, or TLS before and after the certificate
	stepCertificate = "certificate" // the chain, the names or the dates of the certificate
	stepResponse    = "reply"       // no HTTP response in time, or an unexpected one
)

// failure says which step of a check has failed, and why.
type failure struct {
	step string
	err  error
}

// resolver looks up names.
type resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// client sends each request like a client that has no connection yet: it looks up the name and opens a new connection.
type client struct {
	resolver resolver
	// roots has the trusted certificate authorities, nil for those of the machine.
	roots   *x509.CertPool
	timeout time.Duration
}

func newClient() client {
	return client{resolver: &net.Resolver{PreferGo: true}, timeout: Timeout}
}

// httpResponse is a server's response.
type httpResponse struct {
	status      int
	contentType string
	body        []byte
}

// maxResponseBytes is the maximum size of a response that is read. Expected responses are smaller.
const maxResponseBytes = 64 << 10

// get sends a GET request with a key, or without one if key is "". It does not follow redirects, because that would
// send the key to another address. expiry is the expiry of the server's certificate, even if the certificate is
// refused. It is zero if the server has presented no certificate, or if the TLS handshake has failed for another
// reason.
func (c client) get(ctx context.Context, address, key string) (got *httpResponse, expiry time.Time, fail *failure) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return nil, expiry, &failure{stepResponse, fmt.Errorf("make the request: %w", err)}
	}
	r.Header.Set("User-Agent", "gatewright-check")
	if key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	conn, expiry, fail := c.connect(ctx, r.URL)
	if fail != nil {
		return nil, expiry, fail
	}
	defer func() { _ = conn.Close() }()
	dial := func(context.Context, string, string) (net.Conn, error) { return conn, nil }
	transport := &http.Transport{
		DialContext: dial, DialTLSContext: dial, DisableKeepAlives: true,
		DisableCompression: true,
	}
	response, err := transport.RoundTrip(r)
	if err != nil {
		return nil, expiry, &failure{stepResponse, fmt.Errorf("wait for the reply: %w", err)}
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxResponseBytes))
	if err != nil {
		return nil, expiry, &failure{stepResponse, fmt.Errorf("read the reply: %w", err)}
	}
	return &httpResponse{response.StatusCode, response.Header.Get("Content-Type"), body}, expiry, nil
}

// connect resolves the host of target, connects to it and, for https, verifies its certificate. expiry is as for get.
func (c client) connect(ctx context.Context, target *url.URL) (conn net.Conn, expiry time.Time, fail *failure) {
	port := target.Port()
	if port == "" {
		port = map[string]string{"https": "443", "http": "80"}[target.Scheme]
	}
	// Functions outside a VPC connect only with IPv4.
	addresses, err := c.resolver.LookupNetIP(ctx, "ip4", target.Hostname())
	if err == nil && len(addresses) == 0 {
		err = errors.New("it has no address")
	}
	if err != nil {
		return nil, expiry, &failure{stepName, fmt.Errorf("look up %s: %w", target.Hostname(), err)}
	}
	// Limit the time for each address, so that there is time left if one address does not respond.
	dialer := net.Dialer{Timeout: c.timeout / time.Duration(len(addresses)+1)}
	var errs []error
	for _, address := range addresses {
		if conn, err = dialer.DialContext(ctx, "tcp", net.JoinHostPort(address.Unmap().String(), port)); err == nil {
			break
		}
		errs = append(errs, err)
	}
	if conn == nil {
		return nil, expiry, &failure{stepConnection, errors.Join(errs...)}
	}
	if target.Scheme == "http" {
		return conn, expiry, nil
	}
	secure := tls.Client(conn, &tls.Config{
		ServerName: target.Hostname(), RootCAs: c.roots,
		NextProtos: []string{"http/1.1"}, MinVersion: tls.VersionTLS12,
	})
	if err := secure.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		if certErr, ok := errors.AsType[*tls.CertificateVerificationError](err); ok &&
			len(certErr.UnverifiedCertificates) > 0 {
			return nil, certErr.UnverifiedCertificates[0].NotAfter, &failure{stepCertificate, err}
		}
		return nil, expiry, &failure{stepConnection, fmt.Errorf("begin TLS: %w", err)}
	}
	return secure, secure.ConnectionState().PeerCertificates[0].NotAfter, nil
}
