package servercert

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/acme"
	"golang.org/x/crypto/acme/autocert"
	"golang.org/x/sync/singleflight"
	"golang.org/x/time/rate"

	"github.com/gatewright/gatewright/shared/base/framing"
	"github.com/gatewright/gatewright/shared/base/handshake"
	"github.com/gatewright/gatewright/shared/resource/issuance"
)

const (
	// handshakeTimeout is the maximum time for which a handshake waits for a certificate.
	// If the authority needs longer, a later handshake uses the certificate.
	handshakeTimeout = 15 * time.Second
	// authorityTimeout bounds each request to an authority, including its response.
	authorityTimeout = time.Minute
	// failureLogInterval is the minimum time between two log lines about the failure to
	// obtain a certificate for the same name. autocert retries at the same interval.
	failureLogInterval = time.Minute
	// maxLoggedNames is the maximum number of names for which the time of the last
	// log line is stored. When it is reached, all of these times are deleted.
	maxLoggedNames = 4096
	// registrationInterval is the minimum time between two registrations of an account by reregister.
	registrationInterval = time.Minute
)

// Authority obtains certificates from an ACME authority, one per name, when a client first connects with the name, or
// in advance (Obtain). It proves control of a name at ports 443 (TLS-ALPN-01) and 80 (HTTP-01). It stores certificates
// in a folder and renews them 30 days before they expire. If a renewal fails, it continues to serve the old
// certificate. It is safe for concurrent use.
type Authority struct {
	o             AuthorityOptions
	manager       atomic.Pointer[autocert.Manager]
	inflight      singleflight.Group
	registrations *rate.Limiter // of new managers
	// timeout is the maximum time for which a handshake waits for a certificate.
	timeout time.Duration
	// expiry limits the warnings about certificates that were not renewed in time.
	expiry expiryWarnings

	mu       sync.Mutex
	loggedAt map[string]time.Time // time of the last log line for each name without a certificate
}

var (
	_ handshake.Source          = (*Authority)(nil)
	_ handshake.ChallengeSource = (*Authority)(nil)
)

// AuthorityOptions are the options of an Authority. All but Transport are required.
type AuthorityOptions struct {
	// Directory is the URL of the ACME directory. An operator who sets it agrees to the terms of the authority.
	Directory string
	// Folder stores the account's key and the certificates, readable by their owner only.
	Folder Folder
	Names  Names
	// Transport sends requests to the authority; nil means
	// http.DefaultTransport. Requests to URLs without HTTPS are refused.
	Transport http.RoundTripper
	Log       *slog.Logger
}

// OpenAuthority returns an Authority. It sends no request to the authority yet.
func OpenAuthority(o AuthorityOptions) *Authority {
	a := &Authority{
		o: o, timeout: handshakeTimeout, registrations: rate.NewLimiter(rate.Every(registrationInterval), 1),
		loggedAt: map[string]time.Time{},
	}
	if a.o.Transport == nil {
		a.o.Transport = http.DefaultTransport
	}
	a.manager.Store(a.o.newManager())
	return a
}

// newManager returns a new autocert.Manager, which registers an account with the authority before its first request.
func (o AuthorityOptions) newManager() *autocert.Manager {
	m := &autocert.Manager{
		Prompt: autocert.AcceptTOS,
		Cache:  folderCache{o.Folder, o.Log},
		HostPolicy: func(ctx context.Context, name string) error {
			served, err := o.Names.Served(ctx, name)
			if err == nil && !served {
				err = errUnserved
			}
			return err
		},
		Client: &acme.Client{
			DirectoryURL: o.Directory, UserAgent: "gatewright",
			HTTPClient:   &http.Client{Transport: issuance.RestrictTransport(o.Transport), Timeout: authorityTimeout},
			RetryBackoff: issuance.LimitedBackoff,
		},
	}
	m.HTTPHandler(nil) // makes the manager offer HTTP-01 too
	return m
}

// reregister replaces the manager if err says that the authority no longer has the account, because a manager registers
// only once. It does so at most once per registrationInterval.
func (a *Authority) reregister(err error) {
	if acmeErr, ok := errors.AsType[*acme.Error](err); ok &&
		acmeErr.ProblemType == "urn:ietf:params:acme:error:accountDoesNotExist" && a.registrations.Allow() {
		a.manager.Store(a.o.newManager())
	}
}

var errUnserved = errors.New("servercert: nothing is served at the name")

