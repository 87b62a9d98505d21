package tunnels

import (
	"context"
	"sync"
	"time"

	"github.com/gatewright/gatewright/shared/base/bounded"
	"github.com/gatewright/gatewright/shared/base/coalesce"
)

const (
	// Staleness is the maximum time that gateways, relays and agents use the previous state after a change. It is counted
	// from the beginning of a read.
	Staleness   = 5 * time.Second
	readTimeout = 2 * time.Second
	// maxCached is the maximum number of results in one cache. A result has some kilobytes.
	maxCached = 4096
)

// cache caches at most maxCached results for Staleness. It is safe for concurrent use. now must be set.
type cache[V any] struct {
	now   func() time.Time
	reads coalesce.Group[V]

	mu      sync.Mutex
	entries map[string]cachedValue[V]
}

// cachedValue is a cached result with the time of its read.
type cachedValue[V any] struct {
	readAt time.Time
	value  V
}

// get returns the cached result of a key. If there is no fresh result,
// get calls read once for all concurrent callers. Errors are not cached.
func (c *cache[V]) get(ctx context.Context, key string, read func(ctx context.Context) (V, error)) (V, error) {
	if cached, ok := c.lookup(key); ok {
		return cached, nil
	}
	return c.reads.Do(ctx, key, readTimeout, func(ctx context.Context) (V, error) {
		startedAt := c.now()
		value, err := read(ctx)
		if err == nil {
			c.store(key, cachedValue[V]{startedAt, value})
		}
		return value, err
	})
}

func (c *cache[V]) lookup(key string) (value V, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	entry, ok := c.entries[key]
	// a negative age means that the clock was set back
	if age := c.now().Sub(entry.readAt); !ok || age < 0 || age >= Staleness {
		return value, false
	}
	return entry.value, true
}

func (c *cache[V]) store(key string, entry cachedValue[V]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.entries == nil {
		c.entries = map[string]cachedValue[V]{}
	}
	bounded.Put(c.entries, key, entry, maxCached)
}
