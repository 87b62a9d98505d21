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

	sharedmcp "github.com/gatewright/gatewright/shared/mcp"
	"github.com/gatewright/gatewright/shared/origin"
)

// Files of one pixel and of one sample, for the image and the sound that the suite asks for.
const (
	pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
	sound = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA="
)

// newServer offers what the suite asks for, of the names that it prescribes, and listens. Where asks is false, what
// asks the client for something is left out, and tools are called in the short way.
func newServer(t *testing.T, asks bool) string {
	t.Helper()
	s := sharedmcp.New(sharedmcp.Setup{
		Name: "conformance", Version: "1.0.0", Asks: asks,
		MayAsk: func(r *http.Request) bool {
			from := r.Header.Get("Origin")
			return from == "" || origin.Same(from, "http", r.Host) && isHere(r.Host)
		},
		ForeignOrigin: "Call it from this machine.",
		Failed: func(_ context.Context, cause any) string {
			t.Errorf("a call panicked: %v", cause)
			return "The call failed."
		},
		Complete: func(context.Context, *mcp.CompleteRequest) (*mcp.CompleteResult, error) {
			return &mcp.CompleteResult{Completion: mcp.CompletionResultDetails{Values: []string{"Paris", "Park"}, Total: 2}}, nil
		},
	})
	all := tools()
	if asks {
		maps.Copy(all, asking())
		s.AddPrompt(&mcp.Prompt{Name: "test_input_required_result_prompt", Description: "Asks for its context"}, askingPrompt)
	}
	for name, handler := range all {
		schema, special := schemas[name]
		if !special {
			schema = `{"type":"object"}`
		}
		s.AddTool(&mcp.Tool{Name: name, Description: "What the suite asks of " + name, InputSchema: json.RawMessage(schema)}, handler)
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

// isHere reports whether a host is this machine: a page whose name leads here is none of this server's.
func isHere(host string) bool {
	u := url.URL{Host: host}
	return u.Hostname() == "127.0.0.1" || u.Hostname() == "localhost"
}

// serve is what stands between a listener and Answer.
func serve(t *testing.T, s *sharedmcp.Server, w http.ResponseWriter, r *http.Request) {
	response := s.Answer(r)
	defer func() {
		if err := response.Body.Close(); err != nil {
			t.Errorf("close an answer: %v", err)
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
				return // the client has gone
			}
			_ = flusher.Flush()
		}
		if err == io.EOF {
			return
		}
		if err != nil {
			t.Errorf("read an answer: %v", err)
			return
		}
	}
}

// schemas are those of tools of which the suite looks at the schema.
var schemas = map[string]string{
	"json_schema_2020_12_tool": `{
		"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object",
		"$defs": {"address": {"$anchor": "addressDef", "type": "object", "properties": {"street": {"type": "string"}, "city": {"type": "string"}}}},
		"properties": {
			"name": {"type": "string"}, "address": {"$ref": "#/$defs/address"}, "contactMethod": {"type": "string", "enum": ["phone", "email"]},
			"phone": {"type": "string"}, "email": {"type": "string"}
		},
		"allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
		"if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
		"then": {"required": ["phone"]}, "else": {"required": ["email"]},
		"additionalProperties": false
	}`,
	"test_x_mcp_header": `{"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}, "level": {"type": "integer"}}}`,
}

// tools are those that ask for nothing.
//
//nolint:staticcheck // the suite asks about what is deprecated, too
func tools() map[string]mcp.ToolHandler {
	image := &mcp.ImageContent{Data: decoded(pixel), MIMEType: "image/png"}
	resource := &mcp.EmbeddedResource{Resource: &mcp.ResourceContents{URI: "test://embedded-resource", MIMEType: "text/plain", Text: "This is an embedded resource."}}
	return map[string]mcp.ToolHandler{
		"test_simple_text":            says(text("This is a simple text response for testing.")),
		"test_image_content":          says(image),
		"test_audio_content":          says(&mcp.AudioContent{Data: decoded(sound), MIMEType: "audio/wav"}),
		"test_embedded_resource":      says(resource),
		"test_multiple_content_types": says(text("A text, an image and a resource."), image, resource),
		"test_logging_tool":           says(text("This server has no log.")),
		"test_tool_with_logging":      says(text("This server has no log.")),
		"test_streaming_elicitation":  says(text("This server asks nothing by a stream.")),
		"json_schema_2020_12_tool":    says(text("This is what the schema lets through.")),
		"test_x_mcp_header":           says(text("The header says what the argument says.")),
		"test_error_handling": func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return sharedmcp.Refusal("This tool fails always."), nil
		},
		"test_tool_with_progress": func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			for i := range 3 {
				sharedmcp.Progress(ctx, r, float64(i)/2, fmt.Sprintf("%d of 2", i))
			}
			return said(text("Done.")), nil
		},
		"test_missing_capability": func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			if can := r.ClientCapabilities(); can != nil && can.Sampling != nil {
				return said(text("The client can do it.")), nil
			}
			missing, err := json.Marshal(mcp.MissingRequiredClientCapabilityData{RequiredCapabilities: &mcp.ClientCapabilities{Sampling: &mcp.SamplingCapabilities{}}})
			if err != nil {
				return nil, err
			}
			return nil, &jsonrpc.Error{Code: mcp.CodeMissingRequiredClientCapabilities, Message: "Declare sampling.", Data: missing}
		},
	}
}

