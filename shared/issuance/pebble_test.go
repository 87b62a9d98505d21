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

	"github.com/gatewright/gatewright/shared/audit"
	"github.com/gatewright/gatewright/shared/auth"
	"github.com/gatewright/gatewright/shared/config"
	"github.com/gatewright/gatewright/shared/customdomains"
	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/handshake"
	"github.com/gatewright/gatewright/shared/ids"
	"github.com/gatewright/gatewright/shared/installation"
	"github.com/gatewright/gatewright/shared/issuance"
	"github.com/gatewright/gatewright/shared/issuance/pebbletest"
	"github.com/gatewright/gatewright/shared/listen"
	"github.com/gatewright/gatewright/shared/operation"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/memory"
	"github.com/gatewright/gatewright/shared/store/storetest"
)

// authority is a Pebble with a client of the test's own between.
type authority struct {
	transport *between
	// forget has it lose its accounts and orders.
	forget func()
}

type root struct{}

func (root) Root(context.Context) ([]byte, error) { return make([]byte, 32), nil }

// proven is a DNS that has each text anybody may ask for.
type proven struct{ service **customdomains.Service }

func (p proven) LookupTXT(ctx context.Context, name string) ([]string, error) {
	host := strings.TrimSuffix(strings.TrimPrefix(name, "_gatewright."), ".")
	proof, err := (*p.service).Proof(ctx, "a-1", host)
	return []string{proof.Value}, err
}

type noClients struct{}

func (noClients) ClientCAs(context.Context, string) (*x509.CertPool, error) { return nil, nil }

// hearing answers challenges only while the gateway is not deaf.
type hearing struct {
	*customdomains.Directory
	deaf *atomic.Bool
}

func (d hearing) Challenge(ctx context.Context, name string) (*tls.Certificate, error) {
	if d.deaf.Load() {
		return nil, nil
	}
	return d.Directory.Challenge(ctx, name)
}

func TestMain(m *testing.M) {
	if err := flag.Set("test.parallel", "16"); err != nil { // which wait most of their time
		panic(err)
	}
	os.Exit(m.Run())
}

// house is an installation with a gateway that listens on two ports.
type house struct {
	*testing.T
	parts   installation.Parts
	service *customdomains.Service
	ahead   atomic.Int64 // of the clock, which operations need not be waited for
	secure  net.Addr
	roots   *x509.CertPool
	items   *memory.Backend
	engine  *operation.Engine
	domains *customdomains.Directory
	its     authority
	deaf    atomic.Bool // has the gateway answer no challenge
}

func newHouse(t *testing.T) *house {
	t.Helper()
	h := &house{T: t, items: memory.New()}
	now := func() time.Time { return time.Now().Add(time.Duration(h.ahead.Load())) }
	source := ids.NewSource(rand.Reader, now)
	var plain, secure net.Listener
	for _, l := range []*net.Listener{&plain, &secure} {
		var err error
		if *l, err = listen.On(t.Context(), "127.0.0.1:0", "the gateway", "NOTHING"); err != nil {
			t.Fatal(err)
		}
	}
	h.secure = secure.Addr()
	port := func(l net.Listener) int { return l.Addr().(*net.TCPAddr).Port }
	pebble := pebbletest.Start(t)
	pebble.LookAt(t, port(plain), port(secure))
	h.roots = pebble.Roots()
	h.its = authority{&between{inner: pebble.Client.Transport}, func() { pebble.LookAt(t, port(plain), port(secure)) }}
	h.parts = installation.Parts{
		Config: config.Config{DeploymentURL: "https://{deployment}.gateway.test", ACMEDirectory: pebble.Directory},
		Table:  storetest.Over(t, h.items, storetest.Clock(now)), Now: now, IDs: source, Key: root{}, DNS: proven{&h.service},
		Random: rand.Reader, Log: slog.New(slog.DiscardHandler),
	}
	h.service = customdomains.Open(h.parts)
	h.domains = customdomains.NewDirectory(h.parts)
	handler := h.domains.Challenges(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "served at "+r.Host) }))
	serve := func(l net.Listener, c *tls.Config) {
		server := listen.New(listen.Options{Handler: handler, Settings: config.DefaultListener(), IDs: source, Log: h.parts.Log, TLS: c})
		go func() { _ = server.Serve(l) }()
		t.Cleanup(func() { _ = server.Close() })
	}
	serve(plain, nil)
	serve(secure, handshake.Config(handshake.Options{Sources: []handshake.Source{hearing{h.domains, &h.deaf}}, Clients: noClients{}, Log: h.parts.Log}))
	var err error
	if h.engine, err = operation.New(h.parts.Table, []operation.Definition{h.service.Issue(issuance.Open(h.parts, h.its.transport))}, operation.Options{Now: now, Random: rand.Reader, Log: h.parts.Log}); err != nil {
		t.Fatal(err)
	}
	return h
}

