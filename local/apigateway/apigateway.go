// Package apigateway replaces API Gateway in the local run. It converts each HTTP request to the event that API Gateway
// would send. It calls the function of the operation's group with the event, and converts the function's response to an
// HTTP response. So the same code runs locally and in AWS.
//
// The package selects a function by the path and the method, like the resources of the REST API in AWS. The function
// selects the operation, and responds with 404 or 405 if there is none.
//
// Read apigateway.go first, then event.go. Events have the format of the REST
// API's proxy integration, payload version 1 (design, sections 4 and 9).
package apigateway

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-lambda-go/lambdacontext"

	"github.com/gatewright/gatewright/local/dev/lambdahost"
	"github.com/gatewright/gatewright/shared/base/bodies"
	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/base/ids"
	"github.com/gatewright/gatewright/shared/base/telemetry"
	"github.com/gatewright/gatewright/shared/management/api"
)

// Limits of API Gateway.
const (
	// MaxBodyBytes is the payload limit: 10 MiB.
	MaxBodyBytes = 10 << 20
	// Timeout is the maximum duration of a function's call: 29 s.
	Timeout = 29 * time.Second
)

// Function is a group of operations and the handler (Edge) that serves them.
type Function struct {
	Group api.Group
	Edge  api.LambdaHandler
}

// Options are the options of a Gateway. All fields except Authenticator and TrustedProxies are required.
type Options struct {
	// Functions are the functions to call. The first one also serves paths that belong to no function. Otherwise the order
	// does not matter.
	Functions []Function
	// Authenticator authenticates callers before their bodies are read. The body of an unauthenticated client is read only
	// for a public operation. If Authenticator is nil, every body is read.
	Authenticator api.Authenticator
	// Domain is the API's domain name in events.
	Domain string
	// TrustedProxies are the proxies whose forwarding headers are trusted.
	TrustedProxies []netip.Prefix
	IDs            *ids.Source
	Now            func() time.Time
	Log            *slog.Logger
}

// Gateway serves requests by calls of functions: the management API, or the gateway if it is a separate process. It is
// an http.Handler.
type Gateway struct {
	o   Options
	mux *http.ServeMux
}

// New returns a Gateway. It panics if two operations have the same method and path, which is an error in the code.
func New(o Options) *Gateway {
	g := &Gateway{o: o, mux: http.NewServeMux()}
	resources := make(map[string]*resource)
	for i, f := range o.Functions {
		for _, d := range f.Group.Declarations() {
			r, ok := resources[d.Path]
			if !ok {
				r = &resource{path: d.Path, functionIndex: i, methods: make(map[string]method)}
				resources[d.Path] = r
				g.mux.Handle(d.Path, r)
			}
			if _, ok := r.methods[d.Method]; ok {
				panic("apigateway: two operations " + d.Method + " " + d.Path)
			}
			r.methods[d.Method] = method{i, d}
		}
	}
	return g
}

// resource is a path with its methods. The function with the index
// functionIndex serves all other methods, and responds with 405.
type resource struct {
	path          string
	functionIndex int
	methods       map[string]method
}

// method is an operation and the index of its function in Options.Functions.
type method struct {
	functionIndex int
	operation     api.Declaration
}

// ServeHTTP makes a resource a handler, as ServeMux requires. It is never called.
func (*resource) ServeHTTP(http.ResponseWriter, *http.Request) {}

