package relay_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/dataplane/relay"
)

// passCase is a request with its passes, and the status of its response.
type passCase struct {
	name           string
	method, target string
	passes         []string
	want           int
}

// passCases returns a valid pass, and requests with valid and invalid passes.
func passCases(fx *fixture) (validPass string, cases []passCase) {
	const target = "/ask/x?q=1"
	const accepted, refused = http.StatusOK, http.StatusUnauthorized
	valid := relay.Claims{AccountID: account, Service: "api", Project: shop.Project, Environment: shop.Environment}
	tooLong := valid
	tooLong.AccountID = strings.Repeat("a", 2048)
	signer := fx.client("a:443")
	otherSigner := fx.clientWith("a:443", rootKey(2))
	pass := func(client *relay.Client, c relay.Claims, after time.Duration) string {
		r := fx.request(http.MethodGet, target, nil)
		r.URL.Scheme, r.URL.Host = "https", "a:443"
		text, err := client.Pass(r, c, after)
		if err != nil {
			fx.Fatalf("Pass() error = %v, want none", err)
		}
		return text
	}
	validPass = pass(signer, valid, 0)
	claims, signature, _ := strings.Cut(validPass, ".")
	// swapped returns a pass with changed claims and the signature of the valid pass.
	swapped := func(change func(c *relay.Claims)) string {
		c := valid
		change(&c)
		changed, _, _ := strings.Cut(pass(signer, c, 0), ".")
		return changed + "." + signature
	}
	return validPass, []passCase{
		{"a valid pass", "GET", target, []string{validPass}, accepted},
		{"no pass", "GET", target, nil, refused},
		{"an empty pass", "GET", target, []string{""}, refused},
		{"two passes", "GET", target, []string{validPass, validPass}, refused},
		{"a pass that is too long", "GET", target, []string{pass(signer, tooLong, 0)}, refused},
		{"a pass without a signature", "GET", target, []string{claims}, refused},
		{"a pass with invalid base64", "GET", target, []string{"%." + signature}, refused},
		{
			"a pass with an invented signature", "GET", target,
			[]string{base64.RawURLEncoding.EncodeToString([]byte(`{"account":"a-1","service":"api"}`)) + "." +
				strings.Repeat("A", 43)},
			refused,
		},
		{"a pass of another installation", "GET", target, []string{pass(otherSigner, valid, 0)}, refused},
		{"a pass for another path", "GET", "/ask/y?q=1", []string{validPass}, refused},
		{"a pass for another query", "GET", "/ask/x?q=2", []string{validPass}, refused},
		{"a pass for another method", "DELETE", "/ask/x?q=1", []string{validPass}, refused},
		{
			"a pass for another account", "GET", target,
			[]string{swapped(func(c *relay.Claims) { c.AccountID = "a-2" })},
			refused,
		},
		{
			"a pass for another service", "GET", target,
			[]string{swapped(func(c *relay.Claims) { c.Service = "other" })},
			refused,
		},
		{
			"a pass for another project", "GET", target,
			[]string{swapped(func(c *relay.Claims) { c.Project = "blog" })},
			refused,
		},
		{
			"a pass for another environment", "GET", target,
			[]string{swapped(func(c *relay.Claims) { c.Environment = "preview" })},
			refused,
		},
		{"a forwarded pass", "GET", target, []string{swapped(func(c *relay.Claims) { c.Forwarded = true })}, refused},
		{
			"an expired pass", "GET", target,
			[]string{pass(signer, valid, -relay.PassLifetime-relay.MaxClockSkew-time.Millisecond)},
			refused,
		},
		{
			"a pass of a slow clock", "GET", target,
			[]string{pass(signer, valid, -relay.PassLifetime-relay.MaxClockSkew)},
			accepted,
		},
		{"a pass of a fast clock", "GET", target, []string{pass(signer, valid, relay.MaxClockSkew)}, accepted},
		{
			"a pass from the future", "GET", target, []string{pass(signer, valid, relay.MaxClockSkew+time.Millisecond)}, refused,
		},
	}
}

