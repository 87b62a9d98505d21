package certificates_test

import (
	"context"
	"crypto/x509"
	"errors"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/certificates"
	"github.com/gatewright/gatewright/shared/fault"
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
