package policy

import (
	"container/list"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/gatewright/gatewright/shared/base/coalesce"
	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/dataplane/gateway/pipeline"
)

// Keys verifies API keys; shared/resource/keys implements it with one round trip to the table.
type Keys interface {
	// Verify returns the owner of a key. If the key is not valid in the bucket, the error is a fault
	// of the kind fault.Unauthenticated. If no key is valid in the bucket, the fault has a cause,
	// which is logged for the operator. Any other error means that the key could not be verified.
	Verify(ctx context.Context, in BucketRef, key string) (KeyOwner, error)
}

// BucketRef is the bucket whose keys a route accepts.
type BucketRef struct {
	AccountID string
	// Name and ID identify the bucket. The build sets both. An artifact of an early release has
	// only one of them, and none for the environment's own bucket.
	Name, ID string
	// Project and Environment identify the environment's own bucket.
	Project, Environment string
}

// KeyOwner is the owner of a key.
type KeyOwner struct {
	// Sub is the consumer's name.
	Sub string
	// Data is the consumer's metadata, a JSON object, or nil.
	Data json.RawMessage
	// ExpiresOn is when the key expires, nil for never.
	ExpiresOn *time.Time
}

const (
	// negativeTTL is how long a refusal is cached. It is long enough to protect the table from a client
	// that repeats a wrong key, and short enough that a key works soon after its expiry was extended.
	negativeTTL = 5 * time.Second
	// lookupTimeout limits a lookup. A lookup continues after its request has ended, because other requests may wait for it.
	lookupTimeout = 5 * time.Second
	// cacheShards is the number of parts of the cache. Each part has its own lock.
	cacheShards = 16
)

// KeyCache caches the results of Keys. A positive result is cached for the policy's cacheTtlSeconds, but
// never beyond the key's own expiry. This time starts when the lookup begins. So if a key is revoked
// during a lookup, the result is not used for longer than other results. A result never replaces the result
// of a lookup that began later, so a delayed lookup can't replace the refusal of a revoked key.
//
// The cache stores no keys, only a hash of each key with a secret of this process. Positive and negative
// results have separate limits, so made-up keys do not displace valid ones. It is safe for concurrent use.
type KeyCache struct {
	keys    Keys
	now     func() time.Time
	secret  [32]byte
	lookups coalesce.Group[*keyResult]
	shards  [cacheShards]cacheShard
}

// keyHash identifies a key of a bucket within this process.
type keyHash [sha256.Size]byte

// bucket is a BucketRef with the salt for the hashes of its keys.
type bucket struct {
	ref  BucketRef
	salt keyHash
}

// keyResult is the result of a lookup.
type keyResult struct {
	hash      keyHash
	user      *pipeline.User // nil for an invalid key
	cause     error          // why no key of the bucket is valid, nil if other keys can be valid
	startedAt time.Time
	expiresAt time.Time // the key's own expiry, zero for never
}

type cacheShard struct {
	mu       sync.Mutex
	byHash   map[keyHash]*list.Element
	valid    list.List // of *keyResult, the most recently used first
	invalid  list.List // likewise
	capacity int       // maximum length of each list
}

// NewKeyCache returns a cache of positive and negative results. size is the approximate maximum number of positive
// results, and also of negative results. Each shard has space for at least one of each. secret is random and belongs to
// this process only.
func NewKeyCache(keys Keys, size int, secret [32]byte, now func() time.Time) *KeyCache {
	c := &KeyCache{keys: keys, now: now, secret: secret}
	for i := range c.shards {
		c.shards[i].byHash = make(map[keyHash]*list.Element)
		c.shards[i].capacity = max(1, size/cacheShards)
	}
	return c
}

// bucket returns a bucket with its salt, which is a hash of the cache's secret and all fields of ref.
func (c *KeyCache) bucket(ref BucketRef) bucket {
	h := sha256.New()
	h.Write(c.secret[:])
	for _, part := range []string{ref.AccountID, ref.ID, ref.Name, ref.Project, ref.Environment} {
		h.Write(strconv.AppendInt(nil, int64(len(part)), 10))
		h.Write([]byte(":" + part))
	}
	return bucket{ref: ref, salt: keyHash(h.Sum(nil))}
}

