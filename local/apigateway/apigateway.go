// Package apigateway is the local run's API Gateway: it turns each HTTP request
// into the event that AWS makes of it, hands it to the function of the group
// whose operation it is, and turns the answer back, so that what runs here is
// what runs there.
//
// What it is not: a router of operations. It knows which paths belong to which
// function, as the REST API's resources do; 404 and 405 are the functions'.
//
// Read apigateway.go first, then event.go. The shape is that of the REST API's
// proxy integration, payload version 1 (design, sections 4 and 9).
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

	"github.com/gatewright/gatewright/local/lambdahost"
	"github.com/gatewright/gatewright/shared/api"
	"github.com/gatewright/gatewright/shared/bodies"
	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/ids"
	"github.com/gatewright/gatewright/shared/telemetry"
)

// Limits of API Gateway.
const (
	// MaxBodyBytes is the payload limit: 10 MB.
	MaxBodyBytes = 10 << 20
	// Timeout is how long a function may take: 29 s.
	Timeout = 29 * time.Second
)

// Function is a group of operations and the Lambda edge that answers them.
type Function struct {
	Group api.Group
	Edge  api.Edge
}

// Options are what a Gateway takes from outside. All fields but Callers are needed.
type Options struct {
	// Functions in any order; the first one answers paths that belong to none.
	Functions []Function
	// Callers are whose bodies are waited for: an operation that takes one from
	// somebody else is refused at once. nil is for functions that read every body.
	Callers api.Authenticator
	// Domain is what events name as the API's own domain.
	Domain string
	// Trusted are the proxies whose forwarding headers are believed.
	Trusted []netip.Prefix
	IDs     *ids.Source
	Now     func() time.Time
	Log     *slog.Logger
}

// Gateway is the management API's front. It is an http.Handler.
type Gateway struct {
	o   Options
	mux *http.ServeMux
}

