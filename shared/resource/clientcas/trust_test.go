package clientcas_test

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/base/handshake"
	"github.com/gatewright/gatewright/shared/base/pki/pkitest"
	"github.com/gatewright/gatewright/shared/core/limits"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/storetest"
	"github.com/gatewright/gatewright/shared/resource/clientcas"
)

func chainOf(certs ...pkitest.Cert) []*x509.Certificate {
	var out []*x509.Certificate
	for _, c := range certs {
		out = append(out, c.Certificate)
	}
	return out
}

func (fx *fixture) trust() *clientcas.Trust {
	return clientcas.NewTrust(fx.table, func() time.Time { return fx.now })
}

// TestOnlyClientsOfAccountCAsAreTrusted checks verdicts and cached verdicts on chains. Another account without CAs must
// trust none of them.
func TestOnlyClientsOfAccountCAsAreTrusted(t *testing.T) {
	fx := newFixture(t)
	ca, foreign := pkitest.CA(t, "CA", fx.now), pkitest.CA(t, "CA", fx.now)
	fx.create("ca", ca.PEM())
	middle := ca.Intermediate(t, "Middle", fx.now)
	client, indirect := ca.Client(t, "client", fx.now), middle.Client(t, "indirect client", fx.now)
	clientWith := func(change pkitest.Change) pkitest.Cert {
		return ca.Client(t, "client", fx.now, change)
	}
	many := []pkitest.Cert{client}
	for range 10 {
		many = append(many, middle)
	}
	trust := fx.trust()
	tests := []struct {
		name  string
		chain []*x509.Certificate
		want  bool
	}{
		{"a client of the CA", chainOf(client), true},
		{"the client again, from the cache", chainOf(client), true},
		{"a client with its CA", chainOf(client, ca), true},
		{"a client with its intermediate", chainOf(indirect, middle), true},
		{"a client without its intermediate", chainOf(indirect), false},
		{"a client of another CA with the same name", chainOf(foreign.Client(t, "client", fx.now)), false},
		{"another CA with the same name in the chain", chainOf(foreign.Client(t, "client", fx.now), foreign), false},
		{"a self-signed certificate", chainOf(pkitest.CA(t, "client", fx.now)), false},
		{"a certificate for servers", chainOf(clientWith(func(c *pkitest.Template) {
			c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
		})), false},
		{"a certificate for any use", chainOf(clientWith(func(c *pkitest.Template) {
			c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageAny}
		})), true},
		{"expired", chainOf(clientWith(func(c *pkitest.Template) { c.NotAfter = fx.now.Add(-time.Second) })), false},
		{"not valid yet", chainOf(clientWith(func(c *pkitest.Template) { c.NotBefore = fx.now.Add(time.Second) })), false},
		{"signed by a client", chainOf(client.Client(t, "client", fx.now), client), false},
		{"too many certificates", chainOf(many...), false},
		{"a key that may not sign", chainOf(clientWith(func(c *pkitest.Template) {
			c.KeyUsage = x509.KeyUsageKeyEncipherment
		})), false},
		{"a CA's certificate", chainOf(ca), false},
		{"no certificates", nil, false},
	}
	for _, tt := range tests {
		for range 2 { // the second verdict is cached
			if err := trust.Verify(t.Context(), "a-1", tt.chain); (err == nil) != tt.want ||
				err != nil && !fault.Is(err, fault.Unauthenticated) {
				t.Errorf("Verify(a-1, %s) error = %v, want trusted = %t (%v if false)",
					tt.name, err, tt.want, fault.Unauthenticated)
			}
			if err := trust.Verify(t.Context(), "a-2", tt.chain); !fault.Is(err, fault.Unauthenticated) {
				t.Errorf("Verify(a-2, %s) error = %v, want %v", tt.name, err, fault.Unauthenticated)
			}
		}
	}
}

