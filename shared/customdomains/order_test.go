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

	"github.com/gatewright/gatewright/shared/auth"
	"github.com/gatewright/gatewright/shared/customdomains"
	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/operation"
	"github.com/gatewright/gatewright/shared/pki/pkitest"
	"github.com/gatewright/gatewright/shared/store"
)

// TestChallengeIsAnsweredWhileItIsUnderWay, by the hostname's gateways alone, and to nobody
// afterwards, whatever the order has come to.
func TestChallengeIsAnsweredWhileItIsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, its, run := ordering(t)
		made := w.active(acme, customdomains.New{Hostname: api})
		w.active(acme, customdomains.New{Hostname: "other.example.com"})
		d := w.directory()
		ask := func(host, path string) string {
			t.Helper()
			w.set(w.at().Add(customdomains.Staleness))
			out := httptest.NewRecorder()
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+host+path, http.NoBody)
			d.Challenges(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })).ServeHTTP(out, r)
			if out.Code == http.StatusTeapot {
				return ""
			}
			return out.Body.String()
		}
		const path = "/.well-known/acme-challenge/"
		want := func(answer string, shaken bool) {
			t.Helper()
			for _, host := range []string{api, "API.Example.com", api + ":80"} {
				if got := ask(host, path+"true"); got != answer {
					t.Errorf("%s is answered %q, want %q", host, got, answer)
				}
			}
			for _, other := range [][2]string{{api, path + "other"}, {api, path}, {api, "/"}, {"other.example.com", path + "true"}, {"stranger.example.com", path + "true"}} {
				if got := ask(other[0], other[1]); got != "" {
					t.Errorf("%s is answered %q", other, got)
				}
			}
			if c, err := d.Challenge(t.Context(), api); (c != nil) != shaken || err != nil {
				t.Errorf("the handshake is answered with %v, %v", c, err)
			}
			var kept struct {
				TTL int64 `dynamodbav:"ttl"`
			}
			if err := w.parts.Table.Load(t.Context(), store.Want(store.Key{PK: "custom-domain-challenge#" + api, SK: "."}, &kept)); err != nil || (kept.TTL != 0) != (shaken || answer != "") {
				t.Errorf("the challenge is kept as %+v, %v", kept, err)
			}
			// The table removes by itself what is forgotten, and nothing while the order goes on.
			if left := time.Unix(kept.TTL, 0).Sub(w.at()); kept.TTL != 0 && (left < time.Hour || left > 48*time.Hour) {
				t.Errorf("the challenge is kept for %s", left)
			}
		}
		attempt := func(end bool) {
			t.Helper()
			now, err := w.Read(t.Context(), acme, api)
			if err != nil {
				t.Fatal(err)
			}
			its.slow = true
			w.set(now.Certificate.Next)
			r := run(now.Certificate.Operation)
			want(map[bool]string{true: "the answer"}[its.orders[len(its.orders)-1]], !its.orders[len(its.orders)-1])
			w.set(r.DueOn)
			if r = run(r.ID); r.Ended() {
				t.Errorf("it is given up at once: %+v", r)
			}
			if end {
				its.slow = false
			}
			for !r.Ended() {
				w.set(r.DueOn)
				r = run(r.ID)
			}
		}
		want("", false)
		attempt(false)
		want("", false)
		attempt(true)
		want("", false)
		if now, err := w.Read(t.Context(), acme, api); err != nil || now.Certificate.Failures != 0 || now.Certificate.Message != "" || now.Certificate.ValidTo.IsZero() || now.ID != made.ID {
			t.Errorf("it has come to %+v, %v", now.Certificate, err)
		}
		w.wantServed(d, "stranger.example.com", "")
		if u := w.asked(func(ctx context.Context) {
			r := httptest.NewRequestWithContext(ctx, http.MethodGet, "http://stranger.example.com"+path+"true", http.NoBody)
			d.Challenges(http.NotFoundHandler()).ServeHTTP(httptest.NewRecorder(), r)
		}); u != (store.Usage{}) {
			t.Errorf("a stranger's costs %+v", u)
		}
	})
}

