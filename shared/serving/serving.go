// Package serving finds the deployment that a host serves: it reads the record,
// loads the artifact, and caches both in memory (design, section 7).
//
// A change of a deployment takes effect within deployments.Staleness. A cached
// record is used without a read for half of that time. For the other half it is
// still used, while it is refreshed in the background. After that, requests wait
// for the refresh. While the table does not answer, the cache is served on.
//
// What it is not: it makes nothing ready to serve (package gateway does). Which deployment a
// custom domain leads to, package customdomains knows.
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

	"github.com/gatewright/gatewright/shared/artifacts"
	"github.com/gatewright/gatewright/shared/customdomains"
	"github.com/gatewright/gatewright/shared/deployments"
	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/gateway"
	"github.com/gatewright/gatewright/shared/project"
	"github.com/gatewright/gatewright/shared/store"
)

// Artifacts loads artifacts.
type Artifacts interface {
	Get(ctx context.Context, name string) (*project.Artifact, error)
}

// Domains tells which deployment a host serves that is not named after one.
type Domains interface {
	// Deployment gives the name of a deployment; a host without one is a fault of the kind
	// fault.NotFound. It is called for each request, and so has to answer from memory as a rule.
	Deployment(ctx context.Context, host string) (string, error)
}

var _ Domains = (*customdomains.Directory)(nil)

var _ Artifacts = (*artifacts.Store)(nil)

// Options are what a Resolver takes from outside; all but Domains are needed.
type Options struct {
	Table     *store.Table
	Artifacts Artifacts
	// Domains knows the custom domains, nil for none.
	Domains Domains
	// Domain is what follows the deployment's name in a host name, such as
	// "localhost", in lower case.
	Domain string
	Now    func() time.Time
	Log    *slog.Logger
}

const (
	recheck = deployments.Staleness / 2
	// maxStale is how long a deployment is served while nobody can say whether
	// it is still there.
	maxStale = 10 * time.Minute
	// readTimeout bounds one refresh from the table and the bucket.
	readTimeout = 10 * time.Second
	// maxEntries is how many hosts are remembered, those without a deployment
	// included: their names come from anyone.
	maxEntries = 4096
	// candidates is how many entries are compared to forget one of them.
	candidates = 32
)

// Resolver finds what hosts serve. It is safe for concurrent use.
type Resolver struct {
	o Options

	mu    sync.Mutex
	known map[string]*entry
}

var _ gateway.Deployments = (*Resolver)(nil)

// New makes a Resolver.
func New(o Options) *Resolver {
	return &Resolver{o: o, known: map[string]*entry{}}
}

// entry is what is known of a deployment.
type entry struct {
	// refreshing has room for the one who reads the table.
	refreshing chan struct{}

	mu sync.Mutex
	// refreshed is when the last refresh that had an answer was begun, tried
	// when the last one was.
	refreshed, tried time.Time
	// deployment is nil when there is none.
	deployment *gateway.Deployment
	// failure is why tried had no answer.
	failure error
}

var errNoDeployment = fault.Missing("deployment")

// namePattern is that of deployments' names: no other is asked for.
var namePattern = regexp.MustCompile(`^[a-z0-9][a-z0-9-]*-[0-9a-f]{7}$`)

// Owns reports, by its form alone, whether a host name is one that a deployment has.
func (r *Resolver) Owns(host string) bool {
	_, ok := r.deployment(host)
	return ok
}

// deployment is the name of the deployment that a host would have.
func (r *Resolver) deployment(host string) (name string, ok bool) {
	name, ok = strings.CutSuffix(host, "."+r.o.Domain)
	return name, ok && len(name) <= 63 && namePattern.MatchString(name)
}

