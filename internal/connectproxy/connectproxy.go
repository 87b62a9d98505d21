// Package connectproxy is an HTTP proxy that only tunnels connections (CONNECT). Tests and measurements use it when a client has to reach
// a name that no DNS server knows.
//
// The product does not use it. There is only this file.
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
			http.Error(w, "This proxy accepts only the method CONNECT.", http.StatusMethodNotAllowed)
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

// Splice copies between the two connections, from and to, until both directions have ended. It reads the client's bytes
// through fromReader, a reader of from that can contain bytes that were already read. When fromReader ends, Splice
// closes the write half of to. When to ends, Splice closes from.
func Splice(from net.Conn, fromReader io.Reader, to net.Conn) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(to, fromReader)
		if tcp, ok := to.(*net.TCPConn); ok {
			_ = tcp.CloseWrite()
		}
	}()
	_, _ = io.Copy(from, to)
	_ = from.Close()
	<-done
}
