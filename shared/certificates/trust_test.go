package certificates_test

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

	"github.com/gatewright/gatewright/shared/certificates"
	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/handshake"
	"github.com/gatewright/gatewright/shared/limits"
	"github.com/gatewright/gatewright/shared/pki/pkitest"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/storetest"
)

func chain(certs ...pkitest.Cert) []*x509.Certificate {
	var out []*x509.Certificate
	for _, c := range certs {
		out = append(out, c.Certificate)
	}
	return out
}

func (w *world) trust() *certificates.Trust {
	return certificates.NewTrust(w.table, func() time.Time { return w.now })
}

func TestClientsOfTheAccountsCAsAreTrustedAndNoOthers(t *testing.T) {
	w := newWorld(t)
	ca, foreign := pkitest.CA(t, "CA", w.now), pkitest.CA(t, "CA", w.now)
	w.create("ca", ca.PEM())
	middle := ca.Intermediate(t, "Middle", w.now)
	client, behind := ca.Client(t, "client", w.now), middle.Client(t, "behind", w.now)
	with := func(change pkitest.Change) pkitest.Cert {
		return ca.Client(t, "client", w.now, change)
	}
	many := []pkitest.Cert{client}
	for range 10 {
		many = append(many, middle)
	}
	trust := w.trust()
	tests := []struct {
		name  string
		chain []*x509.Certificate
		want  bool
	}{
		{"a client", chain(client), true},
		{"the same again", chain(client), true},
		{"with its CA", chain(client, ca), true},
		{"behind an intermediate", chain(behind, middle), true},
		{"without its intermediate", chain(behind), false},
		{"of another CA of the same name", chain(foreign.Client(t, "client", w.now)), false},
		{"which it brings along", chain(foreign.Client(t, "client", w.now), foreign), false},
		{"that signs itself", chain(pkitest.CA(t, "client", w.now)), false},
		{"for servers", chain(with(func(c *pkitest.Template) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} })), false},
		{"for anything", chain(with(func(c *pkitest.Template) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageAny} })), true},
		{"expired", chain(with(func(c *pkitest.Template) { c.NotAfter = w.now.Add(-time.Second) })), false},
		{"not valid yet", chain(with(func(c *pkitest.Template) { c.NotBefore = w.now.Add(time.Second) })), false},
		{"signed by a client", chain(client.Client(t, "client", w.now), client), false},
		{"with too many", chain(many...), false},
		{"whose key may not sign", chain(with(func(c *pkitest.Template) { c.KeyUsage = x509.KeyUsageKeyEncipherment })), false},
		{"a CA's own", chain(ca), false},
		{"nothing", nil, false},
	}
	for _, tt := range tests {
		for range 2 { // the second time it is remembered
			if err := trust.Verify(t.Context(), "a-1", tt.chain); (err == nil) != tt.want || err != nil && !fault.Is(err, fault.Unauthenticated) {
				t.Errorf("%s: %v", tt.name, err)
			}
			if err := trust.Verify(t.Context(), "a-2", tt.chain); !fault.Is(err, fault.Unauthenticated) {
				t.Errorf("%s, in another account: %v", tt.name, err)
			}
		}
	}
}

func TestRememberedClientIsTrustedNoLongerThanItsCertificatesAreValid(t *testing.T) {
	w := newWorld(t)
	ca := pkitest.CA(t, "CA", w.now)
	w.create("ca", ca.PEM())
	middle := ca.Intermediate(t, "Middle", w.now, func(c *pkitest.Template) { c.NotAfter = w.now.Add(time.Minute) })
	client := middle.Client(t, "client", w.now)
	trust := w.trust()
	first := w.now
	for _, c := range []struct {
		second int
		want   bool
	}{{0, true}, {59, true}, {61, false}} {
		w.now = first.Add(time.Duration(c.second) * time.Second)
		if err := trust.Verify(t.Context(), "a-1", chain(client, middle)); (err == nil) != c.want {
			t.Errorf("after %d s: %v", c.second, err)
		}
	}
}

