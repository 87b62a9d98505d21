package api_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/api"
	"github.com/gatewright/gatewright/shared/config"
	"github.com/gatewright/gatewright/shared/ids"
	"github.com/gatewright/gatewright/shared/installation"
	"github.com/gatewright/gatewright/shared/store/storetest"
)

// paged is a server with an operation, and its preflight, for each way of origins.
func paged(t *testing.T, address string, origins ...string) *api.Server {
	t.Helper()
	now := func() time.Time { return storetest.Epoch }
	var routes []api.Route
	for _, o := range []api.Origins{api.NoOrigins, api.KnownOrigins, api.AnyOrigin} {
		for _, method := range []string{http.MethodPost, http.MethodOptions} {
			operation := api.Operation[struct{}, api.NoContent]{
				ID: "Pages_" + method + string(o), Method: method, Path: "/pages/" + string("x"+o), Status: 204, Public: true, Origins: o,
			}
			routes = append(routes, operation.To(func(context.Context, *struct{}) (*api.NoContent, error) { return &api.NoContent{}, nil }))
		}
	}
	return api.Open(installation.Parts{
		Config: config.Config{APIURL: address, Origins: origins}, Table: storetest.New(t), Key: fixedRoot{},
		Log: slog.New(slog.DiscardHandler), IDs: ids.NewSource(storetest.Random(t), now), Now: now,
	}, &noter{}, routes)
}

// ask sends a request of pages of some origins.
func ask(t *testing.T, s *api.Server, method string, o api.Origins, asked string, origins ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, "/pages/x"+string(o), nil)
	r.Header["Origin"] = origins
	if len(origins) == 0 {
		delete(r.Header, "Origin")
	}
	if asked != "" {
		r.Header.Set("Access-Control-Request-Headers", asked)
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w
}

// TestKnownOriginsAreTheAPIsOwnAndThoseLetIn, and nothing that looks like one of them.
func TestKnownOriginsAreTheAPIsOwnAndThoseLetIn(t *testing.T) {
	for _, tt := range []struct {
		address, let string
		known        []string
		foreign      []string
	}{
		{
			"https://api.example.com/dev", "https://inspector.example.com",
			[]string{"https://api.example.com", "https://API.example.com", "https://inspector.example.com"},
			[]string{
				"http://api.example.com", "https://api.example.com:8443", "https://api.example.com.evil.test", "https://evil.test", "null", "",
				"https://user@api.example.com", "https://api.example.com/", "https://api.example.com?a=b", "https://api.example.com#a",
				"https://inspector.example.com.evil.test", "https://inspector.example.com:81", "http://localhost", "https://localhost", "https://127.0.0.1",
			},
		},
		{
			"http://127.0.0.1:9000", "",
			[]string{"http://127.0.0.1:9000", "http://localhost:9000", "http://[::1]:9000", "http://127.0.0.2:9000"},
			[]string{"http://localhost:9001", "http://localhost", "https://localhost:9000", "http://localhost.evil.test:9000", "http://10.0.0.1:9000", "http://192.168.0.1:9000"},
		},
		{"", "", nil, []string{"http://", "https://evil.test", "null", "//"}},
		{"", "http://localhost:6274", []string{"http://localhost:6274"}, []string{"http://localhost:6275"}},
	} {
		s := paged(t, tt.address, strings.Fields(tt.let)...)
		for _, origin := range tt.known {
			if w := ask(t, s, http.MethodPost, api.KnownOrigins, "", origin); w.Code != http.StatusNoContent || w.Header().Get("Access-Control-Allow-Origin") != origin {
				t.Errorf("%q at %q is answered %d %s", origin, tt.address, w.Code, w.Body)
			}
		}
		for _, origin := range tt.foreign {
			for _, method := range []string{http.MethodPost, http.MethodOptions} {
				w := ask(t, s, method, api.KnownOrigins, "", origin)
				if w.Code != http.StatusForbidden || w.Header().Get("Access-Control-Allow-Origin") != "" {
					t.Errorf("%s of %q at %q is answered %d, and may be read by %q", method, origin, tt.address, w.Code, w.Header().Get("Access-Control-Allow-Origin"))
				}
			}
		}
	}
	s := paged(t, "https://api.example.com")
	for _, origins := range [][]string{{"https://api.example.com", "https://evil.test"}, {"https://evil.test", "https://api.example.com"}} {
		if w := ask(t, s, http.MethodPost, api.KnownOrigins, "", origins...); w.Code != http.StatusForbidden {
			t.Errorf("%q are answered %d", origins, w.Code)
		}
	}
}

// TestBrowsersAreToldWhatPagesMayDo, by the way of the operation: what depends on the page says so to caches.
func TestBrowsersAreToldWhatPagesMayDo(t *testing.T) {
	const own, asked = "https://api.example.com", "authorization, mcp-param-region"
	s := paged(t, own)
	for _, tt := range []struct {
		name, method string
		origins      api.Origins
		from, asked  string
		want         map[string]string
	}{
		{"an operation that pages do not read", "POST", api.NoOrigins, own, "", nil},
		{"its preflight", "OPTIONS", api.NoOrigins, own, asked, nil},
		{"no page", "POST", api.KnownOrigins, "", "", nil},
		{"a page that is known", "POST", api.KnownOrigins, own, "", map[string]string{
			"Access-Control-Allow-Origin": own, "Vary": "Origin", "Access-Control-Expose-Headers": "WWW-Authenticate, X-Request-Id",
		}},
		{"its preflight", "OPTIONS", api.KnownOrigins, own, asked, map[string]string{
			"Access-Control-Allow-Origin": own, "Vary": "Origin, Access-Control-Request-Headers", "Access-Control-Allow-Methods": "POST", "Access-Control-Allow-Headers": asked, "Access-Control-Max-Age": "3600",
		}},
		{"its preflight that asks for no fields", "OPTIONS", api.KnownOrigins, own, "", map[string]string{
			"Access-Control-Allow-Origin": own, "Vary": "Origin", "Access-Control-Allow-Methods": "POST", "Access-Control-Allow-Headers": "Authorization, Content-Type", "Access-Control-Max-Age": "3600",
		}},
		{"what is public", "POST", api.AnyOrigin, "https://any.test", "", map[string]string{
			"Access-Control-Allow-Origin": "*", "Access-Control-Expose-Headers": "WWW-Authenticate, X-Request-Id",
		}},
		{"what is public, for a cache that asks for everybody", "POST", api.AnyOrigin, "", "", map[string]string{
			"Access-Control-Allow-Origin": "*", "Access-Control-Expose-Headers": "WWW-Authenticate, X-Request-Id",
		}},
		{"its preflight", "OPTIONS", api.AnyOrigin, "https://any.test", asked, map[string]string{
			"Access-Control-Allow-Origin": "*", "Access-Control-Allow-Methods": "POST", "Access-Control-Allow-Headers": "*", "Access-Control-Max-Age": "3600",
		}},
	} {
		w := ask(t, s, tt.method, tt.origins, tt.asked, strings.Fields(tt.from)...)
		for _, name := range []string{
			"Access-Control-Allow-Origin", "Access-Control-Allow-Methods", "Access-Control-Allow-Headers", "Access-Control-Expose-Headers", "Access-Control-Max-Age", "Vary",
		} {
			if got := strings.Join(w.Header().Values(name), ", "); got != tt.want[name] {
				t.Errorf("%s: %s is %q, want %q", tt.name, name, got, tt.want[name])
			}
		}
	}
}
