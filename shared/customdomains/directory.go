package customdomains

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/gatewright/gatewright/shared/bounded"
	"github.com/gatewright/gatewright/shared/config"
	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/flight"
	"github.com/gatewright/gatewright/shared/handshake"
	"github.com/gatewright/gatewright/shared/installation"
	"github.com/gatewright/gatewright/shared/store"
)

const (
	// Staleness is how long after a change a gateway may serve what was before at a
	// hostname, with readTimeout on top when the table is slow.
	Staleness = 2 * time.Second
	// recheck is when what is known is looked at again beside the request.
	recheck     = Staleness / 2
	readTimeout = 2 * time.Second
	// pauseAfter is how long nobody looks again after a look in vain.
	pauseAfter = time.Second
	// maxStale is how long a gateway serves what it knows while nobody can say whether it
	// is still so.
	maxStale = 10 * time.Minute
	// maxHosts is how many hostnames are kept with their certificates, some 10 KB each.
	maxHosts = 16_384
)

// Directory knows what the installation's custom domains serve, for a gateway. It is safe for
// concurrent use.
//
// It keeps the hostnames of all in memory, and sees by one small read each two seconds, beside the
// requests as a rule, whether any has changed. So a name that is none's is refused without a read,
// whoever asks how often; one that is asked for first costs one read, and from then on none
// until something else is served there.
type Directory struct {
	table  *store.Table
	sealer Sealer
	config config.Config
	now    func() time.Time
	log    *slog.Logger

	names   atomic.Pointer[index]
	failed  atomic.Pointer[failure]
	flights singleflight.Group // of names

	entries    flight.Group[*entry]
	challenges flight.Group[*lookedUp]

	mu    sync.Mutex
	hosts map[string]*entry
}

var (
	_ handshake.Source     = (*Directory)(nil)
	_ handshake.Challenged = (*Directory)(nil)
)

// Sealer encrypts keys. context ties a sealed key to its record, so that it opens
// nowhere else.
type Sealer interface {
	Seal(ctx context.Context, plaintext []byte, context string) ([]byte, error)
	Open(ctx context.Context, sealed []byte, context string) ([]byte, error)
}

// NewDirectory makes the Directory of an installation.
func NewDirectory(p installation.Parts) *Directory {
	return &Directory{table: p.Table, sealer: p.Sealer(), config: p.Config, now: p.Now, log: p.Log, hosts: map[string]*entry{}}
}

// index is all hostnames with the change that each was last touched by. It is replaced, never
// changed.
type index struct {
	// looked is when the look began that it is of.
	looked   time.Time
	versions map[string]int64             // by shard
	shards   map[string]map[string]string // the changes, by shard and hostname
}

type failure struct {
	on  time.Time
	err error
}

func (i *index) change(hostname string) (string, bool) {
	for _, names := range i.shards {
		if c, ok := names[hostname]; ok {
			return c, true
		}
	}
	return "", false
}

// entry is what is served at a hostname since a change.
type entry struct {
	change string
	host   host
	// challenge is nil before anybody has asked for it.
	challenge atomic.Pointer[lookedUp]

	mu          sync.Mutex
	certificate *tls.Certificate
}

// plausible reports whether a name may be a custom domain by its form.
func (d *Directory) plausible(name string) bool {
	return len(name) <= MaxHostnameChars && strings.Contains(name, ".") &&
		!slices.ContainsFunc(d.config.OwnDomains(), func(own string) bool { return within(name, own) })
}

// Owns implements handshake.Source. While nobody knows the names, it is Certificate that looks.
func (d *Directory) Owns(name string) bool {
	if !d.plausible(name) {
		return false
	}
	its := d.names.Load()
	if its == nil || d.now().Sub(its.looked) >= Staleness {
		return true
	}
	_, ok := its.change(name)
	return ok
}

// Deployment gives the name of the deployment that a host serves. A host that is no custom
// domain, or leads nowhere, is NotFound.
func (d *Directory) Deployment(ctx context.Context, host string) (string, error) {
	its, err := d.find(ctx, host)
	switch {
	case err != nil:
		return "", err
	case its == nil || its.host.Deployment == "":
		return "", errUnserved
	}
	return its.host.Deployment, nil
}

var errUnserved = fault.Missing("host")

