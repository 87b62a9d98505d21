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

// TestWholeBodyIsThereBeforeItsEnd has a service send all bytes of an answer, by HTTP/2, and take its time until it
// ends the stream, as with trailers that it has to reckon: who reads has them by then, whatever their number.
func TestWholeBodyIsThereBeforeItsEnd(t *testing.T) {
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
	w := newWorld(t, http.HandlerFunc(echo))
	w.services[0].Endpoint = upstream.URL
	o := w.options()
	o.Transport = upstream.Client().Transport
	w.run(o)
	for _, length := range []int{1, small - 1, small, small + 1, 2 * small, frame - 1, frame, frame + 1} {
		response, err := w.ask(http.MethodGet, "/?length="+strconv.Itoa(length), nil, func(r *http.Request) {
			ctx, cancel := context.WithTimeout(r.Context(), timeout/4)
			t.Cleanup(cancel)
			*r = *r.WithContext(ctx)
		})
		if err != nil {
			t.Fatalf("of %d bytes not even a head is there: %v", length, err)
		}
		if n, err := io.ReadFull(response.Body, make([]byte, length)); err != nil {
			t.Errorf("of %d bytes %d are there: %v", length, n, err)
		}
		_ = response.Body.Close()
	}
}
