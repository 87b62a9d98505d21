package allowance

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestWindowsTileTimeFrom1970(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := time.UnixMilli(rapid.Int64Range(-1e13, 1e13).Draw(t, "now"))
		length := time.Duration(rapid.Int64Range(1, 1e9).Draw(t, "length ms")) * time.Millisecond
		from, to := Window(now, length)
		if now.Before(from) || !now.Before(to) || to.Sub(from) != length {
			t.Fatalf("%v lies not in [%v, %v)", now, from, to)
		}
		if from.UnixMilli()%length.Milliseconds() != 0 {
			t.Fatalf("the window begins at %v, no multiple of %v", from, length)
		}
		if next, _ := Window(to, length); !next.Equal(to) {
			t.Fatalf("the next window begins at %v, not at %v", next, to)
		}
	})
}

func TestSliceNeverExceedsItsBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		from, to := Window(time.UnixMilli(rapid.Int64Range(0, 1e13).Draw(t, "now")), time.Duration(rapid.Int64Range(1, 1e7).Draw(t, "length ms"))*time.Millisecond)
		p := Allowance{Name: "a", From: from, To: to}.period()
		d := demand{granted: -1}
		limit := rapid.Int64Range(1, 1e12).Draw(t, "limit")
		now, spent, granted := from, int64(0), int64(0)
		for range rapid.IntRange(1, 20).Draw(t, "leases") {
			// Clocks go on, stand still and jump, past the period's end too.
			now = now.Add(time.Duration(rapid.Int64Range(-2e9, 2e10).Draw(t, "step")))
			need := rapid.Int64Range(1, 100).Draw(t, "need")
			if want := d.want(p, now, need, spent, 0); !d.at.IsZero() && want > growth*(spent-d.spent+need) {
				t.Fatalf("wants %d, more than %d times what was asked for", want, growth)
			}
			left := max(limit-granted, 0)
			if most := d.maxSlice(limit, left); most < 1 || most > max(left/2, limit/smallestParts, 1) {
				t.Fatalf("takes up to %d of %d left", most, left)
			}
			spent += need
			d.leased(now, need, spent, granted)
			granted += need + rapid.Int64Range(-5, 50).Draw(t, "others")
			if d.share < 0 || d.share > 1 {
				t.Fatalf("the share is %v", d.share)
			}
		}
	})
}

func TestSurplusIsWhatTrafficWillNotSpend(t *testing.T) {
	from, to := Window(time.UnixMilli(0), time.Minute)
	p := Allowance{Name: "a", From: from, To: to}.period()
	half := from.Add(30 * time.Second)
	tests := []struct {
		name        string
		held, spent int64 // over the last 15 s
		now         time.Time
		want        int64
	}{
		{"nothing held", 0, 0, half, 0},
		{"nothing asked for", 40, 0, half, 40},
		{"as much as is asked for", 40, 40, half, 0},
		{"a little more than is asked for", 60, 40, half, 0},
		{"far more than is asked for", 400, 40, half, 360},
		{"the period is over in a second", 400, 40, to.Add(-time.Second), 398},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := surplus(p, 1000, tt.held, tt.spent, 15*time.Second, tt.now); got != tt.want {
				t.Errorf("gives back %d, want %d", got, tt.want)
			}
		})
	}
}