// TestPassIsValidOnlyForItsRequest checks the status of requests with valid and invalid passes. It also checks that
// the log has the reasons of refusals, and no pass or token.
func TestPassIsValidOnlyForItsRequest(t *testing.T) {
	withFixture(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), func(fx *fixture) {
		fx.relay("a:443")
		fx.agent("a:443", 2)
		validPass, cases := passCases(fx)
		for _, tt := range cases {
			header := http.Header{}
			if tt.passes != nil {
				header[relay.FieldPass] = tt.passes
			}
			if got := fx.raw("a:443", tt.method, tt.target, header); got.StatusCode != tt.want {
				fx.Errorf("request with the pass %q: status = %s, want %d", tt.name, got.Status, tt.want)
			}
		}
		logged := fx.logged.String()
		for _, reason := range []string{"do the clocks differ", "not signed", "no pass"} {
			if !strings.Contains(logged, reason) {
				fx.Errorf("log lacks the reason of a refusal, want %q:\n%s", reason, logged)
			}
		}
		for _, secret := range append(strings.Split(validPass, "."), token) {
			if strings.Contains(logged, secret) {
				fx.Errorf("log contains %q, want no secret:\n%s", secret, logged)
			}
		}
	})
}

// TestPassIsNotForwardedToServices checks that the service receives no pass, even if a gateway's client has sent one.
func TestPassIsNotForwardedToServices(t *testing.T) {
	var got http.Header
	withFixture(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		got = r.Header.Clone()
	}), func(fx *fixture) {
		_, _, clients := newCallers(fx)
		for caller, client := range clients {
			r := fx.request(http.MethodGet, "/", nil)
			r.Header = http.Header{relay.FieldPass: {"theirs"}, "X-Their": {"own"}}
			response, err := client.RoundTrip(r, account, "api", shop)
			if _, err := read(response, err); err != nil {
				fx.Errorf("RoundTrip() by %s: error = %v, want none", caller, err)
			}
			if len(got[relay.FieldPass]) > 0 || got.Get("X-Their") != "own" {
				fx.Errorf("GET by %s: header at the service = %v, want X-Their and no pass", caller, got)
			}
		}
	})
}

// TestPassRefusalIsReported checks that the error for a pass that was signed with
// another root key mentions clocks and root keys.
func TestPassRefusalIsReported(t *testing.T) {
	withFixture(t, nil, func(fx *fixture) {
		fx.relay("a:443")
		_, err := fx.get(fx.clientWith("a:443", rootKey(2)), "/")
		if err == nil || !strings.Contains(err.Error(), "do the clocks differ, or the root keys?") {
			fx.Errorf("GET / with a pass of another root key: error = %v, want it to ask about clocks and root keys", err)
		}
	})
}

// TestRefusalLogIsRateLimited checks that many refused requests cause few log
// lines, and that a later line has the number of refusals that were not logged.
func TestRefusalLogIsRateLimited(t *testing.T) {
	withFixture(t, nil, func(fx *fixture) {
		fx.relay("a:443")
		const requests = 200
		for range requests {
			fx.raw("a:443", http.MethodGet, "/ask/x", nil)
		}
		lines := strings.Count(fx.logged.String(), "a request is refused")
		if lines < 10 || lines > 30 {
			fx.Errorf("log lines of %d refusals = %d, want 10 to 30", requests, lines)
		}
		time.Sleep(time.Minute)
		fx.raw("a:443", http.MethodGet, "/ask/x", nil)
		if want := fmt.Sprintf("untold=%d\n", requests-lines); !strings.Contains(fx.logged.String(), want) {
			fx.Errorf("log has no line that ends with %q:\n%s", want, fx.logged.String())
		}
	})
}
