// Package issuance requests certificates from a certificate authority by ACME (RFC 8555), through
// golang.org/x/crypto/acme. All processes of an installation share one ACME account for each authority. The key of the
// account is stored sealed in the table.
//
// The package makes no decisions about custom domains and does not respond to challenges. Package customdomains does
// both, and uses this package as its Authority. Read this file, then table.go.
package issuance

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/acme"

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/core/seal"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/resource/customdomains"
)

// Authority is the certificate authority in the installation's configuration. It is safe for concurrent use.
type Authority struct {
	parts  installation.Parts
	sealer *seal.Sealer
	http   *http.Client

	mu     sync.Mutex
	client *acme.Client // nil until the account is registered, and again after an error of the authority
}

var _ customdomains.Authority = (*Authority)(nil)

// requestTimeout limits one request to the authority.
const requestTimeout = 10 * time.Second

// maxResponseBytes is the maximum size of a response of the authority. The longest responses are certificate chains.
const maxResponseBytes = 1 << 20

// Open returns the Authority of an installation. The Authority sends requests through transport, or through
// http.DefaultTransport if transport is nil.
func Open(p installation.Parts, transport http.RoundTripper) *Authority {
	if transport == nil {
		transport = http.DefaultTransport
	}
	return &Authority{
		parts: p, sealer: p.Sealer(),
		http: &http.Client{Timeout: requestTimeout, Transport: RestrictTransport(transport)},
	}
}

// RestrictTransport returns a transport that refuses all addresses without HTTPS, even if they are in the authority's
// directory, and that limits responses to maxResponseBytes.
func RestrictTransport(transport http.RoundTripper) http.RoundTripper {
	return restrictedTransport{transport}
}

type restrictedTransport struct{ http.RoundTripper }

var errNotHTTPS = errors.New("issuance: the authority names an address that is none of HTTPS")

// RoundTrip implements http.RoundTripper.
func (t restrictedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme != "https" {
		return nil, errNotHTTPS
	}
	resp, err := t.RoundTripper.RoundTrip(r)
	if err == nil {
		resp.Body = struct {
			io.Reader
			io.Closer
		}{io.LimitReader(resp.Body, maxResponseBytes), resp.Body}
	}
	return resp, err
}

// LimitedBackoff is the RetryBackoff of an acme.Client whose caller repeats failed calls later itself. It allows 3
// retries, but none after a 429 response. Without it, the client would retry until the context ends while the
// authority is not available.
func LimitedBackoff(n int, _ *http.Request, resp *http.Response) time.Duration {
	const maxRetries = 3
	if n > maxRetries || resp.StatusCode == http.StatusTooManyRequests {
		return -1
	}
	return 100 * time.Millisecond
}

var errNoAuthority = fault.New(fault.Conflict,
	"The installation has no certificate authority any more. Upload a certificate.")

// registeredClient returns the client with the installation's account, and registers the account if necessary.
func (a *Authority) registeredClient(ctx context.Context) (*acme.Client, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	directory := a.parts.Config.ACMEDirectory
	switch {
	case a.client != nil:
		return a.client, nil
	case directory == "":
		return nil, errNoAuthority
	}
	key, err := a.privateKey(ctx, directory)
	if err != nil {
		return nil, err
	}
	client := &acme.Client{
		Key: key, DirectoryURL: directory, HTTPClient: a.http, UserAgent: "gatewright",
		RetryBackoff: LimitedBackoff, // the operation repeats failed steps later, so no worker has to wait
	}
	if _, err := client.Register(ctx, &acme.Account{}, acme.AcceptTOS); err != nil &&
		!errors.Is(err, acme.ErrAccountAlreadyExists) {
		return nil, ownerError("register an account", err)
	}
	a.client = client
	return client, nil
}

