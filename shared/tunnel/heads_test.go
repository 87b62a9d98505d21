package tunnel_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/tunnel"
)

// TestLargeHeadsEndNoConnection has a service answer with heads up to the bound and above it, while
// each of the connections carries an answer of somebody else.
func TestLargeHeadsEndNoConnection(t *testing.T) {
	const most, perField = 256 << 10, 32 // RFC 9113, section 6.5.2
	pad := func(size int) http.Header {
		h := http.Header{"Content-Length": {"2"}, "Date": nil, "Content-Type": nil}
		size -= len("Content-Length") + len("2") + perField
		const name = "X-Pad"
		for size > 0 {
			n := min(size, 1000+len(name)+perField)
			if left := size - n; left > 0 && left < 100 {
				n -= 100 // no field without a value is left
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
	heads := map[string]http.Header{"/most": pad(most), "/more": pad(most + 1), "/many": many}
	end := make(chan struct{})
	w := newWorld(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
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
	w.run(w.options())
	var others []*http.Response
	for range 2 {
		response, err := w.ask(http.MethodGet, "/stream", nil)
		if err != nil {
			t.Fatal(err)
		}
		others = append(others, response)
	}
	for path, want := range map[string]string{"/most": "ok", "/more": "unusable", "/many": "unusable"} {
		response, err := w.ask(http.MethodPost, path, nil)
		var got string
		if failure, ok := errors.AsType[*tunnel.Error](err); ok {
			got = string(failure.Failure)
		} else if err != nil {
			got = err.Error()
		} else {
			got = text(t, response, err)
		}
		if got != want {
			t.Errorf("%s answers %q, want %q", path, got, want)
		}
	}
	close(end)
	for _, response := range others {
		if got := text(t, response, nil); got != "the end" {
			t.Errorf("another answer ends with %q", got)
		}
	}
}
