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

	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/gateway/pipeline"
)

// lookup is a Keys made of a function.
type lookup func(ctx context.Context, in BucketRef, key string) (Identity, error)

func (f lookup) Verify(ctx context.Context, in BucketRef, key string) (Identity, error) {
	return f(ctx, in, key)
}

var errUnknown = fault.New(fault.Unauthenticated, "Authorization Failed")

func newCache(f lookup, size int) (*KeyCache, *bucket) {
	c := NewKeyCache(f, size, [32]byte{1}, time.Now)
	b := c.bucket(BucketRef{AccountID: "a1", Name: "bucket"})
	return c, &b
}

func mustCheck(t *testing.T, c *KeyCache, b *bucket, key string, ttl time.Duration) *pipeline.User {
	t.Helper()
	user, err := c.check(t.Context(), b, key, ttl)
	if err != nil {
		t.Fatalf("check %s: %v", key, err)
	}
	return user
}

func TestAnAnswerIsBelievedForItsTimeFromTheStartOfTheLookUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lookups := 0
		revoked := false
		c, b := newCache(func(context.Context, BucketRef, string) (Identity, error) {
			lookups++
			known := !revoked
			time.Sleep(4 * time.Second) // the table read is at the beginning
			if !known {
				return Identity{}, errUnknown
			}
			return Identity{Sub: "acme"}, nil
		}, 100)
		started := time.Now()
		if user := mustCheck(t, c, b, "key", time.Minute); user == nil || user.Sub != "acme" {
			t.Fatalf("got %v", user)
		}
		revoked = true
		time.Sleep(time.Until(started.Add(time.Minute - time.Nanosecond)))
		if user := mustCheck(t, c, b, "key", time.Minute); user == nil || lookups != 1 {
			t.Errorf("within its time: user %v, %d look-ups", user, lookups)
		}
		time.Sleep(time.Nanosecond)
		if user := mustCheck(t, c, b, "key", time.Minute); user != nil || lookups != 2 {
			t.Errorf("after its time: user %v, %d look-ups", user, lookups)
		}
		if user := mustCheck(t, c, b, "key", time.Hour); user != nil {
			t.Error("a policy that believes for longer revives the key")
		}
	})
}

func TestALookUpInFlightNeverRevivesAKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, b := newCache(nil, 100)
		hash := keyHash{7}
		shard := &c.shards[hash[0]%cacheShards]
		early := time.Now()
		time.Sleep(time.Second)
		// The later look-up has seen the key revoked and answers first.
		shard.put(&answer{hash: hash, started: time.Now()})
		shard.put(&answer{hash: hash, started: early, user: &pipeline.User{Sub: "acme"}})
		if a := shard.get(hash); a.user != nil {
			t.Error("the earlier look-up replaced the later one's answer")
		}
		_ = b
	})
}

func TestAKeyEndsAtItsExpiryWhateverIsRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		expiry := time.Now().Add(20 * time.Second)
		lookups := 0
		c, b := newCache(func(context.Context, BucketRef, string) (Identity, error) {
			lookups++
			if !time.Now().Before(expiry) {
				return Identity{}, errUnknown
			}
			return Identity{Sub: "acme", ExpiresOn: &expiry}, nil
		}, 100)
		if mustCheck(t, c, b, "key", time.Minute) == nil {
			t.Fatal("refused before its expiry")
		}
		time.Sleep(20*time.Second - time.Nanosecond)
		if mustCheck(t, c, b, "key", time.Minute) == nil {
			t.Error("refused just before its expiry")
		}
		time.Sleep(time.Nanosecond)
		if mustCheck(t, c, b, "key", time.Minute) != nil {
			t.Error("accepted at its expiry")
		}
		if lookups != 1 {
			t.Errorf("%d look-ups", lookups)
		}
		// Its owner gives it more time: that is seen soon.
		expiry = time.Now().Add(time.Hour)
		time.Sleep(negativeTTL)
		if mustCheck(t, c, b, "key", time.Minute) == nil {
			t.Error("still refused after its expiry was moved")
		}
	})
}

func TestARefusalIsBelievedBriefly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lookups := 0
		known := false
		c, b := newCache(func(context.Context, BucketRef, string) (Identity, error) {
			lookups++
			if !known {
				return Identity{}, errUnknown
			}
			return Identity{Sub: "acme"}, nil
		}, 100)
		for range 3 {
			if mustCheck(t, c, b, "key", time.Minute) != nil {
				t.Fatal("an unknown key is accepted")
			}
		}
		if lookups != 1 {
			t.Errorf("%d look-ups", lookups)
		}
		known = true
		time.Sleep(negativeTTL)
		if mustCheck(t, c, b, "key", time.Minute) == nil {
			t.Error("refused after the refusal's time")
		}
	})
}

