package owncert

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

	"github.com/gatewright/gatewright/shared/handshake"
	"github.com/gatewright/gatewright/shared/issuance"
	"github.com/gatewright/gatewright/shared/listen/framing"
)

const (
	// patience is how long a handshake waits for a certificate that is being obtained; the next one
	// finds it.
	patience = 15 * time.Second
	// authorityTimeout bounds each exchange with an authority.
	authorityTimeout = time.Minute
	// failedEvery is how often it is told that a name gets no certificate, which is when autocert asks again.
	failedEvery = time.Minute
	// maxTold is of how many names it is known when that was; then all may be told again.
	maxTold = 4096
	// anewEvery is how often an account is made with an authority, at most.
	anewEvery = time.Minute
)

// Authority is an authority that gives certificates by ACME, one a name, when the name is first asked for. It
// proves a name by what it answers at ports 443 (TLS-ALPN-01) and 80 (HTTP-01). Certificates are kept in a
// folder, renewed 30 days before they end, and served on where they cannot be. It is safe for concurrent use.
type Authority struct {
	o       AuthorityOptions
	manager atomic.Pointer[autocert.Manager]
	flights singleflight.Group
	anew    *rate.Limiter // managers
	// patience is how long a handshake waits.
	patience time.Duration
	// ending are certificates that were not renewed.
	ending ending

	mu   sync.Mutex
	told map[string]time.Time // of names without one
}

var (
	_ handshake.Source     = (*Authority)(nil)
	_ handshake.Challenged = (*Authority)(nil)
)

// AuthorityOptions are what an Authority is made with. All are needed but Transport.
type AuthorityOptions struct {
	// Directory is the address of its ACME directory. Whoever names one agrees to its terms.
	Directory string
	// Folder is where the account's key and the certificates are kept, for their owner alone.
	Folder Folder
	Names  Names
	// Transport is how the authority is asked, nil for the default. It is asked by HTTPS alone.
	Transport http.RoundTripper
	Log       *slog.Logger
}

// OpenAuthority makes an Authority. It asks nothing of the authority yet.
func OpenAuthority(o AuthorityOptions) *Authority {
	a := &Authority{o: o, patience: patience, anew: rate.NewLimiter(rate.Every(anewEvery), 1), told: map[string]time.Time{}}
	if a.o.Transport == nil {
		a.o.Transport = http.DefaultTransport
	}
	a.manager.Store(a.o.manager())
	return a
}

// manager makes a manager, which registers with the authority before it asks for anything.
func (o AuthorityOptions) manager() *autocert.Manager {
	m := &autocert.Manager{
		Prompt: autocert.AcceptTOS,
		Cache:  kept{o.Folder, o.Log},
		HostPolicy: func(ctx context.Context, name string) error {
			served, err := o.Names.Served(ctx, name)
			if err == nil && !served {
				err = errUnserved
			}
			return err
		},
		Client: &acme.Client{
			DirectoryURL: o.Directory, UserAgent: "gatewright",
			HTTPClient:   &http.Client{Transport: issuance.Careful(o.Transport), Timeout: authorityTimeout},
			RetryBackoff: issuance.FewTries,
		},
	}
	m.HTTPHandler(nil) // which has it offer HTTP-01 too
	return m
}

// forgotten begins anew with an authority that does not know the account any more: a manager registers once.
func (a *Authority) forgotten(err error) {
	if of, ok := errors.AsType[*acme.Error](err); ok && of.ProblemType == "urn:ietf:params:acme:error:accountDoesNotExist" && a.anew.Allow() {
		a.manager.Store(a.o.manager())
	}
}

var errUnserved = errors.New("owncert: nothing is served at the name")

// Challenges answers what the authority asks for by HTTP-01, where a challenge is under way at the host, and leaves
// the rest to next.
func (a *Authority) Challenges(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := framing.HostName(r.Host)
		if !strings.HasPrefix(r.URL.Path, challengePath) || !a.Owns(name) {
			next.ServeHTTP(w, r)
			return
		}
		// autocert compares the Host as it was sent with its names, and tells whoever asks why it has no answer.
		asked, answer := *r, &answered{header: http.Header{}}
		asked.Host = name
		if a.manager.Load().HTTPHandler(next).ServeHTTP(answer, &asked); answer.status != 0 {
			next.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/octet-stream")
		_, _ = w.Write(answer.body.Bytes())
	})
}

