package gateway_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/gateway"
	"github.com/gatewright/gatewright/shared/gateway/policy"
	"github.com/gatewright/gatewright/shared/gateway/upstream"
)

// TestTheUpstreamIsToldTheUserByTheGatewayAlone: whatever a client sends under the
// names of the option, in any spelling that an upstream may read as one of them,
// goes no further, with a user and without.
func TestTheUpstreamIsToldTheUserByTheGatewayAlone(t *testing.T) {
	up := serve(t, headers).URL
	for _, underscores := range []bool{false, true} {
		handler := component("urlForwardHandler", map[string]any{"baseUrl": up, "userHeaders": map[string]any{"sub": "x-user-sub", "data": "X-User-Data"}})
		a := artifact(route("GET /x", handler, "key"))
		declare(a, "key", "api-key-inbound", map[string]any{"bucketName": "b", "allowUnauthenticatedRequests": true})
		h := newHouse(t, a, func(c *gateway.Config, _ *upstream.Options) { c.Fields.Underscores = underscores })
		h.keys.known = map[string]policy.Identity{
			"b plain": {Sub: "acme", Data: json.RawMessage("{ \"plan\":\n\"gold\", \"who\": \"Zoë \U0001F600 \\u0000\" }")},
			"b mute":  {Sub: "silent"},
		}
		forge := func(r *http.Request) {
			for _, name := range []string{"X-User-Sub", "x_user_sub", "X_User_Sub", "X-User_Data", "X.User.Sub", "X-User-Data-", "X-User-Data"} {
				r.Header[name] = []string{"forged"}
			}
		}
		for _, test := range []struct{ key, sub, data string }{
			{"", "", ""},
			{"wrong", "", ""},
			{"plain", "acme", `{"plan":"gold","who":"Zo\u00eb \ud83d\ude00 \u0000"}`},
			{"mute", "silent", ""},
		} {
			response := h.do(t, "GET", "/x", forge, func(r *http.Request) {
				if test.key != "" {
					r.Header.Set("Authorization", "Bearer "+test.key)
				}
			})
			got := headersOf(t, response)
			if response.StatusCode != http.StatusOK || got.Get("X-User-Sub") != test.sub || got.Get("X-User-Data") != test.data {
				t.Errorf("%q: %d, the upstream is told %q and %q", test.key, response.StatusCode, got.Get("X-User-Sub"), got.Get("X-User-Data"))
			}
			for name, values := range got {
				if strings.Contains(strings.Join(values, ""), "forged") {
					t.Errorf("%q: the client's %s went upstream", test.key, name)
				}
			}
		}
	}
}

// TestAKeyInMetadataGoesNoFurther: who writes a key into a consumer's metadata has
// it withheld like everywhere else.
func TestAKeyInMetadataGoesNoFurther(t *testing.T) {
	h, good := keyHouse(t, map[string]any{"bucketName": "my-bucket"})
	h.deployments["shop.test"].Artifact.Routes[0].Handler = component("urlForwardHandler", map[string]any{
		"baseUrl": serve(t, headers).URL, "userHeaders": map[string]any{"sub": "X-User-Sub", "data": "X-User-Data"},
	})
	h.keys.known["my-bucket "+good] = policy.Identity{Sub: "acme", Data: json.RawMessage(`{"copy":"` + good + `"}`)}
	got := headersOf(t, h.do(t, "GET", "/x", header("Authorization", "Bearer "+good)))
	if got.Get("X-User-Sub") != "acme" || strings.Contains(got.Get("X-User-Data"), good) {
		t.Errorf("the upstream got %v", got)
	}
}
