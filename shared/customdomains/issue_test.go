package customdomains_test

import (
	"context"
	"crypto/x509"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatewright/gatewright/shared/audit"
	"github.com/gatewright/gatewright/shared/config"
	"github.com/gatewright/gatewright/shared/customdomains"
	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/fault/faulttest"
	"github.com/gatewright/gatewright/shared/ids"
	"github.com/gatewright/gatewright/shared/installation"
	"github.com/gatewright/gatewright/shared/operation"
	"github.com/gatewright/gatewright/shared/operation/operationtest"
	"github.com/gatewright/gatewright/shared/pki/pkitest"
	"github.com/gatewright/gatewright/shared/store"
)

// imagined is an authority in memory that refuses some hostnames.
type imagined struct {
	mu       sync.Mutex
	ca       pkitest.Cert
	t        *testing.T
	refused  string
	accepted map[string]bool
	// meanwhile happens before the next order is answered.
	meanwhile func()
	// issues is what it issues in place of what was asked for, nil for that.
	issues func(csr *x509.CertificateRequest) string
	// slow has it issue nothing yet.
	slow bool
	// during happens while it is asked for a certificate next; its error is the answer.
	during func() error
	orders []bool // whether each was by HTTP-01
	// chain and key are the answer to TLS-ALPN-01.
	chain, key string
}

func (i *imagined) Order(_ context.Context, hostname string, byHTTP bool) (customdomains.Order, error) {
	if f := i.meanwhile; f != nil {
		i.meanwhile = nil
		f()
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.orders = append(i.orders, byHTTP)
	if hostname == i.refused {
		return customdomains.Order{}, fault.New(fault.Conflict, "The authority refuses.")
	}
	o := customdomains.Order{URL: hostname, Challenge: hostname, Token: fmt.Sprint(byHTTP), KeyAuth: "the answer"}
	if !byHTTP {
		o.Chain, o.Key = i.chain, i.key
	}
	return o, nil
}

func (i *imagined) Accept(_ context.Context, o customdomains.Order) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.accepted[o.URL] = true
	return nil
}

func (i *imagined) Finish(_ context.Context, o customdomains.Order, raw []byte) (string, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if during := i.during; during != nil {
		i.during = nil
		if err := during(); err != nil {
			return "", err
		}
	}
	if i.slow || !i.accepted[o.URL] {
		return "", nil
	}
	csr, err := x509.ParseCertificateRequest(raw)
	if err != nil {
		return "", err
	}
	if i.issues != nil {
		return i.issues(csr), nil
	}
	return i.ca.Issue(i.t, csr, time.Now(), func(c *pkitest.Template) { c.NotAfter = time.Now().Add(24 * time.Hour) }).PEM(), nil
}

// worked is an authority as a worker of the simulation sees it.
type worked struct {
	w     *operationtest.Worker
	inner *imagined
}

func (a worked) Order(ctx context.Context, hostname string, byHTTP bool) (o customdomains.Order, err error) {
	failed := a.w.Call(ctx, "order", func() error { o, err = a.inner.Order(ctx, hostname, byHTTP); return nil })
	if failed != nil {
		return o, failed
	}
	return o, err
}

func (a worked) Accept(ctx context.Context, o customdomains.Order) error {
	return a.w.Call(ctx, "accept", func() error { return a.inner.Accept(ctx, o) })
}

func (a worked) Finish(ctx context.Context, o customdomains.Order, csr []byte) (chain string, err error) {
	failed := a.w.Call(ctx, "finish", func() error { chain, err = a.inner.Finish(ctx, o, csr); return nil })
	if failed != nil {
		return "", failed
	}
	return chain, err
}

