package api_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/base/ids"
	"github.com/gatewright/gatewright/shared/core/config"
	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/core/store/storetest"
	"github.com/gatewright/gatewright/shared/management/api"
)

// originServer returns a server with an operation and its preflight for each value of Origins except SameOrigin. The
// API has the given address, and the installation allows the given origins.
func originServer(t *testing.T, address string, origins ...string) *api.Server {
	t.Helper()
	now := func() time.Time { return storetest.Epoch }
	var routes []api.Route
	for _, o := range []api.Origins{api.NoOrigins, api.KnownOrigins, api.AnyOrigin} {
		for _, method := range []string{http.MethodPost, http.MethodOptions} {
			operation := api.Operation[struct{}, api.NoContent]{
				ID: "Pages_" + method + string(o), Method: method, Path: "/pages/" + string("x"+o), Status: 204, Public: true,
				Origins: o,
			}
			routes = append(routes, operation.HandledBy(func(context.Context, *struct{}) (*api.NoContent, error) {
				return &api.NoContent{}, nil
			}))
		}
	}
	return api.Open(installation.Parts{
		Config: config.Config{APIURL: address, Origins: origins}, Table: storetest.New(t), Key: fixedRoot{},
		Log: slog.New(slog.DiscardHandler), IDs: ids.NewSource(storetest.Random(t), now), Now: now,
	}, &useRecorder{}, routes)
}

// browserRequest sends a request with the given Origin fields to the operation for o. If requestedHeaders is not empty,
// the request has the field Access-Control-Request-Headers, like a preflight.
func browserRequest(
	t *testing.T, s *api.Server, method string, o api.Origins, requestedHeaders string, origins ...string,
) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, "/pages/x"+string(o), nil)
	r.Header["Origin"] = origins
	if len(origins) == 0 {
		delete(r.Header, "Origin")
	}
	if requestedHeaders != "" {
		r.Header.Set("Access-Control-Request-Headers", requestedHeaders)
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w
}

// TestOnlyKnownOriginsAreAllowed checks that known origins are
// allowed, and that origins that only look similar are refused.
func TestOnlyKnownOriginsAreAllowed(t *testing.T) {
	for _, tt := range []struct {
		address string
		allowed string   // the origins that the installation allows, separated by spaces
		known   []string // origins that must be allowed
		foreign []string // origins that must be refused
	}{
		{
			"https://api.example.com/dev", "https://inspector.example.com",
			[]string{"https://api.example.com", "https://API.example.com", "https://inspector.example.com"},
			[]string{
				"http://api.example.com", "https://api.example.com:8443", "https://api.example.com.evil.test", "https://evil.test",
				"null", "",
				"https://user@api.example.com", "https://api.example.com/", "https://api.example.com?a=b",
				"https://api.example.com#a",
				"https://inspector.example.com.evil.test", "https://inspector.example.com:81", "http://localhost",
				"https://localhost", "https://127.0.0.1",
			},
		},
		{
			"http://127.0.0.1:9000", "",
			[]string{"http://127.0.0.1:9000", "http://localhost:9000", "http://[::1]:9000", "http://127.0.0.2:9000"},
			[]string{
				"http://localhost:9001", "http://localhost", "https://localhost:9000", "http://localhost.evil.test:9000",
				"http://10.0.0.1:9000", "http://192.168.0.1:9000",
			},
		},
		{"", "", nil, []string{"http://", "https://evil.test", "null", "//"}},
		{"", "http://localhost:6274", []string{"http://localhost:6274"}, []string{"http://localhost:6275"}},
	} {
		s := originServer(t, tt.address, strings.Fields(tt.allowed)...)
		for _, origin := range tt.known {
			if w := browserRequest(t, s, http.MethodPost, api.KnownOrigins, "", origin); w.Code != http.StatusNoContent ||
				w.Header().Get("Access-Control-Allow-Origin") != origin {
				t.Errorf("POST from origin %q at %q = %d %s, allowed %q, want 204 and the origin allowed",
					origin, tt.address, w.Code, w.Body, w.Header().Get("Access-Control-Allow-Origin"))
			}
		}
		for _, origin := range tt.foreign {
			for _, method := range []string{http.MethodPost, http.MethodOptions} {
				w := browserRequest(t, s, method, api.KnownOrigins, "", origin)
				if w.Code != http.StatusForbidden || w.Header().Get("Access-Control-Allow-Origin") != "" {
					t.Errorf("%s from origin %q at %q = %d, allowed %q, want 403 without an allowed origin",
						method, origin, tt.address, w.Code, w.Header().Get("Access-Control-Allow-Origin"))
				}
			}
		}
	}
	s := originServer(t, "https://api.example.com")
	for _, origins := range [][]string{
		{"https://api.example.com", "https://evil.test"},
		{"https://evil.test", "https://api.example.com"},
	} {
		if w := browserRequest(t, s, http.MethodPost, api.KnownOrigins, "", origins...); w.Code != http.StatusForbidden {
			t.Errorf("POST with the origins %q: status = %d, want 403", origins, w.Code)
		}
	}
}

