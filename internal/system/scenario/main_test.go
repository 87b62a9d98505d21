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

// keyCacheTime bounds how long a gateway can use a cached key: the default of cacheTtlSeconds, which is also its
// minimum, with additional time for a slow machine.
const keyCacheTime = 90 * time.Second

// rolledKeyTime is how long a rolled key remains valid: long enough for a slow machine to list the key, and to respond
// to a request with it.
const rolledKeyTime = 15 * time.Second

// TestKeyIsCheckedAndRolled tests the main task of the product: it deploys a gateway that checks keys, and rolls a key.
func TestKeyIsCheckedAndRolled(t *testing.T) {
	t.Parallel()
	inst, upstream := installation, newUpstream(t)
	name := unique(t, "main")
	bucket := inst.path("/key-buckets/%s-production", name)
	deployed := inst.deploy(t, name, "main", project(t, []route{
		{
			path: "/things/{id}", method: "get", handler: "urlForwardHandler", options: map[string]any{"baseUrl": upstream},
			inbound: []string{"key"},
		},
	}, apiKey("key", "")))
	consumer := inst.ask(t, http.StatusOK, http.MethodPost, bucket+"/consumers?with-api-key=true",
		`{"name":"ada","metadata":{"plan":"gold"},"tags":{"team":"blue"}}`)
	keys, _ := consumer["apiKeys"].([]any)
	if len(keys) != 1 {
		t.Fatalf("create a consumer with a key = %v, want one key", consumer)
	}
	first, _ := keys[0].(map[string]any)
	oldKey := object(first).text("key")

	if status, body := inst.get(t, deployed+"/things/7", ""); status != http.StatusUnauthorized ||
		!strings.Contains(body, "No Authorization Header") {
		t.Errorf("GET /things/7 without a key: status = %d, body %s, want 401 \"No Authorization Header\"", status, body)
	}
	if status, body := inst.get(t, deployed+"/things/7",
		"gwk_0123456789ABCDEFGHIJKLMNOPQRSTUV_00000000"); status != http.StatusUnauthorized {
		t.Errorf("GET /things/7 with an unknown key: status = %d, want 401: %s", status, body)
	}
	status, body := inst.get(t, deployed+"/things/7?x=1", oldKey)
	if e := echoOf(t, body); status != http.StatusOK || e.Path != "/things/7" || e.Query != "x=1" ||
		strings.Contains(fmt.Sprint(e.Header), oldKey) {
		t.Errorf("GET /things/7?x=1 with the key: status = %d, upstream received %+v, want 200, the same path and "+
			"query, and no key", status, e)
	}

	inst.ask(t, http.StatusNoContent, http.MethodPost, bucket+"/consumers/ada/roll-key",
		fmt.Sprintf(`{"expiresOn":%q}`, time.Now().Add(rolledKeyTime).UTC().Format(time.RFC3339Nano)))
	rolled := inst.ask(t, http.StatusOK, http.MethodGet, bucket+"/consumers/ada/keys?key-format=visible", "").data(t)
	if len(rolled) != 2 || rolled[0]["expiresOn"] != nil || rolled[1].text("key") != oldKey {
		t.Fatalf("the keys after the roll are %v, want a new key without an expiry, then the old key", rolled)
	}
	if status, body := inst.get(t, deployed+"/things/7", rolled[0].text("key")); status != http.StatusOK {
		t.Errorf("GET /things/7 with the new key: status = %d, want 200: %s", status, body)
	}
	eventually(t, "the rolled key is refused", keyCacheTime, func() bool {
		status, _ := inst.get(t, deployed+"/things/7", oldKey)
		return status == http.StatusUnauthorized
	})
	if status, _ := inst.get(t, deployed+"/things/7", rolled[0].text("key")); status != http.StatusOK {
		t.Errorf("GET /things/7 with the new key, after the old one has expired: status = %d, want 200", status)
	}
}