// untilThird ends what goes on for as long as there is a custom domain.
func untilThird(d operation.Definition) operation.Definition {
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

// TestCertificateIsObtainedHoweverWorkersEnd: a hostname has its certificate and the one
// operation that renews it, another that is refused the one that tries again, and one that was deleted neither.
func TestCertificateIsObtainedHoweverWorkersEnd(t *testing.T) {
	operationtest.Simulate(t, func() operationtest.Scenario {
		its := &imagined{t: t, ca: pkitest.CA(t, "CA", time.Now()), refused: "refused.example.com", accepted: map[string]bool{}}
		dns := &zone{records: map[string][]string{}}
		service := func(w *operationtest.Worker, seed byte) *customdomains.Service {
			return customdomains.Open(installation.Parts{
				Config: config.Config{DeploymentURL: "https://{deployment}.gateway.test", ACMEDirectory: "https://ca.test/"}, Key: root{}, Random: rand.NewChaCha8([32]byte{9}),
				Table: w.Table, IDs: ids.NewSource(rand.NewChaCha8([32]byte{seed}), time.Now), Now: time.Now, DNS: dns,
			})
		}
		return operationtest.Scenario{
			Definitions: func(w *operationtest.Worker) []operation.Definition {
				s := service(w, 8)
				return append(s.Definitions(), untilThird(s.Issue(worked{w, its})))
			},
			Arrange: func(ctx context.Context, w *operationtest.Worker) error {
				s := service(w, 7)
				n := 0
				request := func() context.Context {
					n++
					return store.Decide(audit.With(ctx, &audit.Request{AccountID: "a-1", RequestID: fmt.Sprint("r-", n), Time: time.Now()}))
				}
				for _, name := range []string{api, its.refused, "gone.example.com"} {
					made, err := s.Create(request(), acme, customdomains.New{Hostname: name})
					if err != nil {
						return err
					}
					dns.set(made.Proof)
					if _, err := s.Verify(request(), acme, name); err != nil {
						return err
					}
				}
				return s.Delete(request(), acme, "gone.example.com", "")
			},
			Ignore: []string{"updatedOn", "createdOn", "verifiedOn", "certificate", "pending", "placedOn", "begin", "placed", "dueOn", "dueSk", "ttl", api, its.refused, "gone.example.com"},
		}
	}, 60)
}

// obtaining is a world whose installation has an authority. Who calls finish does so in
// a bubble of synctest, since workers wait.
func obtaining(t *testing.T) (w *world, its *imagined, finish func(id string) operation.Record) {
	t.Helper()
	w, its, run := ordering(t)
	return w, its, func(id string) (r operation.Record) {
		t.Helper()
		for range 100 {
			if r = run(id); r.Ended() {
				return r
			}
			if r.DueOn.After(w.at()) {
				w.set(r.DueOn)
			}
		}
		t.Fatalf("%s comes to no end: %+v", id, r)
		return r
	}
}

// ordering is obtaining with its authority, and as far at a time as a worker gets.
func ordering(t *testing.T) (w *world, its *imagined, run func(id string) operation.Record) {
	t.Helper()
	w = newWorld(t)
	w.set(time.Now())
	w.parts.Config.ACMEDirectory, w.parts.Random = "https://ca.test/", rand.NewChaCha8([32]byte{9})
	w.Service = customdomains.Open(w.parts)
	ca := pkitest.CA(t, "CA", w.at())
	its = &imagined{t: t, ca: ca, chain: ca.PEM(), key: ca.KeyPEM(t), accepted: map[string]bool{}}
	began := time.Now()
	engine, err := operation.New(w.parts.Table, []operation.Definition{w.Issue(its)}, operation.Options{
		Now: func() time.Time { return w.at().Add(time.Since(began)) }, Random: rand.NewChaCha8([32]byte{9}), Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	return w, its, func(id string) operation.Record {
		t.Helper()
		began = time.Now()
		r, err := engine.Run(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
}

func TestUploadedCertificateIsNotReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, its, finish := obtaining(t)
		made := w.active(acme, customdomains.New{Hostname: api})
		w.upload(w.Service, api, pkitest.CA(t, "Own", w.at()))
		if finish("certify-" + made.ID + "-1"); len(its.orders) > 0 {
			t.Errorf("it orders %d certificates nevertheless", len(its.orders))
		}
		if d, err := w.Read(t.Context(), acme, api); err != nil || d.Certificate.Source != customdomains.Uploaded || d.Certificate.Operation != "" {
			t.Errorf("it is %+v, %v", d.Certificate, err)
		}
		alias := w.active(acme, customdomains.New{Hostname: "alias.example.com", Alias: true})
		if alias.Certificate != nil {
			t.Errorf("an alias has %+v", alias.Certificate)
		}
	})
}

// TestDeletedUploadIsServedUntilTheNextCertificate, and no order comes twice.
func TestDeletedUploadIsServedUntilTheNextCertificate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _, finish := obtaining(t)
		made := w.active(acme, customdomains.New{Hostname: api})
		_, err := w.DeleteCertificate(w.request(), acme, api)
		faulttest.Want(t, err, fault.Conflict, "Upload one")
		finish("certify-" + made.ID + "-1")
		own := w.upload(w.Service, api, pkitest.CA(t, "Own", w.at()))
		for _, order := range []string{"-5", "-9"} {
			d, err := w.DeleteCertificate(w.request(), acme, api)
			if err != nil || d.Certificate.Source != customdomains.ACME || !d.Certificate.ValidTo.Equal(own.NotAfter) || d.Certificate.Operation != "certify-"+made.ID+order {
				t.Fatalf("%+v, %v", d.Certificate, err)
			}
			if c, err := w.directory().Certificate(t.Context(), api); err != nil || c == nil || !c.Leaf.Equal(own) {
				t.Errorf("until then it is served with %v, %v", c, err)
			}
			finish(d.Certificate.Operation)
			if c, err := w.directory().Certificate(t.Context(), api); err != nil || c == nil || c.Leaf.Equal(own) {
				t.Errorf("then it is served with %v, %v", c, err)
			}
			finish("certify-" + made.ID + "-3") // the renewal of before the upload
			_, err = w.DeleteCertificate(w.request(), acme, api)
			faulttest.Want(t, err, fault.Conflict, "Upload one")
			own = w.upload(w.Service, api, pkitest.CA(t, "Own", w.at()))
		}
	})
}

