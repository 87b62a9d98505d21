package allowance

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestWindowsAreContiguous(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := time.UnixMilli(rapid.Int64Range(-1e13, 1e13).Draw(t, "now"))
		length := time.Duration(rapid.Int64Range(1, 1e9).Draw(t, "length ms")) * time.Millisecond
		from, to := Window(now, length)
		if now.Before(from) || !now.Before(to) || to.Sub(from) != length {
			t.Fatalf("Window(%v, %v) = [%v, %v), want a window of this length with the instant in it", now, length, from, to)
		}
		if from.UnixMilli()%length.Milliseconds() != 0 {
			t.Fatalf("Window() begins at %v, want a multiple of %v", from, length)
		}
		if next, _ := Window(to, length); !next.Equal(to) {
			t.Fatalf("next Window() begins at %v, want %v", next, to)
		}
	})
}

func TestSliceNeverExceedsItsBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		from, to := Window(time.UnixMilli(rapid.Int64Range(0, 1e13).Draw(t, "now")),
			time.Duration(rapid.Int64Range(1, 1e7).Draw(t, "length ms"))*time.Millisecond)
		p := Allowance{Name: "a", From: from, To: to}.period()
		d := demand{granted: -1}
		limit := rapid.Int64Range(1, 1e12).Draw(t, "limit")
		now, spent, granted := from, int64(0), int64(0)
		for range rapid.IntRange(1, 20).Draw(t, "leases") {
			// The clock advances, stops and jumps, also past the period's end.
			now = now.Add(time.Duration(rapid.Int64Range(-2e9, 2e10).Draw(t, "step")))
			need := rapid.Int64Range(1, 100).Draw(t, "need")
			if want, bound := d.want(p, now, need, spent, 0), maxGrowth*(spent-d.spent+need); !d.at.IsZero() && want > bound {
				t.Fatalf("want() = %d, want at most %d, which is %d times the demand", want, bound, maxGrowth)
			}
			remaining := max(limit-granted, 0)
			if slice := d.maxSlice(limit, remaining); slice < 1 || slice > max(remaining/2, limit/minSliceDivisor, 1) {
				t.Fatalf("maxSlice(%d, %d) = %d, want 1 to %d", limit, remaining, slice, max(remaining/2, limit/minSliceDivisor, 1))
			}
			spent += need
			d.recordLease(now, need, spent, granted)
			granted += need + rapid.Int64Range(-5, 50).Draw(t, "others")
			if d.share < 0 || d.share > 1 {
				t.Fatalf("share after recordLease() = %v, want 0 to 1", d.share)
			}
		}
	})
}

func TestSurplus(t *testing.T) {
	from, to := Window(time.UnixMilli(0), time.Minute)
	p := Allowance{Name: "a", From: from, To: to}.period()
	half := from.Add(30 * time.Second)
	tests := []struct {
		name        string
		held, spent int64 // held units, and units spent in the last 15 s
		now         time.Time
		want        int64
	}{
		{"no units", 0, 0, half, 0},
		{"no demand", 40, 0, half, 40},
		{"as many units as the demand", 40, 40, half, 0},
		{"a few more units than the demand", 60, 40, half, 0},
		{"ten times the demand", 400, 40, half, 360},
		{"a second before the period's end", 400, 40, to.Add(-time.Second), 398},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := surplus(p, 1000, tt.held, tt.spent, 15*time.Second, tt.now); got != tt.want {
				t.Errorf("surplus() = %d, want %d", got, tt.want)
			}
		})
	}
}

// TestDemandWant checks the number of units that an instance wants. Its last lease was 10 s after the start of a period
// of a minute, when it had spent 10 units.
func TestDemandWant(t *testing.T) {
	const lastLease = 10 * time.Second
	for _, tt := range []struct {
		name                   string
		now                    time.Duration
		need, spent, available int64
		want                   int64
	}{
		{"demand of the time since the last lease", lastLease + 5*time.Second, 5, 20, 0, 45},
		{"demand less the available units", lastLease + 5*time.Second, 5, 20, 3, 42},
		{"demand until the period's end", 55 * time.Second, 5, 20, 0, 1},
		{"four times the demand after a burst", lastLease + 100*time.Millisecond, 5, 20, 0, 60},
		{"four times the demand at the time of the last lease", lastLease, 5, 20, 4, 56},
		{"no demand", lastLease, 0, 10, 3, -3},
		{"waiting units at the period's end", time.Minute, 5, 20, 0, 5},
		{"waiting units after the period's end", 2 * time.Minute, 5, 20, 0, 5},
		{"a burst after the clock went back", lastLease - time.Second, 5, 20, 0, 60},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := demand{at: at(lastLease), spent: 10, granted: -1}
			if got := d.want(minutePeriod(), at(tt.now), tt.need, tt.spent, tt.available); got != tt.want {
				t.Errorf("want() = %d, want %d", got, tt.want)
			}
		})
	}
	// The period's end cuts off a burst.
	d := demand{at: at(time.Minute), spent: 10}
	if got := d.want(minutePeriod(), at(time.Minute), 5, 20, 0); got != 5 {
		t.Errorf("want() at the period's end = %d, want the 5 that callers wait for", got)
	}
	for first, want := range map[int64]int64{0: 3, 3: 3, 8: 8} {
		if got := (&demand{first: first}).want(minutePeriod(), at(0), 3, 0, 100); got != want {
			t.Errorf("want() before the first lease, with a first slice of %d = %d, want %d", first, got, want)
		}
	}
}

func TestDemandLearnsShare(t *testing.T) {
	for _, tt := range []struct {
		name        string
		granted     int64
		share       float64
		n, before   int64
		wantShare   float64
		wantGranted int64
	}{
		{"unknown grants", -1, 0, 10, 100, 0, 110},
		{"the record was empty", -1, 0, 10, 0, 0, 10},
		{"four times as many units leased by others", 100, 0, 10, 140, 0.2, 150},
		{"all earlier units leased by others", 0, 0, 10, 30, 0.25, 40},
		{"no units leased by others", 100, 0, 10, 100, 1, 110},
		{"units returned by others", 100, 0, 10, 60, 1, 70},
		{"the average with a known share", 100, 0.6, 10, 140, 0.4, 150},
		{"no lease", 100, 0.6, 0, 140, 0.6, 140},
		{"a lease without a read of the record", 100, 0.6, 10, -1, 0.6, -1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := demand{granted: tt.granted, share: tt.share}
			d.recordLease(at(time.Second), tt.n, 7, tt.before)
			if d.share < tt.wantShare-1e-9 || d.share > tt.wantShare+1e-9 || d.granted != tt.wantGranted {
				t.Errorf("recordLease(%d, before %d): share %v, granted %d, want %v, %d",
					tt.n, tt.before, d.share, d.granted, tt.wantShare, tt.wantGranted)
			}
			if !d.at.Equal(at(time.Second)) || d.spent != 7 {
				t.Errorf("recordLease(%d, before %d): at %v, spent %d, want %v, 7", tt.n, tt.before, d.at, d.spent, at(time.Second))
			}
		})
	}
}

// TestMaxSliceIsHalfOfShare checks that a slice is half of the instance's share of the remaining units, but at least a
// fortieth of the limit.
func TestMaxSliceIsHalfOfShare(t *testing.T) {
	for _, tt := range []struct {
		share            float64
		limit, remaining int64
		want             int64
	}{
		{0, 1000, 800, 100}, // the default share is a quarter
		{0.5, 1000, 800, 200},
		{1, 1000, 800, 400},
		{0.5, 4000, 80, 100}, // a fortieth of the limit, no matter how little is left
		{0.5, 10, 1, 1},
		{0.5, 1000, 0, 25},
	} {
		if got := (&demand{share: tt.share}).maxSlice(tt.limit, tt.remaining); got != tt.want {
			t.Errorf("maxSlice(%d, %d) with a share of %v = %d, want %d", tt.limit, tt.remaining, tt.share, got, tt.want)
		}
	}
}

// TestSurplusHasThreshold checks the number of held units above which an instance has a surplus, and that there is no
// surplus if no time has passed. After the period's end, all held units are surplus.
func TestSurplusHasThreshold(t *testing.T) {
	for _, tt := range []struct {
		name        string
		held, spent int64
		elapsed     time.Duration
		want        int64
	}{
		{"twice the demand and a fortieth of the limit", 106, 40, 15 * time.Second, 0},
		{"one unit more", 107, 40, 15 * time.Second, 67},
		{"no time has passed", 400, 0, 0, 0},
		{"the clock went back", 400, 0, -time.Second, 0},
	} {
		if got := surplus(minutePeriod(), 1000, tt.held, tt.spent, tt.elapsed, at(30*time.Second)); got != tt.want {
			t.Errorf("%s: surplus() = %d, want %d", tt.name, got, tt.want)
		}
	}
	if got := surplus(minutePeriod(), 1000, 400, 40, 15*time.Second, at(2*time.Minute)); got != 400 {
		t.Errorf("surplus() after the period's end = %d, want all 400", got)
	}
}

func TestHorizonsAreBounded(t *testing.T) {
	for length, want := range map[time.Duration][2]time.Duration{ // horizon, and recheckInterval
		time.Millisecond: {250 * time.Millisecond, 100 * time.Millisecond},
		2 * time.Second:  {500 * time.Millisecond, 125 * time.Millisecond},
		time.Minute:      {15 * time.Second, 3750 * time.Millisecond},
		24 * time.Hour:   {30 * time.Second, 5 * time.Second},
	} {
		p := period{to: length.Milliseconds()}
		if got := [2]time.Duration{horizon(p), recheckInterval(p)}; got != want {
			t.Errorf("horizon() and recheckInterval() for %v = %v, want %v", length, got, want)
		}
	}
}