// New makes a Gateway. It panics for two functions with the same operation,
// which only a change of the code can bring about.
func New(o Options) *Gateway {
	g := &Gateway{o: o, mux: http.NewServeMux()}
	resources := make(map[string]*resource)
	for i, f := range o.Functions {
		for _, d := range f.Group.Declarations() {
			r, ok := resources[d.Path]
			if !ok {
				r = &resource{path: d.Path, owner: i, methods: make(map[string]method)}
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

// resource is a path with the functions of its methods. Methods without one go
// to the owner, which answers 405.
type resource struct {
	path    string
	owner   int
	methods map[string]method
}

// method is an operation and its function.
type method struct {
	owner     int
	operation api.Declaration
}

// ServeHTTP makes a resource a handler, as ServeMux needs it. It never runs.
func (*resource) ServeHTTP(http.ResponseWriter, *http.Request) {}

// ServeHTTP implements http.Handler.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	requestID := g.o.IDs.UUID()
	if r.ContentLength > MaxBodyBytes { // before a byte of it is asked for
		g.refuse(w, r, requestID, http.StatusRequestEntityTooLarge, "The body is larger than 10 MiB. Send less at once.")
		return
	}
	if _, err := url.ParseQuery(r.URL.RawQuery); err != nil {
		g.refuse(w, r, requestID, http.StatusBadRequest, "query: is not percent-encoded; write a percent sign as %25 and a semicolon as %3B")
		return
	}
	function, operation, path, parameters := g.route(r)
	body, status, detail := g.receive(w, r, operation)
	if status != 0 {
		g.refuse(w, r, requestID, status, detail)
		return
	}
	event := g.event(r, body, requestID, path, parameters)

	// As in AWS, a function goes on when the client has gone.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(bodies.Uncounted(r.Context())), Timeout)
	defer cancel()
	ctx = lambdacontext.NewContext(ctx, &lambdacontext.LambdaContext{AwsRequestID: requestID})
	answer, err := function.Edge(ctx, event)
	switch {
	case ctx.Err() != nil:
		g.refuse(w, r, requestID, http.StatusGatewayTimeout, "The operation took longer than 29 seconds. Look whether it came about before you repeat it.")
	case errors.Is(err, lambdahost.ErrEventTooLarge): // nobody was called
		g.refuse(w, r, requestID, http.StatusRequestEntityTooLarge, "The body is larger than what the platform takes: 6 MB of text, or 4.5 MB of anything else. Send less at once.")
	case err != nil:
		g.o.Log.ErrorContext(ctx, "function failed", "function", function.Group.Name, "requestId", requestID, "error", err)
		g.refuse(w, r, requestID, http.StatusBadGateway, "The function did not answer. Read what the request is about before repeating a change.")
	default:
		g.send(w, r, requestID, answer)
	}
}

// receive reads the body of an operation that takes one, or says what is refused. It
// waits for no stranger's: who has no key would hold a connection for as long as a
// body may stall. What takes none is answered without it, and so is what is not
// there.
func (g *Gateway) receive(w http.ResponseWriter, r *http.Request, operation api.Declaration) (body []byte, status int, detail string) {
	if g.o.Callers != nil && r.ContentLength != 0 {
		if !operation.TakesBody && !operation.TakesMessage {
			return nil, 0, ""
		}
		if !operation.Public {
			caller, err := api.Caller(r.Context(), g.o.Callers, operation, r)
			if stranger, ok := errors.AsType[*fault.Fault](err); ok && stranger.Kind == fault.Unauthenticated {
				return nil, 0, "" // which the function refuses without the body, in its own words and fields
			}
			bodies.ChargeAPI(r.Context(), caller.AccountID)
		}
	}
	body, err := g.read(r)
	if over, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
		if over.Limit < MaxBodyBytes { // a quarter of the process's budget, which has room for a body and its copies
			return nil, http.StatusRequestEntityTooLarge, "The body is larger than one request may hold in the memory of this process. Send less at once, or have its operator raise GATEWRIGHT_BUFFERED_BODY_BYTES."
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

// read reads a body. Functions in this process refuse a body over api.MaxBodyBytes with their own text, so read returns one byte
// more at most. The event and the function's request are copies of the body, and count for the budget too.
func (g *Gateway) read(r *http.Request) ([]byte, error) {
	from, length, most := io.Reader(r.Body), r.ContentLength, int64(MaxBodyBytes)
	if g.o.Callers != nil {
		most = api.MaxBodyBytes + 1
		from, length = io.LimitReader(from, most), min(length, most)
	}
	body, err := bodies.Read(r.Context(), from, length, most)
	if err != nil {
		return nil, err
	}
	return body, bodies.Take(r.Context(), 2*int64(len(body)))
}

// route finds the function, the operation if there is one, the resource's path and
// its parameters.
func (g *Gateway) route(r *http.Request) (f Function, operation api.Declaration, path string, parameters map[string]string) {
	probe := &http.Request{Method: r.Method, Host: r.Host, URL: &url.URL{Path: r.URL.Path, RawPath: r.URL.RawPath}}
	if escaped := r.URL.EscapedPath(); len(escaped) > 1 && strings.HasSuffix(escaped, "/") {
		probe.URL.RawPath = strings.TrimSuffix(escaped, "/")
		probe.URL.Path = strings.TrimSuffix(r.URL.Path, "/")
	}
	handler, _ := g.mux.Handler(probe)
	found, ok := handler.(*resource)
	if !ok {
		return g.o.Functions[0], operation, "/{proxy+}", map[string]string{"proxy": strings.TrimPrefix(r.URL.EscapedPath(), "/")}
	}
	of, ok := found.methods[r.Method]
	if !ok {
		of.owner = found.owner
	}
	return g.o.Functions[of.owner], of.operation, found.path, pathParameters(found.path, probe.URL.EscapedPath())
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

// send turns a function's answer into the HTTP response.
func (g *Gateway) send(w http.ResponseWriter, r *http.Request, requestID string, answer events.APIGatewayProxyResponse) {
	body := []byte(answer.Body)
	if answer.IsBase64Encoded {
		decoded, err := base64.StdEncoding.DecodeString(answer.Body)
		if err != nil {
			g.refuse(w, r, requestID, http.StatusBadGateway, "The function's answer could not be read. Read what the request is about before repeating a change.")
			return
		}
		body = decoded
	}
	header := w.Header()
	for name, values := range answer.MultiValueHeaders {
		header[http.CanonicalHeaderKey(name)] = slices.Clone(values)
	}
	for name, value := range answer.Headers {
		if _, ok := header[http.CanonicalHeaderKey(name)]; !ok {
			header.Set(name, value)
		}
	}
	header.Set("X-Amzn-Requestid", requestID)
	w.WriteHeader(answer.StatusCode)
	_, _ = w.Write(body)
}

// refuse answers what API Gateway itself refuses.
func (g *Gateway) refuse(w http.ResponseWriter, r *http.Request, requestID string, status int, detail string) {
	Refusal{g.o.IDs, g.o.Now, g.o.Log}.answer(w, r, requestID, status, detail)
}

// Refusal answers requests that no function sees, as problems.
type Refusal struct {
	IDs *ids.Source
	Now func() time.Time
	Log *slog.Logger
}

// Answer refuses a request.
func (f Refusal) Answer(w http.ResponseWriter, r *http.Request, status int, detail string) {
	f.answer(w, r, f.IDs.UUID(), status, detail)
}

func (f Refusal) answer(w http.ResponseWriter, r *http.Request, requestID string, status int, detail string) {
	var body bytes.Buffer
	path := api.ShownPath(r.URL)
	err := json.NewEncoder(&body).Encode(api.Problem{
		Type:     "https://httpproblems.com/http-status/" + strconv.Itoa(status),
		Title:    http.StatusText(status),
		Status:   status,
		Detail:   detail,
		Instance: path,
		Trace:    &api.Trace{RequestID: requestID, Timestamp: api.Timestamp(f.Now())},
	})
	if err != nil {
		f.Log.ErrorContext(r.Context(), "a problem could not be encoded", "requestId", requestID, "error", err)
	}
	f.Log.InfoContext(r.Context(), "request", "requestId", requestID, "method", telemetry.Text(r.Method), "path", telemetry.Text(path), "status", status)
	w.Header().Set("Content-Type", "application/problem+json")
	w.Header().Set("X-Request-Id", requestID)
	w.WriteHeader(status)
	_, _ = w.Write(body.Bytes())
}
