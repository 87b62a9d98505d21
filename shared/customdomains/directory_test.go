package customdomains_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/customdomains"
	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/fault/faulttest"
	"github.com/gatewright/gatewright/shared/handshake"
	"github.com/gatewright/gatewright/shared/operation/simulations"
	"github.com/gatewright/gatewright/shared/pki/pkitest"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/storetest"
)

const main = "shop-main-0123abc"

func (w *world) directory() *customdomains.Directory {
	p := w.parts
	p.Log = slog.New(slog.DiscardHandler)
	return customdomains.NewDirectory(p)
}

// asked is what a function asks of the table.
func (w *world) asked(f func(ctx context.Context)) store.Usage {
	var meter store.Meter
	f(store.WithMeter(w.Context(), &meter))
	u := meter.Usage()
	u.ReadUnits = 0
	return u
}

func (w *world) wantServed(d *customdomains.Directory, hostname, want string) {
	w.Helper()
	got, err := d.Deployment(w.Context(), hostname)
	if got != want || want == "" && !fault.Is(err, fault.NotFound) {
		w.Errorf("%s serves %q, %v, want %q", hostname, got, err, want)
	}
}

func TestVerifiedDomainServesItsDeployment(t *testing.T) {
	w := newWorld(t)
	d := w.directory()
	made := w.create(acme, customdomains.New{Hostname: api, Deployment: main})
	w.wantServed(d, api, "")
	w.dns.set(made.Proof)
	if _, err := w.Verify(w.request(), acme, api); err != nil {
		t.Fatal(err)
	}
	w.set(w.at().Add(customdomains.Staleness))
	w.wantServed(d, api, main)
	w.wantServed(d, "other.example.com", "")
	w.wantServed(d, main+".gateway.test", "")
	w.active(acme, customdomains.New{Hostname: "docs.example.com", Deployment: main, Stage: customdomains.DevPortal})
	w.set(w.at().Add(customdomains.Staleness))
	w.wantServed(d, "docs.example.com", "")
}

// TestChangeHoldsWithinFiveSeconds: whoever goes on asking, and whatever was known.
func TestChangeHoldsWithinFiveSeconds(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(w *world) error
		want   string
	}{
		"deletion":            {func(w *world) error { return w.Delete(w.request(), acme, api, "") }, ""},
		"deletion by mapping": {func(w *world) error { return w.Delete(w.request(), acme, api, main) }, ""},
		"detachment":          {func(w *world) error { _, err := w.Update(w.request(), acme, api, "", false); return err }, ""},
		"reassignment": {func(w *world) error {
			_, err := w.Update(w.request(), acme, api, "blog-main-0123abc", false)
			return err
		}, "blog-main-0123abc"},
		"deletion of its certificate": {func(w *world) error { _, err := w.DeleteCertificate(w.request(), acme, api); return err }, main},
		"another account": {func(w *world) error {
			err := w.Delete(w.request(), acme, api, "")
			w.active(evil, customdomains.New{Hostname: api, Deployment: "evil-main-0123abc"})
			return err
		}, "evil-main-0123abc"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			d := w.directory()
			w.active(acme, customdomains.New{Hostname: api, Deployment: main})
			its := w.upload(w.Service, api, pkitest.CA(t, "CA", w.at()))
			w.wantServed(d, api, main)
			if c, err := d.Certificate(t.Context(), api); err != nil || c == nil || !c.Leaf.Equal(its) {
				t.Fatalf("served with %v, %v", c, err)
			}
			if err := tt.change(w); err != nil {
				t.Fatal(err)
			}
			for range 5 {
				w.set(w.at().Add(time.Second))
				_, _ = d.Deployment(t.Context(), api) // which keeps nothing alive
				_, _ = d.Certificate(t.Context(), api)
			}
			w.wantServed(d, api, tt.want)
			c, err := d.Certificate(t.Context(), api)
			if kept := !slices.Contains([]string{"another account", "deletion", "deletion of its certificate"}, name); err != nil || (c != nil) != kept || d.Owns(api) != (kept || tt.want != "") {
				t.Errorf("served with %v, %v", c, err)
			}
		})
	}
}

func (w *world) upload(s *customdomains.Service, hostname string, ca pkitest.Cert) *x509.Certificate {
	w.Helper()
	leaf := ca.Client(w.T, hostname, w.at(), func(c *pkitest.Template) {
		c.DNSNames, c.ExtKeyUsage = []string{hostname}, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	})
	if _, err := s.Upload(w.request(), acme, hostname, leaf.PEM(), leaf.KeyPEM(w.T)); err != nil {
		w.Fatal(err)
	}
	return leaf.Certificate
}

