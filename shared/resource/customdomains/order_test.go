package customdomains_test

import (
	"context"
	"crypto/x509"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/base/pki/pkitest"
	"github.com/gatewright/gatewright/shared/core/auth"
	"github.com/gatewright/gatewright/shared/core/operation"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/resource/customdomains"
)

const challengePath = "/.well-known/acme-challenge/"

// challengeFixture is a fixture with a certificate authority, and with the Directory that responds to challenges in
// gateways.
type challengeFixture struct {
	*fixture
	authority *fakeAuthority
	run       func(id string) operation.Record
	gateways  *customdomains.Directory
}

// requestChallenge advances the clock by Staleness, sends an HTTP-01 request to the gateway, and returns the response,
// or "" if the gateway does not respond to it.
func (fx *challengeFixture) requestChallenge(host, path string) string {
	fx.Helper()
	fx.setClock(fx.clock().Add(customdomains.Staleness))
	out := httptest.NewRecorder()
	r := httptest.NewRequestWithContext(fx.Context(), http.MethodGet, "http://"+host+path, http.NoBody)
	fx.gateways.Challenges(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusTeapot)
	})).ServeHTTP(out, r)
	if out.Code == http.StatusTeapot {
		return ""
	}
	return out.Body.String()
}

// wantChallenge checks the responses to the authority: the body for HTTP-01 ("" for none), and whether there is a
// certificate for TLS-ALPN-01.
func (fx *challengeFixture) wantChallenge(wantBody string, wantHandshake bool) {
	fx.Helper()
	for _, host := range []string{api, "API.Example.com", api + ":80"} {
		if got := fx.requestChallenge(host, challengePath+"true"); got != wantBody {
			fx.Errorf("challenge of %s = %q, want %q", host, got, wantBody)
		}
	}
	for _, other := range [][2]string{
		{api, challengePath + "other"},
		{api, challengePath},
		{api, "/"},
		{"other.example.com", challengePath + "true"},
		{"stranger.example.com", challengePath + "true"},
	} {
		if got := fx.requestChallenge(other[0], other[1]); got != "" {
			fx.Errorf("challenge %s = %q, want none", other, got)
		}
	}
	if c, err := fx.gateways.Challenge(fx.Context(), api); (c != nil) != wantHandshake || err != nil {
		fx.Errorf("Challenge(%s) = certificate: %t, error %v, want %t and no error", api, c != nil, err, wantHandshake)
	}
	var stored struct {
		TTL int64 `dynamodbav:"ttl"`
	}
	if err := fx.parts.Table.Load(fx.Context(), store.Get(store.Key{PK: "custom-domain-challenge#" + api, SK: "."},
		&stored)); err != nil || (stored.TTL != 0) != (wantHandshake || wantBody != "") {
		fx.Errorf("stored challenge = %+v, %v, want a TTL: %t", stored, err, wantHandshake || wantBody != "")
	}
	// The table's TTL deletes a challenge that no order has deleted, but not before the order ends.
	if remaining := time.Unix(stored.TTL, 0).Sub(fx.clock()); stored.TTL != 0 &&
		(remaining < time.Hour || remaining > 48*time.Hour) {
		fx.Errorf("challenge is kept for %s, want 1h to 48h", remaining)
	}
}

// attempt runs one order of the custom domain until it ends. The authority is slow at first. If succeed is true, it
// finally issues the certificate, otherwise the order times out.
func (fx *challengeFixture) attempt(succeed bool) {
	fx.Helper()
	domain, err := fx.Read(fx.Context(), acme, api)
	if err != nil {
		fx.Fatal(err)
	}
	fx.authority.slow = true
	fx.setClock(domain.Certificate.Next)
	r := fx.run(domain.Certificate.Operation)
	byHTTP := fx.authority.orders[len(fx.authority.orders)-1]
	fx.wantChallenge(map[bool]string{true: "the answer"}[byHTTP], !byHTTP)
	fx.setClock(r.DueOn)
	if r = fx.run(r.ID); r.Ended() {
		fx.Errorf("order while the authority is slow = %+v, want it not to end", r)
	}
	if succeed {
		fx.authority.slow = false
	}
	for !r.Ended() {
		fx.setClock(r.DueOn)
		r = fx.run(r.ID)
	}
}

