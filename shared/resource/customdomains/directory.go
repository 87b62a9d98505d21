package customdomains

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/gatewright/gatewright/shared/base/bounded"
	"github.com/gatewright/gatewright/shared/base/coalesce"
	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/base/handshake"
	"github.com/gatewright/gatewright/shared/core/config"
	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/core/store"
)

// maxHosts is the maximum number of cached hostnames. Each takes some 10 KB with its certificate.
const maxHosts = 16_384

// Directory returns the served data of the installation's custom domains to a gateway. It is safe for concurrent use.
//
// A Directory keeps all hostnames in memory. One small read, at most once a second and usually in the background,
// detects changes. So an unknown hostname is refused without a read, at any request rate. The first request for a known
// hostname takes one read. Further requests take none until its served data changes.
type Directory struct {
	table  *store.Table
	sealer Sealer
	config config.Config
	now    func() time.Time
	log    *slog.Logger

	names       atomic.Pointer[index]
	lastFailure atomic.Pointer[failure]
	refreshes   singleflight.Group // coalesces the reads that refresh names

	entries    coalesce.Group[*entry]
	challenges coalesce.Group[*cachedChallenge]

	mu    sync.Mutex
	hosts map[string]*entry
}

var (
	_ handshake.Source          = (*Directory)(nil)
	_ handshake.ChallengeSource = (*Directory)(nil)
)

// Sealer encrypts private keys, and decrypts them. context identifies the record of a key: Open fails with another
// context than Seal had, so a sealed key is useless in another record.
type Sealer interface {
	Seal(ctx context.Context, plaintext []byte, context string) ([]byte, error)
	Open(ctx context.Context, sealed []byte, context string) ([]byte, error)
}

// NewDirectory returns the Directory of an installation.
func NewDirectory(p installation.Parts) *Directory {
	return &Directory{
		table: p.Table, sealer: p.Sealer(), config: p.Config, now: p.Now, log: p.Log,
		hosts: map[string]*entry{},
	}
}

// hostPrefix is the key prefix of the served data of each proven hostname. Its key contains only the
// hostname, so that only one account of the installation can have it. Gateways read it.
const hostPrefix store.KeyPrefix = "custom-domain-host"

// host is the served data of a hostname. One read returns everything that a gateway needs.
type host struct {
	store.UnknownAttributes

	// ID is the id of the custom domain. If it is deleted and created again, it gets another ID.
	ID        string `dynamodbav:"id"`
	AccountID string `dynamodbav:"accountId"`
	Hostname  string `dynamodbav:"hostname"`
	// Deployment is the served deployment, "" for none.
	Deployment string `dynamodbav:"deployment"`
	// Certificate is nil if the hostname has no certificate, and so is not served over TLS.
	Certificate *pair `dynamodbav:"certificate,omitempty"`
}

func hostKey(hostname string) store.Key { return hostPrefix.Key(hostname) }

// entry is the cached data of a hostname. change is the ID of the last change of the hostname when the data was read.
type entry struct {
	change string
	host   host
	// challenge is nil until it is requested for the first time.
	challenge atomic.Pointer[cachedChallenge]

	mu          sync.Mutex
	certificate *tls.Certificate
}

// mayBeCustomDomain reports whether a name can be a custom domain: it has a dot, is not too long, and is not in a
// domain of the installation.
func (d *Directory) mayBeCustomDomain(name string) bool {
	return len(name) <= MaxHostnameChars && strings.Contains(name, ".") &&
		!slices.ContainsFunc(d.config.OwnDomains(), func(domain string) bool { return inDomain(name, domain) })
}

// Owns implements handshake.Source. While the hostnames are not loaded or are stale, Owns returns true for every
// possible custom domain. Certificate is called later and decides.
func (d *Directory) Owns(name string) bool {
	if !d.mayBeCustomDomain(name) {
		return false
	}
	names := d.names.Load()
	if names == nil || d.now().Sub(names.refreshedAt) >= Staleness {
		return true
	}
	_, ok := names.change(name)
	return ok
}

// Deployment returns the name of the deployment that a host serves. It returns NotFound for a host that is not a
// verified custom domain or has no deployment.
func (d *Directory) Deployment(ctx context.Context, host string) (string, error) {
	e, err := d.find(ctx, host)
	switch {
	case err != nil:
		return "", err
	case e == nil || e.host.Deployment == "":
		return "", errNoDeployment
	}
	return e.host.Deployment, nil
}

var errNoDeployment = fault.Missing("host")

// find returns the served data of a hostname, or nil if it is not a verified custom domain.
func (d *Directory) find(ctx context.Context, hostname string) (*entry, error) {
	if !d.mayBeCustomDomain(hostname) {
		return nil, nil
	}
	names, err := d.currentNames(ctx)
	if err != nil {
		return nil, err
	}
	change, ok := names.change(hostname)
	if !ok {
		return nil, nil
	}
	if e := d.cachedEntry(hostname); e != nil && e.change == change {
		return e, nil
	}
	return d.entries.Do(ctx, hostname+" "+change, readTimeout, func(ctx context.Context) (*entry, error) {
		e := &entry{change: change}
		if err := d.table.Get(ctx, hostKey(hostname), &e.host); err != nil && !errors.Is(err, store.ErrNotFound) {
			return nil, fmt.Errorf("read what a custom domain serves: %w", err)
		}
		d.cacheEntry(hostname, e)
		return e, nil
	})
}

func (d *Directory) cachedEntry(hostname string) *entry {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.hosts[hostname]
}

func (d *Directory) cacheEntry(hostname string, e *entry) {
	d.mu.Lock()
	defer d.mu.Unlock()
	bounded.Put(d.hosts, hostname, e, maxHosts)
}
