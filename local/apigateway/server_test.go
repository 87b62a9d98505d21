package apigateway_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gatewright/gatewright/local/apigateway"
	"github.com/gatewright/gatewright/shared/base/ids"
	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/core/store/storetest"
	"github.com/gatewright/gatewright/shared/management/api"
)

// TestServerRespondsTheSameBehindTheGateway checks that an operation's response is the same with the gateway and
// without it.
func TestServerRespondsTheSameBehindTheGateway(t *testing.T) {
	table := storetest.New(t)
	parts := installation.Parts{
		Table: table,
		Log:   slog.New(slog.DiscardHandler),
		IDs:   ids.NewSource(storetest.Random(t), time.Now),
		Now:   func() time.Time { return storetest.Epoch },
	}
	type in struct {
		Name  string   `path:"name"`
		Limit int      `query:"limit"`
		Tags  []string `query:"tag,explode"`
		Body  struct {
			Text string `json:"text"`
		}
	}
	type out struct{ Body in }
	op := api.Operation[in, out]{ID: "echo", Method: "POST", Path: "/v1/things/{name}/$do", Public: true}
	server := api.Open(parts, noAuthenticator{}, []api.Route{op.HandledBy(func(_ context.Context, i *in) (*out, error) {
		return &out{Body: *i}, nil
	})})
	g := newGateway(t, apigateway.Function{
		Group: api.Group{Name: "echo", Operations: []api.AnyOperation{op}},
		Edge:  server.Edge(),
	})
	for _, tc := range []struct {
		method, target, body string
		status               int
	}{
		{"POST", "/v1/things/feature%2Fx/%24do?limit=3&tag=a&tag=b%26c", `{"text":"é"}`, 200},
		{"POST", "/v1/things/a/$do/", `{"text":""}`, 200},
		{"POST", "/v1/things/a/$do", "{\"text\":\"\xff\"}", 400},
		{"POST", "/v1/things/a/$do?limit=x", `{"text":"a"}`, 400},
		{"POST", "/v1/things/a/$do", `{"text":`, 400},
		{"POST", "/v1/things/a%00b/$do", `{"text":"a"}`, 400},
		{"POST", "/v1/things/a/$do", `{"text":"` + strings.Repeat("a", api.MaxBodyBytes) + `"}`, 413},
		{"GET", "/v1/things/a/$do", "", 405},
		{"GET", "/v1/things//$do", "", 404},
		{"GET", "/v1/other", "", 404},
	} {
		direct, proxied := httptest.NewRecorder(), httptest.NewRecorder()
		request := func() *http.Request {
			return httptest.NewRequest(tc.method, tc.target, strings.NewReader(tc.body))
		}
		server.ServeHTTP(direct, request())
		g.ServeHTTP(proxied, request())
		if direct.Code != tc.status || proxied.Code != tc.status {
			t.Errorf("%s %s: %d directly, %d behind the gateway, want %d: %s", tc.method, tc.target, direct.Code, proxied.Code,
				tc.status, proxied.Body)
			continue
		}
		if diff := cmp.Diff(normalized(direct), normalized(proxied)); diff != "" {
			t.Errorf("%s %s behind the gateway differs, want the same response (-direct +proxied):\n%s", tc.method, tc.target,
				diff)
		}
	}
}

// normalized returns the parts of a response that must be the same: the body without its trace, Content-Type and Allow.
func normalized(w *httptest.ResponseRecorder) map[string]any {
	body := map[string]any{}
	_ = json.Unmarshal(w.Body.Bytes(), &body)
	delete(body, "trace")
	return map[string]any{"body": body, "type": w.Header().Get("Content-Type"), "allow": w.Header().Get("Allow")}
}

type noAuthenticator struct{ api.Authenticator }

// BenchmarkGateway measures a direct call of an operation and a call through the gateway.
func BenchmarkGateway(b *testing.B) {
	op := api.Operation[struct{}, api.NoContent]{
		ID: "nothing", Method: "GET", Path: "/v1/nothing",
		Status: http.StatusNoContent, Public: true,
	}
	table := storetest.New(b)
	server := api.Open(installation.Parts{
		Table: table, Log: slog.New(slog.DiscardHandler),
		IDs: ids.NewSource(storetest.Random(b), time.Now), Now: time.Now,
	}, noAuthenticator{}, []api.Route{op.HandledBy(func(context.Context, *struct{}) (*api.NoContent, error) {
		return &api.NoContent{}, nil
	})})
	proxied := apigateway.New(apigateway.Options{
		Functions: []apigateway.Function{{
			Group: api.Group{Name: "nothing", Operations: []api.AnyOperation{op}},
			Edge:  server.Edge(),
		}},
		Domain: "127.0.0.1", IDs: ids.NewSource(storetest.Random(b), time.Now), Now: time.Now,
		Log: slog.New(slog.DiscardHandler),
	})
	for name, h := range map[string]http.Handler{"direct": server, "behind": proxied} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				w := httptest.NewRecorder()
				h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/v1/nothing", nil))
				if w.Code != http.StatusNoContent {
					b.Fatalf("GET /v1/nothing: status = %d, want 204", w.Code)
				}
			}
		})
	}
}
