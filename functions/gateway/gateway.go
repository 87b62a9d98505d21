// Package gateway serves deployments: it creates the data plane (package gateway in shared) from an installation's
// parts. In a Lambda, it handles API Gateway's events. The local process and the container serve HTTP with the Service
// that New returns.
//
// This package only connects parts and has no logic of the data plane. Read gateway.go first, beginning with New. For
// API Gateway, edge.go returns whole responses, and stream.go streams responses. process.go runs the gateway as a
// separate process (folder container).
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

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/base/handshake"
	"github.com/gatewright/gatewright/shared/core/allowance"
	"github.com/gatewright/gatewright/shared/core/artifacts"
	"github.com/gatewright/gatewright/shared/core/config"
	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/core/limits"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/dataplane/gateway"
	"github.com/gatewright/gatewright/shared/dataplane/gateway/policy"
	"github.com/gatewright/gatewright/shared/dataplane/gateway/upstream"
	"github.com/gatewright/gatewright/shared/dataplane/serving"
	"github.com/gatewright/gatewright/shared/format/environment"
	"github.com/gatewright/gatewright/shared/management/api"
	"github.com/gatewright/gatewright/shared/resource/analytics/counts"
	"github.com/gatewright/gatewright/shared/resource/clientcas"
	"github.com/gatewright/gatewright/shared/resource/customdomains"
	"github.com/gatewright/gatewright/shared/resource/keys"
	"github.com/gatewright/gatewright/shared/runtime/trigger"
)

// Function declares the events that call this function.
var Function = trigger.Function{
	Name:        "gateway",
	Description: "Serves what is deployed.",
	Events:      []trigger.Event{{HTTP: true}},
	Uses: []api.Use{
		api.GetItem, api.BatchGetItem, api.Query, api.PutItem, api.UpdateItem, api.RootKey, api.ReadArtifact,
	},
	TableAccess: TableAccess(),
	Timeout:     29 * time.Second,
}

// TableAccess returns the key prefixes that a gateway reads and writes. A gateway writes the counts of analytics, slots
// of streams, and allowances with their leases and receipts. It never writes the resources that accounts have created.
func TableAccess() store.TableAccess {
	return store.TableAccess{
		Reads: []store.KeyPrefix{
			"account-slots", "allowance", "allowance-journal", "analytics-new", "bucket-id", "buckets", "client-ca",
			"client-ca-set",
			"custom-domain-challenge", "custom-domain-host", "custom-domain-index", "custom-domain-versions", "deployment",
			"key-hash",
			"metering-bucket", "metering-customer", "metering-plan", "metering-subscription", "root-key", "tunnel-service",
		},
		Writes: []store.KeyPrefix{
			"account-slots", "allowance", "allowance-journal", "allowance-receipt", "analytics-new",
			"analytics-writer",
		},
	}
}

// restrictTable returns p with a table that allows only the access in TableAccess, as the role of the function does in
// AWS.
func restrictTable(p installation.Parts) installation.Parts {
	p.Table = p.Table.Restrict(TableAccess())
	return p
}

// maxCachedKeys is the maximum number of verification results of valid keys that are kept in memory, and also the
// maximum number of those of invalid keys. A result needs about 200 bytes.
const maxCachedKeys = 65_536

// Service is a gateway with the allowances of rate limits, the quotas of subscriptions, and the counts of calls. Use
// Run or Drain, so that leased units are returned and counts are written.
type Service struct {
	http.Handler
	*Hosts
	allowances *allowance.Pool
	quotas     *allowance.Quotas
	callCounts *counts.Collector
	// dataPlane is the handler inside Handler. It also tracks upgraded connections.
	dataPlane *gateway.Gateway
}

// Hosts looks up deployments by host name, and the CAs of their clients, for a listener's TLS handshakes.
type Hosts struct {
	deployments *serving.Resolver
	trust       *clientcas.Trust
	// Domains looks up custom domains and their certificates.
	Domains *customdomains.Directory
}

