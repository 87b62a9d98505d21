package gateway_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// BenchmarkMCPCall measures a call of a tool, and a plain request to the same route.
// The difference is the cost of the MCP server, which should be at most 200 µs.
func BenchmarkMCPCall(b *testing.B) {
	fx := newMCPFixture(b)
	fx.handler = func(out http.ResponseWriter, _ *http.Request) {
		out.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(out, `{"id":"1","title":"x"}`)
		fx.mu.Lock()
		fx.received = fx.received[:0]
		fx.mu.Unlock()
	}
	call := func(b *testing.B, method, target, text string) {
		b.Helper()
		r := httptest.NewRequestWithContext(context.Background(), method, "http://shop.test"+target, strings.NewReader(text))
		out := httptest.NewRecorder()
		fx.gateway.ServeHTTP(out, r)
		if out.Code != http.StatusOK {
			b.Fatalf("%s %s: status = %d, body = %s, want 200", method, target, out.Code, out.Body)
		}
	}
	text := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":%q,"arguments":{"id":"1"}}}`,
		"readTodo")
	b.Run("plain", func(b *testing.B) {
		b.ReportAllocs()
		for range b.N {
			call(b, http.MethodGet, "/todos/1", "")
		}
	})
	b.Run("tool", func(b *testing.B) {
		b.ReportAllocs()
		for range b.N {
			call(b, http.MethodPost, "/mcp", text)
		}
	})
}
