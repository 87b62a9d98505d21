package allowance

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatewright/gatewright/shared/store"
)

// TestGivenUnitsAreAdmittedAgain, at this instance, or elsewhere when its place for
// the allowance is gone.
func TestGivenUnitsAreAdmittedAgain(t *testing.T) {
	for name, then := range map[string]func(q *Quotas, a Allowance){
		"at once":        func(*Quotas, Allowance) {},
		"after a drain":  func(q *Quotas, _ Allowance) { _ = q.Drain(context.Background()) },
		"after eviction": func(q *Quotas, a Allowance) { q.forget(a) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				table, a := newBackend(), month(10)
				q, other := table.quotas(1), table.quotas(2)
				if d := mustTake(t, q.pool, a, 10); !d.Admitted {
					t.Fatal(d)
				}
				if d := mustTake(t, q.pool, a, 1); d.Admitted {
					t.Fatal("more than there is")
				}
				then(q, a)
				q.Give(t.Context(), a, 4)
				if name == "at once" {
					if d := mustTake(t, q.pool, a, 1); !d.Admitted || d.Remaining != 3 {
						t.Errorf("one of the four: %+v", d)
					}
					if d := mustTake(t, other.pool, a, 1); d.Admitted {
						t.Error("another instance has them too")
					}
					if err := q.Drain(t.Context()); err != nil {
						t.Fatal(err)
					}
					q.Give(t.Context(), a, 1)
					time.Sleep(5 * time.Second)
				}
				if err := q.pool.flushReturns(t.Context()); err != nil {
					t.Fatal(err)
				}
				if got := used(t, q, a); got != 6 {
					t.Errorf("%d are used, want 6", got)
				}
				for n := range 5 {
					if d := mustTake(t, other.pool, a, 1); d.Admitted != (n < 4) {
						t.Errorf("unit %d elsewhere: %+v", n, d)
					}
				}
			})
		})
	}
}

// forget has the instance evict what it holds of an allowance.
func (q *Quotas) forget(a Allowance) {
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
		one, other := table.quotas(1), table.quotas(2)
		for n := range 2 * (repeatsPerReceipt + 1) {
			q := []*Quotas{one, other}[n%2]
			d, repeated, err := q.Once(t.Context(), a, 3, "key")
			if err != nil || !d.Admitted || repeated != (n%(repeatsPerReceipt+1) != 0) {
				t.Errorf("request %d: %+v, repeated %v, %v", n, d, repeated, err)
			}
			if got, want := used(t, q, a), int64(3+3*(n/(repeatsPerReceipt+1))); got != want {
				t.Errorf("after request %d %d are used, want %d", n, got, want)
			}
		}
		if d, repeated, err := one.Once(t.Context(), a, 5, "other"); err != nil || d.Admitted || repeated || d.RetryAfter == 0 {
			t.Errorf("beyond the limit: %+v, repeated %v, %v", d, repeated, err)
		}
		if d, repeated, err := one.Once(t.Context(), a, 4, "other"); err != nil || !d.Admitted || repeated {
			t.Errorf("after a refusal, which leaves no receipt: %+v, repeated %v, %v", d, repeated, err)
		}
		// A lower limit, as of a smaller plan, takes nothing of the receipt.
		a.Limit = 2
		if d, repeated, err := one.Once(t.Context(), a, 4, "other"); err != nil || !d.Admitted || !repeated {
			t.Errorf("repeated under a lower limit: %+v, %v, %v", d, repeated, err)
		}
		if d, repeated, err := one.Once(t.Context(), a, 4, "third"); err != nil || d.Admitted || repeated {
			t.Errorf("first under a limit below it: %+v, %v, %v", d, repeated, err)
		}
	})
}

// TestReceiptIsOfOneAllowance, and of no period: a retry may come in the next one.
func TestReceiptIsOfOneAllowance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, a := newBackend().quotas(1), month(10)
		next, another := a, a
		next.From, next.To = a.To, a.To.AddDate(0, 1, 0)
		another.Name += "2"
		for _, tt := range []struct {
			a        Allowance
			repeated bool
			wait     time.Duration
		}{{a, false, 0}, {another, false, 0}, {next, true, 0}, {a, true, receiptRetention}, {next, false, 32 * 24 * time.Hour}} {
			time.Sleep(tt.wait)
			if d, repeated, err := q.Once(t.Context(), tt.a, 1, "key"); err != nil || !d.Admitted || repeated != tt.repeated {
				t.Errorf("%+v: %+v, %v, %v", tt.a, d, repeated, err)
			}
		}
	})
}

// TestOnceSpendsWhatTheInstanceHolds, where the record has nothing left.
func TestOnceSpendsWhatTheInstanceHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, a := newBackend().quotas(1), month(10)
		mustTake(t, q.pool, a, 10)
		q.Give(t.Context(), a, 2)
		for _, tt := range []struct {
			key                string
			admitted, repeated bool
		}{{"a", true, false}, {"a", true, true}, {"b", true, false}, {"c", false, false}, {"b", true, true}} {
			if d, repeated, err := q.Once(t.Context(), a, 1, tt.key); err != nil || d.Admitted != tt.admitted || repeated != tt.repeated {
				t.Errorf("%s: %+v, %v, %v", tt.key, d, repeated, err)
			}
		}
		if begun, _ := q.held(a); begun != 0 || used(t, q, a) != 10 {
			t.Errorf("%d are held, %d used", begun, used(t, q, a))
		}
	})
}

// TestLostAnswerToAReceiptCountsNothingTwice: the caller repeats the request.
func TestLostAnswerToAReceiptCountsNothingTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table, a := newBackend(), month(10)
		q := table.quotas(1)
		table.instead = func(token string, writes []store.Write) error {
			_ = table.Backend.Transact(t.Context(), token, writes)
			return fmt.Errorf("%w: %w", store.ErrLost, errSimulated)
		}
		if d, _, err := q.Once(t.Context(), a, 3, "key"); err == nil || d.Admitted {
			t.Fatal(d, err)
		}
		if d, repeated, err := q.Once(t.Context(), a, 3, "key"); err != nil || !d.Admitted || !repeated {
			t.Errorf("%+v, %v, %v", d, repeated, err)
		}
		if got := used(t, q, a); got != 3 {
			t.Errorf("%d are used, want 3", got)
		}
	})
}

func TestStrangersReceiptsMakeNoLongKeys(t *testing.T) {
	long := string(make([]byte, 1<<20))
	key := month(1).receiptKey(long)
	if len(key.PK) > 512 || key == month(1).receiptKey(long+"a") {
		t.Errorf("the key has %d bytes", len(key.PK))
	}
	if _, _, err := newBackend().quotas(1).Once(t.Context(), month(1), 0, "key"); err == nil || errors.Is(err, errSpent) {
		t.Errorf("no units: %v", err)
	}
}
