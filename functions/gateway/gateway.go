// Package gateway serves deployments: it makes the data plane (package gateway in
// shared) of an installation's parts. In a Lambda it answers API Gateway's
// events, in the local process and in a container it is the plain http.Handler
// that New gives.
//
// What is here is wiring alone. Read gateway.go, New first; edge.go and stream.go
// are the two ways behind API Gateway: whole answers, and answers as they come; process.go is the gateway as a
// process of its own (package container).
package gateway

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"sync"
	"time"

	"github.com/gatewright/gatewright/shared/allowance"
	"github.com/gatewright/gatewright/shared/analytics/counts"
	"github.com/gatewright/gatewright/shared/api"
	"github.com/gatewright/gatewright/shared/artifacts"
	"github.com/gatewright/gatewright/shared/certificates"
	"github.com/gatewright/gatewright/shared/config"
	"github.com/gatewright/gatewright/shared/customdomains"
	"github.com/gatewright/gatewright/shared/environment"
	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/gateway"
	"github.com/gatewright/gatewright/shared/gateway/policy"
	"github.com/gatewright/gatewright/shared/gateway/upstream"
	"github.com/gatewright/gatewright/shared/handshake"
	"github.com/gatewright/gatewright/shared/installation"
	"github.com/gatewright/gatewright/shared/keys"
	"github.com/gatewright/gatewright/shared/limits"
	"github.com/gatewright/gatewright/shared/serving"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/trigger"
)

// Function declares what calls this function.
var Function = trigger.Function{
	Name: "gateway",
	Does: "Serves what is deployed.",
	On:   []trigger.Event{{HTTP: true}},
	Uses: []api.Use{
		api.GetItem, api.BatchGetItem, api.Query, api.PutItem, api.UpdateItem, api.RootKey, api.ReadArtifact,
	},
	Reach:   Reach(),
	Timeout: 29 * time.Second,
}

// Reach is what a gateway asks of the table. It changes nothing of what accounts have made: it counts.
func Reach() store.Reach {
	return store.Reach{
		Reads: []store.Space{
			"account-slots", "allowance", "allowance-journal", "analytics-new", "bucket-id", "buckets", "client-ca", "client-ca-set",
			"custom-domain-challenge", "custom-domain-host", "custom-domain-index", "custom-domain-versions", "deployment", "key-hash",
			"metering-bucket", "metering-customer", "metering-plan", "metering-subscription", "root-key", "tunnel-service",
		},
		Writes: []store.Space{"account-slots", "allowance", "allowance-journal", "allowance-receipt", "analytics-new", "analytics-writer"},
	}
}

// held are the parts of an installation with the table held to the gateway's reach, as its role is.
func held(p installation.Parts) installation.Parts {
	p.Table = p.Table.Within(Reach())
	return p
}

// cachedKeys is how many keys' answers are kept in memory, good and bad
// ones each: some 200 bytes an answer.
const cachedKeys = 65_536

// Service is a gateway and what it holds of others.
type Service struct {
	http.Handler
	*Hosts
	allowances *allowance.Pool
	quotas     *allowance.Quotas
	counted    *counts.Collector
	// upgraded is the data plane itself, which knows connections of other protocols.
	upgraded *gateway.Gateway
}

// Hosts knows the names that deployments are served at, and whose clients they have,
// for a listener's handshakes.
type Hosts struct {
	deployments *serving.Resolver
	clients     *certificates.Trust
	// Domains are the custom domains, with their certificates.
	Domains *customdomains.Directory
}

var (
	_ handshake.Clients = (*Hosts)(nil)
	_ policy.Clients    = (*certificates.Trust)(nil)
)

// NewHosts makes the Hosts of an installation.
func NewHosts(p installation.Parts) *Hosts {
	p = held(p)
	domains := customdomains.NewDirectory(p)
	return &Hosts{
		Domains: domains,
		deployments: serving.New(serving.Options{
			Domains: domains,
			Table:   p.Table, Artifacts: artifacts.Open(p), Domain: p.Config.DeploymentDomain(), Now: p.Now, Log: p.Log,
		}),
		clients: certificates.NewTrust(p.Table, p.Now),
	}
}

// Owns reports, without a read, whether a name is one that a deployment has.
func (h *Hosts) Owns(name string) bool { return h.deployments.Owns(name) }

// Served reports whether a name has a deployment that was built.
func (h *Hosts) Served(ctx context.Context, name string) (bool, error) {
	switch _, err := h.deployments.Resolve(ctx, name); {
	case fault.Is(err, fault.NotFound):
		return false, nil
	case err != nil:
		return false, err
	}
	return true, nil
}

// ClientCAs implements handshake.Clients.
func (h *Hosts) ClientCAs(ctx context.Context, name string) (*x509.CertPool, error) {
	served, err := h.deployments.Resolve(ctx, name)
	switch {
	case fault.Is(err, fault.NotFound):
		return nil, nil // it has none
	case err != nil:
		return nil, err
	}
	return h.clients.Hints(ctx, served.Artifact.Identity.AccountID)
}

// Options are what a gateway takes from the process that it is a part of.
type Options struct {
	// Refused are addresses that no project may reach even where private ones are allowed: our
	// own. Those of emulators, and what the parts have as Unasked, are among them in any case.
	Refused []netip.AddrPort
	// Services carries requests to services behind tunnels, nil for an installation without a
	// relay.
	Services upstream.Services
	// Function says that the process is one of a function's, which has one request at a time. An installation whose function
	// streams may have others beside it, by the same settings.
	Function bool
}

