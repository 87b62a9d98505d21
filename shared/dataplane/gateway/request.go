package gateway

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/base/forwarded"
	"github.com/gatewright/gatewright/shared/base/framing"
	"github.com/gatewright/gatewright/shared/base/telemetry"
	"github.com/gatewright/gatewright/shared/core/limits"
	"github.com/gatewright/gatewright/shared/dataplane/gateway/pipeline"
	"github.com/gatewright/gatewright/shared/dataplane/gateway/problem"
	"github.com/gatewright/gatewright/shared/dataplane/gateway/router"
)

// The paths of the gateway's own routes. pingPath exists at every host, and buildPath at each host with a deployment.
const (
	pingPath  = router.Reserved + "ping"
	buildPath = router.Reserved + "build"
)

// ServeHTTP serves one request. If a response breaks off, ServeHTTP panics with
// http.ErrAbortHandler, like httputil.ReverseProxy. This closes the connection:
// nothing else shows an HTTP/1 client that the response is incomplete.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.newRequest(w, r).serve() //nolint:contextcheck // newRequest uses the context of r
}

// request is the state of one request from its arrival to the end of
// its response. Policies and handlers see only its pipeline.Exchange.
type request struct {
	g  *Gateway
	in *http.Request
	// out writes the response.
	out writer
	// x is the request as its route sees it.
	x pipeline.Exchange
	// singleValues stores the values of fields that the gateway adds.
	singleValues singleValues
	// origin describes where the request came from.
	origin forwarded.Origin
	// pathErr is the error of readPath, nil for a valid path.
	pathErr error
	// site serves the deployment at the request's host. It is nil before resolve has found the deployment.
	site *site
	// cors is the CORS policy that applies to the response, nil for none.
	cors *cors
	// stream counts the request as a stream of its account, if the request is a stream.
	stream      stream
	observation observation
}

// newRequest returns the state of a request. The parts of the state are values in one struct, for a single allocation.
func (g *Gateway) newRequest(w http.ResponseWriter, in *http.Request) *request {
	r := &request{
		g: g, in: in,
		out: writer{
			ResponseWriter: w, buffers: &g.buffers, upgrades: &g.upgrades, http10: !in.ProtoAtLeast(1, 1),
			halfClosedTimeout: g.config.HalfClosedTimeout,
		},
		x: pipeline.Exchange{
			Context: in.Context(), Method: in.Method, Host: in.Host, Query: in.URL.RawQuery, Body: http.NoBody,
			Start: g.config.Now(),
		},
	}
	if in.TLS != nil {
		r.x.ClientChain = in.TLS.PeerCertificates
	}
	r.pathErr = r.readPath()
	r.origin = forwarded.Parse(in, g.config.TrustedProxies)
	r.x.Client, r.x.Scheme = r.origin.Client, r.origin.Scheme
	r.x.RequestID = r.id()
	r.observe()
	return r
}

// serve handles the request and writes the response.
func (r *request) serve() {
	defer r.report() // runs after recover has written a response
	defer func() { r.g.count(&r.x, r.out.status) }()
	defer r.recover()
	defer r.releaseSlot()
	defer r.x.End()
	if r.g.config.StreamThreshold > 0 {
		defer r.trackLongRequest()()
	}
	response := r.countStream(r.respond()) //nolint:bodyclose // send closes it
	unread := r.out.body.unread()          // if true, send adds "Connection: close"
	err := r.send(response)
	if err != nil && !r.out.headWritten && r.x.Context.Err() == nil {
		r.x.Cause = err
		//nolint:bodyclose // send closes it
		err = r.send(r.x.Problem(http.StatusBadGateway, "The upstream's answer broke off before its end. Try again later; "+
			"if this goes on, its operator has to be told."))
	}
	if unread {
		r.out.stopReading()
	}
	if err != nil {
		switch {
		case r.x.Context.Err() == nil:
			r.g.config.Log.LogAttrs(r.in.Context(), slog.LevelWarn, "response broke off", r.attrs(slog.Any("error", err))...)
		case !r.out.headWritten:
			r.out.status = pipeline.StatusClientGone
		}
		panic(http.ErrAbortHandler)
	}
}

// send adds X-Request-Id and the CORS headers to a response and writes it. If the request's body is streamed and the
// client may still send a part of it, send also adds "Connection: close". If the exchange has a Cause, send logs it,
// unless the exchange's context has ended.
func (r *request) send(response *http.Response) error {
	if r.x.Cause != nil && r.x.Context.Err() == nil {
		r.g.config.Log.LogAttrs(r.in.Context(), slog.LevelWarn, "request failed",
			r.attrs(slog.Int("status", response.StatusCode), slog.Any("error", r.x.Cause))...)
	}
	if r.out.body.unread() {
		response.Header["Connection"] = []string{"close"}
	}
	response.Header["X-Request-Id"] = r.singleValues.slice(r.x.RequestID)
	r.cors.apply(response.Header, r.in.Header.Get("Origin"))
	return r.out.send(response)
}

