package gateway_test

import (
	"crypto/rand"
	"encoding/base64"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/base/ids"
	"github.com/gatewright/gatewright/shared/dataplane/gateway/policy"
	"github.com/gatewright/gatewright/shared/format/credential"
)

// newKey returns a new key or token of the kind with this prefix.
func newKey(prefix string) string {
	return credential.New(prefix, ids.NewSource(rand.Reader, time.Now))
}

// keyLocations returns functions that write a key into a request. Each function uses another place or another form.
func keyLocations(key string) []func(*http.Request) {
	return []func(*http.Request){
		func(r *http.Request) { r.Header["Authorization"] = []string{"Bearer " + key} },
		func(r *http.Request) { r.Header["Authorization"] = []string{"bearer\t" + key} },
		func(r *http.Request) { r.Header["Authorization"] = []string{"Bearer " + key, "Bearer " + key} },
		func(r *http.Request) { r.Header["Authorization"] = []string{"Bearer other, Bearer " + key} },
		func(r *http.Request) {
			r.Header["Authorization"], r.Header["X-Api-Key"] = []string{"Bearer " + key}, []string{key}
		},
		func(r *http.Request) {
			r.Header["Authorization"], r.Header["Cookie"] = []string{"Bearer " + key}, []string{"a=1; key=" + key}
		},
		func(r *http.Request) {
			r.Header["Authorization"], r.Header["Referer"] = []string{"Bearer " + key},
				[]string{"https://shop.test/?key=" + url.QueryEscape(key)}
		},
		func(r *http.Request) {
			r.Header["Authorization"], r.URL.RawQuery = []string{"Bearer " + key}, "a=b&key="+url.QueryEscape(key)
		},
		func(r *http.Request) { r.Header["Authorization"] = []string{key} },
		func(r *http.Request) { r.Header["Authorization"] = []string{"Token " + key} },
		func(r *http.Request) {
			r.Header["Authorization"] = []string{"Basic " + base64.StdEncoding.EncodeToString([]byte(key+":"))}
		},
		func(r *http.Request) { r.Header["Authorization"] = []string{"Basic theirs", "Token " + key} },
		func(r *http.Request) { r.Header["X-Api-Key"] = []string{"theirs", key} },
		func(r *http.Request) { r.Header["X-Other"] = []string{"theirs", key} },
		func(r *http.Request) { r.Header["Sec-Websocket-Protocol"] = []string{"chat, " + key} },
		func(r *http.Request) { r.Header["Cookie"] = []string{"key=" + key} },
		func(r *http.Request) { r.Header["X-Forwarded-For"] = []string{key} },
		func(r *http.Request) { r.Header["Via"] = []string{"1.1 " + key} },
		func(r *http.Request) {
			r.Header["Traceparent"], r.Header["Tracestate"] = []string{
				"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
			}, []string{"a=" + key}
		},
		func(r *http.Request) { r.Header["Referer"] = []string{"https://shop.test/" + key} },
		func(r *http.Request) { r.URL.RawQuery = "key=" + key },
		func(r *http.Request) { r.URL.RawQuery = "a&" + strings.ReplaceAll(key, "g", "%67") + "=1&b" },
	}
}

