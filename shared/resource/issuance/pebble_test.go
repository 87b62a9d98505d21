package issuance_test

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/base/handshake"
	"github.com/gatewright/gatewright/shared/base/ids"
	"github.com/gatewright/gatewright/shared/core/audit"
	"github.com/gatewright/gatewright/shared/core/auth"
	"github.com/gatewright/gatewright/shared/core/config"
	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/core/operation"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/memory"
	"github.com/gatewright/gatewright/shared/core/store/storetest"
	"github.com/gatewright/gatewright/shared/dataplane/listen"
	"github.com/gatewright/gatewright/shared/resource/customdomains"
	"github.com/gatewright/gatewright/shared/resource/issuance"
	"github.com/gatewright/gatewright/shared/resource/issuance/pebbletest"
)

// pebbleAuthority is a running Pebble, with a transport that the test controls.
type pebbleAuthority struct {
	transport *interceptor
	// reset makes the authority lose its accounts and orders.
	reset func()
}

type zeroRootKey struct{}

func (zeroRootKey) Root(context.Context) ([]byte, error) { return make([]byte, 32), nil }

// fakeDNS resolves the TXT record of each hostname to the value that the service expects.
type fakeDNS struct{ service **customdomains.Service }

func (d fakeDNS) LookupTXT(ctx context.Context, name string) ([]string, error) {
	host := strings.TrimSuffix(strings.TrimPrefix(name, "_gatewright."), ".")
	proof, err := (*d.service).Proof(ctx, "a-1", host)
	return []string{proof.Value}, err
}

type noClients struct{}

func (noClients) ClientCAs(context.Context, string) (*x509.CertPool, error) { return nil, nil }

// challengeSource is a customdomains.Directory that responds to no challenge while unresponsive is true.
type challengeSource struct {
	*customdomains.Directory
	unresponsive *atomic.Bool
}

func (s challengeSource) Challenge(ctx context.Context, name string) (*tls.Certificate, error) {
	if s.unresponsive.Load() {
		return nil, nil
	}
	return s.Directory.Challenge(ctx, name)
}

func TestMain(m *testing.M) {
	if err := flag.Set("test.parallel", "16"); err != nil { // more than there are cores, because the tests mostly wait
		panic(err)
	}
	os.Exit(m.Run())
}

// fixture is an installation whose gateway listens on one port for HTTP and one for HTTPS.
type fixture struct {
	*testing.T
	parts        installation.Parts
	service      *customdomains.Service
	clockOffset  atomic.Int64 // nanoseconds that are added to the clock, so that tests need not wait for operations
	tlsAddr      net.Addr
	roots        *x509.CertPool
	items        *memory.Backend
	engine       *operation.Engine
	directory    *customdomains.Directory
	authority    pebbleAuthority
	unresponsive atomic.Bool // makes the gateway respond to no challenge
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	fx := &fixture{T: t, items: memory.New()}
	now := func() time.Time { return time.Now().Add(time.Duration(fx.clockOffset.Load())) }
	source := ids.NewSource(rand.Reader, now)
	var plain, secure net.Listener
	for _, l := range []*net.Listener{&plain, &secure} {
		var err error
		if *l, err = listen.Open(t.Context(), "127.0.0.1:0", "the gateway", "NOTHING"); err != nil {
			t.Fatal(err)
		}
	}
	fx.tlsAddr = secure.Addr()
	port := func(l net.Listener) int { return l.Addr().(*net.TCPAddr).Port }
	pebble := pebbletest.Start(t)
	pebble.ValidateAt(t, port(plain), port(secure))
	fx.roots = pebble.Roots()
	fx.authority = pebbleAuthority{&interceptor{inner: pebble.Client.Transport}, func() {
		pebble.ValidateAt(t, port(plain), port(secure))
	}}
	fx.parts = installation.Parts{
		Config: config.Config{DeploymentURL: "https://{deployment}.gateway.test", ACMEDirectory: pebble.Directory},
		Table:  storetest.NewWithBackend(t, fx.items, storetest.Clock(now)), Now: now, IDs: source, Key: zeroRootKey{},
		DNS:    fakeDNS{&fx.service},
		Random: rand.Reader, Log: slog.New(slog.DiscardHandler),
	}
	fx.service = customdomains.Open(fx.parts)
	fx.directory = customdomains.NewDirectory(fx.parts)
	handler := fx.directory.Challenges(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "served at "+r.Host)
	}))
	serve := func(l net.Listener, c *tls.Config) {
		server := listen.New(listen.Options{
			Handler: handler, Settings: config.DefaultListener(), IDs: source,
			Log: fx.parts.Log, TLS: c,
		})
		go func() { _ = server.Serve(l) }()
		t.Cleanup(func() { _ = server.Close() })
	}
	serve(plain, nil)
	serve(secure,
		handshake.Config(handshake.Options{
			Sources: []handshake.Source{challengeSource{fx.directory, &fx.unresponsive}},
			Clients: noClients{}, Log: fx.parts.Log,
		}))
	var err error
	if fx.engine, err = operation.New(fx.parts.Table,
		[]operation.Definition{fx.service.IssuanceDefinition(issuance.Open(fx.parts, fx.authority.transport))},
		operation.Options{Now: now, Random: rand.Reader, Log: fx.parts.Log}); err != nil {
		t.Fatal(err)
	}
	return fx
}

