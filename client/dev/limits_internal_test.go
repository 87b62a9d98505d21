package dev

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatewright/gatewright/shared/dataplane/gateway/policy"
)

func TestLimitResetsWithEachWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimits(time.Now)
		time.Sleep(20 * time.Second) // 40 s remain: the bubble's clock starts at midnight
		for window := range 3 {
			for k := range 5 {
				d, err := l.Take(t.Context(), policy.Allowance{Name: "a", Limit: 3, Window: time.Minute})
				if want := max(0, int64(2-k)); err != nil || d.Admitted != (k < 3) || d.Remaining != want ||
					d.ResetAfter != 40*time.Second {
					t.Errorf("window %d: Take() %d = %+v, %v, want Admitted %t, Remaining %d, ResetAfter 40s",
						window, k, d, err, k < 3, want)
				}
			}
			time.Sleep(time.Minute)
		}
	})
}

func TestQuotaUnitsAreAtomicAndRefundable(t *testing.T) {
	q := quotas{newLimits(time.Now)}
	c := policy.Counter{Subscription: "s", Meter: "m", Limit: 10, From: time.Now(), To: time.Now().Add(time.Hour)}
	for i, step := range []struct {
		take, refund int64
		admitted     bool
		remaining    int64
	}{
		{take: 7, admitted: true, remaining: 3},
		{take: 4},
		{take: 3, admitted: true},
		{take: 1},
		{refund: 2, take: 2, admitted: true},
		{refund: 100, take: 10, admitted: true},
	} {
		q.Refund(t.Context(), c, step.refund)
		d, err := q.Take(t.Context(), c, step.take)
		if err != nil || d.Admitted != step.admitted || d.Remaining != step.remaining {
			t.Errorf("step %d: Take(%d) = %+v, %v, want Admitted %t and Remaining %d",
				i, step.take, d, err, step.admitted, step.remaining)
		}
	}
	other := c
	other.Meter = "n"
	if d, _ := q.Take(t.Context(), other, 10); !d.Admitted {
		t.Error("Take() of another meter is refused, want it admitted")
	}
}

func TestReceiptIsCountedOnce(t *testing.T) {
	q := quotas{newLimits(time.Now)}
	c := policy.Counter{Subscription: "s", Meter: "m", Limit: 2, From: time.Now(), To: time.Now().Add(time.Hour)}
	takeOnce := func(receipt string) string {
		d, repeated, err := q.TakeOnce(t.Context(), c, 1, receipt)
		return fmt.Sprint(d.Admitted, repeated, d.Remaining, err)
	}
	if got := takeOnce("a"); got != "true false 1 <nil>" {
		t.Errorf("TakeOnce(a) = %s, want true false 1 <nil>", got)
	}
	for range receiptUses {
		if got := takeOnce("a"); got != "true true 1 <nil>" {
			t.Errorf("repeated TakeOnce(a) = %s, want true true 1 <nil>", got)
		}
	}
	// the receipt is counted again, and then known
	for i, want := range []string{"true false 0 <nil>", "true true 0 <nil>"} {
		if got := takeOnce("a"); got != want {
			t.Errorf("TakeOnce(a) %d after the last use of the receipt = %s, want %s", i, got, want)
		}
	}
	for range 2 { // a refused receipt is not stored
		if got := takeOnce("b"); got != "false false 0 <nil>" {
			t.Errorf("TakeOnce(b) past the limit = %s, want false false 0 <nil>", got)
		}
	}
}

func TestEndedPeriodsAreRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimits(time.Now)
		for i := range 100_000 {
			if _, err := l.Take(t.Context(), policy.Allowance{Name: fmt.Sprint(i), Limit: 1, Window: time.Second}); err != nil {
				t.Fatal(err)
			}
			if i%100 == 0 {
				time.Sleep(time.Second)
			}
		}
		if len(l.counters) > 3_000 {
			t.Errorf("%d counters are stored, want at most 3000", len(l.counters))
		}
	})
}
