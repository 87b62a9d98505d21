package gateway_test

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/base/ids"
	"github.com/gatewright/gatewright/shared/dataplane/gateway/policy"
	"github.com/gatewright/gatewright/shared/format/credential"
	"github.com/gatewright/gatewright/shared/format/project"
)

// headers responds with the header of the request as JSON, with its path in X-Path, and with its query in X-Query.
func headers(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-Path", r.URL.Path)
	w.Header().Set("X-Query", r.URL.RawQuery)
	_ = json.NewEncoder(w).Encode(r.Header)
}

// headersOf returns the header that an upstream with the handler headers has received.
func headersOf(t *testing.T, r *http.Response) http.Header {
	t.Helper()
	h := http.Header{}
	text := body(t, r)
	if err := json.Unmarshal([]byte(text), &h); err != nil {
		t.Fatalf("response with status %d: body = %s: %v, want the header that the upstream got", r.StatusCode, text, err)
	}
	return h
}

// newKeyFixture returns a fixture whose route GET /x requires a key, and a valid key. options are the options of the
// policy. The upstream responds with the handler headers.
func newKeyFixture(t *testing.T, options map[string]any) (h *fixture, validKey string) {
	t.Helper()
	a := artifact(route("GET /x", rewrite(serve(t, headers).URL+"/${request.user.sub}/${request.user.data.plan}"), "key"))
	declare(a, "key", "api-key-inbound", options)
	h = newFixture(t, a)
	validKey = credential.New(credential.ConsumerKey, ids.NewSource(rand.Reader, time.Now))
	bucket, _ := options["bucketName"].(string)
	if id, ok := options["bucketId"].(string); ok {
		bucket = id
	}
	h.keys.known = map[string]policy.KeyOwner{
		bucket + " " + validKey:                     {Sub: "acme", Data: json.RawMessage(`{"plan":"gold"}`)},
		bucket + " a custom key without our format": {Sub: "custom", Data: json.RawMessage(`{"plan":"silver"}`)},
	}
	return h, validKey
}

// TestAPIKeyErrorDetails checks the problem for each kind of missing or invalid key. Only a key that could be valid
// must be looked up.
func TestAPIKeyErrorDetails(t *testing.T) {
	h, validKey := newKeyFixture(t, map[string]any{"bucketName": "my-bucket"})
	typo := validKey[:len(validKey)-1] + "x" // not a hexadecimal digit
	accountKey := credential.New(credential.AccountKey, ids.NewSource(rand.Reader, time.Now))
	for _, test := range []struct {
		name    string
		values  []string
		detail  string
		lookups int
	}{
		{"no Authorization", nil, "No Authorization Header", 0},
		{"another scheme", []string{"Basic " + validKey}, "Invalid Authorization Scheme", 0},
		{"a key without a scheme", []string{validKey}, "Invalid Authorization Scheme", 0},
		{"an empty key", []string{"Bearer "}, "No key present", 0},
		{"a blank key", []string{"Bearer    "}, "No key present", 0},
		{"a mistyped key", []string{"Bearer " + typo}, "Authorization Failed", 0},
		{"an account key", []string{"Bearer " + accountKey}, "Authorization Failed", 0},
		{"the key in two fields", []string{"Bearer " + validKey, "Bearer " + validKey}, "Authorization Failed", 0},
		{"a key that is too long", []string{"Bearer " + strings.Repeat("k", 1025)}, "Authorization Failed", 0},
		{"an unknown key", []string{"Bearer some-unknown-custom-key"}, "Authorization Failed", 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			before := h.keys.calls
			response := h.do(t, "GET", "/x", func(r *http.Request) {
				if test.values != nil {
					r.Header["Authorization"] = test.values
				}
			})
			p := problemOf(t, response)
			if p.Status != http.StatusUnauthorized || p.Title != "Unauthorized" || p.Detail != test.detail ||
				p.Trace.BuildID != buildID {
				t.Errorf("GET /x: problem = %d %q %q of build %q, want 401 Unauthorized %q of build %q",
					p.Status, p.Title, p.Detail, p.Trace.BuildID, test.detail, buildID)
			}
			if got := response.Header.Get("Www-Authenticate"); got != "Bearer" {
				t.Errorf("GET /x: WWW-Authenticate = %q, want Bearer", got)
			}
			if got := h.keys.calls - before; got != test.lookups {
				t.Errorf("GET /x: look-ups = %d, want %d", got, test.lookups)
			}
		})
	}
}

