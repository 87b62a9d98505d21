package integrity

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// notes stores the notes in memory, so that the next Run finds them.
type notes map[string][]byte

func (n notes) Note(key string) ([]byte, error) { return n[key], nil }

func (n notes) SetNotes(set map[string][]byte, _ ...string) error {
	maps.Copy(n, set)
	return nil
}

// runFor calls d.Run and cancels it after duration.
func (d Daily) runFor(t *testing.T, duration time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), duration)
	defer cancel()
	start := time.Now()
	d.Run(ctx)
	if elapsed := time.Since(start); elapsed != duration {
		t.Errorf("Run() ended after %v, want %v: it ends with its context", elapsed, duration)
	}
}

// TestDataAreCheckedDailyAcrossRestarts checks that the data is checked once a day, independently of restarts.
func TestDataAreCheckedDailyAcrossRestarts(t *testing.T) {
	const days = 10
	for name, uptime := range map[string]time.Duration{
		"each hour": time.Hour, "each 12 hours": 12 * time.Hour,
		"never": days * Interval,
	} {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				persisted, checks := notes{}, 0
				for range int(days * Interval / uptime) {
					Daily{
						Check: func(context.Context) (Report, error) { checks++; return Report{}, nil },
						Notes: persisted, Log: slog.New(slog.DiscardHandler), OnFinished: func(LastCheck) {},
					}.runFor(t, uptime)
				}
				if checks < days-1 || checks > days {
					t.Errorf("checks in %d days, restarted %s = %d, want %d or %d", days, name, checks, days-1, days)
				}
			})
		})
	}
}

// TestDamageIsLoggedAndCounted checks that the check logs and counts damage, and that a restart reports the count at
// once.
func TestDamageIsLoggedAndCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		var last LastCheck
		d := Daily{
			Check: func(context.Context) (Report, error) {
				return Report{Damage: []error{errors.New("a table"), errors.New("an object")}}, nil
			},
			Notes: notes{}, Log: slog.New(slog.NewJSONHandler(&log, nil)), OnFinished: func(l LastCheck) { last = l },
		}
		d.runFor(t, time.Hour)
		if n := strings.Count(log.String(), `"level":"ERROR"`); n != 2 ||
			!strings.Contains(log.String(), `"error":"an object","damaged":2`) {
			t.Errorf("log = %s, want an error line for each damage", log.String())
		}
		want := last
		if want.Damaged != 2 || want.EndedOn.IsZero() {
			t.Errorf("last check = %+v, want 2 damaged parts and its end", want)
		}
		last = LastCheck{}
		d.runFor(t, time.Second)
		if last != want {
			t.Errorf("last check after a restart = %+v, want %+v", last, want)
		}
	})
}

// TestUnfinishedCheckIsRetried checks that a check that did not
// finish is repeated on the same day, and does not report damage.
func TestUnfinishedCheckIsRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		checks, finished := 0, 0
		Daily{
			Check: func(context.Context) (Report, error) {
				if checks++; checks < 3 {
					return Report{}, errors.New("no space left on device")
				}
				return Report{}, nil
			},
			Notes: notes{lastCheckKey: []byte("no JSON")}, Log: slog.New(slog.DiscardHandler), OnFinished: func(LastCheck) {
				finished++
			},
		}.runFor(t, 4*time.Hour)
		if checks != 3 || finished != 1 {
			t.Errorf("Run() calls Check %d times and OnFinished %d times, want 3 and 1", checks, finished)
		}
	})
}

// TestCheckRateIsLimited checks that a check does not exceed the rate, and ends at once when it is canceled. It also
// checks the results of DailyRate.
func TestCheckRateIsLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const bytesPerSecond, seconds = 4 << 20, 10
		start := time.Now()
		if _, err := io.Copy(io.Discard,
			newThrottle(t.Context(), bytesPerSecond).reader(io.LimitReader(zeros{}, bytesPerSecond*seconds))); err != nil {
			t.Fatal(err)
		}
		if elapsed := time.Since(start); elapsed < (seconds-1)*time.Second || elapsed > (seconds+1)*time.Second {
			t.Errorf("reading %d s of bytes took %v, want %d s", seconds, elapsed, seconds)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start = time.Now()
		_, err := io.Copy(io.Discard, newThrottle(ctx, 1).reader(zeros{}))
		if elapsed := time.Since(start); err == nil || elapsed > time.Second {
			t.Errorf("reading with a context of 1 s = %v after %v, want an error within 1 s", err, elapsed)
		}
	})
	if got, want := DailyRate(1<<40), int64((1<<40)/(6*60*60)); got != want {
		t.Errorf("DailyRate(1 TiB) = %d, want %d: a check takes 6 hours at most", got, want)
	}
	if got := DailyRate(1 << 30); got != minRate {
		t.Errorf("DailyRate(1 GiB) = %d, want %d", got, minRate)
	}
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }
