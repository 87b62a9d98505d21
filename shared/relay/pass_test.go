package relay_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/relay"
)

// TestPassIsGoodForItsRequestAlone asks with passes that are good, and with such that are not.
func TestPassIsGoodForItsRequestAlone(t *testing.T) {
	its := relay.Claims{AccountID: account, Service: "api", Project: shop.Project, Environment: shop.Environment}
	other := func(change func(c *relay.Claims)) relay.Claims {
		c := its
		change(&c)
		return c
	}
	const answered, refused = http.StatusOK, http.StatusUnauthorized
	inWorld(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), func(w *world) {
		w.relay("a:443")
		w.agent("a:443", 2)
		signs := w.client("a:443")
		strange := w.clientWith("a:443", rootKey(2))
		pass := func(by *relay.Client, c relay.Claims, method, target string, after time.Duration) string {
			r := w.request(method, target, nil)
			r.URL.Scheme, r.URL.Host = "https", "a:443"
			text, err := by.Pass(r, c, after)
			if err != nil {
				w.Fatal(err)
			}
			return text
		}
		good := pass(signs, its, http.MethodGet, "/ask/x?q=1", 0)
		// swapped has the claims of one pass and the signature of another.
		swapped := func(c relay.Claims) string {
			claims, _, _ := strings.Cut(pass(signs, c, http.MethodGet, "/ask/x?q=1", 0), ".")
			_, signature, _ := strings.Cut(good, ".")
			return claims + "." + signature
		}
		for _, tt := range []struct {
			name           string
			method, target string
			passes         []string
			want           int
		}{
			{"a good one", "GET", "/ask/x?q=1", []string{good}, answered},
			{"none", "GET", "/ask/x?q=1", nil, refused},
			{"an empty one", "GET", "/ask/x?q=1", []string{""}, refused},
			{"two", "GET", "/ask/x?q=1", []string{good, good}, refused},
			{"one that is too long", "GET", "/ask/x?q=1", []string{pass(signs, other(func(c *relay.Claims) { c.AccountID = strings.Repeat("a", 2048) }), http.MethodGet, "/ask/x?q=1", 0)}, refused},
			{"one without a signature", "GET", "/ask/x?q=1", []string{strings.Split(good, ".")[0]}, refused},
			{"one that is no base64", "GET", "/ask/x?q=1", []string{"%." + strings.Split(good, ".")[1]}, refused},
			{"one that nobody signed", "GET", "/ask/x?q=1", []string{base64.RawURLEncoding.EncodeToString([]byte(`{"account":"a-1","service":"api"}`)) + "." + strings.Repeat("A", 43)}, refused},
			{"one of another installation", "GET", "/ask/x?q=1", []string{pass(strange, its, http.MethodGet, "/ask/x?q=1", 0)}, refused},
			{"one for another path", "GET", "/ask/y?q=1", []string{good}, refused},
			{"one for another query", "GET", "/ask/x?q=2", []string{good}, refused},
			{"one for another method", "DELETE", "/ask/x?q=1", []string{good}, refused},
			{"one for another account", "GET", "/ask/x?q=1", []string{swapped(other(func(c *relay.Claims) { c.AccountID = "a-2" }))}, refused},
			{"one for another service", "GET", "/ask/x?q=1", []string{swapped(other(func(c *relay.Claims) { c.Service = "other" }))}, refused},
			{"one for another project", "GET", "/ask/x?q=1", []string{swapped(other(func(c *relay.Claims) { c.Project = "blog" }))}, refused},
			{"one for another environment", "GET", "/ask/x?q=1", []string{swapped(other(func(c *relay.Claims) { c.Environment = "preview" }))}, refused},
			{"one of a relay", "GET", "/ask/x?q=1", []string{swapped(other(func(c *relay.Claims) { c.Passed = true }))}, refused},
			{"an old one", "GET", "/ask/x?q=1", []string{pass(signs, its, "GET", "/ask/x?q=1", -relay.PassLife-relay.ClockDifference-time.Millisecond)}, refused},
			{"one of a clock that is behind", "GET", "/ask/x?q=1", []string{pass(signs, its, "GET", "/ask/x?q=1", -relay.PassLife-relay.ClockDifference)}, answered},
			{"one of a clock that is ahead", "GET", "/ask/x?q=1", []string{pass(signs, its, "GET", "/ask/x?q=1", relay.ClockDifference)}, answered},
			{"one from the future", "GET", "/ask/x?q=1", []string{pass(signs, its, "GET", "/ask/x?q=1", relay.ClockDifference+time.Millisecond)}, refused},
		} {
			header := http.Header{}
			if tt.passes != nil {
				header[relay.FieldPass] = tt.passes
			}
			if got := w.raw("a:443", tt.method, tt.target, header); got.StatusCode != tt.want {
				w.Errorf("%s is answered %s, want %d", tt.name, got.Status, tt.want)
			}
		}
		logged := w.logged.String()
		if !strings.Contains(logged, "do the clocks differ") || !strings.Contains(logged, "not signed") || !strings.Contains(logged, "no pass") {
			w.Errorf("the log does not say why:\n%s", logged)
		}
		for _, secret := range append(strings.Split(good, "."), token) {
			if strings.Contains(logged, secret) {
				w.Errorf("%q is in the log:\n%s", secret, logged)
			}
		}
	})
}

// TestPassIsForRelaysAlone looks for it at the service, and has a gateway send one of its own.
func TestPassIsForRelaysAlone(t *testing.T) {
	var got http.Header
	inWorld(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r.Header.Clone() }), func(w *world) {
		_, _, by := ways(w)
		for way, by := range by {
			r := w.request(http.MethodGet, "/", nil)
			r.Header = http.Header{relay.FieldPass: {"theirs"}, "X-Their": {"own"}}
			response, err := by.RoundTrip(r, account, "api", shop)
			if _, err := read(response, err); err != nil {
				w.Errorf("%s answers %v", way, err)
			}
			if len(got[relay.FieldPass]) > 0 || got.Get("X-Their") != "own" {
				w.Errorf("by %s the service gets %v", way, got)
			}
		}
	})
}

// TestRelayThatRefusesThePassIsNamed has a gateway whose clock is wrong.
func TestRelayThatRefusesThePassIsNamed(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		w.relay("a:443")
		_, err := w.get(w.clientWith("a:443", rootKey(2)), "/")
		if err == nil || !strings.Contains(err.Error(), "do the clocks differ, or the root keys?") {
			w.Errorf("it answers %v", err)
		}
	})
}

// TestRefusalsFillNoLog has a stranger ask on and on.
func TestRefusalsFillNoLog(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		w.relay("a:443")
		const asked = 200
		for range asked {
			w.raw("a:443", http.MethodGet, "/ask/x", nil)
		}
		lines := strings.Count(w.logged.String(), "a request is refused")
		if lines < 10 || lines > 30 {
			w.Errorf("%d refusals have %d lines", asked, lines)
		}
		time.Sleep(time.Minute)
		w.raw("a:443", http.MethodGet, "/ask/x", nil)
		if want := fmt.Sprintf("untold=%d\n", asked-lines); !strings.Contains(w.logged.String(), want) {
			w.Errorf("the log does not have %s:\n%s", want, w.logged.String())
		}
	})
}
