// Package gateway is the data plane: one http.Handler that serves the projects
// that are deployed through it (design, section 7).
//
// A request's way: host → deployment → site (an artifact made ready, kept by
// digest) → route → CORS → inbound policies → handler → outbound policies →
// response, streaming in both directions. The stations are packages of their
// own: router, policy, handler, upstream, pipeline, and expression for the ${…}
// of addresses.
//
// It knows no store and no AWS: what it needs of them it declares as interfaces
// (Deployments here, policy.Keys and policy.Allowances) and is given. It also
// has no listener, so that it is the same in a Lambda, in the local process and
// in a container.
//
// Read this file first, then site.go (how an artifact becomes routes),
// respond.go (how a response is written), tenants.go and streams.go (how much of an account is under way). watch.go is
// what is told of a request afterwards. Its rules are contract 1.2 (problems),
// 3.1 (initialisation), 3.4 (key checks) and 4.1 to 4.5.
package gateway

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/gatewright/gatewright/shared/environment"
	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/forwarded"
	"github.com/gatewright/gatewright/shared/gateway/handler"
	"github.com/gatewright/gatewright/shared/gateway/mcp"
	"github.com/gatewright/gatewright/shared/gateway/pipeline"
	"github.com/gatewright/gatewright/shared/gateway/policy"
	"github.com/gatewright/gatewright/shared/gateway/problem"
	"github.com/gatewright/gatewright/shared/gateway/router"
	"github.com/gatewright/gatewright/shared/gateway/upstream"
	"github.com/gatewright/gatewright/shared/graphql"
	"github.com/gatewright/gatewright/shared/limits"
	"github.com/gatewright/gatewright/shared/listen/framing"
	"github.com/gatewright/gatewright/shared/project"
	"github.com/gatewright/gatewright/shared/telemetry"
	"github.com/gatewright/gatewright/shared/tunnel"
)

// IDs makes identifiers that nobody can guess: package ids' Source.
type IDs interface {
	// UUID makes a random UUID.
	UUID() string
	// Hex makes n hexadecimal digits in lower case.
	Hex(n int) string
}

// Config is what a Gateway is made of. All that stands below Log may be left out.
type Config struct {
	Deployments Deployments
	Keys        *policy.KeyCache
	Allowances  policy.Allowances
	// Clients verifies clients' certificates, nil to trust none.
	Clients policy.Clients
	// Subscriptions and Quotas are what quota-inbound counts by, nil for a gateway that
	// cannot.
	Subscriptions policy.Subscriptions
	Quotas        policy.Quotas
	// Operations counts GraphQL operations, nil for nobody.
	Operations policy.Operations
	Upstream   *upstream.Client
	IDs        IDs
	Now        func() time.Time
	Log        *slog.Logger

	// TrustedProxies are the load balancers whose forwarding headers and request
	// ids are believed.
	TrustedProxies []netip.Prefix
	// MaxBodyBytes bounds a request's body, 0 for no bound.
	MaxBodyBytes int64
	// MaxHeaderBytes and MaxHeaderFields bound the fields of a request, names and
	// values together, 0 for 64 KiB and 200. A listener has bounds of its own;
	// these hold behind any, HTTP/2 and Lambda included.
	MaxHeaderBytes, MaxHeaderFields int
	// RequestsAtOnce is how many requests the deployments of one account may have under way
	// here, 0 for no bound (limits.GatewayRequests).
	RequestsAtOnce int64
	// Streams counts what of an account stays under way, nil for no bound; beside WebSockets and the like that
	// is each request that is not over after StreamsAfter, 0 for none.
	Streams      Streams
	StreamsAfter time.Duration
	// HalfClosedTimeout is for how long nothing may pass on a connection of another protocol of which one side
	// has ended, 0 for a minute.
	HalfClosedTimeout time.Duration
	// Fields decides which of a request's fields go upstream.
	Fields upstream.Filter
	// Calls counts each request of a deployment, nil for a gateway that does not.
	Calls Calls
	// Access gets a line for each request, nil for none.
	Access *slog.Logger
	// Telemetry is what is told of requests beside their lines.
	Telemetry telemetry.Options
}

// Gateway serves deployments. It is safe for concurrent use.
type Gateway struct {
	config  Config
	sites   sites
	buffers buffers
	// upgrades are connections of other protocols.
	upgrades upgrades
	// documents are those of GraphQL that were seen, of all sites.
	documents *graphql.Cache
	// tenants have requests under way.
	tenants tenants
	// warm is set by the first request.
	warm atomic.Bool
}

var _ http.Handler = (*Gateway)(nil)

