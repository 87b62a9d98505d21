package listen_test

import (
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"runtime"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/gatewright/gatewright/shared/socket"
)

// TestHTTP2IdleConnectionsCostABoundedAmount: they cannot rest as those of HTTP/1.1 do, since both
// sides have a table of fields to remember. The client's part is in it.
func TestHTTP2IdleConnectionsCostABoundedAmount(t *testing.T) {
	const idle, most = 500, 96 << 10
	if files := socket.Descriptors(); files < 4*idle {
		t.Skipf("%d files may be open", files)
	}
	s := multiplexing(t, nil, func(http.ResponseWriter, *http.Request) {}, nil)
	memory := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc + m.StackInuse
	}
	before := memory()
	for range idle {
		c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", s.listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		over := tls.Client(c, &tls.Config{RootCAs: s.roots, ServerName: "localhost", NextProtos: []string{"h2"}})
		// A GET for / at localhost, by the static table.
		_, err = io.WriteString(over, http2.ClientPreface+"\x00\x00\x00\x04\x00\x00\x00\x00\x00"+"\x00\x00\x0e\x01\x05\x00\x00\x00\x01\x82\x84\x87\x41\x09localhost")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(over, make([]byte, 9)); err != nil {
			t.Fatal(err)
		}
	}
	if n := s.Connections(); n != idle {
		t.Errorf("there are %d connections", n)
	}
	var used uint64
	for range 50 { // until stacks have shrunk
		if used = (memory() - before) / idle; used <= most {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Logf("%d bytes a connection", used)
	if used > most {
		t.Errorf("%d bytes a connection", used)
	}
}