var owner = auth.Owner{AccountID: "a-1", Account: "acme", Viewer: auth.Principal{Permissions: auth.Full()}}

func (fx *fixture) request() context.Context {
	return store.WithReadSet(audit.WithRequest(fx.Context(), &audit.Request{
		AccountID: "a-1", Action: "custom-domain.create", Time: fx.parts.Now(), RequestID: fx.parts.IDs.UUID(),
	}))
}

// createVerified creates a custom domain and verifies its hostname.
func (fx *fixture) createVerified(hostname string) customdomains.Domain {
	fx.Helper()
	if _, err := fx.service.Create(fx.request(), owner, customdomains.CreateInput{Hostname: hostname}); err != nil {
		fx.Fatalf("Create(%s) error = %v, want none", hostname, err)
	}
	d, err := fx.service.Verify(fx.request(), owner, hostname)
	if err != nil {
		fx.Fatalf("Verify(%s) error = %v, want none", hostname, err)
	}
	return d
}

// finish runs the n-th issuance operation of a custom domain until it ends, and returns the domain.
func (fx *fixture) finish(d customdomains.Domain, n int) customdomains.Domain {
	fx.Helper()
	id := fmt.Sprintf("certify-%s-%d", d.ID, n)
	for range 200 {
		r, err := fx.engine.Run(fx.Context(), id)
		if err != nil {
			fx.Fatalf("Run(%s) error = %v, want none", id, err)
		}
		if r.Ended() {
			d, err = fx.service.Read(fx.Context(), owner, d.Hostname)
			if err != nil {
				fx.Fatalf("Read() after operation %s: error = %v, want none", id, err)
			}
			return d
		}
		if wait := r.DueOn.Sub(fx.parts.Now()); wait > 0 {
			fx.clockOffset.Add(int64(wait))
		}
		time.Sleep(20 * time.Millisecond) // Pebble needs real time, because its clock is not that of the fixture
	}
	fx.Fatalf("operation %s does not end, want it ended", id)
	return d
}

// get requests a page over HTTPS, as a client that trusts the authority. It returns the body and the server's
// certificate.
func (fx *fixture) get(hostname string) (string, *x509.Certificate, error) {
	fx.Helper()
	client := &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: fx.roots, MinVersion: tls.VersionTLS12, Time: fx.parts.Now},
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", fx.tlsAddr.String())
		},
		DisableKeepAlives: true,
	}}
	r, err := http.NewRequestWithContext(fx.Context(), http.MethodGet, "https://"+hostname+"/", http.NoBody)
	if err != nil {
		fx.Fatal(err)
	}
	resp, err := client.Do(r)
	if err != nil {
		return "", nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	return string(body), resp.TLS.PeerCertificates[0], err
}

// getUntil calls get until the certificate matches, for about 5 s. Repetitions are necessary because a refresh of the
// gateway that was in progress when the clock jumped returns the previous data.
func (fx *fixture) getUntil(hostname string, matches func(*x509.Certificate) bool) (string, *x509.Certificate, error) {
	fx.Helper()
	for tries := 50; ; tries-- {
		body, cert, err := fx.get(hostname)
		if err == nil && matches(cert) || tries == 0 {
			return body, cert, err
		}
		time.Sleep(100 * time.Millisecond)
	}
}

func anyCertificate(*x509.Certificate) bool { return true }

// TestDomainIsServedWithIssuedCertificate checks the issuance with both challenge types, although the gateway has
// cached that there is no challenge. The second domain uses HTTP-01, because its first attempt fails. The gateway must
// then serve both domains with their certificates.
func TestDomainIsServedWithIssuedCertificate(t *testing.T) {
	t.Parallel()
	fx := newFixture(t)
	for n, hostname := range map[int]string{1: "tls-alpn.example.com", 2: "http.example.com"} {
		d := fx.createVerified(hostname)
		if d.Certificate == nil || d.Certificate.Source != customdomains.ACME || !d.Certificate.ValidTo.IsZero() {
			t.Errorf("certificate of a new domain = %+v, want source %s and no validity yet",
				d.Certificate, customdomains.ACME)
		}
		if n == 2 { // the second attempt uses HTTP-01
			fx.failFirstAttempt(d)
		}
		stop := fx.pollChallenge(hostname)
		d = fx.finish(d, n)
		stop()
		if c := d.Certificate; c.Message != "" || !strings.Contains(c.Issuer, "Pebble") ||
			c.Next.Before(c.ValidFrom.Add(c.ValidTo.Sub(c.ValidFrom)/2)) || !c.Next.Before(c.ValidTo) {
			t.Fatalf("certificate of %s = %+v, want one of Pebble, with a renewal in the second half of its validity",
				hostname, c)
		}
		fx.clockOffset.Add(int64(customdomains.Staleness))
		if body, _, err := fx.getUntil(hostname, anyCertificate); body != "served at "+hostname || err != nil {
			t.Errorf("GET %s = %q, %v, want %q and no error", hostname, body, err, "served at "+hostname)
		}
	}
	if _, _, err := fx.get("stranger.example.com"); err == nil {
		t.Error("GET stranger.example.com succeeds, want an error")
	}
}

