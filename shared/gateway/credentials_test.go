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

	"github.com/gatewright/gatewright/shared/credential"
	"github.com/gatewright/gatewright/shared/gateway/policy"
	"github.com/gatewright/gatewright/shared/ids"
)

func newKey(prefix string) string {
	return credential.New(prefix, ids.NewSource(rand.Reader, time.Now))
}

// TestAKeyOfOursNeverTravelsUpstream, wherever in a request it stands, whether or
// not the route asks for one and whatever it is good for.
func TestAKeyOfOursNeverTravelsUpstream(t *testing.T) {
	up, seen := recorder(t)
	a := artifact()
	for name, options := range map[string]map[string]any{
		"key": {}, "anyone": {"allowUnauthenticatedRequests": true}, "header": {"authHeader": "X-Api-Key", "authScheme": ""},
		"anyheader": {"authHeader": "X-Api-Key", "authScheme": "", "allowUnauthenticatedRequests": true},
	} {
		declare(a, name, "api-key-inbound", options)
		a.Routes = append(a.Routes, route("GET /"+name, forward(up), name), route("POST /"+name, forward(up), name))
	}
	declare(a, "param", "query-param-to-header-inbound", map[string]any{"queryParam": "key", "headerName": "Authorization", "headerValue": "Bearer {value}", "removeFromUrl": false})
	a.Routes = append(a.Routes, route("GET /open", forward(up)), route("POST /open", forward(up)), route("GET /param", forward(up), "param", "anyone"), route("POST /param", forward(up), "param", "anyone"))
	h := newHouse(t, a, trustLoopback)
	good, bad, account, bucket := newKey(credential.ConsumerKey), newKey(credential.ConsumerKey), newKey(credential.AccountKey), newKey(credential.BucketToken)
	typo := good[:len(good)-1] + "x"
	h.keys.known = map[string]policy.Identity{" " + good: {Sub: "acme"}}
	answers := map[int]int{}
	for _, key := range []string{good, bad, account, bucket, typo} {
		for i, set := range []func(r *http.Request){
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
				r.Header["Authorization"], r.Header["Referer"] = []string{"Bearer " + key}, []string{"https://shop.test/?key=" + url.QueryEscape(key)}
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
				r.Header["Traceparent"], r.Header["Tracestate"] = []string{"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}, []string{"a=" + key}
			},
			func(r *http.Request) { r.Header["Referer"] = []string{"https://shop.test/" + key} },
			func(r *http.Request) { r.URL.RawQuery = "key=" + key },
			func(r *http.Request) { r.URL.RawQuery = "a&" + strings.ReplaceAll(key, "g", "%67") + "=1&b" },
		} {
			for _, path := range []string{"/key", "/anyone", "/header", "/anyheader", "/open", "/param"} {
				for _, method := range []string{"GET", "POST"} {
					response := h.do(t, method, path, set, func(r *http.Request) {
						if method == "POST" {
							r.Body, r.ContentLength = io.NopCloser(strings.NewReader("body")), -1
							r.Trailer = http.Header{"X-Trailing": {key}}
						}
					})
					answers[response.StatusCode]++
					text := body(t, response)
					select {
					case got := <-seen:
						secret := key[4:20]
						if decoded, err := url.PathUnescape(got); err != nil || strings.Contains(decoded, secret) || strings.Contains(got, base64.StdEncoding.EncodeToString([]byte(key+":"))) {
							t.Errorf("%s %s, %d: the upstream got\n%s", method, path, i, got)
						}
					default:
						if strings.Contains(text, key) {
							t.Errorf("%s %s, %d: the problem is %s", method, path, i, text)
						}
					}
				}
			}
		}
	}
	if answers[http.StatusOK] < 500 || answers[http.StatusUnauthorized] < 100 || len(answers) != 2 {
		t.Errorf("the answers are %v", answers)
	}
	if strings.Contains(h.log.String(), good[4:20]) {
		t.Error("a key is in the log")
	}
}

