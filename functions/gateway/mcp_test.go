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
	"github.com/gatewright/gatewright/shared/artifacts"
	"github.com/gatewright/gatewright/shared/deployments"
	"github.com/gatewright/gatewright/shared/environment"
	sharedgateway "github.com/gatewright/gatewright/shared/gateway"
	"github.com/gatewright/gatewright/shared/ids"
	"github.com/gatewright/gatewright/shared/installation"
	"github.com/gatewright/gatewright/shared/project"
	"github.com/gatewright/gatewright/shared/store"
)

// assistants is a project with an MCP server of one tool.
const assistants = `{"openapi": "3.1.0", "info": {"title": "Shop", "version": "1"}, "paths": {
  "/mcp": {"post": {"operationId": "server", "responses": {"200": {"description": "It"}}, "x-gateway-route": {"handler": {
    "export": "mcpServerHandler", "module": "$import(@gatewright/runtime)", "options": {"operations": [{"file": "./config/routes.oas.json", "id": "look"}]}}}}},
  "/look": {"get": {"operationId": "look", "responses": {"200": {"description": "It"}}, "x-gateway-route": {"handler": {
    "export": "urlForwardHandler", "module": "$import(@gatewright/runtime)", "options": {"baseUrl": "UPSTREAM"}}}}}}}`

// newAssistants is an installation that serves it.
func newAssistants(t *testing.T) (installation.Parts, *gateway.Service) {
	t.Helper()
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "looked") }))
	t.Cleanup(up.Close)
	p := functionstest.New(t).Live().Parts
	p.Random, p.IDs = rand.Reader, ids.NewSource(rand.Reader, p.Now)
	p.Config.PrivateUpstreams = true
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	files := project.Files{"config/routes.oas.json": []byte(strings.ReplaceAll(assistants, "UPSTREAM", up.URL))}
	a, result, err := project.NewCompiler().Compile(t.Context(), files, project.Input{
		Identity:  project.Identity{AccountID: "a-1", Project: "shop", Environment: string(environment.Production), Deployment: shopName},
		Catalogue: sharedgateway.Catalogue{}, Verify: sharedgateway.Verify,
	})
	must(err)
	if a == nil {
		t.Fatalf("the project does not build: %+v", result.Errors)
	}
	artifact, err := artifacts.Open(p).Put(t.Context(), shopName, a)
	must(err)
	must(p.Table.Commit(t.Context(),
		store.Put(deployments.Key(shopName), deployments.Record{
			Name: shopName, AccountID: "a-1", Project: "shop", Branch: "main", Kind: environment.Production, Latest: 1, Served: &deployments.Served{Number: 1, Artifact: artifact},
		}),
		store.Put(store.ProjectKey("a-1", "shop"), deployments.Project{ID: "p-shop", AccountID: "a-1", Name: "shop"})))
	g, err := gateway.New(p, gateway.Options{})
	must(err)
	return p, g
}

// TestNoMCPMessageHoldsALambda: whatever a client would like to be held open ends with its answer, on both roads. A
// Lambda would be paid for until its timeout otherwise.
func TestNoMCPMessageHoldsALambda(t *testing.T) {
	p, g := newAssistants(t)
	roads := map[string]func(events.APIGatewayProxyRequest) (int, http.Header, string){
		"whole answers": func(event events.APIGatewayProxyRequest) (int, http.Header, string) {
			answer, err := gateway.Edge(p, g)(t.Context(), event)
			if err != nil {
				t.Fatal(err)
			}
			return answer.StatusCode, answer.MultiValueHeaders, answer.Body
		},
		"streams": func(event events.APIGatewayProxyRequest) (int, http.Header, string) {
			answer, err := gateway.Stream(p, g)(t.Context(), event)
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(answer.Body)
			if err != nil {
				t.Fatal(err)
			}
			return answer.StatusCode, answer.MultiValueHeaders, string(body)
		},
	}
	const newest = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}`
	for road, invoke := range roads {
		for _, tt := range []struct {
			name, method, version, message, body string
			status                               int
			contentType                          string
			says                                 string
			events                               int
		}{
			{name: "a call with progress", version: "2025-06-18", message: "tools/call", body: `{"name":"look","_meta":{"progressToken":"p"}}`, status: 200, contentType: "text/event-stream", says: `"text":"looked"`, events: 3},
			{name: "one of the newest version", version: "2026-07-28", message: "tools/call", body: `{"name":"look",` + newest + `,"progressToken":"p"}}`, status: 200, contentType: "text/event-stream", says: `"text":"looked"`, events: 3},
			{name: "a wrong call with progress", version: "2025-06-18", message: "tools/call", body: `{"name":"nothing","_meta":{"progressToken":"p"}}`, status: 200, contentType: "text/event-stream", says: "-32602", events: 1},
			{name: "a subscription", version: "2026-07-28", message: "subscriptions/listen", body: `{` + newest + `}}`, status: 404, contentType: "application/json", says: "-32601"},
			{name: "an older one", version: "2025-06-18", message: "resources/subscribe", body: `{"uri":"mcp://resources/x"}`, status: 200, contentType: "application/json", says: "-32601"},
			{name: "a stream for what comes", method: http.MethodGet, version: "2025-06-18", message: "none", body: "{}", status: 405},
		} {
			t.Run(road+", "+tt.name, func(t *testing.T) {
				method := tt.method
				if method == "" {
					method = http.MethodPost
				}
				status, header, body := invoke(events.APIGatewayProxyRequest{
					HTTPMethod: method, Path: "/mcp", Body: `{"jsonrpc":"2.0","id":1,"method":"` + tt.message + `","params":` + tt.body + `}`,
					MultiValueHeaders: map[string][]string{
						"Host": {shopName + ".gateway.test"}, "Accept": {"application/json, text/event-stream"}, "Content-Type": {"application/json"},
						"Mcp-Protocol-Version": {tt.version}, "Mcp-Method": {tt.message}, "Mcp-Name": {"look"},
					},
				})
				if status != tt.status || tt.contentType != "" && header.Get("Content-Type") != tt.contentType || !strings.Contains(body, tt.says) {
					t.Errorf("answered %d as %s: %s", status, header.Get("Content-Type"), body)
				}
				if n := strings.Count(body, "event: message"); n != tt.events {
					t.Errorf("%d events, want %d: %s", n, tt.events, body)
				}
			})
		}
	}
}
