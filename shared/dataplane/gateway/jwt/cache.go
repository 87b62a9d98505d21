package jwt

import (
	"crypto/sha256"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// digest is a SHA-256.
type digest [sha256.Size]byte

// Bounds of a Cache: the number of verified tokens, their memory, and the number of issuers whose keys it stores.
const (
	maxTokens     = 65_536
	maxTokenBytes = 32 << 20
	maxSources    = 1024
	// tokenShards is the number of parts for tokens. Each part has its own lock.
	tokenShards = 16
)

// Cache stores verified tokens by their digests, and the keys of issuers. It is bounded, and stores no tokens. It is safe for
// concurrent use. A nil Cache stores nothing.
type Cache struct {
	shards [tokenShards]tokenShard

	mu      sync.Mutex
	sources *simplelru.LRU[sourceKey, *source]
}

// tokenShard is a part of the verified tokens.
type tokenShard struct {
	mu    sync.Mutex
	lru   *simplelru.LRU[digest, *verified]
	bytes int
}

// sourceKey identifies the keys of an issuer. Each account has its own, because it has its own connections.
type sourceKey struct{ account, issuer, keysURL string }

// NewCache returns an empty Cache.
func NewCache() *Cache { return newCache(maxTokens) }

func newCache(tokens int) *Cache {
	c := &Cache{sources: newLRU[sourceKey, *source](maxSources, nil)}
	for i := range c.shards {
		s := &c.shards[i]
		s.lru = newLRU(max(1, tokens/tokenShards), func(_ digest, t *verified) { s.bytes -= t.size() })
	}
	return c
}

func newLRU[K comparable, V any](size int, onEvict simplelru.EvictCallback[K, V]) *simplelru.LRU[K, V] {
	lru, err := simplelru.NewLRU(size, onEvict)
	if err != nil {
		panic("jwt: " + err.Error()) // size is below 1
	}
	return lru
}

// size estimates the memory of a verified token.
func (t *verified) size() int {
	n := 400 + len(t.user.Sub) + len(t.user.Data)
	for _, scope := range t.user.Scopes {
		n += 16 + len(scope)
	}
	return n
}

// get returns a verified token, nil for an unknown one.
func (c *Cache) get(id digest) *verified {
	if c == nil {
		return nil
	}
	s := &c.shards[id[0]%tokenShards]
	s.mu.Lock()
	defer s.mu.Unlock()
	t, _ := s.lru.Get(id)
	return t
}

// put stores a verified token.
func (c *Cache) put(id digest, t *verified) {
	if c == nil {
		return
	}
	s := &c.shards[id[0]%tokenShards]
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lru.Remove(id) // also subtracts its bytes
	s.lru.Add(id, t)
	s.bytes += t.size()
	for s.bytes > maxTokenBytes/tokenShards {
		s.lru.RemoveOldest()
	}
}

// source returns the source of the keys for a configuration. Verifiers of an account with the same issuer share it.
func (c *Cache) source(config Config) *source {
	s := &source{client: config.Client, issuer: config.Issuer, keysURL: config.KeysURL, now: config.Now}
	if c == nil {
		return s
	}
	id := sourceKey{config.Account, config.Issuer, config.KeysURL}
	if config.KeysURL != "" {
		id.issuer = "" // the keys do not depend on it
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if known, exists := c.sources.Get(id); exists {
		return known
	}
	c.sources.Add(id, s)
	return s
}