// TestChallengeIsServedDuringOrderOnly checks that gateways respond to a challenge only for the hostname of the order,
// and not after the order has ended, with or without success.
func TestChallengeIsServedDuringOrderOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fx := &challengeFixture{}
		fx.fixture, fx.authority, fx.run = newStepwiseFixture(t)
		created := fx.createVerified(acme, customdomains.CreateInput{Hostname: api})
		fx.createVerified(acme, customdomains.CreateInput{Hostname: "other.example.com"})
		fx.gateways = fx.directory()
		fx.wantChallenge("", false)
		fx.attempt(false)
		fx.wantChallenge("", false)
		fx.attempt(true)
		fx.wantChallenge("", false)
		got, err := fx.Read(t.Context(), acme, api)
		if err != nil || got.ID != created.ID {
			t.Errorf("Read() = domain %s, %v, want %s and no error", got.ID, err, created.ID)
		}
		if c := got.Certificate; c.Failures != 0 || c.Message != "" || c.ValidTo.IsZero() {
			t.Errorf("certificate = %+v, want a valid one without failures and message", c)
		}
		fx.wantServed(fx.gateways, "stranger.example.com", "")
		if u := fx.usageOf(func(ctx context.Context) {
			r := httptest.NewRequestWithContext(ctx, http.MethodGet, "http://stranger.example.com"+challengePath+"true",
				http.NoBody)
			fx.gateways.Challenges(http.NotFoundHandler()).ServeHTTP(httptest.NewRecorder(), r)
		}); u != (store.Usage{}) {
			t.Errorf("challenge request of an unknown host uses %+v, want no requests of the table", u)
		}
	})
}

// TestOrderKeyIsBoundToItsOrder checks that the private key of an order is sealed in the table, and that the sealed key
// of another order makes the order fail.
func TestOrderKeyIsBoundToItsOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fx, authority, run := newStepwiseFixture(t)
		authority.slow = true
		var pending [2]struct {
			Pending []byte `dynamodbav:"pending"`
		}
		var created [2]customdomains.Domain
		keyOf := func(i int) store.Key { return store.Key{PK: "custom-domain-challenge#" + created[i].Hostname, SK: "."} }
		for i, name := range []string{api, "b.example.com"} {
			created[i] = fx.createVerified(acme, customdomains.CreateInput{Hostname: name})
			fx.setClock(created[i].Certificate.Next)
			run(created[i].Certificate.Operation)
			if err := fx.parts.Table.Get(t.Context(), keyOf(i), &pending[i]); err != nil {
				t.Fatal(err)
			}
			if _, err := x509.ParsePKCS8PrivateKey(pending[i].Pending); err == nil {
				t.Error("the stored key is plain PKCS #8, want it sealed")
			}
		}
		fx.putRecord(keyOf(0), map[string]any{"pending": pending[1].Pending})
		authority.slow = false
		for range 10 {
			fx.setClock(fx.clock().Add(time.Minute))
			if run(created[0].Certificate.Operation).Ended() {
				break
			}
		}
		if d, err := fx.Read(t.Context(), acme, api); err != nil || d.Certificate.Failures != 1 ||
			!d.Certificate.ValidTo.IsZero() {
			t.Errorf("Read() after an order with another key = %+v, %v, want 1 failure and no certificate", d.Certificate, err)
		}
	})
}

// TestIssuanceFailureIsRecorded checks that the custom domain's message contains the reason, and that the custom domain
// keeps the validity and the issuer of the previous certificate.
func TestIssuanceFailureIsRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fx, authority, finish := newIssuanceFixture(t)
		created := fx.createVerified(acme, customdomains.CreateInput{Hostname: api})
		finish("certify-" + created.ID + "-1")
		before, err := fx.Read(t.Context(), acme, api)
		// Orders with odd numbers use TLS-ALPN-01, and orders with even numbers use HTTP-01. The renewal uses the same
		// type as the first order, so its number is 3.
		if err != nil || before.Certificate.ValidTo.IsZero() || before.Certificate.Operation != "certify-"+created.ID+"-3" {
			t.Fatalf("Read() = %+v, %v, want a certificate and operation certify-%s-3", before.Certificate, err, created.ID)
		}
		for n, tt := range []struct {
			misbehave func()
			want      string
		}{
			{func() { authority.refusedHost = api }, "The authority refuses."},
			{func() {
				authority.issue = func(csr *x509.CertificateRequest) string {
					csr.DNSNames = []string{"other.example.com"}
					return authority.ca.Issue(t, csr, fx.clock()).PEM()
				}
			}, "issued is not for the hostname"},
			{func() { authority.slow = true }, "has not issued the certificate within 15m"},
		} {
			authority.refusedHost, authority.issue, authority.slow = "", nil, false
			tt.misbehave()
			d, err := fx.Read(t.Context(), acme, api)
			if err != nil {
				t.Fatal(err)
			}
			fx.setClock(d.Certificate.Next)
			startedAt := fx.clock()
			if r := finish(d.Certificate.Operation); r.Status != operation.Success ||
				fx.clock().Sub(startedAt) > 20*time.Minute {
				t.Errorf("%s: operation ends after %s as %+v, want %s within 20 minutes", tt.want,
					fx.clock().Sub(startedAt), r, operation.Success)
			}
			c, err := fx.Read(t.Context(), acme, api)
			if err != nil || !strings.Contains(c.Certificate.Message, tt.want) || c.Certificate.Failures != n+1 {
				t.Errorf("Read() = %+v, %v, want %d failures and message %q", c.Certificate, err, n+1, tt.want)
			}
			if was := before.Certificate; c.Certificate.ValidTo != was.ValidTo || c.Certificate.Issuer != was.Issuer {
				t.Errorf("%s: certificate = %+v, want the validity and issuer of %+v", tt.want, c.Certificate, was)
			}
		}
	})
}