// ServeHTTP implements http.Handler.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	requestID := g.o.IDs.UUID()
	if r.ContentLength > MaxBodyBytes { // before the client is asked to send the body
		g.refuse(w, r, requestID, http.StatusRequestEntityTooLarge, "The body is larger than 10 MiB. Send less at once.")
		return
	}
	if _, err := url.ParseQuery(r.URL.RawQuery); err != nil {
		g.refuse(w, r, requestID, http.StatusBadRequest,
			"query: is not percent-encoded; write a percent sign as %25 and a semicolon as %3B")
		return
	}
	function, operation, path, parameters := g.route(r)
	body, status, detail := g.receive(w, r, operation)
	if status != 0 {
		g.refuse(w, r, requestID, status, detail)
		return
	}
	event := g.event(r, body, requestID, path, parameters)

	// As in AWS, a function continues when the client has disconnected.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(bodies.Uncounted(r.Context())), Timeout)
	defer cancel()
	ctx = lambdacontext.NewContext(ctx, &lambdacontext.LambdaContext{AwsRequestID: requestID})
	resp, err := function.Edge(ctx, event)
	switch {
	case ctx.Err() != nil:
		g.refuse(w, r, requestID, http.StatusGatewayTimeout,
			"The operation took longer than 29 seconds. Look whether it came about before you repeat it.")
	case errors.Is(err, lambdahost.ErrEventTooLarge): // the function was not called
		g.refuse(w, r, requestID, http.StatusRequestEntityTooLarge, "The body is larger than what the platform takes: 6 MB "+
			"of text, or 4.5 MB of anything else. Send less at once.")
	case err != nil:
		g.o.Log.ErrorContext(ctx, "function failed", "function", function.Group.Name, "requestId", requestID, "error", err)
		g.refuse(w, r, requestID, http.StatusBadGateway,
			"The function did not answer. Read what the request is about before repeating a change.")
	default:
		g.send(w, r, requestID, resp)
	}
}

// receive reads the body if the operation takes one. If status is not 0, the caller must reject the request with status
// and detail. It does not read the body of an unauthenticated client, who could otherwise block a connection by sending
// slowly, unless the operation is public. It does not read the body for other operations, or for paths that do not
// exist. Without an Authenticator, it reads every body.
func (g *Gateway) receive(
	w http.ResponseWriter, r *http.Request, operation api.Declaration,
) (body []byte, status int, detail string) {
	if g.o.Authenticator != nil && r.ContentLength != 0 {
		if !operation.TakesBody && !operation.TakesMessage {
			return nil, 0, ""
		}
		if !operation.Public {
			caller, err := api.Caller(r.Context(), g.o.Authenticator, operation, r)
			if authErr, ok := errors.AsType[*fault.Fault](err); ok && authErr.Kind == fault.Unauthenticated {
				return nil, 0, "" // the function rejects the request without its body
			}
			bodies.ChargeAPI(r.Context(), caller.AccountID)
		}
	}
	body, err := g.read(r)
	if limitErr, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
		if limitErr.Limit < MaxBodyBytes { // the share of the memory that one client may use
			return nil, http.StatusRequestEntityTooLarge, "The body is larger than one request may hold in the memory of this " +
				"process. Send less at once, or have its operator raise GATEWRIGHT_BUFFERED_BODY_BYTES."
		}
		return nil, http.StatusRequestEntityTooLarge, "The body is larger than 10 MiB. Send less at once."
	}
	if err != nil {
		if status, detail = bodies.Refusal(err); status == http.StatusServiceUnavailable {
			w.Header().Set("Retry-After", bodies.RetryAfterSeconds())
		}
		if status == 0 {
			return nil, http.StatusBadRequest, "The body could not be read to its end. Send it again."
		}
		return nil, status, detail
	}
	return body, 0, ""
}

// read reads a body. With an Authenticator, the functions run in this process and reject a body that is larger than
// api.MaxBodyBytes themselves. Then read returns at most one byte more than that. The event and the function's request
// contain copies of the body, so read reserves memory for them too.
func (g *Gateway) read(r *http.Request) ([]byte, error) {
	body, length, maxBytes := io.Reader(r.Body), r.ContentLength, int64(MaxBodyBytes)
	if g.o.Authenticator != nil {
		maxBytes = api.MaxBodyBytes + 1
		body, length = io.LimitReader(body, maxBytes), min(length, maxBytes)
	}
	content, err := bodies.Read(r.Context(), body, length, maxBytes)
	if err != nil {
		return nil, err
	}
	return content, bodies.Reserve(r.Context(), 2*int64(len(content)))
}