// New makes a Gateway.
func New(c Config) *Gateway {
	if c.MaxHeaderBytes == 0 {
		c.MaxHeaderBytes = defaultHeaderBytes
	}
	if c.MaxHeaderFields == 0 {
		c.MaxHeaderFields = defaultHeaderFields
	}
	c.HalfClosedTimeout = cmp.Or(c.HalfClosedTimeout, defaultHalfClosedTimeout)
	return &Gateway{config: c, sites: sites{byDigest: make(map[string]*cachedSite), now: c.Now}, documents: graphql.NewCache()}
}

// The gateway's own routes: they exist at every host.
const (
	pingPath  = router.Reserved + "ping"
	buildPath = router.Reserved + "build"
)

// ServeHTTP answers one request. Like httputil.ReverseProxy it panics with
// http.ErrAbortHandler when a response breaks off midway: that is the only way
// to tell an HTTP/1 client.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	// One piece of memory for what every request needs.
	its := &struct {
		out writer
		x   pipeline.Exchange
		own singles
	}{
		out: writer{
			ResponseWriter: w, buffers: &g.buffers, upgrades: &g.upgrades, old: !r.ProtoAtLeast(1, 1), halfClosed: g.config.HalfClosedTimeout,
		},
		x: pipeline.Exchange{
			Context: r.Context(), Method: r.Method, Host: r.Host, Query: r.URL.RawQuery, Body: http.NoBody,
			Start: g.config.Now(),
		},
	}
	out, x, own := &its.out, &its.x, &its.own
	if r.TLS != nil {
		x.ClientChain = r.TLS.PeerCertificates
	}
	badPath := readPath(r, x)
	from := origin{forwarded.Of(r, g.config.TrustedProxies)}
	x.Client, x.Scheme = from.Client, from.Scheme
	x.RequestID = g.requestID(r, from)
	watch := g.watch(r, x)
	defer watch.end(out, x) // after recover has answered
	defer func() { g.count(x, out.status) }()
	defer g.recover(out, x)
	defer g.leave(out)
	if g.config.StreamsAfter > 0 {
		defer g.bound(out, x)() //nolint:contextcheck // x has the request's
	}
	response, c := g.answer(out, r, x, own, from, watch, badPath)
	response = g.settle(out, x, response) //nolint:bodyclose // send closes it
	unread := out.body.unread()
	g.finish(out, r, x, own, response, c)
	err := out.send(response)
	if err != nil && !out.written && x.Context.Err() == nil {
		x.Cause = err
		refusal := x.Problem(http.StatusBadGateway, "The upstream's answer broke off before its end. Try again later; if this goes on, its operator has to be told.") //nolint:bodyclose // send closes it
		g.finish(out, r, x, own, refusal, c)
		err = out.send(refusal)
	}
	if unread {
		out.stopReading()
	}
	if err != nil {
		switch {
		case x.Context.Err() == nil:
			g.config.Log.LogAttrs(r.Context(), slog.LevelWarn, "response broke off", attrs(x, slog.Any("error", err))...)
		case !out.written:
			out.status = pipeline.StatusClientGone
		}
		panic(http.ErrAbortHandler)
	}
}

// finish adds what each response has, and tells why it is a failure if it is.
func (g *Gateway) finish(out *writer, r *http.Request, x *pipeline.Exchange, own *singles, response *http.Response, c *cors) {
	if x.Cause != nil && x.Context.Err() == nil {
		g.config.Log.LogAttrs(r.Context(), slog.LevelWarn, "request failed",
			attrs(x, slog.Int("status", response.StatusCode), slog.Any("error", x.Cause))...)
	}
	if out.body.unread() {
		response.Header["Connection"] = []string{"close"}
	}
	response.Header["X-Request-Id"] = own.of(x.RequestID)
	c.apply(response.Header, r.Header.Get("Origin"))
}