func TestUploadedCertificateHasToBeTheHostnames(t *testing.T) {
	w := newWorld(t)
	ca := pkitest.CA(t, "CA", w.at())
	leaf := func(change pkitest.Change) pkitest.Cert {
		return ca.Client(t, "leaf", w.at(), func(c *pkitest.Template) {
			c.DNSNames, c.ExtKeyUsage = []string{api}, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
			change(c)
		})
	}
	good := leaf(func(*pkitest.Template) {})
	send := func(c, key pkitest.Cert) error {
		_, err := w.Upload(w.request(), acme, api, c.PEM(), key.KeyPEM(t))
		return err
	}
	faulttest.Want(t, send(good, good), fault.NotFound, "custom domain")
	w.dns.set(w.create(acme, customdomains.New{Hostname: api}).Proof)
	faulttest.Want(t, send(good, good), fault.Conflict, "not proven")
	if _, err := w.Verify(w.request(), acme, api); err != nil {
		t.Fatal(err)
	}
	for text, c := range map[string]pkitest.Cert{
		"subject alternative names": leaf(func(c *pkitest.Template) { c.DNSNames = []string{"www.example.com"} }),
		"has expired":               leaf(func(c *pkitest.Template) { c.NotAfter = w.at().Add(-time.Second) }),
		"not valid yet":             leaf(func(c *pkitest.Template) { c.NotBefore = w.at().Add(time.Hour) }),
		"not for servers":           leaf(func(c *pkitest.Template) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth} }),
		"of a CA":                   ca,
	} {
		faulttest.Want(t, send(c, c), fault.Invalid, text)
	}
	faulttest.Want(t, send(good, ca), fault.Invalid, "does not belong to the certificate")
	wildcard := leaf(func(c *pkitest.Template) { c.DNSNames = []string{"*.example.com"} })
	if err := send(wildcard, wildcard); err != nil {
		t.Error(err)
	}
	w.active(acme, customdomains.New{Hostname: "alias.example.com", Alias: true})
	_, err := w.Upload(w.request(), acme, "alias.example.com", wildcard.PEM(), wildcard.KeyPEM(t))
	faulttest.Want(t, err, fault.Conflict, "alias")
}

// TestWhatIsKnownIsServedWhileTheTableIsAway, for ten minutes.
func TestWhatIsKnownIsServedWhileTheTableIsAway(t *testing.T) {
	w := newWorld(t)
	w.active(acme, customdomains.New{Hostname: api, Deployment: main})
	broken := &away{Backend: w.items}
	w.parts.Table = storetest.Over(t, broken, storetest.Pause(storetest.AtOnce))
	d := w.directory()
	w.wantServed(d, api, main)
	broken.gone = true
	w.set(w.at().Add(time.Minute))
	w.wantServed(d, api, main)
	w.set(w.at().Add(10 * time.Minute))
	if _, err := d.Deployment(t.Context(), api); err == nil || fault.Is(err, fault.NotFound) {
		t.Errorf("got %v, want that nobody knows", err)
	}
}

type away struct {
	store.Backend
	gone bool
}

func (a *away) Read(ctx context.Context, keys []store.Key) ([]store.Item, error) {
	if a.gone {
		return nil, errors.New("away")
	}
	return a.Backend.Read(ctx, keys)
}

// TestTenThousandHostnames are on one listener: a cold one is one read, a warm one and a stranger's none.
func TestTenThousandHostnames(t *testing.T) {
	hostnames := 10_000
	if simulations.Racing {
		hostnames = 500
	}
	w := newWorld(t)
	ca := pkitest.CA(t, "CA", w.at())
	leaf := ca.Client(t, "leaf", w.at(), func(c *pkitest.Template) {
		c.DNSNames, c.ExtKeyUsage = []string{"*.example.com"}, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	})
	chain, key := leaf.PEM(), leaf.KeyPEM(t)
	name := func(i int) string { return fmt.Sprintf("tenant-%d.example.com", i) }
	for i := range hostnames {
		if err := w.Serve(w.Context(), name(i), main, chain, key); err != nil {
			t.Fatal(err)
		}
	}
	d := w.directory()
	if u := w.asked(func(ctx context.Context) { _, _ = d.Deployment(ctx, "stranger.example.com") }); u != (store.Usage{Reads: 2}) {
		t.Errorf("the names are known for %+v", u)
	}
	get := func(i int) func(ctx context.Context) {
		return func(ctx context.Context) {
			if c, err := d.Certificate(ctx, name(i)); c == nil || err != nil || !d.Owns(name(i)) {
				t.Fatalf("%s is served with %v, %v", name(i), c, err)
			}
			if got, err := d.Deployment(ctx, name(i)); got != main || err != nil {
				t.Fatalf("%s serves %s, %v", name(i), got, err)
			}
		}
	}
	for i := range hostnames {
		if u := w.asked(get(i)); u != (store.Usage{Reads: 1}) {
			t.Fatalf("the cold %s asks for %+v", name(i), u)
		}
	}
	if u := w.asked(func(ctx context.Context) {
		for i := range hostnames {
			get(i)(ctx)
			stranger := "www." + name(i)
			if d.Owns(stranger) {
				t.Fatalf("it owns %s", stranger)
			}
			_, _ = d.Deployment(ctx, stranger)
		}
	}); u != (store.Usage{}) {
		t.Errorf("warm names and strangers' ask for %+v", u)
	}
	for i := 0; i < hostnames; i += hostnames / 20 {
		w.shake(d, name(i), ca)
	}
	if err := w.tryShake(d, "stranger.example.com", ca); err == nil {
		t.Error("a stranger's name is served")
	}
	// What changes costs what has changed.
	if err := w.Serve(w.Context(), "new.example.com", main, chain, key); err != nil {
		t.Fatal(err)
	}
	w.set(w.at().Add(customdomains.Staleness))
	if u := w.asked(func(ctx context.Context) { _, _ = d.Deployment(ctx, "new.example.com") }); u != (store.Usage{Reads: 3}) {
		t.Errorf("a new name asks for %+v", u)
	}
	if u := w.asked(get(0)); u != (store.Usage{}) {
		t.Errorf("an old one asks for %+v", u)
	}
}