func TestValidKeySetsTheUserAndIsNotForwarded(t *testing.T) {
	h, validKey := newKeyFixture(t, map[string]any{"bucketName": "my-bucket"})
	for _, key := range []string{"Bearer " + validKey, "bearer " + validKey, "BEARER  " + validKey + " "} {
		response := h.do(t, "GET", "/x", header("Authorization", key))
		if response.StatusCode != http.StatusOK {
			t.Fatalf("GET /x with the key %q: status = %d, want 200", key, response.StatusCode)
		}
		if got := response.Header.Get("X-Path"); got != "/acme/gold" {
			t.Errorf("GET /x with the key %q: path at the upstream = %q, want /acme/gold, of the key's user", key, got)
		}
		if got := headersOf(t, response); got.Get("Authorization") != "" {
			t.Errorf("GET /x with the key %q: header at the upstream = %v, want no Authorization", key, got)
		}
	}
	if h.keys.calls != 1 {
		t.Errorf("three times GET /x with the same key: look-ups = %d, want 1", h.keys.calls)
	}
	if want := (policy.BucketRef{
		AccountID: "a1", Name: "my-bucket", Project: "shop",
		Environment: "production",
	}); h.keys.lastBucket != want {
		t.Errorf("bucket of the look-up = %+v, want %+v", h.keys.lastBucket, want)
	}
	response := h.do(t, "GET", "/x", header("Authorization", "Bearer a custom key without our format"))
	if got := headersOf(t, response).Get("Authorization"); response.StatusCode != http.StatusOK || got != "" {
		t.Errorf("GET /x with a custom key: status = %d, Authorization at the upstream = %q, want 200 and none",
			response.StatusCode, got)
	}
}

func TestUserIsAvailableInAddresses(t *testing.T) {
	a := artifact(route("GET /x", rewrite(serve(t, echo).URL+"/${request.user.sub}/${request.user.data.plan}"), "key"))
	declare(a, "key", "api-key-inbound", map[string]any{})
	h := newFixture(t, a)
	h.keys.known = map[string]policy.KeyOwner{" a-custom-key": {Sub: "acme", Data: json.RawMessage(`{"plan":"gold"}`)}}
	if got := body(t, h.do(t, "GET", "/x", header("Authorization", "Bearer a-custom-key"))); !strings.Contains(got,
		" /acme/gold ") {
		t.Errorf("GET /x: body = %q, want the path /acme/gold", got)
	}
	if want := (policy.BucketRef{AccountID: "a1", Project: "shop", Environment: "production"}); h.keys.lastBucket != want {
		t.Errorf("bucket of the look-up = %+v, want %+v", h.keys.lastBucket, want)
	}
}

func TestKeyInCustomHeader(t *testing.T) {
	h, validKey := newKeyFixture(t, map[string]any{"bucketId": "bckt_1", "authHeader": "x-api-key", "authScheme": ""})
	response := h.do(t, "GET", "/x", header("X-Api-Key", validKey), header("Authorization", "Basic upstream's own"))
	got := headersOf(t, response)
	if response.StatusCode != http.StatusOK || got.Get("X-Api-Key") != "" ||
		got.Get("Authorization") != "Basic upstream's own" {
		t.Errorf("GET /x: status = %d, the upstream got %v, want 200, no X-Api-Key and the client's Authorization",
			response.StatusCode, got)
	}
	response = h.do(t, "GET", "/x")
	if got := response.Header.Get("Www-Authenticate"); response.StatusCode != http.StatusUnauthorized || got != "" {
		t.Errorf("GET /x without X-Api-Key: status = %d, WWW-Authenticate = %q, want 401 and none",
			response.StatusCode, got)
	}
}

func TestUnauthenticatedRequestsPassIfAllowed(t *testing.T) {
	h, validKey := newKeyFixture(t, map[string]any{"bucketName": "my-bucket", "allowUnauthenticatedRequests": true})
	// Without a user, the address of the other tests would have an empty segment.
	h.deployments["shop.test"].Artifact.Routes[0].Handler = rewrite(serve(t, headers).URL +
		"/x?caller=${request.user.sub}")
	for _, test := range []struct {
		name, upstream string
		values         []string
	}{
		{"no key", "", nil},
		{"another scheme", "Basic upstream's own", []string{"Basic upstream's own"}},
		{"an unknown key", "Bearer upstream's-own-token", []string{"Bearer upstream's-own-token"}},
		{"a wrong key with the prefix of keys", "", []string{"Bearer " + validKey + "x"}},
		// Each of the two values could be a custom key.
		{"two values", "", []string{"Basic upstream's own", "Bearer a-custom-key"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			response := h.do(t, "GET", "/x", func(r *http.Request) {
				if test.values != nil {
					r.Header["Authorization"] = test.values
				}
			})
			if got := headersOf(t, response)["Authorization"]; response.StatusCode != http.StatusOK ||
				strings.Join(got, ", ") != test.upstream {
				t.Errorf("GET /x: status = %d, Authorization at the upstream = %q, want 200 and %q",
					response.StatusCode, got, test.upstream)
			}
		})
	}
}