// find gives what is served at a hostname, nil for nothing.
func (d *Directory) find(ctx context.Context, hostname string) (*entry, error) {
	if !d.plausible(hostname) {
		return nil, nil
	}
	names, err := d.current(ctx)
	if err != nil {
		return nil, err
	}
	change, ok := names.change(hostname)
	if !ok {
		return nil, nil
	}
	if its := d.kept(hostname); its != nil && its.change == change {
		return its, nil
	}
	return d.entries.Do(ctx, hostname+" "+change, readTimeout, func(ctx context.Context) (*entry, error) {
		its := &entry{change: change}
		if err := d.table.Get(ctx, hostKey(hostname), &its.host); err != nil && !errors.Is(err, store.ErrNotFound) {
			return nil, fmt.Errorf("read what a custom domain serves: %w", err)
		}
		d.keep(hostname, its)
		return its, nil
	})
}

func (d *Directory) kept(hostname string) *entry {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.hosts[hostname]
}

func (d *Directory) keep(hostname string, its *entry) {
	d.mu.Lock()
	defer d.mu.Unlock()
	bounded.Put(d.hosts, hostname, its, maxHosts)
}

// current gives the names as they are now.
func (d *Directory) current(ctx context.Context) (*index, error) {
	its, now := d.names.Load(), d.now()
	old := its == nil
	if its != nil {
		switch age := now.Sub(its.looked); {
		case age < 0: // the clock was set back: it is unknown how old they are
			old = true
		case age < recheck:
			return its, nil
		default:
			old = age >= Staleness
		}
	}
	failed := d.failed.Load()
	waits := failed != nil && now.Sub(failed.on) >= 0 && now.Sub(failed.on) < pauseAfter
	if !waits {
		flight := d.look(ctx)
		if !old {
			return its, nil
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case result := <-flight:
			if result.Err == nil {
				return d.names.Load(), nil
			}
			failed = &failure{now, result.Err}
		}
	}
	if its != nil && now.Sub(its.looked) < maxStale {
		return its, nil
	}
	return nil, failed.err
}

// look begins a look, unless one is under way.
func (d *Directory) look(ctx context.Context) <-chan singleflight.Result {
	return d.flights.DoChan("names", func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readTimeout)
		defer cancel()
		begun := d.now()
		its, err := d.read(ctx, begun)
		if err != nil {
			d.log.WarnContext(ctx, "the custom domains could not be looked up, what is known is served on", "error", err)
			d.failed.Store(&failure{begun, err})
			return nil, err
		}
		d.names.Store(its)
		return nil, nil
	})
}

// read reads the versions of the shards, and then those that have changed: at worst one is
// newer than its version, and is read once more.
func (d *Directory) read(ctx context.Context, begun time.Time) (*index, error) {
	before := d.names.Load()
	if before == nil {
		before = &index{}
	}
	var raw map[string]any
	if err := d.table.Get(ctx, versionKey(), &raw); err != nil && !errors.Is(err, store.ErrNotFound) {
		return nil, fmt.Errorf("read the versions of custom domains: %w", err)
	}
	its := &index{looked: begun, versions: map[string]int64{}, shards: maps.Clone(before.shards)}
	if its.shards == nil {
		its.shards = map[string]map[string]string{}
	}
	var changed []string
	var wanted []*store.Wanted
	found := map[string]*map[string]any{}
	for shard, v := range raw {
		version, isNumber := v.(float64)
		if !isNumber || !strings.HasPrefix(shard, shardPrefix) {
			continue
		}
		its.versions[shard] = int64(version)
		if now, known := before.versions[shard]; !known || now != int64(version) {
			into := new(map[string]any)
			changed, found[shard] = append(changed, shard), into
			wanted = append(wanted, store.Want(indexKey(shard), into))
		}
	}
	if len(wanted) == 0 {
		return its, nil
	}
	if err := d.table.Load(ctx, wanted...); err != nil {
		return nil, fmt.Errorf("read the names of custom domains: %w", err)
	}
	for _, shard := range changed {
		names := map[string]string{}
		for name, change := range *found[shard] {
			if text, ok := change.(string); ok {
				names[name] = text
			}
		}
		its.shards[shard] = names
	}
	return its, nil
}