// respond returns the response of the request's route or of one of the gateway's own routes, the
// automatic response to OPTIONS, or the problem that keeps the request from reaching a route.
func (r *request) respond() *http.Response {
	x := &r.x
	if r.pathErr != nil {
		if !errors.Is(r.pathErr, errPathTooLong) {
			_ = r.resolve() // sets the route noRoute of the host's deployment, if any, so that the request is counted
		}
		return r.refusePath(r.pathErr)
	}
	if response := r.checkHeader(); response != nil {
		return response
	}
	if x.Path == pingPath {
		return successResponse(`{"status":"ok"}`)
	}
	if err := r.resolve(); err != nil {
		return r.refuseHost(err)
	}
	s := r.site
	if response := r.reserveSlot(); response != nil {
		return response
	}
	if x.Path == buildPath {
		return successResponse(`{"buildId":` + strconv.Quote(s.identity.BuildID) + `,"deployment":` +
			strconv.Quote(s.identity.Deployment) + `}`)
	}
	if s.builtByNewer {
		return x.Problem(http.StatusServiceUnavailable, "A newer release of the gateway has built this deployment, and is "+
			"being introduced. Repeat the request in a few seconds.")
	}
	if len(s.problems) > 0 {
		return r.initializationError()
	}
	if router.IsReserved(x.Path) {
		return x.Problem(http.StatusNotFound,
			"The gateway has no such route of its own. Paths below /__gatewright/ are no project's.")
	}
	route := s.find(x)
	if route == nil {
		return r.respondUnmatched()
	}
	x.Route, r.cors = &route.Route, route.cors
	if response := r.checkPath(); response != nil {
		return response
	}
	if response := r.receive(); response != nil {
		return response
	}
	r.setAdmit(route.Handler)
	return route.Run(x)
}

// errInvalidHost is the error of resolve for a Host field that is not a host name or address. Our listeners refuse
// such a host when they read the head, but AWS can pass it to a Lambda.
var errInvalidHost = errors.New("gateway: the Host is not a host name or address")

// resolve finds the deployment at the request's host, and sets its site and the route noRoute. From then on, problems
// name the deployment's build, and the request is counted for the deployment even if no route matches. The error is
// errInvalidHost or an error of Deployments.Resolve.
func (r *request) resolve() error {
	if !framing.ValidHost(r.in.Host) {
		return errInvalidHost
	}
	deployment, err := r.g.config.Deployments.Resolve(r.x.Context, framing.HostName(r.in.Host))
	if err != nil {
		return err
	}
	r.site = r.g.sites.get(deployment, r.g.newSite)
	r.x.Route = &r.site.noRoute
	return nil
}

// refuseHost returns the problem for an error of resolve.
func (r *request) refuseHost(err error) *http.Response {
	switch {
	case errors.Is(err, errInvalidHost):
		return r.x.Problem(http.StatusBadRequest,
			"The Host is no host name or address with or without a port. Send nothing but these.")
	case fault.Is(err, fault.NotFound):
		return r.x.Problem(http.StatusNotFound, "No deployment is served at this host. Check the host name in the address.")
	}
	r.x.Cause = fmt.Errorf("resolve the deployment of a host: %w", err)
	return r.x.Problem(http.StatusServiceUnavailable,
		"The deployment of this host can't be looked up now. Repeat the request in a few seconds.")
}

// reserveSlot counts the request among its account's requests in flight. It returns a problem if there are too many.
func (r *request) reserveSlot() *http.Response {
	account, limit := r.site.identity.AccountID, r.g.config.MaxConcurrentRequests
	n, ok := r.g.inFlight.reserve(account, limit)
	if !ok {
		return r.tooManyRequests(limits.GatewayRequests.Refusal(n, limit, time.Second))
	}
	r.stream.setAccount(account)
	return nil
}

// releaseSlot removes the request and its stream from the counts of its account.
func (r *request) releaseSlot() {
	r.stream.close(true)
	r.g.inFlight.release(r.stream.account)
}

// tooManyRequests returns the problem for an account that has reached a limit of concurrent requests or streams.
func (r *request) tooManyRequests(refusal *fault.Fault) *http.Response {
	response := r.x.Problem(http.StatusTooManyRequests, refusal.Public)
	response.Header["Retry-After"] = []string{strconv.Itoa(int(refusal.RetryAfter.Seconds()))}
	return response
}

