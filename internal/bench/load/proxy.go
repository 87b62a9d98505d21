package load

import (
	"log/slog"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"
	"time"
)

// ReverseProxy is the standard library's, tuned as its users do: many idle connections, no
// compression, pooled buffers. address is the host:port that it sends everything to.
func ReverseProxy(address string) http.Handler {
	to := &url.URL{Scheme: "http", Host: address}
	return &httputil.ReverseProxy{
		Rewrite:    func(r *httputil.ProxyRequest) { r.SetURL(to) },
		Transport:  &http.Transport{MaxIdleConnsPerHost: 256, DisableCompression: true, IdleConnTimeout: time.Minute},
		BufferPool: &buffers{},
		ErrorLog:   slog.NewLogLogger(slog.DiscardHandler, slog.LevelError), // a client that ends its load in the middle of a request is no error of ours
	}
}

type buffers struct{ pool sync.Pool }

func (b *buffers) Get() []byte {
	if buffer, ok := b.pool.Get().(*[]byte); ok {
		return *buffer
	}
	return make([]byte, 32<<10)
}

func (b *buffers) Put(buffer []byte) { b.pool.Put(&buffer) }