// check returns the owner of a key, nil for an invalid key. If no key of the bucket is valid, the error is an
// Unauthenticated fault. Any other error means that the key could not be verified. ttl is the maximum age of a
// positive result.
func (c *KeyCache) check(ctx context.Context, b *bucket, key string, ttl time.Duration) (*pipeline.User, error) {
	var buffer [len(b.salt) + 128]byte
	hash := keyHash(sha256.Sum256(append(append(buffer[:0], b.salt[:]...), key...)))
	shard := &c.shards[hash[0]%cacheShards]
	if result := shard.get(hash); result != nil {
		if user, ok := result.userAt(c.now(), ttl); ok {
			return user, result.cause
		}
	}
	return c.lookup(ctx, b, key, hash, ttl)
}

// lookup looks up a key with Keys. Concurrent calls for a key share one lookup. The lookup
// continues if the request that started it has ended, because other requests may wait for it.
func (c *KeyCache) lookup(
	ctx context.Context, b *bucket, key string, hash keyHash, ttl time.Duration,
) (*pipeline.User, error) {
	result, err := c.lookups.Do(ctx, string(hash[:]), lookupTimeout, func(ctx context.Context) (*keyResult, error) {
		return c.load(ctx, b, key, hash)
	})
	if err != nil {
		return nil, err
	}
	user, _ := result.userAt(c.now(), ttl)
	return user, result.cause
}

// load calls Keys and caches the result, which can be a refusal. It does not cache that a key could not be verified.
func (c *KeyCache) load(ctx context.Context, b *bucket, key string, hash keyHash) (*keyResult, error) {
	result := &keyResult{hash: hash, startedAt: c.now()}
	identity, err := c.keys.Verify(ctx, b.ref, key)
	switch {
	case fault.Is(err, fault.Unauthenticated):
		if f, ok := errors.AsType[*fault.Fault](err); ok && f.Unwrap() != nil {
			result.cause = err
		}
	case err != nil:
		return nil, fmt.Errorf("verify an API key: %w", err)
	default:
		result.user = &pipeline.User{Sub: identity.Sub, Data: identity.Data}
		if identity.ExpiresOn != nil {
			result.expiresAt = *identity.ExpiresOn
		}
	}
	c.shards[hash[0]%cacheShards].put(result)
	return result, nil
}

// userAt returns the user of a result at the time now, nil if the key is not valid then. ok is false if the result is
// too old to be used.
func (r *keyResult) userAt(now time.Time, ttl time.Duration) (user *pipeline.User, ok bool) {
	if r.user == nil {
		return nil, now.Sub(r.startedAt) < negativeTTL
	}
	if !r.expiresAt.IsZero() && !now.Before(r.expiresAt) {
		// The owner of the key can extend its expiry, so use the refusal only for negativeTTL.
		return nil, now.Sub(r.expiresAt) < negativeTTL && now.Sub(r.startedAt) < ttl
	}
	return r.user, now.Sub(r.startedAt) < ttl
}

// get returns the cached result of a key, nil if there is none. The result can be too old to be used.
func (s *cacheShard) get(hash keyHash) *keyResult {
	s.mu.Lock()
	defer s.mu.Unlock()
	element := s.byHash[hash]
	if element == nil {
		return nil
	}
	result := element.Value.(*keyResult) //nolint:errcheck // the lists contain only *keyResult
	s.listOf(result).MoveToFront(element)
	return result
}

// put caches a result, unless the shard has the result of a lookup that began later.
func (s *cacheShard) put(result *keyResult) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if element := s.byHash[result.hash]; element != nil {
		old := element.Value.(*keyResult) //nolint:errcheck // the lists contain only *keyResult
		if old.startedAt.After(result.startedAt) {
			return
		}
		s.listOf(old).Remove(element)
	}
	l := s.listOf(result)
	s.byHash[result.hash] = l.PushFront(result)
	if l.Len() > s.capacity {
		oldest := l.Remove(l.Back()).(*keyResult) //nolint:errcheck // the lists contain only *keyResult
		delete(s.byHash, oldest.hash)
	}
}

func (s *cacheShard) listOf(result *keyResult) *list.List {
	if result.user == nil {
		return &s.invalid
	}
	return &s.valid
}
