package customdomains_test

import (
	"context"
	"crypto/x509"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/base/fault/faulttest"
	"github.com/gatewright/gatewright/shared/base/ids"
	"github.com/gatewright/gatewright/shared/base/pki/pkitest"
	"github.com/gatewright/gatewright/shared/core/audit"
	"github.com/gatewright/gatewright/shared/core/config"
	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/core/operation"
	"github.com/gatewright/gatewright/shared/core/operation/operationtest"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/resource/customdomains"
)

// fakeAuthority is an authority in memory that refuses orders for refusedHost.
type fakeAuthority struct {
	mu          sync.Mutex
	ca          pkitest.Cert
	t           *testing.T
	refusedHost string
	accepted    map[string]bool
	// beforeOrder, if not nil, is called once: at the beginning of the next call of Order.
	beforeOrder func()
	// issue returns the issued chain. If issue is nil, the authority issues the requested certificate.
	issue func(csr *x509.CertificateRequest) string
	// slow makes the authority issue no certificate for now.
	slow bool
	// beforeFinish, if not nil, is called once: in the next call of Finish. If it returns an error, so does Finish.
	beforeFinish func() error
	orders       []bool // for each order, whether it used HTTP-01
	// chain and key are the response to TLS-ALPN-01.
	chain, key string
}

func (a *fakeAuthority) Order(_ context.Context, hostname string, byHTTP bool) (customdomains.Order, error) {
	if f := a.beforeOrder; f != nil {
		a.beforeOrder = nil
		f()
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.orders = append(a.orders, byHTTP)
	if hostname == a.refusedHost {
		return customdomains.Order{}, fault.New(fault.Conflict, "The authority refuses.")
	}
	o := customdomains.Order{URL: hostname, Challenge: hostname, Token: fmt.Sprint(byHTTP), KeyAuth: "the answer"}
	if !byHTTP {
		o.Chain, o.Key = a.chain, a.key
	}
	return o, nil
}

func (a *fakeAuthority) Accept(_ context.Context, o customdomains.Order) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.accepted[o.URL] = true
	return nil
}

func (a *fakeAuthority) Finish(_ context.Context, o customdomains.Order, raw []byte) (string, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if beforeFinish := a.beforeFinish; beforeFinish != nil {
		a.beforeFinish = nil
		if err := beforeFinish(); err != nil {
			return "", err
		}
	}
	if a.slow || !a.accepted[o.URL] {
		return "", nil
	}
	csr, err := x509.ParseCertificateRequest(raw)
	if err != nil {
		return "", err
	}
	if a.issue != nil {
		return a.issue(csr), nil
	}
	return a.ca.Issue(a.t, csr, time.Now(), func(c *pkitest.Template) {
		c.NotAfter = time.Now().Add(24 * time.Hour)
	}).PEM(), nil
}

// workerAuthority is the authority as a worker of the simulation accesses it.
type workerAuthority struct {
	w     *operationtest.Worker
	inner *fakeAuthority
}

func (a workerAuthority) Order(ctx context.Context, hostname string, byHTTP bool) (o customdomains.Order, err error) {
	callErr := a.w.Call(ctx, "order", func() error { o, err = a.inner.Order(ctx, hostname, byHTTP); return nil })
	if callErr != nil {
		return o, callErr
	}
	return o, err
}

func (a workerAuthority) Accept(ctx context.Context, o customdomains.Order) error {
	return a.w.Call(ctx, "accept", func() error { return a.inner.Accept(ctx, o) })
}

func (a workerAuthority) Finish(ctx context.Context, o customdomains.Order, csr []byte) (chain string, err error) {
	callErr := a.w.Call(ctx, "finish", func() error { chain, err = a.inner.Finish(ctx, o, csr); return nil })
	if callErr != nil {
		return "", callErr
	}
	return chain, err
}

// stopAtThirdOrder ends each custom domain's third operation without an order. Otherwise operations would follow for as
// long as the custom domain exists.
func stopAtThirdOrder(d operation.Definition) operation.Definition {
	first := d.States[d.First]
	order := first.Task
	first.Task = func(ctx context.Context, s operation.Step) (operation.Result, error) {
		if strings.HasSuffix(s.ID, "-3") {
			return operation.Result{Next: operation.Succeed}, nil
		}
		return order(ctx, s)
	}
	d.States[d.First] = first
	return d
}