// TestInvalidIssuedCertificateIsNotServed checks that gateways do not serve an invalid certificate that the authority
// has issued, and that the custom domain's message contains the reason.
func TestInvalidIssuedCertificateIsNotServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fx, authority, run := newStepwiseFixture(t)
		issue := func(change pkitest.Change) func(csr *x509.CertificateRequest) string {
			return func(csr *x509.CertificateRequest) string { return authority.ca.Issue(t, csr, fx.clock(), change).PEM() }
		}
		n := 0
		for text, issues := range map[string]func(csr *x509.CertificateRequest) string{
			"not for the hostname": issue(func(c *pkitest.Template) { c.DNSNames = []string{"www.example.com"} }),
			"has expired":          issue(func(c *pkitest.Template) { c.NotAfter = fx.clock().Add(-time.Second) }),
			"is not valid yet":     issue(func(c *pkitest.Template) { c.NotBefore = fx.clock().Add(time.Hour) }),
			"is of a CA":           issue(func(c *pkitest.Template) { c.IsCA, c.BasicConstraintsValid = true, true }),
			"does not belong": func(*x509.CertificateRequest) string {
				return authority.ca.Client(t, "another key", fx.clock(), func(c *pkitest.Template) {
					c.DNSNames, c.ExtKeyUsage = []string{fmt.Sprintf("n%d.example.com", n)},
						[]x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
				}).PEM()
			},
			"not in PEM": func(*x509.CertificateRequest) string { return "hello" },
			"bytes":      func(*x509.CertificateRequest) string { return strings.Repeat("x", 1<<20) },
		} {
			n++
			d := fx.createVerified(acme, customdomains.CreateInput{Hostname: fmt.Sprintf("n%d.example.com", n)})
			authority.issue = issues
			for range 5 {
				r := run("certify-" + d.ID + "-1")
				if r.Ended() {
					break
				}
				fx.setClock(r.DueOn)
			}
			d, err := fx.Read(t.Context(), acme, d.Hostname)
			if err != nil || !strings.Contains(d.Certificate.Message, text) || len(d.Certificate.Message) > 500 {
				t.Errorf("Read() = %+v, %v, want a message with %q and at most 500 bytes", d.Certificate, err, text)
			}
			if c := d.Certificate; !c.ValidTo.IsZero() || !strings.HasSuffix(c.Operation, "-2") {
				t.Errorf("%s: certificate = %+v, want none yet and operation -2", text, c)
			}
			if c, err := fx.directory().Certificate(t.Context(), d.Hostname); c != nil || err != nil {
				t.Errorf("%s: Certificate() = %s, %v, want none and no error", text, certificateText(c), err)
			}
		}
	})
}

// TestIssueTimeoutStartsAtOrder checks that the timeout of an order starts when the order is placed, even if that is
// long after the operation began.
func TestIssueTimeoutStartsAtOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fx, authority, run := newStepwiseFixture(t)
		authority.slow = true
		d := fx.createVerified(acme, customdomains.CreateInput{Hostname: api})
		fx.setClock(fx.clock().Add(3 * time.Hour)) // no worker ran
		orderedAt := fx.clock()
		for range 200 {
			r := run("certify-" + d.ID + "-1")
			if r.Ended() {
				break
			}
			fx.setClock(r.DueOn)
		}
		if elapsed := fx.clock().Sub(orderedAt); elapsed < 15*time.Minute || elapsed > 20*time.Minute {
			t.Errorf("order times out after %s, want 15 to 20 minutes", elapsed)
		}
	})
}

