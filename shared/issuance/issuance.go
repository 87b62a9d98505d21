// Package issuance asks a certificate authority for certificates by ACME (RFC 8555), through
// golang.org/x/crypto/acme. Its account's key is made once for the installation and lies sealed in the
// table, for all processes.
//
// What it is not: it decides nothing about custom domains and answers no challenge; package
// customdomains does, whose Authority it is. This file is all of it, and table.go.
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

	"github.com/gatewright/gatewright/shared/customdomains"
	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/installation"
	"github.com/gatewright/gatewright/shared/seal"
	"github.com/gatewright/gatewright/shared/store"
)

// Authority is the authority of the installation's configuration. It is safe for concurrent use.
type Authority struct {
	parts  installation.Parts
	sealer *seal.Sealer
	http   *http.Client

	mu     sync.Mutex
	client *acme.Client // with an account, once there is one
}

var _ customdomains.Authority = (*Authority)(nil)

// requestTimeout bounds one request to the authority.
const requestTimeout = 10 * time.Second

// maxAnswerBytes bounds an answer of the authority: the longest has some certificates.
const maxAnswerBytes = 1 << 20

// Open makes the Authority of an installation. The authority is asked through transport, nil for
// http.DefaultTransport.
func Open(p installation.Parts, transport http.RoundTripper) *Authority {
	if transport == nil {
		transport = http.DefaultTransport
	}
	return &Authority{parts: p, sealer: p.Sealer(), http: &http.Client{Timeout: requestTimeout, Transport: Careful(transport)}}
}

// Careful asks an authority by HTTPS alone, wherever it says that its parts are, and reads no more of an
// answer than it may have.
func Careful(transport http.RoundTripper) http.RoundTripper { return careful{transport} }

type careful struct{ http.RoundTripper }

var errNotHTTPS = errors.New("issuance: the authority names an address that is none of HTTPS")

// RoundTrip implements http.RoundTripper.
func (c careful) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme != "https" {
		return nil, errNotHTTPS
	}
	answer, err := c.RoundTripper.RoundTrip(r)
	if err == nil {
		answer.Body = struct {
			io.Reader
			io.Closer
		}{io.LimitReader(answer.Body, maxAnswerBytes), answer.Body}
	}
	return answer, err
}

// FewTries is the RetryBackoff of an acme.Client that gives up after a moment, where its caller tries again
// by itself: without it, an authority that is down is asked for as long as the context lasts.
func FewTries(n int, _ *http.Request, answer *http.Response) time.Duration {
	const tries = 3
	if n > tries || answer.StatusCode == http.StatusTooManyRequests {
		return -1
	}
	return 100 * time.Millisecond
}

var errNoAuthority = fault.New(fault.Conflict, "The installation has no certificate authority any more. Upload a certificate.")

// account gives a client with the installation's account.
func (a *Authority) account(ctx context.Context) (*acme.Client, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	directory := a.parts.Config.ACMEDirectory
	switch {
	case a.client != nil:
		return a.client, nil
	case directory == "":
		return nil, errNoAuthority
	}
	key, err := a.key(ctx, directory)
	if err != nil {
		return nil, err
	}
	client := &acme.Client{
		Key: key, DirectoryURL: directory, HTTPClient: a.http, UserAgent: "gatewright",
		RetryBackoff: FewTries, // an operation tries again by itself, without a worker that waits
	}
	if _, err := client.Register(ctx, &acme.Account{}, acme.AcceptTOS); err != nil && !errors.Is(err, acme.ErrAccountAlreadyExists) {
		return nil, told("register an account", err)
	}
	a.client = client
	return client, nil
}