// TestKeyOfAnOrderOpensForItAlone, and lies in the table as nobody can read it.
func TestKeyOfAnOrderOpensForItAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, its, run := ordering(t)
		its.slow = true
		var pending [2]struct {
			Pending []byte `dynamodbav:"pending"`
		}
		var made [2]customdomains.Domain
		at := func(i int) store.Key { return store.Key{PK: "custom-domain-challenge#" + made[i].Hostname, SK: "."} }
		for i, name := range []string{api, "b.example.com"} {
			made[i] = w.active(acme, customdomains.New{Hostname: name})
			w.set(made[i].Certificate.Next)
			run(made[i].Certificate.Operation)
			if err := w.parts.Table.Get(t.Context(), at(i), &pending[i]); err != nil {
				t.Fatal(err)
			}
			if _, err := x509.ParsePKCS8PrivateKey(pending[i].Pending); err == nil {
				t.Error("the key is not sealed")
			}
		}
		w.put(at(0), map[string]any{"pending": pending[1].Pending})
		its.slow = false
		for range 10 {
			w.set(w.at().Add(time.Minute))
			if run(made[0].Certificate.Operation).Ended() {
				break
			}
		}
		if d, err := w.Read(t.Context(), acme, api); err != nil || d.Certificate.Failures != 1 || !d.Certificate.ValidTo.IsZero() {
			t.Errorf("with another's key it comes to %+v, %v", d.Certificate, err)
		}
	})
}

// TestWhatAnAuthorityDoesNotIssueIsNoted: a message says what was wrong, and what is
// served is served on.
func TestWhatAnAuthorityDoesNotIssueIsNoted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, its, finish := obtaining(t)
		made := w.active(acme, customdomains.New{Hostname: api})
		finish("certify-" + made.ID + "-1")
		before, err := w.Read(t.Context(), acme, api)
		// Its renewal is proven as it was.
		if err != nil || before.Certificate.ValidTo.IsZero() || before.Certificate.Operation != "certify-"+made.ID+"-3" {
			t.Fatalf("it has %+v, %v", before.Certificate, err)
		}
		for n, tt := range []struct {
			wrong func()
			want  string
		}{
			{func() { its.refused = api }, "The authority refuses."},
			{func() {
				its.issues = func(csr *x509.CertificateRequest) string {
					csr.DNSNames = []string{"other.example.com"}
					return its.ca.Issue(t, csr, w.at()).PEM()
				}
			}, "issued is not for the hostname"},
			{func() { its.slow = true }, "has not issued the certificate within 15m"},
		} {
			its.refused, its.issues, its.slow = "", nil, false
			tt.wrong()
			d, err := w.Read(t.Context(), acme, api)
			if err != nil {
				t.Fatal(err)
			}
			w.set(d.Certificate.Next)
			began := w.at()
			if r := finish(d.Certificate.Operation); r.Status != operation.Success || w.at().Sub(began) > 20*time.Minute {
				t.Errorf("%s: ends after %s as %+v", tt.want, w.at().Sub(began), r)
			}
			c, err := w.Read(t.Context(), acme, api)
			if err != nil || !strings.Contains(c.Certificate.Message, tt.want) || c.Certificate.Failures != n+1 ||
				c.Certificate.ValidTo != before.Certificate.ValidTo || c.Certificate.Issuer != before.Certificate.Issuer {
				t.Errorf("%s: it is %+v, %v", tt.want, c.Certificate, err)
			}
		}
	})
}

// TestCertificateOfALyingAuthorityIsNotServed: what was served before is served on.
func TestCertificateOfALyingAuthorityIsNotServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, its, run := ordering(t)
		issue := func(change pkitest.Change) func(csr *x509.CertificateRequest) string {
			return func(csr *x509.CertificateRequest) string { return its.ca.Issue(t, csr, w.at(), change).PEM() }
		}
		n := 0
		for text, issues := range map[string]func(csr *x509.CertificateRequest) string{
			"not for the hostname": issue(func(c *pkitest.Template) { c.DNSNames = []string{"www.example.com"} }),
			"has expired":          issue(func(c *pkitest.Template) { c.NotAfter = w.at().Add(-time.Second) }),
			"is not valid yet":     issue(func(c *pkitest.Template) { c.NotBefore = w.at().Add(time.Hour) }),
			"is of a CA":           issue(func(c *pkitest.Template) { c.IsCA, c.BasicConstraintsValid = true, true }),
			"does not belong": func(*x509.CertificateRequest) string {
				return its.ca.Client(t, "another key", w.at(), func(c *pkitest.Template) {
					c.DNSNames, c.ExtKeyUsage = []string{fmt.Sprintf("n%d.example.com", n)}, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
				}).PEM()
			},
			"not in PEM": func(*x509.CertificateRequest) string { return "hello" },
			"bytes":      func(*x509.CertificateRequest) string { return strings.Repeat("x", 1<<20) },
		} {
			n++
			d := w.active(acme, customdomains.New{Hostname: fmt.Sprintf("n%d.example.com", n)})
			its.issues = issues
			for range 5 {
				r := run("certify-" + d.ID + "-1")
				if r.Ended() {
					break
				}
				w.set(r.DueOn)
			}
			d, err := w.Read(t.Context(), acme, d.Hostname)
			if err != nil || !strings.Contains(d.Certificate.Message, text) || len(d.Certificate.Message) > 500 || !d.Certificate.ValidTo.IsZero() ||
				!strings.HasSuffix(d.Certificate.Operation, "-2") {
				t.Errorf("%s: it is %+v, %v", text, d.Certificate, err)
			}
			if c, err := w.directory().Certificate(t.Context(), d.Hostname); c != nil || err != nil {
				t.Errorf("%s: it is served with %v, %v", text, c, err)
			}
		}
	})
}

