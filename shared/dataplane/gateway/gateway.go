// Package gateway is the data plane: one http.Handler that serves the deployed projects (design, section 7).
//
// A request passes these stages: host → deployment → site (a prepared artifact, cached by digest) → route → inbound
// policies → handler → outbound policies → CORS headers → response. Bodies stream in both directions. Several parts
// have their own package: router, policy, handler, upstream, pipeline, and expression for the ${…} in addresses.
//
// The package does not depend on a store or on AWS. It declares the interfaces that it needs, such
// as Deployments, policy.Keys and policy.Allowances, and its caller supplies the implementations.
// It has no listener, so the same code runs in a Lambda, in the local process and in a container.
//
// Read this file first, then request.go (a request from its arrival to the end of its response), site.go (how
// an artifact becomes routes), respond.go (how a response is written), tenants.go and streams.go (how many
// requests and streams an account has in flight), and telemetry.go (how ended requests are counted, logged and
// traced). The rules are in contract 1.2 (problems), 3.1 (initialization), 3.4 (key checks) and 4.1 to 4.5.
package gateway

import (
	"cmp"
	"log/slog"
	"net/http"
	"net/netip"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/gatewright/gatewright/shared/base/telemetry"
	"github.com/gatewright/gatewright/shared/dataplane/gateway/handler"
	"github.com/gatewright/gatewright/shared/dataplane/gateway/jwt"
	"github.com/gatewright/gatewright/shared/dataplane/gateway/policy"
	"github.com/gatewright/gatewright/shared/dataplane/gateway/upstream"
	"github.com/gatewright/gatewright/shared/format/environment"
	"github.com/gatewright/gatewright/shared/format/graphql"
	"github.com/gatewright/gatewright/shared/format/project"
	"github.com/gatewright/gatewright/shared/format/tunnel"
)

// IDs creates identifiers that are hard to guess. Source of package ids implements it.
type IDs interface {
	// UUID returns a random UUID.
	UUID() string
	// Hex returns n random hexadecimal digits in lower case.
	Hex(n int) string
}

// Config has the dependencies and settings of a Gateway. All fields after Log are optional. A field before it is
// required, unless its comment allows nil.
type Config struct {
	Deployments Deployments
	Keys        *policy.KeyCache
	Allowances  policy.Allowances
	// ClientVerifier verifies client certificates; nil trusts no certificate.
	ClientVerifier policy.ClientVerifier
	// Subscriptions and Quotas are for quota-inbound, nil for a gateway that does not support quotas.
	Subscriptions policy.SubscriptionReader
	Quotas        policy.Quotas
	// Operations counts GraphQL operations; nil counts nothing.
	Operations policy.Operations
	Upstream   *upstream.Client
	IDs        IDs
	Now        func() time.Time
	Log        *slog.Logger

	// TrustedProxies are the load balancers whose forwarding headers and request IDs the gateway trusts.
	TrustedProxies []netip.Prefix
	// MaxBodyBytes limits the size of a request's body, 0 for no limit.
	MaxBodyBytes int64
	// MaxHeaderBytes limits the total size of the names and values of a request's header
	// fields, and MaxHeaderFields their number. 0 means 64 KiB and 200. A listener has
	// its own limits; these limits apply with any listener, including HTTP/2 and Lambda.
	MaxHeaderBytes, MaxHeaderFields int
	// MaxConcurrentRequests is the maximum number of requests that the deployments of one
	// account can have in flight in this process, 0 for no limit (limits.GatewayRequests).
	MaxConcurrentRequests int64
	// Streams counts the streams of each account, nil for no limit. A request that takes longer than StreamThreshold
	// counts as a stream, like a WebSocket. If StreamThreshold is 0, requests do not count by their duration.
	Streams         Streams
	StreamThreshold time.Duration
	// HalfClosedTimeout is for a connection that has switched to another protocol, after one side has finished
	// sending. The gateway closes the connection when no byte has passed for this time; it can take up to twice
	// this time. 0 means a minute.
	HalfClosedTimeout time.Duration
	// HeaderFilter decides which header and trailer fields of a request are sent upstream.
	HeaderFilter upstream.Filter
	// Calls counts the requests of deployments, except those for the gateway's own routes; nil counts nothing.
	Calls Calls
	// Access logs a line for each request; nil logs nothing.
	Access *slog.Logger
	// Telemetry receives the metrics and traces of requests.
	Telemetry telemetry.Options
}

// Gateway serves deployments. It is safe for concurrent use.
type Gateway struct {
	config  Config
	sites   sites
	buffers buffers
	// upgrades has the connections that switched to another protocol.
	upgrades upgrades
	// documents caches parsed GraphQL documents for all sites.
	documents *graphql.Cache
	// tokens caches verified tokens and the keys of their issuers for all sites.
	tokens *jwt.Cache
	// responseMemory bounds the memory for validated responses of all sites.
	responseMemory *semaphore.Weighted
	// checkSlots bounds the bodies of all sites that are validated at the same time.
	checkSlots *semaphore.Weighted
	// memory has what policies of all sites remember about callers.
	memory *policy.Memory
	// inFlight counts the requests in flight of each account.
	inFlight accountCounter
	// warm is set by the first request that is logged, measured or traced. That request is reported as a cold start.
	warm atomic.Bool
}

var _ http.Handler = (*Gateway)(nil)

// validatedResponseBytes is the maximum memory for the bodies of validated responses. A body that does not fit is not
// checked.
const validatedResponseBytes = 128 << 20

// New returns a Gateway.
func New(c Config) *Gateway {
	if c.MaxHeaderBytes == 0 {
		c.MaxHeaderBytes = defaultHeaderBytes
	}
	if c.MaxHeaderFields == 0 {
		c.MaxHeaderFields = defaultHeaderFields
	}
	c.HalfClosedTimeout = cmp.Or(c.HalfClosedTimeout, defaultHalfClosedTimeout)
	return &Gateway{
		config: c, sites: sites{byDigest: make(map[string]*cachedSite), now: c.Now},
		documents: graphql.NewCache(), responseMemory: semaphore.NewWeighted(validatedResponseBytes),
		checkSlots: policy.NewCheckSlots(), memory: policy.NewMemory(c.Now), tokens: jwt.NewCache(),
	}
}

// newSite prepares an artifact with the gateway's dependencies, and logs the reasons why it can't be served, if any.
func (g *Gateway) newSite(a *project.Artifact) *site {
	s := newSite(a, dependencies{
		handler: handler.Setup{Upstream: g.config.Upstream.Account(a.Identity.AccountID).WithCaller(callerOf(a.Identity))},
		policy: policy.Setup{
			Keys: g.config.Keys, Allowances: g.config.Allowances, ClientVerifier: g.config.ClientVerifier,
			Subscriptions: g.config.Subscriptions, Quotas: g.config.Quotas,
			Documents: g.documents, Operations: g.config.Operations, ResponseMemory: g.responseMemory,
			Tokens: g.tokens, Upstream: g.config.Upstream.Account(a.Identity.AccountID),
			CheckSlots: g.checkSlots, Memory: g.memory, Log: g.config.Log, Metrics: g.config.Telemetry.Metrics,
			Now: g.config.Now,
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

// callerOf returns the identity with which a deployment's routes call services through tunnels
// (contract 3.10). A deployment in an environment of an unknown kind cannot call services.
func callerOf(i project.Identity) tunnel.Caller {
	kind, known := environment.Parse(i.Environment)
	if !known {
		return tunnel.Caller{}
	}
	return tunnel.Caller{Project: i.Project, Environment: kind.Slug()}
}
