package tunnel_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/format/tunnel"
)

// TestLargeHeadsKeepTheConnection makes a service respond with heads at the maximum size and above
// it. Meanwhile each connection has another response in flight, which must arrive completely.
func TestLargeHeadsKeepTheConnection(t *testing.T) {
	const maxBytes, perField = 256 << 10, 32 // RFC 9113, section 6.5.2
	// pad returns the fields of a head. size is the size of the head in bytes, as HTTP/2 counts them.
	pad := func(size int) http.Header {
		h := http.Header{"Content-Length": {"2"}, "Date": nil, "Content-Type": nil}
		size -= len("Content-Length") + len("2") + perField
		const name = "X-Pad"
		for size > 0 {
			n := min(size, 1000+len(name)+perField)
			if remaining := size - n; remaining > 0 && remaining < 100 {
				n -= 100 // leave enough bytes for a last field with a value
			}
			h[name] = append(h[name], strings.Repeat("v", n-len(name)-perField))
			size -= n
		}
		return h
	}
	many := http.Header{}
	for i := range 20_000 {
		many[fmt.Sprintf("X-%d", i)] = []string{"v"}
	}
	heads := map[string]http.Header{"/most": pad(maxBytes), "/more": pad(maxBytes + 1), "/many": many}
	end := make(chan struct{})
	fx := newFixture(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path := strings.TrimPrefix(r.URL.Path, "/base")
		if path == "/stream" {
			_ = http.NewResponseController(w).Flush()
			<-end
			_, _ = io.WriteString(w, "the end")
			return
		}
		for name, values := range heads[path] {
			w.Header()[name] = values
		}
		_, _ = io.WriteString(w, "ok")
	}))
	fx.run(fx.options())
	var others []*http.Response
	for range 2 {
		response, err := fx.do(http.MethodGet, "/stream", nil)
		if err != nil {
			t.Fatal(err)
		}
		others = append(others, response)
	}
	for path, want := range map[string]string{"/most": "ok", "/more": "unusable", "/many": "unusable"} {
		response, err := fx.do(http.MethodPost, path, nil)
		var got string
		if failure, ok := errors.AsType[*tunnel.Error](err); ok {
			got = string(failure.Failure)
		} else if err != nil {
			got = err.Error()
		} else {
			got = readBody(t, response, err)
		}
		if got != want {
			t.Errorf("POST %s = %q, want %q", path, got, want)
		}
	}
	close(end)
	for _, response := range others {
		if got := readBody(t, response, nil); got != "the end" {
			t.Errorf("another response ends with %q, want \"the end\"", got)
		}
	}
}