// TestCachedVerdictExpiresWithCertificates checks that a cached verdict ends when a certificate of the chain expires,
// here the intermediate.
func TestCachedVerdictExpiresWithCertificates(t *testing.T) {
	fx := newFixture(t)
	ca := pkitest.CA(t, "CA", fx.now)
	fx.create("ca", ca.PEM())
	middle := ca.Intermediate(t, "Middle", fx.now, func(c *pkitest.Template) { c.NotAfter = fx.now.Add(time.Minute) })
	client := middle.Client(t, "client", fx.now)
	trust := fx.trust()
	start := fx.now
	for _, c := range []struct {
		second int
		want   bool
	}{{0, true}, {59, true}, {61, false}} {
		fx.now = start.Add(time.Duration(c.second) * time.Second)
		if err := trust.Verify(t.Context(), "a-1", chainOf(client, middle)); (err == nil) != c.want {
			t.Errorf("Verify() after %d s: error = %v, want trusted %t", c.second, err, c.want)
		}
	}
}

// TestDeletedCAIsRefusedWithinFiveSeconds checks that clients of a deleted CA are refused 4 s after the deletion, even
// if the verdict was used meanwhile. If the CA is created again, its clients are trusted after Staleness.
func TestDeletedCAIsRefusedWithinFiveSeconds(t *testing.T) {
	fx := newFixture(t)
	ca := pkitest.CA(t, "CA", fx.now)
	created := fx.create("ca", ca.PEM())
	client := chainOf(ca.Client(t, "client", fx.now))
	trust := fx.trust()
	verify := func() error { return trust.Verify(t.Context(), "a-1", client) }
	if err := verify(); err != nil {
		t.Fatalf("Verify() before the deletion: error = %v, want none", err)
	}
	if err := fx.Delete(fx.request(), owner(), created.ID); err != nil {
		t.Fatalf("Delete(%s) error = %v, want none", created.ID, err)
	}
	for range 4 {
		fx.now = fx.now.Add(time.Second)
		_ = verify() // a use must not extend the time in the cache
	}
	if err := verify(); !fault.Is(err, fault.Unauthenticated) {
		t.Errorf("Verify(client of a deleted CA) error = %v, want %v", err, fault.Unauthenticated)
	}
	fx.create("ca", ca.PEM())
	fx.now = fx.now.Add(clientcas.Staleness)
	if err := verify(); err != nil {
		t.Errorf("Verify(client of a CA that was created again) error = %v, want none", err)
	}
}

// unavailableBackend is a table that does not respond.
type unavailableBackend struct{ store.Backend }

func (unavailableBackend) Read(context.Context, []store.Key) ([]store.Item, error) {
	return nil, errors.New("the table is unavailable")
}

func TestNoClientIsTrustedWhileTableIsUnavailable(t *testing.T) {
	fx := newFixture(t)
	trust := clientcas.NewTrust(storetest.NewWithBackend(t, unavailableBackend{fx.items},
		storetest.Backoff(storetest.NoBackoff)), func() time.Time { return fx.now })
	ca := pkitest.CA(t, "CA", fx.now)
	for range 2 {
		if err := trust.Verify(t.Context(), "a-1", chainOf(ca.Client(t, "client", fx.now))); err == nil ||
			fault.Is(err, fault.Unauthenticated) {
			t.Errorf("Verify() while the table is unavailable: error = %v, want one other than %v", err,
				fault.Unauthenticated)
		}
	}
}