// TestNobodyFillsAShardOfTheirChoice: two accounts' longest hostnames, all of those that a hash of the name
// would have in one item.
func TestNobodyFillsAShardOfTheirChoice(t *testing.T) {
	w := newWorld(t)
	chosen := 0
	for n := 0; chosen < 2000; n++ {
		name := fmt.Sprintf("%063d.", n) + strings.Repeat(strings.Repeat("a", 63)+".", 2) + "example.com"
		h := fnv.New32a()
		_, _ = h.Write([]byte(name))
		if h.Sum32()%64 != 0 {
			continue
		}
		o := owner(fmt.Sprint("b-", chosen%2))
		w.dns.set(w.create(o, customdomains.New{Hostname: name}).Proof)
		if _, err := w.Verify(w.request(), o, name); err != nil {
			t.Fatalf("after %d hostnames: %v", chosen, err)
		}
		chosen++
	}
}

type noClients struct{}

func (noClients) ClientCAs(context.Context, string) (*x509.CertPool, error) { return nil, nil }

func (w *world) shake(d *customdomains.Directory, name string, ca pkitest.Cert) {
	w.Helper()
	if err := w.tryShake(d, name, ca); err != nil {
		w.Errorf("%s: %v", name, err)
	}
}

// tryShake is a TLS handshake of a client that trusts the CA.
func (w *world) tryShake(d *customdomains.Directory, name string, ca pkitest.Cert) error {
	w.Helper()
	_, err := w.resume(w.gateway(d), &tls.Config{ServerName: name, RootCAs: ca.Pool(), Time: w.at})
	return err
}

func (w *world) gateway(d *customdomains.Directory) *tls.Config {
	return handshake.Config(handshake.Options{Sources: []handshake.Source{d}, Clients: noClients{}, Log: slog.New(slog.DiscardHandler)})
}

// resume is a handshake with a byte behind it, and reports whether it has resumed a session.
func (w *world) resume(gateway, client *tls.Config) (resumed bool, err error) {
	w.Helper()
	near, far := net.Pipe()
	server := tls.Server(far, gateway)
	ended := make(chan error, 1)
	go func() {
		err := server.HandshakeContext(w.Context())
		if err == nil {
			_, err = server.Write([]byte("x"))
		}
		ended <- err
		_ = far.Close()
	}()
	c := tls.Client(near, client)
	err = c.HandshakeContext(w.Context())
	if err == nil {
		_, err = c.Read(make([]byte, 1))
	}
	_ = near.Close()
	return c.ConnectionState().DidResume, errors.Join(err, <-ended)
}

// TestSessionOfADeletedDomainIsNotResumed, nor at any other name that is served with nothing.
func TestSessionOfADeletedDomainIsNotResumed(t *testing.T) {
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		w := newWorld(t)
		ca := pkitest.CA(t, "CA", w.at())
		w.active(acme, customdomains.New{Hostname: api, Deployment: main})
		w.upload(w.Service, api, ca)
		d := w.directory()
		gateway := w.gateway(d)
		client := &tls.Config{ServerName: api, RootCAs: ca.Pool(), Time: w.at, MaxVersion: version, ClientSessionCache: new(oneSession)}
		for _, want := range []bool{false, true} {
			if resumed, err := w.resume(gateway, client); resumed != want || err != nil {
				t.Fatalf("resumed: %v, %v", resumed, err)
			}
		}
		stranger := client.Clone()
		stranger.ServerName, stranger.InsecureSkipVerify = "stranger.example.com", true
		if _, err := w.resume(gateway, stranger); err == nil {
			t.Error("it is resumed at a stranger's name")
		}
		if err := w.Delete(w.request(), acme, api, ""); err != nil {
			t.Fatal(err)
		}
		w.set(w.at().Add(customdomains.Staleness))
		if _, err := w.resume(gateway, client); err == nil {
			t.Error("it is resumed after the domain's end")
		}
	}
}

// oneSession is a client's memory of one session, for all names.
type oneSession struct{ kept *tls.ClientSessionState }

func (o *oneSession) Get(string) (*tls.ClientSessionState, bool) { return o.kept, o.kept != nil }

func (o *oneSession) Put(_ string, s *tls.ClientSessionState) {
	if s != nil {
		o.kept = s
	}
}
