package accounts

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/gatewright/gatewright/shared/auth"
	"github.com/gatewright/gatewright/shared/credential"
	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/store"
)

// Authenticate returns who bears the account key. A text that is no account key
// is refused without a look-up; a known one is remembered, so that a busy
// caller costs no read. An unknown key costs one read each time and is not
// remembered: guessing is bounded by the management API's rate limit. Fault:
// Unauthenticated for an unknown or expired key.
func (s *Service) Authenticate(ctx context.Context, text string) (auth.Principal, error) {
	if !credential.WellFormed(credential.AccountKey, text) {
		return auth.Principal{}, refused()
	}
	sum := hash(text)
	key, ok := s.cache.get(sum)
	if !ok {
		err := s.parts.Table.Get(ctx, credentialKey(sum), &key)
		if errors.Is(err, store.ErrNotFound) {
			return auth.Principal{}, refused()
		}
		if err != nil {
			return auth.Principal{}, fmt.Errorf("read account key: %w", err)
		}
		s.cache.put(sum, key)
	}
	if key.ExpiresOn != nil && !s.parts.Now().Before(*key.ExpiresOn) {
		return auth.Principal{}, refused()
	}
	return auth.Principal{
		AccountID:   key.AccountID,
		AccountName: key.AccountName,
		KeyID:       key.ID,
		Label:       key.Label,
		Permissions: key.Permissions,
	}, nil
}

func refused() *fault.Fault {
	return fault.New(fault.Unauthenticated,
		"The account key is not valid. Send one that has not expired, as Authorization: Bearer gwa_….")
}

// cacheSize bounds the memory that known keys take: some 1 KiB each.
const cacheSize = 4096

// cache remembers known keys without a time limit: an account key is immutable
// and its expiry is checked at each use. Should keys ever be revoked before
// they expire, this has to learn a bound.
type cache struct {
	mu   sync.Mutex
	keys map[string]Key
}

func newCache() *cache { return &cache{keys: make(map[string]Key)} }

func (c *cache) get(sum string) (Key, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k, ok := c.keys[sum]
	return k, ok
}

func (c *cache) put(sum string, k Key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.keys) >= cacheSize {
		for known := range c.keys { // whichever comes first: callers are few
			delete(c.keys, known)
			break
		}
	}
	c.keys[sum] = k
}