// TestBulkKeysWork creates more keys than one transaction can contain, rolls them, and deletes them with their bucket.
func TestBulkKeysWork(t *testing.T) {
	t.Parallel()
	inst := installation
	bucket := inst.path("/key-buckets/%s", unique(t, "bulk"))
	inst.ask(t, http.StatusOK, http.MethodPost, inst.path("/key-buckets"),
		fmt.Sprintf(`{"name":%q}`, bucket[strings.LastIndexByte(bucket, '/')+1:]))
	inst.ask(t, http.StatusOK, http.MethodPost, bucket+"/consumers", `{"name":"ada"}`)
	const n = 150
	created := inst.ask(t, http.StatusOK, http.MethodPost, bucket+"/consumers/ada/keys/$bulk",
		"["+strings.TrimSuffix(strings.Repeat("{},", n), ",")+"]").data(t)
	seen := map[string]bool{}
	for _, k := range created {
		seen[k.text("key")] = true
	}
	if len(created) != n || len(seen) != n {
		t.Errorf("the batch has created %d keys, %d of them different, want %d", len(created), len(seen), n)
	}
	// Send a batch to the escaped form of the same path. The API refuses the whole batch.
	inst.ask(t, http.StatusBadRequest, http.MethodPost, bucket+"/consumers/ada/keys/%24bulk",
		"["+strings.TrimSuffix(strings.Repeat("{},", 1001), ",")+"]")
	if all := inst.ask(t, http.StatusOK, http.MethodGet, bucket+"/consumers/ada/keys?limit=1000",
		"").data(t); len(all) != n {
		t.Errorf("GET …/keys lists %d keys, want %d", len(all), n)
	}
	inst.ask(t, http.StatusNoContent, http.MethodPost, bucket+"/consumers/ada/roll-key",
		`{"expiresOn":"2031-01-01T00:00:00Z"}`)
	for _, k := range inst.ask(t, http.StatusOK, http.MethodGet, bucket+"/consumers/ada/keys?limit=1000", "").data(t)[1:] {
		if k.text("expiresOn") != "2031-01-01T00:00:00.000Z" {
			t.Fatalf("the key is %v, want it to expire on 2031-01-01T00:00:00.000Z", k)
		}
	}
	inst.ask(t, http.StatusNoContent, http.MethodDelete, bucket, "")
	inst.ask(t, http.StatusNotFound, http.MethodGet, bucket, "")
	inst.ask(t, http.StatusNotFound, http.MethodGet, bucket+"/consumers/ada/keys", "")
}

// TestRateLimitIsExact sends more concurrent requests than the limit allows, and checks how many are admitted.
func TestRateLimitIsExact(t *testing.T) {
	t.Parallel()
	inst, upstream := installation, newUpstream(t)
	const allowed = 60
	deployed := inst.deploy(t, unique(t, "limit"), "main", project(t, []route{
		{
			path: "/limited", method: "get", handler: "urlForwardHandler", options: map[string]any{"baseUrl": upstream},
			inbound: []string{"limit"},
		},
	}, rateLimit("limit", allowed)))
	var admitted, refused atomic.Int64
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range allowed / 4 {
				resp := inst.call(t, http.MethodGet, deployed+"/limited", nil, nil)
				switch resp.StatusCode {
				case http.StatusOK:
					admitted.Add(1)
				case http.StatusTooManyRequests:
					if resp.Header.Get("Retry-After") == "" {
						t.Error("a response with status 429 has no Retry-After, want one")
					}
					refused.Add(1)
				default:
					t.Errorf("status = %d, want 200 or 429", resp.StatusCode)
				}
			}
		})
	}
	group.Wait()
	// The window can end meanwhile, and the next window allows the same number again. Several gateways together admit
	// fewer requests, because each gateway holds units that it has leased and not spent.
	n, minAdmitted := admitted.Load(), int64(allowed)
	if inst.manyGateways {
		minAdmitted = allowed / 4
	}
	if n < minAdmitted || n > 2*allowed || n > allowed && n < 2*minAdmitted || n+refused.Load() != 2*allowed {
		t.Errorf("%d of %d requests admitted and %d refused, want %d to %d admitted, or %d to %d if a new window has begun, "+
			"and all others refused", n, 2*allowed, refused.Load(), minAdmitted, allowed, 2*minAdmitted, 2*allowed)
	}
}

