package scenario_test

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// keyTransport sends requests to the management API with a key, or without one if key is "".
type keyTransport struct {
	inst *target
	key  string
}

// RoundTrip implements http.RoundTripper. It waits as long as Retry-After says, because the documentation's server
// accepts only ten calls a second from each address.
func (k keyTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	if k.key != "" {
		r.Header.Set("Authorization", "Bearer "+k.key)
	}
	return retryThrottled(http.DefaultTransport.RoundTrip, r)
}

// connectAPI connects the official client to one of the installation's own servers, with a version of the protocol. With "", both sides
// negotiate the version.
func connectAPI(t *testing.T, inst *target, path, key, version string) *mcp.ClientSession {
	t.Helper()
	var options *mcp.ClientSessionOptions
	if version != "" {
		options = &mcp.ClientSessionOptions{ProtocolVersion: version}
	}
	session, err := mcp.NewClient(&mcp.Implementation{Name: "scenario", Version: "1"},
		nil).Connect(t.Context(), &mcp.StreamableClientTransport{
		Endpoint: inst.api + path, MaxRetries: -1, HTTPClient: &http.Client{Transport: keyTransport{inst, key}},
	}, options)
	if err != nil {
		t.Fatalf("connect to %s: %v", path, err)
	}
	t.Cleanup(func() { _ = session.Close() })
	return session
}

// callTool calls a tool, and retries while the API limits the rate: a call and the request that it makes both count
// toward the rate limit of the key.
func callTool(t *testing.T, session *mcp.ClientSession, tool string, arguments map[string]any) *mcp.CallToolResult {
	t.Helper()
	for {
		result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: arguments})
		if err != nil {
			t.Fatalf("call of %s: error = %v, want none", tool, err)
		}
		if !result.IsError {
			return result
		}
		if content, ok := result.Content[0].(*mcp.TextContent); !ok || !strings.HasPrefix(content.Text, "429 ") {
			return result
		}
		time.Sleep(time.Second)
	}
}

// callStructured calls a tool and returns the structured content of its result.
func callStructured(t *testing.T, session *mcp.ClientSession, tool string, arguments map[string]any) object {
	t.Helper()
	result := callTool(t, session, tool, arguments)
	raw, err := json.Marshal(result.StructuredContent)
	if err != nil || result.IsError {
		content, _ := json.Marshal(result.Content)
		t.Fatalf("call of %s: error %v, isError = %v, want success: %s", tool, err, result.IsError, content)
	}
	var out object
	if err := json.Unmarshal(raw, &out); err != nil {
		t.Fatalf("decode the result of %s: %v: %s", tool, err, raw)
	}
	return out
}

