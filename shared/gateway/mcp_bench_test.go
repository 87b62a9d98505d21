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

// BenchmarkMCPCall is what a tool's call costs over the plain request for the same route: the difference of the
// two is what an MCP server adds (at most 200 µs).
func BenchmarkMCPCall(b *testing.B) {
	w := newMCPWorld(b)
	w.answer = func(out http.ResponseWriter, _ *http.Request) {
		out.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(out, `{"id":"1","title":"x"}`)
		w.mu.Lock()
		w.seen = w.seen[:0]
		w.mu.Unlock()
	}
	ask := func(b *testing.B, method, target, text string) {
		b.Helper()
		r := httptest.NewRequestWithContext(context.Background(), method, "http://shop.test"+target, strings.NewReader(text))
		out := httptest.NewRecorder()
		w.gateway.ServeHTTP(out, r)
		if out.Code != http.StatusOK {
			b.Fatalf("%d %s", out.Code, out.Body)
		}
	}
	text := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":%q,"arguments":{"id":"1"}}}`, "readTodo")
	b.Run("plain", func(b *testing.B) {
		b.ReportAllocs()
		for range b.N {
			ask(b, http.MethodGet, "/todos/1", "")
		}
	})
	b.Run("tool", func(b *testing.B) {
		b.ReportAllocs()
		for range b.N {
			ask(b, http.MethodPost, "/mcp", text)
		}
	})
}
