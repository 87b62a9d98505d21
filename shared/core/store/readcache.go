package store

import (
	"context"
	"errors"
	"slices"
	"sync"
)

// ReadCache is a read cache for one request. It has the items that were read, put or deleted under a
// context, in their states after the commits under that context. Reads under a context of CacheOnly
// return these items, without another read of the table. Table.CommitDeferred takes another ReadCache:
// it checks that the items are unchanged, so that a precondition such as If-Match still holds.
//
// A ReadCache does not have the results of queries.
type ReadCache struct {
	mu    sync.Mutex
	items map[Key]readItem // readItem.item is nil for an item that does not exist
}

// ErrNotCached is the error of reads under CacheOnly for items that the cache does not have.
var ErrNotCached = errors.New("store: not known without another look at the table")

type (
	readCacheKey struct{}
	cacheOnlyKey struct{}
)

// WithReadCache returns a context under which items read by key are cached, and updated with each commit.
func WithReadCache(ctx context.Context) (context.Context, *ReadCache) {
	c := &ReadCache{items: map[Key]readItem{}}
	return context.WithValue(ctx, readCacheKey{}, c), c
}

// CacheOnly returns a context whose reads use only the cache. Queries,
// and reads of items that are not in the cache, return ErrNotCached.
func (c *ReadCache) CacheOnly(ctx context.Context) context.Context {
	ctx = WithoutReadSet(ctx, "nothing is committed under it")
	return context.WithValue(ctx, cacheOnlyKey{}, c)
}

func readCacheOf(ctx context.Context) *ReadCache {
	c, _ := ctx.Value(readCacheKey{}).(*ReadCache)
	return c
}

func cacheOnlyOf(ctx context.Context) *ReadCache {
	c, _ := ctx.Value(cacheOnlyKey{}).(*ReadCache)
	return c
}

// add remembers the items that a Load read, and that an item did not exist. Unchecked requests are no exception.
func (c *ReadCache) add(requests []*ReadRequest, items []Item) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range requests {
		var item Item
		if idx := slices.IndexFunc(items, func(i Item) bool { return KeyOf(i) == r.key }); idx >= 0 {
			item = items[idx]
		}
		c.items[r.key] = readItem{item, unchanged(item, r.record)}
	}
}

// update stores the new states of the items that a commit has put, deleted or updated. It ignores
// updates of items that are not in the cache, because it does not know their other attributes.
func (c *ReadCache) update(writes []Write) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, w := range writes {
		before, known := c.items[w.Key]
		switch {
		case w.Kind == CheckKind:
			continue
		case w.Kind == UpdateKind && !known:
			continue
		}
		after, err := w.Apply(before.item)
		if err != nil {
			delete(c.items, w.Key)
			continue
		}
		c.items[w.Key] = readItem{item: after}
	}
}

// Has reports whether the cache has the item, and the item exists. A nil ReadCache has no items.
func (c *ReadCache) Has(key Key) bool {
	if c == nil {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.items[key].item != nil
}

// read returns cached items as Backend.Read does. It returns ErrNotCached if an item is not in the cache.
func (c *ReadCache) read(keys []Key) ([]Item, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []Item
	for _, key := range keys {
		r, known := c.items[key]
		switch {
		case !known:
			return nil, ErrNotCached
		case r.item != nil:
			out = append(out, r.item)
		}
	}
	return out, nil
}

// withConditions returns the writes with the conditions that all cached items are unchanged. It changes writes.
func (c *ReadCache) withConditions(writes []Write) []Write {
	if c == nil {
		return writes
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return addConditions(writes, c.items)
}