// TestAPIByMCP lets the official client try, create and delete a bucket, change a consumer, request upload URLs, and
// search the documentation, with each version of the protocol.
func TestAPIByMCP(t *testing.T) {
	t.Parallel()
	inst := installation
	for _, version := range []string{"", "2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26"} {
		t.Run("MCP "+version, func(t *testing.T) {
			session := connectAPI(t, inst, "/mcp", inst.key, version)
			name := unique(t, "mcp")
			bucket := map[string]any{"accountName": inst.account, "name": name}
			byName := map[string]any{"accountName": inst.account, "bucketName": name}
			tools, err := session.ListTools(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.ContainsFunc(tools.Tools, func(tool *mcp.Tool) bool {
				return tool.Name == "ApiKeyBucketsService_create"
			}) {
				t.Errorf("ListTools() = %v, want ApiKeyBucketsService_create among them", tools.Tools)
			}
			if caller := callStructured(t, session, "V1_whoAmI", nil); caller.text("account") != inst.account {
				t.Errorf("V1_whoAmI = %v, want the account %s", caller, inst.account)
			}
			dryRun := map[string]any{"dryRun": true}
			for argument, value := range bucket {
				dryRun[argument] = value
			}
			if created := callStructured(t, session, "ApiKeyBucketsService_create", dryRun); created["dryRun"] != true {
				t.Errorf("ApiKeyBucketsService_create with dryRun = %v, want \"dryRun\": true", created)
			}
			inst.ask(t, http.StatusNotFound, http.MethodGet, inst.path("/key-buckets/%s", name), "")
			if created := callStructured(t, session, "ApiKeyBucketsService_create", bucket); created.text("name") != name {
				t.Errorf("ApiKeyBucketsService_create = %v, want the name %s", created, name)
			}
			inst.ask(t, http.StatusOK, http.MethodGet, inst.path("/key-buckets/%s", name), "")
			if list := callStructured(t, session, "ApiKeyBucketsService_list",
				map[string]any{"accountName": inst.account, "limit": 1000}); !hasItem(t, list, "name", name) {
				t.Errorf("ApiKeyBucketsService_list = %v, want %s among them", list, name)
			}
			robot := map[string]any{"accountName": inst.account, "bucketName": name, "name": "robot"}
			callStructured(t, session, "ApiKeyConsumersService_create", robot)
			update := map[string]any{
				"accountName": inst.account, "bucketName": name, "consumerName": "robot",
				"description": "changed by a model",
			}
			if changed := callStructured(t, session, "ApiKeyConsumersService_update",
				update); changed.text("description") != "changed by a model" {
				t.Errorf("ApiKeyConsumersService_update = %v, want the description \"changed by a model\"", changed)
			}
			upload := map[string]any{"accountName": inst.account, "projectName": name, "branchName": "main"}
			if hidden := callStructured(t, session, "DeployService_sources", upload); strings.HasPrefix(hidden.text("uploadUrl"),
				"http") {
				t.Errorf("DeployService_sources = %v, want a masked uploadUrl", hidden)
			}
			upload["revealSecrets"] = true
			if shown := callStructured(t, session, "DeployService_sources", upload); !strings.HasPrefix(shown.text("uploadUrl"),
				"http") {
				t.Errorf("DeployService_sources with revealSecrets = %v, want an uploadUrl in clear", shown)
			}
			if result := callTool(t, session, "ApiKeyBucketsService_delete", byName); result.IsError {
				t.Errorf("ApiKeyBucketsService_delete = %+v, want success", result)
			}
			docs := connectAPI(t, inst, "/mcp/docs", "", version)
			if found := callStructured(t, docs, "search-gatewright-docs",
				map[string]any{"query": "roll the key of a consumer", "limit": 2}); len(found["passages"].([]any)) != 2 {
				t.Errorf("search-gatewright-docs with the limit 2 = %v, want 2 passages", found)
			}
		})
	}
}

// TestDeploymentsByMCP reads a source file of a build and the routes of its deployment, as a model does that repairs a
// build.
func TestDeploymentsByMCP(t *testing.T) {
	t.Parallel()
	inst, name := installation, unique(t, "mcp-read")
	id, _ := inst.upload(t, name, "main", archive(t, simple(t, newUpstream(t))))
	if status := inst.awaitBuild(t, name, id); status.text("status") != "SUCCESS" {
		t.Fatalf("the build has ended with %v, want SUCCESS", status)
	}
	session := connectAPI(t, inst, "/mcp", inst.key, "")
	location := map[string]any{
		"accountName": inst.account, "projectName": name, "statusId": id,
		"file": "config/routes.oas.json", "line": 1,
	}
	if shown := callStructured(t, session, "DeployService_source", location); !strings.Contains(shown.text("text"),
		`"openapi"`) {
		t.Errorf("DeployService_source = %v, want a text with \"openapi\"", shown)
	}
	deployed := callStructured(t, session, "DeploymentsService_list",
		map[string]any{"accountName": inst.account, "projectName": name}).data(t)[0].text("name")
	if routes := callStructured(t, session, "DeploymentsService_routes",
		map[string]any{"deploymentName": deployed}).data(t); len(routes) == 0 ||
		routes[0].text("handler") != "urlForwardHandler" {
		t.Errorf("DeploymentsService_routes = %v, want the handler urlForwardHandler first", routes)
	}
}

// TestMCPServersRefuseInvalidRequests checks the status and a header of the responses to requests that violate the
// protocol or have no key. For comparison, it also sends valid requests.
func TestMCPServersRefuseInvalidRequests(t *testing.T) {
	t.Parallel()
	inst := installation
	for _, tt := range []struct {
		method, path, key, body string
		status                  int
		header, want            string
	}{
		{
			http.MethodPost, "/mcp", "", `{"jsonrpc":"2.0","id":1,"method":"ping"}`, http.StatusUnauthorized, "WWW-Authenticate",
			"Bearer",
		},
		{http.MethodGet, "/mcp", "", "", http.StatusMethodNotAllowed, "Allow", "POST"},
		{http.MethodDelete, "/mcp/docs", "", "", http.StatusMethodNotAllowed, "Content-Type", "text/plain; charset=utf-8"},
		{
			http.MethodPost, "/mcp", inst.key, `{"jsonrpc":"2.0","id":1,"method":"ping"}`, http.StatusOK, "Content-Type",
			"application/json",
		},
		{
			http.MethodPost, "/mcp/docs", "", `{"jsonrpc":"2.0","id":1,"method":"ping"}`, http.StatusOK,
			"Access-Control-Allow-Origin", "*",
		},
		{http.MethodPost, "/mcp/docs", "", `{`, http.StatusBadRequest, "Content-Type", "application/json"},
	} {
		r, err := http.NewRequestWithContext(t.Context(), tt.method, inst.api+tt.path, strings.NewReader(tt.body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		resp, err := keyTransport{inst, tt.key}.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if resp.StatusCode != tt.status || resp.Header.Get(tt.header) != tt.want {
			t.Errorf("%s %s: status = %d, %s = %q, want %d and %q: %.300s",
				tt.method, tt.path, resp.StatusCode, tt.header, resp.Header.Get(tt.header), tt.status, tt.want, body)
		}
	}
}