// route returns the function for a request, the operation, the path of the resource and its parameters. It ignores a
// slash at the end of the request's path. operation is the zero value if there is no such operation.
func (g *Gateway) route(
	r *http.Request,
) (f Function, operation api.Declaration, path string, parameters map[string]string) {
	probe := &http.Request{Method: r.Method, Host: r.Host, URL: &url.URL{Path: r.URL.Path, RawPath: r.URL.RawPath}}
	if escaped := r.URL.EscapedPath(); len(escaped) > 1 && strings.HasSuffix(escaped, "/") {
		probe.URL.RawPath = strings.TrimSuffix(escaped, "/")
		probe.URL.Path = strings.TrimSuffix(r.URL.Path, "/")
	}
	handler, _ := g.mux.Handler(probe)
	res, ok := handler.(*resource)
	if !ok {
		return g.o.Functions[0], operation, "/{proxy+}",
			map[string]string{"proxy": strings.TrimPrefix(r.URL.EscapedPath(), "/")}
	}
	matched, ok := res.methods[r.Method]
	if !ok {
		matched.functionIndex = res.functionIndex
	}
	return g.o.Functions[matched.functionIndex], matched.operation, res.path,
		pathParameters(res.path, probe.URL.EscapedPath())
}

// pathParameters returns the values of a resource's parameters, decoded.
func pathParameters(pattern, escaped string) map[string]string {
	out := make(map[string]string)
	values := strings.Split(escaped, "/")
	for i, segment := range strings.Split(pattern, "/") {
		if !strings.HasPrefix(segment, "{") || i >= len(values) {
			continue
		}
		if value, err := url.PathUnescape(values[i]); err == nil {
			out[strings.Trim(segment, "{}")] = value
		}
	}
	return out
}

// send sends a function's response as the HTTP response.
func (g *Gateway) send(w http.ResponseWriter, r *http.Request, requestID string, resp events.APIGatewayProxyResponse) {
	body := []byte(resp.Body)
	if resp.IsBase64Encoded {
		decoded, err := base64.StdEncoding.DecodeString(resp.Body)
		if err != nil {
			g.refuse(w, r, requestID, http.StatusBadGateway,
				"The function's answer could not be read. Read what the request is about before repeating a change.")
			return
		}
		body = decoded
	}
	header := w.Header()
	for name, values := range resp.MultiValueHeaders {
		header[http.CanonicalHeaderKey(name)] = slices.Clone(values)
	}
	for name, value := range resp.Headers {
		if _, ok := header[http.CanonicalHeaderKey(name)]; !ok {
			header.Set(name, value)
		}
	}
	header.Set("X-Amzn-Requestid", requestID)
	w.WriteHeader(resp.StatusCode)
	_, _ = w.Write(body)
}

// refuse rejects a request with a response of API Gateway, not of a function.
func (g *Gateway) refuse(w http.ResponseWriter, r *http.Request, requestID string, status int, detail string) {
	Refuser{g.o.IDs, g.o.Now, g.o.Log}.respond(w, r, requestID, status, detail)
}

// Refuser rejects requests that are not passed to a function, with problem responses.
type Refuser struct {
	IDs *ids.Source
	Now func() time.Time
	Log *slog.Logger
}

// Respond rejects a request.
func (re Refuser) Respond(w http.ResponseWriter, r *http.Request, status int, detail string) {
	re.respond(w, r, re.IDs.UUID(), status, detail)
}

func (re Refuser) respond(w http.ResponseWriter, r *http.Request, requestID string, status int, detail string) {
	var body bytes.Buffer
	path := api.RedactedPath(r.URL)
	err := json.NewEncoder(&body).Encode(api.Problem{
		Type:     "https://httpproblems.com/http-status/" + strconv.Itoa(status),
		Title:    http.StatusText(status),
		Status:   status,
		Detail:   detail,
		Instance: path,
		Trace:    &api.Trace{RequestID: requestID, Timestamp: api.Timestamp(re.Now())},
	})
	if err != nil {
		re.Log.ErrorContext(r.Context(), "a problem could not be encoded", "requestId", requestID, "error", err)
	}
	re.Log.InfoContext(r.Context(), "request", "requestId", requestID, "method", telemetry.Text(r.Method), "path",
		telemetry.Text(path), "status", status)
	w.Header().Set("Content-Type", "application/problem+json")
	w.Header().Set("X-Request-Id", requestID)
	w.WriteHeader(status)
	_, _ = w.Write(body.Bytes())
}