// TestIssuanceSurvivesWorkerCrashes checks that the operations have the same result as without crashes, except for the
// ignored attributes: one hostname is issued a certificate, the authority refuses another, and a third is deleted.
func TestIssuanceSurvivesWorkerCrashes(t *testing.T) {
	operationtest.Simulate(t, func() operationtest.Scenario {
		authority := &fakeAuthority{
			t: t, ca: pkitest.CA(t, "CA", time.Now()), refusedHost: "refused.example.com",
			accepted: map[string]bool{},
		}
		dns := &fakeDNS{records: map[string][]string{}}
		service := func(w *operationtest.Worker, seed byte) *customdomains.Service {
			return customdomains.Open(installation.Parts{
				Config: config.Config{DeploymentURL: "https://{deployment}.gateway.test", ACMEDirectory: "https://ca.test/"},
				Key:    zeroRootKey{}, Random: rand.NewChaCha8([32]byte{9}),
				Table: w.Table, IDs: ids.NewSource(rand.NewChaCha8([32]byte{seed}), time.Now), Now: time.Now, DNS: dns,
			})
		}
		return operationtest.Scenario{
			Definitions: func(w *operationtest.Worker) []operation.Definition {
				s := service(w, 8)
				return append(s.Definitions(), stopAtThirdOrder(s.IssuanceDefinition(workerAuthority{w, authority})))
			},
			Setup: func(ctx context.Context, w *operationtest.Worker) error {
				s := service(w, 7)
				n := 0
				request := func() context.Context {
					n++
					return store.WithReadSet(audit.WithRequest(ctx, &audit.Request{
						AccountID: "a-1", RequestID: fmt.Sprint("r-", n),
						Time: time.Now(),
					}))
				}
				for _, name := range []string{api, authority.refusedHost, "gone.example.com"} {
					created, err := s.Create(request(), acme, customdomains.CreateInput{Hostname: name})
					if err != nil {
						return err
					}
					dns.addRecord(created.Proof)
					if _, err := s.Verify(request(), acme, name); err != nil {
						return err
					}
				}
				return s.Delete(request(), acme, "gone.example.com", "")
			},
			Ignore: []string{
				"updatedOn", "createdOn", "verifiedOn", "certificate", "pending", "placedOn", "begin", "placed",
				"dueOn", "dueSk", "ttl", api, authority.refusedHost, "gone.example.com",
			},
		}
	}, 60)
}

// newIssuanceFixture returns a fixture whose installation has an authority. finish runs an operation until it ends.
// Call finish in a bubble of synctest, because workers wait.
func newIssuanceFixture(t *testing.T) (fx *fixture, authority *fakeAuthority, finish func(id string) operation.Record) {
	t.Helper()
	fx, authority, run := newStepwiseFixture(t)
	return fx, authority, func(id string) (r operation.Record) {
		t.Helper()
		for range 100 {
			if r = run(id); r.Ended() {
				return r
			}
			if r.DueOn.After(fx.clock()) {
				fx.setClock(r.DueOn)
			}
		}
		t.Fatalf("operation %s = %+v, want it to end", id, r)
		return r
	}
}

