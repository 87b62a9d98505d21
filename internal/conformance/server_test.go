package conformance_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/gatewright/gatewright/shared/base/origin"
	sharedmcp "github.com/gatewright/gatewright/shared/format/mcp"
)

// Files with one pixel and one sample, for the image and the sound that the suite requests.
const (
	pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
	audio = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA="
)

// newServer starts a server that offers everything that the suite calls, with the names that the suite prescribes, and returns its
// address. If requestsInput is false, it leaves out tools that request input from the client, and the server executes calls directly
// (shared/format/mcp/direct.go).
func newServer(t *testing.T, requestsInput bool) string {
	t.Helper()
	s := sharedmcp.New(sharedmcp.Setup{
		Name: "conformance", Version: "1.0.0", RequestsInput: requestsInput,
		CheckOrigin: func(r *http.Request) bool {
			originHeader := r.Header.Get("Origin")
			return originHeader == "" || origin.Same(originHeader, "http", r.Host) && isLocalhost(r.Host)
		},
		ForeignOrigin: "Call it from this machine.",
		ReportFailure: func(_ context.Context, cause any) string {
			t.Errorf("a call panicked, want none to panic: %v", cause)
			return "The call failed."
		},
		Complete: func(context.Context, *mcp.CompleteRequest) (*mcp.CompleteResult, error) {
			return &mcp.CompleteResult{Completion: mcp.CompletionResultDetails{Values: []string{"Paris", "Park"}, Total: 2}}, nil
		},
	})
	all := tools()
	if requestsInput {
		maps.Copy(all, inputTools())
		s.AddPrompt(&mcp.Prompt{Name: "test_input_required_result_prompt", Description: "Asks for its context"}, inputPrompt)
	}
	for name, handler := range all {
		schema, hasSchema := schemas[name]
		if !hasSchema {
			schema = `{"type":"object"}`
		}
		s.AddTool(&mcp.Tool{Name: name, Description: "What the suite asks of " + name, InputSchema: json.RawMessage(schema)},
			handler)
	}
	addResources(s)
	addPrompts(s)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		serve(t, s, w, r)
	}))
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	server.Start()
	t.Cleanup(server.Close)
	return server.URL + "/mcp"
}

// isLocalhost reports whether a host is this machine. A web page whose host name resolves to this machine does not belong to this server.
func isLocalhost(host string) bool {
	u := url.URL{Host: host}
	return u.Hostname() == "127.0.0.1" || u.Hostname() == "localhost"
}

// serve serves an HTTP request with s.Handle.
func serve(t *testing.T, s *sharedmcp.Server, w http.ResponseWriter, r *http.Request) {
	response := s.Handle(r)
	defer func() {
		if err := response.Body.Close(); err != nil {
			t.Errorf("close a response: %v", err)
		}
	}()
	maps.Copy(w.Header(), response.Header)
	w.WriteHeader(response.StatusCode)
	flusher := http.NewResponseController(w)
	buffer := make([]byte, 4<<10)
	for {
		n, err := response.Body.Read(buffer)
		if n > 0 {
			if _, err := w.Write(buffer[:n]); err != nil {
				return // the client has disconnected
			}
			_ = flusher.Flush()
		}
		if err == io.EOF {
			return
		}
		if err != nil {
			t.Errorf("read a response: %v", err)
			return
		}
	}
}

// schemas has the schemas that the suite checks, by the name of the tool.
var schemas = map[string]string{
	"json_schema_2020_12_tool": `{
		"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object",
		"$defs": {"address": {"$anchor": "addressDef", "type": "object",
			"properties": {"street": {"type": "string"}, "city": {"type": "string"}}}},
		"properties": {
			"name": {"type": "string"}, "address": {"$ref": "#/$defs/address"},
			"contactMethod": {"type": "string", "enum": ["phone", "email"]},
			"phone": {"type": "string"}, "email": {"type": "string"}
		},
		"allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
		"if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
		"then": {"required": ["phone"]}, "else": {"required": ["email"]},
		"additionalProperties": false
	}`,
	"test_x_mcp_header": `{"type": "object", "properties": {
		"region": {"type": "string", "x-mcp-header": "Region"}, "level": {"type": "integer"}
	}}`,
}