var (
	_ handshake.ClientCALookup = (*Hosts)(nil)
	_ policy.ClientVerifier    = (*clientcas.Trust)(nil)
)

// NewHosts creates the Hosts of an installation.
func NewHosts(p installation.Parts) *Hosts {
	p = restrictTable(p)
	domains := customdomains.NewDirectory(p)
	return &Hosts{
		Domains: domains,
		deployments: serving.New(serving.Options{
			Domains: domains,
			Table:   p.Table, Artifacts: artifacts.Open(p), Domain: p.Config.DeploymentDomain(), Now: p.Now, Log: p.Log,
		}),
		trust: clientcas.NewTrust(p.Table, p.Now),
	}
}

// Owns reports whether a name has the form of a deployment's host name, which is not a custom domain. It does not read
// the table, so the deployment may not exist.
func (h *Hosts) Owns(name string) bool { return h.deployments.Owns(name) }

// Served reports whether name is the host name or a custom domain of a deployment that has been built.
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
		return nil, nil // the name has no deployment
	case err != nil:
		return nil, err
	}
	return h.trust.Hints(ctx, served.Artifact.Identity.AccountID)
}

// Options are the settings of a gateway that depend on its process.
type Options struct {
	// Refused are addresses of the installation itself. The gateway sends no requests of projects to them, even if private
	// addresses are allowed. The addresses of emulators and those in installation.Parts.BlockedAddresses are always
	// refused.
	Refused []netip.AddrPort
	// Services forwards requests to services behind tunnels. It is nil if the installation has no relay.
	Services upstream.Services
	// Function is true if the process is a Lambda, which has only one request at a time. This is not part of the
	// configuration, because an installation can also have other gateway processes with the same configuration.
	Function bool
}

// New creates the gateway of an installation. The gateway does not send requests of projects to the emulators that
// replace AWS, because emulators require no credentials.
func New(p installation.Parts, o Options) (*Service, error) {
	hosts := NewHosts(p)
	p = restrictTable(p)
	var secret [32]byte
	if _, err := io.ReadFull(p.Random, secret[:]); err != nil {
		return nil, fmt.Errorf("make a secret for the key cache: %w", err)
	}
	poolOptions := allowance.Options{Table: p.Table, Now: p.Now, Random: p.Random, Log: p.Log}
	pool, quotas := allowance.New(poolOptions), allowance.NewQuotas(poolOptions)
	subscriptions, subscriptionQuotas := NewSubscriptionQuotas(p, quotas)
	streams, streamThreshold := newStreams(p, o.Function)
	callCounts := counts.New(counts.Options{Table: p.Table, Now: p.Now, Random: p.Random, Log: p.Log})
	handler := gateway.New(gateway.Config{
		Deployments:    hosts.deployments,
		ClientVerifier: hosts.trust,
		Keys:           policy.NewKeyCache(verifier{keys.OpenVerifier(p)}, maxCachedKeys, secret, p.Now),
		Allowances:     NewLimiter(pool, p.Now),
		Subscriptions:  subscriptions,
		Quotas:         subscriptionQuotas,
		Upstream: upstream.New(upstream.Options{
			Guard: upstream.Guard{
				AllowPrivate: p.Config.PrivateUpstreams, Refuse: o.Refused,
				Endpoints: upstream.NewEndpoints(append(Emulators(p.Config), p.BlockedAddresses...)...),
			},
			Services: o.Services, Standard: p.Config.StandardHTTP,
		}),
		IDs: p.IDs, Now: p.Now, Log: p.Log,
		Calls:      callCounts,
		Operations: callCounts,
		Access:     p.Log, Telemetry: p.Telemetry,
		HeaderFilter:          upstream.Filter{Underscores: p.Config.HeaderUnderscores},
		TrustedProxies:        p.Config.TrustedProxies,
		MaxConcurrentRequests: p.Config.Limits.Get(limits.GatewayRequests),
		Streams:               streams, StreamThreshold: streamThreshold,
		MaxHeaderBytes: p.Config.HeaderBytes, MaxHeaderFields: p.Config.HeaderFields,
	})
	return &Service{
		Handler: hosts.Domains.Challenges(handler), Hosts: hosts, allowances: pool, quotas: quotas,
		callCounts: callCounts, dataPlane: handler,
	}, nil
}

