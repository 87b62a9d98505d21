package graphql

import (
	"crypto/sha256"
	"strings"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// Cache remembers what is known of documents: clients send the same ones again and again, with
// other variables. It is bounded in entries and in bytes, and safe for concurrent use. nil is one that
// remembers nothing.
type Cache struct {
	mu    sync.Mutex
	known *simplelru.LRU[cacheKey, remembered]
	bytes int
	most  int
}

// cacheKey is a document and the names that are ignored in it, which have no white space.
type cacheKey struct {
	sum     [sha256.Size]byte
	ignored string
}

// remembered is what Analyse has answered.
type remembered struct {
	document *Document
	refused  *Error
	bytes    int
}

// Bounds of a Cache.
const (
	maxEntries    = 10_000
	maxCacheBytes = 8 << 20
)

// NewCache makes a Cache of the usual bounds.
func NewCache() *Cache { return newCache(maxEntries, maxCacheBytes) }

func newCache(entries, bytes int) *Cache {
	c := &Cache{most: bytes}
	known, err := simplelru.NewLRU(entries, func(_ cacheKey, r remembered) { c.bytes -= r.bytes })
	if err != nil {
		panic("graphql: " + err.Error()) // for a number below 1
	}
	c.known = known
	return c
}

// Analyse is the function of the name, and remembers what it answers: a document by its SHA-256
// with the names that are ignored, so that what is known of one is never taken for another.
// Limits are no part of it, since what is remembered are facts.
func (c *Cache) Analyse(text string, ignored []string) (*Document, *Error) {
	if c == nil {
		return Analyse(text, ignored)
	}
	key := cacheKey{sum: sha256.Sum256([]byte(text)), ignored: strings.Join(ignored, " ")}
	c.mu.Lock()
	r, ok := c.known.Get(key)
	c.mu.Unlock()
	if ok {
		return r.document, r.refused
	}
	r.document, r.refused = Analyse(text, ignored)
	r.bytes = r.size()
	if r.bytes > c.most/100 { // thousands of operations: no client's everyday document
		return r.document, r.refused
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.known.Contains(key) {
		c.known.Add(key, r)
		c.bytes += r.bytes
	}
	for c.bytes > c.most {
		c.known.RemoveOldest()
	}
	return r.document, r.refused
}

// size is about what an entry takes, the list's and the map's parts of it included.
func (r *remembered) size() int {
	n := 300
	if r.refused != nil {
		n += len(r.refused.Message)
	}
	if r.document != nil {
		for i := range r.document.Operations {
			n += 80 + len(r.document.Operations[i].Name)
		}
	}
	return n
}