var owner = auth.Owner{AccountID: "a-1", Account: "acme", Viewer: auth.Principal{Permissions: auth.Full()}}

func (h *house) request() context.Context {
	return store.Decide(audit.With(h.Context(), &audit.Request{
		AccountID: "a-1", Action: "custom-domain.create", Time: h.parts.Now(), RequestID: h.parts.IDs.UUID(),
	}))
}

// active creates a custom domain and proves it.
func (h *house) active(hostname string) customdomains.Domain {
	h.Helper()
	if _, err := h.service.Create(h.request(), owner, customdomains.New{Hostname: hostname}); err != nil {
		h.Fatal(err)
	}
	d, err := h.service.Verify(h.request(), owner, hostname)
	if err != nil {
		h.Fatal(err)
	}
	return d
}

// finish carries out the n-th operation on a custom domain's certificate.
func (h *house) finish(d customdomains.Domain, n int) customdomains.Domain {
	h.Helper()
	id := fmt.Sprintf("certify-%s-%d", d.ID, n)
	for range 200 {
		r, err := h.engine.Run(h.Context(), id)
		if err != nil {
			h.Fatal(err)
		}
		if r.Ended() {
			d, err = h.service.Read(h.Context(), owner, d.Hostname)
			if err != nil {
				h.Fatal(err)
			}
			return d
		}
		if wait := r.DueOn.Sub(h.parts.Now()); wait > 0 {
			h.ahead.Add(int64(wait))
		}
		time.Sleep(20 * time.Millisecond) // Pebble has a clock of its own
	}
	h.Fatalf("the operation %s comes to no end", id)
	return d
}

// get asks for a page by HTTPS, as a client that trusts the authority.
func (h *house) get(hostname string) (string, *x509.Certificate, error) {
	h.Helper()
	client := &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: h.roots, MinVersion: tls.VersionTLS12, Time: h.parts.Now},
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", h.secure.String())
		},
		DisableKeepAlives: true,
	}}
	r, err := http.NewRequestWithContext(h.Context(), http.MethodGet, "https://"+hostname+"/", http.NoBody)
	if err != nil {
		h.Fatal(err)
	}
	answer, err := client.Do(r)
	if err != nil {
		return "", nil, err
	}
	defer func() { _ = answer.Body.Close() }()
	body, err := io.ReadAll(answer.Body)
	return string(body), answer.TLS.PeerCertificates[0], err
}

// soon is get once it is what a test waits for: a look of the gateway that was under way at a jump
// of the clock knows what was before.
func (h *house) soon(hostname string, holds func(*x509.Certificate) bool) (string, *x509.Certificate, error) {
	h.Helper()
	for tries := 50; ; tries-- {
		body, its, err := h.get(hostname)
		if err == nil && holds(its) || tries == 0 {
			return body, its, err
		}
		time.Sleep(100 * time.Millisecond)
	}
}

func anything(*x509.Certificate) bool { return true }