// TestSlowAuthorityHasItsTimeFromTheOrderOn, however late that was placed.
func TestSlowAuthorityHasItsTimeFromTheOrderOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, its, run := ordering(t)
		its.slow = true
		d := w.active(acme, customdomains.New{Hostname: api})
		w.set(w.at().Add(3 * time.Hour)) // nobody worked
		placed := w.at()
		for range 200 {
			r := run("certify-" + d.ID + "-1")
			if r.Ended() {
				break
			}
			w.set(r.DueOn)
		}
		if waited := w.at().Sub(placed); waited < 15*time.Minute || waited > 20*time.Minute {
			t.Errorf("it is waited for %s", waited)
		}
	})
}

// TestOrderThatIsOvertakenChangesNothing: a certificate is uploaded, or the custom domain is
// deleted, while the order is under way, before the certificate is asked for or meanwhile.
func TestOrderThatIsOvertakenChangesNothing(t *testing.T) {
	upload := func(w *world) {
		for range 2 {
			w.upload(w.Service, api, pkitest.CA(t, "Own", w.at()))
		}
	}
	remove := func(by auth.Owner) func(w *world) {
		return func(w *world) {
			if err := w.Delete(w.request(), acme, api, ""); err != nil {
				t.Error(err)
			}
			w.active(by, customdomains.New{Hostname: api})
		}
	}
	for _, tt := range []struct {
		name              string
		issued, meanwhile bool
		overtake          func(w *world)
	}{
		{"issued after uploads", true, false, upload},
		{"issued after a deletion", true, false, remove(evil)},
		{"issued at uploads", true, true, upload},
		{"issued at a deletion", true, true, remove(evil)},
		{"issued where it is made anew", true, true, remove(acme)},
		{"refused at uploads", false, true, upload},
		{"refused at a deletion", false, true, remove(evil)},
		{"refused where it is made anew", false, true, remove(acme)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, its, run := ordering(t)
				made := w.active(acme, customdomains.New{Hostname: api})
				r := w.ordered(its, run, made)
				var before map[store.Key]store.Item
				overtake := func() error {
					tt.overtake(w)
					before = w.items.Items()
					if tt.issued {
						return nil
					}
					return fault.New(fault.Conflict, "The authority refuses.")
				}
				if tt.meanwhile {
					its.during = overtake
				} else {
					_ = overtake()
				}
				for ; !r.Ended(); r = run(r.ID) {
					w.set(r.DueOn)
				}
				if r.Status != operation.Success {
					t.Errorf("it ends as %+v", r)
				}
				for k, item := range w.items.Items() {
					if !strings.HasPrefix(k.PK, "operation") && !reflect.DeepEqual(item, before[k]) {
						t.Errorf("it has changed %v to %v", k, item)
					}
				}
			})
		})
	}
}

// TestOrdersOfAnAccountLeaveOthersTheirs: an authority counts those of all accounts together.
func TestOrdersOfAnAccountLeaveOthersTheirs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, its, run := ordering(t)
		w.set(w.at().Truncate(3 * time.Hour).Add(time.Hour))
		order := func(o auth.Owner, hostname string) operation.Record {
			return run("certify-" + w.active(o, customdomains.New{Hostname: hostname}).ID + "-1")
		}
		for n := range customdomains.MaxOrders {
			if r := order(acme, fmt.Sprintf("n%d.example.com", n)); !r.Ended() {
				t.Fatalf("order %d: %+v", n+1, r)
			}
		}
		late := order(acme, "late.example.com")
		if wait := late.DueOn.Sub(w.at()); late.Ended() || len(its.orders) != customdomains.MaxOrders || wait < 2*time.Hour || wait > 150*time.Minute {
			t.Errorf("one more waits for %s after %d orders", wait, len(its.orders))
		}
		if r := order(evil, "evil.example.org"); !r.Ended() {
			t.Errorf("the other account's waits too: %+v", r)
		}
		w.set(late.DueOn)
		if r := run(late.ID); !r.Ended() || len(its.orders) != customdomains.MaxOrders+2 {
			t.Errorf("later it comes to %+v after %d orders", r, len(its.orders))
		}
	})
}