// newStepwiseFixture returns a fixture like newIssuanceFixture. run advances an operation only as far as a worker does
// at a time.
func newStepwiseFixture(t *testing.T) (fx *fixture, authority *fakeAuthority, run func(id string) operation.Record) {
	t.Helper()
	fx = newFixture(t)
	fx.setClock(time.Now())
	fx.parts.Config.ACMEDirectory, fx.parts.Random = "https://ca.test/", rand.NewChaCha8([32]byte{9})
	fx.Service = customdomains.Open(fx.parts)
	ca := pkitest.CA(t, "CA", fx.clock())
	authority = &fakeAuthority{t: t, ca: ca, chain: ca.PEM(), key: ca.KeyPEM(t), accepted: map[string]bool{}}
	startedAt := time.Now()
	engine, err := operation.New(fx.parts.Table, []operation.Definition{fx.IssuanceDefinition(authority)},
		operation.Options{
			Now: func() time.Time {
				return fx.clock().Add(time.Since(startedAt))
			}, Random: rand.NewChaCha8([32]byte{9}), Log: slog.New(slog.DiscardHandler),
		})
	if err != nil {
		t.Fatal(err)
	}
	return fx, authority, func(id string) operation.Record {
		t.Helper()
		startedAt = time.Now()
		r, err := engine.Run(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
}

// TestCertificateCanBeginDuringItsRequest checks that a certificate is accepted although it was not valid yet when the
// step began: some authorities do not backdate certificates, and a response can take seconds.
func TestCertificateCanBeginDuringItsRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fx, authority, finish := newIssuanceFixture(t)
		created := fx.createVerified(acme, customdomains.CreateInput{Hostname: api})
		authority.issue = func(csr *x509.CertificateRequest) string {
			fx.setClock(fx.clock().Add(time.Hour)) // longer than the fixture's clock can differ from that of the engine
			return authority.ca.Issue(t, csr, fx.clock(), func(c *pkitest.Template) {
				c.NotBefore, c.NotAfter = fx.clock().Truncate(time.Second), fx.clock().Add(24*time.Hour)
			}).PEM()
		}
		finish("certify-" + created.ID + "-1")
		if d, err := fx.Read(t.Context(), acme, api); err != nil || d.Certificate.ValidTo.IsZero() {
			t.Errorf("Read() certificate = %+v, %v, want a valid one", d.Certificate, err)
		}
	})
}

func TestUploadedCertificateIsNotReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fx, authority, finish := newIssuanceFixture(t)
		created := fx.createVerified(acme, customdomains.CreateInput{Hostname: api})
		fx.upload(fx.Service, api, pkitest.CA(t, "Own", fx.clock()))
		if finish("certify-" + created.ID + "-1"); len(authority.orders) > 0 {
			t.Errorf("%d orders despite the uploaded certificate, want 0", len(authority.orders))
		}
		if d, err := fx.Read(t.Context(), acme, api); err != nil || d.Certificate.Source != customdomains.Uploaded ||
			d.Certificate.Operation != "" {
			t.Errorf("Read() certificate = %+v, %v, want an uploaded one without operation", d.Certificate, err)
		}
		alias := fx.createVerified(acme, customdomains.CreateInput{Hostname: "alias.example.com", Alias: true})
		if alias.Certificate != nil {
			t.Errorf("certificate of an alias = %+v, want none", alias.Certificate)
		}
	})
}

// TestDeletedUploadIsServedUntilTheNextCertificate checks that gateways serve a deleted uploaded certificate until the
// ordered one is issued. The renewal from before the upload must place no second order.
func TestDeletedUploadIsServedUntilTheNextCertificate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fx, authority, finish := newIssuanceFixture(t)
		created := fx.createVerified(acme, customdomains.CreateInput{Hostname: api})
		_, err := fx.DeleteCertificate(fx.requestContext(), acme, api)
		faulttest.Check(t, err, fault.Conflict, "Upload one")
		finish("certify-" + created.ID + "-1")
		uploaded := fx.upload(fx.Service, api, pkitest.CA(t, "Own", fx.clock()))
		for _, suffix := range []string{"-5", "-9"} {
			d, err := fx.DeleteCertificate(fx.requestContext(), acme, api)
			if err != nil || d.Certificate.Source != customdomains.ACME || !d.Certificate.ValidTo.Equal(uploaded.NotAfter) ||
				d.Certificate.Operation != "certify-"+created.ID+suffix {
				t.Fatalf("DeleteCertificate() = %+v, %v, want an ACME certificate, valid to %s, operation certify-%s",
					d.Certificate, err, uploaded.NotAfter, created.ID+suffix)
			}
			if c, err := fx.directory().Certificate(t.Context(), api); err != nil || c == nil || !c.Leaf.Equal(uploaded) {
				t.Errorf("Certificate() before the order ends = %s, %v, want the uploaded one", certificateText(c), err)
			}
			finish(d.Certificate.Operation)
			if c, err := fx.directory().Certificate(t.Context(), api); err != nil || c == nil || c.Leaf.Equal(uploaded) {
				t.Errorf("Certificate() after the order = %s, %v, want the new certificate", certificateText(c), err)
			}
			orders := len(authority.orders)
			finish("certify-" + created.ID + "-3") // the renewal from before the upload
			if n := len(authority.orders) - orders; n > 0 {
				t.Errorf("the renewal from before the upload places %d orders, want 0", n)
			}
			_, err = fx.DeleteCertificate(fx.requestContext(), acme, api)
			faulttest.Check(t, err, fault.Conflict, "Upload one")
			uploaded = fx.upload(fx.Service, api, pkitest.CA(t, "Own", fx.clock()))
		}
	})
}