// TestVariablesTakeEffectOnTheNextDeploy checks that a deployment uses a changed variable only after the next build,
// and that it is no longer available after it was deleted.
func TestVariablesTakeEffectOnTheNextDeploy(t *testing.T) {
	t.Parallel()
	inst, upstream := installation, newUpstream(t)
	name, branch := unique(t, "vars"), "feature%2Fblue"
	inst.ask(t, http.StatusOK, http.MethodPost, "/v1/projects?accountName="+inst.account, fmt.Sprintf(`{"name":%q}`, name))
	variables := inst.path("/projects/%s/branches/%s/variables", name, branch)
	inst.ask(t, http.StatusCreated, http.MethodPost, variables,
		fmt.Sprintf(`{"name":"UPSTREAM","isSecret":true,"value":%q}`, upstream+"/one"))
	p := project(t, []route{{
		path: "/v", method: "get", handler: "urlRewriteHandler",
		options: map[string]any{"rewritePattern": "${env.UPSTREAM}/rewritten/${method}"},
	}}, "")
	deployed := inst.deploy(t, name, "feature/blue", p)
	if _, body := inst.get(t, deployed+"/v", ""); echoOf(t, body).Path != "/one/rewritten/GET" {
		t.Errorf("GET /v with the first value: body %s, want the path /one/rewritten/GET", body)
	}
	inst.ask(t, http.StatusOK, http.MethodPatch, variables+"/UPSTREAM", fmt.Sprintf(`{"value":%q}`, upstream+"/two"))
	if _, body := inst.get(t, deployed+"/v", ""); echoOf(t, body).Path != "/one/rewritten/GET" {
		t.Errorf("GET /v with a changed value, before the next build: body %s, want the path /one/rewritten/GET", body)
	}
	deployments := inst.ask(t, http.StatusOK, http.MethodGet, inst.path("/projects/%s/deployments", name), "").data(t)
	if len(deployments) != 1 || deployments[0].text("environmentType") != "PREVIEW" ||
		!strings.HasPrefix(deployments[0].text("name"), name) {
		t.Fatalf("GET …/deployments = %v, want one PREVIEW named after %s", deployments, name)
	}
	redeployed := inst.ask(t, http.StatusOK, http.MethodPost, "/v1/deployments/"+deployments[0].text("name")+"/deploy", "")
	if status := inst.awaitBuild(t, name, redeployed.text("deploymentId")); status.text("status") != "SUCCESS" {
		t.Fatalf("the second build has ended with %v, want SUCCESS", status)
	}
	if _, body := inst.get(t, deployed+"/v", ""); echoOf(t, body).Path != "/two/rewritten/GET" {
		t.Errorf("GET /v with the second value: body %s, want the path /two/rewritten/GET", body)
	}
	inst.ask(t, http.StatusOK, http.MethodDelete, "/v1/deployments/"+deployments[0].text("name"), "")
	inst.ask(t, http.StatusNotFound, http.MethodGet, "/v1/deployments/"+deployments[0].text("name"), "")
	eventually(t, "the deleted deployment is gone", time.Minute, func() bool {
		status, _ := inst.get(t, deployed+"/v", "")
		return status == http.StatusNotFound
	})
}

// TestResponsesAreProblemsOrJSON sends the requests of a client that makes mistakes, and checks that each error is a
// problem document, and each other response is JSON.
func TestResponsesAreProblemsOrJSON(t *testing.T) {
	t.Parallel()
	inst := installation
	for _, c := range []struct {
		method, path, body string
		want               int
	}{
		{"GET", "/openapi", "", 200},
		{"GET", "/v1/accounts/", "", 200},
		{"GET", "/v1/nothing", "", 404},
		{"GET", inst.path("/key-buckets/no-such-bucket"), "", 404},
		{"POST", inst.path("/key-buckets"), `{"name":"x"}`, 400},
		{"POST", inst.path("/key-buckets"), `{"name":`, 400},
		{"GET", inst.path("/key-buckets/no-such-bucket/consumers?limit=0"), "", 400},
	} {
		got, raw, err := inst.do(t.Context(), c.method, c.path, c.body)
		if err != nil || got != c.want {
			t.Errorf("%s %s: status = %d, error %v, want %d: %s", c.method, c.path, got, err, c.want, raw)
			continue
		}
		var o object
		if err := json.Unmarshal(raw, &o); err != nil || c.want >= 400 && o["status"] != float64(c.want) {
			t.Errorf("%s %s = %s, error %v, want JSON with the status %d if it is a problem", c.method, c.path, raw, err, c.want)
		}
	}
}