func TestDomainIsServedWithACertificateOfTheAuthority(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	for n, hostname := range map[int]string{1: "tls-alpn.example.com", 2: "http.example.com"} {
		d := h.active(hostname)
		if d.Certificate == nil || d.Certificate.Source != customdomains.ACME || !d.Certificate.ValidTo.IsZero() {
			t.Errorf("before: %+v", d.Certificate)
		}
		if n == 2 { // the second attempt is by HTTP-01
			h.breaks(d)
		}
		stop := h.pester(hostname)
		d = h.finish(d, n)
		stop()
		if c := d.Certificate; c.Message != "" || !strings.Contains(c.Issuer, "Pebble") || c.Next.Before(c.ValidFrom.Add(c.ValidTo.Sub(c.ValidFrom)/2)) || !c.Next.Before(c.ValidTo) {
			t.Fatalf("%s has %+v", hostname, c)
		}
		h.ahead.Add(int64(customdomains.Staleness))
		if body, _, err := h.soon(hostname, anything); body != "served at "+hostname || err != nil {
			t.Errorf("%s answers %q, %v", hostname, body, err)
		}
	}
	if _, _, err := h.get("stranger.example.com"); err == nil {
		t.Error("a stranger's name is served")
	}
}

// pester has a stranger ask for the challenge on and on, so that the gateway knows of none when there is one.
func (h *house) pester(hostname string) (stop func()) {
	ctx, cancel := context.WithCancel(h.Context())
	var asking sync.WaitGroup
	asking.Go(func() {
		for ctx.Err() == nil {
			_, _ = h.domains.Challenge(ctx, hostname)
			time.Sleep(10 * time.Millisecond)
		}
	})
	return func() { cancel(); asking.Wait() }
}

// breaks has the first attempt come to nothing.
func (h *house) breaks(d customdomains.Domain) {
	h.Helper()
	engine, err := operation.New(h.parts.Table, []operation.Definition{h.service.Issue(broken{})}, operation.Options{Now: h.parts.Now, Random: rand.Reader, Log: h.parts.Log})
	if err != nil {
		h.Fatal(err)
	}
	own := h.engine
	h.engine = engine
	d = h.finish(d, 1)
	h.engine = own
	if c := d.Certificate; c.Message != "The authority refuses." || c.Failures != 1 || c.Next.Sub(h.parts.Now()) < 10*time.Minute {
		h.Errorf("after a failure: %+v", c)
	}
}

func TestCertificateIsRenewed(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	d := h.finish(h.active("api.example.com"), 1)
	h.ahead.Add(int64(customdomains.Staleness))
	_, first, err := h.soon(d.Hostname, anything)
	if err != nil {
		t.Fatal(err)
	}
	before, ahead := *d.Certificate, h.ahead.Load()
	d = h.finish(d, 3)
	h.ahead.Store(ahead + int64(customdomains.Staleness)) // the authority's own clock stands
	_, second, err := h.soon(d.Hostname, func(its *x509.Certificate) bool { return !its.Equal(first) })
	if err != nil || second.Equal(first) || d.Certificate.Operation == before.Operation {
		t.Errorf("renewed it is %+v, %+v before; %v", d.Certificate, before, err)
	}
}

func TestRefusalOfTheAuthorityIsTold(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	d := h.active("api.example.com")
	// Nothing answers at the port by then.
	h.deaf.Store(true)
	d = h.finish(d, 1)
	if c := d.Certificate; !strings.Contains(c.Message, "could not prove the hostname by tls-alpn-01") || !strings.Contains(c.Message, "Have its port 443 lead") || !c.ValidTo.IsZero() {
		t.Errorf("it is told %+v", c)
	}
}

// TestAuthorityThatNobodyTrustsIsTold, and no address of it.
func TestAuthorityThatNobodyTrustsIsTold(t *testing.T) {
	h := newHouse(t)
	_, err := issuance.Open(h.parts, nil).Order(t.Context(), "api.example.com", false)
	if f, ok := errors.AsType[*fault.Fault](err); !ok || !strings.Contains(f.Public, "trusts. It is tried again") || !strings.Contains(err.Error(), "x509") {
		t.Errorf("it is told %v", err)
	}
}