func TestDeletedCAIsRefusedWithinFiveSeconds(t *testing.T) {
	w := newWorld(t)
	ca := pkitest.CA(t, "CA", w.now)
	made := w.create("ca", ca.PEM())
	client := chain(ca.Client(t, "client", w.now))
	trust := w.trust()
	verify := func() error { return trust.Verify(t.Context(), "a-1", client) }
	if err := verify(); err != nil {
		t.Fatal(err)
	}
	if err := w.Delete(w.request(), owner(), made.ID); err != nil {
		t.Fatal(err)
	}
	for range 4 {
		w.now = w.now.Add(time.Second)
		_ = verify() // which keeps nothing alive
	}
	if err := verify(); !fault.Is(err, fault.Unauthenticated) {
		t.Errorf("a client of a deleted CA: %v", err)
	}
	w.create("ca", ca.PEM())
	w.now = w.now.Add(certificates.Staleness)
	if err := verify(); err != nil {
		t.Errorf("its CA is there again: %v", err)
	}
}

// away is a table that does not answer.
type away struct{ store.Backend }

func (away) Read(context.Context, []store.Key) ([]store.Item, error) { return nil, errors.New("away") }

func TestNobodyIsTrustedWhileTheTableIsAway(t *testing.T) {
	w := newWorld(t)
	trust := certificates.NewTrust(storetest.Over(t, away{w.items}, storetest.Pause(storetest.AtOnce)), func() time.Time { return w.now })
	ca := pkitest.CA(t, "CA", w.now)
	for range 2 {
		if err := trust.Verify(t.Context(), "a-1", chain(ca.Client(t, "client", w.now))); err == nil || fault.Is(err, fault.Unauthenticated) {
			t.Errorf("got %v, want that nobody knows", err)
		}
	}
}

func TestOneSmallReadKeepsAnAccountFresh(t *testing.T) {
	w := newWorld(t)
	ca := pkitest.CA(t, "CA", w.now)
	w.create("ca", ca.PEM())
	client, trust := chain(ca.Client(t, "client", w.now)), w.trust()
	for i, want := range []store.Usage{{Reads: 1, Queries: 1}, {}, {Reads: 1}, {}, {Reads: 1}} {
		var meter store.Meter
		if err := trust.Verify(store.WithMeter(t.Context(), &meter), "a-1", client); err != nil {
			t.Fatal(err)
		}
		got := meter.Usage()
		if got.ReadUnits = 0; got != want {
			t.Errorf("step %d: %+v, want %+v", i, got, want)
		}
		if i%2 == 1 {
			w.now = w.now.Add(certificates.Staleness)
		}
	}
}