// TestSupersededOrderChangesNothing uploads a certificate, or deletes the custom domain and creates it again for the
// same or another account. It does so before or during the request of the certificate. The order must not change the
// custom domain.
func TestSupersededOrderChangesNothing(t *testing.T) {
	upload := func(fx *fixture) {
		for range 2 {
			fx.upload(fx.Service, api, pkitest.CA(t, "Own", fx.clock()))
		}
	}
	recreate := func(newOwner auth.Owner) func(*fixture) {
		return func(fx *fixture) {
			if err := fx.Delete(fx.requestContext(), acme, api, ""); err != nil {
				t.Error(err)
			}
			fx.createVerified(newOwner, customdomains.CreateInput{Hostname: api})
		}
	}
	for _, tt := range []struct {
		name                 string
		issued, duringFinish bool
		change               func(*fixture)
	}{
		{"issued after an upload", true, false, upload},
		{"issued after a recreation by another account", true, false, recreate(otherAccount)},
		{"issued during an upload", true, true, upload},
		{"issued during a recreation by another account", true, true, recreate(otherAccount)},
		{"issued during a recreation by the same account", true, true, recreate(acme)},
		{"refused during an upload", false, true, upload},
		{"refused during a recreation by another account", false, true, recreate(otherAccount)},
		{"refused during a recreation by the same account", false, true, recreate(acme)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fx, authority, run := newStepwiseFixture(t)
				created := fx.createVerified(acme, customdomains.CreateInput{Hostname: api})
				r := fx.placeOrder(authority, run, created)
				var before map[store.Key]store.Item
				change := func() error {
					tt.change(fx)
					before = fx.items.Items()
					if tt.issued {
						return nil
					}
					return fault.New(fault.Conflict, "The authority refuses.")
				}
				if tt.duringFinish {
					authority.beforeFinish = change
				} else {
					_ = change()
				}
				for ; !r.Ended(); r = run(r.ID) {
					fx.setClock(r.DueOn)
				}
				if r.Status != operation.Success {
					t.Errorf("superseded order ends as %+v, want %s", r, operation.Success)
				}
				for k, item := range fx.items.Items() {
					if !strings.HasPrefix(k.PK, "operation") && !reflect.DeepEqual(item, before[k]) {
						t.Errorf("superseded order changes item %v to %v, want no change", k, item)
					}
				}
			})
		})
	}
}

// TestOrderLimitIsPerAccount checks that an account at the limit of orders has to wait, and that
// another account can order. Without this limit, one account could use all orders that an authority accepts from the
// installation.
func TestOrderLimitIsPerAccount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fx, authority, run := newStepwiseFixture(t)
		fx.setClock(fx.clock().Truncate(3 * time.Hour).Add(time.Hour))
		order := func(o auth.Owner, hostname string) operation.Record {
			return run("certify-" + fx.createVerified(o, customdomains.CreateInput{Hostname: hostname}).ID + "-1")
		}
		for n := range customdomains.MaxOrders {
			if r := order(acme, fmt.Sprintf("n%d.example.com", n)); !r.Ended() {
				t.Fatalf("order %d = %+v, want it ended", n+1, r)
			}
		}
		excess := order(acme, "late.example.com")
		if wait := excess.DueOn.Sub(fx.clock()); excess.Ended() || len(authority.orders) != customdomains.MaxOrders ||
			wait < 2*time.Hour || wait > 150*time.Minute {
			t.Errorf("order over the limit: ended %t, waits %s after %d orders, want false, 2h to 2h30m, %d",
				excess.Ended(), wait, len(authority.orders), customdomains.MaxOrders)
		}
		if r := order(otherAccount, "evil.example.org"); !r.Ended() {
			t.Errorf("order of the other account = %+v, want it ended", r)
		}
		fx.setClock(excess.DueOn)
		if r := run(excess.ID); !r.Ended() || len(authority.orders) != customdomains.MaxOrders+2 {
			t.Errorf("waiting order when it is due = %+v after %d orders, want it ended after %d",
				r, len(authority.orders), customdomains.MaxOrders+2)
		}
	})
}
