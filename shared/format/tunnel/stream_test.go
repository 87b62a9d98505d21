package tunnel_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
)

// TestBodyIsDeliveredBeforeItsEnd makes a service send all bytes of a response by HTTP/2 and end the stream later,
// as with trailers that take time to compute. The client must have all bytes by then, independent of their number.
func TestBodyIsDeliveredBeforeItsEnd(t *testing.T) {
	const small, frame = 4 << 10, 256 << 10
	release := make(chan struct{})
	upstream := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		length, _ := strconv.Atoi(r.URL.Query().Get("length"))
		w.Header().Set("Content-Length", strconv.Itoa(length))
		_, _ = w.Write(bytes.Repeat([]byte("x"), length))
		_ = http.NewResponseController(w).Flush()
		select {
		case <-release:
		case <-r.Context().Done():
		}
	}))
	upstream.EnableHTTP2 = true
	upstream.StartTLS()
	defer upstream.Close()
	defer close(release)
	fx := newFixture(t, http.HandlerFunc(echo))
	fx.services[0].Endpoint = upstream.URL
	o := fx.options()
	o.Transport = upstream.Client().Transport
	fx.run(o)
	for _, length := range []int{1, small - 1, small, small + 1, 2 * small, frame - 1, frame, frame + 1} {
		response, err := fx.do(http.MethodGet, "/?length="+strconv.Itoa(length), nil, func(r *http.Request) {
			ctx, cancel := context.WithTimeout(r.Context(), timeout/4)
			t.Cleanup(cancel)
			*r = *r.WithContext(ctx)
		})
		if err != nil {
			t.Fatalf("response of %d bytes: error = %v, want the head", length, err)
		}
		if n, err := io.ReadFull(response.Body, make([]byte, length)); err != nil {
			t.Errorf("response of %d bytes: received %d, %v, want all before the end of the stream", length, n, err)
		}
		_ = response.Body.Close()
	}
}
