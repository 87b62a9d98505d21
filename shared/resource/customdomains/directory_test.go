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

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/base/fault/faulttest"
	"github.com/gatewright/gatewright/shared/base/handshake"
	"github.com/gatewright/gatewright/shared/base/pki/pkitest"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/storetest"
	"github.com/gatewright/gatewright/shared/resource/customdomains"
	"github.com/gatewright/gatewright/shared/testing/simulations"
)

const main = "shop-main-0123abc"

// certificateText describes a certificate for a message.
func certificateText(c *tls.Certificate) string {
	if c == nil {
		return "none"
	}
	return fmt.Sprintf("number %d for %q", c.Leaf.SerialNumber, c.Leaf.DNSNames)
}

func (fx *fixture) directory() *customdomains.Directory {
	p := fx.parts
	p.Log = slog.New(slog.DiscardHandler)
	return customdomains.NewDirectory(p)
}

// usageOf returns the requests of a function to the table, without their read units.
func (fx *fixture) usageOf(f func(ctx context.Context)) store.Usage {
	var meter store.Meter
	f(store.WithMeter(fx.Context(), &meter))
	u := meter.Usage()
	u.ReadUnits = 0
	return u
}

// wantServed checks which deployment the directory serves for a hostname. It must return NotFound if want is "".
func (fx *fixture) wantServed(d *customdomains.Directory, hostname, want string) {
	fx.Helper()
	got, err := d.Deployment(fx.Context(), hostname)
	if got != want || want == "" && !fault.Is(err, fault.NotFound) {
		fx.Errorf("%s serves %q, %v, want %q", hostname, got, err, want)
	}
}

func TestVerifiedDomainServesDeployment(t *testing.T) {
	fx := newFixture(t)
	d := fx.directory()
	created := fx.create(acme, customdomains.CreateInput{Hostname: api, Deployment: main})
	fx.wantServed(d, api, "")
	fx.dns.addRecord(created.Proof)
	if _, err := fx.Verify(fx.requestContext(), acme, api); err != nil {
		t.Fatal(err)
	}
	fx.setClock(fx.clock().Add(customdomains.Staleness))
	fx.wantServed(d, api, main)
	fx.wantServed(d, "other.example.com", "")
	fx.wantServed(d, main+".gateway.test", "")
	fx.createVerified(acme, customdomains.CreateInput{
		Hostname: "docs.example.com", Deployment: main,
		Stage: customdomains.DevPortal,
	})
	fx.setClock(fx.clock().Add(customdomains.Staleness))
	fx.wantServed(d, "docs.example.com", "")
}

// TestChangeTakesEffectWithinFiveSeconds checks that a directory serves each change of a custom domain within five
// seconds, while requests continue.
func TestChangeTakesEffectWithinFiveSeconds(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(fx *fixture) error
		want   string
	}{
		"deletion":                {func(fx *fixture) error { return fx.Delete(fx.requestContext(), acme, api, "") }, ""},
		"deletion of the mapping": {func(fx *fixture) error { return fx.Delete(fx.requestContext(), acme, api, main) }, ""},
		"detachment": {func(fx *fixture) error {
			_, err := fx.Update(fx.requestContext(), acme, api, "", false)
			return err
		}, ""},
		"reassignment": {func(fx *fixture) error {
			_, err := fx.Update(fx.requestContext(), acme, api, "blog-main-0123abc", false)
			return err
		}, "blog-main-0123abc"},
		"deletion of the certificate": {func(fx *fixture) error {
			_, err := fx.DeleteCertificate(fx.requestContext(), acme, api)
			return err
		}, main},
		"domain created by another account": {func(fx *fixture) error {
			err := fx.Delete(fx.requestContext(), acme, api, "")
			fx.createVerified(otherAccount, customdomains.CreateInput{Hostname: api, Deployment: "evil-main-0123abc"})
			return err
		}, "evil-main-0123abc"},
	} {
		t.Run(name, func(t *testing.T) {
			fx := newFixture(t)
			d := fx.directory()
			fx.createVerified(acme, customdomains.CreateInput{Hostname: api, Deployment: main})
			leaf := fx.upload(fx.Service, api, pkitest.CA(t, "CA", fx.clock()))
			fx.wantServed(d, api, main)
			if c, err := d.Certificate(t.Context(), api); err != nil || c == nil || !c.Leaf.Equal(leaf) {
				t.Fatalf("Certificate(%s) = %s, %v, want the uploaded certificate", api, certificateText(c), err)
			}
			if err := tt.change(fx); err != nil {
				t.Fatal(err)
			}
			for range 5 {
				fx.setClock(fx.clock().Add(time.Second))
				_, _ = d.Deployment(t.Context(), api) // requests must not extend the time in the cache
				_, _ = d.Certificate(t.Context(), api)
			}
			fx.wantServed(d, api, tt.want)
			c, err := d.Certificate(t.Context(), api)
			certificateServed := !slices.Contains([]string{
				"domain created by another account", "deletion", "deletion of the certificate",
			}, name)
			if err != nil || (c != nil) != certificateServed || d.Owns(api) != (certificateServed || tt.want != "") {
				t.Errorf("after %s: Certificate() = %s, %v, Owns() = %t, want a certificate: %t, owned: %t",
					name, certificateText(c), err, d.Owns(api), certificateServed, certificateServed || tt.want != "")
			}
		})
	}
}