func TestUncheckableKeysAreRefused(t *testing.T) {
	for _, unauthenticated := range []bool{false, true} {
		h, validKey := newKeyFixture(t,
			map[string]any{"bucketName": "my-bucket", "allowUnauthenticatedRequests": unauthenticated})
		h.keys.err = errors.New("the table is unavailable")
		if p := problemOf(t,
			h.do(t, "GET", "/x", header("Authorization", "Bearer "+validKey))); p.Status != http.StatusServiceUnavailable {
			t.Errorf("allowUnauthenticatedRequests %t: GET /x while the table is unavailable: status = %d, want 503",
				unauthenticated, p.Status)
		}
		if text := h.log.String(); !strings.Contains(text, "the table is unavailable") || strings.Contains(text, validKey) {
			t.Errorf("allowUnauthenticatedRequests %t: log while the table is unavailable = %s, want the cause and no key",
				unauthenticated, text)
		}
	}
}

// TestLogSaysWhyNoKeyIsValid checks that the log has the reason if a request is refused because no key of a bucket
// is valid. With allowUnauthenticatedRequests, the request is not refused, and the log does not have the reason. In
// both cases, the client gets the same status as with an unknown key.
func TestLogSaysWhyNoKeyIsValid(t *testing.T) {
	for _, unauthenticated := range []bool{false, true} {
		h, validKey := newKeyFixture(t,
			map[string]any{"bucketName": "my-bucket", "allowUnauthenticatedRequests": unauthenticated})
		expected := h.do(t, "GET", "/x", header("Authorization", "Bearer wrong"))
		logBefore := h.log.String()
		h.keys.err = fault.New(fault.Unauthenticated, "Authorization Failed").WithCause(errors.New("the bucket was deleted"))
		for range 2 { // the second time with the cached result
			response := h.do(t, "GET", "/x", header("Authorization", "Bearer "+validKey))
			if response.StatusCode != expected.StatusCode {
				t.Errorf("allowUnauthenticatedRequests %t: GET /x with a deleted bucket: "+
					"status = %d, want %d, as for an unknown key",
					unauthenticated, response.StatusCode, expected.StatusCode)
			}
		}
		want := map[bool]int{false: 2, true: 0}[unauthenticated]
		if n := strings.Count(h.log.String(), "the bucket was deleted"); n != want ||
			strings.Contains(logBefore, "request failed") {
			t.Errorf("allowUnauthenticatedRequests %t: the log has the cause %d times, want %d times, and no failure with the "+
				"unknown key; before: %s; all: %s", unauthenticated, n, want, logBefore, h.log.String())
		}
	}
}

func TestRequestsOverTheLimitAreRefused(t *testing.T) {
	a := artifact(route("GET /x", forward(serve(t, echo).URL), "limit"))
	declare(a, "limit", "rate-limit-inbound", map[string]any{
		"rateLimitBy": "ip", "requestsAllowed": 2,
		"timeWindowMinutes": 0.5, "mode": "async",
	})
	h := newFixture(t, a, trustLoopback)
	sendFrom := func(address string) *http.Response { return h.do(t, "GET", "/x", header("X-Forwarded-For", address)) }
	for range 2 {
		if response := sendFrom("203.0.113.7"); response.StatusCode != http.StatusOK {
			t.Fatalf("GET /x within the limit: status = %d, want 200", response.StatusCode)
		}
	}
	response := sendFrom("203.0.113.7")
	p := problemOf(t, response)
	if p.Status != http.StatusTooManyRequests || p.Title != "Too Many Requests" || p.Detail != "Rate limit exceeded" ||
		response.Header.Get("Retry-After") != "2" {
		t.Errorf("GET /x over the limit: problem = %d %q %q, Retry-After = %q, want 429 Too Many Requests, Rate limit "+
			"exceeded and 2",
			p.Status, p.Title, p.Detail, response.Header.Get("Retry-After"))
	}
	if response := sendFrom("203.0.113.8"); response.StatusCode != http.StatusOK {
		t.Errorf("GET /x from another address: status = %d, want 200", response.StatusCode)
	}
	want := policy.Allowance{
		Name: "rate-limit/a1/shop-main-1234567/limit/ip/ip:203.0.113.7", Limit: 2,
		Window: 30 * time.Second, Async: true,
	}
	if got := h.allowances.taken[0]; got != want {
		t.Errorf("argument of the first call of Take = %+v, want %+v", got, want)
	}
}