// Challenges returns a handler for port 80. It responds to the HTTP-01
// challenges that are in progress, and passes all other requests to next.
func (a *Authority) Challenges(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := framing.HostName(r.Host)
		if !strings.HasPrefix(r.URL.Path, challengePath) || !a.Owns(name) {
			next.ServeHTTP(w, r)
			return
		}
		// autocert compares the Host header exactly as the client sent it, and shows its
		// errors to clients. So it gets the normalized name, and its errors are not sent.
		request, recorder := *r, &responseRecorder{header: http.Header{}}
		request.Host = name
		if a.manager.Load().HTTPHandler(next).ServeHTTP(recorder, &request); recorder.status != 0 {
			next.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/octet-stream")
		_, _ = w.Write(recorder.body.Bytes())
	})
}

const challengePath = "/.well-known/acme-challenge/"

// responseRecorder records a response. Its status is 0 for a successful
// response, because autocert does not call WriteHeader then.
type responseRecorder struct {
	header http.Header
	status int
	body   bytes.Buffer
}

// Header implements http.ResponseWriter.
func (r *responseRecorder) Header() http.Header { return r.header }

// WriteHeader implements http.ResponseWriter.
func (r *responseRecorder) WriteHeader(status int) { r.status = status }

// Write implements http.ResponseWriter.
func (r *responseRecorder) Write(b []byte) (int, error) { return r.body.Write(b) }

// Owns implements handshake.Source.
func (a *Authority) Owns(name string) bool { return a.o.Names.Owns(name) }

// Certificate implements handshake.Source. If the name has no certificate yet,
// it waits until the certificate is obtained, but not longer than the timeout.
func (a *Authority) Certificate(ctx context.Context, name string) (*tls.Certificate, error) {
	switch served, err := a.o.Names.Served(ctx, name); {
	case err != nil:
		return nil, err
	case !served:
		return nil, nil
	}
	done := a.inflight.DoChan(name, func() (any, error) {
		cert, err := a.manager.Load().GetCertificate(clientHello(name))
		if err != nil {
			if a.shouldLog(name) {
				a.o.Log.Warn("a certificate could not be obtained, the next handshake tries again after a minute",
					"name", name, "authority", a.o.Directory, "error", err)
			}
			a.reregister(err)
			return nil, fmt.Errorf("obtain a certificate: %w", err)
		}
		return cert, nil
	})
	timer := time.NewTimer(a.timeout)
	defer timer.Stop()
	select {
	case result := <-done:
		cert, _ := result.Val.(*tls.Certificate)
		if cert != nil {
			a.warnExpiring(ctx, name, cert)
		}
		return cert, result.Err
	case <-timer.C:
		return nil, errTimeout
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

var errTimeout = errors.New("servercert: the certificate authority has not issued the certificate yet")

// Obtain obtains certificates for names before clients need them. Errors of the authority are logged, other errors are
// not.
func (a *Authority) Obtain(ctx context.Context, names ...string) {
	for _, name := range names {
		_, _ = a.Certificate(ctx, name)
	}
}

// warnExpiring logs once a day that a certificate expires soon although it should have been renewed.
func (a *Authority) warnExpiring(ctx context.Context, name string, cert *tls.Certificate) {
	if a.expiry.shouldWarn(name, cert, time.Now()) {
		a.o.Log.WarnContext(ctx, "a certificate ends soon and could not be renewed: it is still served", "name", name, "ends",
			cert.Leaf.NotAfter.UTC().Format(time.RFC3339))
	}
}

// shouldLog reports whether to log now that no certificate could be obtained
// for a name. It returns true at most once per failureLogInterval and name.
func (a *Authority) shouldLog(name string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if time.Since(a.loggedAt[name]) < failureLogInterval {
		return false
	}
	if len(a.loggedAt) >= maxLoggedNames {
		clear(a.loggedAt)
	}
	a.loggedAt[name] = time.Now()
	return true
}

// Challenge implements handshake.ChallengeSource.
func (a *Authority) Challenge(_ context.Context, name string) (*tls.Certificate, error) {
	h := clientHello(name)
	h.SupportedProtos = []string{acme.ALPNProto}
	cert, err := a.manager.Load().GetCertificate(h)
	if err != nil {
		return nil, nil //nolint:nilerr // no challenge is in progress: without a certificate, the handshake fails
	}
	return cert, nil
}

// clientHello returns the ClientHello of a client that supports ECDSA, as clients
// with TLS 1.2 or later do. So autocert obtains only one certificate for each name.
func clientHello(name string) *tls.ClientHelloInfo {
	return &tls.ClientHelloInfo{
		ServerName:       name,
		SignatureSchemes: []tls.SignatureScheme{tls.ECDSAWithP256AndSHA256},
		SupportedCurves:  []tls.CurveID{tls.CurveP256},
		CipherSuites:     []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256},
	}
}
