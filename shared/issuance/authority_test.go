package issuance_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/internal/deadline"
	"github.com/gatewright/gatewright/shared/customdomains"
	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/issuance"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/storetest"
)

// rewrites has what the authority answers in JSON changed, nil for no more.
func (b *between) rewrites(change func(path string, status *int, body map[string]any)) {
	if change == nil {
		b.set(nil)
		return
	}
	b.set(func(r *http.Request, ask func() (*http.Response, error)) (*http.Response, error) {
		a, err := ask()
		if err != nil || !strings.Contains(a.Header.Get("Content-Type"), "json") {
			return a, err
		}
		body := map[string]any{}
		err = json.NewDecoder(a.Body).Decode(&body)
		_ = a.Body.Close()
		if err != nil {
			return nil, err
		}
		change(r.URL.Path, &a.StatusCode, body)
		text, err := json.Marshal(body)
		a.Body, a.ContentLength = io.NopCloser(bytes.NewReader(text)), int64(len(text))
		return a, err
	})
}

// Pebble's paths, beside orderPath.
const (
	accounts   = "/sign-me-up"
	authz      = "/authZ/"
	challenges = "/chalZ/"
)

// process is another process of the house's installation, and what stands between it and Pebble.
func (h *house) process() (*issuance.Authority, *between) {
	b := &between{inner: h.its.transport.inner}
	return issuance.Open(h.parts, b), b
}

func (h *house) order(a *issuance.Authority, hostname string, byHTTP bool) customdomains.Order {
	h.Helper()
	o, err := a.Order(h.Context(), hostname, byHTTP)
	if err != nil || o.URL == "" {
		h.Fatalf("ordered %+v, %v", o, err)
	}
	return o
}

// TestInstallationHasOneAccount at each authority, for all processes, also where two make it at
// once; its key lies in the table as nobody can read it.
func TestInstallationHasOneAccount(t *testing.T) {
	h := newHouse(t)
	second, _ := h.process()
	var others customdomains.Order
	table := h.parts.Table
	h.parts.Table = storetest.Over(t, &storetest.Interrupted{Backend: h.items, First: func() { others = h.order(second, "b.example.com", false) }})
	first, b := h.process()
	h.parts.Table = table
	own := h.order(first, "api.example.com", true)
	if h.order(first, "c.example.com", true); b.count(accounts) != 1 {
		t.Errorf("it registers anew for each order: %v", b.asked)
	}
	third, _ := h.process()
	for _, o := range []customdomains.Order{own, others} {
		if chain, err := third.Finish(t.Context(), o, nil); chain != "" || err != nil {
			t.Errorf("a third process finds %q, %v", chain, err)
		}
	}
	directory := h.parts.Config.ACMEDirectory
	at := func(directory string) store.Key { return store.Key{PK: "acme-account#" + directory, SK: "."} }
	var kept struct {
		Key []byte `dynamodbav:"key"`
	}
	if err := table.Get(t.Context(), at(directory), &kept); err != nil {
		t.Fatal(err)
	}
	if _, err := x509.ParseECPrivateKey(kept.Key); err == nil {
		t.Error("the account's key is not sealed")
	}
	// Another authority knows nothing of it.
	h.parts.Config.ACMEDirectory = directory + "?another"
	elsewhere, _ := h.process()
	h.order(elsewhere, "d.example.com", false)
	h.parts.Config.ACMEDirectory = directory + "?a-third"
	if err := table.Commit(t.Context(), store.Put(at(h.parts.Config.ACMEDirectory), kept)); err != nil {
		t.Fatal(err)
	}
	elsewhere, _ = h.process()
	if _, err := elsewhere.Order(t.Context(), "e.example.com", false); err == nil {
		t.Error("the key of one authority's account opens for another's")
	}
	h.parts.Config.ACMEDirectory = ""
	none, _ := h.process()
	if _, err := none.Order(t.Context(), "e.example.com", false); !fault.Is(err, fault.Conflict) || !strings.Contains(err.Error(), "no certificate authority") {
		t.Errorf("without an authority: %v", err)
	}
}

