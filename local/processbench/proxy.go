package main

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
)

// proxied is a proxy that agents come by (CONNECT), which knows where the domain is: all its names are at one address.
func proxied(address func() string) *httptest.Server {
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		to, err := new(net.Dialer).DialContext(r.Context(), "tcp", address())
		if err != nil || r.Method != http.MethodConnect {
			w.WriteHeader(http.StatusBadGateway)
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
		splice(from, buffered, to)
	}))
}

// splice passes on what comes from either side, until both have ended. What was read of from already is in read.
func splice(from net.Conn, read io.Reader, to net.Conn) {
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
