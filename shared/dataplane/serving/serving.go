// Package serving finds the deployment that a host serves: it reads the
// record, loads the artifact, and caches both in memory (design, section 7).
//
// A change of a deployment takes effect within deployments.Staleness. For half of that time, a cached record
// is used without a read. For the other half it is still used, while it is refreshed in the background.
// After that, requests wait for the refresh. If it fails, a deployment is served from the cache until it is
// ten minutes old.
//
// The package does not prepare artifacts for serving: package gateway
// does. Package customdomains knows the deployments of custom domains.
package serving

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/core/artifacts"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/dataplane/gateway"
	"github.com/gatewright/gatewright/shared/format/project"
	"github.com/gatewright/gatewright/shared/resource/customdomains"
	"github.com/gatewright/gatewright/shared/resource/deployments"
)

// Artifacts loads artifacts.
type Artifacts interface {
	Get(ctx context.Context, name string) (*project.Artifact, error)
}

// Domains finds the deployment of a custom domain: a host that does not contain a deployment's name.
type Domains interface {
	// Deployment returns the name of a deployment. If the host has no deployment, the error is a fault
	// of the kind fault.NotFound. Deployment is called for each request, so it must have a cache.
	Deployment(ctx context.Context, host string) (string, error)
}

var _ Domains = (*customdomains.Directory)(nil)

var _ Artifacts = (*artifacts.Store)(nil)

// Options are the dependencies of a Resolver. All except Domains are required.
type Options struct {
	Table     *store.Table
	Artifacts Artifacts
	// Domains finds custom domains, nil for none.
	Domains Domains
	// Domain is the part of a host name after the deployment's name, such as "localhost", in lower case.
	Domain string
	Now    func() time.Time
	Log    *slog.Logger
}

const (
	// recheckAfter is the age at which a cached result is refreshed. For the same time after a failed read, requests that
	// need a refresh get the error of this read, without another read.
	recheckAfter = deployments.Staleness / 2
	// maxStale is the age up to which a cached deployment is served while refreshes fail.
	maxStale = 10 * time.Minute
	// readTimeout limits one refresh from the table and the bucket.
	readTimeout = 10 * time.Second
	// maxEntries is the maximum number of cached names, including names without a deployment: any client can choose names.
	maxEntries = 4096
	// evictionCandidates is the maximum number of entries that evict looks at before it removes one.
	evictionCandidates = 32
)

// Resolver finds the deployments of hosts. It is safe for concurrent use.
type Resolver struct {
	options Options

	mu      sync.Mutex
	entries map[string]*entry
}

var _ gateway.Deployments = (*Resolver)(nil)

// New returns a Resolver.
func New(o Options) *Resolver {
	return &Resolver{options: o, entries: map[string]*entry{}}
}

// entry is the cached result for a name: a deployment, or that there is none.
type entry struct {
	// refreshing is a semaphore: it allows one refresh at a time.
	refreshing chan struct{}

	mu sync.Mutex
	// refreshedAt is the start of the last successful refresh.
	// attemptedAt is the start of the last refresh, successful or not.
	refreshedAt, attemptedAt time.Time
	// deployment is nil if there is none.
	deployment *gateway.Deployment
	// failure is the error of the refresh at attemptedAt, nil if it was successful.
	failure error
}

var errNoDeployment = fault.Missing("deployment")

// namePattern matches the names of deployments. Other names are not looked up.
var namePattern = regexp.MustCompile(`^[a-z0-9][a-z0-9-]*-[0-9a-f]{7}$`)

// Owns reports whether a host name has the form of a deployment's host name.
func (r *Resolver) Owns(host string) bool {
	_, ok := r.deploymentName(host)
	return ok
}

// deploymentName returns the name of the deployment in a host name.
func (r *Resolver) deploymentName(host string) (name string, ok bool) {
	name, ok = strings.CutSuffix(host, "."+r.options.Domain)
	return name, ok && len(name) <= 63 && namePattern.MatchString(name)
}

// Resolve returns the deployment of a host. The error is NotFound if the host
// has no deployment, or if the deployment was never built.
func (r *Resolver) Resolve(ctx context.Context, host string) (*gateway.Deployment, error) {
	name, ok := r.deploymentName(host)
	if !ok {
		if r.options.Domains == nil {
			return nil, errNoDeployment
		}
		var err error
		if name, err = r.options.Domains.Deployment(ctx, host); err != nil {
			return nil, err
		}
	}
	e := r.entry(name)
	now := r.options.Now()
	d, age := e.cached(now)
	switch {
	case age < recheckAfter:
	case d != nil && age < deployments.Staleness:
		r.refreshInBackground(ctx, name, e)
	default:
		if err := r.refresh(ctx, name, e); err != nil {
			return nil, err
		}
		d, _ = e.cached(now)
	}
	if d == nil {
		return nil, errNoDeployment
	}
	return d, nil
}

