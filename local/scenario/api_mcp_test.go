package scenario_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// keyed sends requests to the management API with a key, "" for none.
type keyed struct {
	in  *target
	key string
}

// RoundTrip implements http.RoundTripper. It waits where it is told to: the documentation answers an address ten calls a
// second.
func (k keyed) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	if k.key != "" {
		r.Header.Set("Authorization", "Bearer "+k.key)
	}
	return patient(http.DefaultTransport.RoundTrip, r)
}

// connectAPI connects the official client to one of the installation's own servers, in a version of the protocol, ""
// for the one that both choose.
func connectAPI(t *testing.T, in *target, path, key, version string) *mcp.ClientSession {
	t.Helper()
	var options *mcp.ClientSessionOptions
	if version != "" {
		options = &mcp.ClientSessionOptions{ProtocolVersion: version}
	}
	session, err := mcp.NewClient(&mcp.Implementation{Name: "scenario", Version: "1"}, nil).Connect(t.Context(), &mcp.StreamableClientTransport{
		Endpoint: in.api + path, MaxRetries: -1, HTTPClient: &http.Client{Transport: keyed{in, key}},
	}, options)
	if err != nil {
		t.Fatalf("connect to %s: %v", path, err)
	}
	t.Cleanup(func() { _ = session.Close() })
	return session
}

// called has a tool called until the API lets it in: a call counts for the rate of the key as the request that it stands for.
func called(t *testing.T, session *mcp.ClientSession, tool string, arguments map[string]any) *mcp.CallToolResult {
	t.Helper()
	for {
		result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: arguments})
		if err != nil {
			t.Fatalf("%s: %v", tool, err)
		}
		if !result.IsError {
			return result
		}
		if said, is := result.Content[0].(*mcp.TextContent); !is || !strings.HasPrefix(said.Text, "429 ") {
			return result
		}
		time.Sleep(time.Second)
	}
}

// structured is what a call answered.
func structured(t *testing.T, session *mcp.ClientSession, tool string, arguments map[string]any) object {
	t.Helper()
	result := called(t, session, tool, arguments)
	raw, err := json.Marshal(result.StructuredContent)
	if err != nil || result.IsError {
		said, _ := json.Marshal(result.Content)
		t.Fatalf("%s is refused: %v %s", tool, err, said)
	}
	var out object
	if err := json.Unmarshal(raw, &out); err != nil {
		t.Fatalf("%s answers %s: %v", tool, raw, err)
	}
	return out
}

