package allowance

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatewright/gatewright/shared/core/store"
)

// TestRefundedUnitsAreAdmittedAgain checks that refunded units are admitted again by the same instance, and
// by another instance after they are returned. It also checks refunds after a drain and after an eviction.
func TestRefundedUnitsAreAdmittedAgain(t *testing.T) {
	for name, prepare := range map[string]func(q *Quotas, a Allowance){
		"an immediate refund":        func(*Quotas, Allowance) {},
		"a refund after a drain":     func(q *Quotas, _ Allowance) { _ = q.Drain(context.Background()) },
		"a refund after an eviction": func(q *Quotas, a Allowance) { q.evict(a) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				table, a := newBackend(), month(10)
				q, other := table.quotas(1), table.quotas(2)
				if d := mustTake(t, q.pool, a, 10); !d.Admitted {
					t.Fatalf("Take(10 of 10) = %+v, want admitted", d)
				}
				if d := mustTake(t, q.pool, a, 1); d.Admitted {
					t.Fatalf("Take(1) with no units left = %+v, want refused", d)
				}
				prepare(q, a)
				q.Refund(t.Context(), a, 4)
				if name == "an immediate refund" {
					if d := mustTake(t, q.pool, a, 1); !d.Admitted || d.Remaining != 3 {
						t.Errorf("Take(1) after Refund(4) = %+v, want admitted, 3 remaining", d)
					}
					if d := mustTake(t, other.pool, a, 1); d.Admitted {
						t.Errorf("Take(1) on another instance = %+v, want refused", d)
					}
					if err := q.Drain(t.Context()); err != nil {
						t.Fatal(err)
					}
					q.Refund(t.Context(), a, 1)
					time.Sleep(5 * time.Second)
				}
				if err := q.pool.flushReturns(t.Context()); err != nil {
					t.Fatal(err)
				}
				if got := used(t, q, a); got != 6 {
					t.Errorf("Used() after the return of 4 refunded units of 10 = %d, want 6", got)
				}
				for n := range 5 {
					if d := mustTake(t, other.pool, a, 1); d.Admitted != (n < 4) {
						t.Errorf("Take(1) of unit %d on another instance = %+v, want admitted %t", n, d, n < 4)
					}
				}
			})
		})
	}
}

// evict evicts the slot of an allowance.
func (q *Quotas) evict(a Allowance) {
	key := slotKey{a.period(), a.Limit}
	sh := q.pool.shard(key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if q.pool.remove(sh.slots[key]) {
		delete(sh.slots, key)
	}
}

func TestReceiptCountsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table, a := newBackend(), month(10)
		first, other := table.quotas(1), table.quotas(2)
		for n := range 2 * (maxReceiptRepeats + 1) {
			q := []*Quotas{first, other}[n%2]
			d, repeated, err := q.TakeOnce(t.Context(), a, 3, "key")
			if err != nil || !d.Admitted || repeated != (n%(maxReceiptRepeats+1) != 0) {
				t.Errorf("TakeOnce() %d = %+v, %t, %v, want admitted, repeated %t",
					n, d, repeated, err, n%(maxReceiptRepeats+1) != 0)
			}
			if got, want := used(t, q, a), int64(3+3*(n/(maxReceiptRepeats+1))); got != want {
				t.Errorf("Used() after request %d = %d, want %d", n, got, want)
			}
		}
		if d, repeated, err := first.TakeOnce(t.Context(), a, 5, "other"); err != nil || d.Admitted || repeated ||
			d.RetryAfter == 0 {
			t.Errorf("TakeOnce() beyond the limit = %+v, %t, %v, want refused with a RetryAfter, not repeated", d, repeated, err)
		}
		if d, repeated, err := first.TakeOnce(t.Context(), a, 4, "other"); err != nil || !d.Admitted || repeated {
			t.Errorf("TakeOnce() with the key of a refused request = %+v, %t, %v, want admitted, not repeated", d, repeated, err)
		}
		// A lower limit, as in a smaller plan, does not affect the receipt.
		a.Limit = 2
		if d, repeated, err := first.TakeOnce(t.Context(), a, 4, "other"); err != nil || !d.Admitted || !repeated {
			t.Errorf("repeated TakeOnce() under a lower limit = %+v, %t, %v, want admitted, repeated", d, repeated, err)
		}
		if d, repeated, err := first.TakeOnce(t.Context(), a, 4, "third"); err != nil || d.Admitted || repeated {
			t.Errorf("first TakeOnce() above a lower limit = %+v, %t, %v, want refused, not repeated", d, repeated, err)
		}
	})
}