// upload uploads a certificate of the CA for a hostname of the account acme, and returns it.
func (fx *fixture) upload(s *customdomains.Service, hostname string, ca pkitest.Cert) *x509.Certificate {
	fx.Helper()
	leaf := ca.Client(fx.T, hostname, fx.clock(), func(c *pkitest.Template) {
		c.DNSNames, c.ExtKeyUsage = []string{hostname}, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	})
	if _, err := s.Upload(fx.requestContext(), acme, hostname, leaf.PEM(), leaf.KeyPEM(fx.T)); err != nil {
		fx.Fatal(err)
	}
	return leaf.Certificate
}

func TestUploadRequiresValidCertificate(t *testing.T) {
	fx := newFixture(t)
	ca := pkitest.CA(t, "CA", fx.clock())
	newLeaf := func(change pkitest.Change) pkitest.Cert {
		return ca.Client(t, "leaf", fx.clock(), func(c *pkitest.Template) {
			c.DNSNames, c.ExtKeyUsage = []string{api}, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
			change(c)
		})
	}
	valid := newLeaf(func(*pkitest.Template) {})
	upload := func(c, key pkitest.Cert) error {
		_, err := fx.Upload(fx.requestContext(), acme, api, c.PEM(), key.KeyPEM(t))
		return err
	}
	faulttest.Check(t, upload(valid, valid), fault.NotFound, "custom domain")
	fx.dns.addRecord(fx.create(acme, customdomains.CreateInput{Hostname: api}).Proof)
	faulttest.Check(t, upload(valid, valid), fault.Conflict, "not proven")
	if _, err := fx.Verify(fx.requestContext(), acme, api); err != nil {
		t.Fatal(err)
	}
	for text, c := range map[string]pkitest.Cert{
		"subject alternative names": newLeaf(func(c *pkitest.Template) { c.DNSNames = []string{"www.example.com"} }),
		"has expired":               newLeaf(func(c *pkitest.Template) { c.NotAfter = fx.clock().Add(-time.Second) }),
		"not valid yet":             newLeaf(func(c *pkitest.Template) { c.NotBefore = fx.clock().Add(time.Hour) }),
		"not for servers": newLeaf(func(c *pkitest.Template) {
			c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
		}),
		"of a CA": ca,
	} {
		faulttest.Check(t, upload(c, c), fault.Invalid, text)
	}
	faulttest.Check(t, upload(valid, ca), fault.Invalid, "does not belong to the certificate")
	wildcard := newLeaf(func(c *pkitest.Template) { c.DNSNames = []string{"*.example.com"} })
	if err := upload(wildcard, wildcard); err != nil {
		t.Errorf("Upload(wildcard certificate) error = %v, want none", err)
	}
	fx.createVerified(acme, customdomains.CreateInput{Hostname: "alias.example.com", Alias: true})
	_, err := fx.Upload(fx.requestContext(), acme, "alias.example.com", wildcard.PEM(), wildcard.KeyPEM(t))
	faulttest.Check(t, err, fault.Conflict, "alias")
}

// TestCachedHostnamesAreServedDuringOutage checks that cached hostnames are
// served during an outage of the table, but not for more than ten minutes.
func TestCachedHostnamesAreServedDuringOutage(t *testing.T) {
	fx := newFixture(t)
	fx.createVerified(acme, customdomains.CreateInput{Hostname: api, Deployment: main})
	backend := &unreliableBackend{Backend: fx.items}
	fx.parts.Table = storetest.NewWithBackend(t, backend, storetest.Backoff(storetest.NoBackoff))
	d := fx.directory()
	fx.wantServed(d, api, main)
	backend.unavailable = true
	fx.setClock(fx.clock().Add(time.Minute))
	fx.wantServed(d, api, main)
	fx.setClock(fx.clock().Add(10 * time.Minute))
	if _, err := d.Deployment(t.Context(), api); err == nil || fault.Is(err, fault.NotFound) {
		t.Errorf("Deployment() after ten minutes of an outage: error = %v, want one other than %v", err, fault.NotFound)
	}
}