// TestTheAPIIsUsedByMCP has the official client try, make and delete a bucket, and ask the documentation, in each version of
// the protocol.
func TestTheAPIIsUsedByMCP(t *testing.T) {
	t.Parallel()
	in := installation
	for _, version := range []string{"", "2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26"} {
		t.Run("MCP "+version, func(t *testing.T) {
			session := connectAPI(t, in, "/mcp", in.key, version)
			name := unique(t, "mcp")
			bucket := map[string]any{"accountName": in.account, "name": name}
			named := map[string]any{"accountName": in.account, "bucketName": name}
			tools, err := session.ListTools(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.ContainsFunc(tools.Tools, func(tool *mcp.Tool) bool { return tool.Name == "ApiKeyBucketsService_create" }) {
				t.Errorf("there are the tools %v", tools.Tools)
			}
			if me := structured(t, session, "V1_whoAmI", nil); me.text("account") != in.account {
				t.Errorf("it is %v", me)
			}
			tried := map[string]any{"dryRun": true}
			for argument, value := range bucket {
				tried[argument] = value
			}
			if made := structured(t, session, "ApiKeyBucketsService_create", tried); made["dryRun"] != true {
				t.Errorf("trying answers %v", made)
			}
			in.ask(t, http.StatusNotFound, http.MethodGet, in.path("/key-buckets/%s", name), "")
			if made := structured(t, session, "ApiKeyBucketsService_create", bucket); made.text("name") != name {
				t.Errorf("it makes %v", made)
			}
			in.ask(t, http.StatusOK, http.MethodGet, in.path("/key-buckets/%s", name), "")
			if list := structured(t, session, "ApiKeyBucketsService_list", map[string]any{"accountName": in.account, "limit": 1000}); !has(t, list, "name", name) {
				t.Errorf("it lists %v", list)
			}
			robot := map[string]any{"accountName": in.account, "bucketName": name, "name": "robot"}
			structured(t, session, "ApiKeyConsumersService_create", robot)
			update := map[string]any{"accountName": in.account, "bucketName": name, "consumerName": "robot", "description": "changed by a model"}
			if changed := structured(t, session, "ApiKeyConsumersService_update", update); changed.text("description") != "changed by a model" {
				t.Errorf("it changes it to %v", changed)
			}
			upload := map[string]any{"accountName": in.account, "projectName": name, "branchName": "main"}
			if hidden := structured(t, session, "DeployService_sources", upload); strings.HasPrefix(hidden.text("uploadUrl"), "http") {
				t.Errorf("a model is shown where to upload: %v", hidden)
			}
			upload["revealSecrets"] = true
			if shown := structured(t, session, "DeployService_sources", upload); !strings.HasPrefix(shown.text("uploadUrl"), "http") {
				t.Errorf("a model that asks is not shown where to upload: %v", shown)
			}
			if result := called(t, session, "ApiKeyBucketsService_delete", named); result.IsError {
				t.Errorf("deleting answers %+v", result)
			}
			docs := connectAPI(t, in, "/mcp/docs", "", version)
			if found := structured(t, docs, "search-gatewright-docs", map[string]any{"query": "roll the key of a consumer", "limit": 2}); len(found["passages"].([]any)) != 2 {
				t.Errorf("it finds %v", found)
			}
		})
	}
}

// TestWhatIsDeployedIsReadByMCP: a model reads the sources of a build that it is to mend, and what is served.
func TestWhatIsDeployedIsReadByMCP(t *testing.T) {
	t.Parallel()
	in, name := installation, unique(t, "mcp-read")
	id, _ := in.upload(t, name, "main", archive(t, simple(t, newUpstream(t))))
	if status := in.built(t, name, id); status.text("status") != "SUCCESS" {
		t.Fatalf("the build: %v", status)
	}
	session := connectAPI(t, in, "/mcp", in.key, "")
	place := map[string]any{"accountName": in.account, "projectName": name, "statusId": id, "file": "config/routes.oas.json", "line": 1}
	if shown := structured(t, session, "DeployService_source", place); !strings.Contains(shown.text("text"), `"openapi"`) {
		t.Errorf("it shows %v", shown)
	}
	deployed := structured(t, session, "DeploymentsService_list", map[string]any{"accountName": in.account, "projectName": name}).data(t)[0].text("name")
	if routes := structured(t, session, "DeploymentsService_routes", map[string]any{"deploymentName": deployed}).data(t); len(routes) == 0 || routes[0].text("handler") != "urlForwardHandler" {
		t.Errorf("it lists %v", routes)
	}
}

// TestServersOfTheInstallationRefuse what is no message of the protocol, and whoever has no key, as clients expect it.
func TestServersOfTheInstallationRefuse(t *testing.T) {
	t.Parallel()
	in := installation
	for _, tt := range []struct {
		method, path, key, body string
		status                  int
		header, want            string
	}{
		{http.MethodPost, "/mcp", "", `{"jsonrpc":"2.0","id":1,"method":"ping"}`, http.StatusUnauthorized, "WWW-Authenticate", "Bearer"},
		{http.MethodGet, "/mcp", "", "", http.StatusMethodNotAllowed, "Allow", "POST"},
		{http.MethodDelete, "/mcp/docs", "", "", http.StatusMethodNotAllowed, "Content-Type", "text/plain; charset=utf-8"},
		{http.MethodPost, "/mcp", in.key, `{"jsonrpc":"2.0","id":1,"method":"ping"}`, http.StatusOK, "Content-Type", "application/json"},
		{http.MethodPost, "/mcp/docs", "", `{"jsonrpc":"2.0","id":1,"method":"ping"}`, http.StatusOK, "Access-Control-Allow-Origin", "*"},
		{http.MethodPost, "/mcp/docs", "", `{`, http.StatusBadRequest, "Content-Type", "application/json"},
	} {
		r, err := http.NewRequestWithContext(t.Context(), tt.method, in.api+tt.path, strings.NewReader(tt.body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		out, err := keyed{in, tt.key}.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(out.Body)
		_ = out.Body.Close()
		if out.StatusCode != tt.status || out.Header.Get(tt.header) != tt.want {
			t.Errorf("%s %s: %d, %s: %q: %s", tt.method, tt.path, out.StatusCode, tt.header, out.Header.Get(tt.header), fmt.Sprintf("%.300s", body))
		}
	}
}