// TestNoCATakesTheNameOfAnother has one CA of the account pretend to be another, which
// a route may know its clients by.
func TestNoCATakesTheNameOfAnother(t *testing.T) {
	w := newWorld(t)
	ca, other := pkitest.CA(t, "CA", w.now), pkitest.CA(t, "Other", w.now)
	w.create("ca", ca.PEM())
	w.create("other", other.PEM())
	trust := w.trust()
	pretended := other.Intermediate(t, "CA", w.now)
	below := other.Intermediate(t, "Below", w.now)
	deeper := below.Intermediate(t, "CA", w.now)
	// A CA's new key, which the old one has signed (RFC 4210, section 4.4).
	renewed := ca.Intermediate(t, "CA", w.now)
	for _, tt := range []struct {
		name  string
		chain []*x509.Certificate
		want  bool
	}{
		{"pretended", chain(pretended.Client(t, "client", w.now), pretended), false},
		{"pretended below another", chain(deeper.Client(t, "client", w.now), deeper, below), false},
		{"under its own name", chain(below.Client(t, "client", w.now), below), true},
		{"renewed", chain(renewed.Client(t, "client", w.now), renewed), true},
	} {
		if err := trust.Verify(t.Context(), "a-1", tt.chain); (err == nil) != tt.want {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}

// TestStrangersChooseNoKeysToBeTried has a stranger bring intermediates that have all
// signed each other, as many as fit.
func TestStrangersChooseNoKeysToBeTried(t *testing.T) {
	ca := pkitest.CA(t, "CA", storetest.Epoch)
	own := pkitest.CA(t, "CA", storetest.Epoch)
	var pile []*x509.Certificate
	for i := range 9 {
		// Of one name and key, which x509 takes for different ones by their alternative names.
		template := *own.Certificate
		template.DNSNames = []string{fmt.Sprint("n", i)}
		der, err := x509.CreateCertificate(rand.Reader, &template, &template, own.Key.Public(), own.Key)
		if err != nil {
			t.Fatal(err)
		}
		c, err := x509.ParseCertificate(der)
		if err != nil {
			t.Fatal(err)
		}
		pile = append(pile, c)
	}
	vouched, left := certificates.Vouched([]*x509.Certificate{ca.Certificate}, pile)
	if vouched > 0 || left < 90 {
		t.Errorf("%d intermediates of a stranger, %d signatures left", vouched, left)
	}
	// An account's own CAs of one name are as many as it likes.
	many := slices.Repeat([]*x509.Certificate{ca.Certificate}, int(limits.ClientCAs.Default))
	if vouched, left = certificates.Vouched(many, pile); vouched > 0 || left != 0 {
		t.Errorf("%d intermediates of a stranger, %d signatures left", vouched, left)
	}
	middle := ca.Intermediate(t, "Middle", storetest.Epoch)
	below := middle.Intermediate(t, "Below", storetest.Epoch)
	if vouched, _ := certificates.Vouched([]*x509.Certificate{ca.Certificate}, chain(below, middle)); vouched != 2 {
		t.Errorf("%d intermediates of the CA's", vouched)
	}
}

// anywhere serves every name with one certificate.
type anywhere struct{ pair tls.Certificate }

func (anywhere) Owns(string) bool { return true }

func (a anywhere) Certificate(context.Context, string) (*tls.Certificate, error) {
	return &a.pair, nil
}

// ofAccount are the clients of a-1, whatever the name.
type ofAccount struct{ *certificates.Trust }

func (o ofAccount) ClientCAs(ctx context.Context, _ string) (*x509.CertPool, error) {
	return o.Hints(ctx, "a-1")
}

// TestNamesOfCAsNeverBreakAHandshake has an account whose CAs' names are more than a
// message has room for (RFC 8446, section 4.2.4).
func TestNamesOfCAsNeverBreakAHandshake(t *testing.T) {
	w := newWorld(t)
	own := pkitest.CA(t, "CA", w.now)
	w.create("ca", own.PEM())
	server := pkitest.CA(t, "Servers", time.Now()).Server(t, time.Now())
	client := own.Client(t, "client", w.now).TLS(t)
	trust := w.trust()
	config := handshake.Config(handshake.Options{
		Sources: []handshake.Source{anywhere{server.TLS(t)}}, Clients: ofAccount{trust}, Log: slog.New(slog.DiscardHandler),
	})
	// What a client is told, and whether it comes to show its certificate.
	asked := func(version uint16) (names int, shown bool) {
		t.Helper()
		near, far := net.Pipe()
		of := tls.Client(near, &tls.Config{
			ServerName: "localhost", InsecureSkipVerify: true, MinVersion: version, MaxVersion: version,
			GetClientCertificate: func(r *tls.CertificateRequestInfo) (*tls.Certificate, error) {
				names = len(r.AcceptableCAs)
				return &client, nil
			},
		})
		by := tls.Server(far, config)
		ended := make(chan error, 1)
		go func() {
			ended <- errors.Join(by.HandshakeContext(t.Context()), far.SetDeadline(time.Now()))
		}()
		if err := errors.Join(of.HandshakeContext(t.Context()), near.SetDeadline(time.Now()), <-ended); err != nil {
			t.Fatal(err)
		}
		return names, len(by.ConnectionState().PeerCertificates) > 0
	}
	for _, step := range []struct {
		cas       int
		long      int
		wantNames int
	}{{0, 0, 1}, {3, 200, 4}, {60, 1000, 0}} {
		for i := range step.cas {
			name := fmt.Sprint(strings.Repeat("x", step.long), i)
			w.create(fmt.Sprint("ca_", step.long, "_", i), pkitest.CA(t, name, w.now).PEM())
		}
		// A name that is there already takes no room.
		w.create(fmt.Sprint("twin_", step.long), pkitest.CA(t, "CA", w.now).PEM())
		w.now = w.now.Add(certificates.Staleness)
		for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
			if names, shown := asked(version); names != step.wantNames || !shown {
				t.Errorf("%d CAs, TLS %x: told %d names, want %d; shown %v", step.cas, version, names, step.wantNames, shown)
			}
		}
	}
}