// TestPlatformKeysAreNeverForwarded checks that keys and tokens in Gatewright's formats are not forwarded from any
// place in a request, even if the route requires no key or the key is not valid.
func TestPlatformKeysAreNeverForwarded(t *testing.T) {
	backend, received := recorder(t)
	a := artifact()
	for name, options := range map[string]map[string]any{
		"key": {}, "anyone": {"allowUnauthenticatedRequests": true}, "header": {"authHeader": "X-Api-Key", "authScheme": ""},
		"anyheader": {"authHeader": "X-Api-Key", "authScheme": "", "allowUnauthenticatedRequests": true},
	} {
		declare(a, name, "api-key-inbound", options)
		a.Routes = append(a.Routes, route("GET /"+name, forward(backend), name), route("POST /"+name, forward(backend), name))
	}
	declare(a, "param", "query-param-to-header-inbound", map[string]any{
		"queryParam": "key", "headerName": "Authorization",
		"headerValue": "Bearer {value}", "removeFromUrl": false,
	})
	a.Routes = append(a.Routes, route("GET /open", forward(backend)), route("POST /open", forward(backend)),
		route("GET /param", forward(backend), "param", "anyone"), route("POST /param", forward(backend), "param", "anyone"))
	h := newFixture(t, a, trustLoopback)
	validKey, invalidKey, accountKey, bucketToken := newKey(credential.ConsumerKey), newKey(credential.ConsumerKey),
		newKey(credential.AccountKey), newKey(credential.BucketToken)
	mistypedKey := validKey[:len(validKey)-1] + "x"
	h.keys.known = map[string]policy.KeyOwner{" " + validKey: {Sub: "acme"}}
	replies := map[int]int{}
	for _, key := range []string{validKey, invalidKey, accountKey, bucketToken, mistypedKey} {
		for i, addKey := range keyLocations(key) {
			for _, path := range []string{"/key", "/anyone", "/header", "/anyheader", "/open", "/param"} {
				for _, method := range []string{"GET", "POST"} {
					response := h.do(t, method, path, addKey, func(r *http.Request) {
						if method == "POST" {
							r.Body, r.ContentLength = io.NopCloser(strings.NewReader("body")), -1
							r.Trailer = http.Header{"X-Trailing": {key}}
						}
					})
					replies[response.StatusCode]++
					text := body(t, response)
					select {
					case got := <-received:
						secret := key[4:20]
						if decoded, err := url.PathUnescape(got); err != nil || strings.Contains(decoded, secret) ||
							strings.Contains(got, base64.StdEncoding.EncodeToString([]byte(key+":"))) {
							t.Errorf("%s %s, key location %d: the upstream got (unescape error %v), want no key:\n%s",
								method, path, i, err, got)
						}
					default:
						if strings.Contains(text, key) {
							t.Errorf("%s %s, key location %d: problem contains the key, want it redacted: %s", method, path, i, text)
						}
					}
				}
			}
		}
	}
	if replies[http.StatusOK] < 500 || replies[http.StatusUnauthorized] < 100 || len(replies) != 2 {
		t.Errorf("responses by status = %v, want at least 500 with 200, at least 100 with 401, and no others", replies)
	}
	if strings.Contains(h.log.String(), validKey[4:20]) {
		t.Error("the log contains the valid key, want no key")
	}
}

// TestAcceptedKeyIsWithheldEverywhere checks that an accepted custom key is not forwarded from any
// place in a request, although it has no recognizable form. A request with the key in its path is refused.
func TestAcceptedKeyIsWithheldEverywhere(t *testing.T) {
	const key = "a-custom-key/of+16-or-more"
	backend, received := recorder(t)
	a := artifact(route("POST /x", forward(backend), "key", "second"), route("POST /by/{id}", forward(backend), "key"))
	declare(a, "key", "api-key-inbound", map[string]any{"allowUnauthenticatedRequests": true})
	declare(a, "second", "api-key-inbound", map[string]any{
		"authHeader": "X-Api-Key", "authScheme": "",
		"allowUnauthenticatedRequests": true,
	})
	log := &syncBuffer{}
	h := newFixture(t, a, withTelemetry(log, nil, true))
	h.keys.known = map[string]policy.KeyOwner{" " + key: {Sub: "acme"}, " another-key-of-theirs": {Sub: "acme"}}
	for _, test := range []struct {
		name, value string
		modify      func(r *http.Request)
	}{
		{"one key", "Bearer " + key, func(*http.Request) {}},
		{"a list of keys", "Bearer " + key + ",Bearer " + key, func(*http.Request) {}},
		{"the key in another field", "bearer " + key, header("X-Other", "key="+key)},
		{"the key in a cookie", "Bearer " + key, header("Cookie", "a=1; key="+key)},
		{"the encoded key", "Bearer " + key, header("Referer", "https://x.test/?k="+url.QueryEscape(key))},
		{"the key in the query", "Bearer " + key, func(r *http.Request) {
			r.URL.RawQuery = "a=b&key=" + url.QueryEscape(key) + "&b=%zz"
		}},
		{"a second key", "Bearer " + key, func(r *http.Request) {
			r.Header["X-Api-Key"] = []string{"another-key-of-theirs"}
		}},
	} {
		got := ""
		response := h.do(t, "POST", "/x", header("Authorization", test.value), test.modify, func(r *http.Request) {
			r.Body, r.ContentLength = io.NopCloser(strings.NewReader("body")), -1
			r.Trailer = http.Header{"X-Sum": {"7"}}
			if !strings.Contains(test.value, ",") { // a key in a list is not accepted
				r.Trailer["X-Trailing"] = []string{key}
			}
		})
		if response.StatusCode == http.StatusOK {
			got = <-received
		}
		decoded, err := url.PathUnescape(strings.ReplaceAll(got, "%zz", ""))
		if err != nil || got == "" {
			t.Errorf("%s: status = %d, request at the upstream = %q, unescape error = %v, want a request",
				test.name, response.StatusCode, got, err)
		}
		if strings.Contains(decoded, key) || strings.Contains(got, "another-key") || !strings.Contains(got, "Trailer: ") {
			t.Errorf("%s: status = %d, want a trailer and no key at the upstream, which got:\n%s",
				test.name, response.StatusCode, got)
		}
	}
	p := problemOf(t, h.do(t, "POST", "/by/"+strings.ReplaceAll(key, "/", "%2F"), header("Authorization", "Bearer "+key)))
	if p.Status != http.StatusBadRequest || !strings.Contains(p.Detail, "out of the path") || p.Instance != "/withheld" {
		t.Errorf("key in the path: problem = %d %q about %s, want 400 about the path and /withheld",
			p.Status, p.Detail, p.Instance)
	}
	h.Close()
	if strings.Contains(log.String()+h.log.String(), "a-custom-key") || !strings.Contains(log.String(), `"/withheld"`) {
		t.Errorf("logs after POST /by/KEY, want \"/withheld\" and no key:\n%s%s", log, h.log)
	}
}