// TestUnchangedSetNeedsOneRead checks the requests to the table: the first Verify reads the set of CAs and its version,
// and later only the version is read, once per Staleness.
func TestUnchangedSetNeedsOneRead(t *testing.T) {
	fx := newFixture(t)
	ca := pkitest.CA(t, "CA", fx.now)
	fx.create("ca", ca.PEM())
	client, trust := chainOf(ca.Client(t, "client", fx.now)), fx.trust()
	for i, want := range []store.Usage{{Reads: 1, Queries: 1}, {}, {Reads: 1}, {}, {Reads: 1}} {
		var meter store.Meter
		if err := trust.Verify(store.WithMeter(t.Context(), &meter), "a-1", client); err != nil {
			t.Fatalf("Verify() call %d: error = %v, want none", i+1, err)
		}
		got := meter.Usage()
		if got.ReadUnits = 0; got != want {
			t.Errorf("Verify() call %d uses %+v, want %+v", i+1, got, want)
		}
		if i%2 == 1 {
			fx.now = fx.now.Add(clientcas.Staleness)
		}
	}
}

// TestCACannotImpersonateAnother lets one CA of the account issue an intermediate with the name of another CA. A route
// may identify its clients by this name, so Verify must refuse the chain.
func TestCACannotImpersonateAnother(t *testing.T) {
	fx := newFixture(t)
	ca, other := pkitest.CA(t, "CA", fx.now), pkitest.CA(t, "Other", fx.now)
	fx.create("ca", ca.PEM())
	fx.create("other", other.PEM())
	trust := fx.trust()
	impostor := other.Intermediate(t, "CA", fx.now)
	sub := other.Intermediate(t, "Below", fx.now)
	subSub := sub.Intermediate(t, "CA", fx.now)
	// A certificate of the CA's new key, signed by the old key (RFC 4210, section 4.4).
	renewed := ca.Intermediate(t, "CA", fx.now)
	for _, tt := range []struct {
		name  string
		chain []*x509.Certificate
		want  bool
	}{
		{"an impostor", chainOf(impostor.Client(t, "client", fx.now), impostor), false},
		{"an impostor below an intermediate", chainOf(subSub.Client(t, "client", fx.now), subSub, sub), false},
		{"an intermediate under its own name", chainOf(sub.Client(t, "client", fx.now), sub), true},
		{"a renewed CA", chainOf(renewed.Client(t, "client", fx.now), renewed), true},
	} {
		if err := trust.Verify(t.Context(), "a-1", tt.chain); (err == nil) != tt.want {
			t.Errorf("Verify(%s) error = %v, want trusted %t", tt.name, err, tt.want)
		}
	}
}

// TestUntrustedIntermediatesAreNotVerified checks the maximum number of intermediates of a stranger. Each of them could
// be signed by any other. Only signatures with the keys of the account's CAs are verified, and at most 100 of them.
func TestUntrustedIntermediatesAreNotVerified(t *testing.T) {
	ca := pkitest.CA(t, "CA", storetest.Epoch)
	untrusted := pkitest.CA(t, "CA", storetest.Epoch)
	var intermediates []*x509.Certificate
	for i := range 9 {
		// All of them have the same name and key, but x509 distinguishes them by their alternative names.
		template := *untrusted.Certificate
		template.DNSNames = []string{fmt.Sprint("n", i)}
		der, err := x509.CreateCertificate(rand.Reader, &template, &template, untrusted.Key.Public(), untrusted.Key)
		if err != nil {
			t.Fatal(err)
		}
		c, err := x509.ParseCertificate(der)
		if err != nil {
			t.Fatal(err)
		}
		intermediates = append(intermediates, c)
	}
	trusted, remaining := clientcas.CountTrustedIntermediates([]*x509.Certificate{ca.Certificate}, intermediates)
	if trusted > 0 || remaining < 90 {
		t.Errorf("CountTrustedIntermediates(of another CA) = %d, %d signatures left, want 0 and at least 90",
			trusted, remaining)
	}
	// An account can have any number of CAs with the same name.
	many := slices.Repeat([]*x509.Certificate{ca.Certificate}, int(limits.ClientCAs.Default))
	if trusted, remaining = clientcas.CountTrustedIntermediates(many, intermediates); trusted > 0 || remaining != 0 {
		t.Errorf("CountTrustedIntermediates(many CAs with one name) = %d, %d signatures left, want 0 and 0",
			trusted, remaining)
	}
	middle := ca.Intermediate(t, "Middle", storetest.Epoch)
	sub := middle.Intermediate(t, "Below", storetest.Epoch)
	if trusted, _ := clientcas.CountTrustedIntermediates([]*x509.Certificate{ca.Certificate},
		chainOf(sub, middle)); trusted != 2 {
		t.Errorf("CountTrustedIntermediates(own chain) = %d, want 2", trusted)
	}
}

