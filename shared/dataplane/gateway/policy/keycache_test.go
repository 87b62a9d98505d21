package policy

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/dataplane/gateway/pipeline"
)

// keysFunc is a function that implements Keys.
type keysFunc func(ctx context.Context, in BucketRef, key string) (KeyOwner, error)

func (f keysFunc) Verify(ctx context.Context, in BucketRef, key string) (KeyOwner, error) {
	return f(ctx, in, key)
}

var errUnknown = fault.New(fault.Unauthenticated, "Authorization Failed")

// newCache returns a cache, and one of its buckets. size is the approximate maximum number of valid keys in the cache,
// and also of invalid keys.
func newCache(f keysFunc, size int) (*KeyCache, *bucket) {
	c := NewKeyCache(f, size, [32]byte{1}, time.Now)
	b := c.bucket(BucketRef{AccountID: "a1", Name: "bucket"})
	return c, &b
}

func mustCheck(t *testing.T, c *KeyCache, b *bucket, key string, ttl time.Duration) *pipeline.User {
	t.Helper()
	user, err := c.check(t.Context(), b, key, ttl)
	if err != nil {
		t.Fatalf("check(%s) error = %v, want none", key, err)
	}
	return user
}

func TestResultIsCachedFromTheStartOfTheLookup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lookups := 0
		revoked := false
		c, b := newCache(func(context.Context, BucketRef, string) (KeyOwner, error) {
			lookups++
			known := !revoked
			time.Sleep(4 * time.Second) // the result is from the start of the look-up
			if !known {
				return KeyOwner{}, errUnknown
			}
			return KeyOwner{Sub: "acme"}, nil
		}, 100)
		started := time.Now()
		if user := mustCheck(t, c, b, "key", time.Minute); user == nil || user.Sub != "acme" {
			t.Fatalf("check(key) = %v, want the user acme", user)
		}
		revoked = true
		time.Sleep(time.Until(started.Add(time.Minute - time.Nanosecond)))
		if user := mustCheck(t, c, b, "key", time.Minute); user == nil || lookups != 1 {
			t.Errorf("check(key) before the end of the TTL: user = %v, look-ups = %d, want a user and 1", user, lookups)
		}
		time.Sleep(time.Nanosecond)
		if user := mustCheck(t, c, b, "key", time.Minute); user != nil || lookups != 2 {
			t.Errorf("check(key) after the TTL: user = %v, look-ups = %d, want none and 2", user, lookups)
		}
		if user := mustCheck(t, c, b, "key", time.Hour); user != nil {
			t.Errorf("check(revoked key) with a longer TTL = %v, want none", user)
		}
	})
}

func TestLookupInFlightDoesNotRestoreRevokedKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := newCache(nil, 100)
		hash := keyHash{7}
		shard := &c.shards[hash[0]%cacheShards]
		early := time.Now()
		time.Sleep(time.Second)
		// A look-up that started later has found the key revoked and finishes first.
		shard.put(&keyResult{hash: hash, startedAt: time.Now()})
		shard.put(&keyResult{hash: hash, startedAt: early, user: &pipeline.User{Sub: "acme"}})
		if result := shard.get(hash); result.user != nil {
			t.Errorf("get(hash) = %v, want the result of the later look-up, no user", result.user)
		}
	})
}

func TestCachedKeyExpiresAtItsExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		expiry := time.Now().Add(20 * time.Second)
		lookups := 0
		c, b := newCache(func(context.Context, BucketRef, string) (KeyOwner, error) {
			lookups++
			if !time.Now().Before(expiry) {
				return KeyOwner{}, errUnknown
			}
			return KeyOwner{Sub: "acme", ExpiresOn: &expiry}, nil
		}, 100)
		if mustCheck(t, c, b, "key", time.Minute) == nil {
			t.Fatal("check(key) before its expiry = nil, want a user")
		}
		time.Sleep(20*time.Second - time.Nanosecond)
		if mustCheck(t, c, b, "key", time.Minute) == nil {
			t.Error("check(key) one nanosecond before its expiry = nil, want a user")
		}
		time.Sleep(time.Nanosecond)
		if mustCheck(t, c, b, "key", time.Minute) != nil {
			t.Error("check(key) at its expiry = a user, want nil")
		}
		if lookups != 1 {
			t.Errorf("check(key): look-ups = %d, want 1", lookups)
		}
		// The key's owner extends its expiry: a cached refusal hides this only for a short time.
		expiry = time.Now().Add(time.Hour)
		time.Sleep(negativeTTL)
		if mustCheck(t, c, b, "key", time.Minute) == nil {
			t.Error("check(key) after its expiry was extended = nil, want a user")
		}
	})
}

func TestRefusalIsCachedBriefly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lookups := 0
		known := false
		c, b := newCache(func(context.Context, BucketRef, string) (KeyOwner, error) {
			lookups++
			if !known {
				return KeyOwner{}, errUnknown
			}
			return KeyOwner{Sub: "acme"}, nil
		}, 100)
		for range 3 {
			if mustCheck(t, c, b, "key", time.Minute) != nil {
				t.Fatal("check(unknown key) = a user, want nil")
			}
		}
		if lookups != 1 {
			t.Errorf("check(key): look-ups = %d, want 1", lookups)
		}
		known = true
		time.Sleep(negativeTTL)
		if mustCheck(t, c, b, "key", time.Minute) == nil {
			t.Error("check(key) after the TTL of the refusal = nil, want a user")
		}
	})
}

func TestFailedLookupIsNotCached(t *testing.T) {
	broken := errors.New("the table can't be reached")
	fails := true
	c, b := newCache(func(context.Context, BucketRef, string) (KeyOwner, error) {
		if fails {
			return KeyOwner{}, broken
		}
		return KeyOwner{Sub: "acme"}, nil
	}, 100)
	if user, err := c.check(t.Context(), b, "key", time.Minute); !errors.Is(err, broken) || user != nil {
		t.Errorf("check(key) with a failing look-up = %v, %v, want no user and %v", user, err, broken)
	}
	fails = false
	if mustCheck(t, c, b, "key", time.Minute) == nil {
		t.Error("check(key) after a failed look-up = nil, want a user")
	}
}

func TestConcurrentRequestsShareALookup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lookups atomic.Int32
		c, b := newCache(func(ctx context.Context, _ BucketRef, _ string) (KeyOwner, error) {
			lookups.Add(1)
			select {
			case <-time.After(time.Second):
				return KeyOwner{Sub: "acme"}, nil
			case <-ctx.Done():
				return KeyOwner{}, ctx.Err()
			}
		}, 100)
		// The client that started the look-up disconnects before the result. The other clients still receive it.
		ctx, disconnect := context.WithTimeout(t.Context(), time.Millisecond)
		defer disconnect()
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := c.check(ctx, b, "key", time.Minute); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("check(key) of a disconnected client: error = %v, want %v", err, context.DeadlineExceeded)
			}
		})
		synctest.Wait()
		for range 50 {
			wg.Go(func() {
				if user, err := c.check(t.Context(), b, "key", time.Minute); err != nil || user == nil {
					t.Errorf("check(key) = %v, %v, want a user and no error", user, err)
				}
			})
		}
		wg.Wait()
		if n := lookups.Load(); n != 1 {
			t.Errorf("check(key) of 51 concurrent requests: look-ups = %d, want 1", n)
		}
	})
}

func TestLookupTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, b := newCache(func(ctx context.Context, _ BucketRef, _ string) (KeyOwner, error) {
			<-ctx.Done()
			return KeyOwner{}, ctx.Err()
		}, 100)
		start := time.Now()
		if _, err := c.check(t.Context(), b, "key", time.Minute); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("check(key) with a stalled look-up: error = %v, want %v", err, context.DeadlineExceeded)
		}
		if elapsed := time.Since(start); elapsed != lookupTimeout {
			t.Errorf("check(key) took %s, want %s", elapsed, lookupTimeout)
		}
	})
}