const challengePath = "/.well-known/acme-challenge/"

// answered keeps an answer. Its status is 0 for 200, which nobody said.
type answered struct {
	header http.Header
	status int
	body   bytes.Buffer
}

// Header implements http.ResponseWriter.
func (a *answered) Header() http.Header { return a.header }

// WriteHeader implements http.ResponseWriter.
func (a *answered) WriteHeader(status int) { a.status = status }

// Write implements http.ResponseWriter.
func (a *answered) Write(b []byte) (int, error) { return a.body.Write(b) }

// Owns implements handshake.Source.
func (a *Authority) Owns(name string) bool { return a.o.Names.Owns(name) }

// Certificate implements handshake.Source. A name that has no certificate yet waits for it for a while.
func (a *Authority) Certificate(ctx context.Context, name string) (*tls.Certificate, error) {
	switch served, err := a.o.Names.Served(ctx, name); {
	case err != nil:
		return nil, err
	case !served:
		return nil, nil
	}
	flight := a.flights.DoChan(name, func() (any, error) {
		its, err := a.manager.Load().GetCertificate(hello(name))
		if err != nil {
			if a.mayTell(name) {
				a.o.Log.Warn("a certificate could not be obtained, the next handshake tries again after a minute",
					"name", name, "authority", a.o.Directory, "error", err)
			}
			a.forgotten(err)
			return nil, fmt.Errorf("obtain a certificate: %w", err)
		}
		return its, nil
	})
	wait := time.NewTimer(a.patience)
	defer wait.Stop()
	select {
	case result := <-flight:
		its, _ := result.Val.(*tls.Certificate)
		if its != nil {
			a.tellLate(ctx, name, its)
		}
		return its, result.Err
	case <-wait.C:
		return nil, errSlow
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

var errSlow = errors.New("owncert: the authority has not given the certificate yet")

// Obtain gets certificates that there will be a need for, before anybody asks. What goes wrong is logged.
func (a *Authority) Obtain(ctx context.Context, names ...string) {
	for _, name := range names {
		_, _ = a.Certificate(ctx, name)
	}
}

// tellLate says once a day that a certificate ends soon, which should have been renewed.
func (a *Authority) tellLate(ctx context.Context, name string, its *tls.Certificate) {
	if a.ending.soon(name, its, time.Now()) {
		a.o.Log.WarnContext(ctx, "a certificate ends soon and could not be renewed, it is served on", "name", name, "ends", its.Leaf.NotAfter.UTC().Format(time.RFC3339))
	}
}

// mayTell reports whether it was not told for a time that a name gets no certificate.
func (a *Authority) mayTell(name string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if time.Since(a.told[name]) < failedEvery {
		return false
	}
	if len(a.told) >= maxTold {
		clear(a.told)
	}
	a.told[name] = time.Now()
	return true
}

// Challenge implements handshake.Challenged.
func (a *Authority) Challenge(_ context.Context, name string) (*tls.Certificate, error) {
	h := hello(name)
	h.SupportedProtos = []string{acme.ALPNProto}
	its, err := a.manager.Load().GetCertificate(h)
	if err != nil {
		return nil, nil //nolint:nilerr // none is under way: which the handshake says
	}
	return its, nil
}

// hello is a handshake's, of a client that takes ECDSA, as all do that take TLS 1.2: the names have one
// certificate each.
func hello(name string) *tls.ClientHelloInfo {
	return &tls.ClientHelloInfo{
		ServerName:       name,
		SignatureSchemes: []tls.SignatureScheme{tls.ECDSAWithP256AndSHA256},
		SupportedCurves:  []tls.CurveID{tls.CurveP256},
		CipherSuites:     []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256},
	}
}
