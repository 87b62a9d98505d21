package gateway_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/format/project"
)

// mcpFormFiles are the files of a project whose tools send forms. base is the upstream's address.
func mcpFormFiles(base string) project.Files {
	handler := fmt.Sprintf(`"x-gateway-route": {"handler": {"export": "urlForwardHandler",
		"module": "$import(@gatewright/runtime)", "options": {"baseUrl": %q}}}`, base)
	return project.Files{"config/routes.oas.json": []byte(`{
  "openapi": "3.0.0", "info": {"title": "Payments", "version": "1"},
  "paths": {
    "/mcp": {"post": {"operationId": "server", "responses": {"default": {"description": "It"}}, "x-gateway-route": {
      "handler": {"export": "mcpServerHandler", "module": "$import(@gatewright/runtime)", "options": {"operations": [
        {"file": "./config/routes.oas.json", "id": "addCustomer"},
        {"file": "./config/routes.oas.json", "id": "upload"}]}}}}},
    "/v1/customers": {"post": {"operationId": "addCustomer", "responses": {"default": {"description": "It"}},
      "requestBody": {"content": {"application/x-www-form-urlencoded": {
        "encoding": {"metadata": {"explode": true, "style": "deepObject"}},
        "schema": {"type": "object", "additionalProperties": false, "properties": {"name": {"type": "string"},
          "metadata": {"anyOf": [{"type": "object", "additionalProperties": {"type": "string"}},
            {"type": "string", "enum": [""]}]}}}}}}, ` + handler + `}},
    "/v1/files": {"post": {"operationId": "upload", "responses": {"default": {"description": "It"}},
      "requestBody": {"required": true, "content": {"multipart/form-data": {
        "encoding": {"link": {"explode": true, "style": "deepObject"}},
        "schema": {"type": "object", "required": ["file"], "properties": {
          "file": {"type": "string", "format": "binary"}, "link": {"type": "object"}}}}}}, ` + handler + `}}
  }
}`)}
}

// TestMCPForms checks the forms that an upstream receives from tools. The upstream reads them with net/http.
func TestMCPForms(t *testing.T) {
	fx := &mcpFixture{}
	fx.backend = serve(t, func(out http.ResponseWriter, r *http.Request) {
		received := map[string]any{}
		if err := r.ParseMultipartForm(1 << 20); err != nil && !strings.Contains(err.Error(), "isn't multipart") {
			t.Errorf("ParseMultipartForm() error = %v, want none", err)
		}
		for name, values := range r.PostForm {
			received[name] = values
		}
		if r.MultipartForm != nil {
			for name, headers := range r.MultipartForm.File {
				file, err := headers[0].Open()
				if err != nil {
					t.Errorf("Open(%s) error = %v, want none", name, err)
					continue
				}
				content, _ := io.ReadAll(file)
				received[name] = headers[0].Filename + " " + headers[0].Header.Get("Content-Type") + " " + string(content)
			}
		}
		out.Header().Set("Content-Type", "application/json")
		writeJSON(t, out, received)
	})
	fx.fixture = newFixture(t, built(t, mcpFormFiles(fx.backend.URL)))
	for _, tt := range []struct{ tool, arguments, want string }{
		{
			"addCustomer", `{"metadata":{"order":"6735","a&b":"c=d"},"name":"A B"}`,
			`{"metadata[a\u0026b]":["c=d"],"metadata[order]":["6735"],"name":["A B"]}`,
		},
		{"addCustomer", `{"metadata":""}`, `{"metadata":[""]}`},
		{
			"upload", `{"file":"aGVsbG8=","filename_file":"a.txt","mediaType_file":"text/plain","link":{"create":true}}`,
			`{"file":"a.txt text/plain hello","link[create]":["true"]}`,
		},
		{"upload", `{"file":"aGVsbG8="}`, `{"file":"file application/octet-stream hello"}`},
	} {
		result, reply := fx.tool(t, "/mcp", tt.tool, tt.arguments)
		if reply.Error != nil || result.IsError || len(result.Content) != 1 {
			t.Errorf("%s(%s): error = %+v, result = %+v, want one text", tt.tool, tt.arguments, reply.Error, result)
			continue
		}
		if got := strings.TrimSpace(result.Content[0].Text); got != tt.want {
			t.Errorf("%s(%s): the upstream got %s, want %s", tt.tool, tt.arguments, got, tt.want)
		}
	}
	_, reply := fx.tool(t, "/mcp", "upload", `{"file":"not Base64!"}`)
	if reply.Error == nil || reply.Error.Code != -32602 {
		t.Errorf("upload of a text that is not Base64: error = %+v, want -32602", reply.Error)
	}
}

// writeJSON writes a value as JSON.
func writeJSON(t *testing.T, out io.Writer, value any) {
	t.Helper()
	if err := json.NewEncoder(out).Encode(value); err != nil {
		t.Errorf("Encode() error = %v, want none", err)
	}
}
