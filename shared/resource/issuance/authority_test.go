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

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/storetest"
	"github.com/gatewright/gatewright/shared/resource/customdomains"
	"github.com/gatewright/gatewright/shared/resource/issuance"
	"github.com/gatewright/gatewright/shared/testing/deadline"
)

// rewriteJSON calls change for each JSON response of the authority before the installation receives it. If change is
// nil, responses are no longer changed. rewriteJSON forgets the requests that were recorded before.
func (i *interceptor) rewriteJSON(change func(path string, status *int, body map[string]any)) {
	if change == nil {
		i.setIntercept(nil)
		return
	}
	i.setIntercept(func(r *http.Request, send func() (*http.Response, error)) (*http.Response, error) {
		resp, err := send()
		if err != nil || !strings.Contains(resp.Header.Get("Content-Type"), "json") {
			return resp, err
		}
		body := map[string]any{}
		err = json.NewDecoder(resp.Body).Decode(&body)
		_ = resp.Body.Close()
		if err != nil {
			return nil, err
		}
		change(r.URL.Path, &resp.StatusCode, body)
		encoded, err := json.Marshal(body)
		resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(encoded)), int64(len(encoded))
		return resp, err
	})
}

// These are paths of Pebble, like orderPath.
const (
	accountsPath   = "/sign-me-up"
	authzPath      = "/authZ/"
	challengesPath = "/chalZ/"
)

// newProcess returns the Authority of another process of the fixture's installation, and the transport between this
// Authority and Pebble.
func (fx *fixture) newProcess() (*issuance.Authority, *interceptor) {
	transport := &interceptor{inner: fx.authority.transport.inner}
	return issuance.Open(fx.parts, transport), transport
}

// placeOrder places an order with the HTTP-01 challenge if byHTTP is true, otherwise with TLS-ALPN-01.
func (fx *fixture) placeOrder(a *issuance.Authority, hostname string, byHTTP bool) customdomains.Order {
	fx.Helper()
	o, err := a.Order(fx.Context(), hostname, byHTTP)
	if err != nil || o.URL == "" {
		fx.Fatalf("Order(%s) = %+v, %v, want an order with a URL", hostname, o, err)
	}
	return o
}

// TestProcessesShareOneAccount checks that all processes use the same account at an authority, even if two of them
// create it concurrently, and that the account's key is sealed in the table. At another
// authority, the installation registers another account. The sealed key of one authority cannot be used for another.
func TestProcessesShareOneAccount(t *testing.T) {
	fx := newFixture(t)
	second, _ := fx.newProcess()
	var concurrentOrder customdomains.Order
	table := fx.parts.Table
	fx.parts.Table = storetest.NewWithBackend(t, &storetest.Interrupted{Backend: fx.items, BeforeCommit: func() {
		concurrentOrder = fx.placeOrder(second, "b.example.com", false)
	}})
	first, transport := fx.newProcess()
	fx.parts.Table = table
	firstOrder := fx.placeOrder(first, "api.example.com", true)
	if fx.placeOrder(first, "c.example.com", true); transport.count(accountsPath) != 1 {
		t.Errorf("requests = %v, want 1 registration for all orders", transport.requests)
	}
	third, _ := fx.newProcess()
	for _, o := range []customdomains.Order{firstOrder, concurrentOrder} {
		if chain, err := third.Finish(t.Context(), o, nil); chain != "" || err != nil {
			t.Errorf("Finish() in a third process = %q, %v, want no certificate yet and no error", chain, err)
		}
	}
	directory := fx.parts.Config.ACMEDirectory
	keyOf := func(directory string) store.Key { return store.Key{PK: "acme-account#" + directory, SK: "."} }
	var stored struct {
		Key []byte `dynamodbav:"key"`
	}
	if err := table.Get(t.Context(), keyOf(directory), &stored); err != nil {
		t.Fatal(err)
	}
	if _, err := x509.ParseECPrivateKey(stored.Key); err == nil {
		t.Error("the account's stored key is a plain EC private key, want it sealed")
	}
	// At another authority, the installation has another account.
	fx.parts.Config.ACMEDirectory = directory + "?another"
	other, _ := fx.newProcess()
	fx.placeOrder(other, "d.example.com", false)
	fx.parts.Config.ACMEDirectory = directory + "?a-third"
	if err := table.Commit(t.Context(), store.Put(keyOf(fx.parts.Config.ACMEDirectory), stored)); err != nil {
		t.Fatal(err)
	}
	other, _ = fx.newProcess()
	if _, err := other.Order(t.Context(), "e.example.com", false); err == nil {
		t.Error("Order() with the account key of another authority succeeds, want an error")
	}
	fx.parts.Config.ACMEDirectory = ""
	withoutAuthority, _ := fx.newProcess()
	if _, err := withoutAuthority.Order(t.Context(), "e.example.com", false); !fault.Is(err, fault.Conflict) ||
		!strings.Contains(err.Error(), "no certificate authority") {
		t.Errorf("Order() without an authority: error = %v, want %v: no certificate authority", err, fault.Conflict)
	}
}