// Resolve returns what a host serves. A host without a deployment, or with one
// that has never been built, is NotFound.
func (r *Resolver) Resolve(ctx context.Context, host string) (*gateway.Deployment, error) {
	name, ok := r.deployment(host)
	if !ok {
		if r.o.Domains == nil {
			return nil, errNoDeployment
		}
		var err error
		if name, err = r.o.Domains.Deployment(ctx, host); err != nil {
			return nil, err
		}
	}
	e := r.entry(name)
	now := r.o.Now()
	d, age := e.answer(now)
	switch {
	case age < recheck:
	case d != nil && age < deployments.Staleness:
		r.refreshLater(ctx, name, e)
	default:
		if err := r.refresh(ctx, name, e); err != nil {
			return nil, err
		}
		d, _ = e.answer(now)
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
	e := r.known[name]
	if e == nil {
		if len(r.known) >= maxEntries {
			r.evict()
		}
		e = &entry{refreshing: make(chan struct{}, 1)}
		r.known[name] = e
	}
	return e
}

// evict drops one of the entries, of a few the first that serves nothing: an
// artifact takes a while to load again, and names that nobody deployed come
// from anyone.
func (r *Resolver) evict() {
	left := candidates
	for name, e := range r.known {
		if left--; left == 0 || !e.serves() {
			delete(r.known, name)
			return
		}
	}
}

func (e *entry) serves() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.deployment != nil
}

// answer returns what is known and how old it is.
func (e *entry) answer(now time.Time) (*gateway.Deployment, time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.refreshed.IsZero() {
		return nil, 1<<63 - 1
	}
	return e.deployment, now.Sub(e.refreshed)
}

// refreshLater refreshes in the background, once at a time.
func (r *Resolver) refreshLater(ctx context.Context, name string, e *entry) {
	select {
	case e.refreshing <- struct{}{}:
	default:
		return
	}
	go func() {
		defer func() { <-e.refreshing }()
		if err := r.read(context.WithoutCancel(ctx), name, e); err != nil {
			r.o.Log.WarnContext(ctx, "a deployment could not be looked up, what is known is served on", "deployment", name, "error", err)
		}
	}()
}

// refresh reads the table, unless somebody else has done so meanwhile. It
// answers an error only where nothing is known that could be served.
func (r *Resolver) refresh(ctx context.Context, name string, e *entry) error {
	select {
	case e.refreshing <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-e.refreshing }()
	now := r.o.Now()
	e.mu.Lock()
	fresh := !e.refreshed.IsZero() && now.Sub(e.refreshed) < recheck
	// While the table is away, not every request waits for it.
	failing := e.failure != nil && now.Sub(e.tried) < recheck
	failure := e.failure
	e.mu.Unlock()
	switch {
	case fresh:
		return nil
	case !failing:
		// The answer is for all who wait, so that it does not end with the
		// first of them.
		if failure = r.read(context.WithoutCancel(ctx), name, e); failure == nil {
			return nil
		}
		r.o.Log.ErrorContext(ctx, "a deployment could not be looked up", "deployment", name, "error", failure)
	}
	if d, age := e.answer(now); d != nil && age < maxStale {
		return nil
	}
	return failure
}

// read reads the table, and the bucket when another artifact is served.
func (r *Resolver) read(ctx context.Context, name string, e *entry) error {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	begun := r.o.Now()
	e.mu.Lock()
	before := e.deployment
	e.mu.Unlock()
	d, err := r.load(ctx, name, before)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.tried, e.failure = begun, err
	if err == nil {
		e.refreshed, e.deployment = begun, d
	}
	return err
}

func (r *Resolver) load(ctx context.Context, name string, before *gateway.Deployment) (*gateway.Deployment, error) {
	record, err := deployments.Read(ctx, r.o.Table, name)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil, nil // nil is known: there is none
	case err != nil:
		return nil, fmt.Errorf("read a deployment: %w", err)
	case record.Served == nil:
		return nil, nil // as above
	case before != nil && before.Digest == record.Served.Artifact:
		return before, nil
	}
	a, err := r.o.Artifacts.Get(ctx, record.Served.Artifact)
	if format, ok := errors.AsType[*project.FormatError](err); ok {
		if before != nil && format.Newer() {
			// It is served on, and each look asks again: the release that has built the new one is
			// about to be everywhere, or is taken back with it.
			r.o.Log.WarnContext(ctx, "a deployment was built by a newer release: what was served before is served on", "deployment", name, "error", err)
			return before, nil
		}
		// The gateway tells what is to be done.
		a = &project.Artifact{Format: format.Format, Identity: project.Identity{
			AccountID: record.AccountID, Account: record.Account, Project: record.Project, Branch: record.Branch,
			Environment: string(record.Kind), Deployment: record.Name, BuildID: record.Served.BuildID,
		}}
	} else if err != nil {
		return nil, err
	}
	return &gateway.Deployment{Digest: record.Served.Artifact, Artifact: a}, nil
}