// TestCORSHeaders checks the CORS headers for each value of Origins except SameOrigin. Responses that depend on the
// page's origin must have Vary.
func TestCORSHeaders(t *testing.T) {
	const apiOrigin, requestedHeaders = "https://api.example.com", "authorization, mcp-param-region"
	s := originServer(t, apiOrigin)
	for _, tt := range []struct {
		name, method           string
		origins                api.Origins
		from, requestedHeaders string
		want                   map[string]string
	}{
		{"no origins", "POST", api.NoOrigins, apiOrigin, "", nil},
		{"no origins, preflight", "OPTIONS", api.NoOrigins, apiOrigin, requestedHeaders, nil},
		{"known origins, request without an origin", "POST", api.KnownOrigins, "", "", nil},
		{"known origins, known page", "POST", api.KnownOrigins, apiOrigin, "", map[string]string{
			"Access-Control-Allow-Origin": apiOrigin, "Vary": "Origin",
			"Access-Control-Expose-Headers": "WWW-Authenticate, X-Request-Id",
		}},
		{"known origins, preflight", "OPTIONS", api.KnownOrigins, apiOrigin, requestedHeaders, map[string]string{
			"Access-Control-Allow-Origin": apiOrigin, "Vary": "Origin, Access-Control-Request-Headers",
			"Access-Control-Allow-Methods": "POST", "Access-Control-Allow-Headers": requestedHeaders,
			"Access-Control-Max-Age": "3600",
		}},
		{"known origins, preflight without headers", "OPTIONS", api.KnownOrigins, apiOrigin, "", map[string]string{
			"Access-Control-Allow-Origin": apiOrigin, "Vary": "Origin", "Access-Control-Allow-Methods": "POST",
			"Access-Control-Allow-Headers": "Authorization, Content-Type", "Access-Control-Max-Age": "3600",
		}},
		{"any origin", "POST", api.AnyOrigin, "https://any.test", "", map[string]string{
			"Access-Control-Allow-Origin": "*", "Access-Control-Expose-Headers": "WWW-Authenticate, X-Request-Id",
		}},
		{"any origin, request without an origin", "POST", api.AnyOrigin, "", "", map[string]string{
			"Access-Control-Allow-Origin": "*", "Access-Control-Expose-Headers": "WWW-Authenticate, X-Request-Id",
		}},
		{"any origin, preflight", "OPTIONS", api.AnyOrigin, "https://any.test", requestedHeaders, map[string]string{
			"Access-Control-Allow-Origin": "*", "Access-Control-Allow-Methods": "POST", "Access-Control-Allow-Headers": "*",
			"Access-Control-Max-Age": "3600",
		}},
	} {
		w := browserRequest(t, s, tt.method, tt.origins, tt.requestedHeaders, strings.Fields(tt.from)...)
		for _, name := range []string{
			"Access-Control-Allow-Origin", "Access-Control-Allow-Methods", "Access-Control-Allow-Headers",
			"Access-Control-Expose-Headers", "Access-Control-Max-Age", "Vary",
		} {
			if got := strings.Join(w.Header().Values(name), ", "); got != tt.want[name] {
				t.Errorf("%s: header %s = %q, want %q", tt.name, name, got, tt.want[name])
			}
		}
	}
}