// TestRefusalsAreShownToOwner checks that the owner sees the authority's refusals, and that internal errors of the
// authority are retried and not shown. The owner also sees which challenge type the authority does not offer.
func TestRefusalsAreShownToOwner(t *testing.T) {
	fx := newFixture(t)
	a, transport := fx.newProcess()
	for status, shown := range map[int]bool{
		http.StatusTooManyRequests: true, http.StatusForbidden: true,
		http.StatusInternalServerError: false,
	} {
		transport.rewriteJSON(func(path string, statusCode *int, body map[string]any) {
			if path == orderPath {
				*statusCode = status
				body["type"], body["detail"] = "urn:ietf:params:acme:error:rateLimited", "Too many certificates."
			}
		})
		_, err := a.Order(t.Context(), "api.example.com", false)
		if err == nil || fault.Is(err, fault.Conflict) != shown ||
			shown && !strings.Contains(err.Error(), "Too many certificates.") {
			t.Errorf("Order() after status %d: error = %v, want the authority's reason: %t", status, err, shown)
		}
	}
	transport.rewriteJSON(func(path string, _ *int, body map[string]any) {
		if strings.HasPrefix(path, authzPath) {
			body["challenges"] = []any{}
		}
	})
	for kind, byHTTP := range map[string]bool{"http-01": true, "tls-alpn-01": false} {
		if _, err := a.Order(t.Context(), "api.example.com", byHTTP); !fault.Is(err, fault.Conflict) ||
			!strings.Contains(err.Error(), kind) {
			t.Errorf("Order() of an authority without %s: error = %v, want %v that names it", kind, err, fault.Conflict)
		}
	}
}

// TestChallengeIsAcceptedOnce checks that Accept sends no request for a challenge that the authority is validating or
// has validated.
func TestChallengeIsAcceptedOnce(t *testing.T) {
	fx := newFixture(t)
	a, transport := fx.newProcess()
	o := fx.placeOrder(a, "api.example.com", true)
	for name, rewrite := range map[string]func(body map[string]any){
		"a challenge in validation": func(body map[string]any) {
			for _, c := range body["challenges"].([]any) {
				c.(map[string]any)["status"] = "processing"
			}
		},
		"a valid challenge": func(body map[string]any) { body["status"] = "valid" },
	} {
		transport.rewriteJSON(func(path string, _ *int, body map[string]any) {
			if strings.HasPrefix(path, authzPath) {
				rewrite(body)
			}
		})
		if err := a.Accept(t.Context(), o); err != nil || transport.count(challengesPath) != 0 {
			t.Errorf("Accept(%s) error = %v, requests = %v, want no error and no request of a challenge",
				name, err, transport.requests)
		}
	}
	transport.rewriteJSON(nil)
	if err := a.Accept(t.Context(), o); err != nil || transport.count(challengesPath) != 1 {
		t.Errorf("Accept() error = %v, requests = %v, want no error and 1 request of a challenge", err, transport.requests)
	}
}

// TestValidatedHostnameHasNoChallenge checks an order that is pending although its authorization is already valid. Such
// an authorization need not contain a challenge of the requested type (RFC 8555, section 7.1.4).
func TestValidatedHostnameHasNoChallenge(t *testing.T) {
	fx := newFixture(t)
	a, transport := fx.newProcess()
	transport.rewriteJSON(func(path string, _ *int, body map[string]any) {
		if strings.HasPrefix(path, authzPath) {
			body["status"], body["challenges"] = "valid", []any{}
		}
	})
	if o := fx.placeOrder(a, "api.example.com", true); o.Challenge != "" {
		t.Errorf("Order(validated hostname) = %+v, want no challenge", o)
	}
}

// TestFinishIsIdempotent checks that a second Finish of an order returns the same chain, even with another certificate
// request (CSR). A worker may have died after the first response.
func TestFinishIsIdempotent(t *testing.T) {
	t.Setenv("PEBBLE_AUTHZREUSE", "100")
	fx := newFixture(t)
	d := fx.finish(fx.createVerified("api.example.com"), 1)
	fx.clockOffset.Store(0) // Pebble's clock does not advance
	if c := fx.finish(d, 3).Certificate; c.Failures != 0 || c.Operation == d.Certificate.Operation {
		t.Errorf("certificate after the renewal = %+v, want no failures and another operation than %s",
			c, d.Certificate.Operation)
	}
	a, _ := fx.newProcess()
	o := fx.placeOrder(a, "api.example.com", true)
	if o.Challenge != "" {
		t.Errorf("Order(validated hostname) = %+v, want no challenge", o)
	}
	ctx, cancel := context.WithTimeout(t.Context(), deadline.Timeout())
	defer cancel()
	var chains [2]string
	for i := range chains {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		csr, err := x509.CreateCertificateRequest(rand.Reader,
			&x509.CertificateRequest{DNSNames: []string{"api.example.com"}}, key)
		if err != nil {
			t.Fatal(err)
		}
		if chains[i], err = a.Finish(ctx, o, csr); err != nil {
			t.Fatalf("Finish() call %d: error = %v, want none", i+1, err)
		}
	}
	if n := strings.Count(chains[0], "BEGIN CERTIFICATE"); chains[0] != chains[1] || n != 2 {
		t.Errorf("Finish() = %q, then %q, want the same chain of 2 certificates", chains[0], chains[1])
	}
}