// TestReceiptBelongsToOneAllowance checks that a receipt is only for its
// allowance, but for all periods, because a retry may follow in the next period.
func TestReceiptBelongsToOneAllowance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, a := newBackend().quotas(1), month(10)
		next, another := a, a
		next.From, next.To = a.To, a.To.AddDate(0, 1, 0)
		another.Name += "2"
		for _, tt := range []struct {
			a        Allowance
			repeated bool
			wait     time.Duration
		}{
			{a, false, 0},
			{another, false, 0},
			{next, true, 0},
			{a, true, receiptRetention},
			{next, false, 32 * 24 * time.Hour},
		} {
			time.Sleep(tt.wait)
			if d, repeated, err := q.TakeOnce(t.Context(), tt.a, 1, "key"); err != nil || !d.Admitted ||
				repeated != tt.repeated {
				t.Errorf("TakeOnce(%+v) = %+v, %t, %v, want admitted, repeated %t", tt.a, d, repeated, err, tt.repeated)
			}
		}
	})
}

// TestTakeOnceSpendsHeldUnits checks that TakeOnce admits requests with the units that the instance holds if the record
// has no units left.
func TestTakeOnceSpendsHeldUnits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, a := newBackend().quotas(1), month(10)
		mustTake(t, q.pool, a, 10)
		q.Refund(t.Context(), a, 2)
		for _, tt := range []struct {
			key                string
			admitted, repeated bool
		}{{"a", true, false}, {"a", true, true}, {"b", true, false}, {"c", false, false}, {"b", true, true}} {
			if d, repeated, err := q.TakeOnce(t.Context(), a, 1, tt.key); err != nil || d.Admitted != tt.admitted ||
				repeated != tt.repeated {
				t.Errorf("TakeOnce(%s) = %+v, %t, %v, want admitted %t, repeated %t",
					tt.key, d, repeated, err, tt.admitted, tt.repeated)
			}
		}
		if activated, _ := q.holdings(a); activated != 0 || used(t, q, a) != 10 {
			t.Errorf("activated units = %d, Used() = %d, want 0, 10", activated, used(t, q, a))
		}
	})
}

// TestTakeOnceAfterLostReplyCountsOnce checks that the units of a request that a caller repeats after a lost reply are
// counted once.
func TestTakeOnceAfterLostReplyCountsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table, a := newBackend(), month(10)
		q := table.quotas(1)
		table.replaceNext = func(token string, writes []store.Write) error {
			_ = table.Backend.Transact(t.Context(), token, writes)
			return fmt.Errorf("%w: %w", store.ErrOutcomeUnknown, errSimulated)
		}
		if d, _, err := q.TakeOnce(t.Context(), a, 3, "key"); err == nil || d.Admitted {
			t.Fatalf("TakeOnce() with a lost reply = %+v, %v, want an error", d, err)
		}
		if d, repeated, err := q.TakeOnce(t.Context(), a, 3, "key"); err != nil || !d.Admitted || !repeated {
			t.Errorf("repeated TakeOnce() after a lost reply = %+v, %t, %v, want admitted, repeated", d, repeated, err)
		}
		if got := used(t, q, a); got != 3 {
			t.Errorf("Used() after both calls of TakeOnce() = %d, want 3", got)
		}
	})
}

func TestReceiptKeyIsBounded(t *testing.T) {
	long := string(make([]byte, 1<<20))
	key := month(1).receiptKey(long)
	if len(key.PK) > 512 {
		t.Errorf("receiptKey() of 1 MiB has %d bytes, want at most 512", len(key.PK))
	}
	if key == month(1).receiptKey(long+"a") {
		t.Errorf("receiptKey() of two long texts = %v, want different keys", key)
	}
	if _, _, err := newBackend().quotas(1).TakeOnce(t.Context(), month(1), 0, "key"); err == nil ||
		errors.Is(err, errExceedsLimit) {
		t.Errorf("TakeOnce(0) = %v, want an error other than %v", err, errExceedsLimit)
	}
}
