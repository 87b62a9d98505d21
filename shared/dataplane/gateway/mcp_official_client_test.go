package gateway_test

import (
	"cmp"
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

// connect connects the official client to the server at path. version is the version of the
// protocol, "" for the client's default. header has fields that each request of the client gets.
func (fx *mcpFixture) connect(t testing.TB, path, version string, header http.Header) *mcp.ClientSession {
	t.Helper()
	client := mcp.NewClient(&mcp.Implementation{Name: "peer", Version: "1"}, nil)
	transport := &mcp.StreamableClientTransport{
		Endpoint: "http://shop.test" + path, MaxRetries: -1,
		HTTPClient: &http.Client{Transport: &fixtureTransport{
			address: strings.TrimPrefix(fx.URL, "http://"),
			header:  header,
		}},
	}
	var options *mcp.ClientSessionOptions
	if version != "" {
		options = &mcp.ClientSessionOptions{ProtocolVersion: version}
	}
	session, err := client.Connect(t.Context(), transport, options)
	if err != nil {
		t.Fatalf("Connect() of the client: error = %v, want none", err)
	}
	t.Cleanup(func() { _ = session.Close() })
	return session
}

// fixtureTransport sends all requests to a fixture, with the fields of header.
type fixtureTransport struct {
	address string
	header  http.Header
}

func (t *fixtureTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	for name, values := range t.header {
		r.Header[name] = values
	}
	return (&http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, t.address)
		},
	}).RoundTrip(r)
}

// asJSON returns a result of the client as JSON, for messages. A result contains pointers, which %v would print.
func asJSON(result any) string {
	text, err := json.Marshal(result)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// TestOfficialMCPClient checks that the official client works with
// a deployment's server over HTTP, in each version of the protocol.
func TestOfficialMCPClient(t *testing.T) {
	fx := newMCPFixture(t)
	for _, version := range []string{"", "2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26"} {
		t.Run("version "+cmp.Or(version, "of the client's choice"), func(t *testing.T) {
			session := fx.connect(t, "/mcp", version, nil)
			ctx := t.Context()
			tools, err := session.ListTools(ctx, nil)
			if err != nil {
				t.Fatalf("ListTools() error = %v, want nil", err)
			}
			var names []string
			for _, tool := range tools.Tools {
				names = append(names, tool.Name)
			}
			if want := []string{
				"limited", "pictureTool", "putList", "readItem", "readTodo", "shop_execute", "shop_introspect",
				"write_todo",
			}; !slices.Equal(names, want) {
				t.Errorf("ListTools() = %v, want %v", names, want)
			}
			result, err := session.CallTool(ctx, &mcp.CallToolParams{
				Name:      "readTodo",
				Arguments: map[string]any{"id": "a b", "expand": []string{"x", "y"}},
			})
			if err != nil || result.IsError {
				t.Fatalf("CallTool(readTodo) = %s, %v, want no error", asJSON(result), err)
			}
			if got := fx.last(t); got.Target != "/todos/a%20b?%24expand=x&%24expand=y" || got.Method != http.MethodGet {
				t.Errorf("the upstream got %s %s, want GET of /todos/a%%20b with two $expand", got.Method, got.Target)
			}
			if text := result.Content[0].(*mcp.TextContent).Text; text != `{"id":"1","title":"from GET"}` {
				t.Errorf("CallTool(readTodo): text = %s, want the todo from GET", text)
			}
			structured, err := json.Marshal(result.StructuredContent)
			if err != nil || string(structured) != `{"id":"1","title":"from GET"}` {
				t.Errorf("CallTool(readTodo): structured content = %s, %v, want the todo from GET", structured, err)
			}
			resources, err := session.ListResources(ctx, nil)
			if err != nil || len(resources.Resources) != 3 {
				t.Fatalf("ListResources() = %s, %v, want 3 resources", asJSON(resources), err)
			}
			read, err := session.ReadResource(ctx, &mcp.ReadResourceParams{URI: "mcp://resources/guide"})
			if err != nil || read.Contents[0].Text != "# Guide" || read.Contents[0].MIMEType != "text/markdown" {
				t.Fatalf("ReadResource(guide) = %s, %v, want \"# Guide\" as text/markdown", asJSON(read), err)
			}
			prompt, err := session.GetPrompt(ctx, &mcp.GetPromptParams{
				Name:      "review",
				Arguments: map[string]string{"code": "x", "times": "2"},
			})
			if err != nil || len(prompt.Messages) != 2 || prompt.Messages[1].Content.(*mcp.TextContent).Text != "Yes." {
				t.Fatalf("GetPrompt(review) = %s, %v, want 2 messages, the last \"Yes.\"", asJSON(prompt), err)
			}
			if got := fx.last(t); got.Body != `{"code":"x","times":2}` {
				t.Errorf("GetPrompt(review): body at the upstream = %s, want code x and times 2", got.Body)
			}
			_, err = session.CallTool(ctx, &mcp.CallToolParams{Name: "nowhere"})
			if rpcErr, ok := errors.AsType[*jsonrpc.Error](err); !ok || rpcErr.Code != -32602 {
				t.Errorf("CallTool(nowhere) error = %v, want code -32602", err)
			}
			_, err = session.ReadResource(ctx, &mcp.ReadResourceParams{URI: "mcp://resources/nowhere"})
			want := int64(-32002)
			if version == "" || version == "2026-07-28" {
				want = -32602
			}
			if rpcErr, ok := errors.AsType[*jsonrpc.Error](err); !ok || rpcErr.Code != want {
				t.Errorf("ReadResource(nowhere) error = %v, want code %d", err, want)
			}
		})
	}
}
