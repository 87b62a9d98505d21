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

	"github.com/gatewright/gatewright/shared/base/socket"
)

// TestHTTP2IdleConnectionMemoryIsBounded checks the memory per idle connection, including the memory of the client.
// HTTP/2 connections can't be parked, because both sides must keep a table of header fields (HPACK).
func TestHTTP2IdleConnectionMemoryIsBounded(t *testing.T) {
	const connections, limit = 500, 96 << 10
	if descriptors := socket.MaxDescriptors(); descriptors < 4*connections {
		t.Skipf("the process can open only %d descriptors, want %d", descriptors, 4*connections)
	}
	s := newHTTP2Server(t, nil, func(http.ResponseWriter, *http.Request) {}, nil)
	memory := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc + m.StackInuse
	}
	before := memory()
	for range connections {
		c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", s.listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		tlsConn := tls.Client(c, &tls.Config{RootCAs: s.roots, ServerName: "localhost", NextProtos: []string{"h2"}})
		// Send the preface, empty SETTINGS, and HEADERS for a GET of / at localhost, with indexes of the static table.
		_, err = io.WriteString(tlsConn, http2.ClientPreface+"\x00\x00\x00\x04\x00\x00\x00\x00\x00"+
			"\x00\x00\x0e\x01\x05\x00\x00\x00\x01\x82\x84\x87\x41\x09localhost")
		if err != nil {
			t.Fatalf("Write(preface and GET /) error = %v, want none", err)
		}
		if _, err := io.ReadFull(tlsConn, make([]byte, 9)); err != nil {
			t.Fatalf("reading the first frame header of the server: error = %v, want none", err)
		}
	}
	if n := s.Connections(); n != connections {
		t.Errorf("Connections() = %d, want %d", n, connections)
	}
	var used uint64
	for range 50 { // wait until stacks have shrunk
		if used = (memory() - before) / connections; used <= limit {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Logf("%d bytes per connection", used)
	if used > limit {
		t.Errorf("memory per connection = %d bytes, want at most %d", used, limit)
	}
}
