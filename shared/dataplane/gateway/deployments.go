package gateway

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gatewright/gatewright/shared/format/project"
)

// Deployments finds the deployment that is served at a host.
type Deployments interface {
	// Resolve returns the deployment of a host name. The name is in lower case and has neither a port nor a
	// trailing dot. Resolve is called for nearly every request, so an implementation must cache. If the host has no
	// deployment, the error is a fault of the kind fault.NotFound. Any other error means that the lookup failed.
	Resolve(ctx context.Context, host string) (*Deployment, error)
}

// Deployment is the artifact that is served at a host, until another artifact replaces it. It is immutable.
type Deployment struct {
	// Digest identifies the artifact's content: two artifacts with the same digest are equal.
	Digest   string
	Artifact *project.Artifact
}

// maxSites is the maximum number of artifacts that are kept ready to serve.
// A site as large as GitHub's API, with 1,223 routes, takes about 2 MB.
const maxSites = 512

// sites caches the sites of deployments, by the digest of their artifact.
type sites struct {
	mu       sync.RWMutex
	byDigest map[string]*cachedSite
	// createMu is held while a site is created, so that only one is
	// created at a time. Requests for sites in the cache do not wait for it.
	createMu sync.Mutex
	now      func() time.Time
}

type cachedSite struct {
	site     *site
	lastUsed atomic.Int64 // seconds since 1970
}

// get returns the site of a deployment, and creates it if it is missing. If there are maxSites sites,
// it replaces the least recently used one.
func (s *sites) get(d *Deployment, newSite func(*project.Artifact) *site) *site {
	if cached := s.find(d.Digest); cached != nil {
		return cached
	}
	s.createMu.Lock()
	defer s.createMu.Unlock()
	if cached := s.find(d.Digest); cached != nil {
		return cached
	}
	created := &cachedSite{site: newSite(d.Artifact)}
	created.lastUsed.Store(s.now().Unix())
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.byDigest) >= maxSites {
		s.evictLeastRecentlyUsed()
	}
	s.byDigest[d.Digest] = created
	return created.site
}

// find returns the site with a digest and records its use. It returns nil if the site is missing.
func (s *sites) find(digest string) *site {
	s.mu.RLock()
	cached := s.byDigest[digest]
	s.mu.RUnlock()
	if cached == nil {
		return nil
	}
	// Store the time only once per second: a write for each request would move the cache line between the CPU's cores.
	if now := s.now().Unix(); cached.lastUsed.Load() != now {
		cached.lastUsed.Store(now)
	}
	return cached.site
}

// evictLeastRecentlyUsed removes the site that was not used for the longest time. The caller holds mu.
func (s *sites) evictLeastRecentlyUsed() {
	var evicted string
	var oldestUse int64
	for digest, cached := range s.byDigest {
		if lastUsed := cached.lastUsed.Load(); evicted == "" || lastUsed < oldestUse {
			evicted, oldestUse = digest, lastUsed
		}
	}
	delete(s.byDigest, evicted)
}
