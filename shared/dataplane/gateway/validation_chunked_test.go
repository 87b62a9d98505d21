package gateway_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/format/project"
)

// TestBodiesOfUnknownLength sends bodies without a Content-Length, whose type matters only if they are not empty. Bodies
// that are not checked can be larger than maxBodyBytes.
func TestBodiesOfUnknownLength(t *testing.T) {
	backend := serve(t, func(out http.ResponseWriter, r *http.Request) {
		all, _ := io.ReadAll(r.Body)
		writef(out, "%d", len(all))
	})
	operation := func(body string) string {
		return fmt.Sprintf(`{"put": {"requestBody": %s, "responses": {"200": {"description": ""}}, "x-gateway-route": {
			"handler": {"export": "urlForwardHandler", "module": "$import(@gatewright/runtime)", "options": {"baseUrl": %q}},
			"policies": {"inbound": ["validate"]}}}}`, body, backend.URL)
	}
	f := newFixture(t, built(t, project.Files{
		"config/routes.oas.json": []byte(fmt.Sprintf(`{"openapi": "3.1.0", "info": {"title": "", "version": ""}, "paths": {
			"/optional": %s, "/file": %s}}`,
			operation(`{"content": {"application/json": {"schema": {"type": "object"}}}}`),
			operation(`{"required": true, "content": {"image/png": {}}}`))),
		"config/policies.json": []byte(`{"policies": [{"name": "validate", "policyType": "request-validation-inbound",
			"handler": {"export": "RequestValidationInboundPolicy", "module": "$import(@gatewright/runtime)",
			"options": {"maxBodyBytes": 10}}}]}`),
	}))
	for _, tt := range []struct {
		target, contentType, body string
		status                    int
	}{
		{"/optional", "", "", 200},
		{"/optional", "text/plain", "", 200},
		{"/optional", "", "{}", 415},
		{"/optional", "application/json", "{}", 200},
		{"/optional", "application/json", "[]", 400},
		{"/optional", "application/json", `{"a": "1234567890"}`, 413},
		{"/file", "image/png", "", 400},
		{"/file", "", "", 400},
		{"/file", "", "x", 415},
		{"/file", "image/png", strings.Repeat("x", 100_000), 200},
	} {
		response := f.do(t, http.MethodPut, tt.target, sending(tt.body), func(r *http.Request) {
			r.ContentLength, r.TransferEncoding = -1, []string{"chunked"}
			r.Header.Set("Content-Type", tt.contentType)
		})
		all, _ := io.ReadAll(response.Body)
		text := string(all)
		if response.StatusCode != tt.status {
			t.Errorf("PUT %s with %d bytes of the type %q = %d %s, want %d", tt.target, len(tt.body), tt.contentType,
				response.StatusCode, text, tt.status)
		}
		if want := fmt.Sprint(len(tt.body)); tt.status == http.StatusOK && text != want {
			t.Errorf("PUT %s with the type %q: the upstream got %s bytes, want %s", tt.target, tt.contentType, text, want)
		}
	}
}