// privateKey returns the private key of the installation's account at an authority, and creates it if it does not
// exist. directory is the address of the authority's directory.
func (a *Authority) privateKey(ctx context.Context, directory string) (*ecdsa.PrivateKey, error) {
	newKey, err := ecdsa.GenerateKey(elliptic.P256(), a.parts.Random)
	if err != nil {
		return nil, fmt.Errorf("make an account key: %w", err)
	}
	var r account
	err = a.parts.Table.Get(ctx, accountKey(directory), &r)
	if errors.Is(err, store.ErrNotFound) {
		der, err := x509.MarshalECPrivateKey(newKey)
		if err != nil {
			return nil, fmt.Errorf("encode an account key: %w", err)
		}
		if r.Key, err = a.sealer.Seal(ctx, der, sealContext(directory)); err != nil {
			return nil, err
		}
		err = a.parts.Table.Commit(ctx, store.Create(accountKey(directory), r))
		if err == nil {
			return newKey, nil
		}
		if !errors.Is(err, store.ErrCondition) {
			return nil, err
		}
		if err := a.parts.Table.Get(ctx, accountKey(directory), &r); err != nil { // another process has created it first
			return nil, fmt.Errorf("read the account key: %w", err)
		}
	} else if err != nil {
		return nil, fmt.Errorf("read the account key: %w", err)
	}
	der, err := a.sealer.Open(ctx, r.Key, sealContext(directory))
	if err != nil {
		return nil, fmt.Errorf("open the account key: %w", err)
	}
	return x509.ParseECPrivateKey(der)
}

func sealContext(directory string) string { return "acme-account/" + directory }

// Order implements customdomains.Authority.
func (a *Authority) Order(ctx context.Context, hostname string, byHTTP bool) (customdomains.Order, error) {
	client, err := a.registeredClient(ctx)
	if err != nil {
		return customdomains.Order{}, err
	}
	order, err := client.AuthorizeOrder(ctx, acme.DomainIDs(hostname))
	if err != nil {
		return customdomains.Order{}, a.resetOnError("order a certificate", err)
	}
	o := customdomains.Order{URL: order.URI}
	if order.Status != acme.StatusPending || len(order.AuthzURLs) != 1 {
		return o, nil
	}
	o.Authz = order.AuthzURLs[0]
	authz, err := client.GetAuthorization(ctx, o.Authz)
	if err != nil {
		return customdomains.Order{}, a.resetOnError("read an authorization", err)
	}
	if authz.Status == acme.StatusValid {
		return o, nil
	}
	kind := "tls-alpn-01"
	if byHTTP {
		kind = "http-01"
	}
	i := slices.IndexFunc(authz.Challenges, func(c *acme.Challenge) bool { return c.Type == kind })
	if i < 0 {
		return customdomains.Order{}, fault.New(fault.Conflict, "The certificate authority does not take the proof %s for "+
			"the hostname. Have the ports 80 and 443 of the hostname lead to the gateway, and no CAA record keep the "+
			"authority out.", kind)
	}
	c := authz.Challenges[i]
	o.Challenge = c.URI
	if byHTTP {
		o.Token = c.Token
		o.KeyAuth, err = client.HTTP01ChallengeResponse(c.Token)
	} else {
		o.Chain, o.Key, err = challengeCertificate(client, c.Token, hostname)
	}
	return o, err
}