// pollChallenge requests the challenge every 10 ms until stop is called. So the gateway has cached that there is no
// challenge when the challenge is created.
func (fx *fixture) pollChallenge(hostname string) (stop func()) {
	ctx, cancel := context.WithCancel(fx.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		for ctx.Err() == nil {
			_, _ = fx.directory.Challenge(ctx, hostname)
			time.Sleep(10 * time.Millisecond)
		}
	})
	return func() { cancel(); wg.Wait() }
}

// failFirstAttempt runs the first issuance operation of a custom domain with an authority that refuses the order.
func (fx *fixture) failFirstAttempt(d customdomains.Domain) {
	fx.Helper()
	engine, err := operation.New(fx.parts.Table,
		[]operation.Definition{fx.service.IssuanceDefinition(refusingAuthority{})},
		operation.Options{Now: fx.parts.Now, Random: rand.Reader, Log: fx.parts.Log})
	if err != nil {
		fx.Fatal(err)
	}
	original := fx.engine
	fx.engine = engine
	d = fx.finish(d, 1)
	fx.engine = original
	if c := d.Certificate; c.Message != "The authority refuses." || c.Failures != 1 ||
		c.Next.Sub(fx.parts.Now()) < 10*time.Minute {
		fx.Errorf("certificate after a failed attempt = %+v, want 1 failure, its message and a delay of 10 minutes", c)
	}
}

// TestCertificateIsRenewed checks that a renewal replaces the certificate that the gateway serves.
func TestCertificateIsRenewed(t *testing.T) {
	t.Parallel()
	fx := newFixture(t)
	d := fx.finish(fx.createVerified("api.example.com"), 1)
	fx.clockOffset.Add(int64(customdomains.Staleness))
	_, first, err := fx.getUntil(d.Hostname, anyCertificate)
	if err != nil {
		t.Fatalf("GET %s before the renewal: error = %v, want none", d.Hostname, err)
	}
	before, offset := *d.Certificate, fx.clockOffset.Load()
	// Odd numbers use TLS-ALPN-01. The renewal uses the same challenge type as the first operation.
	d = fx.finish(d, 3)
	fx.clockOffset.Store(offset + int64(customdomains.Staleness)) // the authority's own clock does not advance
	_, second, err := fx.getUntil(d.Hostname, func(cert *x509.Certificate) bool { return !cert.Equal(first) })
	if err != nil || second.Equal(first) {
		t.Errorf("certificate that is served after the renewal: error = %v, want no error and another certificate", err)
	}
	if d.Certificate.Operation == before.Operation {
		t.Errorf("certificate after the renewal = %+v, want another operation than that of %+v", *d.Certificate, before)
	}
}

// TestFailedValidationIsShown checks the message for the owner if the gateway does not respond to the challenge.
func TestFailedValidationIsShown(t *testing.T) {
	t.Parallel()
	fx := newFixture(t)
	d := fx.createVerified("api.example.com")
	fx.unresponsive.Store(true)
	d = fx.finish(d, 1)
	if c := d.Certificate; !strings.Contains(c.Message, "could not prove the hostname by tls-alpn-01") ||
		!strings.Contains(c.Message, "Have its port 443 lead") || !c.ValidTo.IsZero() {
		t.Errorf("certificate after a failed validation = %+v, want a message about tls-alpn-01 and port 443", c)
	}
}

// TestUntrustedAuthorityIsReported uses an authority whose TLS certificate is not trusted. The owner sees a general
// message, and only the error's cause mentions x509.
func TestUntrustedAuthorityIsReported(t *testing.T) {
	fx := newFixture(t)
	_, err := issuance.Open(fx.parts, nil).Order(t.Context(), "api.example.com", false)
	f, ok := errors.AsType[*fault.Fault](err)
	if !ok {
		t.Fatalf("Order() of an untrusted authority: error = %v, want a fault", err)
	}
	if !strings.Contains(f.Public, "trusts. It is tried again") || strings.Contains(f.Public, "x509") {
		t.Errorf("Order() of an untrusted authority: public text = %q, want it to mention trust, and not x509", f.Public)
	}
	if !strings.Contains(err.Error(), "x509") {
		t.Errorf("Order() of an untrusted authority: error = %v, want it to mention x509", err)
	}
}