func TestDeletionOfNoCertificateIsNotFound(t *testing.T) {
	w := newWorld(t)
	_, err := w.DeleteCertificate(w.request(), acme, api)
	faulttest.Want(t, err, fault.NotFound, "This custom domain")
	w.active(acme, customdomains.New{Hostname: api})
	w.upload(w.Service, api, pkitest.CA(t, "Own", w.at()))
	if d, err := w.DeleteCertificate(w.request(), acme, api); err != nil || d.Certificate != nil {
		t.Errorf("%+v, %v", d.Certificate, err)
	}
	_, err = w.DeleteCertificate(w.request(), acme, api)
	faulttest.Want(t, err, fault.NotFound, "no certificate to delete")
}

// TestOrderOfADeletedDomainComesToNothing, also where the hostname is another account's by then.
func TestOrderOfADeletedDomainComesToNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _, finish := obtaining(t)
		made := w.active(acme, customdomains.New{Hostname: api})
		if err := w.Delete(w.request(), acme, api, ""); err != nil {
			t.Fatal(err)
		}
		w.active(evil, customdomains.New{Hostname: api})
		if r := finish("certify-" + made.ID + "-1"); r.Status != operation.Success {
			t.Errorf("it ends as %+v", r)
		}
		d, err := w.Read(t.Context(), evil, api)
		if err != nil || !d.Certificate.ValidTo.IsZero() {
			t.Errorf("the other account's is %+v, %v", d.Certificate, err)
		}
		if c, err := w.directory().Certificate(t.Context(), api); c != nil || err != nil {
			t.Errorf("it is served with %v, %v", c, err)
		}
		finish("certify-" + d.ID + "-1")
		if d, err = w.Read(t.Context(), evil, api); err != nil || d.Certificate.ValidTo.IsZero() {
			t.Errorf("its own order comes to %+v, %v", d.Certificate, err)
		}
	})
}

// TestFailuresAreTriedAgainEverLater: at most five in the first hour, as public authorities allow, and one a day in the end.
func TestFailuresAreTriedAgainEverLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, its, run := ordering(t)
		its.refused = api
		d := w.active(acme, customdomains.New{Hostname: api})
		began, inFirstHour := w.at(), 0
		for n := range 12 {
			if n > 0 && run(d.Certificate.Operation).Ended() {
				t.Fatal("it is tried again at once")
			}
			w.set(d.Certificate.Next)
			if w.at().Sub(began) < time.Hour {
				inFirstHour++
			}
			if r := run(d.Certificate.Operation); !r.Ended() {
				t.Fatalf("%+v", r)
			}
			var err error
			if d, err = w.Read(t.Context(), acme, api); err != nil {
				t.Fatal(err)
			}
			if c := d.Certificate; c.Failures != n+1 || c.Message != "The authority refuses." {
				t.Errorf("after %d failures: %+v", n+1, c)
			}
		}
		if pause := d.Certificate.Next.Sub(w.at()); inFirstHour > 5 || inFirstHour < 2 || pause < 24*time.Hour || pause > 27*time.Hour {
			t.Errorf("%d attempts in the first hour, and %s between the last", inFirstHour, pause)
		}
		// By turns, since who reaches the hostname at one port may not reach it at the other.
		for n, byHTTP := range its.orders {
			if byHTTP != (n%2 == 1) {
				t.Errorf("the orders are by HTTP: %v", its.orders)
				break
			}
		}
	})
}

func TestChallengesOfNobodyAreTheHandlers(t *testing.T) {
	w, _, _ := obtaining(t)
	w.active(acme, customdomains.New{Hostname: api})
	h := w.directory().Challenges(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }))
	for _, at := range []string{"http://" + api + "/", "http://" + api + "/.well-known/acme-challenge/x", "http://" + api + "/.well-known/acme-challenge/", "http://stranger.example.com/.well-known/acme-challenge/x"} {
		out := httptest.NewRecorder()
		h.ServeHTTP(out, httptest.NewRequestWithContext(t.Context(), http.MethodGet, at, http.NoBody))
		if out.Code != http.StatusTeapot {
			t.Errorf("%s is answered %d", at, out.Code)
		}
	}
}

