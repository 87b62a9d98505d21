package gateway

import (
	"fmt"
	"net/http"
	"slices"

	"github.com/gatewright/gatewright/shared/bodies"
	"github.com/gatewright/gatewright/shared/gateway/pipeline"
	"github.com/gatewright/gatewright/shared/gateway/upstream"
)

// The bounds of a request's header: nginx takes 32 KiB, net/http a megabyte.
const (
	defaultHeaderBytes  = 64 << 10
	defaultHeaderFields = 200
)

// maxPasses is how often a request may have passed a gateway of ours. Gateways
// in front of gateways are two or three; a project whose upstream is its own
// address would otherwise use up all connections of the machine by one request.
const maxPasses = 8

// tooLarge answers a problem for a request whose header is beyond the bounds, nil
// for others.
func (g *Gateway) tooLarge(h http.Header, x *pipeline.Exchange) *http.Response {
	fields, bytes := 0, 0
	for name, values := range h {
		fields += len(values)
		for _, value := range values {
			bytes += len(name) + len(value)
		}
	}
	if fields <= g.config.MaxHeaderFields && bytes <= g.config.MaxHeaderBytes {
		return nil
	}
	return x.Problem(http.StatusRequestHeaderFieldsTooLarge,
		fmt.Sprintf("Send at most %d header fields, and at most %d bytes of them.", g.config.MaxHeaderFields, g.config.MaxHeaderBytes))
}

// singles are the values of fields that have one each: in one piece of memory
// rather than in one for each field of each request.
type singles struct {
	all [7]string
	n   int
}

func (s *singles) of(value string) []string {
	s.all[s.n] = value
	s.n++
	return s.all[s.n-1 : s.n : s.n]
}

// receive makes the exchange's header and body of the request's. It answers a
// problem where the body is too large to begin with, or the request goes round in
// circles.
func (g *Gateway) receive(out *writer, r *http.Request, x *pipeline.Exchange, own *singles, from origin, watch watched) *http.Response {
	if upstream.Passes(r.Header["Via"]) >= maxPasses {
		return x.Problem(http.StatusLoopDetected,
			fmt.Sprintf("The request has passed %d gateways, most likely the same one again and again. Check that the route's upstream address does not lead back to it.", maxPasses))
	}
	x.Header, x.Upgrade = g.config.Fields.Request(r.Header)
	if r.ProtoMajor != 1 || r.ProtoMinor == 0 || !canHijack(out.ResponseWriter) {
		x.Upgrade = "" // neither HTTP/2 nor a Lambda has a connection to give; HTTP/1.0 has no such field
	}
	// What is ours is written after the filter: no Connection field removes it.
	from.forward(x.Header, r.Header, r.Host, own)
	x.Header["X-Request-Id"] = own.of(x.RequestID)
	x.Header["Via"] = append(slices.Clip(r.Header["Via"]), upstream.Via(r.ProtoMajor, r.ProtoMinor))
	parent, state := traceParent(r.Header, g.config.IDs, watch.span)
	x.Header["Traceparent"] = own.of(parent)
	if len(state) > 0 {
		x.Header["Tracestate"] = state
	}

	x.ContentLength, x.Body = r.ContentLength, http.NoBody
	if r.ProtoAtLeast(1, 1) {
		// Older clients know no 1xx responses (RFC 9110, section 15.2).
		x.Informational = out.informational
	}
	if r.ContentLength == 0 || r.Body == nil {
		x.ContentLength = 0
		return nil
	}
	bodies.Charge(x.Context, x.Route.Info.Account)
	body := r.Body
	if limit := g.config.MaxBodyBytes; limit > 0 {
		if r.ContentLength > limit {
			return x.Problem(http.StatusRequestEntityTooLarge, fmt.Sprintf("Send a body of at most %d bytes.", limit))
		}
		body = http.MaxBytesReader(out.ResponseWriter, body, limit)
	}
	if x.Trailer = g.config.Fields.Trailer(r.Trailer, r.Header["Connection"]); x.Trailer != nil {
		body = upstream.FillTrailer(body, x.Trailer, r.Trailer)
	}
	x.Body = body
	if r.ProtoMajor == 1 {
		out.body = &requestBody{ReadCloser: body}
		x.Body, x.Streaming = out.body, out.stream
	}
	return nil
}
