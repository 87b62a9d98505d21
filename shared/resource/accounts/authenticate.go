package accounts

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/core/auth"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/format/credential"
)

// Authenticate returns the principal of an account key. A text that does not have the form of an account key is
// rejected without a read. A known key is cached for cacheTTL, so a busy caller causes almost no reads. An unknown key
// is not cached and takes one read per request: the management API's rate limit bounds guessing. Fault: Unauthenticated
// for an unknown, revoked or expired key.
func (s *Service) Authenticate(ctx context.Context, text string) (auth.Principal, error) {
	if !credential.WellFormed(credential.AccountKey, text) {
		return auth.Principal{}, unauthenticatedFault()
	}
	return s.AuthenticateHash(ctx, hash(text))
}

// AuthenticateHash returns the same principal as Authenticate. sum is the hash of the key's text, as in
// Principal.Credential. Sessions store this hash of their key.
func (s *Service) AuthenticateHash(ctx context.Context, sum string) (auth.Principal, error) {
	startedAt := s.parts.Now()
	key, ok := s.cache.get(sum, startedAt)
	if !ok {
		err := s.parts.Table.Get(ctx, credentialKey(sum), &key)
		if errors.Is(err, store.ErrNotFound) {
			return auth.Principal{}, unauthenticatedFault()
		}
		if err != nil {
			return auth.Principal{}, fmt.Errorf("read account key: %w", err)
		}
		key = key.fromRecord()
		s.cache.put(sum, key, startedAt)
	}
	if key.expired(s.parts.Now()) {
		return auth.Principal{}, unauthenticatedFault()
	}
	return auth.Principal{
		AccountID:   key.AccountID,
		AccountName: key.AccountName,
		KeyID:       key.ID,
		Label:       key.Label,
		ExpiresOn:   key.ExpiresOn,
		Credential:  sum,
		Permissions: key.Permissions,
	}, nil
}

func unauthenticatedFault() *fault.Fault {
	return fault.New(fault.Unauthenticated,
		"The account key is not valid. Send one that is neither expired nor revoked, as Authorization: Bearer gwa_….")
}

// cacheTTL is how long a cached key is valid, from the beginning of its read. A revoked key must be refused everywhere
// within a minute. The other half of that minute is for slow reads, slow requests and clocks that drift.
const cacheTTL = 30 * time.Second

// cacheSize is the maximum number of cached keys, some 1 KiB each.
const cacheSize = 4096

// cache contains known keys.
type cache struct {
	mu   sync.Mutex
	keys map[string]*cachedKey
}

type cachedKey struct {
	key Key
	// readAt is the time when the read of the key began, by the wall clock only: a monotonic clock stops while a Lambda is frozen.
	readAt time.Time
	// recordedOn is the last day on which this process started to record the key's use, "" for none.
	recordedOn string
}

func newCache() *cache { return &cache{keys: make(map[string]*cachedKey)} }

func (c *cache) get(sum string, now time.Time) (Key, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := c.keys[sum]
	if k == nil {
		return Key{}, false
	}
	// After a clock was set back, the key's age is unknown.
	if age := now.Round(0).Sub(k.readAt); age < 0 || age >= cacheTTL {
		return Key{}, false
	}
	return k.key, true
}

func (c *cache) put(sum string, key Key, readAt time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.keys[sum]; !ok && len(c.keys) >= cacheSize {
		for victim := range c.keys { // any key: there are few callers
			delete(c.keys, victim)
			break
		}
	}
	c.keys[sum] = &cachedKey{key: key, readAt: readAt.Round(0)}
}

// claimUse returns a cached key if its use on a day is not recorded yet. The caller must then
// record the use.
func (c *cache) claimUse(sum, day string) (Key, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := c.keys[sum]
	if k == nil || k.key.LastUsedOn >= day || k.recordedOn >= day {
		return Key{}, false
	}
	k.recordedOn = day
	return k.key, true
}