// ordered has a custom domain's order placed, and not answered.
func (w *world) ordered(its *imagined, run func(id string) operation.Record, d customdomains.Domain) operation.Record {
	w.Helper()
	its.slow = true
	r := run("certify-" + d.ID + "-1")
	if r.State != "issue" && !r.Ended() {
		w.Fatalf("the order is not placed: %+v", r)
	}
	its.slow = false
	return r
}

func (w *world) wantAnswer(h http.Handler, host, want string) {
	w.Helper()
	r := httptest.NewRequestWithContext(w.Context(), http.MethodGet, "http://x/.well-known/acme-challenge/false", http.NoBody)
	r.Host = host
	out := httptest.NewRecorder()
	h.ServeHTTP(out, r)
	if out.Body.String() != want {
		w.Errorf("at %s the challenge is answered %q, want %q", host, out.Body, want)
	}
}

// TestChallengeIsAnswered however the authority writes the host, and costs a read a second, whoever
// asks.
func TestChallengeIsAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, its, run := ordering(t)
		made := w.active(acme, customdomains.New{Hostname: api})
		d := w.directory()
		h := d.Challenges(http.NotFoundHandler())
		w.set(w.at().Add(10 * time.Second))
		w.wantServed(d, api, "")
		ask := func(ctx context.Context) {
			for range 100 {
				r := httptest.NewRequestWithContext(ctx, http.MethodGet, "http://"+api+"/.well-known/acme-challenge/x", http.NoBody)
				h.ServeHTTP(httptest.NewRecorder(), r)
				if _, err := d.Challenge(ctx, api); err != nil {
					t.Fatal(err)
				}
			}
		}
		if u := w.asked(ask); u != (store.Usage{Reads: 1}) {
			t.Errorf("strangers' questions cost %+v", u)
		}
		w.ordered(its, run, made)
		w.set(w.at().Add(time.Second))
		for _, host := range []string{api, "API.example.COM", api + ".", api + ":80", api + ".:80"} {
			w.wantAnswer(h, host, "the answer")
		}
		w.wantAnswer(h, "www."+api, "404 page not found\n")
	})
}

// TestLateOrderLeavesTheNextOwnersAlone: the authority answers when the hostname is another account's,
// which has ordered too.
func TestLateOrderLeavesTheNextOwnersAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, its, run := ordering(t)
		first := w.active(acme, customdomains.New{Hostname: api})
		var second customdomains.Domain
		its.meanwhile = func() {
			if err := w.Delete(w.request(), acme, api, ""); err != nil {
				t.Error(err)
			}
			second = w.active(evil, customdomains.New{Hostname: api})
			w.ordered(its, run, second)
		}
		w.set(w.at().Add(10 * time.Second))
		run("certify-" + first.ID + "-1")
		w.set(w.at().Add(time.Minute))
		if r := run("certify-" + first.ID + "-1"); r.Status != operation.Success {
			t.Errorf("the first order ends as %+v", r)
		}
		w.set(w.at().Add(time.Minute))
		if r := run("certify-" + second.ID + "-1"); r.Status != operation.Success {
			t.Errorf("the second ends as %+v", r)
		}
		if d, err := w.Read(t.Context(), evil, api); err != nil || d.Certificate.ValidTo.IsZero() {
			t.Errorf("the second has %+v, %v", d.Certificate, err)
		}
	})
}

// TestChallengeOfADeletedDomainIsNobodys, also where the hostname is served again.
func TestChallengeOfADeletedDomainIsNobodys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, its, run := ordering(t)
		d := w.directory()
		h := d.Challenges(http.NotFoundHandler())
		w.ordered(its, run, w.active(acme, customdomains.New{Hostname: api}))
		w.set(w.at().Add(10 * time.Second))
		w.wantAnswer(h, api, "the answer")
		if err := w.Delete(w.request(), acme, api, ""); err != nil {
			t.Fatal(err)
		}
		w.active(evil, customdomains.New{Hostname: api})
		w.set(w.at().Add(10 * time.Second))
		w.wantAnswer(h, api, "404 page not found\n")
	})
}

func TestAuthorityThatComesLaterIsAskedOnVerification(t *testing.T) {
	w, _, _ := obtaining(t)
	own := w.Service
	w.parts.Config.ACMEDirectory = ""
	w.Service = customdomains.Open(w.parts)
	if d := w.active(acme, customdomains.New{Hostname: api}); d.Certificate != nil {
		t.Fatalf("before: %+v", d.Certificate)
	}
	for range 2 {
		if d, err := own.Verify(w.request(), acme, api); err != nil || d.Certificate == nil || !strings.HasSuffix(d.Certificate.Operation, "-1") {
			t.Errorf("after: %+v, %v", d.Certificate, err)
		}
	}
}
