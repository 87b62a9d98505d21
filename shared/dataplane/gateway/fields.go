package gateway

import (
	"fmt"
	"net/http"
	"slices"

	"github.com/gatewright/gatewright/shared/base/bodies"
	"github.com/gatewright/gatewright/shared/dataplane/gateway/upstream"
)

// The default limits of a request's header. For comparison, the defaults of nginx and net/http are 32 KiB and 1 MiB.
const (
	defaultHeaderBytes  = 64 << 10
	defaultHeaderFields = 200
)

// maxHops is the maximum number of times that a request can pass through gateways of this
// product. Chains of two or three gateways are normal. Without a limit, one request to a project
// whose upstream is its own address would use up all connections of the machine.
const maxHops = 8

// checkHeader returns a problem for a request whose header exceeds the limits, and nil otherwise.
func (r *request) checkHeader() *http.Response {
	fields, bytes := 0, 0
	for name, values := range r.in.Header {
		fields += len(values)
		for _, value := range values {
			bytes += len(name) + len(value)
		}
	}
	maxFields, maxBytes := r.g.config.MaxHeaderFields, r.g.config.MaxHeaderBytes
	if fields <= maxFields && bytes <= maxBytes {
		return nil
	}
	return r.x.Problem(http.StatusRequestHeaderFieldsTooLarge,
		fmt.Sprintf("Send at most %d header fields, and at most %d bytes of them.", maxFields, maxBytes))
}

// singleValues stores the values of fields that have one value each, without an allocation for each field. There are
// at most seven: five fields for the upstream, and one in each of up to two calls of request.send.
type singleValues struct {
	values [7]string
	n      int
}

// slice stores value and returns it as the only element of a slice.
func (s *singleValues) slice(value string) []string {
	s.values[s.n] = value
	s.n++
	return s.values[s.n-1 : s.n : s.n]
}

// receive sets the header, the body and the body's callbacks of the exchange. It returns a problem
// if the Content-Length is too large, or if the request has passed too many gateways.
func (r *request) receive() *http.Response {
	in, x, config := r.in, &r.x, &r.g.config
	if upstream.Hops(in.Header["Via"]) >= maxHops {
		return x.Problem(http.StatusLoopDetected,
			fmt.Sprintf("The request has passed %d gateways, most likely the same one again and again. Check that the route's "+
				"upstream address does not lead back to it.", maxHops))
	}
	x.Header, x.Unsent, x.Upgrade = config.HeaderFilter.Request(in.Header)
	if in.ProtoMajor != 1 || in.ProtoMinor == 0 || !canHijack(r.out.ResponseWriter) {
		x.Upgrade = "" // HTTP/2 requests and Lambdas have no connection to hijack; HTTP/1.0 has no Upgrade field
	}
	// Add our own fields after the filter, so that no Connection field removes them.
	r.addForwardingFields()
	x.Header["X-Request-Id"] = r.singleValues.slice(x.RequestID)
	x.Header["Via"] = append(slices.Clip(in.Header["Via"]), upstream.Via(in.ProtoMajor, in.ProtoMinor))
	parent, state := traceParent(in.Header, config.IDs, r.observation.span)
	x.Header["Traceparent"] = r.singleValues.slice(parent)
	if len(state) > 0 {
		x.Header["Tracestate"] = state
	}

	x.ContentLength, x.Body = in.ContentLength, http.NoBody
	if in.ProtoAtLeast(1, 1) {
		// HTTP/1.0 clients do not support 1xx responses (RFC 9110, section 15.2).
		x.Informational = r.out.informational
	}
	if in.ContentLength == 0 || in.Body == nil {
		x.ContentLength = 0
		return nil
	}
	bodies.Charge(x.Context, x.Route.Info.Account)
	body := in.Body
	if limit := config.MaxBodyBytes; limit > 0 {
		if in.ContentLength > limit {
			return x.Problem(http.StatusRequestEntityTooLarge, fmt.Sprintf("Send a body of at most %d bytes.", limit))
		}
		body = http.MaxBytesReader(r.out.ResponseWriter, body, limit)
	}
	if x.Trailer = config.HeaderFilter.Trailer(in.Trailer, in.Header["Connection"]); x.Trailer != nil {
		body = upstream.FillTrailer(body, x.Trailer, in.Trailer)
	}
	x.Body = body
	if in.ProtoMajor == 1 {
		r.out.body = &requestBody{ReadCloser: body}
		x.Body, x.EnableStreaming = r.out.body, r.out.enableStreaming
	}
	return nil
}