// wildcardSource serves every name with one certificate.
type wildcardSource struct{ pair tls.Certificate }

func (wildcardSource) Owns(string) bool { return true }

func (s wildcardSource) Certificate(context.Context, string) (*tls.Certificate, error) {
	return &s.pair, nil
}

// accountClients is a Trust that trusts the clients of account a-1 for every server name.
type accountClients struct{ *clientcas.Trust }

func (c accountClients) ClientCAs(ctx context.Context, _ string) (*x509.CertPool, error) {
	return c.Hints(ctx, "a-1")
}

// TestCANamesNeverBreakHandshake checks that handshakes succeed even if the names of an account's CAs together exceed
// the size of a message (RFC 8446, section 4.2.4).
func TestCANamesNeverBreakHandshake(t *testing.T) {
	fx := newFixture(t)
	ca := pkitest.CA(t, "CA", fx.now)
	fx.create("ca", ca.PEM())
	server := pkitest.CA(t, "Servers", time.Now()).Server(t, time.Now())
	client := ca.Client(t, "client", fx.now).TLS(t)
	trust := fx.trust()
	config := handshake.Config(handshake.Options{
		Sources: []handshake.Source{wildcardSource{server.TLS(t)}}, Clients: accountClients{trust},
		Log: slog.New(slog.DiscardHandler),
	})
	// handshakeNames returns the number of CA names that a client receives, and whether the client presents its certificate.
	handshakeNames := func(version uint16) (names int, presented bool) {
		t.Helper()
		clientConn, serverConn := net.Pipe()
		clientTLS := tls.Client(clientConn, &tls.Config{
			ServerName: "localhost", InsecureSkipVerify: true, MinVersion: version, MaxVersion: version,
			GetClientCertificate: func(r *tls.CertificateRequestInfo) (*tls.Certificate, error) {
				names = len(r.AcceptableCAs)
				return &client, nil
			},
		})
		serverTLS := tls.Server(serverConn, config)
		done := make(chan error, 1)
		go func() {
			done <- errors.Join(serverTLS.HandshakeContext(t.Context()), serverConn.SetDeadline(time.Now()))
		}()
		if err := errors.Join(clientTLS.HandshakeContext(t.Context()), clientConn.SetDeadline(time.Now()),
			<-done); err != nil {
			t.Fatalf("handshake with TLS %x: error = %v, want none", version, err)
		}
		return names, len(serverTLS.ConnectionState().PeerCertificates) > 0
	}
	for _, step := range []struct {
		cas        int
		nameLength int
		wantNames  int
	}{{0, 0, 1}, {3, 200, 4}, {60, 1000, 0}} {
		for i := range step.cas {
			name := fmt.Sprint(strings.Repeat("x", step.nameLength), i)
			fx.create(fmt.Sprint("ca_", step.nameLength, "_", i), pkitest.CA(t, name, fx.now).PEM())
		}
		// A name that the list already contains takes no further space.
		fx.create(fmt.Sprint("twin_", step.nameLength), pkitest.CA(t, "CA", fx.now).PEM())
		fx.now = fx.now.Add(clientcas.Staleness)
		for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
			if names, presented := handshakeNames(version); names != step.wantNames || !presented {
				t.Errorf("%d more CAs, TLS %x: %d names sent, want %d; certificate presented: %t, want true",
					step.cas, version, names, step.wantNames, presented)
			}
		}
	}
}
