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

	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/flight"
	"github.com/gatewright/gatewright/shared/gateway/pipeline"
)

// Keys verifies API keys: shared/keys does, in one round trip to the table.
type Keys interface {
	// Verify says whose key it is. A key that opens nothing in the bucket,
	// whatever the reason, is a fault of the kind fault.Unauthenticated, with a
	// cause where no key does: the operator is to know. Any other error means that
	// nobody knows.
	Verify(ctx context.Context, in BucketRef, key string) (Identity, error)
}

// BucketRef is the bucket whose keys a route accepts.
type BucketRef struct {
	AccountID string
	// Name or ID; neither for the environment's own bucket.
	Name, ID string
	// Project and Environment say which one that is.
	Project, Environment string
}

// Identity is whose key it is.
type Identity struct {
	// Sub is the consumer's name.
	Sub string
	// Data is the consumer's metadata, a JSON object, or nil.
	Data json.RawMessage
	// ExpiresOn is when the key ends, nil for never.
	ExpiresOn *time.Time
}

const (
	// negativeTTL is how long a refusal is believed: long enough to spare the
	// table a client that repeats a wrong key, short enough that a key whose
	// expiry was moved works soon.
	negativeTTL = 5 * time.Second
	// lookupTimeout bounds a look-up, which no request's end interrupts: others
	// may wait for it.
	lookupTimeout = 5 * time.Second
	cacheShards   = 16
)

// KeyCache remembers what Keys said. A positive answer is believed for the
// policy's cacheTtlSeconds, counted from the start of its look-up, so a key
// that is revoked while a look-up runs is refused as early as any other; and
// never beyond the key's own expiry. An answer replaces only those whose look-up
// began before its own: none in flight revives a key that was seen revoked.
//
// Keys are remembered by a hash under a secret of this process, never by their
// text. Positive and negative answers have each their own bound, so made-up keys
// push no real one out. It is safe for concurrent use.
type KeyCache struct {
	keys    Keys
	now     func() time.Time
	secret  [32]byte
	flights flight.Group[*answer]
	shards  [cacheShards]cacheShard
}

// keyHash names a key of a bucket within this process.
type keyHash [sha256.Size]byte

// bucket is a BucketRef with its part of the hash.
type bucket struct {
	ref  BucketRef
	salt keyHash
}

// answer is what a look-up said.
type answer struct {
	hash    keyHash
	user    *pipeline.User // nil for a key that opens nothing
	cause   error          // why no key does, nil for where others do
	started time.Time
	expires time.Time // the key's own expiry, zero for never
}

type cacheShard struct {
	mu       sync.Mutex
	byHash   map[keyHash]*list.Element
	good     list.List // of *answer, the most recently used first
	bad      list.List
	capacity int
}

// NewKeyCache makes a cache for up to size positive and size negative answers.
// secret is random and this process's own.
func NewKeyCache(keys Keys, size int, secret [32]byte, now func() time.Time) *KeyCache {
	c := &KeyCache{keys: keys, now: now, secret: secret}
	for i := range c.shards {
		c.shards[i].byHash = make(map[keyHash]*list.Element)
		c.shards[i].capacity = max(1, size/cacheShards)
	}
	return c
}

func (c *KeyCache) bucket(ref BucketRef) bucket {
	h := sha256.New()
	h.Write(c.secret[:])
	for _, part := range []string{ref.AccountID, ref.ID, ref.Name, ref.Project, ref.Environment} {
		h.Write(strconv.AppendInt(nil, int64(len(part)), 10))
		h.Write([]byte(":" + part))
	}
	return bucket{ref: ref, salt: keyHash(h.Sum(nil))}
}

// check says whose key it is, nil for a key that opens nothing, with an
// Unauthenticated fault where no key does. ttl is how old a positive answer may be.
func (c *KeyCache) check(ctx context.Context, b *bucket, key string, ttl time.Duration) (*pipeline.User, error) {
	var buffer [len(b.salt) + 128]byte
	hash := keyHash(sha256.Sum256(append(append(buffer[:0], b.salt[:]...), key...)))
	shard := &c.shards[hash[0]%cacheShards]
	if a := shard.get(hash); a != nil {
		if user, ok := a.at(c.now(), ttl); ok {
			return user, a.cause
		}
	}
	return c.ask(ctx, b, key, hash, ttl)
}

// ask says what Keys says. One look-up is for all that ask at once. It outlives the request that
// began it: the others wait for it too.
func (c *KeyCache) ask(ctx context.Context, b *bucket, key string, hash keyHash, ttl time.Duration) (*pipeline.User, error) {
	a, err := c.flights.Do(ctx, string(hash[:]), lookupTimeout, func(ctx context.Context) (*answer, error) { return c.load(ctx, b, key, hash) })
	if err != nil {
		return nil, err
	}
	user, _ := a.at(c.now(), ttl)
	return user, a.cause
}

// load asks Keys and remembers the answer. An error is remembered by nobody.
func (c *KeyCache) load(ctx context.Context, b *bucket, key string, hash keyHash) (*answer, error) {
	a := &answer{hash: hash, started: c.now()}
	identity, err := c.keys.Verify(ctx, b.ref, key)
	switch {
	case fault.Is(err, fault.Unauthenticated):
		if f, ok := errors.AsType[*fault.Fault](err); ok && f.Unwrap() != nil {
			a.cause = err
		}
	case err != nil:
		return nil, fmt.Errorf("verify an API key: %w", err)
	default:
		a.user = &pipeline.User{Sub: identity.Sub, Data: identity.Data}
		if identity.ExpiresOn != nil {
			a.expires = *identity.ExpiresOn
		}
	}
	c.shards[hash[0]%cacheShards].put(a)
	return a, nil
}

// at returns the answer as it holds now, and whether it holds at all.
func (a *answer) at(now time.Time, ttl time.Duration) (user *pipeline.User, ok bool) {
	if a.user == nil {
		return nil, now.Sub(a.started) < negativeTTL
	}
	if !a.expires.IsZero() && !now.Before(a.expires) {
		// What has expired stays so until somebody moves the expiry.
		return nil, now.Sub(a.expires) < negativeTTL && now.Sub(a.started) < ttl
	}
	return a.user, now.Sub(a.started) < ttl
}

func (s *cacheShard) get(hash keyHash) *answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	element := s.byHash[hash]
	if element == nil {
		return nil
	}
	a := element.Value.(*answer) //nolint:errcheck // the lists hold nothing else
	s.listOf(a).MoveToFront(element)
	return a
}

func (s *cacheShard) put(a *answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if element := s.byHash[a.hash]; element != nil {
		old := element.Value.(*answer) //nolint:errcheck // the lists hold nothing else
		if old.started.After(a.started) {
			return
		}
		s.listOf(old).Remove(element)
	}
	l := s.listOf(a)
	s.byHash[a.hash] = l.PushFront(a)
	if l.Len() > s.capacity {
		oldest := l.Remove(l.Back()).(*answer) //nolint:errcheck // the lists hold nothing else
		delete(s.byHash, oldest.hash)
	}
}

func (s *cacheShard) listOf(a *answer) *list.List {
	if a.user == nil {
		return &s.bad
	}
	return &s.good
}
