// Package connectproxy is an HTTP proxy that only tunnels connections (CONNECT), for tests and measurements in which a client has to reach
// a name that no DNS server has.
//
// It is for tests alone. There is only this file.
package connectproxy

import (
	"io"
	"net"
	"net/http"
)

// Handler returns a proxy that connects clients. where returns the TCP address (host:port) for the address that a client asks for.
// The proxy answers 405 to other methods than CONNECT, and 502 if it cannot connect.
func Handler(where func(address string) string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodConnect {
			http.Error(w, "This proxy takes the method CONNECT alone.", http.StatusMethodNotAllowed)
			return
		}
		to, err := new(net.Dialer).DialContext(r.Context(), "tcp", where(r.Host))
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

// Splice copies between two connections until both directions have ended. read reads from the connection from, and may hold bytes that
// were read from it before. The end of from closes the write half of to; the end of to closes from.
func Splice(from net.Conn, read io.Reader, to net.Conn) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = io.Copy(to, read)
		if half, ok := to.(*net.TCPConn); ok {
			_ = half.CloseWrite()
		}
	}()
	_, _ = io.Copy(from, to)
	_ = from.Close()
	<-ended
}