// TestAnAcceptedKeyIsWithheldWhereverElseItStands: one that its owner chose has no
// form to be known by.
func TestAnAcceptedKeyIsWithheldWhereverElseItStands(t *testing.T) {
	const key = "a-custom-key/of+16-or-more"
	up, seen := recorder(t)
	a := artifact(route("POST /x", forward(up), "key", "second"), route("POST /by/{id}", forward(up), "key"))
	declare(a, "key", "api-key-inbound", map[string]any{"allowUnauthenticatedRequests": true})
	declare(a, "second", "api-key-inbound", map[string]any{"authHeader": "X-Api-Key", "authScheme": "", "allowUnauthenticatedRequests": true})
	log := &syncBuffer{}
	h := newHouse(t, a, watching(log, nil, true))
	h.keys.known = map[string]policy.Identity{" " + key: {Sub: "acme"}, " another-key-of-theirs": {Sub: "acme"}}
	for _, test := range []struct {
		name, value string
		set         func(r *http.Request)
	}{
		{"alone", "Bearer " + key, func(*http.Request) {}},
		{"in a list, where it is refused", "Bearer " + key + ",Bearer " + key, func(*http.Request) {}},
		{"in another field", "bearer " + key, header("X-Other", "key="+key)},
		{"in a cookie", "Bearer " + key, header("Cookie", "a=1; key="+key)},
		{"encoded", "Bearer " + key, header("Referer", "https://x.test/?k="+url.QueryEscape(key))},
		{"in the query", "Bearer " + key, func(r *http.Request) { r.URL.RawQuery = "a=b&key=" + url.QueryEscape(key) + "&b=%zz" }},
		{"beside a second key", "Bearer " + key, func(r *http.Request) { r.Header["X-Api-Key"] = []string{"another-key-of-theirs"} }},
	} {
		got := ""
		response := h.do(t, "POST", "/x", header("Authorization", test.value), test.set, func(r *http.Request) {
			r.Body, r.ContentLength = io.NopCloser(strings.NewReader("body")), -1
			r.Trailer = http.Header{"X-Sum": {"7"}}
			if !strings.Contains(test.value, ",") { // one that was not accepted is not known
				r.Trailer["X-Trailing"] = []string{key}
			}
		})
		if response.StatusCode == http.StatusOK {
			got = <-seen
		}
		decoded, err := url.PathUnescape(strings.ReplaceAll(got, "%zz", ""))
		if err != nil || got == "" || strings.Contains(decoded, key) || strings.Contains(got, "another-key") || !strings.Contains(got, "Trailer: ") {
			t.Errorf("%s: got %d, the upstream got\n%s", test.name, response.StatusCode, got)
		}
	}
	p := problemOf(t, h.do(t, "POST", "/by/"+strings.ReplaceAll(key, "/", "%2F"), header("Authorization", "Bearer "+key)))
	if p.Status != http.StatusBadRequest || !strings.Contains(p.Detail, "out of the path") || p.Instance != "/withheld" {
		t.Errorf("in the path: got %d %s about %s", p.Status, p.Detail, p.Instance)
	}
	h.Close()
	if strings.Contains(log.String()+h.log.String(), "a-custom-key") || !strings.Contains(log.String(), `"/withheld"`) {
		t.Errorf("logs:\n%s%s", log, h.log)
	}
}

func TestAKeyInThePathIsRefused(t *testing.T) {
	up, seen := recorder(t)
	log := &syncBuffer{}
	h := newHouse(t, artifact(route("GET /x/{id}", forward(up)), route("GET /y", rewrite(up+"/${headers.authorization}"))), watching(log, nil, true))
	key := newKey(credential.ConsumerKey)
	for _, target := range []string{"/x/" + key, "/x/x" + key, "/x/a" + url.PathEscape("/") + key, "/x/%67" + key[1:], "/y", "/none/" + key, "/x/a?b=" + key} {
		response := h.do(t, "GET", target, header("Authorization", "Bearer "+key))
		text := body(t, response)
		if strings.Contains(text, key[4:20]) || response.StatusCode == http.StatusOK != strings.Contains(target, "?") {
			t.Errorf("%s: got %d %s", target, response.StatusCode, text)
		}
	}
	h.Close()
	if strings.Contains(log.String()+h.log.String(), key[4:20]) || !strings.Contains(log.String(), "/x/withheld") {
		t.Errorf("logs:\n%s%s", log, h.log)
	}
	if got := <-seen; strings.Contains(got, key) || len(seen) > 0 {
		t.Errorf("the upstream got\n%s", got)
	}
}

func TestAKeyInThePathOfADeploymentThatCanNotBeServedIsNotShown(t *testing.T) {
	h, key := newHouse(t, artifact(route("GET /x", forward("${env.UPSTREAM}")))), newKey(credential.AccountKey)
	if p := problemOf(t, h.do(t, "GET", "/x/"+key)); p.Instance != "/x/withheld" {
		t.Errorf("the problem is about %s", p.Instance)
	}
}

// TestWhatIsNoKeyOfOursStays: it may be the upstream's own.
func TestWhatIsNoKeyOfOursStays(t *testing.T) {
	h, good := keyHouse(t, map[string]any{"bucketName": "my-bucket", "allowUnauthenticatedRequests": true})
	response := h.do(t, "GET", "/x", header("Authorization", "Bearer "+good), header("X-Api-Key", "theirs"), header("Cookie", "gwa_id=1; b=2"), header("Referer", "https://x.test/gwk_"))
	got := headersOf(t, response)
	if got.Get("X-Api-Key") != "theirs" || got.Get("Cookie") != "gwa_id=1; b=2" || got.Get("Referer") != "https://x.test/gwk_" || got.Get("Authorization") != "" {
		t.Errorf("the upstream got %v", got)
	}
}
