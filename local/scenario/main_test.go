package scenario_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// keyCacheTime bounds how long a gateway may believe what it was told of a key
// (the default and least cacheTtlSeconds), with room for a slow machine.
const keyCacheTime = 90 * time.Second

// rolledTime is how long a rolled key goes on being one: longer than a slow machine takes to answer that, and to list it.
const rolledTime = 15 * time.Second

// TestKeyIsCheckedAndRolled is the product's main job.
func TestKeyIsCheckedAndRolled(t *testing.T) {
	t.Parallel()
	in, upstream := installation, newUpstream(t)
	name := unique(t, "main")
	bucket := in.path("/key-buckets/%s-production", name)
	deployed := in.deploy(t, name, "main", project(t, []route{
		{path: "/things/{id}", method: "get", handler: "urlForwardHandler", options: map[string]any{"baseUrl": upstream}, inbound: []string{"key"}},
	}, apiKey("key", "")))
	consumer := in.ask(t, http.StatusOK, http.MethodPost, bucket+"/consumers?with-api-key=true",
		`{"name":"ada","metadata":{"plan":"gold"},"tags":{"team":"blue"}}`)
	keys, _ := consumer["apiKeys"].([]any)
	if len(keys) != 1 {
		t.Fatalf("no key with the consumer: %v", consumer)
	}
	first, _ := keys[0].(map[string]any)
	old := object(first).text("key")

	if status, body := in.get(t, deployed+"/things/7", ""); status != http.StatusUnauthorized || !strings.Contains(body, "No Authorization Header") {
		t.Errorf("without a key: %d %s", status, body)
	}
	if status, body := in.get(t, deployed+"/things/7", "gwk_0123456789ABCDEFGHIJKLMNOPQRSTUV_00000000"); status != http.StatusUnauthorized {
		t.Errorf("with a made-up key: %d %s", status, body)
	}
	status, body := in.get(t, deployed+"/things/7?x=1", old)
	if e := echoOf(t, body); status != http.StatusOK || e.Path != "/things/7" || e.Query != "x=1" || strings.Contains(fmt.Sprint(e.Header), old) {
		t.Errorf("with the key: %d %+v", status, e)
	}

	in.ask(t, http.StatusNoContent, http.MethodPost, bucket+"/consumers/ada/roll-key",
		fmt.Sprintf(`{"expiresOn":%q}`, time.Now().Add(rolledTime).UTC().Format(time.RFC3339Nano)))
	rolled := in.ask(t, http.StatusOK, http.MethodGet, bucket+"/consumers/ada/keys?key-format=visible", "").data(t)
	if len(rolled) != 2 || rolled[0]["expiresOn"] != nil || rolled[1].text("key") != old {
		t.Fatalf("after the roll: %v", rolled)
	}
	if status, body := in.get(t, deployed+"/things/7", rolled[0].text("key")); status != http.StatusOK {
		t.Errorf("with the new key: %d %s", status, body)
	}
	eventually(t, "the rolled key is refused", keyCacheTime, func() bool {
		status, _ := in.get(t, deployed+"/things/7", old)
		return status == http.StatusUnauthorized
	})
	if status, _ := in.get(t, deployed+"/things/7", rolled[0].text("key")); status != http.StatusOK {
		t.Errorf("the new key: %d", status)
	}
}

// TestBulkKeysWork makes more keys than one transaction holds.
func TestBulkKeysWork(t *testing.T) {
	t.Parallel()
	in := installation
	bucket := in.path("/key-buckets/%s", unique(t, "bulk"))
	in.ask(t, http.StatusOK, http.MethodPost, in.path("/key-buckets"), fmt.Sprintf(`{"name":%q}`, bucket[strings.LastIndexByte(bucket, '/')+1:]))
	in.ask(t, http.StatusOK, http.MethodPost, bucket+"/consumers", `{"name":"ada"}`)
	const n = 150
	made := in.ask(t, http.StatusOK, http.MethodPost, bucket+"/consumers/ada/keys/$bulk", "["+strings.TrimSuffix(strings.Repeat("{},", n), ",")+"]").data(t)
	seen := map[string]bool{}
	for _, k := range made {
		seen[k.text("key")] = true
	}
	if len(made) != n || len(seen) != n {
		t.Errorf("%d keys, %d different ones", len(made), len(seen))
	}
	// The escaped spelling of the same path, and a batch that is refused as a whole.
	in.ask(t, http.StatusBadRequest, http.MethodPost, bucket+"/consumers/ada/keys/%24bulk", "["+strings.TrimSuffix(strings.Repeat("{},", 1001), ",")+"]")
	if all := in.ask(t, http.StatusOK, http.MethodGet, bucket+"/consumers/ada/keys?limit=1000", "").data(t); len(all) != n {
		t.Errorf("%d keys are listed", len(all))
	}
	in.ask(t, http.StatusNoContent, http.MethodPost, bucket+"/consumers/ada/roll-key", `{"expiresOn":"2031-01-01T00:00:00Z"}`)
	for _, k := range in.ask(t, http.StatusOK, http.MethodGet, bucket+"/consumers/ada/keys?limit=1000", "").data(t)[1:] {
		if k.text("expiresOn") != "2031-01-01T00:00:00.000Z" {
			t.Fatalf("not rolled: %v", k)
		}
	}
	in.ask(t, http.StatusNoContent, http.MethodDelete, bucket, "")
	in.ask(t, http.StatusNotFound, http.MethodGet, bucket, "")
	in.ask(t, http.StatusNotFound, http.MethodGet, bucket+"/consumers/ada/keys", "")
}

