package scenario_test

import (
	"bytes"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
)

// TestBadProjectsAreToldWhatToDo uploads what cannot be built: the status says
// where and why, all at once, and what was served before is served on.
func TestBadProjectsAreToldWhatToDo(t *testing.T) {
	t.Parallel()
	in, upstream := installation, newUpstream(t)
	name := unique(t, "bad")
	good := project(t, []route{{path: "/a", method: "get", handler: "urlForwardHandler", options: map[string]any{"baseUrl": upstream}}}, "")
	deployed := in.deploy(t, name, "main", good)
	broken := project(t, []route{
		{path: "/a", method: "get", handler: "noSuchHandler"},
		{path: "/b", method: "post", handler: "urlForwardHandler", options: map[string]any{"baseUrl": "$env(NOT_SET)"}, inbound: []string{"no-such-policy"}},
	}, `{"name":"limit","policyType":"no-such-type","handler":{"export":"x","module":"$import(@gatewright/runtime)"}}`)
	for what, body := range map[string][]byte{
		"no archive":    []byte("this is no archive"),
		"cut off":       archive(t, good)[:40],
		"empty":         archive(t, files{}),
		"no JSON":       archive(t, files{"config/routes.oas.json": "{"}),
		"outside":       archive(t, files{"../../etc/passwd": "x"}),
		"many errors":   archive(t, broken),
		"a zip's worth": bytes.Repeat([]byte{0x50, 0x4b, 3, 4}, 100),
	} {
		id, _ := in.upload(t, name, "main", body)
		status := in.built(t, name, id)
		result, _ := status["buildResult"].(map[string]any)
		errors, _ := result["errors"].([]any)
		if status.text("status") != "ERROR" || len(errors) == 0 {
			t.Errorf("%s: %v", what, status)
			continue
		}
		text := fmt.Sprint(errors)
		if what == "many errors" && (len(errors) < 4 || !strings.Contains(text, "/paths/~1a/get/x-gateway-route/handler") ||
			!strings.Contains(text, "NOT_SET") || !strings.Contains(text, "/policies/inbound/0") || !strings.Contains(text, "/policies/0/policyType")) {
			t.Errorf("%s: %v", what, errors)
		}
		if code, _ := in.get(t, deployed+"/a", ""); code != http.StatusOK {
			t.Errorf("%s: what was served before answers %d", what, code)
		}
	}
}

// TestUploadAddressesCannotBeMisused tries an address a second time, in another
// way and changed.
func TestUploadAddressesCannotBeMisused(t *testing.T) {
	t.Parallel()
	in, upstream := installation, newUpstream(t)
	name := unique(t, "once")
	version := func(n int) []byte {
		return archive(t, project(t, []route{{
			path: "/a", method: "get", handler: "urlRewriteHandler", options: map[string]any{"rewritePattern": fmt.Sprintf("%s/v%d", upstream, n)},
		}}, ""))
	}
	id, address := in.upload(t, name, "main", version(1))
	status := in.built(t, name, id)
	deployed := status.text("url")

	in.put(t, address, version(2)) // S3 may take it; nothing comes of it
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	u.Path += "x"
	if code := in.put(t, u.String(), version(3)); code/100 == 2 {
		t.Errorf("another key is accepted: %d", code)
	}
	for _, method := range []string{http.MethodGet, http.MethodDelete} {
		r, err := http.NewRequestWithContext(t.Context(), method, address, nil)
		if err != nil {
			t.Fatal(err)
		}
		out, err := in.client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = out.Body.Close()
		if out.StatusCode/100 == 2 {
			t.Errorf("%s is accepted: %d", method, out.StatusCode)
		}
	}
	time.Sleep(3 * time.Second) // long enough for a build that must not happen
	if code, body := in.get(t, deployed+"/a", ""); code != http.StatusOK || echoOf(t, body).Path != "/v1" {
		t.Errorf("it serves something else: %d %s", code, body)
	}
	if again := in.built(t, name, id); fmt.Sprint(again) != fmt.Sprint(status) {
		t.Errorf("the status has changed: %v", again)
	}
}
