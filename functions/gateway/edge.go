package gateway

import (
	"crypto/tls"
	"net/http"

	"github.com/gatewright/gatewright/shared/api"
	"github.com/gatewright/gatewright/shared/installation"
)

// Edge makes a Lambda function of the gateway, behind API Gateway's REST API,
// which hands over a whole request and takes a whole answer: nothing streams
// and nothing is upgraded on this road.
func Edge(p installation.Parts, h http.Handler) api.Edge {
	o := api.EdgeOptions{Log: p.Log, Now: p.Now}
	if p.Config.DecodedPaths {
		o.Escaped = api.EscapePath
	}
	return api.NewEdge(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// The adapter leaves the host among the other headers. The platform
		// routes by it, so it is the one that was asked.
		if host := r.Header.Get("Host"); host != "" {
			r.Host = host
			r.Header.Del("Host")
		}
		// The platform says itself how it was reached: it replaces what a
		// client writes into this header.
		if r.Header.Get("X-Forwarded-Proto") == "https" {
			r.TLS = &tls.ConnectionState{}
		}
		h.ServeHTTP(w, r)
	}), o)
}
