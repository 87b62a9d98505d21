package gateway_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/dataplane/gateway"
	"github.com/gatewright/gatewright/shared/dataplane/gateway/policy"
	"github.com/gatewright/gatewright/shared/dataplane/gateway/upstream"
)

// TestUserHeadersComeOnlyFromTheGateway checks that the gateway removes the fields in userHeaders from the client's
// request, with and without a valid key. It also removes fields whose names upstreams can confuse with these fields.
func TestUserHeadersComeOnlyFromTheGateway(t *testing.T) {
	backend := serve(t, headers).URL
	for _, underscores := range []bool{false, true} {
		handler := component("urlForwardHandler",
			map[string]any{"baseUrl": backend, "userHeaders": map[string]any{"sub": "x-user-sub", "data": "X-User-Data"}})
		a := artifact(route("GET /x", handler, "key"))
		declare(a, "key", "api-key-inbound", map[string]any{"bucketName": "b", "allowUnauthenticatedRequests": true})
		h := newFixture(t, a, func(c *gateway.Config, _ *upstream.Options) { c.HeaderFilter.Underscores = underscores })
		h.keys.known = map[string]policy.KeyOwner{
			"b data":    {Sub: "acme", Data: json.RawMessage("{ \"plan\":\n\"gold\", \"who\": \"Zoë \U0001F600 \\u0000\" }")},
			"b no-data": {Sub: "globex"},
		}
		forge := func(r *http.Request) {
			for _, name := range []string{
				"X-User-Sub", "x_user_sub", "X_User_Sub", "X-User_Data", "X.User.Sub", "X-User-Data-",
				"X-User-Data",
			} {
				r.Header[name] = []string{"forged"}
			}
		}
		for _, test := range []struct{ key, sub, data string }{
			{"", "", ""},
			{"wrong", "", ""},
			{"data", "acme", `{"plan":"gold","who":"Zo\u00eb \ud83d\ude00 \u0000"}`},
			{"no-data", "globex", ""},
		} {
			response := h.do(t, "GET", "/x", forge, func(r *http.Request) {
				if test.key != "" {
					r.Header.Set("Authorization", "Bearer "+test.key)
				}
			})
			got := headersOf(t, response)
			if response.StatusCode != http.StatusOK || got.Get("X-User-Sub") != test.sub || got.Get("X-User-Data") != test.data {
				t.Errorf("GET with the key %q, Underscores: %t: status = %d, X-User-Sub = %q, X-User-Data = %q, want 200, %q "+
					"and %q", test.key, underscores, response.StatusCode, got.Get("X-User-Sub"), got.Get("X-User-Data"),
					test.sub, test.data)
			}
			for name, values := range got {
				if strings.Contains(strings.Join(values, ""), "forged") {
					t.Errorf("GET with the key %q, Underscores: %t: the upstream got the client's %s, want it removed",
						test.key, underscores, name)
				}
			}
		}
	}
}

// TestKeyInMetadataIsWithheld checks that a key in a consumer's metadata is not sent upstream.
func TestKeyInMetadataIsWithheld(t *testing.T) {
	h, validKey := newKeyFixture(t, map[string]any{"bucketName": "my-bucket"})
	h.deployments["shop.test"].Artifact.Routes[0].Handler = component("urlForwardHandler", map[string]any{
		"baseUrl": serve(t, headers).URL, "userHeaders": map[string]any{"sub": "X-User-Sub", "data": "X-User-Data"},
	})
	h.keys.known["my-bucket "+validKey] = policy.KeyOwner{
		Sub:  "acme",
		Data: json.RawMessage(`{"copy":"` + validKey + `"}`),
	}
	got := headersOf(t, h.do(t, "GET", "/x", header("Authorization", "Bearer "+validKey)))
	if got.Get("X-User-Sub") != "acme" || strings.Contains(got.Get("X-User-Data"), validKey) {
		t.Errorf("GET /x: header at the upstream = %v, want X-User-Sub acme and no key in X-User-Data", got)
	}
}
