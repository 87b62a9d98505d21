package customdomains

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/gatewright/gatewright/shared/core/store"
)

const (
	// indexPrefix is the key prefix of the list of verified hostnames, in shards. Each hostname has the ID of its last
	// change. Gateways keep the list in memory, so that they need no read to know whether a hostname exists.
	indexPrefix store.KeyPrefix = "custom-domain-index"
	// versionPrefix is the key prefix of one small item. For each shard, it has the number of changes of the shard.
	// Gateways detect changes by comparing these numbers.
	versionPrefix store.KeyPrefix = "custom-domain-versions"
	// shards is the number of shards: 100,000 hostnames of 40 bytes take some 90 KB per shard, and an item may have 400
	// KB. The versions of all shards fit one read unit (docs/decisions/0037-gateways-know-all-hostnames.md).
	shards = 64
	// shardPrefix is the prefix of a shard's name. The item under versionPrefix has an attribute for each shard and the
	// attributes of its key. The prefix distinguishes them.
	shardPrefix = "shard-"
	// Staleness is the maximum time that a gateway serves the previous data of a hostname after a change. If the table
	// is slow, the gateway may serve them up to readTimeout longer. While refreshes fail, maxStale is the maximum
	// instead.
	Staleness   = 2 * time.Second
	readTimeout = 2 * time.Second
	// refreshAge is the age from which the cached hostnames are refreshed in the background.
	refreshAge = Staleness / 2
	// retryDelay is the pause after a failed refresh, from its beginning.
	retryDelay = time.Second
	// maxStale is the maximum time that a gateway serves cached data while refreshes fail.
	maxStale = 10 * time.Minute
)

// shardOf returns a shard for a text, which must be one that callers cannot choose. A caller who could choose the shard
// could fill it. The hostnames in a full shard cannot change.
func shardOf(text string) string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(text))
	return shardPrefix + strconv.Itoa(int(h.Sum32()%shards))
}

func indexKey(shard string) store.Key { return indexPrefix.Key(shard) }

func versionKey() store.Key { return versionPrefix.Key("all") }

// changedWrites returns the writes that make gateways read the served data of a new or changed hostname. change is the
// unique ID of the change.
func (r record) changedWrites(change string) []store.Write {
	return r.indexWrites(store.Set(store.At(r.Hostname), change))
}

// removedWrites returns the writes that make gateways stop serving a hostname.
func (r record) removedWrites() []store.Write {
	return r.indexWrites(store.Remove(store.At(r.Hostname)))
}

func (r record) indexWrites(c store.Change) []store.Write {
	return []store.Write{
		store.Upsert(indexKey(r.Shard), c),
		store.Upsert(versionKey(), store.Add(store.At(r.Shard), 1)),
	}
}

// index contains all hostnames with the IDs of their last changes. An index is replaced, never modified.
type index struct {
	// refreshedAt is the time when the refresh began.
	refreshedAt time.Time
	versions    map[string]int64             // number of changes, by shard
	shards      map[string]map[string]string // ID of the last change, by shard and hostname
}

// change returns the ID of the last change of a hostname, and whether the index contains the hostname.
func (i *index) change(hostname string) (string, bool) {
	for _, names := range i.shards {
		if c, ok := names[hostname]; ok {
			return c, true
		}
	}
	return "", false
}

// failure is the error of a failed refresh. at is the time when the refresh began, or when a request began to wait for
// it.
type failure struct {
	at  time.Time
	err error
}

// currentNames returns the cached hostnames. From refreshAge on it refreshes them in the background. From Staleness on
// it waits for the refresh. For retryDelay after a failed refresh, it begins no other. While refreshes fail, it returns
// the cached hostnames until they are older than maxStale, and then the error.
func (d *Directory) currentNames(ctx context.Context) (*index, error) {
	names, now := d.names.Load(), d.now()
	stale := names == nil
	if names != nil {
		switch age := now.Sub(names.refreshedAt); {
		case age < 0: // the clock was set back: the age is unknown
			stale = true
		case age < refreshAge:
			return names, nil
		default:
			stale = age >= Staleness
		}
	}
	failed := d.lastFailure.Load()
	backingOff := failed != nil && now.Sub(failed.at) >= 0 && now.Sub(failed.at) < retryDelay
	if !backingOff {
		refreshed := d.refresh(ctx)
		if !stale {
			return names, nil
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case result := <-refreshed:
			if result.Err == nil {
				return d.names.Load(), nil
			}
			failed = &failure{now, result.Err}
		}
	}
	if names != nil && now.Sub(names.refreshedAt) < maxStale {
		return names, nil
	}
	return nil, failed.err
}

// refresh begins a refresh, unless one is in progress.
func (d *Directory) refresh(ctx context.Context) <-chan singleflight.Result {
	return d.refreshes.DoChan("names", func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readTimeout)
		defer cancel()
		startedAt := d.now()
		names, err := d.readNames(ctx, startedAt)
		if err != nil {
			d.log.WarnContext(ctx, "the custom domains could not be looked up: the cached ones are still served", "error", err)
			d.lastFailure.Store(&failure{startedAt, err})
			return nil, err
		}
		d.names.Store(names)
		return nil, nil
	})
}

// readNames reads the versions of the shards, and then the shards whose version has changed. A shard may be newer than
// the version that was read before. In this case, the next refresh reads the shard again.
func (d *Directory) readNames(ctx context.Context, startedAt time.Time) (*index, error) {
	before := d.names.Load()
	if before == nil {
		before = &index{}
	}
	var raw map[string]any
	if err := d.table.Get(ctx, versionKey(), &raw); err != nil && !errors.Is(err, store.ErrNotFound) {
		return nil, fmt.Errorf("read the versions of custom domains: %w", err)
	}
	next := &index{refreshedAt: startedAt, versions: map[string]int64{}, shards: maps.Clone(before.shards)}
	if next.shards == nil {
		next.shards = map[string]map[string]string{}
	}
	var changed []string
	var gets []*store.ReadRequest
	found := map[string]*map[string]any{}
	for shard, v := range raw {
		version, isNumber := v.(float64)
		if !isNumber || !strings.HasPrefix(shard, shardPrefix) {
			continue
		}
		next.versions[shard] = int64(version)
		if known, exists := before.versions[shard]; !exists || known != int64(version) {
			shardNames := new(map[string]any)
			changed, found[shard] = append(changed, shard), shardNames
			gets = append(gets, store.Get(indexKey(shard), shardNames))
		}
	}
	if len(gets) == 0 {
		return next, nil
	}
	if err := d.table.Load(ctx, gets...); err != nil {
		return nil, fmt.Errorf("read the names of custom domains: %w", err)
	}
	for _, shard := range changed {
		names := map[string]string{}
		for name, change := range *found[shard] {
			if text, ok := change.(string); ok {
				names[name] = text
			}
		}
		next.shards[shard] = names
	}
	return next, nil
}