// TestKeyInPathIsRefused checks that a request is refused if it has a key in its path, or if a route would write a key
// into the path at the upstream (/y). A key in the query is removed, and the request is served.
func TestKeyInPathIsRefused(t *testing.T) {
	backend, received := recorder(t)
	log := &syncBuffer{}
	h := newFixture(t, artifact(route("GET /x/{id}", forward(backend)),
		route("GET /y", rewrite(backend+"/${headers.authorization}"))), withTelemetry(log, nil, true))
	key := newKey(credential.ConsumerKey)
	for _, target := range []string{
		"/x/" + key, "/x/x" + key, "/x/a" + url.PathEscape("/") + key, "/x/%67" + key[1:],
		"/y", "/none/" + key, "/x/a?b=" + key,
	} {
		response := h.do(t, "GET", target, header("Authorization", "Bearer "+key))
		text := body(t, response)
		if strings.Contains(text, key[4:20]) || response.StatusCode == http.StatusOK != strings.Contains(target, "?") {
			t.Errorf("GET %s: status = %d, body = %s, want 200 only with the key in the query, and no key in the body",
				target, response.StatusCode, text)
		}
	}
	h.Close()
	if strings.Contains(log.String()+h.log.String(), key[4:20]) || !strings.Contains(log.String(), "/x/withheld") {
		t.Errorf("logs after requests with a key in the path, want /x/withheld and no key:\n%s%s", log, h.log)
	}
	if got := <-received; strings.Contains(got, key) || len(received) > 0 {
		t.Errorf("requests with a key: the upstream got %d more after this one, want one request without the key:\n%s",
			len(received), got)
	}
}

// TestKeyInPathIsRedactedInErrors requests a deployment that fails because of a variable without a value.
func TestKeyInPathIsRedactedInErrors(t *testing.T) {
	h, key := newFixture(t, artifact(route("GET /x", forward("${env.UPSTREAM}")))), newKey(credential.AccountKey)
	if p := problemOf(t, h.do(t, "GET", "/x/"+key)); p.Instance != "/x/withheld" {
		t.Errorf("GET /x/KEY: instance of the problem = %s, want /x/withheld", p.Instance)
	}
}

// TestOtherCredentialsAreForwarded checks that credentials other than Gatewright's keys are sent upstream, because they
// can belong to the upstream.
func TestOtherCredentialsAreForwarded(t *testing.T) {
	h, validKey := newKeyFixture(t, map[string]any{"bucketName": "my-bucket", "allowUnauthenticatedRequests": true})
	response := h.do(t, "GET", "/x", header("Authorization", "Bearer "+validKey), header("X-Api-Key", "theirs"),
		header("Cookie", "gwa_id=1; b=2"), header("Referer", "https://x.test/gwk_"))
	got := headersOf(t, response)
	if got.Get("X-Api-Key") != "theirs" || got.Get("Cookie") != "gwa_id=1; b=2" ||
		got.Get("Referer") != "https://x.test/gwk_" || got.Get("Authorization") != "" {
		t.Errorf("GET /x: header at the upstream = %v, want X-Api-Key, Cookie and Referer as sent, and no Authorization", got)
	}
}
