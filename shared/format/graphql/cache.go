package graphql

import (
	"crypto/sha256"
	"strings"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// Cache stores the results of Analyze, because clients send the same document many times with different variables. The
// number of entries and their bytes are bounded. It is safe for concurrent use. A nil Cache stores nothing.
type Cache struct {
	mu       sync.Mutex
	lru      *simplelru.LRU[cacheKey, cacheEntry]
	bytes    int
	maxBytes int
}

// cacheKey has the SHA-256 of a document, and the names that are ignored in it, separated by spaces.
type cacheKey struct {
	sum     [sha256.Size]byte
	ignored string
}

// cacheEntry is a result of Analyze.
type cacheEntry struct {
	document *Document
	refused  *Error
	bytes    int
}

// Bounds of a Cache.
const (
	maxEntries    = 10_000
	maxCacheBytes = 8 << 20
)

// NewCache returns a Cache with the default bounds.
func NewCache() *Cache { return newCache(maxEntries, maxCacheBytes) }

func newCache(entries, bytes int) *Cache {
	c := &Cache{maxBytes: bytes}
	lru, err := simplelru.NewLRU(entries, func(_ cacheKey, r cacheEntry) { c.bytes -= r.bytes })
	if err != nil {
		panic("graphql: " + err.Error()) // entries is below 1
	}
	c.lru = lru
	return c
}

// Analyze returns the stored result of the function Analyze. If there is none, it calls the function and stores the
// result, unless the result is large.
func (c *Cache) Analyze(text string, ignored []string) (*Document, *Error) {
	if c == nil {
		return Analyze(text, ignored)
	}
	key := cacheKey{sum: sha256.Sum256([]byte(text)), ignored: strings.Join(ignored, " ")}
	c.mu.Lock()
	r, ok := c.lru.Get(key)
	c.mu.Unlock()
	if ok {
		return r.document, r.refused
	}
	r.document, r.refused = Analyze(text, ignored)
	r.bytes = r.size()
	if r.bytes > c.maxBytes/100 { // about a thousand operations: no client repeats such a document
		return r.document, r.refused
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.lru.Contains(key) {
		c.lru.Add(key, r)
		c.bytes += r.bytes
	}
	for c.bytes > c.maxBytes {
		c.lru.RemoveOldest()
	}
	return r.document, r.refused
}

// size estimates the memory of an entry, including its share of the list and the map.
func (e *cacheEntry) size() int {
	n := 300
	if e.refused != nil {
		n += len(e.refused.Message)
	}
	if e.document != nil {
		for i := range e.document.Operations {
			n += 80 + len(e.document.Operations[i].Name)
		}
	}
	return n
}
