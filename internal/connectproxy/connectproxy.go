// Package connectproxy is an HTTP proxy that only tunnels connections (CONNECT). Tests and measurements use it when a client has to reach
// a name that no DNS server knows.
//
// It is only for tests. There is only this file.
package connectproxy

import (
	"io"
	"net"
	"net/http"
)

// Handler returns a proxy that connects clients. backend returns the TCP address (host:port) to dial for the address in a client's request.
// The proxy responds with 405 to methods other than CONNECT, and with 502 if it cannot connect.
func Handler(backend func(address string) string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodConnect {
			http.Error(w, "This proxy takes the method CONNECT alone.", http.StatusMethodNotAllowed)
			return
		}
		to, err := new(net.Dialer).DialContext(r.Context(), "tcp", backend(r.Host))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		defer func() { _ = to.Close() }()
		w.WriteHeader(http.StatusOK)
		from, buffered, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer func() { _ = from.Close() }()
		_ = buffered.Flush()
		Splice(from, buffered, to)
	})
}

// Splice copies between the connections from and to until both directions have ended. It reads from the connection from
// through read, which can contain bytes that were already read from it. When read ends, Splice closes the write half of
// to. When to ends, Splice closes from.
func Splice(from net.Conn, read io.Reader, to net.Conn) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(to, read)
		if tcp, ok := to.(*net.TCPConn); ok {
			_ = tcp.CloseWrite()
		}
	}()
	_, _ = io.Copy(from, to)
	_ = from.Close()
	<-done
}