// challengeCertificate returns the certificate and key of the response to a TLS-ALPN-01 challenge, in PEM.
func challengeCertificate(client *acme.Client, token, hostname string) (chain, key string, err error) {
	cert, err := client.TLSALPN01ChallengeCert(token, hostname)
	if err != nil {
		return "", "", fmt.Errorf("answer a challenge: %w", err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(cert.PrivateKey)
	if err != nil {
		return "", "", fmt.Errorf("encode the answer to a challenge: %w", err)
	}
	return encodePEM("CERTIFICATE", cert.Certificate[0]), encodePEM("PRIVATE KEY", der), nil
}

func encodePEM(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

// Accept implements customdomains.Authority.
func (a *Authority) Accept(ctx context.Context, o customdomains.Order) error {
	client, err := a.registeredClient(ctx)
	if err != nil {
		return err
	}
	authz, err := client.GetAuthorization(ctx, o.Authz)
	if err != nil {
		return a.resetOnError("read an authorization", err)
	}
	if i := slices.IndexFunc(authz.Challenges, func(c *acme.Challenge) bool {
		return c.URI == o.Challenge
	}); authz.Status != acme.StatusPending ||
		i >= 0 && authz.Challenges[i].Status != acme.StatusPending {
		return nil // an earlier call has accepted the challenge
	}
	if _, err := client.Accept(ctx, &acme.Challenge{URI: o.Challenge}); err != nil {
		return a.resetOnError("accept a challenge", err)
	}
	return nil
}

// Finish implements customdomains.Authority.
func (a *Authority) Finish(ctx context.Context, o customdomains.Order, csr []byte) (string, error) {
	client, err := a.registeredClient(ctx)
	if err != nil {
		return "", err
	}
	order, err := client.GetOrder(ctx, o.URL)
	if err != nil {
		return "", a.resetOnError("read an order", err)
	}
	var ders [][]byte
	switch order.Status {
	case acme.StatusReady:
		if ders, _, err = client.CreateOrderCert(ctx, order.FinalizeURL, csr, true); err != nil {
			return "", a.resetOnError("finish an order", err)
		}
	case acme.StatusValid:
		if ders, err = client.FetchCert(ctx, order.CertURL, true); err != nil {
			return "", a.resetOnError("fetch a certificate", err)
		}
	case acme.StatusInvalid:
		return "", a.orderFailure(ctx, client, o)
	default:
		return "", nil
	}
	var chain string
	for _, der := range ders {
		chain += encodePEM("CERTIFICATE", der)
	}
	return chain, nil
}

// orderFailure returns a fault that explains to the custom domain's owner why an order has failed.
func (a *Authority) orderFailure(ctx context.Context, client *acme.Client, o customdomains.Order) error {
	if o.Authz != "" {
		if authz, err := client.GetAuthorization(ctx, o.Authz); err == nil {
			for _, c := range authz.Challenges {
				if acmeErr, ok := errors.AsType[*acme.Error](c.Error); ok {
					port := "443"
					if c.Type == "http-01" {
						port = "80"
					}
					return fault.New(fault.Conflict, "The certificate authority could not prove the hostname by %s: %s. Have its "+
						"port %s lead to the gateway; it is tried again.",
						c.Type, truncate(acmeErr.Detail), port)
				}
			}
		}
	}
	return fault.New(fault.Conflict, "The certificate authority has refused the order. It is tried again; read what it "+
		"says of the hostname, such as its limits.")
}

// resetOnError returns ownerError(action, err) and drops the client, so that the next call registers the account
// again. The error can mean that the authority has new addresses, or that it has deleted the account.
func (a *Authority) resetOnError(action string, err error) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.client = nil
	return ownerError(action, err)
}

// ownerError converts an error of a request to the authority into an error whose text is for the custom domain's
// owner. action is what the authority was asked to do, such as "order a certificate".
func ownerError(action string, err error) error {
	acmeErr, ok := errors.AsType[*acme.Error](err)
	if !ok {
		return unavailableError(action, err)
	}
	refusal := fault.New(fault.Conflict, "The certificate authority has refused to %s: %s. It is tried again; upload a "+
		"certificate where that cannot help.",
		action, truncate(acmeErr.Detail)).WithCause(err)
	if delay := retryAfter(acmeErr); delay > 0 {
		return &customdomains.BusyError{Fault: refusal, RetryAfter: delay}
	}
	if acmeErr.StatusCode >= http.StatusInternalServerError {
		return unavailableError(action, err)
	}
	return refusal
}

func unavailableError(action string, err error) error {
	return fault.New(fault.Internal, "The certificate authority does not answer, or not as one that the installation "+
		"trusts. It is tried again; the installation's log says more.").
		WithCause(fmt.Errorf("%s: %w", action, err))
}

// retryAfter returns the delay in the Retry-After header of an authority's error response, 0 for none (RFC 8555,
// section 6.6).
func retryAfter(e *acme.Error) time.Duration {
	limited := *e
	limited.ProblemType = ":rateLimited" // RateLimit reads the header only for this type
	after, _ := acme.RateLimit(&limited)
	return after
}

// truncate returns at most 500 bytes of an authority's text, without a period at the end.
func truncate(text string) string {
	const maxBytes = 500
	return strings.TrimSuffix(strings.ToValidUTF8(text[:min(len(text), maxBytes)], ""), ".")
}
