package mcp

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/gatewright/gatewright/shared/api"
	"github.com/gatewright/gatewright/shared/apitools"
	"github.com/gatewright/gatewright/shared/installation"
)

// told is a result as JSON.
func told(t *testing.T, r *mcp.CallToolResult) string {
	t.Helper()
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// tool is one of the API.
func tool(t *testing.T, c *catalogue, name string) *apitools.Tool {
	t.Helper()
	if c.byName[name] == nil {
		t.Fatalf("there is no tool %s", name)
	}
	return c.byName[name]
}

// TestSecretsOfAnAnswerAreMasked: those of a refusal always, since no record tells of it; and what is no JSON is no structure.
func TestSecretsOfAnAnswerAreMasked(t *testing.T) {
	s := &server{catalogue: newCatalogue}
	const secret = "a-key-that-somebody-has-chosen-0123456789"
	read, change, create := tool(t, s.catalogue(), "ApiKeyKeysService_get"), tool(t, s.catalogue(), "ApiKeyKeysService_delete"), tool(t, s.catalogue(), "AccountKeysService_create")
	for name, tt := range map[string]struct {
		tool             *apitools.Tool
		call             api.Call
		status           int
		body             string
		shown, structure bool
	}{
		"an answer":                        {read, api.Call{}, 200, `{"key":"` + secret + `"}`, false, true},
		"one that is asked for":            {read, api.Call{Reveal: true}, 200, `{"key":"` + secret + `"}`, true, true},
		"a refusal, though asked for":      {read, api.Call{Reveal: true}, 409, `{"detail":"No.","key":"` + secret + `"}`, false, false},
		"no JSON":                          {read, api.Call{}, 200, secret, false, false},
		"a list":                           {read, api.Call{}, 200, `[{"key":"` + secret + `"}]`, false, false},
		"before, by its read":              {change, api.Call{DryRun: true}, 200, `{"before":{"key":"` + secret + `"},"after":null}`, false, true},
		"after, by its read":               {change, api.Call{DryRun: true}, 200, `{"before":{},"after":{"key":"` + secret + `"}}`, false, true},
		"after what there was nothing of":  {create, api.Call{DryRun: true}, 200, `{"before":null,"after":{"key":"` + secret + `"}}`, false, true},
		"of a dry run that cannot be read": {create, api.Call{DryRun: true}, 200, `{"key":"` + secret + `","after":`, false, false},
	} {
		r := s.resultOf(tt.tool, tt.call, tt.status, http.Header{}, []byte(tt.body))
		if text := told(t, r); strings.Contains(text, secret) != tt.shown || (r.StructuredContent != nil) != tt.structure || r.IsError != (tt.status >= 400) {
			t.Errorf("%s: it is %s", name, text)
		}
	}
}

// TestAPartIsReadByWhatItIsPartOf: the nearest thing above it that has a read.
func TestAPartIsReadByWhatItIsPartOf(t *testing.T) {
	c := newCatalogue()
	for of, by := range map[string]string{
		"TunnelService_delete":                   "TunnelService_read",
		"TunnelService_update":                   "TunnelService_read",
		"ApiKeyConsumersService_rollKey":         "ApiKeyConsumersService_read",
		"CustomDomainsService_deleteCertificate": "CustomDomainsService_read",
	} {
		if got := c.readerOf(tool(t, c, of).Path); got == nil || got.Name != by {
			t.Errorf("what %s is about is read by %+v, want %s", of, got, by)
		}
	}
	if got := c.readerOf("/nothing/like/it"); got != nil {
		t.Errorf("what there is not is read by %s", got.Name)
	}
}

// TestEveryRefusalSaysWhatToDo: a model that is told a status alone calls the same again.
func TestEveryRefusalSaysWhatToDo(t *testing.T) {
	c := newCatalogue()
	read, adds, removes := tool(t, c, "TunnelService_read"), tool(t, c, "TunnelService_create"), tool(t, c, "TunnelService_delete")
	for _, tt := range []struct {
		tool   *apitools.Tool
		status int
		after  string
		says   string
	}{
		{adds, 400, "", "Correct the arguments"},
		{adds, 401, "", "Ask the person for another one"},
		{adds, 403, "", "may not do it"},
		{read, 404, "", "_list"},
		{adds, 409, "", "choose another name"},
		{adds, 409, "3", "Call again after 3 s."},
		{adds, 412, "", "as ifMatch"},
		{adds, 413, "", "Change the call"},
		{adds, 429, "", "Call again after 1 s."},
		{adds, 429, "30", "Call again after 30 s."},
		{adds, 503, "2", "Call again after 2 s."},
		{read, 500, "", "does no harm"},
		{removes, 500, "", "does no harm"},
		{adds, 500, "", "idempotencyKey"},
		{adds, 504, "", "idempotencyKey"},
	} {
		header := http.Header{}
		if tt.after != "" {
			header.Set("Retry-After", tt.after)
		}
		if hint := hintOf(tt.tool, tt.status, header); !strings.Contains(hint, tt.says) {
			t.Errorf("%s refused with %d and %q is told %q, want %q", tt.tool.Name, tt.status, tt.after, hint, tt.says)
		}
	}
}

// TestACallEndsWithItsMessage: what nobody waits for any more is not asked of the table.
func TestACallEndsWithItsMessage(t *testing.T) {
	asked, ended := false, false
	s := &server{catalogue: newCatalogue, parts: installation.Parts{}}
	ctx, leave := context.WithCancel(context.WithValue(t.Context(), callerKey{}, &caller{server: s}))
	s.operations = func() http.Handler {
		return http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			leave()
			asked, ended = true, r.Context().Err() != nil
		})
	}
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, Path, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"V1_whoAmI"}}`))
	response := newFront(s.catalogue()).Answer(r)
	_ = response.Body.Close()
	if !asked || !ended {
		t.Errorf("the API is asked: %t; its request has ended: %t", asked, ended)
	}
}
