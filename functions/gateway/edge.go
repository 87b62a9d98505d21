package gateway

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/url"
	"os"

	"github.com/aws/aws-lambda-go/events"
	"github.com/awslabs/aws-lambda-go-api-proxy/core"

	"github.com/gatewright/gatewright/shared/api"
	"github.com/gatewright/gatewright/shared/config"
	"github.com/gatewright/gatewright/shared/installation"
	"github.com/gatewright/gatewright/shared/relay"
	"github.com/gatewright/gatewright/shared/tunnels"
)

// Open makes the function's handler, as lambda.Start takes it: one that streams
// its answers where the installation is set up for that.
func Open(p installation.Parts) (any, error) {
	handler, _, err := OpenEnding(p)
	return handler, err
}

// OpenEnding is Open, with what is to be done before the process ends: what was
// counted since the last write is written, and what is leased goes back.
func OpenEnding(p installation.Parts) (handler any, end func(context.Context), err error) {
	o, err := optionsOf(p)
	if err != nil {
		return nil, nil, err
	}
	o.Function = true
	config.LogStandardHTTP(p.Config.StandardHTTP, p.Log)
	service, err := New(p, o)
	if err != nil {
		return nil, nil, err
	}
	return Lambda(p, service), func(ctx context.Context) {
		if err := service.Drain(ctx); err != nil {
			p.Log.WarnContext(ctx, "the gateway has ended with what it had counted or leased", "error", err)
		}
	}, nil
}

// optionsOf are those of a gateway that is a process of its own: it asks services behind
// tunnels by the relay's address, where the installation has one.
func optionsOf(p installation.Parts) (Options, error) {
	o := Options{Refused: RuntimeAPI(os.Getenv)}
	if p.Config.Relay != "" {
		at, err := url.Parse(p.Config.Relay)
		if err != nil {
			return Options{}, fmt.Errorf("read the relay's address: %w", err)
		}
		o.Services = relay.NewClient(relay.ClientOptions{Relay: at, Directory: tunnels.OpenDirectory(held(p)), Key: p.Key, Now: p.Now})
	}
	return o, nil
}

// Lambda is Open for a handler that is there.
func Lambda(p installation.Parts, h http.Handler) any {
	if p.Config.Streaming {
		return Stream(p, h)
	}
	return Edge(p, h)
}

// settler has something to do before an invocation ends.
type settler interface {
	Settle(ctx context.Context)
}

var _ settler = (*Service)(nil)

func settle(ctx context.Context, h http.Handler) {
	if s, ok := h.(settler); ok {
		s.Settle(ctx)
	}
}

// Edge makes a Lambda function of the gateway, behind API Gateway's REST API,
// which hands over a whole request and takes a whole answer: nothing streams
// and nothing is upgraded on this road.
func Edge(p installation.Parts, h http.Handler) api.Edge {
	edge := api.NewEdge(withoutGuess(withClientOrigin(h)), options(p))
	return func(ctx context.Context, event events.APIGatewayProxyRequest) (events.APIGatewayProxyResponse, error) {
		defer settle(ctx, h)
		return edge(ctx, event)
	}
}

// withoutGuess keeps the adapter from guessing a type for a body that has none:
// it looks only whether there is one, net/http whether one was decided on.
func withoutGuess(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		typed := &typedWriter{ResponseWriter: w}
		h.ServeHTTP(typed, r)
		dropEmpty(w.Header())
	})
}

// typedWriter takes the adapter's guess back, which is kept until the answer is whole.
type typedWriter struct{ http.ResponseWriter }

// Write implements http.ResponseWriter.
func (w *typedWriter) Write(b []byte) (int, error) {
	values, decided := w.Header()["Content-Type"]
	n, err := w.ResponseWriter.Write(b)
	if decided {
		w.Header()["Content-Type"] = values
	}
	return n, err
}

// Unwrap is for http.ResponseController.
func (w *typedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// dropEmpty removes fields without a value: an event has no word for them.
func dropEmpty(h http.Header) {
	for name, values := range h {
		if len(values) == 0 {
			delete(h, name)
		}
	}
}

func options(p installation.Parts) api.EdgeOptions {
	o := api.EdgeOptions{Log: p.Log, Now: p.Now}
	if p.Config.DecodedPaths {
		o.Escaped = api.EscapePath
	}
	return o
}

// clientOf is the certificate that a client has shown to the platform, as the platform
// says beside the request: nothing that a client can write leads there. It is the
// client's own alone, so that an account whose clients have intermediates uploads
// those as well.
func clientOf(r *http.Request) []*x509.Certificate {
	event, ok := core.GetAPIGatewayContextFromContext(r.Context())
	if !ok || event.Identity.ClientCert == nil {
		return nil
	}
	block, _ := pem.Decode([]byte(event.Identity.ClientCert.ClientCertPem))
	if block == nil {
		return nil
	}
	c, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil
	}
	return []*x509.Certificate{c}
}

// withClientOrigin gives the handler requests with the host and the scheme of the
// client's.
func withClientOrigin(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// The adapter leaves the host among the other headers. The platform
		// routes by it, so it is the one that was asked.
		if host := r.Header.Get("Host"); host != "" {
			r.Host = host
			r.Header.Del("Host")
		}
		// The platform says itself how it was reached: it replaces what a
		// client writes into this header.
		if r.Header.Get("X-Forwarded-Proto") == "https" {
			r.TLS = &tls.ConnectionState{PeerCertificates: clientOf(r)}
		}
		h.ServeHTTP(w, r)
	})
}