// TestWhatAnAuthorityRefusesIsTold, and what is wrong with it is not: that is tried again.
func TestWhatAnAuthorityRefusesIsTold(t *testing.T) {
	h := newHouse(t)
	a, b := h.process()
	for status, told := range map[int]bool{http.StatusTooManyRequests: true, http.StatusForbidden: true, http.StatusInternalServerError: false} {
		b.rewrites(func(path string, of *int, body map[string]any) {
			if path == orderPath {
				*of = status
				body["type"], body["detail"] = "urn:ietf:params:acme:error:rateLimited", "Too many certificates."
			}
		})
		_, err := a.Order(t.Context(), "api.example.com", false)
		if err == nil || fault.Is(err, fault.Conflict) != told || told && !strings.Contains(err.Error(), "Too many certificates.") {
			t.Errorf("%d is told as %v", status, err)
		}
	}
	b.rewrites(func(path string, _ *int, body map[string]any) {
		if strings.HasPrefix(path, authz) {
			body["challenges"] = []any{}
		}
	})
	for kind, byHTTP := range map[string]bool{"http-01": true, "tls-alpn-01": false} {
		if _, err := a.Order(t.Context(), "api.example.com", byHTTP); !fault.Is(err, fault.Conflict) || !strings.Contains(err.Error(), kind) {
			t.Errorf("an authority without %s: %v", kind, err)
		}
	}
}

// TestChallengeIsAcceptedOnce, however often a worker tries.
func TestChallengeIsAcceptedOnce(t *testing.T) {
	h := newHouse(t)
	a, b := h.process()
	o := h.order(a, "api.example.com", true)
	for name, rewrite := range map[string]func(body map[string]any){
		"a challenge under way": func(body map[string]any) {
			for _, c := range body["challenges"].([]any) {
				c.(map[string]any)["status"] = "processing"
			}
		},
		"one that was proven": func(body map[string]any) { body["status"] = "valid" },
	} {
		b.rewrites(func(path string, _ *int, body map[string]any) {
			if strings.HasPrefix(path, authz) {
				rewrite(body)
			}
		})
		if err := a.Accept(t.Context(), o); err != nil || b.count(challenges) != 0 {
			t.Errorf("%s: %v, asked %v", name, err, b.asked)
		}
	}
	b.rewrites(nil)
	if err := a.Accept(t.Context(), o); err != nil || b.count(challenges) != 1 {
		t.Errorf("%v, asked %v", err, b.asked)
	}
}

// TestProvenHostnameHasNoChallenge: not where the order does not say so yet, whose authorization then
// has the challenges alone by which it was proven (RFC 8555, section 7.1.4).
func TestProvenHostnameHasNoChallenge(t *testing.T) {
	h := newHouse(t)
	a, b := h.process()
	b.rewrites(func(path string, _ *int, body map[string]any) {
		if strings.HasPrefix(path, authz) {
			body["status"], body["challenges"] = "valid", []any{}
		}
	})
	if o := h.order(a, "api.example.com", true); o.Challenge != "" {
		t.Errorf("ordered %+v", o)
	}
}

// TestFinishedOrderGivesItsCertificateAgain: a worker may have died with the first answer.
func TestFinishedOrderGivesItsCertificateAgain(t *testing.T) {
	t.Setenv("PEBBLE_AUTHZREUSE", "100")
	h := newHouse(t)
	d := h.finish(h.active("api.example.com"), 1)
	h.ahead.Store(0) // the authority's own clock stands
	if c := h.finish(d, 3).Certificate; c.Failures != 0 || c.Operation == d.Certificate.Operation {
		t.Errorf("renewed without another proof it is %+v", c)
	}
	a, _ := h.process()
	o := h.order(a, "api.example.com", true)
	if o.Challenge != "" {
		t.Errorf("what was proven is to be proven again: %+v", o)
	}
	ctx, cancel := context.WithTimeout(t.Context(), deadline.Long())
	defer cancel()
	var chains [2]string
	for i := range chains {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		csr, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{DNSNames: []string{"api.example.com"}}, key)
		if err != nil {
			t.Fatal(err)
		}
		if chains[i], err = a.Finish(ctx, o, csr); err != nil {
			t.Fatal(err)
		}
	}
	if n := strings.Count(chains[0], "BEGIN CERTIFICATE"); chains[0] != chains[1] || n != 2 {
		t.Errorf("the order gives %q, and %q", chains[0], chains[1])
	}
}
