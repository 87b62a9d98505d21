package gateway

import (
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatewright/gatewright/shared/allowance"
	"github.com/gatewright/gatewright/shared/gateway/policy"
	"github.com/gatewright/gatewright/shared/store/storetest"
)

func TestWindowAdmitsItsLimitAndTheNextOneAgain(t *testing.T) {
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
						t.Errorf("window %d, request %d: admitted is %v", window, k, d.Admitted)
					}
					if d.Ends != 40*time.Second || !async && d.Remaining != max(0, int64(2-k)) {
						t.Errorf("request %d: %d are left and %v, the window ends in 40s", k, d.Remaining, d.Ends)
					}
					synctest.Wait()
				}
				time.Sleep(time.Minute)
			}
		})
	}
}

func TestLimitsOfDifferentNamesDoNotMeet(t *testing.T) {
	limits := &limiter{allowance.New(allowance.Options{
		Table: storetest.New(t), Now: time.Now, Random: storetest.Random(t), Log: slog.New(slog.DiscardHandler),
	}), time.Now}
	for _, name := range []string{"a", "b", "a/b", "a#b"} {
		d, err := limits.Take(t.Context(), policy.Allowance{Name: name, Limit: 1, Window: 24 * time.Hour})
		if err != nil || !d.Admitted {
			t.Errorf("%s: %+v, %v", name, d, err)
		}
	}
}
