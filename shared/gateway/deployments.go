package gateway

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gatewright/gatewright/shared/project"
)

// Deployments finds what a host serves.
type Deployments interface {
	// Resolve gives the deployment of a host name, which is in lower case and has
	// neither port nor trailing dot. It is called for each request and so has to
	// answer from memory as a rule. A host without a deployment is a fault of the
	// kind fault.NotFound; any other error means that nobody knows.
	Resolve(ctx context.Context, host string) (*Deployment, error)
}

// Deployment is what a host serves at a moment. It is never changed.
type Deployment struct {
	// Digest names the artifact's content: equal digests are one artifact.
	Digest   string
	Artifact *project.Artifact
}

// maxSites is how many artifacts are kept ready. A site of GitHub's size, 1,223
// routes, takes about 2 MB.
const maxSites = 512

// sites are the artifacts that are ready to serve, by digest.
type sites struct {
	mu       sync.RWMutex
	byDigest map[string]*cachedSite
	// making lets one artifact at a time be made ready: its requests wait for
	// it, those of other sites do not.
	making sync.Mutex
	now    func() time.Time
}

type cachedSite struct {
	site *site
	used atomic.Int64 // seconds since 1970
}

// get returns the site of a deployment and makes it if it is not there.
func (s *sites) get(d *Deployment, newSite func(*project.Artifact) *site) *site {
	if kept := s.find(d.Digest); kept != nil {
		return kept
	}
	s.making.Lock()
	defer s.making.Unlock()
	if kept := s.find(d.Digest); kept != nil {
		return kept
	}
	made := &cachedSite{site: newSite(d.Artifact)}
	made.used.Store(s.now().Unix())
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.byDigest) >= maxSites {
		s.dropOldest()
	}
	s.byDigest[d.Digest] = made
	return made.site
}

func (s *sites) find(digest string) *site {
	s.mu.RLock()
	kept := s.byDigest[digest]
	s.mu.RUnlock()
	if kept == nil {
		return nil
	}
	// A store for each request would bounce the line between cores.
	if now := s.now().Unix(); kept.used.Load() != now {
		kept.used.Store(now)
	}
	return kept.site
}

func (s *sites) dropOldest() {
	var oldest string
	var used int64
	for digest, kept := range s.byDigest {
		if at := kept.used.Load(); oldest == "" || at < used {
			oldest, used = digest, at
		}
	}
	delete(s.byDigest, oldest)
}
