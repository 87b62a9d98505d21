package tunnel_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/format/tunnel"
)

// TestAllows checks that project and environment must both match exactly. An empty list allows no caller.
func TestAllows(t *testing.T) {
	type access = tunnel.Access
	shops := access{Project: "shop", Environments: []string{"production", "preview"}}
	blogs := access{Project: "blog", Environments: []string{"working-copy"}}
	for _, tt := range []struct {
		name   string
		list   []access
		caller tunnel.Caller
		want   bool
	}{
		{
			"the first environment of a project",
			[]access{shops, blogs},
			tunnel.Caller{Project: "shop", Environment: "production"},
			true,
		},
		{
			"the second environment of a project",
			[]access{shops, blogs},
			tunnel.Caller{Project: "shop", Environment: "preview"},
			true,
		},
		{"the second project", []access{shops, blogs}, tunnel.Caller{Project: "blog", Environment: "working-copy"}, true},
		{
			"an environment of another project",
			[]access{shops, blogs},
			tunnel.Caller{Project: "blog", Environment: "production"},
			false,
		},
		{
			"a project that is listed twice",
			[]access{{Project: "shop"}, shops},
			tunnel.Caller{Project: "shop", Environment: "preview"},
			true,
		},
		{"another project", []access{shops}, tunnel.Caller{Project: "blog", Environment: "production"}, false},
		{"a project in other capitals", []access{shops}, tunnel.Caller{Project: "Shop", Environment: "production"}, false},
		{
			"an environment in other capitals",
			[]access{shops},
			tunnel.Caller{Project: "shop", Environment: "PRODUCTION"},
			false,
		},
		{"a part of a project's name", []access{shops}, tunnel.Caller{Project: "sho", Environment: "production"}, false},
		{"no project", []access{shops}, tunnel.Caller{Environment: "production"}, false},
		{"no environment", []access{shops}, tunnel.Caller{Project: "shop"}, false},
		{
			"a project without environments",
			[]access{{Project: "shop"}},
			tunnel.Caller{Project: "shop", Environment: "production"},
			false,
		},
		{
			"no environment, of a project without environments",
			[]access{{Project: "shop", Environments: []string{}}},
			tunnel.Caller{Project: "shop"},
			false,
		},
		{"an empty list", nil, tunnel.Caller{Project: "shop", Environment: "production"}, false},
		{"an empty caller with an empty list", nil, tunnel.Caller{}, false},
	} {
		if got := (tunnel.Service{Name: "api", Access: tt.list}).Allows(tt.caller); got != tt.want {
			t.Errorf("%s: Allows() = %t, want %t", tt.name, got, tt.want)
		}
	}
}

// TestRepeatable checks that a request is repeatable only if it has an idempotent method (RFC 9110,
// section 9.2.2) in its exact spelling, no body and no switch of protocols.
func TestRepeatable(t *testing.T) {
	for method, want := range map[string]bool{
		http.MethodGet: true, http.MethodHead: true, http.MethodOptions: true, http.MethodTrace: true, http.MethodPut: true,
		http.MethodDelete: true,
		http.MethodPost:   false, http.MethodPatch: false, http.MethodConnect: false, "PURGE": false, "get": false, "": false,
	} {
		for name, tt := range map[string]struct {
			body       io.ReadCloser
			upgrade    string
			repeatable bool
		}{
			"":                                   {repeatable: true},
			" with an empty body":                {body: http.NoBody, repeatable: true},
			" with a body":                       {body: io.NopCloser(strings.NewReader(""))},
			" for another protocol":              {upgrade: "websocket"},
			" for another protocol, with a body": {body: io.NopCloser(strings.NewReader("x")), upgrade: "websocket"},
		} {
			r := &http.Request{Method: method, Header: http.Header{}, Body: tt.body}
			if tt.upgrade != "" {
				r.Header.Set("Upgrade", tt.upgrade)
			}
			if got := tunnel.Repeatable(r); got != (want && tt.repeatable) {
				t.Errorf("Repeatable(%q%s) = %t, want %t", method, name, got, want && tt.repeatable)
			}
		}
	}
}
