package accounts

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/gatewright/gatewright/shared/auth"
	"github.com/gatewright/gatewright/shared/credential"
	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/store"
)

// Authenticate returns who bears the account key. A text that is no account key
// is refused without a look-up; a known one is believed for a while, so that a busy
// caller costs next to no read. An unknown key costs one read each time and is not
// remembered: guessing is bounded by the management API's rate limit. Fault:
// Unauthenticated for an unknown, revoked or expired key.
func (s *Service) Authenticate(ctx context.Context, text string) (auth.Principal, error) {
	if !credential.WellFormed(credential.AccountKey, text) {
		return auth.Principal{}, refused()
	}
	return s.Recognise(ctx, hash(text))
}

// Recognise is Authenticate by the hash of a key's text, Principal.Credential: a session has it of its key.
func (s *Service) Recognise(ctx context.Context, sum string) (auth.Principal, error) {
	begun := s.parts.Now()
	key, ok := s.cache.get(sum, begun)
	if !ok {
		err := s.parts.Table.Get(ctx, credentialKey(sum), &key)
		if errors.Is(err, store.ErrNotFound) {
			return auth.Principal{}, refused()
		}
		if err != nil {
			return auth.Principal{}, fmt.Errorf("read account key: %w", err)
		}
		key = key.loaded()
		s.cache.put(sum, key, begun)
	}
	if key.expired(s.parts.Now()) {
		return auth.Principal{}, refused()
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

func refused() *fault.Fault {
	return fault.New(fault.Unauthenticated,
		"The account key is not valid. Send one that is neither expired nor revoked, as Authorization: Bearer gwa_….")
}

// believed is how long a key that was read is believed, from when its reading
// began. A revoked key is to be refused everywhere within a minute: this leaves half
// of it for slow reads, slow requests and clocks that drift.
const believed = 30 * time.Second

// cacheSize bounds the memory that known keys take: some 1 KiB each.
const cacheSize = 4096

// cache remembers known keys.
type cache struct {
	mu   sync.Mutex
	keys map[string]*known
}

type known struct {
	key Key
	// read is when reading it began, by the wall clock alone: a monotonic one
	// stands still while a Lambda is frozen.
	read time.Time
	// noted is the day that a note of its use was begun for, "" for none.
	noted string
}

func newCache() *cache { return &cache{keys: make(map[string]*known)} }

func (c *cache) get(sum string, now time.Time) (Key, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := c.keys[sum]
	if k == nil {
		return Key{}, false
	}
	// A clock that was set back says nothing about the key's age.
	if age := now.Round(0).Sub(k.read); age < 0 || age >= believed {
		return Key{}, false
	}
	return k.key, true
}

func (c *cache) put(sum string, k Key, read time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.keys[sum]; !ok && len(c.keys) >= cacheSize {
		for known := range c.keys { // whichever comes first: callers are few
			delete(c.keys, known)
			break
		}
	}
	c.keys[sum] = &known{key: k, read: read.Round(0)}
}

// claimNote gives a known key whose use on a day is to be noted by the caller.
func (c *cache) claimNote(sum, day string) (Key, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := c.keys[sum]
	if k == nil || k.key.LastUsedOn >= day || k.noted >= day {
		return Key{}, false
	}
	k.noted = day
	return k.key, true
}