var _ gateway.Calls = (*counts.Collector)(nil)

// Run regularly writes the counts, and returns leased units to the table that the gateway has not spent for some time.
// When ctx ends, Run returns all unspent units to the table, writes all counts, and ends. Use it in long-running
// processes. A Lambda does not call Run: it returns unspent units when it leases other units, and calls FlushIfDue.
func (s *Service) Run(ctx context.Context) {
	var wg sync.WaitGroup
	wg.Go(func() { s.allowances.Run(ctx, sweepInterval) })
	wg.Go(func() { s.quotas.Run(ctx, sweepInterval) })
	wg.Go(func() { s.callCounts.Run(ctx) })
	wg.Wait()
}

// UnspentUnits returns the number of units of a quota that this gateway has leased and has not spent yet.
func (s *Service) UnspentUnits(a allowance.Allowance) int64 { return s.quotas.Unspent(a) }

// Drain returns all unspent units to the table and writes all counts.
func (s *Service) Drain(ctx context.Context) error {
	return errors.Join(s.allowances.Drain(ctx), s.quotas.Drain(ctx), s.callCounts.Drain(ctx))
}

// FlushIfDue writes the counts if a write is due. A Lambda calls it at the end of each invocation, because the process
// can be frozen after that.
func (s *Service) FlushIfDue(ctx context.Context) { s.callCounts.FlushWhenDue(ctx) }

// sweepInterval is the interval at which Run looks for leased units to return to the table.
const sweepInterval = time.Second

// verifier implements policy.Keys with package keys, which does not import the gateway.
type verifier struct{ keys *keys.Verifier }

var _ policy.Keys = verifier{}

// Verify implements policy.Keys.
func (v verifier) Verify(ctx context.Context, ref policy.BucketRef, text string) (policy.KeyOwner, error) {
	kind, ok := environment.Parse(ref.Environment)
	if !ok {
		return policy.KeyOwner{}, errors.New("verify a key: the artifact has an environment of no known kind")
	}
	bucket := keys.BucketRef{AccountID: ref.AccountID, Name: ref.Name, ID: ref.ID, Project: ref.Project, Kind: kind}
	if bucket.Name == "" && bucket.ID == "" { // a build of an earlier release names no bucket
		bucket.Name = keys.DefaultBucket(ref.Project, kind)
	}
	identity, err := v.keys.Verify(ctx, bucket, text)
	if err != nil {
		return policy.KeyOwner{}, err
	}
	return policy.KeyOwner{Sub: identity.Sub, Data: identity.Data, ExpiresOn: identity.ExpiresOn}, nil
}

// Emulators returns the addresses (host:port) of the emulators in a configuration. S3PublicEndpoint is not among them,
// because clients have to reach it.
func Emulators(c config.Config) []string {
	var out []string
	for _, endpoint := range []string{c.DynamoDBEndpoint, c.S3Endpoint, c.BedrockEndpoint} {
		u, err := url.Parse(endpoint)
		if err != nil || u.Host == "" {
			continue
		}
		out = append(out, net.JoinHostPort(u.Hostname(),
			cmp.Or(u.Port(), map[string]string{"http": "80", "https": "443"}[u.Scheme])))
	}
	return out
}

// RuntimeAPI returns the address of the Runtime API from which a Lambda's process gets its events, or nil outside
// Lambda. The gateway must not send requests to this address: a route could otherwise receive the requests of other
// callers. getenv is os.Getenv, except in tests.
func RuntimeAPI(getenv func(string) string) []netip.AddrPort {
	addr, err := netip.ParseAddrPort(getenv("AWS_LAMBDA_RUNTIME_API"))
	if err != nil {
		return nil
	}
	return []netip.AddrPort{addr}
}