// unreliableBackend is a table whose reads fail while unavailable is true.
type unreliableBackend struct {
	store.Backend
	unavailable bool
}

func (b *unreliableBackend) Read(ctx context.Context, keys []store.Key) ([]store.Item, error) {
	if b.unavailable {
		return nil, errors.New("the table is unavailable")
	}
	return b.Backend.Read(ctx, keys)
}

// TestTenThousandHostnames checks the number of reads of a directory with ten thousand hostnames. Once the names are
// known, the first request for a hostname takes one read. Later requests and those for unknown hostnames take none.
func TestTenThousandHostnames(t *testing.T) {
	hostnames := 10_000
	if simulations.RaceEnabled {
		hostnames = 500
	}
	fx := newFixture(t)
	ca := pkitest.CA(t, "CA", fx.clock())
	leaf := ca.Client(t, "leaf", fx.clock(), func(c *pkitest.Template) {
		c.DNSNames, c.ExtKeyUsage = []string{"*.example.com"}, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	})
	chain, key := leaf.PEM(), leaf.KeyPEM(t)
	name := func(i int) string { return fmt.Sprintf("tenant-%d.example.com", i) }
	for i := range hostnames {
		if err := fx.Serve(fx.Context(), name(i), main, chain, key); err != nil {
			t.Fatal(err)
		}
	}
	d := fx.directory()
	if u := fx.usageOf(func(ctx context.Context) {
		_, _ = d.Deployment(ctx, "stranger.example.com")
	}); u != (store.Usage{Reads: 2}) {
		t.Errorf("first Deployment() uses %+v, want 2 reads for all names", u)
	}
	get := func(i int) func(ctx context.Context) {
		return func(ctx context.Context) {
			if c, err := d.Certificate(ctx, name(i)); c == nil || err != nil {
				t.Fatalf("Certificate(%s) = %s, %v, want a certificate", name(i), certificateText(c), err)
			}
			if !d.Owns(name(i)) {
				t.Fatalf("Owns(%s) = false, want true", name(i))
			}
			if got, err := d.Deployment(ctx, name(i)); got != main || err != nil {
				t.Fatalf("Deployment(%s) = %s, %v, want %s and no error", name(i), got, err, main)
			}
		}
	}
	for i := range hostnames {
		if u := fx.usageOf(get(i)); u != (store.Usage{Reads: 1}) {
			t.Fatalf("first request of %s uses %+v, want 1 read", name(i), u)
		}
	}
	if u := fx.usageOf(func(ctx context.Context) {
		for i := range hostnames {
			get(i)(ctx)
			unknown := "www." + name(i)
			if d.Owns(unknown) {
				t.Fatalf("Owns(%s) = true, want false", unknown)
			}
			_, _ = d.Deployment(ctx, unknown)
		}
	}); u != (store.Usage{}) {
		t.Errorf("requests of cached and unknown names use %+v, want no requests of the table", u)
	}
	for i := 0; i < hostnames; i += hostnames / 20 {
		fx.handshake(d, name(i), ca)
	}
	if err := fx.tryHandshake(d, "stranger.example.com", ca); err == nil {
		t.Error("handshake with an unknown name succeeds, want an error")
	}
	// After a change, a request only reads the changed data.
	if err := fx.Serve(fx.Context(), "new.example.com", main, chain, key); err != nil {
		t.Fatal(err)
	}
	fx.setClock(fx.clock().Add(customdomains.Staleness))
	if u := fx.usageOf(func(ctx context.Context) {
		_, _ = d.Deployment(ctx, "new.example.com")
	}); u != (store.Usage{Reads: 3}) {
		t.Errorf("Deployment(new name) uses %+v, want 3 reads", u)
	}
	if u := fx.usageOf(get(0)); u != (store.Usage{}) {
		t.Errorf("request of a cached name uses %+v, want no requests of the table", u)
	}
}