// key gives the account's key, and makes it where there is none.
func (a *Authority) key(ctx context.Context, directory string) (*ecdsa.PrivateKey, error) {
	made, err := ecdsa.GenerateKey(elliptic.P256(), a.parts.Random)
	if err != nil {
		return nil, fmt.Errorf("make an account key: %w", err)
	}
	var r account
	err = a.parts.Table.Get(ctx, accountKey(directory), &r)
	if errors.Is(err, store.ErrNotFound) {
		der, err := x509.MarshalECPrivateKey(made)
		if err != nil {
			return nil, fmt.Errorf("encode an account key: %w", err)
		}
		if r.Key, err = a.sealer.Seal(ctx, der, sealContext(directory)); err != nil {
			return nil, err
		}
		err = a.parts.Table.Commit(ctx, store.Create(accountKey(directory), r))
		if err == nil {
			return made, nil
		}
		if !errors.Is(err, store.ErrCondition) {
			return nil, err
		}
		if err := a.parts.Table.Get(ctx, accountKey(directory), &r); err != nil { // another process was faster
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
	client, err := a.account(ctx)
	if err != nil {
		return customdomains.Order{}, err
	}
	made, err := client.AuthorizeOrder(ctx, acme.DomainIDs(hostname))
	if err != nil {
		return customdomains.Order{}, a.failed("order a certificate", err)
	}
	o := customdomains.Order{URL: made.URI}
	if made.Status != acme.StatusPending || len(made.AuthzURLs) != 1 {
		return o, nil
	}
	o.Authz = made.AuthzURLs[0]
	authz, err := client.GetAuthorization(ctx, o.Authz)
	if err != nil {
		return customdomains.Order{}, a.failed("read an authorization", err)
	}
	if authz.Status == acme.StatusValid {
		return o, nil
	}
	kind := "tls-alpn-01"
	if byHTTP {
		kind = "http-01"
	}
	at := slices.IndexFunc(authz.Challenges, func(c *acme.Challenge) bool { return c.Type == kind })
	if at < 0 {
		return customdomains.Order{}, fault.New(fault.Conflict, "The certificate authority does not take the proof %s for the hostname. Have the ports 80 and 443 of the hostname lead to the gateway, and no CAA record keep the authority out.", kind)
	}
	c := authz.Challenges[at]
	o.Challenge = c.URI
	if byHTTP {
		o.Token = c.Token
		o.KeyAuth, err = client.HTTP01ChallengeResponse(c.Token)
	} else {
		o.Chain, o.Key, err = proof(client, c.Token, hostname)
	}
	return o, err
}

// proof makes the answer to TLS-ALPN-01.
func proof(client *acme.Client, token, hostname string) (chain, key string, err error) {
	made, err := client.TLSALPN01ChallengeCert(token, hostname)
	if err != nil {
		return "", "", fmt.Errorf("answer a challenge: %w", err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(made.PrivateKey)
	if err != nil {
		return "", "", fmt.Errorf("encode the answer to a challenge: %w", err)
	}
	return text("CERTIFICATE", made.Certificate[0]), text("PRIVATE KEY", der), nil
}

func text(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

// Accept implements customdomains.Authority.
func (a *Authority) Accept(ctx context.Context, o customdomains.Order) error {
	client, err := a.account(ctx)
	if err != nil {
		return err
	}
	authz, err := client.GetAuthorization(ctx, o.Authz)
	if err != nil {
		return a.failed("read an authorization", err)
	}
	if at := slices.IndexFunc(authz.Challenges, func(c *acme.Challenge) bool { return c.URI == o.Challenge }); authz.Status != acme.StatusPending ||
		at >= 0 && authz.Challenges[at].Status != acme.StatusPending {
		return nil // it was told
	}
	if _, err := client.Accept(ctx, &acme.Challenge{URI: o.Challenge}); err != nil {
		return a.failed("accept a challenge", err)
	}
	return nil
}

// Finish implements customdomains.Authority.
func (a *Authority) Finish(ctx context.Context, o customdomains.Order, csr []byte) (string, error) {
	client, err := a.account(ctx)
	if err != nil {
		return "", err
	}
	its, err := client.GetOrder(ctx, o.URL)
	if err != nil {
		return "", a.failed("read an order", err)
	}
	var ders [][]byte
	switch its.Status {
	case acme.StatusReady:
		if ders, _, err = client.CreateOrderCert(ctx, its.FinalizeURL, csr, true); err != nil {
			return "", a.failed("finish an order", err)
		}
	case acme.StatusValid:
		if ders, err = client.FetchCert(ctx, its.CertURL, true); err != nil {
			return "", a.failed("fetch a certificate", err)
		}
	case acme.StatusInvalid:
		return "", a.refused(ctx, client, o)
	default:
		return "", nil
	}
	var chain string
	for _, der := range ders {
		chain += text("CERTIFICATE", der)
	}
	return chain, nil
}

// refused says why an order came to nothing.
func (a *Authority) refused(ctx context.Context, client *acme.Client, o customdomains.Order) error {
	if o.Authz != "" {
		if authz, err := client.GetAuthorization(ctx, o.Authz); err == nil {
			for _, c := range authz.Challenges {
				if failed, ok := errors.AsType[*acme.Error](c.Error); ok {
					port := "443"
					if c.Type == "http-01" {
						port = "80"
					}
					return fault.New(fault.Conflict, "The certificate authority could not prove the hostname by %s: %s. Have its port %s lead to the gateway; it is tried again.",
						c.Type, short(failed.Detail), port)
				}
			}
		}
	}
	return fault.New(fault.Conflict, "The certificate authority has refused the order. It is tried again; read what it says of the hostname, such as its limits.")
}

// failed is told, after which nothing that is known of the authority is kept: it may have moved, or forgotten the account.
func (a *Authority) failed(doing string, err error) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.client = nil
	return told(doing, err)
}

// told is an error of the authority as the custom domain's owner may read it.
func told(doing string, err error) error {
	failed, ok := errors.AsType[*acme.Error](err)
	if !ok {
		return silent(doing, err)
	}
	refused := fault.New(fault.Conflict, "The certificate authority has refused to %s: %s. It is tried again; upload a certificate where that cannot help.",
		doing, short(failed.Detail)).Because(err)
	if after := retryAfter(failed); after > 0 {
		return &customdomains.BusyError{Fault: refused, After: after}
	}
	if failed.StatusCode >= http.StatusInternalServerError {
		return silent(doing, err)
	}
	return refused
}

func silent(doing string, err error) error {
	return fault.New(fault.Internal, "The certificate authority does not answer, or not as one that the installation trusts. It is tried again; the installation's log says more.").
		Because(fmt.Errorf("%s: %w", doing, err))
}

// retryAfter is what an authority asks for by this field, 0 for nothing (RFC 8555, section 6.6).
func retryAfter(e *acme.Error) time.Duration {
	limited := *e
	limited.ProblemType = ":rateLimited" // which other refusals have with the field as well
	after, _ := acme.RateLimit(&limited)
	return after
}

// short is as much of an authority's text as is kept, without a full stop.
func short(text string) string {
	const most = 500
	return strings.TrimSuffix(strings.ToValidUTF8(text[:min(len(text), most)], ""), ".")
}
