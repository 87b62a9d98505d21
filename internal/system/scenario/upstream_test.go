package scenario_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
)

// echo is the response of the upstream of these tests: the request as it arrived.
type echo struct {
	Method string
	Path   string
	Query  string
	Header http.Header
	Body   string
}

// newUpstream starts an upstream on this machine that echoes requests, and returns its URL.
func newUpstream(t *testing.T) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(echo{
			Method: r.Method, Path: r.URL.EscapedPath(), Query: r.URL.RawQuery, Header: r.Header, Body: string(body),
		})
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// echoOf returns the request that the upstream has received, from the body of its response.
func echoOf(t *testing.T, body string) echo {
	t.Helper()
	var e echo
	if err := json.Unmarshal([]byte(body), &e); err != nil {
		t.Fatalf("decode the echo: %v: %s", err, body)
	}
	return e
}

// route is one operation of a project that these tests deploy.
type route struct {
	path, method, handler string
	options               map[string]any
	inbound               []string
}

// project returns the files of a project with these routes and policies. policies are JSON objects, separated by
// commas.
func project(t *testing.T, routes []route, policies string) files {
	t.Helper()
	paths := map[string]map[string]any{}
	for i, r := range routes {
		if paths[r.path] == nil {
			paths[r.path] = map[string]any{}
		}
		options := r.options
		if options == nil {
			options = map[string]any{}
		}
		inbound := r.inbound
		if inbound == nil {
			inbound = []string{}
		}
		paths[r.path][r.method] = map[string]any{
			"operationId": fmt.Sprintf("op%d", i),
			"responses":   map[string]any{"200": map[string]any{"description": "ok"}},
			"x-gateway-route": map[string]any{
				"corsPolicy": "none",
				"handler":    map[string]any{"export": r.handler, "module": "$import(@gatewright/runtime)", "options": options},
				"policies":   map[string]any{"inbound": inbound},
			},
		}
	}
	routesFile, err := json.Marshal(map[string]any{
		"openapi": "3.1.0", "info": map[string]any{"title": "scenario", "version": "1"}, "paths": paths,
	})
	if err != nil {
		t.Fatal(err)
	}
	return files{
		"config/routes.oas.json": string(routesFile),
		"config/policies.json":   `{"policies":[` + policies + `],"corsPolicies":[]}`,
	}
}

// apiKey returns a policy that checks keys of a named bucket, or of the environment's own bucket if the name is "".
func apiKey(name, bucket string) string {
	options := `{}`
	if bucket != "" {
		options = fmt.Sprintf(`{"bucketName":%q}`, bucket)
	}
	return fmt.Sprintf(`{"name":%q,"policyType":"api-key-inbound","handler":{"export":"ApiKeyInboundPolicy",`+
		`"module":"$import(@gatewright/runtime)","options":%s}}`, name, options)
}

// rateLimit returns a policy with a strict rate limit for all callers together.
func rateLimit(name string, requests int) string {
	return fmt.Sprintf(`{"name":%q,"policyType":"rate-limit-inbound","handler":{"export":"RateLimitInboundPolicy",`+
		`"module":"$import(@gatewright/runtime)",`+
		`"options":{"rateLimitBy":"all","requestsAllowed":%d,"timeWindowMinutes":60,"mode":"strict"}}}`,
		name, requests)
}