// respondUnmatched returns the response to a request without a route. It is 404 if no route has the path
// (contract 4.1), and 405 if routes have the path but not the method (contract 1.2). "Route" in contract 4.1
// means the path. With 404 in both cases, a client with a wrong method would look for the error in the path.
// It is not a secret that a path exists. The response to OPTIONS is 204 instead of 405. The Allow field of both
// lists the methods of the path's routes, HEAD if GET is one of them, and OPTIONS; for the path of an MCP server, the
// Allow field of a 405 lists only POST. The response to a preflight request also has the headers of the CORS policy.
func (r *request) respondUnmatched() *http.Response {
	s, x := r.site, &r.x
	allowed := s.router.Allowed(x.Path)
	if len(allowed) == 0 {
		return x.Problem(http.StatusNotFound, "The project has no route for this path. Check the path, or deploy the "+
			"project with a route for it.")
	}
	// Without CORS headers, the browser could not read the 405 and would report a CORS error instead.
	r.cors = s.corsAt(x.Path, allowed[0])
	if x.Method != http.MethodOptions && s.isMCPServer(x.Path, allowed) {
		response := x.Problem(http.StatusMethodNotAllowed,
			"An MCP server is called with POST: it holds no stream open, and has no sessions to end.")
		response.Header.Set("Allow", http.MethodPost)
		return response
	}
	if slices.Contains(allowed, http.MethodGet) && !slices.Contains(allowed, http.MethodHead) {
		allowed = append(allowed, http.MethodHead)
	}
	if !slices.Contains(allowed, http.MethodOptions) {
		allowed = append(allowed, http.MethodOptions)
	}
	slices.Sort(allowed)
	if x.Method != http.MethodOptions {
		response := x.Problem(http.StatusMethodNotAllowed, "The project has routes for this path, but none for this "+
			"method. Use one that the Allow header lists.")
		response.Header.Set("Allow", strings.Join(allowed, ", "))
		return response
	}
	response := successResponse("")
	response.Header.Set("Allow", strings.Join(allowed, ", "))
	if method := r.in.Header.Get("Access-Control-Request-Method"); method != "" && r.in.Header.Get("Origin") != "" {
		s.corsAt(x.Path, method).preflight(response.Header, r.in.Header, allowed)
		r.cors = nil // preflight has written the CORS headers, and apply is only for actual responses
	}
	return response
}

// initializationError returns the problem of a deployment that can't be served. Clients recognize it by its title
// (contract 3.1).
func (r *request) initializationError() *http.Response {
	x := &r.x
	document := problem.New(http.StatusInternalServerError,
		"The deployment was built but can't be served. Deploy the project again.")
	document.Title = problem.InitializationError
	document.Instance = x.Redacted(x.Path)
	document.Trace = problem.Trace{
		Timestamp: problem.Timestamp(x.Start), RequestID: x.RequestID,
		BuildID: x.Route.Info.BuildID,
	}
	return document.Response()
}

// successResponse returns a successful response of the gateway itself: 200 with body, which is JSON, or 204 if body
// is "".
func successResponse(body string) *http.Response {
	response := &http.Response{
		StatusCode: http.StatusNoContent, Header: http.Header{"Cache-Control": {"no-store"}}, Body: http.NoBody,
	}
	if body != "" {
		response.StatusCode = http.StatusOK
		response.ContentLength = int64(len(body))
		response.Header.Set("Content-Type", "application/json")
		response.Header.Set("Content-Length", strconv.Itoa(len(body)))
		response.Body = stringBody(body)
	}
	return response
}

// id returns the request ID from a trusted proxy if it is a UUID, and a new one otherwise.
func (r *request) id() string {
	if r.origin.Trusted {
		if id := r.in.Header.Get("X-Request-Id"); isUUID(id) {
			return id
		}
	}
	return r.g.config.IDs.UUID()
}

// isUUID reports whether a text is a UUID in the form with four
// hyphens. This is the only form of 36 bytes that the library accepts.
func isUUID(text string) bool { return len(text) == 36 && uuid.Validate(text) == nil }

// recover logs a panic, and writes a problem response if the head of a response has not been written. If the head has
// been written, or the problem response can't be written, recover panics with http.ErrAbortHandler to abort the
// connection. If the panic is http.ErrAbortHandler already, recover logs and writes nothing, and panics with it again.
func (r *request) recover() {
	cause := recover()
	if cause == nil {
		return
	}
	// A problem response to a panic does not come from the upstream.
	r.x.FromUpstream = r.x.FromUpstream && r.out.headWritten
	if cause != http.ErrAbortHandler { //nolint:errorlint // a panic's value is compared, as net/http does
		r.g.config.Log.LogAttrs(r.x.Context, slog.LevelError, "request panicked",
			r.attrs(slog.Any("panic", cause), slog.String("stack", string(debug.Stack())))...)
		if !r.out.headWritten {
			response := r.x.Problem(http.StatusInternalServerError,
				"The gateway failed on this request. Quote the request id when you report it.")
			response.Header["X-Request-Id"] = []string{r.x.RequestID}
			if r.out.send(response) == nil {
				return
			}
		}
	}
	r.out.truncated = true
	panic(http.ErrAbortHandler)
}

// attrs returns the attributes of a log line: those in more, and then those that describe the request.
func (r *request) attrs(more ...slog.Attr) []slog.Attr {
	more = append(more, slog.String("requestId", r.x.RequestID), slog.String("method", telemetry.Text(r.x.Method)))
	if r.x.Route != nil {
		info := &r.x.Route.Info
		more = append(more, slog.String("deployment", info.Deployment), slog.String("operation", info.OperationID))
	}
	return more
}