func TestRateLimitBy(t *testing.T) {
	a := artifact()
	for by, target := range map[string]string{"user": "/user", "ip": "/ip", "all": "/all"} {
		a.Routes = append(a.Routes, route("GET "+target, forward(serve(t, echo).URL), "key", "limit-"+by))
		declare(a, "limit-"+by, "rate-limit-inbound", map[string]any{
			"rateLimitBy": by, "requestsAllowed": 100,
			"timeWindowMinutes": 1,
		})
	}
	declare(a, "key", "api-key-inbound", map[string]any{"allowUnauthenticatedRequests": true})
	h := newFixture(t, a, trustLoopback)
	h.keys.known = map[string]policy.KeyOwner{" a-custom-key": {Sub: "acme"}}
	for _, test := range []struct{ target, key, from, want string }{
		{"/user", "Bearer a-custom-key", "203.0.113.7", "user/user:acme"},
		{"/user", "", "203.0.113.7", "user/ip:203.0.113.7"},
		{"/ip", "Bearer a-custom-key", "203.0.113.7", "ip/ip:203.0.113.7"},
		{"/ip", "", "2001:db8:1:2:3::4", "ip/ip:2001:db8:1:2::"},
		{"/ip", "", "::ffff:203.0.113.7", "ip/ip:203.0.113.7"},
		{"/ip", "", "6.6.6.6, 203.0.113.7", "ip/ip:203.0.113.7"},
		{"/ip", "", "6.6.6.6, 203.0.113.7, 127.0.0.9", "ip/ip:203.0.113.7"},
		{"/ip", "", "203.0.113.7, nonsense, 127.0.0.9", "ip/ip:127.0.0.9"},
		{"/all", "Bearer a-custom-key", "203.0.113.7", "all"},
	} {
		_ = h.do(t, "GET", test.target, header("X-Forwarded-For", test.from), header("Authorization", test.key))
		got := h.allowances.taken[len(h.allowances.taken)-1].Name
		if want := "rate-limit/a1/shop-main-1234567/limit" +
			"-" + strings.TrimPrefix(test.target, "/") + "/" + test.want; got != want {
			t.Errorf("GET %s from %s with %q: allowance = %s, want %s", test.target, test.from, test.key, got, want)
		}
	}
}

func TestRateLimitErrorRefusesOnlyWithThrowOnFailure(t *testing.T) {
	for throw, want := range map[bool]int{false: http.StatusOK, true: http.StatusServiceUnavailable} {
		a := artifact(route("GET /x", forward(serve(t, echo).URL), "limit"))
		declare(a, "limit", "rate-limit-inbound", map[string]any{
			"rateLimitBy": "all", "requestsAllowed": 1,
			"timeWindowMinutes": 1, "throwOnFailure": throw, "headerMode": "none",
		})
		h := newFixture(t, a)
		h.allowances.err = errors.New("the table is unavailable")
		if got := h.do(t, "GET", "/x").StatusCode; got != want {
			t.Errorf("GET /x with throwOnFailure %t: status = %d, want %d", throw, got, want)
		}
		if !strings.Contains(h.log.String(), "the table is unavailable") {
			t.Errorf("throwOnFailure %t: log = %s, want the failure", throw, h.log)
		}
	}
}

// TestRateLimitHeadersAreOnEveryResponse checks that a response has the limit of each policy that has
// checked the request, unless its headerMode is none, and the upstream's limit if the upstream has responded.
func TestRateLimitHeadersAreOnEveryResponse(t *testing.T) {
	server := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("RateLimit", `"own";r=5;t=9`)
		w.WriteHeader(http.StatusTeapot)
	})
	a := artifact(route("GET /x", forward(server.URL), "limit", `the "other"`, "quiet"))
	for name, mode := range map[string]string{"limit": "", `the "other"`: "retry-after", "quiet": "none"} {
		options := map[string]any{"rateLimitBy": "all", "requestsAllowed": 2 + len(name), "timeWindowMinutes": 0.5}
		if mode != "" {
			options["headerMode"] = mode
		}
		declare(a, name, "rate-limit-inbound", options)
	}
	h := newFixture(t, a)
	for n, want := range [][]string{
		0: {`"own";r=5;t=9`, `"limit";r=6;t=2`, `"the _other_";r=12;t=2`},
		7: {`"limit";r=0;t=2`},
	} {
		response := h.do(t, "GET", "/x")
		if want == nil { // requests 1 to 6 only use up the limit
			continue
		}
		policies := []string{`"limit";q=7;w=30`, `"the _other_";q=13;w=30`}[:min(len(want), 2)]
		if got := response.Header["Ratelimit"]; !slices.Equal(got, want) {
			t.Errorf("request %d: RateLimit = %q, want %q", n, got, want)
		}
		if got := response.Header["Ratelimit-Policy"]; !slices.Equal(got, policies) {
			t.Errorf("request %d: RateLimit-Policy = %q, want %q", n, got, policies)
		}
	}
}