func TestAFailedLookUpIsNoAnswer(t *testing.T) {
	broken := errors.New("the table is away")
	fails := true
	c, b := newCache(func(context.Context, BucketRef, string) (Identity, error) {
		if fails {
			return Identity{}, broken
		}
		return Identity{Sub: "acme"}, nil
	}, 100)
	if user, err := c.check(t.Context(), b, "key", time.Minute); !errors.Is(err, broken) || user != nil {
		t.Errorf("got %v, %v", user, err)
	}
	fails = false
	if mustCheck(t, c, b, "key", time.Minute) == nil {
		t.Error("the failure is remembered")
	}
}

func TestThoseWhoAskAtOnceShareALookUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lookups atomic.Int32
		c, b := newCache(func(ctx context.Context, _ BucketRef, _ string) (Identity, error) {
			lookups.Add(1)
			select {
			case <-time.After(time.Second):
				return Identity{Sub: "acme"}, nil
			case <-ctx.Done():
				return Identity{}, ctx.Err()
			}
		}, 100)
		// The first one leaves before the answer: the others get it all the same.
		ctx, leave := context.WithTimeout(t.Context(), time.Millisecond)
		defer leave()
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := c.check(ctx, b, "key", time.Minute); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("who left got %v", err)
			}
		})
		synctest.Wait()
		for range 50 {
			wg.Go(func() {
				if user, err := c.check(t.Context(), b, "key", time.Minute); err != nil || user == nil {
					t.Errorf("got %v, %v", user, err)
				}
			})
		}
		wg.Wait()
		if n := lookups.Load(); n != 1 {
			t.Errorf("%d look-ups", n)
		}
	})
}

func TestALookUpThatHangsEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, b := newCache(func(ctx context.Context, _ BucketRef, _ string) (Identity, error) {
			<-ctx.Done()
			return Identity{}, ctx.Err()
		}, 100)
		begin := time.Now()
		if _, err := c.check(t.Context(), b, "key", time.Minute); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		if took := time.Since(begin); took != lookupTimeout {
			t.Errorf("took %s", took)
		}
	})
}

func TestBucketsDoNotShareKeys(t *testing.T) {
	c, _ := newCache(func(_ context.Context, in BucketRef, key string) (Identity, error) {
		if in.Name == "mine" && key == "key" {
			return Identity{Sub: "acme"}, nil
		}
		return Identity{}, errUnknown
	}, 100)
	mine, yours := c.bucket(BucketRef{AccountID: "a1", Name: "mine"}), c.bucket(BucketRef{AccountID: "a1", Name: "yours"})
	byID := c.bucket(BucketRef{AccountID: "a1", ID: "mine"})
	if mustCheck(t, c, &mine, "key", time.Minute) == nil {
		t.Error("refused in its bucket")
	}
	if mustCheck(t, c, &yours, "key", time.Minute) != nil || mustCheck(t, c, &byID, "key", time.Minute) != nil {
		t.Error("accepted in another bucket")
	}
}

func TestMadeUpKeysPushNoRealOneOut(t *testing.T) {
	lookups := map[string]int{}
	c, b := newCache(func(_ context.Context, _ BucketRef, key string) (Identity, error) {
		lookups[key]++
		if strings.HasPrefix(key, "real") {
			return Identity{Sub: key}, nil
		}
		return Identity{}, errUnknown
	}, cacheShards*4)
	_ = mustCheck(t, c, b, "real", time.Minute)
	for i := range 5000 {
		_ = mustCheck(t, c, b, fmt.Sprintf("made-up-%d", i), time.Minute)
	}
	if mustCheck(t, c, b, "real", time.Minute) == nil || lookups["real"] != 1 {
		t.Errorf("the real key was looked up %d times", lookups["real"])
	}
	for i := range 5000 {
		_ = mustCheck(t, c, b, fmt.Sprintf("real-%d", i), time.Minute)
	}
	for i := range c.shards {
		s := &c.shards[i]
		if s.good.Len() > 4 || s.bad.Len() > 4 || len(s.byHash) != s.good.Len()+s.bad.Len() {
			t.Errorf("shard %d keeps %d and %d answers, %d in its index", i, s.good.Len(), s.bad.Len(), len(s.byHash))
		}
	}
}

func TestKeysAreNotKeptAsText(t *testing.T) {
	c, b := newCache(func(context.Context, BucketRef, string) (Identity, error) { return Identity{Sub: "acme"}, nil }, 100)
	_ = mustCheck(t, c, b, "the-secret-key", time.Minute)
	for i := range c.shards {
		for _, element := range c.shards[i].byHash {
			if strings.Contains(fmt.Sprintf("%#v", element.Value), "the-secret-key") {
				t.Error("an answer holds the key")
			}
		}
	}
}

func BenchmarkCheck(b *testing.B) {
	c, bk := newCache(func(context.Context, BucketRef, string) (Identity, error) { return Identity{Sub: "acme"}, nil }, 1000)
	key := "gwk_0123456789ABCDEFGHIJKLMNOPQRSTUV_01234567"
	b.ReportAllocs()
	for b.Loop() {
		if user, err := c.check(b.Context(), bk, key, time.Hour); user == nil || err != nil {
			b.Fatal("refused")
		}
	}
}