// answer returns the response and the CORS policy that it is written under.
func (g *Gateway) answer(out *writer, r *http.Request, x *pipeline.Exchange, own *singles, from origin, watch watched, badPath error) (*http.Response, *cors) {
	if errors.Is(badPath, errLongPath) {
		return refusePath(x, badPath), nil
	}
	if badPath != nil {
		g.place(r, x)
		return refusePath(x, badPath), nil
	}
	if response := g.tooLarge(r.Header, x); response != nil {
		return response, nil
	}
	if x.Path == pingPath {
		return document(`{"status":"ok"}`), nil
	}
	// A listener refuses such a host with the head; a platform before a function may
	// let it pass.
	if !framing.ValidHost(r.Host) {
		return x.Problem(http.StatusBadRequest, "The Host is no host name or address with or without a port. Send nothing but these."), nil
	}
	deployment, err := g.config.Deployments.Resolve(x.Context, framing.HostName(r.Host))
	switch {
	case fault.Is(err, fault.NotFound):
		return x.Problem(http.StatusNotFound, "No deployment is served at this host. Check the host name in the address."), nil
	case err != nil:
		x.Cause = fmt.Errorf("resolve the deployment of a host: %w", err)
		return x.Problem(http.StatusServiceUnavailable, "The deployment of this host can't be looked up now. Repeat the request in a few seconds."), nil
	}
	s := g.sites.get(deployment, g.newSite)
	// Problems tell the build from here on, matched or not.
	x.Route = &s.none
	n, ok := g.tenants.enter(s.identity.AccountID, g.config.RequestsAtOnce)
	if !ok {
		return busy(x, limits.GatewayRequests.Refusal(n, g.config.RequestsAtOnce, time.Second)), nil
	}
	out.enter(s.identity.AccountID)
	if x.Path == buildPath {
		return document(`{"buildId":` + strconv.Quote(s.identity.BuildID) + `,"deployment":` + strconv.Quote(s.identity.Deployment) + `}`), nil
	}
	if s.newer {
		return x.Problem(http.StatusServiceUnavailable, "A newer release of the gateway has built this deployment, and is being introduced. Repeat the request in a few seconds."), nil
	}
	if len(s.problems) > 0 {
		return initializationError(x), nil
	}
	if router.IsReserved(x.Path) {
		return x.Problem(http.StatusNotFound, "The gateway has no such route of its own. Paths below /__gatewright/ are no project's."), nil
	}
	route := s.find(x)
	if route == nil {
		return s.unmatched(r, x)
	}
	x.Route = &route.Route
	if response := s.settlePath(r, x); response != nil {
		return response, route.cors
	}
	if response := g.receive(out, r, x, own, from, watch); response != nil {
		return response, route.cors
	}
	g.announced(out, x, route.Handler)
	return route.Run(x), route.cors
}

// place has a request that is refused before its host counts be one of the deployment there, if there is one.
func (g *Gateway) place(r *http.Request, x *pipeline.Exchange) {
	if !framing.ValidHost(r.Host) {
		return
	}
	if deployment, err := g.config.Deployments.Resolve(x.Context, framing.HostName(r.Host)); err == nil {
		x.Route = &g.sites.get(deployment, g.newSite).none
	}
}

// find returns the route of a request and fills its parameters, nil for none.
func (s *site) find(x *pipeline.Exchange) *siteRoute {
	i, ok := s.router.Find(x.Method, x.Path, &x.Params)
	if !ok {
		return nil
	}
	return &s.routes[i]
}

// unmatched answers a request without a route: 404 where the path has none
// (contract 4.1), 405 where only the method has none (contract 1.2), and OPTIONS
// from the routes that are there. Both sentences of the contract hold if "route"
// in 4.1 is read as the path; with 404 for both, a client that mistypes a method
// is sent looking for the path. That a path exists is no secret.
func (s *site) unmatched(r *http.Request, x *pipeline.Exchange) (*http.Response, *cors) {
	allowed := s.router.Allowed(x.Path)
	if len(allowed) == 0 {
		return x.Problem(http.StatusNotFound, "The project has no route for this path. Check the path, or deploy the project with a route for it."), nil
	}
	// A browser that could not read a 405 would report a CORS fault instead.
	c := s.corsAt(x.Path, allowed[0])
	if x.Method != http.MethodOptions && s.isServer(x.Path, allowed) {
		response := x.Problem(http.StatusMethodNotAllowed, "An MCP server is called with POST: it holds no stream open, and has no sessions to end.")
		response.Header.Set("Allow", http.MethodPost)
		return response, c
	}
	if slices.Contains(allowed, http.MethodGet) && !slices.Contains(allowed, http.MethodHead) {
		allowed = append(allowed, http.MethodHead)
	}
	if !slices.Contains(allowed, http.MethodOptions) {
		allowed = append(allowed, http.MethodOptions)
	}
	slices.Sort(allowed)
	if x.Method != http.MethodOptions {
		response := x.Problem(http.StatusMethodNotAllowed, "The project has routes for this path, but none for this method. Use one that the Allow header lists.")
		response.Header.Set("Allow", strings.Join(allowed, ", "))
		return response, c
	}
	response := document("")
	response.Header.Set("Allow", strings.Join(allowed, ", "))
	if method := r.Header.Get("Access-Control-Request-Method"); method != "" && r.Header.Get("Origin") != "" {
		s.corsAt(x.Path, method).preflight(response.Header, r.Header, allowed)
		return response, nil
	}
	return response, c
}

// isServer reports whether all that there is at a path is an MCP server: its 405 says what the transport of the
// protocol wants to be told (contract 4.3), preflights or not.
func (s *site) isServer(path string, allowed []string) bool {
	if len(allowed) != 1 || allowed[0] != http.MethodPost {
		return false
	}
	_, ok := s.find(&pipeline.Exchange{Method: http.MethodPost, Path: path}).Handler.(*mcp.Server)
	return ok
}