// TestRateLimitIsExact sends more requests at once than are allowed.
func TestRateLimitIsExact(t *testing.T) {
	t.Parallel()
	in, upstream := installation, newUpstream(t)
	const allowed = 60
	deployed := in.deploy(t, unique(t, "limit"), "main", project(t, []route{
		{path: "/limited", method: "get", handler: "urlForwardHandler", options: map[string]any{"baseUrl": upstream}, inbound: []string{"limit"}},
	}, rateLimit("limit", allowed)))
	var admitted, refused atomic.Int64
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range allowed / 4 {
				out := in.call(t, http.MethodGet, deployed+"/limited", nil, nil)
				switch out.StatusCode {
				case http.StatusOK:
					admitted.Add(1)
				case http.StatusTooManyRequests:
					if out.Header.Get("Retry-After") == "" {
						t.Error("a 429 without Retry-After")
					}
					refused.Add(1)
				default:
					t.Errorf("status %d", out.StatusCode)
				}
			}
		})
	}
	group.Wait()
	// The window may end in between, which allows as many again. Several gateways
	// admit fewer at first: each holds what it has leased and not spent yet.
	n, least := admitted.Load(), int64(allowed)
	if in.manyGateways {
		least = allowed / 4
	}
	if n < least || n > 2*allowed || n > allowed && n < 2*least || n+refused.Load() != 2*allowed {
		t.Errorf("%d admitted, %d refused of %d, %d allowed", n, refused.Load(), 2*allowed, allowed)
	}
}

// TestVariablesTakeEffectOnTheNextDeploy follows a variable into a running
// deployment.
func TestVariablesTakeEffectOnTheNextDeploy(t *testing.T) {
	t.Parallel()
	in, upstream := installation, newUpstream(t)
	name, branch := unique(t, "vars"), "feature%2Fblue"
	in.ask(t, http.StatusOK, http.MethodPost, "/v1/projects?accountName="+in.account, fmt.Sprintf(`{"name":%q}`, name))
	variables := in.path("/projects/%s/branches/%s/variables", name, branch)
	in.ask(t, http.StatusCreated, http.MethodPost, variables, fmt.Sprintf(`{"name":"UPSTREAM","isSecret":true,"value":%q}`, upstream+"/one"))
	p := project(t, []route{{
		path: "/v", method: "get", handler: "urlRewriteHandler", options: map[string]any{"rewritePattern": "${env.UPSTREAM}/rewritten/${method}"},
	}}, "")
	deployed := in.deploy(t, name, "feature/blue", p)
	if _, body := in.get(t, deployed+"/v", ""); echoOf(t, body).Path != "/one/rewritten/GET" {
		t.Errorf("the first value: %s", body)
	}
	in.ask(t, http.StatusOK, http.MethodPatch, variables+"/UPSTREAM", fmt.Sprintf(`{"value":%q}`, upstream+"/two"))
	deployments := in.ask(t, http.StatusOK, http.MethodGet, in.path("/projects/%s/deployments", name), "").data(t)
	if len(deployments) != 1 || deployments[0].text("environmentType") != "PREVIEW" || !strings.HasPrefix(deployments[0].text("name"), name) {
		t.Fatalf("deployments: %v", deployments)
	}
	again := in.ask(t, http.StatusOK, http.MethodPost, "/v1/deployments/"+deployments[0].text("name")+"/deploy", "")
	if status := in.built(t, name, again.text("deploymentId")); status.text("status") != "SUCCESS" {
		t.Fatalf("the redeploy: %v", status)
	}
	if _, body := in.get(t, deployed+"/v", ""); echoOf(t, body).Path != "/two/rewritten/GET" {
		t.Errorf("the second value: %s", body)
	}
	in.ask(t, http.StatusOK, http.MethodDelete, "/v1/deployments/"+deployments[0].text("name"), "")
	in.ask(t, http.StatusNotFound, http.MethodGet, "/v1/deployments/"+deployments[0].text("name"), "")
	eventually(t, "the deleted deployment is gone", time.Minute, func() bool {
		status, _ := in.get(t, deployed+"/v", "")
		return status == http.StatusNotFound
	})
}

// TestEveryAnswerIsAProblemOrJSON touches what a client meets when it errs.
func TestEveryAnswerIsAProblemOrJSON(t *testing.T) {
	t.Parallel()
	in := installation
	for _, c := range []struct {
		method, path, body string
		want               int
	}{
		{"GET", "/openapi", "", 200},
		{"GET", "/v1/accounts/", "", 200},
		{"GET", "/v1/nothing", "", 404},
		{"GET", in.path("/key-buckets/no-such-bucket"), "", 404},
		{"POST", in.path("/key-buckets"), `{"name":"x"}`, 400},
		{"POST", in.path("/key-buckets"), `{"name":`, 400},
		{"GET", in.path("/key-buckets/no-such-bucket/consumers?limit=0"), "", 400},
	} {
		got, raw, err := in.do(t.Context(), c.method, c.path, c.body)
		if err != nil || got != c.want {
			t.Errorf("%s %s: %d (%v), want %d: %s", c.method, c.path, got, err, c.want, raw)
			continue
		}
		var o object
		if err := json.Unmarshal(raw, &o); err != nil || c.want >= 400 && o["status"] != float64(c.want) {
			t.Errorf("%s %s: %v %s", c.method, c.path, err, raw)
		}
	}
}
