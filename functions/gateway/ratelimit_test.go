package gateway

import (
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatewright/gatewright/shared/core/allowance"
	"github.com/gatewright/gatewright/shared/core/store/storetest"
	"github.com/gatewright/gatewright/shared/dataplane/gateway/policy"
)

func TestEachWindowAdmitsItsLimit(t *testing.T) {
	for _, async := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			limits := &limiter{allowance.New(allowance.Options{
				Table: storetest.New(t, storetest.Clock(time.Now)), Now: time.Now,
				Random: storetest.Random(t), Log: slog.New(slog.DiscardHandler),
			}), time.Now}
			a := policy.Allowance{Name: "a", Limit: 3, Window: time.Minute, Async: async}
			time.Sleep(20 * time.Second)
			for window := range 3 {
				for k := range 5 {
					d, err := limits.Take(t.Context(), a)
					if err != nil {
						t.Fatal(err)
					}
					if d.Admitted != (k < 3) {
						t.Errorf("async %t, window %d, request %d: Admitted = %v, want %v", async, window, k, d.Admitted, k < 3)
					}
					if d.ResetAfter != 40*time.Second || !async && d.Remaining != max(0, int64(2-k)) {
						t.Errorf("async %t, window %d, request %d: Remaining = %d, ResetAfter = %v, want %d (unless async) and 40s",
							async, window, k, d.Remaining, d.ResetAfter, max(0, int64(2-k)))
					}
					synctest.Wait()
				}
				time.Sleep(time.Minute)
			}
		})
	}
}

func TestLimitsAreIndependentByName(t *testing.T) {
	limits := &limiter{allowance.New(allowance.Options{
		Table: storetest.New(t), Now: time.Now, Random: storetest.Random(t), Log: slog.New(slog.DiscardHandler),
	}), time.Now}
	for _, name := range []string{"a", "b", "a/b", "a#b"} {
		d, err := limits.Take(t.Context(), policy.Allowance{Name: name, Limit: 1, Window: 24 * time.Hour})
		if err != nil || !d.Admitted {
			t.Errorf("Take(%s) = %+v, %v, want Admitted", name, d, err)
		}
	}
}