// TestHeaderModeNoneSendsNoHeaders checks that a refusal has no rate limit headers if headerMode is none.
func TestHeaderModeNoneSendsNoHeaders(t *testing.T) {
	a := artifact(route("GET /x", forward(serve(t, echo).URL), "limit"))
	declare(a, "limit", "rate-limit-inbound", map[string]any{
		"rateLimitBy": "all", "requestsAllowed": 1,
		"timeWindowMinutes": 1, "headerMode": "none",
	})
	h := newFixture(t, a)
	_ = h.do(t, "GET", "/x")
	if response := h.do(t, "GET", "/x"); response.StatusCode != http.StatusTooManyRequests ||
		response.Header.Get("Retry-After")+response.Header.Get("RateLimit")+response.Header.Get("RateLimit-Policy") != "" {
		t.Errorf("GET /x over the limit: status = %d, header = %v, want 429 without rate limit headers",
			response.StatusCode, response.Header)
	}
}

func TestAQueryParameterBecomesAHeader(t *testing.T) {
	for _, test := range []struct {
		name, query, sent, header, remaining string
		keepInQuery                          bool
		status                               int
	}{
		{"a parameter that is removed", "a=1&token=x%20y&b=2", "", "Bearer x y", "a=1&b=2", false, 200},
		{"a parameter that is kept", "a=1&token=x", "", "Bearer x", "a=1&token=x", true, 200},
		{"no parameter", "a=1", "Bearer own", "Bearer own", "a=1", false, 200},
		{"a header from the client", "token=x", "Bearer own", "Bearer x", "", false, 200},
		{"a repeated parameter", "token=1&token=2&%74oken=3", "", "Bearer 1", "", false, 200},
		{"an empty parameter", "token=", "", "Bearer ", "", false, 200},
		{"a line break in the parameter", "token=x%0d%0aX-Evil:1", "", "", "", false, 400},
	} {
		t.Run(test.name, func(t *testing.T) {
			a := artifact(route("GET /x", forward(serve(t, headers).URL), "param"))
			declare(a, "param", "query-param-to-header-inbound",
				map[string]any{
					"queryParam": "token", "headerName": "authorization", "headerValue": "Bearer {value}",
					"removeFromUrl": !test.keepInQuery,
				})
			h := newFixture(t, a)
			response := h.do(t, "GET", "/x?"+test.query, func(r *http.Request) {
				if test.sent != "" {
					r.Header.Set("Authorization", test.sent)
				}
			})
			if response.StatusCode != test.status {
				t.Fatalf("GET /x: status = %d, want %d", response.StatusCode, test.status)
			}
			if test.status != http.StatusOK {
				return
			}
			if got := headersOf(t, response).Get("Authorization"); got != strings.TrimSpace(test.header) {
				t.Errorf("GET /x: Authorization at the upstream = %q, want %q", got, strings.TrimSpace(test.header))
			}
			if got := response.Header.Get("X-Query"); got != test.remaining {
				t.Errorf("GET /x: query at the upstream = %q, want %q", got, test.remaining)
			}
		})
	}
}

func TestKeyInQueryParameter(t *testing.T) {
	h, validKey := newKeyFixture(t, map[string]any{"bucketName": "my-bucket"})
	a := h.deployments["shop.test"].Artifact
	a.Routes[0].Inbound = []string{"param", "key"}
	a.Policies["param"] = project.Policy{
		Name: "param", Type: "query-param-to-header-inbound",
		Handler: component("x", map[string]any{
			"queryParam": "key", "headerName": "Authorization",
			"headerValue": "Bearer {value}",
		}),
	}
	if response := h.do(t, "GET", "/x?key="+validKey); response.StatusCode != http.StatusOK ||
		response.Header.Get("X-Query") != "" {
		t.Errorf("GET /x?key=KEY: status = %d, query at the upstream = %q, want 200 and none",
			response.StatusCode, response.Header.Get("X-Query"))
	}
}