// entry returns the entry of a name.
func (r *Resolver) entry(name string) *entry {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.entries[name]
	if e == nil {
		if len(r.entries) >= maxEntries {
			r.evict()
		}
		e = &entry{refreshing: make(chan struct{}, 1)}
		r.entries[name] = e
	}
	return e
}

// evict removes one entry. It removes the first entry without a deployment among up to evictionCandidates entries, or
// else the last of them. Loading an artifact again takes time, and any client can choose names without a deployment.
func (r *Resolver) evict() {
	remaining := evictionCandidates
	for name, e := range r.entries {
		if remaining--; remaining == 0 || !e.hasDeployment() {
			delete(r.entries, name)
			return
		}
	}
}

// hasDeployment reports whether the entry has a deployment, of any age.
func (e *entry) hasDeployment() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.deployment != nil
}

// cached returns the cached deployment and its age: nil and the maximum duration before the first successful refresh.
func (e *entry) cached(now time.Time) (*gateway.Deployment, time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.refreshedAt.IsZero() {
		return nil, 1<<63 - 1
	}
	return e.deployment, now.Sub(e.refreshedAt)
}

// refreshInBackground starts a refresh in the background, unless one is running.
func (r *Resolver) refreshInBackground(ctx context.Context, name string, e *entry) {
	select {
	case e.refreshing <- struct{}{}:
	default:
		return
	}
	go func() {
		defer func() { <-e.refreshing }()
		if err := r.read(context.WithoutCancel(ctx), name, e); err != nil {
			r.options.Log.WarnContext(ctx, "a deployment could not be looked up: the cached one is still served", "deployment",
				name, "error", err)
		}
	}()
}

// refresh reads the table, unless a read less than recheckAfter ago was successful or has failed. It returns the
// read's error only if there is no cached deployment whose age is below maxStale. It returns the cause of ctx if ctx
// ends while another request reads.
func (r *Resolver) refresh(ctx context.Context, name string, e *entry) error {
	select {
	case e.refreshing <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-e.refreshing }()
	now := r.options.Now()
	e.mu.Lock()
	fresh := !e.refreshedAt.IsZero() && now.Sub(e.refreshedAt) < recheckAfter
	// After a failed refresh, use its error for a while, so that most requests
	// do not wait for a table that is not available.
	failing := e.failure != nil && now.Sub(e.attemptedAt) < recheckAfter
	failure := e.failure
	e.mu.Unlock()
	switch {
	case fresh:
		return nil
	case !failing:
		// All waiting requests share the result, so the end of the first one must not cancel the read.
		if failure = r.read(context.WithoutCancel(ctx), name, e); failure == nil {
			return nil
		}
		r.options.Log.ErrorContext(ctx, "a deployment could not be looked up", "deployment", name, "error", failure)
	}
	if d, age := e.cached(now); d != nil && age < maxStale {
		return nil
	}
	return failure
}

// read reads the table, and the bucket if the artifact has changed.
func (r *Resolver) read(ctx context.Context, name string, e *entry) error {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	start := r.options.Now()
	e.mu.Lock()
	previous := e.deployment
	e.mu.Unlock()
	d, err := r.load(ctx, name, previous)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.attemptedAt, e.failure = start, err
	if err == nil {
		e.refreshedAt, e.deployment = start, d
	}
	return err
}

// load reads a deployment. It returns nil if there is none, or if it was never built. It returns previous if the
// artifact has not changed, or if only a newer release can read the artifact. If this release cannot read the
// artifact and load does not return previous, load returns an artifact that has only Format and Identity.
func (r *Resolver) load(ctx context.Context, name string, previous *gateway.Deployment) (*gateway.Deployment, error) {
	record, err := deployments.Read(ctx, r.options.Table, name)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil, nil // no deployment is a result, which is cached
	case err != nil:
		return nil, fmt.Errorf("read a deployment: %w", err)
	case record.Served == nil:
		return nil, nil // as above
	case previous != nil && previous.Digest == record.Served.Artifact:
		return previous, nil
	}
	a, err := r.options.Artifacts.Get(ctx, record.Served.Artifact)
	if format, ok := errors.AsType[*project.FormatError](err); ok {
		if previous != nil && format.IsNewer() {
			// Keep serving the previous artifact. Each refresh tries again, because the release
			// that has built the new artifact will soon run everywhere, or is rolled back.
			r.options.Log.WarnContext(ctx, "a deployment was built by a newer release: the previous build is still served",
				"deployment", name, "error", err)
			return previous, nil
		}
		// The gateway reports what to do.
		a = &project.Artifact{Format: format.Format, Identity: project.Identity{
			AccountID: record.AccountID, Account: record.Account, Project: record.Project, Branch: record.Branch,
			Environment: string(record.Kind), Deployment: record.Name, BuildID: record.Served.BuildID,
		}}
	} else if err != nil {
		return nil, err
	}
	return &gateway.Deployment{Digest: record.Served.Artifact, Artifact: a}, nil
}
