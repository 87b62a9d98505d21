package customdomains_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/resource/customdomains"
)

// wantChallengeBody requests the challenge of a host's first order, whose token is "false" (see fakeAuthority), and
// checks the response.
func (fx *fixture) wantChallengeBody(h http.Handler, host, want string) {
	fx.Helper()
	r := httptest.NewRequestWithContext(fx.Context(), http.MethodGet, "http://x/.well-known/acme-challenge/false",
		http.NoBody)
	r.Host = host
	out := httptest.NewRecorder()
	h.ServeHTTP(out, r)
	if out.Body.String() != want {
		fx.Errorf("GET challenge of %s = %q, want %q", host, out.Body, want)
	}
}

func TestUnknownChallengesArePassedOn(t *testing.T) {
	fx, _, _ := newIssuanceFixture(t)
	fx.createVerified(acme, customdomains.CreateInput{Hostname: api})
	h := fx.directory().Challenges(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusTeapot)
	}))
	for _, url := range []string{
		"http://" + api + "/", "http://" + api + "/.well-known/acme-challenge/x",
		"http://" + api + "/.well-known/acme-challenge/", "http://stranger.example.com/.well-known/acme-challenge/x",
	} {
		out := httptest.NewRecorder()
		h.ServeHTTP(out, httptest.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody))
		if out.Code != http.StatusTeapot {
			t.Errorf("GET %s: status = %d, want %d", url, out.Code, http.StatusTeapot)
		}
	}
}

// TestChallengeIsServedForEverySpelling requests the challenge with every spelling of the hostname that an authority
// may use. It also checks that the requests of one second take one read.
func TestChallengeIsServedForEverySpelling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fx, authority, run := newStepwiseFixture(t)
		created := fx.createVerified(acme, customdomains.CreateInput{Hostname: api})
		d := fx.directory()
		h := d.Challenges(http.NotFoundHandler())
		fx.setClock(fx.clock().Add(10 * time.Second))
		fx.wantServed(d, api, "")
		requestChallenges := func(ctx context.Context) {
			for range 100 {
				r := httptest.NewRequestWithContext(ctx, http.MethodGet, "http://"+api+"/.well-known/acme-challenge/x", http.NoBody)
				h.ServeHTTP(httptest.NewRecorder(), r)
				if _, err := d.Challenge(ctx, api); err != nil {
					t.Fatal(err)
				}
			}
		}
		if u := fx.usageOf(requestChallenges); u != (store.Usage{Reads: 1}) {
			t.Errorf("challenge requests of a host without an order use %+v, want 1 read", u)
		}
		fx.placeOrder(authority, run, created)
		fx.setClock(fx.clock().Add(time.Second))
		for _, host := range []string{api, "API.example.COM", api + ".", api + ":80", api + ".:80"} {
			fx.wantChallengeBody(h, host, "the answer")
		}
		fx.wantChallengeBody(h, "www."+api, "404 page not found\n")
	})
}

// TestChallengeOfDeletedDomainIsNotServed deletes a custom domain during an order. Another account then creates it
// again, and gateways must not serve the earlier challenge.
func TestChallengeOfDeletedDomainIsNotServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fx, authority, run := newStepwiseFixture(t)
		d := fx.directory()
		h := d.Challenges(http.NotFoundHandler())
		fx.placeOrder(authority, run, fx.createVerified(acme, customdomains.CreateInput{Hostname: api}))
		fx.setClock(fx.clock().Add(10 * time.Second))
		fx.wantChallengeBody(h, api, "the answer")
		if err := fx.Delete(fx.requestContext(), acme, api, ""); err != nil {
			t.Fatal(err)
		}
		fx.createVerified(otherAccount, customdomains.CreateInput{Hostname: api})
		fx.setClock(fx.clock().Add(10 * time.Second))
		fx.wantChallengeBody(h, api, "404 page not found\n")
	})
}
