package gateway_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/gatewright/gatewright/shared/testing/deadline"
)

// TestMissingTrailersDoNotFailTheResponse checks that a response succeeds without a trailer field that
// it has announced (RFC 9110, section 6.6.2), directly and through a tunnel, over HTTP/1.1 and HTTP/2.
func TestMissingTrailersDoNotFailTheResponse(t *testing.T) {
	runDirectAndTunneled(t, func(t *testing.T, connect connector) {
		backend := serve(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Trailer", "X-Sum")
			w.WriteHeader(http.StatusOK)
			_, _ = io.WriteString(w, r.URL.RawQuery)
			if r.URL.RawQuery == "sent" {
				w.Header().Set("X-Sum", "7")
			}
		})
		base, upstreamSetting := connect(backend.URL)
		h := newFixture(t, artifact(route("GET /x", forward(base))), upstreamSetting)
		for _, http2 := range []bool{false, true} {
			server := httptest.NewUnstartedServer(h.gateway)
			server.EnableHTTP2 = http2
			server.StartTLS()
			t.Cleanup(server.Close)
			for _, query := range []string{"sent", "missing", ""} {
				ctx, cancel := context.WithTimeout(t.Context(), deadline.Timeout())
				defer cancel()
				r, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+"/x?"+query, http.NoBody)
				if err != nil {
					t.Fatal(err)
				}
				r.Host = "shop.test"
				response, err := server.Client().Do(r)
				if err != nil {
					t.Fatalf("GET /x?%s over HTTP/2: %t: error = %v, want a response", query, http2, err)
				}
				text, err := io.ReadAll(response.Body)
				_ = response.Body.Close()
				sum := map[string]string{"sent": "7"}[query]
				if err != nil || string(text) != query || response.Trailer.Get("X-Sum") != sum ||
					(response.ProtoMajor == 2) != http2 {
					t.Errorf("%s response: body = %q, %v, trailer = %v, want %q with X-Sum %q over HTTP/2: %t",
						response.Proto, text, err, response.Trailer, query, sum, http2)
				}
			}
		}
	})
}
