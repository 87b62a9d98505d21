package gateway_test

import (
	"crypto/rand"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/aws/aws-lambda-go/events"

	"github.com/gatewright/gatewright/functions/functionstest"
	"github.com/gatewright/gatewright/functions/gateway"
	"github.com/gatewright/gatewright/shared/base/ids"
	"github.com/gatewright/gatewright/shared/core/artifacts"
	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/core/store"
	sharedgateway "github.com/gatewright/gatewright/shared/dataplane/gateway"
	"github.com/gatewright/gatewright/shared/format/environment"
	"github.com/gatewright/gatewright/shared/format/project"
	"github.com/gatewright/gatewright/shared/resource/deployments"
)

// mcpProject is the OpenAPI document of a project with an MCP server that has one tool.
const mcpProject = `{"openapi": "3.1.0", "info": {"title": "Shop", "version": "1"}, "paths": {
  "/mcp": {"post": {"operationId": "server", "responses": {"200": {"description": "It"}}, "x-gateway-route": {"handler": {
    "export": "mcpServerHandler", "module": "$import(@gatewright/runtime)", "options": {"operations": [{"file": "./config/routes.oas.json", "id": "look"}]}}}}},
  "/look": {"get": {"operationId": "look", "responses": {"200": {"description": "It"}}, "x-gateway-route": {"handler": {
    "export": "urlForwardHandler", "module": "$import(@gatewright/runtime)", "options": {"baseUrl": "UPSTREAM"}}}}}}}`

// newMCPFixture returns an installation and a gateway that serves mcpProject.
func newMCPFixture(t *testing.T) (installation.Parts, *gateway.Service) {
	t.Helper()
	upstreamServer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "looked")
	}))
	t.Cleanup(upstreamServer.Close)
	p := functionstest.New(t).UseLiveClock().Parts
	p.Random, p.IDs = rand.Reader, ids.NewSource(rand.Reader, p.Now)
	p.Config.PrivateUpstreams = true
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	files := project.Files{"config/routes.oas.json": []byte(strings.ReplaceAll(mcpProject, "UPSTREAM",
		upstreamServer.URL))}
	a, result, err := project.NewCompiler().Compile(t.Context(), files, project.Input{
		Identity: project.Identity{
			AccountID: "a-1", Project: "shop", Environment: string(environment.Production),
			Deployment: shopName,
		},
		Catalog: sharedgateway.Catalog{}, Verify: sharedgateway.Verify,
	})
	must(err)
	if a == nil {
		t.Fatalf("errors of the build = %+v, want none", result.Errors)
	}
	artifact, err := artifacts.Open(p).Put(t.Context(), shopName, a)
	must(err)
	must(p.Table.Commit(t.Context(),
		store.Put(deployments.Key(shopName), deployments.Record{
			Name: shopName, AccountID: "a-1", Project: "shop", Branch: "main", Kind: environment.Production, Latest: 1,
			Served: &deployments.Served{Number: 1, Artifact: artifact},
		}),
		store.Put(store.ProjectKey("a-1", "shop"), deployments.Project{ID: "p-shop", AccountID: "a-1", Name: "shop"})))
	g, err := gateway.New(p, gateway.Options{})
	must(err)
	return p, g
}

// latestMeta is the beginning of the metadata of a request with the protocol version 2026-07-28.
const latestMeta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
	`"io.modelcontextprotocol/clientCapabilities":{}`

// endedMCPRequests are requests that a client wants to keep open, but whose responses end so that the invocation can
// end.
var endedMCPRequests = []struct {
	name, method, version string
	// rpcMethod and params are the method and the parameters of the JSON-RPC message.
	rpcMethod, params string
	status            int
	contentType       string
	text              string
	events            int
}{
	{
		name: "a call with progress", version: "2025-06-18", rpcMethod: "tools/call",
		params: `{"name":"look","_meta":{"progressToken":"p"}}`, status: 200, contentType: "text/event-stream",
		text: `"text":"looked"`, events: 3,
	},
	{
		name: "a call of the newest version with progress", version: "2026-07-28", rpcMethod: "tools/call",
		params: `{"name":"look",` + latestMeta + `,"progressToken":"p"}}`, status: 200, contentType: "text/event-stream",
		text: `"text":"looked"`, events: 3,
	},
	{
		name: "invalid call with progress", version: "2025-06-18", rpcMethod: "tools/call",
		params: `{"name":"nothing","_meta":{"progressToken":"p"}}`, status: 200, contentType: "text/event-stream",
		text: "-32602", events: 1,
	},
	{
		name: "a subscription", version: "2026-07-28", rpcMethod: "subscriptions/listen", params: `{` + latestMeta + `}}`,
		status: 404, contentType: "application/json", text: "-32601",
	},
	{
		name: "subscription of an older version", version: "2025-06-18", rpcMethod: "resources/subscribe",
		params: `{"uri":"mcp://resources/x"}`, status: 200, contentType: "application/json", text: "-32601",
	},
	{
		name: "stream of server messages", method: http.MethodGet, version: "2025-06-18", rpcMethod: "none", params: "{}",
		status: 405,
	},
}

// TestMCPResponseEndsInvocation checks that responses to messages end, even if a client wants to keep them open, with
// and without streaming. Otherwise a Lambda would run, and cost money, until its timeout.
func TestMCPResponseEndsInvocation(t *testing.T) {
	p, g := newMCPFixture(t)
	invokers := map[string]func(events.APIGatewayProxyRequest) (int, http.Header, string){
		"whole responses": func(event events.APIGatewayProxyRequest) (int, http.Header, string) {
			resp, err := gateway.Edge(p, g)(t.Context(), event)
			if err != nil {
				t.Fatal(err)
			}
			return resp.StatusCode, resp.MultiValueHeaders, resp.Body
		},
		"streams": func(event events.APIGatewayProxyRequest) (int, http.Header, string) {
			resp, err := gateway.Stream(p, g)(t.Context(), event)
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(resp.Body)
			if err != nil {
				t.Fatal(err)
			}
			return resp.StatusCode, resp.MultiValueHeaders, string(body)
		},
	}
	for mode, invoke := range invokers {
		for _, tt := range endedMCPRequests {
			t.Run(mode+", "+tt.name, func(t *testing.T) {
				method := tt.method
				if method == "" {
					method = http.MethodPost
				}
				status, header, body := invoke(events.APIGatewayProxyRequest{
					HTTPMethod: method, Path: "/mcp", Body: `{"jsonrpc":"2.0","id":1,"method":"` +
						tt.rpcMethod + `","params":` + tt.params + `}`,
					MultiValueHeaders: map[string][]string{
						"Host": {shopName + ".gateway.test"}, "Accept": {"application/json, text/event-stream"},
						"Content-Type":         {"application/json"},
						"Mcp-Protocol-Version": {tt.version}, "Mcp-Method": {tt.rpcMethod}, "Mcp-Name": {"look"},
					},
				})
				if status != tt.status || tt.contentType != "" && header.Get("Content-Type") != tt.contentType ||
					!strings.Contains(body, tt.text) {
					t.Errorf("response = %d %q %s, want %d %q with %q",
						status, header.Get("Content-Type"), body, tt.status, tt.contentType, tt.text)
				}
				if n := strings.Count(body, "event: message"); n != tt.events {
					t.Errorf("events in the response = %d, want %d: %s", n, tt.events, body)
				}
			})
		}
	}
}
