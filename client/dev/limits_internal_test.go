package dev

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatewright/gatewright/shared/gateway/policy"
)

func TestAWindowAdmitsItsLimitAndTheNextOneAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimits(time.Now)
		time.Sleep(20 * time.Second) // into the second minute of the bubble's clock, which begins at midnight
		for window := range 3 {
			for k := range 5 {
				d, err := l.Take(t.Context(), policy.Allowance{Name: "a", Limit: 3, Window: time.Minute})
				if want := max(0, int64(2-k)); err != nil || d.Admitted != (k < 3) || d.Remaining != want || d.Ends != 40*time.Second {
					t.Errorf("window %d, request %d: %+v, %v", window, k, d, err)
				}
			}
			time.Sleep(time.Minute)
		}
	})
}

func TestUnitsAreCountedAllOrNoneAndComeBack(t *testing.T) {
	q := quotas{newLimits(time.Now)}
	c := policy.Counter{Subscription: "s", Meter: "m", Limit: 10, From: time.Now(), To: time.Now().Add(time.Hour)}
	for i, step := range []struct {
		take, give int64
		admitted   bool
		remaining  int64
	}{{take: 7, admitted: true, remaining: 3}, {take: 4}, {take: 3, admitted: true}, {take: 1}, {give: 2, take: 2, admitted: true}, {give: 100, take: 10, admitted: true}} {
		q.Give(t.Context(), c, step.give)
		d, err := q.Take(t.Context(), c, step.take)
		if err != nil || d.Admitted != step.admitted || d.Remaining != step.remaining {
			t.Errorf("step %d: %+v, %v", i, d, err)
		}
	}
	other := c
	other.Meter = "n"
	if d, _ := q.Take(t.Context(), other, 10); !d.Admitted {
		t.Error("meters meet")
	}
}

func TestAReceiptCountsOnce(t *testing.T) {
	q := quotas{newLimits(time.Now)}
	c := policy.Counter{Subscription: "s", Meter: "m", Limit: 2, From: time.Now(), To: time.Now().Add(time.Hour)}
	once := func(receipt string) string {
		d, repeated, err := q.Once(t.Context(), c, 1, receipt)
		return fmt.Sprint(d.Admitted, repeated, d.Remaining, err)
	}
	if got := once("a"); got != "true false 1 <nil>" {
		t.Errorf("first: %s", got)
	}
	for range receiptUses {
		if got := once("a"); got != "true true 1 <nil>" {
			t.Errorf("repeated: %s", got)
		}
	}
	for i, want := range []string{"true false 0 <nil>", "true true 0 <nil>"} { // it counts anew
		if got := once("a"); got != want {
			t.Errorf("then %d: %s", i, got)
		}
	}
	for range 2 { // a refusal leaves no receipt
		if got := once("b"); got != "false false 0 <nil>" {
			t.Errorf("past the limit: %s", got)
		}
	}
}

func TestEndedPeriodsAreForgotten(t *testing.T) {
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
		if len(l.used) > 3_000 {
			t.Errorf("%d are remembered", len(l.used))
		}
	})
}