// New makes the gateway of an installation. Emulators that it uses in place of
// AWS ask nobody for a key, so that no project may reach around the gateway to
// them.
func New(p installation.Parts, o Options) (*Service, error) {
	hosts := NewHosts(p)
	p = held(p)
	var secret [32]byte
	if _, err := io.ReadFull(p.Random, secret[:]); err != nil {
		return nil, fmt.Errorf("make a secret for the key cache: %w", err)
	}
	counting := allowance.Options{Table: p.Table, Now: p.Now, Random: p.Random, Log: p.Log}
	pool, quotas := allowance.New(counting), allowance.NewQuotas(counting)
	subscriptions, counters := Counting(p, quotas)
	streams, after := bound(p, o.Function)
	counted := counts.New(counts.Options{Table: p.Table, Now: p.Now, Random: p.Random, Log: p.Log})
	handler := gateway.New(gateway.Config{
		Deployments:   hosts.deployments,
		Clients:       hosts.clients,
		Keys:          policy.NewKeyCache(verifier{keys.OpenVerifier(p)}, cachedKeys, secret, p.Now),
		Allowances:    Limiter(pool, p.Now),
		Subscriptions: subscriptions,
		Quotas:        counters,
		Upstream: upstream.New(upstream.Options{
			Guard: upstream.Guard{
				AllowPrivate: p.Config.PrivateUpstreams, Refuse: o.Refused, Endpoints: upstream.NewEndpoints(append(Emulators(p.Config), p.Unasked...)...),
			},
			Services: o.Services, Standard: p.Config.StandardHTTP,
		}),
		IDs: p.IDs, Now: p.Now, Log: p.Log,
		Calls:      counted,
		Operations: counted,
		Access:     p.Log, Telemetry: p.Telemetry,
		Fields:         upstream.Filter{Underscores: p.Config.HeaderUnderscores},
		TrustedProxies: p.Config.TrustedProxies,
		RequestsAtOnce: p.Config.Limits.Of(limits.GatewayRequests),
		Streams:        streams, StreamsAfter: after,
		MaxHeaderBytes: p.Config.HeaderBytes, MaxHeaderFields: p.Config.HeaderFields,
	})
	return &Service{Handler: hosts.Domains.Challenges(handler), Hosts: hosts, allowances: pool, quotas: quotas, counted: counted, upgraded: handler}, nil
}

var _ gateway.Calls = (*counts.Collector)(nil)

// Run gives back, as it goes, what the gateway has leased and does not spend, and
// writes what it has counted, until ctx ends, and then all of it. It is for
// processes that live long; a Lambda sweeps as it leases, and calls Settle.
func (s *Service) Run(ctx context.Context) {
	var all sync.WaitGroup
	all.Go(func() { s.allowances.Run(ctx, sweepInterval) })
	all.Go(func() { s.quotas.Run(ctx, sweepInterval) })
	all.Go(func() { s.counted.Run(ctx) })
	all.Wait()
}

// Held returns how many units of a quota the gateway has leased and not spent.
func (s *Service) Held(a allowance.Allowance) int64 { return s.quotas.Held(a) }

// Drain gives back all that is leased, and writes all that was counted.
func (s *Service) Drain(ctx context.Context) error {
	return errors.Join(s.allowances.Drain(ctx), s.quotas.Drain(ctx), s.counted.Drain(ctx))
}

// Settle writes what was counted if it is time to: at the end of an invocation, for a
// Lambda, which nothing may rely on to go on.
func (s *Service) Settle(ctx context.Context) { s.counted.FlushWhenDue(ctx) }

const sweepInterval = time.Second

// verifier lets the gateway ask package keys, which knows no gateway.
type verifier struct{ keys *keys.Verifier }

var _ policy.Keys = verifier{}

// Verify implements policy.Keys.
func (v verifier) Verify(ctx context.Context, ref policy.BucketRef, text string) (policy.Identity, error) {
	kind, ok := environment.Parse(ref.Environment)
	if !ok {
		return policy.Identity{}, errors.New("verify a key: the artifact has an environment of no known kind")
	}
	at := keys.BucketRef{AccountID: ref.AccountID, Name: ref.Name, ID: ref.ID, Project: ref.Project, Kind: kind}
	if at.Name == "" && at.ID == "" { // built by an earlier release
		at.Name = keys.DefaultBucket(ref.Project, kind)
	}
	found, err := v.keys.Verify(ctx, at, text)
	if err != nil {
		return policy.Identity{}, err
	}
	return policy.Identity{Sub: found.Sub, Data: found.Data, ExpiresOn: found.ExpiresOn}, nil
}

// Emulators returns the addresses, host:port, of those that a configuration names. S3PublicEndpoint is not
// among them: clients are sent there.
func Emulators(c config.Config) []string {
	var out []string
	for _, endpoint := range []string{c.DynamoDBEndpoint, c.S3Endpoint, c.BedrockEndpoint} {
		u, err := url.Parse(endpoint)
		if err != nil || u.Host == "" {
			continue
		}
		out = append(out, net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), map[string]string{"http": "80", "https": "443"}[u.Scheme])))
	}
	return out
}

// RuntimeAPI returns the address of the Runtime API that a Lambda's process asks
// for its events: whoever reached it through a route could take other callers'
// requests. getenv is os.Getenv outside tests; nothing is given outside Lambda.
func RuntimeAPI(getenv func(string) string) []netip.AddrPort {
	at, err := netip.ParseAddrPort(getenv("AWS_LAMBDA_RUNTIME_API"))
	if err != nil {
		return nil
	}
	return []netip.AddrPort{at}
}