// corsAt returns the CORS policy of the route at a path, nil for none.
func (s *site) corsAt(path, method string) *cors {
	route := s.find(&pipeline.Exchange{Method: method, Path: path})
	if route == nil {
		return nil
	}
	return route.cors
}

// requestID is the id that a trusted proxy gave, if it is a UUID, or a new one.
func (g *Gateway) requestID(r *http.Request, from origin) string {
	if from.Trusted {
		if id := r.Header.Get("X-Request-Id"); isUUID(id) {
			return id
		}
	}
	return g.config.IDs.UUID()
}

// isUUID reports whether a text is a UUID in the form with four hyphens, the only one of 36 bytes that the library reads.
func isUUID(text string) bool { return len(text) == 36 && uuid.Validate(text) == nil }

func (g *Gateway) newSite(a *project.Artifact) *site {
	s := newSite(a, installation{
		handler: handler.Setup{Upstream: g.config.Upstream.Account(a.Identity.AccountID).Calling(callerOf(a.Identity))},
		policy: policy.Setup{
			Keys: g.config.Keys, Allowances: g.config.Allowances, Clients: g.config.Clients,
			Subscriptions: g.config.Subscriptions, Quotas: g.config.Quotas,
			Documents: g.documents, Operations: g.config.Operations,
			Log: g.config.Log, Metrics: g.config.Telemetry.Metrics, Now: g.config.Now,
		},
		log: g.config.Log, count: g.count,
	})
	for _, p := range s.problems {
		g.config.Log.Error("deployment can't be served",
			slog.String("deployment", a.Identity.Deployment), slog.String("buildId", a.Identity.BuildID),
			slog.String("file", p.File), slog.String("pointer", p.Path), slog.String("problem", p.Message))
	}
	return s
}

// callerOf is who a deployment's routes ask services as, in the words of tunnels (contract 3.10).
// An environment of no known kind may ask none.
func callerOf(i project.Identity) tunnel.Caller {
	kind, known := environment.Parse(i.Environment)
	if !known {
		return tunnel.Caller{}
	}
	return tunnel.Caller{Project: i.Project, Environment: kind.Slug()}
}

// initializationError is known to clients by its title (contract 3.1).
func initializationError(x *pipeline.Exchange) *http.Response {
	document := problem.New(http.StatusInternalServerError, "The deployment was built but can't be served. Deploy the project again.")
	document.Title = problem.InitializationError
	document.Instance = x.Redacted(x.Path)
	document.Trace = problem.Trace{Timestamp: problem.Timestamp(x.Start), RequestID: x.RequestID, BuildID: x.Route.Info.BuildID}
	return document.Response()
}

// document answers a small JSON document of the gateway's own, 204 for "".
func document(body string) *http.Response {
	response := &http.Response{
		StatusCode: http.StatusNoContent, Header: http.Header{"Cache-Control": {"no-store"}}, Body: http.NoBody,
	}
	if body != "" {
		response.StatusCode = http.StatusOK
		response.ContentLength = int64(len(body))
		response.Header.Set("Content-Type", "application/json")
		response.Header.Set("Content-Length", strconv.Itoa(len(body)))
		response.Body = readString(body)
	}
	return response
}

// recover turns a panic into a problem for the request, if nothing was written
// yet, and lets the process live.
func (g *Gateway) recover(out *writer, x *pipeline.Exchange) {
	cause := recover()
	if cause == nil {
		return
	}
	x.Theirs = x.Theirs && out.written
	if cause != http.ErrAbortHandler { //nolint:errorlint // a panic's value is compared, as net/http does
		g.config.Log.LogAttrs(x.Context, slog.LevelError, "request panicked",
			attrs(x, slog.Any("panic", cause), slog.String("stack", string(debug.Stack())))...)
		if !out.written {
			response := x.Problem(http.StatusInternalServerError, "The gateway failed on this request. Quote the request id when you report it.")
			response.Header["X-Request-Id"] = []string{x.RequestID}
			if out.send(response) == nil {
				return
			}
		}
	}
	out.cut = true
	panic(http.ErrAbortHandler)
}

// attrs are what a log line tells of an exchange.
func attrs(x *pipeline.Exchange, more ...slog.Attr) []slog.Attr {
	more = append(more, slog.String("requestId", x.RequestID), slog.String("method", telemetry.Text(x.Method)))
	if x.Route != nil {
		more = append(more, slog.String("deployment", x.Route.Info.Deployment), slog.String("operation", x.Route.Info.OperationID))
	}
	return more
}
