package gateway_test

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// connect is the official client at one of the servers, in a version of the protocol ("" for what it likes best).
func (w *mcpWorld) connect(t testing.TB, path, version string, header http.Header) *mcp.ClientSession {
	t.Helper()
	client := mcp.NewClient(&mcp.Implementation{Name: "peer", Version: "1"}, nil)
	transport := &mcp.StreamableClientTransport{
		Endpoint: "http://shop.test" + path, MaxRetries: -1,
		HTTPClient: &http.Client{Transport: &toHouse{address: strings.TrimPrefix(w.URL, "http://"), header: header}},
	}
	var options *mcp.ClientSessionOptions
	if version != "" {
		options = &mcp.ClientSessionOptions{ProtocolVersion: version}
	}
	session, err := client.Connect(t.Context(), transport, options)
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	t.Cleanup(func() { _ = session.Close() })
	return session
}

// toHouse sends every request to a house, whatever its host.
type toHouse struct {
	address string
	header  http.Header
}

func (h *toHouse) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	for name, values := range h.header {
		r.Header[name] = values
	}
	return (&http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, h.address)
	}}).RoundTrip(r)
}

// TestTheOfficialClientListsReadsAndCalls has the SDK's client use a server of a deployment over HTTP, in each
// version of the protocol that there is.
func TestTheOfficialClientListsReadsAndCalls(t *testing.T) {
	w := newMCPWorld(t)
	for _, version := range []string{"", "2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26"} {
		t.Run("version "+version, func(t *testing.T) {
			session := w.connect(t, "/mcp", version, nil)
			ctx := t.Context()
			tools, err := session.ListTools(ctx, nil)
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, tool := range tools.Tools {
				names = append(names, tool.Name)
			}
			if want := []string{"limited", "pictureTool", "putList", "readItem", "readTodo", "shop_execute", "shop_introspect", "write_todo"}; !slices.Equal(names, want) {
				t.Errorf("tools %v, want %v", names, want)
			}
			result, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "readTodo", Arguments: map[string]any{"id": "a b", "expand": []string{"x", "y"}}})
			if err != nil || result.IsError {
				t.Fatalf("%v %+v", err, result)
			}
			if got := w.last(t); got.Target != "/todos/a%20b?%24expand=x&%24expand=y" || got.Method != http.MethodGet {
				t.Errorf("the upstream got %s %s", got.Method, got.Target)
			}
			if text := result.Content[0].(*mcp.TextContent).Text; text != `{"id":"1","title":"from GET"}` {
				t.Errorf("text %s", text)
			}
			structured, err := json.Marshal(result.StructuredContent)
			if err != nil || string(structured) != `{"id":"1","title":"from GET"}` {
				t.Errorf("structured %s %v", structured, err)
			}
			resources, err := session.ListResources(ctx, nil)
			if err != nil || len(resources.Resources) != 3 {
				t.Fatalf("%v %+v", err, resources)
			}
			read, err := session.ReadResource(ctx, &mcp.ReadResourceParams{URI: "mcp://resources/guide"})
			if err != nil || read.Contents[0].Text != "# Guide" || read.Contents[0].MIMEType != "text/markdown" {
				t.Fatalf("%v %+v", err, read)
			}
			prompt, err := session.GetPrompt(ctx, &mcp.GetPromptParams{Name: "review", Arguments: map[string]string{"code": "x", "times": "2"}})
			if err != nil || len(prompt.Messages) != 2 || prompt.Messages[1].Content.(*mcp.TextContent).Text != "Yes." {
				t.Fatalf("%v %+v", err, prompt)
			}
			if got := w.last(t); got.Body != `{"code":"x","times":2}` {
				t.Errorf("the prompt's body is %s", got.Body)
			}
			_, err = session.CallTool(ctx, &mcp.CallToolParams{Name: "nowhere"})
			if wire, ok := errors.AsType[*jsonrpc.Error](err); !ok || wire.Code != -32602 {
				t.Errorf("an unknown tool: %v", err)
			}
			_, err = session.ReadResource(ctx, &mcp.ReadResourceParams{URI: "mcp://resources/nowhere"})
			want := int64(-32002)
			if version == "" || version == "2026-07-28" {
				want = -32602
			}
			if wire, ok := errors.AsType[*jsonrpc.Error](err); !ok || wire.Code != want {
				t.Errorf("an unknown uri: %v, want %d", err, want)
			}
		})
	}
}