// TestCallersCannotChooseShard creates 2000 hostnames of 203 characters in two accounts. They are chosen so that a hash
// of the hostname would put all of them into one shard, which would exceed the size of an item. It must be possible to
// verify all of them.
func TestCallersCannotChooseShard(t *testing.T) {
	fx := newFixture(t)
	created := 0
	for n := 0; created < 2000; n++ {
		name := fmt.Sprintf("%063d.", n) + strings.Repeat(strings.Repeat("a", 63)+".", 2) + "example.com"
		h := fnv.New32a()
		_, _ = h.Write([]byte(name))
		if h.Sum32()%64 != 0 {
			continue
		}
		o := owner(fmt.Sprint("b-", created%2))
		fx.dns.addRecord(fx.create(o, customdomains.CreateInput{Hostname: name}).Proof)
		if _, err := fx.Verify(fx.requestContext(), o, name); err != nil {
			t.Fatalf("Verify(hostname %d) error = %v, want none", created+1, err)
		}
		created++
	}
}

type noClients struct{}

func (noClients) ClientCAs(context.Context, string) (*x509.CertPool, error) { return nil, nil }

func (fx *fixture) handshake(d *customdomains.Directory, name string, ca pkitest.Cert) {
	fx.Helper()
	if err := fx.tryHandshake(d, name, ca); err != nil {
		fx.Errorf("handshake with %s: error = %v, want none", name, err)
	}
}

// tryHandshake performs the TLS handshake of a client that trusts the CA.
func (fx *fixture) tryHandshake(d *customdomains.Directory, name string, ca pkitest.Cert) error {
	fx.Helper()
	_, err := fx.handshakeOnce(fx.tlsConfig(d), &tls.Config{ServerName: name, RootCAs: ca.Pool(), Time: fx.clock})
	return err
}

func (fx *fixture) tlsConfig(d *customdomains.Directory) *tls.Config {
	return handshake.Config(handshake.Options{
		Sources: []handshake.Source{d}, Clients: noClients{},
		Log: slog.New(slog.DiscardHandler),
	})
}

// handshakeOnce performs a handshake followed by one byte, and reports whether the handshake has resumed a session.
func (fx *fixture) handshakeOnce(gateway, client *tls.Config) (resumed bool, err error) {
	fx.Helper()
	clientConn, serverConn := net.Pipe()
	server := tls.Server(serverConn, gateway)
	done := make(chan error, 1)
	go func() {
		err := server.HandshakeContext(fx.Context())
		if err == nil {
			_, err = server.Write([]byte("x"))
		}
		done <- err
		_ = serverConn.Close()
	}()
	c := tls.Client(clientConn, client)
	err = c.HandshakeContext(fx.Context())
	if err == nil {
		_, err = c.Read(make([]byte, 1))
	}
	_ = clientConn.Close()
	return c.ConnectionState().DidResume, errors.Join(err, <-done)
}

// TestSessionOfADeletedDomainIsNotResumed checks that a handshake with a session fails for an unknown hostname, and
// after the deletion of the session's hostname.
func TestSessionOfADeletedDomainIsNotResumed(t *testing.T) {
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		fx := newFixture(t)
		ca := pkitest.CA(t, "CA", fx.clock())
		fx.createVerified(acme, customdomains.CreateInput{Hostname: api, Deployment: main})
		fx.upload(fx.Service, api, ca)
		d := fx.directory()
		gateway := fx.tlsConfig(d)
		client := &tls.Config{
			ServerName: api, RootCAs: ca.Pool(), Time: fx.clock, MaxVersion: version,
			ClientSessionCache: new(singleSessionCache),
		}
		for _, want := range []bool{false, true} {
			if resumed, err := fx.handshakeOnce(gateway, client); resumed != want || err != nil {
				t.Fatalf("handshake (TLS %x): resumed = %t, %v, want %t and no error", version, resumed, err, want)
			}
		}
		unknown := client.Clone()
		unknown.ServerName, unknown.InsecureSkipVerify = "stranger.example.com", true
		if _, err := fx.handshakeOnce(gateway, unknown); err == nil {
			t.Errorf("handshake (TLS %x) with an unknown name succeeds, want an error", version)
		}
		if err := fx.Delete(fx.requestContext(), acme, api, ""); err != nil {
			t.Fatal(err)
		}
		fx.setClock(fx.clock().Add(customdomains.Staleness))
		if _, err := fx.handshakeOnce(gateway, client); err == nil {
			t.Errorf("handshake (TLS %x) after the deletion of the domain succeeds, want an error", version)
		}
	}
}

// singleSessionCache is a client's cache with one session for all names.
type singleSessionCache struct{ session *tls.ClientSessionState }

func (c *singleSessionCache) Get(string) (*tls.ClientSessionState, bool) {
	return c.session, c.session != nil
}

func (c *singleSessionCache) Put(_ string, s *tls.ClientSessionState) {
	if s != nil {
		c.session = s
	}
}