func TestBucketsDoNotShareKeys(t *testing.T) {
	c, _ := newCache(func(_ context.Context, in BucketRef, key string) (KeyOwner, error) {
		if in.Name == "mine" && key == "key" {
			return KeyOwner{Sub: "acme"}, nil
		}
		return KeyOwner{}, errUnknown
	}, 100)
	first, second := c.bucket(BucketRef{AccountID: "a1", Name: "mine"}),
		c.bucket(BucketRef{AccountID: "a1", Name: "yours"})
	byID := c.bucket(BucketRef{AccountID: "a1", ID: "mine"})
	if mustCheck(t, c, &first, "key", time.Minute) == nil {
		t.Error("check(key) in its bucket = nil, want a user")
	}
	if mustCheck(t, c, &second, "key", time.Minute) != nil {
		t.Error("check(key) in another bucket = a user, want nil")
	}
	if mustCheck(t, c, &byID, "key", time.Minute) != nil {
		t.Error("check(key) in a bucket whose ID is the name of the key's bucket = a user, want nil")
	}
}

// TestInvalidKeysDoNotEvictValidKeys checks that a valid key stays cached after the results of many invalid keys, and
// that the cache has at most its capacity of valid and of invalid keys.
func TestInvalidKeysDoNotEvictValidKeys(t *testing.T) {
	lookups := map[string]int{}
	c, b := newCache(func(_ context.Context, _ BucketRef, key string) (KeyOwner, error) {
		lookups[key]++
		if strings.HasPrefix(key, "real") {
			return KeyOwner{Sub: key}, nil
		}
		return KeyOwner{}, errUnknown
	}, cacheShards*4)
	_ = mustCheck(t, c, b, "real", time.Minute)
	for i := range 5000 {
		_ = mustCheck(t, c, b, fmt.Sprintf("made-up-%d", i), time.Minute)
	}
	if user := mustCheck(t, c, b, "real", time.Minute); user == nil || lookups["real"] != 1 {
		t.Errorf("check(valid key) after many invalid ones: user = %v, look-ups = %d, want a user and 1",
			user, lookups["real"])
	}
	for i := range 5000 {
		_ = mustCheck(t, c, b, fmt.Sprintf("real-%d", i), time.Minute)
	}
	for i := range c.shards {
		s := &c.shards[i]
		if s.valid.Len() > 4 || s.invalid.Len() > 4 || len(s.byHash) != s.valid.Len()+s.invalid.Len() {
			t.Errorf("shard %d: valid = %d, invalid = %d, indexed = %d, want at most 4 each and their sum",
				i, s.valid.Len(), s.invalid.Len(), len(s.byHash))
		}
	}
}

func TestKeysAreCachedAsHashes(t *testing.T) {
	c, b := newCache(func(context.Context, BucketRef, string) (KeyOwner, error) { return KeyOwner{Sub: "acme"}, nil }, 100)
	_ = mustCheck(t, c, b, "the-secret-key", time.Minute)
	cached := 0
	for i := range c.shards {
		for _, element := range c.shards[i].byHash {
			cached++
			if strings.Contains(fmt.Sprintf("%#v", element.Value), "the-secret-key") {
				t.Error("a cached result contains the key, want only its hash")
			}
		}
	}
	if cached != 1 {
		t.Errorf("cached results = %d, want 1", cached)
	}
}

func BenchmarkCheck(b *testing.B) {
	c, bk := newCache(func(context.Context, BucketRef, string) (KeyOwner, error) {
		return KeyOwner{Sub: "acme"}, nil
	}, 1000)
	key := "gwk_0123456789ABCDEFGHIJKLMNOPQRSTUV_01234567"
	b.ReportAllocs()
	for b.Loop() {
		if user, err := c.check(b.Context(), bk, key, time.Hour); user == nil || err != nil {
			b.Fatalf("check(key) = %v, %v, want a user and no error", user, err)
		}
	}
}
