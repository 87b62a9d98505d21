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

// TestInvalidProjectsAreReported uploads projects that fail to build. It checks that the status lists all errors at
// once, with their positions and reasons, and that the earlier deployment is still served.
func TestInvalidProjectsAreReported(t *testing.T) {
	t.Parallel()
	inst, upstream := installation, newUpstream(t)
	name := unique(t, "bad")
	good := project(t,
		[]route{{path: "/a", method: "get", handler: "urlForwardHandler", options: map[string]any{"baseUrl": upstream}}}, "")
	deployed := inst.deploy(t, name, "main", good)
	broken := project(t, []route{
		{path: "/a", method: "get", handler: "noSuchHandler"},
		{
			path: "/b", method: "post", handler: "urlForwardHandler", options: map[string]any{"baseUrl": "$env(NOT_SET)"},
			inbound: []string{"no-such-policy"},
		},
	}, `{"name":"limit","policyType":"no-such-type","handler":{"export":"x","module":"$import(@gatewright/runtime)"}}`)
	for description, body := range map[string][]byte{
		"a text":                      []byte("this is no archive"),
		"a truncated archive":         archive(t, good)[:40],
		"an empty archive":            archive(t, files{}),
		"a project with invalid JSON": archive(t, files{"config/routes.oas.json": "{"}),
		"a path outside the project":  archive(t, files{"../../etc/passwd": "x"}),
		"a project with many errors":  archive(t, broken),
		"the first bytes of zips":     bytes.Repeat([]byte{0x50, 0x4b, 3, 4}, 100),
	} {
		id, _ := inst.upload(t, name, "main", body)
		status := inst.awaitBuild(t, name, id)
		result, _ := status["buildResult"].(map[string]any)
		errors, _ := result["errors"].([]any)
		if status.text("status") != "ERROR" || len(errors) == 0 {
			t.Errorf("the build of %s has ended with %v, want ERROR with at least one error", description, status)
			continue
		}
		text := fmt.Sprint(errors)
		if description == "a project with many errors" {
			if len(errors) < 4 {
				t.Errorf("the build of %s reports %d errors, want at least 4: %v", description, len(errors), errors)
			}
			for _, want := range []string{
				"/paths/~1a/get/x-gateway-route/handler", "NOT_SET", "/policies/inbound/0",
				"/policies/0/policyType",
			} {
				if !strings.Contains(text, want) {
					t.Errorf("the build of %s reports %v, want an error with %s", description, errors, want)
				}
			}
		}
		if code, _ := inst.get(t, deployed+"/a", ""); code != http.StatusOK {
			t.Errorf("GET /a after the build of %s has failed: status = %d, want 200 from the deployment before", description,
				code)
		}
	}
}

// TestUploadURLsCannotBeMisused checks that an upload address has no effect if it is used a second time, with another method, or with
// another path.
func TestUploadURLsCannotBeMisused(t *testing.T) {
	t.Parallel()
	inst, upstream := installation, newUpstream(t)
	name := unique(t, "once")
	version := func(n int) []byte {
		return archive(t, project(t, []route{{
			path: "/a", method: "get", handler: "urlRewriteHandler",
			options: map[string]any{"rewritePattern": fmt.Sprintf("%s/v%d", upstream, n)},
		}}, ""))
	}
	id, address := inst.upload(t, name, "main", version(1))
	status := inst.awaitBuild(t, name, id)
	deployed := status.text("url")

	inst.put(t, address, version(2)) // S3 can accept the upload, but it has no effect
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	u.Path += "x"
	if code := inst.put(t, u.String(), version(3)); code/100 == 2 {
		t.Errorf("PUT to the upload URL with another path: status = %d, want it refused", code)
	}
	for _, method := range []string{http.MethodGet, http.MethodDelete} {
		r, err := http.NewRequestWithContext(t.Context(), method, address, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := inst.client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode/100 == 2 {
			t.Errorf("%s to the upload URL: status = %d, want it refused", method, resp.StatusCode)
		}
	}
	time.Sleep(3 * time.Second) // long enough for a build to start, which must not happen
	if code, body := inst.get(t, deployed+"/a", ""); code != http.StatusOK || echoOf(t, body).Path != "/v1" {
		t.Errorf("GET /a after the second upload: status = %d, want 200 from the first one: %s", code, body)
	}
	if replaced := inst.awaitBuild(t, name, id); fmt.Sprint(replaced) != fmt.Sprint(status) {
		t.Errorf("the build's status after the second upload is %v, want %v", replaced, status)
	}
}