// tools returns the tools that request no input.
//
//nolint:staticcheck // the suite also tests deprecated parts of the protocol
func tools() map[string]mcp.ToolHandler {
	image := &mcp.ImageContent{Data: decodeBase64(pixel), MIMEType: "image/png"}
	resource := &mcp.EmbeddedResource{Resource: &mcp.ResourceContents{
		URI:      "test://embedded-resource",
		MIMEType: "text/plain", Text: "This is an embedded resource.",
	}}
	return map[string]mcp.ToolHandler{
		"test_simple_text":            staticTool(text("This is a simple text response for testing.")),
		"test_image_content":          staticTool(image),
		"test_audio_content":          staticTool(&mcp.AudioContent{Data: decodeBase64(audio), MIMEType: "audio/wav"}),
		"test_embedded_resource":      staticTool(resource),
		"test_multiple_content_types": staticTool(text("A text, an image and a resource."), image, resource),
		"test_logging_tool":           staticTool(text("This server has no log.")),
		"test_tool_with_logging":      staticTool(text("This server has no log.")),
		"test_streaming_elicitation":  staticTool(text("This server asks nothing by a stream.")),
		"json_schema_2020_12_tool":    staticTool(text("This is what the schema lets through.")),
		"test_x_mcp_header":           staticTool(text("The header says what the argument says.")),
		"test_error_handling": func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return sharedmcp.Refusal("This tool fails always."), nil
		},
		"test_tool_with_progress": func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			for i := range 3 {
				sharedmcp.Progress(ctx, r, float64(i)/2, fmt.Sprintf("%d of 2", i))
			}
			return toolResult(text("Done.")), nil
		},
		"test_missing_capability": func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			if capabilities := r.ClientCapabilities(); capabilities != nil && capabilities.Sampling != nil {
				return toolResult(text("The client can do it.")), nil
			}
			missing, err := json.Marshal(
				mcp.MissingRequiredClientCapabilityData{
					RequiredCapabilities: &mcp.ClientCapabilities{Sampling: &mcp.SamplingCapabilities{}},
				})
			if err != nil {
				return nil, err
			}
			return nil, &jsonrpc.Error{
				Code: mcp.CodeMissingRequiredClientCapabilities, Message: "Declare sampling.",
				Data: missing,
			}
		},
	}
}

func addResources(s *sharedmcp.Server) {
	s.AddResource(&mcp.Resource{URI: "test://static-text", Name: "text", MIMEType: "text/plain"},
		staticResource("text/plain", "This is the content of the static text resource."))
	s.AddResource(&mcp.Resource{URI: "test://static-binary", Name: "image", MIMEType: "image/png"},
		func(_ context.Context, r *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
			return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{
				URI: r.Params.URI, MIMEType: "image/png",
				Blob: decodeBase64(pixel),
			}}}, nil
		})
	s.AddResourceTemplate(&mcp.ResourceTemplate{
		URITemplate: "test://template/{id}/data", Name: "template",
		MIMEType: "application/json",
	},
		func(ctx context.Context, r *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
			id := strings.TrimSuffix(strings.TrimPrefix(r.Params.URI, "test://template/"), "/data")
			return staticResource("application/json", fmt.Sprintf(`{"id":%q,"templateTest":true}`, id))(ctx, r)
		})
}

func addPrompts(s *sharedmcp.Server) {
	s.AddPrompt(&mcp.Prompt{Name: "test_simple_prompt", Description: "A prompt"},
		func(context.Context, *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
			return promptResult(text("This is a simple prompt for testing.")), nil
		})
	s.AddPrompt(&mcp.Prompt{
		Name: "test_prompt_with_arguments", Description: "A prompt with arguments",
		Arguments: []*mcp.PromptArgument{
			{Name: "arg1", Description: "The first", Required: true},
			{Name: "arg2", Description: "The second", Required: true},
		},
	}, func(_ context.Context, r *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		return promptResult(text(fmt.Sprintf("Prompt with arguments: arg1='%s', arg2='%s'", r.Params.Arguments["arg1"],
			r.Params.Arguments["arg2"]))), nil
	})
	s.AddPrompt(&mcp.Prompt{
		Name: "test_prompt_with_embedded_resource", Description: "A prompt with a resource",
		Arguments: []*mcp.PromptArgument{{Name: "resourceUri", Description: "The resource", Required: true}},
	}, func(_ context.Context, r *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		return promptResult(&mcp.EmbeddedResource{Resource: &mcp.ResourceContents{
			URI:      r.Params.Arguments["resourceUri"],
			MIMEType: "text/plain", Text: "Embedded.",
		}}), nil
	})
	s.AddPrompt(&mcp.Prompt{Name: "test_prompt_with_image", Description: "A prompt with an image"},
		func(context.Context, *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
			return promptResult(&mcp.ImageContent{Data: decodeBase64(pixel), MIMEType: "image/png"}), nil
		})
}

func text(s string) *mcp.TextContent { return &mcp.TextContent{Text: s} }

func toolResult(content ...mcp.Content) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: content}
}

// staticTool returns a tool that always returns the same content.
func staticTool(content ...mcp.Content) mcp.ToolHandler {
	return func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return toolResult(content...), nil
	}
}

func staticResource(mimeType, content string) mcp.ResourceHandler {
	return func(_ context.Context, r *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{
			URI: r.Params.URI, MIMEType: mimeType,
			Text: content,
		}}}, nil
	}
}

func promptResult(content ...mcp.Content) *mcp.GetPromptResult {
	result := &mcp.GetPromptResult{Description: "A prompt of the suite"}
	for _, message := range content {
		result.Messages = append(result.Messages, &mcp.PromptMessage{Role: "user", Content: message})
	}
	return result
}

func decodeBase64(base string) []byte {
	data, err := base64.StdEncoding.DecodeString(base)
	if err != nil {
		panic("conformance: a file of the fixture is not in base64: " + err.Error())
	}
	return data
}
