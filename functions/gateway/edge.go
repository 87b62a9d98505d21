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

	"github.com/gatewright/gatewright/shared/core/config"
	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/dataplane/relay"
	"github.com/gatewright/gatewright/shared/management/api"
	"github.com/gatewright/gatewright/shared/resource/tunnels"
)

// Open creates the function's handler, for lambda.Start. The handler streams responses if the installation's
// configuration enables streaming.
func Open(p installation.Parts) (any, error) {
	handler, _, err := OpenWithShutdown(p)
	return handler, err
}

// OpenWithShutdown works like Open. It also returns shutdown, which writes the counts since the last write and returns
// all unspent units to the table. Call shutdown before the process ends.
func OpenWithShutdown(p installation.Parts) (handler any, shutdown func(context.Context), err error) {
	o, err := newOptions(p)
	if err != nil {
		return nil, nil, err
	}
	o.Function = true
	config.LogStandardHTTP(p.Config.StandardHTTP, p.Log)
	service, err := New(p, o)
	if err != nil {
		return nil, nil, err
	}
	return LambdaHandler(p, service), func(ctx context.Context) {
		if err := service.Drain(ctx); err != nil {
			p.Log.WarnContext(ctx, "the gateway has ended with what it had counted or leased", "error", err)
		}
	}, nil
}

// newOptions returns the options of a gateway, for the function and for a separate process. The function's caller also
// sets Options.Function. If the installation has a relay, the gateway reaches services behind tunnels through the
// relay.
func newOptions(p installation.Parts) (Options, error) {
	o := Options{Refused: RuntimeAPI(os.Getenv)}
	if p.Config.Relay != "" {
		relayURL, err := url.Parse(p.Config.Relay)
		if err != nil {
			return Options{}, fmt.Errorf("read the relay's address: %w", err)
		}
		o.Services = relay.NewClient(relay.ClientOptions{
			Relay: relayURL, Directory: tunnels.OpenDirectory(restrictTable(p)),
			Key: p.Key, Now: p.Now,
		})
	}
	return o, nil
}

// LambdaHandler returns a Lambda handler like Open, but with h as the gateway.
func LambdaHandler(p installation.Parts, h http.Handler) any {
	if p.Config.Streaming {
		return Stream(p, h)
	}
	return Edge(p, h)
}

// dueFlusher is a gateway whose counts may have to be written before an invocation ends. Service implements it.
type dueFlusher interface {
	FlushIfDue(ctx context.Context)
}

var _ dueFlusher = (*Service)(nil)

func flushIfDue(ctx context.Context, h http.Handler) {
	if s, ok := h.(dueFlusher); ok {
		s.FlushIfDue(ctx)
	}
}

// Edge returns a Lambda handler for API Gateway's REST API, with h as the gateway. API Gateway passes whole requests
// and whole responses. So responses cannot be streamed, and connections cannot be upgraded.
func Edge(p installation.Parts, h http.Handler) api.LambdaHandler {
	edge := api.NewLambdaHandler(withoutTypeSniffing(withClientOrigin(h)), edgeOptions(p))
	return func(ctx context.Context, event events.APIGatewayProxyRequest) (events.APIGatewayProxyResponse, error) {
		defer flushIfDue(ctx, h)
		return edge(ctx, event)
	}
}

// withoutTypeSniffing lets h send a response without a content type. As with net/http, h sets Content-Type to an empty
// list of values for that: net/http guesses a content type only if the header is not set at all. The adapter of Lambda
// events also guesses if the list is empty.
func withoutTypeSniffing(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		typed := &typedWriter{ResponseWriter: w}
		h.ServeHTTP(typed, r)
		dropEmpty(w.Header())
	})
}

// typedWriter restores the Content-Type that the handler has set, which may be an empty list, after the adapter has
// guessed another. This is possible because the adapter uses the headers only when the response is complete.
type typedWriter struct{ http.ResponseWriter }

// Write implements http.ResponseWriter.
func (w *typedWriter) Write(b []byte) (int, error) {
	values, isSet := w.Header()["Content-Type"]
	n, err := w.ResponseWriter.Write(b)
	if isSet {
		w.Header()["Content-Type"] = values
	}
	return n, err
}

// Unwrap returns the wrapped writer, for http.ResponseController.
func (w *typedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// dropEmpty removes headers without a value, which Lambda's response format cannot express.
func dropEmpty(h http.Header) {
	for name, values := range h {
		if len(values) == 0 {
			delete(h, name)
		}
	}
}

func edgeOptions(p installation.Parts) api.LambdaHandlerOptions {
	o := api.LambdaHandlerOptions{Log: p.Log, Now: p.Now}
	if p.Config.DecodedPaths {
		o.Escape = api.EscapePath
	}
	return o
}

// clientCertificates returns the certificate that a client has presented to API Gateway, or nil if there is none. API
// Gateway passes it separately from the client's headers, so clients cannot forge it. API Gateway passes no
// intermediate certificates, so an account whose clients use them must also upload them.
func clientCertificates(r *http.Request) []*x509.Certificate {
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

// withClientOrigin passes requests to h with the host and the scheme that the client used. If the scheme is HTTPS, it
// also passes the client's certificate.
func withClientOrigin(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// The adapter leaves the host in the headers. It is the host that the client requested, because API Gateway uses it
		// for routing.
		if host := r.Header.Get("Host"); host != "" {
			r.Host = host
			r.Header.Del("Host")
		}
		// API Gateway sets this header, and replaces any value from the client.
		if r.Header.Get("X-Forwarded-Proto") == "https" {
			r.TLS = &tls.ConnectionState{PeerCertificates: clientCertificates(r)}
		}
		h.ServeHTTP(w, r)
	})
}