func TestDeleteWithoutCertificateIsNotFound(t *testing.T) {
	fx := newFixture(t)
	_, err := fx.DeleteCertificate(fx.requestContext(), acme, api)
	faulttest.Check(t, err, fault.NotFound, "This custom domain")
	fx.createVerified(acme, customdomains.CreateInput{Hostname: api})
	fx.upload(fx.Service, api, pkitest.CA(t, "Own", fx.clock()))
	if d, err := fx.DeleteCertificate(fx.requestContext(), acme, api); err != nil || d.Certificate != nil {
		t.Errorf("DeleteCertificate() = %+v, %v, want no certificate and no error", d.Certificate, err)
	}
	_, err = fx.DeleteCertificate(fx.requestContext(), acme, api)
	faulttest.Check(t, err, fault.NotFound, "no certificate to delete")
}

// TestOrderOfDeletedDomainIsDropped deletes a custom domain before its order is placed, and another account verifies
// the hostname. The operation of the deleted custom domain must end without a certificate, and the other account must
// get its own.
func TestOrderOfDeletedDomainIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fx, _, finish := newIssuanceFixture(t)
		created := fx.createVerified(acme, customdomains.CreateInput{Hostname: api})
		if err := fx.Delete(fx.requestContext(), acme, api, ""); err != nil {
			t.Fatal(err)
		}
		fx.createVerified(otherAccount, customdomains.CreateInput{Hostname: api})
		if r := finish("certify-" + created.ID + "-1"); r.Status != operation.Success {
			t.Errorf("order of a deleted domain ends as %+v, want %s", r, operation.Success)
		}
		d, err := fx.Read(t.Context(), otherAccount, api)
		if err != nil || !d.Certificate.ValidTo.IsZero() {
			t.Errorf("Read(domain of the other account) = %+v, %v, want no certificate yet", d.Certificate, err)
		}
		if c, err := fx.directory().Certificate(t.Context(), api); c != nil || err != nil {
			t.Errorf("Certificate() = %s, %v, want none and no error", certificateText(c), err)
		}
		finish("certify-" + d.ID + "-1")
		if d, err = fx.Read(t.Context(), otherAccount, api); err != nil || d.Certificate.ValidTo.IsZero() {
			t.Errorf("Read() after the other account's order = %+v, %v, want a certificate", d.Certificate, err)
		}
	})
}