func addResources(s *sharedmcp.Server) {
	s.AddResource(&mcp.Resource{URI: "test://static-text", Name: "text", MIMEType: "text/plain"}, reads("text/plain", "This is the content of the static text resource."))
	s.AddResource(&mcp.Resource{URI: "test://static-binary", Name: "image", MIMEType: "image/png"}, func(_ context.Context, r *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: r.Params.URI, MIMEType: "image/png", Blob: decoded(pixel)}}}, nil
	})
	s.AddResourceTemplate(&mcp.ResourceTemplate{URITemplate: "test://template/{id}/data", Name: "template", MIMEType: "application/json"}, func(ctx context.Context, r *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		id := strings.TrimSuffix(strings.TrimPrefix(r.Params.URI, "test://template/"), "/data")
		return reads("application/json", fmt.Sprintf(`{"id":%q,"templateTest":true}`, id))(ctx, r)
	})
}

func addPrompts(s *sharedmcp.Server) {
	s.AddPrompt(&mcp.Prompt{Name: "test_simple_prompt", Description: "A prompt"}, func(context.Context, *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		return prompts(text("This is a simple prompt for testing.")), nil
	})
	s.AddPrompt(&mcp.Prompt{
		Name: "test_prompt_with_arguments", Description: "A prompt with arguments",
		Arguments: []*mcp.PromptArgument{{Name: "arg1", Description: "The first", Required: true}, {Name: "arg2", Description: "The second", Required: true}},
	}, func(_ context.Context, r *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		return prompts(text(fmt.Sprintf("Prompt with arguments: arg1='%s', arg2='%s'", r.Params.Arguments["arg1"], r.Params.Arguments["arg2"]))), nil
	})
	s.AddPrompt(&mcp.Prompt{
		Name: "test_prompt_with_embedded_resource", Description: "A prompt with a resource",
		Arguments: []*mcp.PromptArgument{{Name: "resourceUri", Description: "The resource", Required: true}},
	}, func(_ context.Context, r *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		return prompts(&mcp.EmbeddedResource{Resource: &mcp.ResourceContents{URI: r.Params.Arguments["resourceUri"], MIMEType: "text/plain", Text: "Embedded."}}), nil
	})
	s.AddPrompt(&mcp.Prompt{Name: "test_prompt_with_image", Description: "A prompt with an image"}, func(context.Context, *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		return prompts(&mcp.ImageContent{Data: decoded(pixel), MIMEType: "image/png"}), nil
	})
}

func text(s string) *mcp.TextContent { return &mcp.TextContent{Text: s} }

func said(content ...mcp.Content) *mcp.CallToolResult { return &mcp.CallToolResult{Content: content} }

// says is a tool that answers the same always.
func says(content ...mcp.Content) mcp.ToolHandler {
	return func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) { return said(content...), nil }
}

func reads(mimeType, content string) mcp.ResourceHandler {
	return func(_ context.Context, r *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: r.Params.URI, MIMEType: mimeType, Text: content}}}, nil
	}
}

func prompts(content ...mcp.Content) *mcp.GetPromptResult {
	result := &mcp.GetPromptResult{Description: "A prompt of the suite"}
	for _, one := range content {
		result.Messages = append(result.Messages, &mcp.PromptMessage{Role: "user", Content: one})
	}
	return result
}

func decoded(base string) []byte {
	data, err := base64.StdEncoding.DecodeString(base)
	if err != nil {
		panic("conformance: a file of the fixture is not in base64: " + err.Error())
	}
	return data
}
