package tunnel_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/tunnel"
)

// TestServiceIsForThoseWhoAreListed, project and environment together and exactly as they are
// written: an empty list lists nobody.
func TestServiceIsForThoseWhoAreListed(t *testing.T) {
	type access = tunnel.Access
	shops := access{Project: "shop", Environments: []string{"production", "preview"}}
	blogs := access{Project: "blog", Environments: []string{"working-copy"}}
	for _, tt := range []struct {
		name   string
		list   []access
		caller tunnel.Caller
		want   bool
	}{
		{"listed first", []access{shops, blogs}, tunnel.Caller{Project: "shop", Environment: "production"}, true},
		{"listed second", []access{shops, blogs}, tunnel.Caller{Project: "shop", Environment: "preview"}, true},
		{"of the second project", []access{shops, blogs}, tunnel.Caller{Project: "blog", Environment: "working-copy"}, true},
		{"of a project in an environment of another", []access{shops, blogs}, tunnel.Caller{Project: "blog", Environment: "production"}, false},
		{"of a project that is listed once more", []access{{Project: "shop"}, shops}, tunnel.Caller{Project: "shop", Environment: "preview"}, true},
		{"of another project", []access{shops}, tunnel.Caller{Project: "blog", Environment: "production"}, false},
		{"of a project in other letters", []access{shops}, tunnel.Caller{Project: "Shop", Environment: "production"}, false},
		{"of an environment in other letters", []access{shops}, tunnel.Caller{Project: "shop", Environment: "PRODUCTION"}, false},
		{"of a part of a name", []access{shops}, tunnel.Caller{Project: "sho", Environment: "production"}, false},
		{"of no project", []access{shops}, tunnel.Caller{Environment: "production"}, false},
		{"of no environment", []access{shops}, tunnel.Caller{Project: "shop"}, false},
		{"where no environment is listed", []access{{Project: "shop"}}, tunnel.Caller{Project: "shop", Environment: "production"}, false},
		{"where none is listed, of none", []access{{Project: "shop", Environments: []string{}}}, tunnel.Caller{Project: "shop"}, false},
		{"where nobody is listed", nil, tunnel.Caller{Project: "shop", Environment: "production"}, false},
		{"nobody, where nobody is listed", nil, tunnel.Caller{}, false},
	} {
		if got := (tunnel.Service{Name: "api", Access: tt.list}).Allows(tt.caller); got != tt.want {
			t.Errorf("a caller %s may ask: %t, want %t", tt.name, got, tt.want)
		}
	}
}

// TestRepeatableIsWhatMayBeSeenTwice: an idempotent method (RFC 9110, section 9.2.2), as it is written,
// without a body and without another protocol.
func TestRepeatableIsWhatMayBeSeenTwice(t *testing.T) {
	for method, want := range map[string]bool{
		http.MethodGet: true, http.MethodHead: true, http.MethodOptions: true, http.MethodTrace: true, http.MethodPut: true, http.MethodDelete: true,
		http.MethodPost: false, http.MethodPatch: false, http.MethodConnect: false, "PURGE": false, "get": false, "": false,
	} {
		for name, tt := range map[string]struct {
			body    io.ReadCloser
			upgrade string
			may     bool
		}{
			"":                       {may: true},
			" with an empty body":    {body: http.NoBody, may: true},
			" with a body":           {body: io.NopCloser(strings.NewReader(""))},
			" for another protocol":  {upgrade: "websocket"},
			" with both, and a body": {body: io.NopCloser(strings.NewReader("x")), upgrade: "websocket"},
		} {
			r := &http.Request{Method: method, Header: http.Header{}, Body: tt.body}
			if tt.upgrade != "" {
				r.Header.Set("Upgrade", tt.upgrade)
			}
			if got := tunnel.Repeatable(r); got != (want && tt.may) {
				t.Errorf("%q%s may be repeated: %t", method, name, got)
			}
		}
	}
}