// TestFailedOrdersBackOff checks that there are at most five orders in the first hour, as public authorities allow, and
// finally one order per day.
func TestFailedOrdersBackOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fx, authority, run := newStepwiseFixture(t)
		authority.refusedHost = api
		d := fx.createVerified(acme, customdomains.CreateInput{Hostname: api})
		startedAt, inFirstHour := fx.clock(), 0
		for n := range 12 {
			if n > 0 && run(d.Certificate.Operation).Ended() {
				t.Fatal("operation ends when it is retried immediately, want it to wait")
			}
			fx.setClock(d.Certificate.Next)
			if fx.clock().Sub(startedAt) < time.Hour {
				inFirstHour++
			}
			if r := run(d.Certificate.Operation); !r.Ended() {
				t.Fatalf("operation when it is due = %+v, want it ended", r)
			}
			var err error
			if d, err = fx.Read(t.Context(), acme, api); err != nil {
				t.Fatal(err)
			}
			if c := d.Certificate; c.Failures != n+1 || c.Message != "The authority refuses." {
				t.Errorf("certificate after %d failures = %+v, want %[1]d failures and the message of the authority", n+1, c)
			}
		}
		if delay := d.Certificate.Next.Sub(fx.clock()); inFirstHour > 5 || inFirstHour < 2 || delay < 24*time.Hour ||
			delay > 27*time.Hour {
			t.Errorf("%d attempts in the first hour, delay of the last = %s, want 2 to 5 and 24h to 27h", inFirstHour, delay)
		}
		// The challenge types alternate, because an authority that cannot reach the hostname at one port may reach it at
		// the other.
		for n, byHTTP := range authority.orders {
			if byHTTP != (n%2 == 1) {
				t.Errorf("orders by HTTP = %v, want every second one", authority.orders)
				break
			}
		}
	})
}

// placeOrder runs the first operation of a custom domain until its order is placed or the operation has ended. The
// authority issues no certificate yet.
func (fx *fixture) placeOrder(
	authority *fakeAuthority, run func(id string) operation.Record, d customdomains.Domain,
) operation.Record {
	fx.Helper()
	authority.slow = true
	r := run("certify-" + d.ID + "-1")
	if r.State != "issue" && !r.Ended() {
		fx.Fatalf("operation after the first run = %+v, want state issue or ended", r)
	}
	authority.slow = false
	return r
}

// TestLateOrderDoesNotAffectNextOwner lets the authority accept an order when the hostname already belongs to another
// account, which has also placed an order. The other account must get its certificate.
func TestLateOrderDoesNotAffectNextOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fx, authority, run := newStepwiseFixture(t)
		first := fx.createVerified(acme, customdomains.CreateInput{Hostname: api})
		var second customdomains.Domain
		authority.beforeOrder = func() {
			if err := fx.Delete(fx.requestContext(), acme, api, ""); err != nil {
				t.Error(err)
			}
			second = fx.createVerified(otherAccount, customdomains.CreateInput{Hostname: api})
			fx.placeOrder(authority, run, second)
		}
		fx.setClock(fx.clock().Add(10 * time.Second))
		run("certify-" + first.ID + "-1")
		fx.setClock(fx.clock().Add(time.Minute))
		if r := run("certify-" + first.ID + "-1"); r.Status != operation.Success {
			t.Errorf("first order ends as %+v, want %s", r, operation.Success)
		}
		fx.setClock(fx.clock().Add(time.Minute))
		if r := run("certify-" + second.ID + "-1"); r.Status != operation.Success {
			t.Errorf("second order ends as %+v, want %s", r, operation.Success)
		}
		if d, err := fx.Read(t.Context(), otherAccount, api); err != nil || d.Certificate.ValidTo.IsZero() {
			t.Errorf("Read() after the second order = %+v, %v, want a certificate", d.Certificate, err)
		}
	})
}

// TestVerifyOrdersCertificateAfterAuthorityIsConfigured checks that Verify orders the certificate of a custom domain
// that was verified while the installation had no authority. A second Verify must not begin another operation.
func TestVerifyOrdersCertificateAfterAuthorityIsConfigured(t *testing.T) {
	fx, _, _ := newIssuanceFixture(t)
	withAuthority := fx.Service
	fx.parts.Config.ACMEDirectory = ""
	fx.Service = customdomains.Open(fx.parts)
	if d := fx.createVerified(acme, customdomains.CreateInput{Hostname: api}); d.Certificate != nil {
		t.Fatalf("Verify() without an authority: certificate = %+v, want none", d.Certificate)
	}
	for range 2 {
		if d, err := withAuthority.Verify(fx.requestContext(), acme, api); err != nil || d.Certificate == nil ||
			!strings.HasSuffix(d.Certificate.Operation, "-1") {
			t.Errorf("Verify() with an authority: certificate = %+v, %v, want an operation that ends in -1", d.Certificate, err)
		}
	}
}
